//! What an open does with a flash that holds a cache: decided from the disk's label, the superblock and the
//! options alone, and once more from what reading the flash has told. Nothing here reads or writes.
//!
//! | the cache is | and | then |
//! |---|---|---|
//! | any | the disk's flash has failed | not written; read if it is that one |
//! | another disk's | it may have pages newer than that disk | refused |
//! | not of this disk's present epoch | the disk may need its own cache | refused |
//! | not of this disk's present epoch | it was released, or nothing on it is newer than its disk | emptied |
//! | this disk's | of another shape than asked for | refused |
//! | this disk's | damaged, and the disk has everything | emptied |
//! | this disk's | | served |

use crate::disk::binding::{HOW_TO_GO_ON, foreign, is_older_state};
use crate::error::HOW_TO_DETACH;
use crate::superblock::needed_elsewhere;
use crate::{TierError, TierOptions, points};
use entresol_core::{Directory, Mode, Placement};
use entresol_format::label::Label;
use entresol_format::superblock::Superblock;

/// What is read of a flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToRead {
    /// The directory and the groups of a log.
    Log,
    /// What slot placement has left.
    Slots,
    /// Nothing.
    Nothing,
}

/// What an open does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenPlan {
    /// Why the cache does not belong to the disk, if so: nothing of it is served.
    foreign: Option<String>,
    /// What is read.
    pub reading: ToRead,
    /// Dirty pages are copied to disk first.
    pub destages: bool,
    /// The disk has everything that was promised: damage empties the cache.
    disk_suffices: bool,
    /// The disk lacks pages since its flash failed: nothing is written to this one.
    degraded: bool,
}

/// What becomes of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is served.
    ServedSegment,
    /// It is made anew, for this reason.
    Emptied(String),
    /// It is only read, for what the disk lacks.
    Degraded,
}

/// Decides on the cache of `superblock`, for a disk with `label`.
///
/// # Errors
/// [`TierError::Refused`] with what does not fit and what to do.
pub(super) fn decide(
    label: &Label,
    superblock: &Superblock,
    options: &TierOptions,
) -> Result<OpenPlan, TierError> {
    if label.failed_epoch != 0 {
        return of_failed(label, superblock, options);
    }
    check_counters(label, superblock)?;
    let foreign = foreign(superblock, label);
    if let Some(why) = &foreign
        && label.dirty_possible
    {
        points::OPEN_FOREIGN_NEEDED.reach();
        if is_older_state(superblock, label) {
            return Err(TierError::Refused(format!("{why}; {HOW_TO_GO_ON}")));
        }
        return Err(TierError::Refused(format!(
            "{why}; the disk needs the newer pages on its own cache {} as of epoch {}: attach that flash device",
            label.cache, label.epoch
        )));
    }
    if let Some(refusal) = needed_elsewhere(superblock, label.disk) {
        points::OPEN_FOREIGN_DIRTY.reach();
        return Err(refusal);
    }
    if foreign.is_none() || superblock.is_needed() {
        check_shape(superblock, options)?;
    }
    if superblock.version != options.version {
        return of_another_version(superblock, options);
    }
    let is_ours = foreign.is_none();
    // It was released when no page on it was dirty any more, though it could not be told so: it was
    // failing.
    let is_released = !is_ours && label.cache == superblock.cache && superblock.epoch < label.epoch;
    let reading = match superblock.policy.placement() {
        Placement::Log if is_ours || superblock.is_needed() && !is_released => ToRead::Log,
        Placement::Slots if is_ours || superblock.is_needed() && !is_released => ToRead::Slots,
        _ => ToRead::Nothing,
    };
    Ok(OpenPlan {
        reading,
        destages: is_ours && reading == ToRead::Log && options.disk_may_lack(),
        disk_suffices: is_ours
            && (reading == ToRead::Log || superblock.keeps_slots)
            && has_no_dirty(label, superblock),
        degraded: false,
        foreign,
    })
}

/// Whether the disk has everything that the cache was promised.
fn has_no_dirty(label: &Label, superblock: &Superblock) -> bool {
    superblock.mode != Mode::WriteBack || superblock.released && !label.dirty_possible
}

