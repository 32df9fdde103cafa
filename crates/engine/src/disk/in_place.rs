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
//! gets a third one. If it cannot be read then, it may have any content until a later write of it is durable;
//! so it is, too, while the disk cannot be synced, if it keeps what is not durable.
//!
//! What it cannot see: writes to other sectors, such as a file system's to the middle of a large disk.

mod grow;
mod print;

use super::{LabelState, binding, read_label, redo_log, write_label};
use crate::buffer::AlignedBuffer;
use crate::error::disk_error;
use crate::syncs::Syncs;
use crate::{TierError, points};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, WritePlace};
use entresol_format::fingerprint::{
    COPIES, COPY_STRIDE, Fingerprint, LABEL_FILE_BYTES, Sums, UNKNOWN, sectors,
};
use entresol_format::label::{LABEL_AREA_BYTES, Label};
use entresol_runtime::sync::{Begun, Mutex, Rank, RwLock};
use entresol_runtime::{Time, now, random};
use print::{places, read_print, read_sums, sums_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// After so long a disk that could not be synced for a sector of the fingerprint is asked again.
const SYNC_AGAIN: Duration = Duration::from_secs(1);
/// Sectors of the fingerprint that are read at once.
const READ_BYTES: u64 = 4096;

/// A disk with its label in a file of its own.
pub struct InPlaceDisk {
    disk: Arc<dyn Device>,
    file: Arc<dyn Device>,
    /// The sectors of the fingerprint, in ascending order. Held shared by each write, alone while the disk
    /// grows.
    sectors: RwLock<Box<[u64]>>,
    /// Writes past the fingerprint that their users carry out.
    begun_writes: Begun,
    state: Mutex<State>,
    /// The file may have an older fingerprint, of other sectors.
    is_unwritten: AtomicBool,
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
    /// The last sync for these sectors, if it failed.
    failed_at: Option<Time>,
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
        check_size(capacity, print.capacity)?;
        // The sectors depend on the size: what the print says is of the size that it names.
        let mut places = sectors(print.capacity, print.seed);
        let mut found = read_sums(&*disk, &places).map_err(disk_error)?;
        let fits = |(sums, found): (&Sums, &Option<u32>)| found.is_none_or(|found| sums.fit(found));
        // If a copy cannot be read: the other one has all contents that the disk may have (`State::write`).
        let differs = |pair| !fits(pair);
        let changed = print.sums.iter().zip(&found).position(differs).map(|at| places[at]);
        let mut notices = Vec::new();
        if changed.is_none()
            && let Some(redone) = redo_log::carry_out(&*disk, &*file)?
        {
            notices.push(redone);
            found = read_sums(&*disk, &places).map_err(disk_error)?;
        }
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
            notices.extend(grown);
            return Ok((Arc::new(this), (!notices.is_empty()).then(|| notices.join("; "))));
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
        redo_log::drop_kept(&*this.file)?;
        this.adopt(&found, &mut label)?;
        Ok((Arc::new(this), Some(format!("{why}; its cache is emptied"))))
    }

    fn assemble(disk: Arc<dyn Device>, file: Arc<dyn Device>, places: Vec<u64>, print: Fingerprint) -> Self {
        let buffer = AlignedBuffer::new(COPY_STRIDE as usize);
        let unknown = vec![false; places.len()];
        let state =
            State { print, is_behind: false, buffer, writes: 0, durable: 0, failed_at: None, unknown };
        let sectors = RwLock::new(Rank::FingerprintSectors, places.into());
        let syncs = Syncs::of(disk.keeps_unsynced());
        let (state, is_unwritten) = (Mutex::new(Rank::Fingerprint, state), AtomicBool::new(false));
        let begun_writes = Begun::new(Rank::Fingerprint);
        Self { disk, file, sectors, begun_writes, state, is_unwritten, syncs }
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

    /// Before these bytes are written to the disk, at these offsets: sees to it that the fingerprint has both
    /// contents of each sector.
    fn expect(&self, state: &mut State, sectors: &[u64], writes: &[(u64, &[u8])]) -> Result<(), DeviceError> {
        // First of all writes of the batch: none of them is on disk yet when the disk is synced.
        let is_unsure = writes.iter().flat_map(|write| sums_of(sectors, *write)).any(|(place, sum)| {
            let Sums { before, after } = state.print.sums[place];
            before != after && ![before, after].contains(&sum)
        });
        if is_unsure && !self.make_sure(state, sectors)? {
            // The third content of each: the sector may have any of them.
            for (place, new) in writes.iter().flat_map(|write| sums_of(sectors, *write)) {
                let Sums { before, after } = state.print.sums[place];
                if before != after && ![before, after].contains(&new) {
                    points::IN_PLACE_ANY_CONTENT.reach();
                    state.print.sums[place].before = UNKNOWN;
                }
            }
        }
        let mut is_new = is_unsure;
        for (place, new) in writes.iter().flat_map(|write| sums_of(sectors, *write)) {
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
                Sums { before: UNKNOWN, .. } => sums.after = new,
                _ => {}
            }
        }
        state.is_behind |= is_new;
        if state.is_behind {
            state.write(&*self.file)?;
            self.is_unwritten.store(false, SeqCst);
        }
        state.writes += 1;
        Ok(())
    }

    /// The last content of each sector is durable, and the fingerprint knows no other one. False: the disk
    /// cannot be synced, and loses nothing for that.
    fn make_sure(&self, state: &mut State, sectors: &[u64]) -> Result<bool, DeviceError> {
        if state.writes > state.durable {
            let is_just_tried = state.failed_at.is_some_and(|at| now().since(at) < SYNC_AGAIN);
            if is_just_tried {
                return Ok(false);
            }
            if let Err(error) = self.syncs.sync(|| self.disk.sync()) {
                state.failed_at = Some(now());
                return if self.disk.keeps_unsynced() { Ok(false) } else { Err(error) };
            }
            (state.durable, state.failed_at) = (state.writes, None);
        }
        self.look_at_unknown(state, sectors)?;
        for sums in &mut state.print.sums {
            sums.before = sums.after;
        }
        Ok(true)
    }

    /// Reads the sectors of which a write has failed, from a disk that was synced: each has its old content
    /// or the new one. One that cannot be read may be read later, with either.
    fn look_at_unknown(&self, state: &mut State, sectors: &[u64]) -> Result<(), DeviceError> {
        if !state.unknown.contains(&true) {
            return Ok(());
        }
        self.disk.drop_cached()?;
        let State { print, unknown, .. } = state;
        for ((sums, unknown), sector) in print.sums.iter_mut().zip(unknown).zip(sectors) {
            let place = std::slice::from_ref(sector);
            if *unknown {
                sums.after = read_sums(&*self.disk, place)?[0].unwrap_or(UNKNOWN);
            }
            *unknown = false;
        }
        Ok(())
    }

    /// Whether a batch writes to these sectors, or before the file has their checksums.
    fn touches(&self, sectors: &[u64], batch: &[Io<'_>]) -> bool {
        batch.iter().any(|io| match io {
            Io::Write { offset, data } if *offset >= LABEL_AREA_BYTES => {
                !places(sectors, offset - LABEL_AREA_BYTES, data.len()).is_empty()
                    || self.is_unwritten.load(SeqCst)
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

/// Refuses a disk with less than the bytes of its label.
fn check_size(capacity: u64, of_label: u64) -> Result<(), TierError> {
    if capacity >= of_label {
        return Ok(());
    }
    Err(TierError::Refused(format!(
        "the disk has {capacity} bytes, the label in the file is of a disk of {of_label}: it is another disk, or it has shrunk; \
         give the disk of this label, or restore its size"
    )))
}

fn no_label(why: &str) -> TierError {
    TierError::Refused(format!(
        "the label file has no label that can be read ({why}); restore it from a backup"
    ))
}

impl Device for InPlaceDisk {
    fn geometry(&self) -> Geometry {
        let disk = self.disk.geometry();
        Geometry { capacity_bytes: disk.capacity_bytes + LABEL_AREA_BYTES, ..disk }
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        // Held until the disk has the new content, so that fingerprint and disk change in one order.
        // Reads need neither: they do not wait for a growth.
        let has_writes = batch.iter().any(|io| matches!(io, Io::Write { .. }));
        let sectors = has_writes.then(|| self.sectors.read());
        let sectors = sectors.as_deref().map_or(&[][..], |sectors| sectors);
        let mut state = self.touches(sectors, batch).then(|| self.state.lock());
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
        self.expect(state, sectors, &writes).and_then(|()| self.disk.run(&mut of_disk)).inspect_err(|_| {
            for (offset, data) in &writes {
                state.unknown[places(sectors, *offset, data.len())].fill(true);
            }
        })
    }

    fn begin_write(&self, offset: u64, length: usize) -> Option<WritePlace> {
        let sectors = self.sectors.try_read()?;
        let offset = offset.checked_sub(LABEL_AREA_BYTES)?;
        // The file gets the new checksums before the disk is written.
        let touches = !places(&sectors, offset, length).is_empty() || self.is_unwritten.load(SeqCst);
        if touches || !self.begun_writes.begin() {
            return None;
        }
        let place = self.disk.begin_write(offset, length);
        if place.is_none() {
            self.begun_writes.end();
        }
        place
    }

    fn write_begun(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.disk.write_begun(offset - LABEL_AREA_BYTES, data)
    }

    fn end_write(&self, offset: u64, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        let ended = self.disk.end_write(offset - LABEL_AREA_BYTES, data, is_written);
        self.begun_writes.end();
        ended
    }

    fn is_sync_due(&self) -> bool {
        self.disk.is_sync_due()
    }

    fn resize(&self, _: Option<u64>) -> Result<u64, DeviceError> {
        // Its fingerprint has to know ([`InPlaceDisk::grow`]).
        Ok(self.geometry().capacity_bytes)
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
