//! Writes to a disk that cannot be synced, kept in its label file for the program after this one
//! (docs/FORMAT.md, "Writes that could not be synced").
//!
//! A sync that fails may have lost earlier writes. The program remembers them
//! ([`entresol_device::RedoDevice`]) and writes them again; if it is killed before that, the next one does,
//! from here. Nothing is synced here but the end: a power failure may lose what no flush has made durable.
//!
//! Invariant: what is kept is not older than the disk. So the end is durable before another write is, and a
//! head counts as written, too, whose write has failed.

use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::error::disk_error;
use crate::{points, unreadable};
use entresol_device::{Device, DeviceError, ReadKept, WriteKeeper, sector_runs};
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_format::redo::{COPIES, ENTRY_BYTES, HEAD_AT, Redo, RedoEntry, RedoHead};
use entresol_format::{BLOCK_BYTES, BlockFault};
use entresol_runtime::sync::{Mutex, Rank};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The file grows by so many bytes at once.
const GROWTH_BYTES: u64 = 1 << 20;
/// Most places of a file: 128 MiB.
const PLACES_MAX: usize = 8192;

/// See the module's header.
pub struct RedoLog {
    file: Arc<dyn Device>,
    state: Mutex<State>,
}

struct State {
    /// `None`: the file's is to be read first.
    sequence: Option<u64>,
    /// Of the next entry.
    number: u64,
    /// The place of each block, by its number.
    places: HashMap<u64, u64>,
    /// How often each place was written.
    writes: Vec<u64>,
    /// Places that keep nothing.
    free: Vec<u64>,
    buffer: AlignedBuffer,
}

impl RedoLog {
    /// In this label file, after the fingerprint. A file without room for it grows while it is needed.
    pub fn new(file: Arc<dyn Device>) -> Self {
        let state = State {
            sequence: None,
            number: 0,
            places: HashMap::new(),
            writes: Vec::new(),
            free: Vec::new(),
            buffer: AlignedBuffer::new(ENTRY_BYTES),
        };
        Self { file, state: Mutex::new(Rank::RedoLog, state) }
    }

    /// The file has room up to `end`.
    fn make_room(&self, end: u64) -> Result<(), DeviceError> {
        let has_room = end <= self.file.geometry().capacity_bytes
            || self.file.resize(Some(end.next_multiple_of(GROWTH_BYTES)))? >= end;
        if has_room { Ok(()) } else { Err(no_room()) }
    }

    /// Writes the head of the entries that count.
    fn write_head(&self, state: &mut State, is_kept: bool) -> Result<(), DeviceError> {
        let sequence = state.sequence.unwrap_or(0);
        self.make_room(RedoEntry::offset(0, 0))?;
        RedoHead { sequence, is_kept }.encode(&mut state.buffer[..BLOCK_BYTES]);
        self.file.write(HEAD_AT, &state.buffer[..BLOCK_BYTES])
    }

    /// Nothing is kept from now on, durably.
    fn take_back(&self, state: &mut State) -> Result<(), DeviceError> {
        self.write_head(state, false)?;
        end_of(&*self.file)
    }

    /// Writes the next entry, whose bytes are in the buffer, to a place.
    fn write_entry(&self, state: &mut State, place: u64, what: Redo) -> Result<(), DeviceError> {
        let State { sequence, number, writes, buffer, .. } = state;
        *number += 1;
        RedoEntry { sequence: sequence.unwrap_or(0), number: *number, what }.encode(buffer);
        let count = &mut writes[place as usize];
        let offset = RedoEntry::offset(place, *count % COPIES);
        *count += 1;
        self.make_room(offset + ENTRY_BYTES as u64)?;
        self.file.write(offset, buffer)
    }

    fn keep_zeros(&self, state: &mut State, zeros: &Range<u64>) -> Result<(), DeviceError> {
        let place = state.new_place()?;
        state.buffer[BLOCK_BYTES..].fill(0);
        self.write_entry(state, place, Redo::Zeros(zeros.start, zeros.end - zeros.start))
    }

    fn keep_block(&self, state: &mut State, number: u64, read: ReadKept<'_>) -> Result<(), DeviceError> {
        state.buffer[BLOCK_BYTES..].fill(0);
        let sectors = read(number, &mut state.buffer[BLOCK_BYTES..]);
        let (place, what) = match state.places.get(&number).copied() {
            Some(place) if sectors == 0 => {
                state.places.remove(&number);
                state.free.push(place);
                (place, Redo::Nothing)
            }
            None if sectors == 0 => return Ok(()),
            place => {
                let place = place.map_or_else(|| state.new_place(), Ok)?;
                state.places.insert(number, place);
                (place, Redo::Block { offset: number * BLOCK_BYTES as u64, sectors })
            }
        };
        self.write_entry(state, place, what)
    }
}

impl State {
    fn new_place(&mut self) -> Result<u64, DeviceError> {
        if let Some(place) = self.free.pop() {
            return Ok(place);
        }
        if self.writes.len() == PLACES_MAX {
            return Err(no_room());
        }
        self.writes.push(0);
        Ok(self.writes.len() as u64 - 1)
    }
}

fn no_room() -> DeviceError {
    let reason = "it has no room for more writes that the disk could not sync".to_owned();
    let (device, operation) = ("label file".to_owned(), "write");
    DeviceError::Io { device, operation, offset: HEAD_AT, length: 0, reason }
}