/// Counters of what is opened are below this. They grow while it is used, and twice as large ones count as
/// damage: a cache with a forged one would be refused when it is opened next.
const COUNTER_MAX: u64 = 1 << 61;

fn check_counters(label: &Label, superblock: &Superblock) -> Result<(), TierError> {
    let counters = [
        ("number of the superblock", superblock.sequence),
        ("epoch of the superblock", superblock.epoch),
        ("rear of the superblock", superblock.rear.0),
        ("number of the label", label.sequence),
        ("epoch of the label", label.epoch),
    ];
    match counters.into_iter().find(|(_, found)| *found >= COUNTER_MAX) {
        None => Ok(()),
        Some((what, found)) => Err(TierError::Refused(format!(
            "the {what} of cache {} is {found}, which no cache reaches: it was forged or damaged; nothing was changed: restore \
             the disk from a backup, or wipe label and flash if nothing on flash is wanted any more",
            superblock.cache
        ))),
    }
}

/// Decides on a cache for a disk that lacks pages since its flash failed: only that flash, as it was then,
/// has them.
fn of_failed(label: &Label, superblock: &Superblock, options: &TierOptions) -> Result<OpenPlan, TierError> {
    let is_it = matches!(superblock.directory_kind(), Directory::Log | Directory::Batches)
        && superblock.cache == label.cache
        && superblock.disk == label.disk
        && superblock.epoch == label.failed_epoch
        && superblock.epoch_nonce == label.failed_nonce;
    if is_it {
        check_shape(superblock, options)?;
    }
    let reading = match superblock.policy.placement() {
        _ if !is_it => ToRead::Nothing,
        Placement::Log => ToRead::Log,
        Placement::Slots => ToRead::Slots,
    };
    Ok(OpenPlan { foreign: None, reading, destages: false, disk_suffices: false, degraded: true })
}

/// Decides on a cache of another version of the format.
fn of_another_version(superblock: &Superblock, options: &TierOptions) -> Result<OpenPlan, TierError> {
    let why = format!(
        "cache {} on the flash device is of format version {}, this release writes version {}",
        superblock.cache, superblock.version, options.version
    );
    if superblock.is_needed() {
        points::OPEN_OTHER_VERSION.reach();
        return Err(TierError::Refused(format!(
            "{why}, and pages on it may be newer than the disk; detach it ({HOW_TO_DETACH}) and create a new one"
        )));
    }
    let (foreign, reading) = (Some(why), ToRead::Nothing);
    Ok(OpenPlan { foreign, reading, destages: false, disk_suffices: false, degraded: false })
}

impl OpenPlan {
    /// It is the cache of this disk's present state, as far as label and superblock tell.
    pub(super) fn is_of_this_disk(&self) -> bool {
        self.foreign.is_none() && !self.degraded
    }

    /// Decides once more, when the flash was read as planned: how many dirty pages it holds, or why
    /// it could not be read.
    ///
    /// # Errors
    /// [`TierError::Refused`] if pages on it may still be needed, and the error of the reading.
    pub(super) fn conclude(
        &self,
        superblock: &Superblock,
        dirty: Result<u64, TierError>,
    ) -> Result<Outcome, TierError> {
        if self.degraded {
            return Ok(Outcome::Degraded);
        }
        let dirty = match dirty {
            Ok(dirty) => dirty,
            Err(error @ (TierError::Refused(_) | TierError::Damaged { .. })) if self.disk_suffices => {
                points::OPEN_DAMAGED_EMPTIED.reach();
                let notice = format!("{error}; the disk has all that is needed: the cache was emptied");
                return Ok(Outcome::Emptied(notice));
            }
            Err(error) => return Err(error),
        };
        let Some(why) = &self.foreign else { return Ok(Outcome::ServedSegment) };
        if dirty > 0 && superblock.mode == Mode::WriteBack {
            points::OPEN_FOREIGN_DIRTY.reach();
            return Err(TierError::Refused(format!(
                "{why}, and it holds {dirty} pages newer than the disk that it was used with last; open it with that disk, or that copy \
                 of the disk, and detach it ({HOW_TO_DETACH}); or wipe the flash device if these pages are not \
                 wanted any more"
            )));
        }
        points::OPEN_FOREIGN_EMPTIED.reach();
        Ok(Outcome::Emptied(format!("{why}; it held no dirty page and was emptied")))
    }
}

