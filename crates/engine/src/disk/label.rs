//! Reading and writing a disk's label.
//!
//! Invariants: a new label overwrites the older of the two copies first, so one copy is whole at any crash.
//! Both copies are equal before anything else is written.

use crate::buffer::{self, AlignedBuffer};
use crate::error::disk_error;
use crate::{TierError, points, unreadable};
use arrayvec::ArrayVec;
use entresol_device::{Device, Io, put_over, write_copies};
use entresol_format::label::{COPIES, COPY_STRIDE, LABEL_AREA_BYTES, Label};
use entresol_format::{BLOCK_BYTES, BlockFault};

/// The copies of a label.
#[derive(Clone, Copy)]
pub(crate) struct Labels {
    /// The newest whole one.
    pub newest: Label,
    /// Both copies agree. Otherwise one is damaged, or an open was interrupted between the two writes.
    pub agree: bool,
}

/// The state of the label's place.
pub(crate) enum LabelState {
    /// Nothing was ever written there.
    Blank,
    /// A label.
    Valid(Labels),
    /// Other content, or a damaged label: why each copy was refused.
    Unreadable(String),
}

/// Finds the newest label of `disk`. If another program has used the disk since, there is none.
pub(crate) fn read_label(disk: &dyn Device) -> Result<LabelState, TierError> {
    if disk.geometry().capacity_bytes < LABEL_AREA_BYTES {
        return Err(TierError::Refused(format!(
            "the disk has {} bytes, less than the {LABEL_AREA_BYTES} that a label takes; is it truncated?",
            disk.geometry().capacity_bytes
        )));
    }
    let mut blocks: [_; COPIES as usize] = std::array::from_fn(|_| AlignedBuffer::new(BLOCK_BYTES));
    let mut reads: ArrayVec<Io<'_>, { COPIES as usize }> = ArrayVec::new();
    for (copy, buffer) in blocks.iter_mut().enumerate() {
        reads.push(Io::Read { offset: copy as u64 * COPY_STRIDE, buffer });
    }
    unreadable::read_batch(disk, &mut reads).map_err(disk_error)?;
    drop(reads);
    let mut newest: Option<Label> = None;
    let mut faults = Vec::new();
    for (copy, block) in blocks.iter().enumerate() {
        match Label::decode(block) {
            Ok(label) if newest.is_none_or(|best| best.sequence < label.sequence) => newest = Some(label),
            Ok(_) | Err(BlockFault::Blank) => {}
            Err(fault) => {
                points::LABEL_DAMAGED.reach();
                faults.push(format!("copy {copy}: {}", unreadable::fault_of(block, fault)));
            }
        }
    }
    if newest.is_some()
        && !faults.is_empty()
        && let Some(other) = put_over(disk).map_err(disk_error)?
    {
        points::LABEL_PUT_OVER.reach();
        return Ok(LabelState::Unreadable(format!("{other} was put over it; {}", faults.join("; "))));
    }
    Ok(match newest {
        Some(newest) => {
            let says = |block| {
                Label::decode(block).is_ok_and(|copy| Label { sequence: newest.sequence, ..copy } == newest)
            };
            LabelState::Valid(Labels { newest, agree: blocks.iter().all(|block| says(block)) })
        }
        None if faults.is_empty() => LabelState::Blank,
        None => LabelState::Unreadable(faults.join("; ")),
    })
}

/// The newest label, with a copy in both places. It is to be so before the flash is overwritten for another
/// cache:
///
/// 1. The first copy of a label that names cache A is torn: a sector of it cannot be read, the others are
///    new. The next open finds the older label alone, and makes cache B on flash.
/// 2. Its label is torn in the same place: the sector that could not be read is written, and the others are
///    not. Now that copy is the label of A, whole again, and newest; the flash has B.
///
/// # Errors
/// The disk's.
pub(crate) fn made_equal(disk: &dyn Device, labels: Labels) -> Result<Label, TierError> {
    let mut label = labels.newest;
    if !labels.agree {
        points::LABEL_DOUBLED.reach();
        write_label(disk, &mut label)?;
    }
    Ok(label)
}

/// Writes `label` to both places durably, one after the other, and raises its sequence. Both copies are read
/// back, because all later writes rely on them: if one copy is lost later, the other one has the same
/// content.
pub(crate) fn write_label(disk: &dyn Device, label: &mut Label) -> Result<(), TierError> {
    let copies = buffer::copies(COPIES, |block| {
        label.sequence += 1;
        label.encode(block);
        label.offset()
    });
    write_copies(disk, ("disk", "label"), &copies, false).map(drop).map_err(disk_error)
}
