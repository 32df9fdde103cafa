//! What a checkpoint of slots makes durable: all dirty pages are copied to disk, and the disk is synced. TAC
//! also writes its temperatures, if its directory survives a crash. Where slots survive a crash, dirty pages
//! stay there, and the superblock says which batches are durable.

use super::cleaner::Cleaner;
use super::materialiser::Materialiser;
use crate::TierError;
use crate::access::{BoardRef, Directory, FlashPages, ObjectTable, Signals};
use crate::buffer::AlignedBuffer;
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::MakeDurable;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::renewals::Renewals;
use crate::tier::floor::superblocks::Superblocks;
use entresol_core::{Directory as DirectoryKept, Position};
use std::sync::Arc;

/// Pages that one checkpoint copies at a time.
const SWEEP_PAGES: usize = 32;

/// See the module's header.
pub(crate) struct DurableSlots {
    directory: Arc<Directory>,
    signals: Arc<Signals>,
    superblocks: Arc<Superblocks>,
    flash_pages: Arc<FlashPages>,
    disk: Arc<DiskPages>,
    disk_writes: Arc<DiskWrites>,
    directory_kept: DirectoryKept,
    cleaner: Arc<Cleaner>,
    materialiser: Arc<Materialiser>,
    objects: Arc<ObjectTable>,
    board: BoardRef,
    renewals: Arc<Renewals>,
}

impl DurableSlots {
    pub(crate) fn new(floor: &Floor, cleaner: &Arc<Cleaner>, materialiser: &Arc<Materialiser>) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            signals: floor.access.signals.clone(),
            superblocks: floor.superblocks.clone(),
            flash_pages: floor.access.flash_pages.clone(),
            disk: floor.disk.clone(),
            disk_writes: floor.disk_writes.clone(),
            directory_kept: floor.access.options.directory(),
            cleaner: cleaner.clone(),
            materialiser: materialiser.clone(),
            objects: floor.access.objects.clone(),
            board: floor.access.board.clone(),
            renewals: floor.renewals.clone(),
        }
    }
}

impl DurableSlots {
    /// All slots that were emptied so far are recorded as empty, durably.
    fn record_emptied(&self) -> Result<(), TierError> {
        let made = self.directory.with(|partition| {
            partition.slots_mut().map_or(0, |slots| {
                slots.write_records();
                slots.records_made()
            })
        })?;
        loop {
            let seen = self.signals.progress.epoch();
            let is_over = !self.signals.check_running()?
                || self.directory.with(|partition| {
                    partition.slots().is_none_or(|slots| slots.records_durable() >= made)
                })?;
            if is_over {
                return Ok(());
            }
            self.signals.writes.notify_one();
            self.signals.await_progress(seen)?;
        }
    }

    /// The owner's marks are durable, on two copies.
    fn record_marks(&self) -> Result<(), TierError> {
        match self.board.marks() {
            Some(marks) => self.superblocks.mark(marks),
            None => Ok(()),
        }
    }

    /// The newest summary is repeated, so that one block may be damaged, and the superblock says which
    /// batches are durable: if a summary is missing then, it was lost, and if a page is damaged, no power
    /// failure has cut it off.
    fn record_batches(&self) -> Result<(), TierError> {
        let last = self.directory.with(|partition| partition.slots_mut().and_then(|slots| slots.repeat()))?;
        let Some(last) = last else { return Ok(()) };
        loop {
            let seen = self.signals.progress.epoch();
            if !self.signals.check_running()? {
                return Ok(());
            }
            if self.directory.with(|partition| partition.slots().is_none_or(|s| s.oldest_batch() > last))? {
                return self
                    .superblocks
                    .write(|superblock| superblock.batches = superblock.batches.max(last));
            }
            self.signals.writes.notify_one();
            self.signals.await_progress(seen)?;
        }
    }
}

impl MakeDurable for DurableSlots {
    fn make_durable(&self, _: Position) -> Result<(), TierError> {
        if self.directory_kept == DirectoryKept::Batches {
            self.disk_writes.sync_callers()?;
            self.objects.free_numbers(|| self.record_emptied())?;
            // Before the owner's marks change, and before what is on disk counts as durable there.
            self.renewals.renew()?;
            self.record_batches()?;
            return self.record_marks();
        }
        let mut scratch = AlignedBuffer::new(SWEEP_PAGES * self.flash_pages.page_bytes);
        self.cleaner.sweep_all(&mut scratch)?;
        self.disk.sync()?;
        match self.directory_kept {
            DirectoryKept::Slots => self.materialiser.write_temperatures(),
            _ => Ok(()),
        }
    }
}
