//! A disk that is used in place: its first byte is its owner's first byte, and its label is in a file of its
//! own. For the layers above it is a disk like any other: this device has the label's area, which is in the
//! file, and then the disk.
//!
//! A sync of the disk succeeds or fails for all callers: a failed one may have lost the writes of others.
//! This also holds for the syncs that this device makes by itself, before it writes a sector of the
//! fingerprint. A caller that counts syncs to know the durable writes must ask for those, too
//! ([`Device::await_own_syncs`]). Of devices that keep what is not durable a failed sync loses nothing.
//!
//! A label outside of the disk cannot stop others from writing to it. So the file also has a fingerprint of
//! the disk, checksums of some of its sectors, which is compared at each open. Invariant: a sector is written
//! only when the file durably has the checksums of both its old and its new content; so the fingerprint holds
//! after a crash, too. A third content is written only when the second one is durable. After a write that
//! failed, to the disk or to the file before it, the sector has either content: it is read before the file
//! gets a third one. If it cannot be read then, it may have any content until a later write of it is durable.
//!
//! What it cannot see: writes to other sectors, such as a file system's to the middle of a large disk.

use super::{LabelState, binding, read_label, write_label};
use crate::buffer::AlignedBuffer;
use crate::error::disk_error;
use crate::syncs::Syncs;
use crate::{TierError, points, unreadable};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use entresol_format::checksum;
use entresol_format::fingerprint::{
    COPIES, COPY_STRIDE, Fingerprint, LABEL_FILE_BYTES, SECTOR_BYTES, Sums, UNKNOWN, sectors,
};
use entresol_format::label::{LABEL_AREA_BYTES, Label};
use entresol_runtime::random;
use entresol_runtime::sync::{Mutex, Rank};
use std::ops::Range;
use std::sync::Arc;

/// Sectors of the fingerprint that are read at once.
const READ_BYTES: u64 = 4096;

/// A disk with its label in a file of its own.
pub struct InPlaceDisk {
    disk: Arc<dyn Device>,
    file: Arc<dyn Device>,
    /// The sectors of the fingerprint, in ascending order.
    sectors: Box<[u64]>,
    state: Mutex<State>,
    /// Of the disk, by any caller.
    syncs: Syncs,
}

struct State {
    /// As in the file, or newer.
    print: Fingerprint,
    /// The file has an older one, since a write to it has failed.
    is_behind: bool,
    buffer: AlignedBuffer,
    /// Writes to sectors of the fingerprint: all, and those that are known to be durable.
    writes: u64,
    durable: u64,
    /// Sectors, by their places in the fingerprint, of which a write has failed since they were last read, be
    /// it that of their new checksums, or which could not be read when the disk was opened.
    unknown: Vec<bool>,
}

impl InPlaceDisk {
    /// Writes a label for `disk`, with pages of `page_bytes`, into `file`, which must be blank. Nothing on
    /// the disk is changed.
    ///
    /// # Errors
    /// [`TierError::Refused`] if `file` is too small or has a label already, [`TierError::Device`] if a
    /// device fails.
    pub fn create(
        disk: Arc<dyn Device>,
        file: Arc<dyn Device>,
        page_bytes: u32,
    ) -> Result<Arc<Self>, TierError> {
        check_file(&*file)?;
        if !matches!(read_label(&*file)?, LabelState::Blank) {
            return Err(TierError::Refused(
                "the label file has something in it; name a new file, or remove this one if its disk is not wanted any more"
                    .to_owned(),
            ));
        }
        settle(&*disk)?;
        let (capacity, seed) = (disk.geometry().capacity_bytes, random());
        let places = sectors(capacity, seed);
        let found = read_sums(&*disk, &places).map_err(disk_error)?;
        let sums = found.into_iter().map(Sums::of).collect();
        let print = Fingerprint { sequence: 1, capacity, seed, sums };
        let this = Self::assemble(disk, file, places, print);
        this.write_copies()?;
        let mut label = binding::new_label(page_bytes);
        write_label(&*this.file, &mut label)?;
        Ok(Arc::new(this))
    }

