//! Undo information of a row change: in the log for a restart, and in memory for a rollback.

use crate::PageNumber;
use crate::bytes::{Reader, put_bytes, put_u16, put_u32};
use entresol_core::Lsn;

/// The undo of one change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo<'a> {
    /// The row was inserted: delete it.
    Insert { root: PageNumber, key: &'a [u8] },
    /// The row was deleted: insert it.
    Delete { root: PageNumber, key: &'a [u8], value: &'a [u8] },
    /// The row had another value: restore it.
    Update { root: PageNumber, key: &'a [u8], value: &'a [u8] },
    /// Bytes at `at` of the row's value were different: restore them.
    Patch { root: PageNumber, key: &'a [u8], at: u16, bytes: &'a [u8] },
}

const INSERT: u8 = 1;
const DELETE: u8 = 2;
const UPDATE: u8 = 3;
const PATCH: u8 = 4;

impl<'a> Undo<'a> {
    /// Appends the undo to a log record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut start = |tag: u8, root: PageNumber, key: &[u8]| {
            out.push(tag);
            put_u32(out, root.0);
            put_bytes(out, key);
        };
        match *self {
            Undo::Insert { root, key } => start(INSERT, root, key),
            Undo::Delete { root, key, value } => {
                start(DELETE, root, key);
                put_bytes(out, value);
            }
            Undo::Update { root, key, value } => {
                start(UPDATE, root, key);
                put_bytes(out, value);
            }
            Undo::Patch { root, key, at, bytes } => {
                start(PATCH, root, key);
                put_u16(out, at);
                put_bytes(out, bytes);
            }
        }
    }

    /// Reads one undo from a log record; `None` if it is malformed.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Option<Undo<'a>> {
        let (tag, root, key) = (reader.u8()?, PageNumber(reader.u32()?), reader.bytes()?);
        Some(match tag {
            INSERT => Undo::Insert { root, key },
            DELETE => Undo::Delete { root, key, value: reader.bytes()? },
            UPDATE => Undo::Update { root, key, value: reader.bytes()? },
            PATCH => Undo::Patch { root, key, at: reader.u16()?, bytes: reader.bytes()? },
            _ => return None,
        })
    }
}

/// The undo entries of one transaction, newest last.
#[derive(Default)]
pub(crate) struct UndoLog {
    bytes: Vec<u8>,
    /// End of each entry in `bytes`, and LSN of its record.
    entries: Vec<(usize, Lsn)>,
    /// Pages of some of the newest entries, unordered.
    recent: [PageNumber; RECENT],
}

/// Number of remembered pages: a transaction that fills a few tables alternates between their leaves.
const RECENT: usize = 4;

impl UndoLog {
    /// Drafts an encoded entry whose record is about to be logged.
    pub(crate) fn draft(&mut self, encoded: &[u8]) {
        let start = self.entries.last().map_or(0, |(end, _)| *end);
        self.bytes.truncate(start);
        self.bytes.extend_from_slice(encoded);
    }

    /// Whether the page is one of the remembered pages. From now on it is remembered.
    pub(crate) fn visit(&mut self, page: PageNumber) -> bool {
        let seen = self.recent.contains(&page);
        if !seen {
            self.recent.rotate_right(1);
            self.recent[0] = page;
        }
        seen
    }

    /// The drafted entry's record was logged.
    pub(crate) fn seal(&mut self, lsn: Lsn) {
        self.entries.push((self.bytes.len(), lsn));
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.recent = [PageNumber::NONE; RECENT];
    }

    /// Bytes of the buffer.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entry `index`, encoded, and the LSN of the record before it (0: none).
    pub(crate) fn entry(&self, index: usize) -> (&[u8], Lsn) {
        let (start, previous) = match index.checked_sub(1) {
            Some(before) => self.entries[before],
            None => (0, Lsn(0)),
        };
        (&self.bytes[start..self.entries[index].0], previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_encoding_and_comes_back_newest_first() {
        let (root, key) = (PageNumber(2), b"key".as_slice());
        let all = [
            Undo::Insert { root, key },
            Undo::Delete { root, key, value: b"old" },
            Undo::Update { root, key, value: b"" },
            Undo::Patch { root, key, at: 3, bytes: b"xy" },
        ];
        let mut log = UndoLog::default();
        for (index, undo) in all.iter().enumerate() {
            let mut bytes = Vec::new();
            undo.encode(&mut bytes);
            log.draft(b"abandoned");
            log.draft(&bytes);
            log.seal(Lsn(100 + index as u64));
        }
        for index in (0..log.len()).rev() {
            let (bytes, previous) = log.entry(index);
            assert_eq!(Undo::decode(&mut Reader(bytes)), Some(all[index]));
            assert_eq!(previous.0, if index == 0 { 0 } else { 99 + index as u64 });
        }
        assert_eq!(Undo::decode(&mut Reader(&[PATCH, 1, 2])), None);
    }
}
