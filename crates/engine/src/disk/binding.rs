//! The binding of flash and disk (docs/DESIGN.md §4): the disk's label names the cache bound to it, and an
//! epoch that is raised at each open.
//!
//! An open raises the epoch in three steps, each durable before the next:
//!
//! 1. It writes all superblocks with the new epoch, not *begun*.
//! 2. It writes the disk's label.
//! 3. It writes all superblocks, *begun*. No other write is made before this.
//!
//! So the epochs of flash and disk of the same cache tell their relation:
//!
//! - Equal: they belong together.
//! - Flash is behind: the disk was written without this flash.
//! - Flash is one ahead, not begun: an open was interrupted between steps 1 and 2.
//! - Flash is one ahead and begun, or more than one ahead: the disk is an older copy of itself.
//!
//! The last rule holds for each copy of the label, because both copies agree before step 1. An open that was
//! interrupted before step 2 is completed first, with the epoch and the nonce that it wrote to the flash: a
//! copy of the label with these may exist that was temporarily unreadable.
//!
//! Epochs are counted, so two branches of one copy that were both opened since have the same epoch. A
//! *nonce*, drawn at random for each epoch, distinguishes them: flash and disk of one epoch have the same
//! nonce, and a flash that is one ahead names the nonce that its disk still has.
//!
//! Within an epoch the label of a disk whose owner has a log is *renewed* ([`crate::tier`]'s `renewals`): the
//! label first, then a superblock, each durable before the next. So a label has the number of its flash, or
//! the next one.

use super::{LabelState, Labels, read_label, write_label};
use crate::TierError;
use crate::api::Binding;
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::{Label, Session};
use entresol_format::superblock::Superblock;
use entresol_runtime::random;

/// A label for a new disk; its sequence is 0.
pub(crate) fn new_label(page_bytes: u32) -> Label {
    Label {
        sequence: 0,
        disk: new_uuid(),
        cache: Uuid::NIL,
        epoch: 1,
        epoch_nonce: random(),
        page_bytes,
        dirty_possible: false,
        log: Uuid::NIL,
        session: Session::default(),
        failed_epoch: 0,
        failed_nonce: 0,
        renewal: 0,
        lost: false,
    }
}

/// Begins a new epoch in `label`, before the disk is written.
pub(crate) fn begin_epoch(label: &mut Label) {
    label.epoch += 1;
    label.epoch_nonce = random();
}

/// A new random identity.
pub(crate) fn new_uuid() -> Uuid {
    Uuid::from_random(random(), random())
}

/// The binding in the label of `disk`; `None` if it has no readable label. Nothing is opened or written.
///
/// # Errors
/// If the disk as a whole cannot be read.
pub fn disk_binding(disk: &dyn Device) -> Result<Option<Binding>, TierError> {
    Ok(match read_label(disk)? {
        LabelState::Valid(labels) => Some(of_label(&labels.newest)),
        LabelState::Blank | LabelState::Unreadable(_) => None,
    })
}

/// Whether the cache of the disk with this label may have pages that the disk lacks. False, too, if there is
/// no label.
///
/// # Errors
/// If the disk as a whole cannot be read.
pub fn is_flash_needed(disk: &dyn Device) -> Result<bool, TierError> {
    let label = read_label(disk)?;
    Ok(
        matches!(label, LabelState::Valid(labels) if labels.newest.dirty_possible || labels.newest.failed_epoch != 0),
    )
}

/// Whether the disk with this label is bound to a cache. False, too, if there is no label that can be read.
///
/// # Errors
/// If the disk as a whole cannot be read.
pub fn is_disk_bound(disk: &dyn Device) -> Result<bool, TierError> {
    Ok(match read_label(disk)? {
        LabelState::Valid(Labels { newest, .. }) => {
            newest.cache != Uuid::NIL || newest.dirty_possible || newest.failed_epoch != 0
        }
        LabelState::Blank | LabelState::Unreadable(_) => false,
    })
}

