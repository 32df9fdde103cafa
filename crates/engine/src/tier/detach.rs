//! Releases the disk from its cache, in this order: dirty pages are copied to disk, the cache is emptied, the
//! disk's label is changed.

use super::FlashTier;
use super::back::Back;
use crate::api::Layer;
use crate::buffer::AlignedBuffer;
use crate::disk::binding::{begin_epoch, expect_label, foreign, is_older_state};
use crate::disk::{LabelState, Labels, read_label, read_missing, write_label};
use crate::error::{disk_error, flash_error};
use crate::superblock::{read_newest, write_all_copies};
use crate::to_disk::{Destages, READS_MAX, named, read_what_is_there};
use crate::{TierError, TierOptions, events, examine, points};
use arrayvec::ArrayVec;
use entresol_core::{Generation, Lookup, PageId, Partition, SlotId};
use entresol_device::Device;
use entresol_format::label::Label;
use entresol_format::missing::PageRange;
use entresol_format::superblock::{COPIES, Superblock};
use entresol_format::{PageFormat, Uuid};
use std::sync::Arc;

/// What detaching came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachReport {
    /// The cache that the disk was released from.
    pub cache: Uuid,
    /// Pages newer than disk that were copied there.
    pub pages_written: u64,
    /// What the owner should know, in sentences.
    pub notices: Vec<String>,
}

/// Releases `disk` from the cache on `flash`, which nobody has open: opens it as it was opened last, after a
/// shutdown or a crash, and detaches it.
///
/// # Errors
/// [`TierError::Refused`] if there is no cache on `flash`, or if the two do not belong together (another
/// disk's cache; a disk that was written without it, or detached from it): then nothing was written.
/// [`TierError::Losing`] if pages that only flash has are damaged: all others are on disk then, and the disk
/// stays bound to the cache.
pub fn detach(flash: Arc<dyn Device>, disk: Arc<dyn Device>) -> Result<DetachReport, TierError> {
    detach_with(flash, disk, false)
}

/// As [`detach`], with the loss of pages that cannot be read.
///
/// # Errors
/// As [`detach`], but for [`TierError::Losing`].
pub fn detach_with_loss(flash: Arc<dyn Device>, disk: Arc<dyn Device>) -> Result<DetachReport, TierError> {
    detach_with(flash, disk, true)
}

fn detach_with(
    flash: Arc<dyn Device>,
    disk: Arc<dyn Device>,
    accepts_loss: bool,
) -> Result<DetachReport, TierError> {
    // If the program was killed and the machine was not, what is read may not be durable yet.
    disk.sync().map_err(disk_error)?;
    flash.sync().map_err(flash_error)?;
    let superblock = examine::newest(&examine::superblocks(&*flash)?)?;
    let label = expect_label(&*disk, superblock.page_bytes)?.newest;
    if let Some(why) = foreign(&superblock, &label).filter(|_| label.failed_epoch == 0) {
        return Err(TierError::Refused(format!(
            "{why}; nothing was changed: a cache is detached from the disk that is bound to it"
        )));
    }
    let (tier, opened) = FlashTier::open(flash, disk, TierOptions::of(&superblock))?;
    tier.detach_with(accepts_loss).inspect_err(|error| {
        if matches!(error, TierError::Losing(_)) {
            // It goes on, and nobody uses it.
            let _ = tier.close();
        }
    })?;
    let notices = opened.notices.into_iter().chain(tier.notice()).collect();
    Ok(DetachReport { cache: superblock.cache, pages_written: tier.metrics().disk_writes, notices })
}

/// The newest superblock on `flash`, with the disk's label, if it is of a cache of that disk.
fn own_cache(
    flash: &dyn Device,
    label_device: &dyn Device,
) -> Result<Option<(Superblock, Label)>, TierError> {
    let LabelState::Valid(labels) = read_label(label_device)? else { return Ok(None) };
    let own = read_newest(flash)?.0.filter(|superblock| superblock.disk == labels.newest.disk);
    Ok(own.map(|superblock| (superblock, labels.newest)))
}