    /// The disk that the label in `file` belongs to. A notice says if the disk has grown, or was written by
    /// another program since; then it was made independent of its cache, which is emptied when it is opened.
    ///
    /// # Errors
    /// [`TierError::Refused`] if the file has no label or fingerprint that can be read, if `disk` has shrunk,
    /// or if it was written by another program and its cache may have newer pages: nothing was
    /// written. [`TierError::Device`] if a device fails.
    pub fn open(
        disk: Arc<dyn Device>,
        file: Arc<dyn Device>,
    ) -> Result<(Arc<Self>, Option<String>), TierError> {
        check_file(&*file)?;
        settle(&*file)?;
        settle(&*disk)?;
        let mut label = match read_label(&*file)? {
            LabelState::Valid(labels) => labels.newest,
            LabelState::Blank => return Err(no_label("it is blank")),
            LabelState::Unreadable(why) => return Err(no_label(&why)),
        };
        let (mut print, is_damaged) = read_print(&*file)?;
        let capacity = disk.geometry().capacity_bytes;
        if capacity < print.capacity {
            return Err(TierError::Refused(format!(
                "the disk has {capacity} bytes, the label in the file is of a disk of {}: it is another disk, or it has shrunk; \
                 give the disk of this label, or restore its size",
                print.capacity
            )));
        }
        // The sectors depend on the size: what the print says is of the size that it names.
        let mut places = sectors(print.capacity, print.seed);
        let mut found = read_sums(&*disk, &places).map_err(disk_error)?;
        let fits = |(sums, found): (&Sums, &Option<u32>)| found.is_none_or(|found| sums.fit(found));
        // If a copy cannot be read: the other one has all contents that the disk may have (`State::write`).
        let differs = |pair| !fits(pair);
        let changed = print.sums.iter().zip(&found).position(differs).map(|at| places[at]);
        let is_learnt =
            print.sums.iter().zip(&found).any(|(sums, found)| sums.is_unknown() && found.is_some());
        if changed.is_none() {
            // Of two checksums, one is known to be the present one.
            for (sums, found) in print.sums.iter_mut().zip(&found) {
                *sums = found.map_or(*sums, |_| Sums::of(*found));
            }
        }
        let grown = (capacity > print.capacity).then(|| {
            format!("the disk has grown from {} to {capacity} bytes, and the volume with it", print.capacity)
        });
        if grown.is_some() {
            points::IN_PLACE_GROWN.reach();
            places = sectors(capacity, print.seed);
            found = read_sums(&*disk, &places).map_err(disk_error)?;
            print.capacity = capacity;
            print.sums = found.iter().copied().map(Sums::of).collect();
        }
        let this = Self::assemble(disk, file, places, print);
        for (unknown, found) in this.state.lock().unknown.iter_mut().zip(&found) {
            *unknown = found.is_none();
        }
        let Some(sector) = changed else {
            if is_damaged || is_learnt || grown.is_some() {
                this.write_copies()?;
            }
            return Ok((Arc::new(this), grown));
        };
        let why = format!(
            "the disk was written by another program since: its sector {sector} is not what the label's fingerprint says"
        );
        if label.dirty_possible {
            points::IN_PLACE_REFUSED.reach();
            return Err(TierError::Refused(format!(
                "{why}; its cache {} may have newer pages, and nobody knows which are right: restore the disk as it was, or \
                 wipe label and flash if the newer pages are not wanted any more",
                label.cache
            )));
        }
        points::IN_PLACE_CHANGED.reach();
        this.adopt(&found, &mut label)?;
        Ok((Arc::new(this), Some(format!("{why}; its cache is emptied"))))
    }

    fn assemble(disk: Arc<dyn Device>, file: Arc<dyn Device>, places: Vec<u64>, print: Fingerprint) -> Self {
        let buffer = AlignedBuffer::new(COPY_STRIDE as usize);
        let unknown = vec![false; places.len()];
        let state = State { print, is_behind: false, buffer, writes: 0, durable: 0, unknown };
        let (sectors, state) = (places.into(), Mutex::new(Rank::Fingerprint, state));
        let syncs = Syncs::of(disk.keeps_unsynced());
        Self { disk, file, sectors, state, syncs }
    }

