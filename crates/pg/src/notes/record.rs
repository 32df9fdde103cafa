//! The format of files with notes: a head, and records, one after the other. Each is filled up with zeros to
//! a multiple of 512 bytes, as a disk writes them.
//!
//! | bytes of the head | what |
//! |---|---|
//! | 0..8 | `ENTSALT\0` |
//! | 8..16 | the file's salt |
//! | 16..20 | CRC32C of the salt |
//!
//! | bytes of a record | what |
//! |---|---|
//! | 0..8 | `ENTNOTES` |
//! | 8..12 | number of notes |
//! | 12..16 | CRC32C of the salt and the notes |
//! | then 36 for each note | locator of the fork (24), block (4), LSN (8) |
//!
//! All numbers are little-endian. The head is durable before the first record is written. A crash may lose
//! any record, or a part of it: a reader continues with the next one that is whole. By the salt a record of
//! an older file is told, which some file systems show after a crash where a block was not written again.

use crate::locator::{fork_of, locator_of};
use crate::types::EntFork;
use entresol_format::checksum;
use entresol_objects::LOCATOR_BYTES;

const HEAD_MAGIC: [u8; 8] = *b"ENTSALT\0";
const MAGIC: [u8; 8] = *b"ENTNOTES";
const HEAD_BYTES: usize = 16;
const NOTE_BYTES: usize = LOCATOR_BYTES + 12;
const SECTOR_BYTES: usize = 512;
/// Notes in a record, at most: 8 KiB.
pub(super) const RECORD_NOTES: usize = (8192 - HEAD_BYTES) / NOTE_BYTES;

/// Which version of a block is durable in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub fork: EntFork,
    pub block: u32,
    pub lsn: u64,
}

/// The head of a file.
pub(super) fn begin(salt: u64) -> [u8; SECTOR_BYTES] {
    let mut head = [0; SECTOR_BYTES];
    head[..8].copy_from_slice(&HEAD_MAGIC);
    head[8..16].copy_from_slice(&salt.to_le_bytes());
    head[16..20].copy_from_slice(&checksum::of(&salt.to_le_bytes()).to_le_bytes());
    head
}

fn sum_of(salt: u64, notes: &[u8]) -> u32 {
    checksum::append(checksum::of(&salt.to_le_bytes()), notes)
}

/// Appends a record of at most [`RECORD_NOTES`] to those of the file with this salt.
pub(super) fn encode(salt: u64, notes: &[Note], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&(notes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for note in notes {
        bytes.extend_from_slice(&locator_of(&note.fork));
        bytes.extend_from_slice(&note.block.to_le_bytes());
        bytes.extend_from_slice(&note.lsn.to_le_bytes());
    }
    let sum = sum_of(salt, &bytes[start + HEAD_BYTES..]);
    bytes[start + 12..start + HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    bytes.resize(start + (bytes.len() - start).next_multiple_of(SECTOR_BYTES), 0);
}

/// Calls `each` with all notes of whole records of a file, in their order.
pub(super) fn decode(bytes: &[u8], mut each: impl FnMut(Note)) {
    let Some((head, mut bytes)) = bytes.split_first_chunk::<SECTOR_BYTES>() else { return };
    let salt = u64::from_le_bytes(*head[8..].first_chunk().expect("a head is longer"));
    if *head != begin(salt) {
        return;
    }
    while bytes.len() >= HEAD_BYTES {
        let notes = whole_record(salt, bytes);
        let length = notes.map_or(HEAD_BYTES, |notes| HEAD_BYTES + notes.len());
        for note in notes.unwrap_or_default().as_chunks::<NOTE_BYTES>().0 {
            let (locator, rest) = note.split_first_chunk::<LOCATOR_BYTES>().expect("a note is longer");
            let (block, lsn) = rest.split_first_chunk::<4>().expect("a note is longer");
            let lsn = lsn.first_chunk().expect("a note is as long");
            each(Note {
                fork: fork_of(locator),
                block: u32::from_le_bytes(*block),
                lsn: u64::from_le_bytes(*lsn),
            });
        }
        bytes = bytes.get(length.next_multiple_of(SECTOR_BYTES)..).unwrap_or_default();
    }
}

/// The notes of the record that `bytes` begin with. `None`: there is none, or not all of it.
fn whole_record(salt: u64, bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let word = |at: usize| u32::from_le_bytes(head.as_chunks::<4>().0[at]);
    let count = word(2) as usize;
    if head[..8] != MAGIC || count > RECORD_NOTES {
        return None;
    }
    let notes = rest.get(..count * NOTE_BYTES)?;
    (sum_of(salt, notes) == word(3)).then_some(notes)
}
