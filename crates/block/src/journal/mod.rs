//! Writes that were acknowledged and may not be durable, on a device that outlives the program: a file in
//! memory (tmpfs). After a kill of the server its successor carries them out again, in their order, before it
//! serves any client. A power failure destroys the journal, and no promise with it.
//!
//! A ring of records. A record is written when its write is visible and before it is acknowledged, by one
//! task at a time; so those that were acknowledged follow each other without a gap. A flush makes all writes
//! durable that were visible when it began, and releases their records. `record` has the bytes.
//!
//! A record of a write past the flash has no data: the disk has it, which outlives the program, too. It
//! says that earlier records of its pages are not to be carried out.
//!
//! Invariants:
//!
//! - The record at `first` and all after it, in the order of their numbers, are whole. The bytes after the
//!   last one have another number, or a wrong checksum.
//! - Each life of a journal, from one open of the volume to the next, has an identity of its own, which the
//!   label of the disk names durably before a write is acknowledged ([`entresol_engine::Layer::bind_log`]).
//!   An open without this journal makes the label name another one, or none. So records are carried out only
//!   if the volume was not written to without them; opens that did not succeed make no difference.
//! - A journal that is older than the machine's last start is blank: of a file that is not in memory, after a
//!   power failure its state may be an older one.
//! - Records are carried out on the volume only that made them, not on a copy of it (`parts`). A journal of
//!   another volume is refused and not changed.
//!
//! | file | what it does |
//! |---|---|
//! | `file` | the file of a journal: making, opening and removing it |
//! | `in_memory` | a file in memory as a device, without system calls |
//! | `owner` | commands of an owner: list journals, and say whose they are |
//! | `parts` | the identity of a volume's parts, to distinguish copies |
//! | `record` | the bytes |

mod file;
mod in_memory;
mod owner;
mod parts;
mod record;
#[cfg(test)]
mod tests;

use arrayvec::ArrayVec;
use entresol_device::{CountedDevice, Device, DeviceError, ErrorCounts, Io};
use entresol_engine::{AlignedBuffer, Flushed, Uuid};
use entresol_runtime::random;
use entresol_runtime::sync::{Mutex, Rank};
pub(crate) use file::{check_elsewhere, open_file, origin, remove_ended, waiting};
pub(crate) use owner::held;
pub use owner::{JournalReport, JournalState, accept_journal, go_without_journal, journals, remove_journal};
pub use parts::{Identity, Names, Origin, Parts};
use record::{HEAD_BYTES, Head, NAMES_AT, NAMES_BYTES};
pub(crate) use record::{Kind, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thiserror::Error;

/// Where the copies of the head are, and where the ring begins.
const HEADS: [u64; 2] = [0, 4096];
const RING_AT: u64 = 8192;
/// The smallest journal of a server: several of the largest pieces of a write.
pub(crate) const JOURNAL_BYTES_MIN: u64 = 16 << 20;

/// See the module's header.
pub(crate) struct Journal {
    device: Arc<dyn Device>,
    /// The errors of the device.
    pub errors: Arc<ErrorCounts>,
    ring_bytes: u64,
    /// Bytes of the records that count: for reports, which do not wait for the state.
    used_bytes: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// The keeper.
    origin: Origin,
    head: Head,
    /// The next record: its number, and its place, counted on from round to round.
    next: Mark,
    block: AlignedBuffer,
}

/// A place in the journal: the number of a record, and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub number: u64,
    pub at: u64,
}

/// The records of an earlier program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing, and nothing is missing.
    Nothing,
    /// Records to carry out, in their order.
    Records(Vec<Record>),
    /// The label of the disk names a journal that is not here. So many records are of an earlier time of
    /// this volume.
    Missing(usize),
    /// So many records of an earlier time of this volume: it was opened without them since.
    Stale(usize),
}

/// A journal that is not this volume's, as far as can be told. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotOurs {
    /// The label of the disk names it, but it was made for other devices.
    #[error(
        "it has {writes} acknowledged writes of the volume that this disk's label names, but was made for another {parts}: \
         this volume is a copy, or was moved. If it was moved, or a device was attached anew: `entresol volume journal \
         accept CONFIG`. If it is a copy: set `journal` to another path, then `entresol volume journal without CONFIG`; \
         the copy lacks these writes"
    )]
    Moved {
        /// Records in it.
        writes: usize,
        /// Which differ.
        parts: String,
    },
    /// It is of another volume, whose server was killed; or of this one, whose label was restored from a
    /// backup.
    #[error(
        "it has {writes} acknowledged writes of a volume with another {parts}, whose server was killed, and this disk's \
         label does not name it; nothing was changed. If that is another volume: set `journal` to a path of its own for \
         each. If this volume's label was restored from a backup, these writes cannot be carried out any more: \
         `entresol volume journal remove PATH --force`"
    )]
    Another {
        /// Records in it.
        writes: usize,
        /// Which parts differ.
        parts: String,
    },
}