    /// Whether all syncs of the disk so far have succeeded, of all callers.
    ///
    /// # Errors
    /// The disk's: writes may be lost.
    pub fn check_syncs(&self) -> Result<(), DeviceError> {
        self.syncs.check()
    }

    /// Writes all copies of the fingerprint, one after the other.
    fn write_copies(&self) -> Result<(), TierError> {
        self.state.lock().write(&*self.file).map_err(disk_error)
    }

    /// Takes the disk as it is now. The label begins a new epoch, which the cache on flash has missed.
    fn adopt(&self, found: &[Option<u32>], label: &mut Label) -> Result<(), TierError> {
        binding::begin_epoch(label);
        write_label(&*self.file, label)?;
        for (sums, found) in self.state.lock().print.sums.iter_mut().zip(found) {
            *sums = Sums::of(*found);
        }
        self.write_copies()
    }

    /// The places in the fingerprint of the sectors in these bytes of the disk.
    fn places(&self, offset: u64, length: usize) -> Range<usize> {
        let end = offset + length as u64;
        let first = self.sectors.partition_point(|sector| (sector + 1) * SECTOR_BYTES <= offset);
        let last = self.sectors.partition_point(|sector| sector * SECTOR_BYTES < end);
        first..last.max(first)
    }

    /// The places in the fingerprint of the sectors that `data` at `offset` covers, with their new checksums.
    fn sums_of<'a>(&'a self, (offset, data): (u64, &'a [u8])) -> impl Iterator<Item = (usize, u32)> + 'a {
        self.places(offset, data.len()).map(move |place| {
            let from = (self.sectors[place] * SECTOR_BYTES - offset) as usize;
            (place, checksum::of(&data[from..from + SECTOR_BYTES as usize]))
        })
    }

    /// Before these bytes are written to the disk, at these offsets: sees to it that the fingerprint has both
    /// contents of each sector.
    fn expect(&self, state: &mut State, writes: &[(u64, &[u8])]) -> Result<(), DeviceError> {
        // First of all writes of the batch: none of them is on disk yet when the disk is synced.
        let is_unsure = writes.iter().flat_map(|write| self.sums_of(*write)).any(|(place, sum)| {
            let Sums { before, after } = state.print.sums[place];
            before != after && ![before, after].contains(&sum)
        });
        if is_unsure {
            if state.writes > state.durable {
                self.syncs.sync(|| self.disk.sync())?;
                state.durable = state.writes;
            }
            self.look_at_unknown(state)?;
            for sums in &mut state.print.sums {
                sums.before = sums.after;
            }
        }
        let mut is_new = is_unsure;
        for (place, new) in writes.iter().flat_map(|write| self.sums_of(*write)) {
            let sums = &mut state.print.sums[place];
            match *sums {
                Sums { before, after } if before == after && new != after => {
                    sums.after = new;
                    is_new = true;
                }
                // The old content again: it may be there next. The file has both.
                Sums { before, after } if new == before && before != after => {
                    (sums.before, sums.after) = (after, new);
                }
                _ => {}
            }
        }
        state.is_behind |= is_new;
        if state.is_behind {
            state.write(&*self.file)?;
        }
        state.writes += 1;
        Ok(())
    }

    /// Reads the sectors of which a write has failed, from a disk that was synced: each has its old content
    /// or the new one. One that cannot be read may be read later, with either.
    fn look_at_unknown(&self, state: &mut State) -> Result<(), DeviceError> {
        if !state.unknown.contains(&true) {
            return Ok(());
        }
        self.disk.drop_cached()?;
        let State { print, unknown, .. } = state;
        for ((sums, unknown), sector) in print.sums.iter_mut().zip(unknown).zip(&self.sectors) {
            let place = std::slice::from_ref(sector);
            if *unknown {
                sums.after = read_sums(&*self.disk, place)?[0].unwrap_or(UNKNOWN);
            }
            *unknown = false;
        }
        Ok(())
    }

    /// Whether a batch writes to sectors of the fingerprint.
    fn touches(&self, batch: &[Io<'_>]) -> bool {
        batch.iter().any(|io| match io {
            Io::Write { offset, data } if *offset >= LABEL_AREA_BYTES => {
                !self.places(offset - LABEL_AREA_BYTES, data.len()).is_empty()
            }
            Io::Write { .. } | Io::Read { .. } => false,
        })
    }
}

impl State {
    /// Writes both copies of the fingerprint, one durable before the other begins: whichever is torn, or
    /// becomes unreadable, the other one has all contents that the disk may have. After a failure the same
    /// copy is written again, since the other one is whole.
    fn write(&mut self, file: &dyn Device) -> Result<(), DeviceError> {
        for _ in 0..COPIES {
            self.print.sequence += 1;
            self.print.encode(&mut self.buffer);
            let written = file.write(self.print.offset(), &self.buffer).and_then(|()| file.sync());
            written.inspect_err(|_| self.print.sequence -= 1)?;
        }
        self.is_behind = false;
        Ok(())
    }
}

/// What is read from here on is durable: of a program that was killed on a machine that goes on, and after a
/// sync that failed and left its pages readable in memory.
fn settle(device: &dyn Device) -> Result<(), TierError> {
    device.sync().and_then(|()| device.drop_cached()).map_err(disk_error)
}

fn check_file(file: &dyn Device) -> Result<(), TierError> {
    let found = file.geometry().capacity_bytes;
    if found >= LABEL_FILE_BYTES {
        return Ok(());
    }
    Err(TierError::Refused(format!(
        "the label file has {found} bytes, a label and its fingerprint take {LABEL_FILE_BYTES}; is it truncated?"
    )))
}

fn no_label(why: &str) -> TierError {
    TierError::Refused(format!(
        "the label file has no label that can be read ({why}); restore it from a backup"
    ))
}

/// The newest fingerprint, and whether a copy is damaged.
fn read_print(file: &dyn Device) -> Result<(Fingerprint, bool), TierError> {
    let mut buffer = AlignedBuffer::new(COPY_STRIDE as usize);
    let mut newest: Option<Fingerprint> = None;
    let mut faults = Vec::new();
    for copy in 0..COPIES {
        unreadable::read(file, LABEL_AREA_BYTES + copy * COPY_STRIDE, &mut buffer).map_err(disk_error)?;
        match Fingerprint::decode(&buffer) {
            Ok(found) if newest.as_ref().is_none_or(|best| best.sequence < found.sequence) => {
                newest = Some(found);
            }
            Ok(_) => {}
            Err(fault) => faults.push(format!("copy {copy}: {fault}")),
        }
    }
    newest.map(|newest| (newest, !faults.is_empty())).ok_or_else(|| {
        TierError::Refused(format!(
            "the label file has no fingerprint that can be read ({}); restore it from a backup",
            faults.join("; ")
        ))
    })
}

impl InPlaceDisk {
    /// Divides a range, which is not the label's: `rest` is called for what has no sector of the fingerprint,
    /// and
    /// `print` for the reads with one. Both have offsets of the disk.
    fn around_print(
        &self,
        offset: u64,
        length: u64,
        rest: impl Fn(u64, u64) -> Result<(), DeviceError>,
        print: impl Fn(u64, u64) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Some(offset) = offset.checked_sub(LABEL_AREA_BYTES) else { return Ok(()) };
        let (mut from, end) = (offset, offset + length);
        for place in self.places(offset, length as usize) {
            let kept = self.sectors[place] * SECTOR_BYTES / READ_BYTES * READ_BYTES;
            let (kept, kept_end) = (kept.max(from), (kept + READ_BYTES).min(end));
            if kept >= kept_end {
                continue;
            }
            if kept > from {
                rest(from, kept - from)?;
            }
            print(kept, kept_end - kept)?;
            from = kept_end;
        }
        if from < end { rest(from, end - from) } else { Ok(()) }
    }
}

fn can_be_read(read: Result<(), DeviceError>) -> Result<bool, DeviceError> {
    match read {
        Err(error) if error.is_unreadable() => Ok(false),
        read => read.map(|()| true),
    }
}

/// The checksums of these sectors of `disk`. `None`: the sector cannot be read, which proves nothing.
fn read_sums(disk: &dyn Device, places: &[u64]) -> Result<Vec<Option<u32>>, DeviceError> {
    let capacity = disk.geometry().capacity_bytes;
    let mut buffer = AlignedBuffer::new(READ_BYTES as usize);
    let mut sums = Vec::with_capacity(places.len());
    let mut at = 0;
    while at < places.len() {
        let first = places[at] * SECTOR_BYTES / READ_BYTES * READ_BYTES;
        let length = READ_BYTES.min(capacity - first) as usize;
        let is_whole = can_be_read(disk.read(first, &mut buffer[..length]))?;
        while at < places.len() && places[at] * SECTOR_BYTES < first + length as u64 {
            let offset = places[at] * SECTOR_BYTES;
            let from = (offset - first) as usize;
            let sector = &mut buffer[from..from + SECTOR_BYTES as usize];
            // Its neighbour may be the one that cannot be read.
            let is_there = is_whole || can_be_read(disk.read(offset, sector))?;
            sums.push(is_there.then(|| checksum::of(sector)));
            at += 1;
        }
    }
    Ok(sums)
}

impl Device for InPlaceDisk {
    fn geometry(&self) -> Geometry {
        let disk = self.disk.geometry();
        Geometry { capacity_bytes: disk.capacity_bytes + LABEL_AREA_BYTES, ..disk }
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        // Held until the disk has the new content, so that fingerprint and disk change in one order.
        let mut state = self.touches(batch).then(|| self.state.lock());
        let mut of_disk = Vec::with_capacity(batch.len());
        for io in batch {
            match io {
                Io::Read { offset, buffer } if *offset < LABEL_AREA_BYTES => {
                    self.file.read(*offset, buffer)?
                }
                Io::Write { offset, data } if *offset < LABEL_AREA_BYTES => self.file.write(*offset, data)?,
                Io::Read { offset, buffer } => {
                    of_disk.push(Io::Read { offset: *offset - LABEL_AREA_BYTES, buffer });
                }
                Io::Write { offset, data } => {
                    of_disk.push(Io::Write { offset: *offset - LABEL_AREA_BYTES, data });
                }
            }
        }
        if of_disk.is_empty() {
            return Ok(());
        }
        let Some(state) = &mut state else { return self.disk.run(&mut of_disk) };
        let writes = of_disk.iter().filter_map(|io| match io {
            Io::Write { offset, data } => Some((*offset, *data)),
            Io::Read { .. } => None,
        });
        let writes: Vec<_> = writes.collect();
        // If the file has failed, nothing was written: the sectors have what they had.
        self.expect(state, &writes).and_then(|()| self.disk.run(&mut of_disk)).inspect_err(|_| {
            for (offset, data) in &writes {
                state.unknown[self.places(*offset, data.len())].fill(true);
            }
        })
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let writes = self.state.lock().writes;
        self.file.sync()?;
        self.syncs.sync(|| self.disk.sync())?;
        let mut state = self.state.lock();
        state.durable = state.durable.max(writes);
        Ok(())
    }

    fn await_own_syncs(&self) -> Result<(), DeviceError> {
        self.syncs.settle()
    }

    fn keeps_unsynced(&self) -> bool {
        self.disk.keeps_unsynced() && self.file.keeps_unsynced()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        // A discard leaves anything there: sectors of the fingerprint are left as they are.
        self.around_print(offset, length, |from, length| self.disk.discard(from, length), |_, _| Ok(()))
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        let zeros = AlignedBuffer::new(READ_BYTES as usize);
        self.around_print(
            offset,
            length,
            |from, length| self.disk.zero(from, length, may_punch),
            // Written, so that the fingerprint is told before.
            |from, length| self.write(LABEL_AREA_BYTES + from, &zeros[..length as usize]),
        )
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.file.drop_cached()?;
        self.disk.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.disk.counters()
    }
}
