//! Which flash goes with which disk (docs/DESIGN.md §4): the disk's label names the cache bound to it and an
//! epoch that grows at each open.
//!
//! An open raises the epoch in three steps, each durable before the next: (1) all superblocks, not *begun*;
//! (2) the disk's label; (3) all superblocks, *begun*. Only then does anything else happen. So, of the same
//! cache:
//!
//! - flash and disk of one epoch: they belong together;
//! - flash behind disk: the disk was written without this flash;
//! - flash one ahead, not begun: an open was cut off between (1) and (2);
//! - flash one ahead and begun, or more than one ahead: the disk is an older state of itself.
//!
//! The last holds for each copy of the label: before step (1), both say the same. An open that was cut off
//! before step (2) is finished first, with the epoch and the nonce that it wrote to the flash: a label of it
//! may exist that could not be read for a while.
//!
//! Epochs are counted, so two branches of one copy that were both opened since have the same. A *nonce*,
//! drawn at random for each epoch, tells them apart: flash and disk of one epoch have the same, and a flash
//! that is one ahead names the nonce that its disk still has.

use super::{LabelState, Labels, read_label};
use crate::TierError;
use crate::api::Binding;
use entresol_core::mutant;
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
    }
}

/// The disk is about to be written in a new epoch.
pub(crate) fn begin_epoch(label: &mut Label) {
    label.epoch += 1;
    label.epoch_nonce = random();
}

/// A new name.
pub(crate) fn new_uuid() -> Uuid {
    Uuid::from_random(random(), random())
}

/// What the label of `disk` says; `None` if it has none that can be read. Nothing is opened or written.
///
/// # Errors
/// If the disk as a whole cannot be read.
pub fn disk_binding(disk: &dyn Device) -> Result<Option<Binding>, TierError> {
    Ok(match read_label(disk)? {
        LabelState::Valid(labels) => Some(of_label(&labels.newest)),
        LabelState::Blank | LabelState::Unreadable(_) => None,
    })
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

/// Refuses a disk whose pages have other bytes than `page_bytes`.
pub(crate) fn expect_page_bytes(label: &Label, page_bytes: u32) -> Result<(), TierError> {
    if label.page_bytes == page_bytes {
        return Ok(());
    }
    Err(TierError::Refused(format!(
        "the disk has pages of {} bytes, {page_bytes} were asked for; open it with its own page size",
        label.page_bytes
    )))
}

/// Whether an open was cut off after it had written its epoch to the superblocks, and before the disk's label
/// had it.
pub(crate) fn is_cut_off(superblock: &Superblock, label: &Label) -> bool {
    superblock.epoch == label.epoch + 1 && !superblock.begun && superblock.previous_nonce == label.epoch_nonce
}

/// Why the cache does not belong to the disk, if so.
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
    if superblock.epoch < label.epoch && !mutant!("label-epoch-not-checked") {
        return Some(format!(
            "cache {cache} on the flash device is of epoch {}, its disk of epoch {}: the disk was written without it",
            superblock.epoch, label.epoch
        ));
    }
    let believed = superblock.epoch == label.epoch + 1 && mutant!("begun-not-checked");
    if superblock.epoch > label.epoch && !is_cut_off(superblock, label) && !believed {
        return Some(format!(
            "cache {cache} on the flash device is of epoch {}, its disk of epoch {}: the disk is an older state",
            superblock.epoch, label.epoch
        ));
    }
    let is_branch = superblock.epoch == label.epoch && superblock.epoch_nonce != label.epoch_nonce;
    if is_branch && !mutant!("epoch-nonce-not-checked") {
        return Some(format!(
            "cache {cache} on the flash device and its disk are of two branches of epoch {}: they were copied, and both copies \
             were opened since",
            label.epoch
        ));
    }
    None
}
