//! Releases a disk from a cache that is not open.

use crate::disk::binding::{begin_epoch, is_older_state};
use crate::disk::{LabelState, Labels, on_flash_or_nowhere, read_label, read_missing, write_label};
use crate::superblock::{needed_elsewhere, read_newest, write_all_copies};
use crate::{TierError, TierOptions, claim};
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::Label;
use entresol_format::missing::PageRange;
use entresol_format::superblock::Superblock;

/// The newest superblock on `flash`, with the disk's label, if it is of a cache of that disk.
fn own_cache(
    flash: &dyn Device,
    label_device: &dyn Device,
) -> Result<Option<(Superblock, Label)>, TierError> {
    let LabelState::Valid(labels) = read_label(label_device)? else { return Ok(None) };
    let own = read_newest(flash)?.0.filter(|superblock| superblock.disk == labels.newest.disk);
    Ok(own.map(|superblock| (superblock, labels.newest)))
}

/// What the owner of the disk with this label said last of how far it is ([`crate::FlashTier::mark`]).
/// `None`: it has said nothing, or the cache on `flash` is another disk's, or there is none.
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

/// A cache that is not open.
#[derive(Clone, Debug)]
pub struct FoundCache {
    /// As it was opened last.
    pub options: TierOptions,
    /// Of its owner ([`crate::FlashTier::mark`]).
    pub marks: [u64; 2],
    /// Pages on it may be newer than disk.
    pub dirty_possible: bool,
}

/// The cache on `flash` that is of the disk with this label. `None`: the cache is another disk's, or there is
/// none. Whether it is of the disk's present epoch is not looked at: an open does that.
///
/// # Errors
/// [`TierError::Device`].
pub fn cache_on(flash: &dyn Device, label_device: &dyn Device) -> Result<Option<FoundCache>, TierError> {
    let own = own_cache(flash, label_device)?;
    Ok(own.map(|(superblock, label)| FoundCache {
        options: TierOptions::of(&superblock),
        marks: superblock.marks,
        dirty_possible: label.dirty_possible || superblock.is_needed(),
    }))
}

/// The options of the cache on `flash`, as it was opened last, if it is the one that the disk with this
/// label was opened with last. `None`, too, if the disk was detached from it.
///
/// # Errors
/// [`TierError::Device`].
pub(crate) fn bound_options(
    flash: &dyn Device,
    label_device: &dyn Device,
) -> Result<Option<TierOptions>, TierError> {
    let own = own_cache(flash, label_device)?;
    let bound = own.filter(|(superblock, label)| superblock.cache == label.cache);
    Ok(bound.map(|(superblock, _)| TierOptions::of(&superblock)))
}

/// The owner of the disk with this label continues without its cache, which cannot be reached and is not
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

/// The cache of the disk with this label is lost, and its owner repeats from its log what only the cache had.
/// Says durably that the disk knows no cache: when it is found again, it is out of date.
///
/// # Errors
/// [`TierError::Device`], or [`TierError::Refused`] for a label that cannot be read.
pub fn give_up_cache(label_device: &dyn Device) -> Result<(), TierError> {
    own_label(label_device)?.map_or(Ok(()), |label| release(label_device, label))
}

/// The pages of the disk with this label that are lost while its flash is in use ([`TierError::Lost`]). A
/// newer version of some may be in its cache.
///
/// # Errors
/// [`TierError::Device`], or [`TierError::Refused`] for a record that cannot be read.
pub fn lost_on(label_device: &dyn Device) -> Result<Vec<PageRange>, TierError> {
    match read_label(label_device)? {
        LabelState::Valid(Labels { newest, .. }) if newest.lost => {
            Ok(on_flash_or_nowhere(&read_missing(label_device, &newest)?).list())
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

/// Whether the disk with this label may have its cache on `flash`, which is another device than now. Nothing
/// is written.
///
/// # Errors
/// [`TierError::Refused`]: another disk needs the cache on it, or it has other content.
/// [`TierError::Device`].
pub fn check_new_flash(flash: &dyn Device, label_device: &dyn Device) -> Result<(), TierError> {
    let disk = own_label(label_device)?.map_or(Uuid::NIL, |label| label.disk);
    match read_newest(flash)?.0 {
        None => claim::flash(flash, false),
        Some(old) => needed_elsewhere(&old, disk).map_or(Ok(()), Err),
    }
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