/// The journal cannot be used.
#[derive(Clone, Debug, Error)]
pub(crate) enum LeftError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
}

impl Journal {
    /// The journal on `device`, in its state since the machine's start; a new one if there is none.
    ///
    /// # Errors
    /// The device's.
    pub fn open(device: Arc<dyn Device>, origin: impl Into<Origin>) -> Result<Self, DeviceError> {
        let (origin, errors) = (origin.into(), Arc::default());
        let device = CountedDevice::new(device, &errors);
        let ring_bytes =
            device.geometry().capacity_bytes.saturating_sub(RING_AT) / HEAD_BYTES as u64 * HEAD_BYTES as u64;
        let mut block = AlignedBuffer::new(HEAD_BYTES);
        let mut newest: Option<Head> = None;
        for at in HEADS {
            device.read(at, &mut block)?;
            // One that a kill has torn is older than what counts.
            if let Some(head) = Head::decode(&block, ring_bytes)
                && newest.is_none_or(|best| best.sequence < head.sequence)
            {
                newest = Some(head);
            }
        }
        let mut head = newest.unwrap_or_default();
        if head.boot != origin.boot {
            (head.boot, head.life, head.ended) = (origin.boot, Uuid::NIL, Uuid::NIL);
            head.flushed = Flushed::default();
        }
        let state = State { origin, next: head.first, head, block };
        let state = Mutex::new(Rank::Journal, state);
        Ok(Self { device, errors, ring_bytes, used_bytes: AtomicU64::new(0), state })
    }

    /// Room for records, in bytes, and bytes of the records that count.
    pub fn room(&self) -> (u64, u64) {
        (self.ring_bytes, self.used_bytes.load(Relaxed))
    }