/// What the owner of the disk with this label said last of how far it is ([`FlashTier::mark`]). `None`: it
/// has said nothing, or the cache on `flash` is another disk's, or there is none.
///
/// # Errors
/// [`TierError::Device`].
pub fn marks_on(flash: &dyn Device, label_device: &dyn Device) -> Result<Option<[u64; 2]>, TierError> {
    let own = own_cache(flash, label_device)?;
    Ok(own.map(|(superblock, _)| superblock.marks).filter(|marks| *marks != [0; 2]))
}

/// How often the label of the disk was renewed, if the cache on `flash` or the disk is an older state of
/// itself: as the cache has seen it last, and as the label says. The one with the lower number is older.
/// `None`: they are of the same moment, or not of the same epoch, which an open refuses.
///
/// # Errors
/// [`TierError::Device`].
pub fn renewals_that_differ(
    flash: &dyn Device,
    label_device: &dyn Device,
) -> Result<Option<[u64; 2]>, TierError> {
    let own = own_cache(flash, label_device)?;
    let differ = own.filter(|(superblock, label)| is_older_state(superblock, label));
    Ok(differ.map(|(superblock, label)| [superblock.renewal, label.renewal]))
}

/// The cache on `flash` that is of the disk with this label, as it was opened last, and the marks of its
/// owner ([`FlashTier::mark`]). `None`: the cache is another disk's, or there is none. Whether it is of the
/// disk's present epoch is not looked at: an open does that.
///
/// # Errors
/// [`TierError::Device`].
pub fn cache_on(
    flash: &dyn Device,
    label_device: &dyn Device,
) -> Result<Option<(TierOptions, [u64; 2])>, TierError> {
    let own = own_cache(flash, label_device)?;
    Ok(own.map(|(superblock, _)| (TierOptions::of(&superblock), superblock.marks)))
}

impl FlashTier {
    /// The options of the cache on `flash`, as it was opened last, if it is the one that the disk with this
    /// label was opened with last. `None`, too, if the disk was detached from it.
    ///
    /// # Errors
    /// [`TierError::Device`].
    pub fn bound_options(
        flash: &dyn Device,
        label_device: &dyn Device,
    ) -> Result<Option<TierOptions>, TierError> {
        let own = own_cache(flash, label_device)?;
        let bound = own.filter(|(superblock, label)| superblock.cache == label.cache);
        Ok(bound.map(|(superblock, _)| TierOptions::of(&superblock)))
    }
}

/// The owner of the disk with this label goes on without its cache, which cannot be reached and is not
/// needed: when it is found again, it is out of date. Says so durably. A disk without a label stays as it is.
///
/// # Errors
/// [`TierError::Device`], or [`TierError::Refused`] for a label that cannot be read, or of a disk that needs
/// its cache.
pub fn disown(label_device: &dyn Device) -> Result<(), TierError> {
    let Some(label) = own_label(label_device)? else { return Ok(()) };
    if label.dirty_possible || label.failed_epoch != 0 || label.lost {
        return Err(TierError::Refused(format!(
            "disk {} needs the newer pages on its cache {}; attach that flash device",
            label.disk, label.cache
        )));
    }
    release(label_device, label)
}

/// The pages of the disk with this label that are lost while its flash is in use ([`TierError::Lost`]). A
/// newer version of some may be in its cache.
///
/// # Errors
/// [`TierError::Device`], or [`TierError::Refused`] for a record that cannot be read.
pub fn lost_on(label_device: &dyn Device) -> Result<Vec<PageRange>, TierError> {
    match read_label(label_device)? {
        LabelState::Valid(Labels { newest, .. }) if newest.lost => {
            Ok(read_missing(label_device, &newest)?.durable)
        }
        _ => Ok(Vec::new()),
    }
}

/// The owner of the disk with this label, which is bound to no cache that can be found, gives up the pages
/// that are lost: the disk's versions count.
///
/// # Errors
/// [`TierError::Device`], or [`TierError::Refused`] for a label that cannot be read.
pub fn give_up_lost(label_device: &dyn Device) -> Result<(), TierError> {
    match own_label(label_device)? {
        Some(mut label) if label.lost => {
            label.lost = false;
            write_label(label_device, &mut label)
        }
        _ => Ok(()),
    }
}