fn check_shape(superblock: &Superblock, options: &TierOptions) -> Result<(), TierError> {
    let shape = [
        ("page size", superblock.page_bytes, options.page_bytes),
        ("number of slots", superblock.slots, options.slots),
        ("group size", superblock.group_pages, options.group_pages),
        ("segment size", superblock.segment_entries, options.segment_entries),
        ("number of objects", superblock.objects, options.objects),
        ("page format", superblock.page_format as u32, options.page_format as u32),
    ];
    for (what, found, wanted) in shape {
        if found != wanted {
            return Err(TierError::Refused(format!(
                "the {what} of cache {} on the flash device is {found}, {wanted} was asked for; open it with {found}",
                superblock.cache
            )));
        }
    }
    let (found, wanted) = (superblock.directory_kind(), options.directory());
    let is_kept = |directory| matches!(directory, Directory::Batches | Directory::SegmentsAtShutdown);
    if found != wanted && (is_kept(found) || is_kept(wanted)) {
        let survive = |directory| match directory {
            Directory::Batches => "survive a crash",
            Directory::SegmentsAtShutdown => "survive a shutdown",
            _ => "do not survive a crash",
        };
        return Err(TierError::Refused(format!(
            "the slots of cache {} on the flash device {}, slots that {} were asked for; open it as it is, or detach it \
             ({HOW_TO_DETACH}) and create a new one",
            superblock.cache,
            survive(found),
            survive(wanted)
        )));
    }
    if !options.policy.finds_pages_of(superblock.policy) {
        return Err(TierError::Refused(format!(
            "cache {} on the flash device was made for policy {}, which places pages differently from {}; detach it \
             ({HOW_TO_DETACH}) and create a new one",
            superblock.cache,
            superblock.policy.name(),
            options.policy.name()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::binding::new_label;
    use crate::superblock::empty_superblock;
    use entresol_core::{PolicyKind, Position};
    use entresol_format::Uuid;
    use expect_test::expect_file;
    use std::fmt::Write;

    /// Label and superblock as the last open left them.
    fn bound(options: &TierOptions) -> (Label, Superblock) {
        let label = Label { epoch: 7, cache: Uuid::from_random(1, 2), ..new_label(4096) };
        let superblock = Superblock { unsure_to: Position(0), ..empty_superblock(&label, options, 9) };
        (label, superblock)
    }

    /// The flash of this disk's cache has failed, and was not there at two opens since.
    fn fail(label: &mut Label) {
        (label.failed_epoch, label.failed_nonce) = (label.epoch, label.epoch_nonce);
        (label.epoch, label.epoch_nonce) = (label.epoch + 3, !label.epoch_nonce);
    }

    type Change = fn(&mut Label, &mut Superblock);

    /// How label and superblock may differ.
    const WHOSE: [(&str, Change); 13] = [
        ("this disk's", |_, _| ()),
        ("this disk's, cut off", |label, superblock| {
            (superblock.epoch, superblock.begun) = (label.epoch + 1, false);
            superblock.previous_nonce = label.epoch_nonce;
        }),
        ("an older epoch's", |_, superblock| superblock.epoch -= 1),
        ("a later epoch's", |_, superblock| superblock.epoch += 1),
        ("a branch's", |_, superblock| superblock.epoch_nonce ^= 1),
        ("an older state", |label, superblock| (label.renewal, superblock.renewal) = (4, 5)),
        ("a newer state", |label, superblock| (label.renewal, superblock.renewal) = (7, 5)),
        ("a renewal cut off", |label, superblock| (label.renewal, superblock.renewal) = (6, 5)),
        ("detached", |label, _| label.cache = Uuid::NIL),
        ("another disk's", |_, superblock| superblock.disk = Uuid::from_random(3, 4)),
        ("the one that failed", |label, _| fail(label)),
        ("failed, and went on", |label, superblock| {
            fail(label);
            superblock.epoch += 1;
        }),
        ("failed, a branch's", |label, superblock| {
            fail(label);
            superblock.epoch_nonce ^= 1;
        }),
    ];

    fn cell(label: &Label, superblock: &Superblock, options: &TierOptions) -> String {
        let plan = match decide(label, superblock, options) {
            Ok(plan) => plan,
            Err(TierError::Refused(_)) => return "refused".into(),
            Err(error) => return error.to_string(),
        };
        let end = |dirty| match plan.conclude(superblock, dirty) {
            Ok(Outcome::ServedSegment) => "served",
            Ok(Outcome::Emptied(_)) => "emptied",
            Ok(Outcome::Degraded) => "degraded",
            Err(_) => "refused",
        };
        let damage = Err(TierError::Refused("damage".into()));
        if plan.reading == ToRead::Nothing {
            return format!("Nothing: {}", end(Ok(0)));
        }
        let mut text = format!("{:?}: {}, {}, {}", plan.reading, end(Ok(0)), end(Ok(5)), end(damage));
        if plan.destages {
            text += "; destages";
        }
        text
    }

    /// After what is read: what becomes of the cache if it holds no dirty page, if it holds some, if it is
    /// damaged.
    #[test]
    fn every_cache_for_every_disk() {
        let caches = [
            ("log, write-back", PolicyKind::FaceGsc, Mode::WriteBack, false),
            ("log, write-back, released", PolicyKind::FaceGsc, Mode::WriteBack, true),
            ("log, write-through", PolicyKind::FaceGsc, Mode::WriteThrough, false),
            ("slots", PolicyKind::Tac, Mode::WriteThrough, false),
        ];
        let mut table = String::new();
        for (cache, policy, mode, released) in caches {
            writeln!(table, "{cache}").unwrap();
            let options = TierOptions { mode, ..TierOptions::new(policy, 4096) };
            for (whose, change) in WHOSE {
                let cells = [false, true].map(|needs| {
                    let (mut label, mut superblock) = bound(&options);
                    (label.dirty_possible, superblock.released) = (needs, released);
                    change(&mut label, &mut superblock);
                    cell(&label, &superblock, &options)
                });
                let [free, needs] = cells;
                writeln!(table, "  {whose:21}| {free:48}| disk needs its own: {needs}").unwrap();
            }
        }
        expect_file!["plan_table.txt"].assert_eq(&table);
    }

    #[test]
    fn forged_counters_are_refused() {
        let options = TierOptions::new(PolicyKind::FaceGsc, 4096);
        let changes: [Change; 4] = [
            |_, superblock| superblock.rear = Position(COUNTER_MAX),
            |_, superblock| superblock.sequence = COUNTER_MAX,
            |label, superblock| (label.epoch, superblock.epoch) = (COUNTER_MAX, COUNTER_MAX),
            |label, _| label.sequence = COUNTER_MAX,
        ];
        for change in changes {
            let (mut label, mut superblock) = bound(&options);
            assert!(decide(&label, &superblock, &options).is_ok());
            change(&mut label, &mut superblock);
            let refused = decide(&label, &superblock, &options).unwrap_err().to_string();
            assert!(refused.contains("no cache reaches"), "{refused}");
        }
    }

    #[test]
    fn another_shape_is_refused_with_what_is_there() {
        let options = TierOptions::new(PolicyKind::FaceGsc, 4096);
        let (label, superblock) = bound(&options);
        let others = [
            (TierOptions { page_bytes: 8192, ..options.clone() }, "4096, 8192 was asked for"),
            (TierOptions::new(PolicyKind::FaceGsc, 8192), "open it with 4096"),
            (TierOptions::new(PolicyKind::Lc, 4096), "places pages differently from lc"),
        ];
        for (other, told) in others {
            let refused = decide(&label, &superblock, &other).unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
        assert!(decide(&label, &superblock, &TierOptions::new(PolicyKind::Face, 4096)).is_ok());
    }
}