    /// Whether there is room now for the record of so many bytes: a hint.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used_bytes.load(Relaxed) + HEAD_BYTES as u64 + bytes <= self.ring_bytes
    }

    fn note_used(&self, state: &State) {
        self.used_bytes.store(state.next.at - state.head.first.at, Relaxed);
    }

    /// How far the flash was flushed, as an earlier program has noted in this start of the machine.
    pub fn flushed(&self) -> Option<Flushed> {
        Some(self.state.lock().head.flushed).filter(|flushed| *flushed != Flushed::default())
    }

    /// The records of an earlier program, if the label of the disk names `log`.
    ///
    /// # Errors
    /// The device's; [`NotOurs`].
    pub fn left(&self, log: Uuid) -> Result<Left, LeftError> {
        let state = self.state.lock();
        let Head { life, ended, parts, first, .. } = state.head;
        // The label may name the life before: until it names the new one, nothing is acknowledged.
        let is_missing = log != Uuid::NIL && log != life && log != ended;
        if life == Uuid::NIL {
            return Ok(if is_missing { Left::Missing(0) } else { Left::Nothing });
        }
        let records = self.records(first)?;
        let writes = records.len();
        let ours = state.origin.parts;
        // An empty one takes nothing from its volume: that finds it ended.
        if parts != ours && writes > 0 {
            let parts = parts.differing(&ours);
            return Err(match life == log {
                true => NotOurs::Moved { writes, parts },
                false => NotOurs::Another { writes, parts },
            }
            .into());
        }
        Ok(match writes {
            _ if is_missing => Left::Missing(writes),
            0 => Left::Nothing,
            _ if life == log => Left::Records(records),
            _ => Left::Stale(writes),
        })
    }

    /// The number of the machine's start, for the label of the disk.
    pub fn boot_number(&self) -> u64 {
        self.state.lock().origin.boot_number()
    }

    /// From its next life on it has another keeper. Returns the one of before.
    pub fn exchange_origin(&self, origin: Origin) -> Origin {
        std::mem::replace(&mut self.state.lock().origin, origin)
    }

    /// Whose it is, from now on: the owner says so.
    pub fn accept(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.head.parts = state.origin.parts;
        self.write_names(&state.origin)?;
        self.write_head(&mut state)
    }

    /// Begins a new life, empty. The label has to name it before a write is acknowledged.
    pub fn begin(&self) -> Result<Uuid, DeviceError> {
        let life = Uuid::from_random(random(), random());
        self.begin_as(life)?;
        Ok(life)
    }

    /// Nothing is recorded from now on: everything is durable.
    pub fn end(&self) -> Result<(), DeviceError> {
        self.begin_as(Uuid::NIL)
    }

    fn begin_as(&self, life: Uuid) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        // All records in the ring have smaller numbers.
        let records = self.records(state.head.first)?;
        let number = records.last().map_or(state.next.number, |last| last.number + 1).max(state.next.number);
        state.next = Mark { number, at: 0 };
        if state.head.life != Uuid::NIL {
            state.head.ended = state.head.life;
        }
        (state.head.first, state.head.life, state.head.parts) = (state.next, life, state.origin.parts);
        state.head.flushed = Flushed::default();
        self.note_used(&state);
        if life != Uuid::NIL {
            self.write_names(&state.origin)?;
        }
        self.write_head(&mut state)
    }

    /// They are for people: if there is no room for them, there are none.
    fn write_names(&self, origin: &Origin) -> Result<(), DeviceError> {
        let Some(names) = &origin.names else { return Ok(()) };
        let mut block = AlignedBuffer::new(NAMES_BYTES);
        names.encode(&mut block).map_or(Ok(()), |()| self.device.write(NAMES_AT, &block))
    }

    /// All writes that are visible now are before this place.
    pub fn mark(&self) -> Mark {
        self.state.lock().next
    }

    /// The records before `mark` are not needed any more: their writes are durable. `flushed`: how far the
    /// flash is.
    pub fn release(&self, mark: Mark, flushed: Option<Flushed>) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let before = (state.head.first, state.head.flushed);
        if mark.number > before.0.number {
            state.head.first = mark;
        }
        if let Some(flushed) = flushed {
            // Another flush may have been later, and here first.
            let is_older = (flushed.cache, flushed.epoch) == (before.1.cache, before.1.epoch)
                && flushed.below <= before.1.below;
            state.head.flushed = if is_older { before.1 } else { flushed };
        }
        if (state.head.first, state.head.flushed) == before {
            return Ok(());
        }
        // Until a head says so, nothing is written over these records: a successor begins with them.
        self.write_head(&mut state).inspect_err(|_| (state.head.first, state.head.flushed) = before)?;
        self.note_used(&state);
        Ok(())
    }

    /// Adds a record of `length` bytes at `offset` of the volume, and its data, if it has any. False: there
    /// is no room before earlier ones are released.
    ///
    /// # Panics
    /// If there would not be room in an empty ring.
    pub fn append(&self, kind: Kind, offset: u64, length: u64, data: &[u8]) -> Result<bool, DeviceError> {
        let mut state = self.state.lock();
        let needed = (HEAD_BYTES + data.len()) as u64;
        assert!(needed <= self.ring_bytes, "a piece of a write fits into the journal");
        if state.next.at + needed - state.head.first.at > self.ring_bytes {
            return Ok(false);
        }
        let Mark { number, at } = state.next;
        let record = Record { number, kind, offset, length, at };
        record.encode(data, &mut state.block);
        self.put(at, [&state.block, data])?;
        state.next = Mark { number: number + 1, at: at + needed };
        self.note_used(&state);
        Ok(true)
    }

    /// The data of a record, into `buffer` of its length.
    pub fn data(&self, record: &Record, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.get(record.at + HEAD_BYTES as u64, buffer)
    }

    /// The whole records from `first` on.
    fn records(&self, first: Mark) -> Result<Vec<Record>, DeviceError> {
        let mut block = AlignedBuffer::new(HEAD_BYTES);
        let mut found = Vec::new();
        let Mark { mut number, mut at } = first;
        while at + HEAD_BYTES as u64 - first.at <= self.ring_bytes {
            self.get(at, &mut block)?;
            let room = self.ring_bytes - (at + HEAD_BYTES as u64 - first.at);
            let Some((record, sum)) = Record::decode(&block, number, at, room) else { break };
            let mut data = AlignedBuffer::new(record.data_bytes() as usize);
            self.data(&record, &mut data)?;
            if record.sum(&data) != sum {
                break;
            }
            number += 1;
            at += HEAD_BYTES as u64 + record.data_bytes();
            found.push(record);
        }
        Ok(found)
    }

    fn write_head(&self, state: &mut State) -> Result<(), DeviceError> {
        state.head.sequence += 1;
        let place = HEADS[(state.head.sequence % 2) as usize];
        let State { head, block, .. } = state;
        head.encode(self.ring_bytes, block);
        // After a failure, the same place is written again: the other one has the head that counts.
        self.device.write(place, block).inspect_err(|_| state.head.sequence -= 1)
    }

    /// Calls `one` with the places in the ring of `length` bytes at `at`, and where they are in these bytes.
    fn places(
        &self,
        at: u64,
        length: usize,
        mut one: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let from = at % self.ring_bytes;
        let here = length.min((self.ring_bytes - from) as usize);
        if here > 0 {
            one(RING_AT + from, 0..here)?;
        }
        if here < length { one(RING_AT, here..length) } else { Ok(()) }
    }

    /// In one batch: adjacent writes are one system call.
    fn put(&self, mut at: u64, parts: [&[u8]; 2]) -> Result<(), DeviceError> {
        let mut ios = ArrayVec::<Io<'_>, 4>::new();
        for bytes in parts {
            self.places(at, bytes.len(), |offset, part| {
                ios.push(Io::Write { offset, data: &bytes[part] });
                Ok(())
            })?;
            at += bytes.len() as u64;
        }
        self.device.run(&mut ios)
    }

    fn get(&self, at: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.places(at, bytes.len(), |place, part| self.device.read(place, &mut bytes[part]))
    }
}