/// The label of `disk` names no log from now on, durably. Nothing else changes.
///
/// # Errors
/// [`TierError::Refused`] if there is no label that can be read.
pub fn name_no_log(disk: &dyn Device) -> Result<(), TierError> {
    let LabelState::Valid(Labels { newest: mut label, .. }) = read_label(disk)? else {
        return Err(TierError::Refused("the disk holds no label that can be read".to_owned()));
    };
    (label.log, label.session) = (Uuid::NIL, Session::default());
    write_label(disk, &mut label)
}

/// The binding that a label records.
pub(super) fn of_label(label: &Label) -> Binding {
    Binding { disk: label.disk, log: label.log, session: label.session }
}

/// The label of `disk`, whose pages must have `page_bytes`.
pub(crate) fn expect_label(disk: &dyn Device, page_bytes: u32) -> Result<Labels, TierError> {
    match read_label(disk)? {
        LabelState::Valid(labels) => expect_page_bytes(&labels.newest, page_bytes).map(|()| labels),
        LabelState::Blank => Err(TierError::Refused(
            "the disk has no label: it is blank; create a database on it first".to_owned(),
        )),
        LabelState::Unreadable(why) => Err(TierError::Refused(format!(
            "the disk holds no label that can be read ({why}); is it the right disk?"
        ))),
    }
}

/// Refuses a disk whose pages have another size than `page_bytes`.
pub(crate) fn expect_page_bytes(label: &Label, page_bytes: u32) -> Result<(), TierError> {
    if label.page_bytes == page_bytes {
        return Ok(());
    }
    Err(TierError::Refused(format!(
        "the disk has pages of {} bytes, {page_bytes} were asked for; open it with its own page size",
        label.page_bytes
    )))
}

/// Whether an open was interrupted after it wrote its epoch to the superblocks, and before it wrote the
/// disk's label.
pub(crate) fn is_cut_off(superblock: &Superblock, label: &Label) -> bool {
    superblock.epoch == label.epoch + 1 && !superblock.begun && superblock.previous_nonce == label.epoch_nonce
}

/// What to do if one of the two is an older state of itself.
pub(crate) const HOW_TO_GO_ON: &str =
    "put the other one back to the same moment, too, or restore the database from a backup";

/// Whether the cache is of this disk and epoch, and one of the two is an older state of itself.
pub(crate) fn is_older_state(superblock: &Superblock, label: &Label) -> bool {
    // A flash that is one behind: the renewal was cut off, and nothing was dropped for it.
    let renewals = superblock.renewal..=superblock.renewal.saturating_add(1);
    let is_same =
        superblock.cache == label.cache && (superblock.epoch == label.epoch || is_cut_off(superblock, label));
    is_same && !renewals.contains(&label.renewal)
}

/// Why the cache does not belong to the disk. `None`: it does.
pub(crate) fn foreign(superblock: &Superblock, label: &Label) -> Option<String> {
    let cache = superblock.cache;
    if superblock.disk != label.disk {
        return Some(format!(
            "the flash device holds cache {cache} of disk {}, this disk is {}",
            superblock.disk, label.disk
        ));
    }
    if cache != label.cache {
        return Some(format!("the disk was detached from cache {cache}, which the flash device holds"));
    }
    if superblock.epoch < label.epoch {
        return Some(format!(
            "cache {cache} on the flash device is of epoch {}, its disk of epoch {}: the disk was written without it",
            superblock.epoch, label.epoch
        ));
    }
    if superblock.epoch > label.epoch && !is_cut_off(superblock, label) {
        return Some(format!(
            "cache {cache} on the flash device is of epoch {}, its disk of epoch {}: the disk is an older state",
            superblock.epoch, label.epoch
        ));
    }
    let is_branch = superblock.epoch == label.epoch && superblock.epoch_nonce != label.epoch_nonce;
    if is_branch {
        return Some(format!(
            "cache {cache} on the flash device and its disk are of two branches of epoch {}: they were copied, and both copies \
             were opened since",
            label.epoch
        ));
    }
    if is_older_state(superblock, label) {
        let older = if label.renewal < superblock.renewal { "the disk" } else { "the flash device" };
        return Some(format!(
            "cache {cache} on the flash device has seen renewal {} of its disk's label, which has renewal {}: {older} is an older \
             state of itself, a snapshot for instance",
            superblock.renewal, label.renewal
        ));
    }
    None
}
