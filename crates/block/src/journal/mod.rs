//! Writes that were acknowledged and may not be durable, on a device that outlives the program: a file in
//! memory (tmpfs). After a kill of the server its successor carries them out again, in their order, before it
//! serves anybody. A power failure takes the journal, and with it nothing that was promised.
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
//! - The record at `first` and all after it, in the order of their numbers, are whole. What follows the last
//!   one has another number, or a wrong checksum.
//! - Each life of a journal, from one open of the volume to the next, has an identity of its own, which the
//!   label of the disk names durably before a write is acknowledged ([`entresol_engine::Layer::bind_log`]).
//!   An open without this journal makes the label name another one, or none. So records are carried out only
//!   if nobody has written to the volume without them; opens that did not succeed make no difference.
//! - A journal that is older than the machine's last start is blank: of a file that is not in memory, a power
//!   failure may leave an older state.

mod record;
#[cfg(test)]
mod tests;

use entresol_device::{Device, DeviceError};
use entresol_engine::{AlignedBuffer, Uuid};
use entresol_runtime::random;
use entresol_runtime::sync::{Mutex, Rank};
use record::{HEAD_BYTES, Head};
pub(crate) use record::{Kind, Record};
use std::sync::Arc;

/// Where the copies of the head are, and where the ring begins.
const HEADS: [u64; 2] = [0, 4096];
const RING_AT: u64 = 8192;
/// The smallest journal of a server: several of the largest pieces of a write.
pub(crate) const JOURNAL_BYTES_MIN: u64 = 16 << 20;

/// See the module's header.
pub(crate) struct Journal {
    device: Arc<dyn Device>,
    ring_bytes: u64,
    state: Mutex<State>,
}

struct State {
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

/// What an earlier program has left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// Records to carry out, in their order.
    Records(Vec<Record>),
    /// So many records that the label of the disk does not name.
    Foreign(usize),
}

impl Journal {
    /// The journal on `device`, as it was left since the machine's start `boot`; a new one if there is none.
    ///
    /// # Errors
    /// The device's.
    pub fn open(device: Arc<dyn Device>, boot: Uuid) -> Result<Self, DeviceError> {
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
        if head.boot != boot {
            (head.boot, head.life) = (boot, Uuid::NIL);
        }
        let state = State { next: head.first, head, block };
        Ok(Self { device, ring_bytes, state: Mutex::new(Rank::Journal, state) })
    }

    /// What was left, if the label of the disk names `log`.
    pub fn left(&self, log: Uuid) -> Result<Left, DeviceError> {
        let state = self.state.lock();
        let records = self.records(state.head.first)?;
        let is_named = state.head.life == log && log != Uuid::NIL;
        Ok(match records.len() {
            0 => Left::Nothing,
            _ if is_named => Left::Records(records),
            count => Left::Foreign(count),
        })
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
        // Whatever lies in the ring has a smaller number.
        let records = self.records(state.head.first)?;
        let number = records.last().map_or(state.next.number, |last| last.number + 1).max(state.next.number);
        state.next = Mark { number, at: 0 };
        (state.head.first, state.head.life) = (state.next, life);
        self.write_head(&mut state)
    }

    /// What is visible now is before this place.
    pub fn mark(&self) -> Mark {
        self.state.lock().next
    }

    /// The records before `mark` are not needed any more: their writes are durable.
    pub fn release(&self, mark: Mark) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        if mark.number <= state.head.first.number {
            return Ok(());
        }
        let before = std::mem::replace(&mut state.head.first, mark);
        // Until a head says so, nothing is written over these records: a successor begins with them.
        self.write_head(&mut state).inspect_err(|_| state.head.first = before)
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
        self.put(at + HEAD_BYTES as u64, data)?;
        self.put(at, &state.block)?;
        state.next = Mark { number: number + 1, at: at + needed };
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

    fn put(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.places(at, bytes.len(), |place, part| self.device.write(place, &bytes[part]))
    }

    fn get(&self, at: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.places(at, bytes.len(), |place, part| self.device.read(place, &mut bytes[part]))
    }
}