fn own_label(label_device: &dyn Device) -> Result<Option<Label>, TierError> {
    match read_label(label_device)? {
        LabelState::Blank => Ok(None),
        LabelState::Valid(labels) => Ok(Some(labels.newest)),
        LabelState::Unreadable(why) => {
            Err(TierError::Refused(format!("the disk holds no label that can be read ({why})")))
        }
    }
}

/// The disk with this label knows no cache from now on.
fn release(label_device: &dyn Device, mut label: Label) -> Result<(), TierError> {
    begin_epoch(&mut label);
    (label.cache, label.dirty_possible) = (Uuid::NIL, false);
    (label.failed_epoch, label.failed_nonce, label.lost) = (0, 0, false);
    write_label(label_device, &mut label)
}

/// The owner of the disk with this label has replaced what is on it, or has made it complete in another way:
/// whatever its cache on `flash` holds is out of date. Says so on both, durably; a cache of another disk, or
/// none, stays as it is. The next open makes an empty cache. True: there was a cache of this disk.
///
/// # Errors
/// [`TierError::Device`], or [`TierError::Refused`] for a label that cannot be read. It may be called again.
pub fn renounce(flash: &dyn Device, label_device: &dyn Device) -> Result<bool, TierError> {
    let Some(label) = own_label(label_device)? else { return Ok(false) };
    let own = read_newest(flash)?.0.filter(|superblock| superblock.disk == label.disk);
    let had_one = own.is_some();
    // Not needed first: a disk that knows its cache no more must not find it needed.
    if let Some(mut superblock) = own {
        superblock.released = true;
        write_all_copies(flash, &mut superblock)?;
    }
    release(label_device, label)?;
    Ok(had_one)
}

impl FlashTier {
    /// Copies everything that is newer than disk there, empties the cache, releases the disk from it, and
    /// ends. From then on [`crate::DiskLayer::open`] takes the disk. Nobody else may use the tier meanwhile.
    ///
    /// # Errors
    /// [`TierError::Losing`]: the newest versions of some pages cannot be read from flash. All others are on
    /// disk, and the tier goes on. Else what failed; then the tier has ended.
    pub fn detach(&self) -> Result<(), TierError> {
        self.detach_with(false)
    }

    /// As [`FlashTier::detach`], with the loss of pages that cannot be read: the disk's versions of them
    /// count from then on.
    ///
    /// # Errors
    /// What failed.
    pub fn detach_with_loss(&self) -> Result<(), TierError> {
        self.detach_with(true)
    }

    fn detach_with(&self, accepts_loss: bool) -> Result<(), TierError> {
        let mut prepared = self.back.prepare_to_detach();
        if prepared.is_ok() {
            match self.back.prepare_to_lose(accepts_loss) {
                Err(losing @ TierError::Losing(_)) => return Err(losing),
                done => prepared = done.and_then(|()| self.back.front.check_running()),
            }
        }
        self.end();
        // A task may have failed meanwhile.
        let result = match (prepared, self.back.front.state.failure()) {
            (Err(error), _) | (Ok(_), Some(error)) => Err(error),
            (Ok(false), None) => self.back.release_degraded(),
            (Ok(true), None) if self.back.front.state.notice().is_some() => Ok(()),
            (Ok(true), None) => self.back.release_disk(accepts_loss),
        };
        events::ended(self.back.superblocks.cache, "detached", &result);
        result
    }
}

impl Back {
    /// Brings everything that is in staging to flash. False if the disk alone serves.
    pub(crate) fn prepare_to_detach(&self) -> Result<bool, TierError> {
        self.checkpoint()?;
        self.front.check_running()
    }

    /// Releases the disk. The tasks have ended: no dequeue brings an overtaken version to disk after the
    /// newest, and no page moves. Nearly all is on disk. Dequeues that ran meanwhile may have pulled pages
    /// from DRAM: these are in staging and in slots.
    pub(crate) fn release_disk(&self, accepts_loss: bool) -> Result<(), TierError> {
        if self.is_log() {
            self.drop_dead()?;
            self.destage_staged()?;
            self.destage_slots(accepts_loss)?;
        }
        self.disk.sync()?;
        if self.is_log() {
            // All copies: none that remembers pages may stay.
            for _ in 0..COPIES {
                self.write_superblock(|superblock| {
                    superblock.front = superblock.durable;
                    superblock.rear = superblock.durable;
                    superblock.clean = true;
                })?;
            }
        }
        self.unbind(Uuid::NIL)?;
        if self.disk.has_lost() {
            // Its owner accepts that.
            self.disk.change_label(|label| label.lost = false)?;
        }
        if self.is_log() {
            // Not before: a cache that is not needed may be given to another disk. If this write is lost, the
            // cache counts as needed, and only this disk takes it.
            for _ in 0..COPIES {
                let _ = self.write_superblock(|superblock| superblock.released = true);
            }
        }
        Ok(())
    }