impl WriteKeeper for RedoLog {
    fn begin(&self, zeros: &[Range<u64>], blocks: &[u64], read: ReadKept<'_>) -> Result<(), DeviceError> {
        points::REDO_KEPT.reach();
        let mut state = self.state.lock();
        let before = match state.sequence {
            Some(sequence) => sequence,
            None => read_head(&*self.file)?.unwrap_or_default().sequence,
        };
        state.number = 0;
        state.places.clear();
        state.writes.clear();
        state.free.clear();
        state.sequence = Some(before + 1);
        zeros.iter().try_for_each(|zeros| self.keep_zeros(&mut state, zeros))?;
        blocks.iter().try_for_each(|number| self.keep_block(&mut state, *number, read))?;
        let begun = self.write_head(&mut state, true);
        // It may be there. Unless it is taken back, all is kept as if it were.
        begun.or_else(|error| if self.take_back(&mut state).is_ok() { Err(error) } else { Ok(()) })
    }

    fn wrote(&self, blocks: Range<u64>, read: ReadKept<'_>) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        blocks.into_iter().try_for_each(|number| self.keep_block(&mut state, number, read))
    }

    fn cleared(&self, bytes: Range<u64>, are_zeros: bool, read: ReadKept<'_>) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        if are_zeros {
            self.keep_zeros(&mut state, &bytes)?;
        }
        let touched = bytes.start / BLOCK_BYTES as u64..bytes.end.div_ceil(BLOCK_BYTES as u64);
        let mut kept: Vec<u64> =
            state.places.keys().copied().filter(|number| touched.contains(number)).collect();
        kept.sort_unstable();
        kept.into_iter().try_for_each(|number| self.keep_block(&mut state, number, read))
    }

    fn end(&self) -> Result<(), DeviceError> {
        self.take_back(&mut self.state.lock())
    }
}

/// The head that says that nothing is kept becomes durable. The room is given back.
fn end_of(file: &dyn Device) -> Result<(), DeviceError> {
    file.sync()?;
    // If not, it is used the next time.
    let _ = file.resize(Some(LABEL_FILE_BYTES));
    Ok(())
}

/// The head. [`BlockFault`]: it is damaged, or cannot be read.
fn read_head(file: &dyn Device) -> Result<Result<RedoHead, BlockFault>, DeviceError> {
    if file.geometry().capacity_bytes < RedoEntry::offset(0, 0) {
        return Ok(Err(BlockFault::Blank));
    }
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    unreadable::read(file, HEAD_AT, &mut block)?;
    Ok(RedoHead::decode(&block))
}

/// The entry of each place that counts, with its bytes, in the order of their writes.
fn entries(file: &dyn Device, head: &RedoHead) -> Result<Vec<(RedoEntry, AlignedBuffer)>, DeviceError> {
    let mut found: Vec<(RedoEntry, AlignedBuffer)> = Vec::new();
    for place in 0.. {
        if RedoEntry::offset(place + 1, 0) > file.geometry().capacity_bytes {
            break;
        }
        let mut newest: Option<(RedoEntry, AlignedBuffer)> = None;
        for copy in 0..COPIES {
            let mut bytes = AlignedBuffer::new(ENTRY_BYTES);
            unreadable::read(file, RedoEntry::offset(place, copy), &mut bytes)?;
            let entry = RedoEntry::decode(&bytes).ok().filter(|entry| entry.sequence == head.sequence);
            if let Some(entry) = entry
                && newest.as_ref().is_none_or(|(newest, _)| newest.number < entry.number)
            {
                newest = Some((entry, bytes));
            }
        }
        // Places are taken in order.
        let Some(newest) = newest else { break };
        found.push(newest);
    }
    found.sort_unstable_by_key(|(entry, _)| entry.number);
    Ok(found)
}

/// Carries out what a program has left that could not sync `disk`, durably; nothing is kept in the label file
/// then. Returns a notice for the owner, if there was something.
///
/// # Errors
/// [`TierError::Device`]: what is kept stays.
pub(super) fn carry_out(disk: &dyn Device, file: &dyn Device) -> Result<Option<String>, TierError> {
    let head = match read_head(file).map_err(disk_error)? {
        Err(BlockFault::Blank) => return Ok(None),
        Err(fault) => {
            give_up(file, &RedoHead::default()).map_err(disk_error)?;
            return Ok(Some(format!(
                "a sync of the disk had failed, and the record of the writes since is damaged ({fault}), as a power failure \
                 leaves it: of what was not flushed, some may be missing"
            )));
        }
        Ok(head) => head,
    };
    if !head.is_kept {
        return Ok(None);
    }
    points::REDO_CARRIED_OUT.reach();
    let entries = entries(file, &head).map_err(disk_error)?;
    let write = |(entry, bytes): &(RedoEntry, AlignedBuffer)| match entry.what {
        Redo::Zeros(offset, length) => disk.zero(offset, length, false),
        Redo::Block { offset, sectors } => sector_runs(sectors).try_for_each(|run| {
            let at = run.start as u64;
            disk.write(offset + at, &bytes[BLOCK_BYTES..][run])
        }),
        Redo::Nothing => Ok(()),
    };
    let written = entries.iter().try_for_each(write).and_then(|()| disk.sync());
    written.and_then(|()| give_up(file, &head)).map_err(disk_error)?;
    Ok(Some(format!(
        "a sync of the disk had failed, and the server ended before the next good one: {} writes were carried out again",
        entries.len()
    )))
}

/// Nothing is kept in the label file from now on, durably: it is of a disk that others have written since.
pub(super) fn drop_kept(file: &dyn Device) -> Result<(), TierError> {
    let head = read_head(file).map_err(disk_error)?.unwrap_or_default();
    if head.is_kept { give_up(file, &head).map_err(disk_error) } else { Ok(()) }
}

fn give_up(file: &dyn Device, head: &RedoHead) -> Result<(), DeviceError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    RedoHead { is_kept: false, ..*head }.encode(&mut block);
    file.write(HEAD_AT, &block)?;
    end_of(file)
}