    /// All that `visit` finds in the core, in memory that is taken before the latch. Nothing changes
    /// meanwhile: the tasks have ended.
    pub(super) fn collect<T>(
        &self,
        visit: impl Fn(&Partition<'_>, &mut dyn FnMut(T)),
    ) -> Result<Vec<T>, TierError> {
        let mut count = 0;
        self.front.with(|partition| visit(partition, &mut |_| count += 1))?;
        let mut found = Vec::with_capacity(count);
        self.front.with(|partition| visit(partition, &mut |one| found.push(one)))?;
        Ok(found)
    }

    /// Copies the dirty pages in staging to disk.
    fn destage_staged(&self) -> Result<(), TierError> {
        let staged: Vec<PageId> =
            self.collect(|partition, found| partition.staged_dirty_pages().for_each(found))?;
        let mut buffer = AlignedBuffer::new(self.front.page_bytes());
        for page in staged {
            let Lookup::Staged { frame, position, dirty: true } =
                self.front.with(|partition| partition.peek(page))?
            else {
                continue;
            };
            if !self.front.staging.copy_out(frame, page, position, &mut buffer)? {
                return Err(TierError::Refused(format!(
                    "page {page} is being evicted while its cache is detached; stop the database first"
                )));
            }
            points::DETACH_COPIED.reach();
            self.destage(&mut Destages::from_iter([(page, &buffer[..])]))?;
        }
        Ok(())
    }

    /// These pages are lost. Of a page that names itself no older version is left on disk, which a log above
    /// would take for the newest one: it is damaged there, too.
    fn leave_no_older(&self, lost: &[PageId]) -> Result<(), TierError> {
        if self.front.options.page_format != PageFormat::Native || lost.is_empty() {
            return Ok(());
        }
        let mut damaged = AlignedBuffer::new(self.front.page_bytes());
        damaged.fill(0xee);
        lost.iter().try_for_each(|page| self.disk.write(*page, &damaged))
    }

    /// Copies the dirty pages on flash to disk, but for those with a newer version in staging.
    fn destage_slots(&self, accepts_loss: bool) -> Result<(), TierError> {
        let mut dirty: Vec<(PageId, SlotId, Generation)> = self.collect(|partition, found| {
            let slots = partition.dirty_slots().map(|(_, page)| page);
            let newest = |page| match partition.peek(page) {
                Lookup::Flash { slot, generation, dirty: true } => Some((page, slot, generation)),
                _ => None,
            };
            slots.filter_map(newest).for_each(found);
        })?;
        dirty.sort_unstable_by_key(|(page, ..)| *page);
        dirty.dedup_by_key(|(page, ..)| *page);
        let mut buffer = AlignedBuffer::new(READS_MAX * self.front.page_bytes());
        for pages in dirty.chunks(READS_MAX) {
            let wanted: ArrayVec<(PageId, SlotId), READS_MAX> =
                pages.iter().map(|(page, slot, _)| (*page, *slot)).collect();
            let proofs: ArrayVec<u32, READS_MAX> =
                self.front.proofs(pages.iter().map(|(_, slot, _)| *slot))?;
            let prove = |at: usize, data: &[u8]| {
                self.front.prove(data, pages[at].0, pages[at].1, pages[at].2, proofs[at])
            };
            points::DETACH_COPIED.reach();
            let (mut read, faults) =
                read_what_is_there(&*self.flash, self.flash_format(), &wanted, &mut buffer, prove)?;
            if let Some(fault) = faults.first().filter(|_| !accepts_loss) {
                return Err(fault.clone());
            }
            self.destage(&mut read)?;
            self.leave_no_older(&named(&faults))?;
        }
        Ok(())
    }
}
