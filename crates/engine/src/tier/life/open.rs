//! Creates and opens a tier. Nothing is written before every check has passed.

use super::assembly::{Base, assemble};
use super::open_failed;
use super::plan::{OpenPlan, Outcome, ToRead, decide};
use crate::costs::measure_costs;
use crate::disk::binding::{HOW_TO_GO_ON, begin_epoch, expect_label, expect_page_bytes, new_label, new_uuid};
use crate::disk::{Home, LabelState, Labels, OwnersLog, made_equal, read_label, write_label};
use crate::error::{HOW_TO_DETACH, disk_error, flash_error};
use crate::recover::{self, Restored, RestoredSlots};
use crate::region::Region;
use crate::superblock::{empty_superblock, needed_elsewhere, read_newest, write_all_copies};
use crate::tier::parts::Parts;
use crate::tier::ring::FoundRing;
use crate::tier::room::FoundPages;
use crate::tier::slots::FoundSlots;
use crate::tier::slots::directory::SlotDirectory;
use crate::{OpenReport, TierError, TierOptions, claim, points};
use entresol_core::{Costs, Mode, Position};
use entresol_device::Device;
use entresol_format::Layout;
use entresol_format::label::Label;
use entresol_format::losses::{Loss, Losses};
use entresol_format::owners_log::LogPosition;
use entresol_format::superblock::Superblock;
use entresol_runtime::now;
use std::sync::Arc;

fn check_size(flash: &dyn Device, layout: &Layout) -> Result<(), TierError> {
    let (needed, found) = (layout.device_bytes(), flash.geometry().capacity_bytes);
    if found >= needed {
        return Ok(());
    }
    Err(TierError::Config(format!(
        "the flash device has {found} bytes, a cache of this size needs {needed}; choose fewer slots or a larger device"
    )))
}

pub(crate) fn create(mut base: Base<'_>) -> Result<Parts, TierError> {
    let Base { flash, home, options, .. } = &mut base;
    options.validate()?;
    check_size(&**flash, &options.layout())?;
    settle(&**flash, &**home)?.into_iter().collect::<Result<(), _>>()?;
    let (mut labels, is_new) = match read_label(home.label())? {
        LabelState::Blank | LabelState::Unreadable(_) => {
            claim::disk(home.label(), options.overwrite)?;
            (Labels { newest: new_label(options.page_bytes), agree: true }, true)
        }
        LabelState::Valid(labels) => {
            expect_page_bytes(&labels.newest, options.page_bytes)?;
            (labels, false)
        }
    };
    let label = &mut labels.newest;
    if label.dirty_possible {
        points::CREATE_REFUSED_DISK.reach();
        return Err(TierError::Refused(format!(
            "disk {} belongs to the flash cache {}, which may hold newer pages; open it with that flash device, or \
             detach the cache from it first ({HOW_TO_DETACH})",
            label.disk, label.cache
        )));
    }
    let old = read_newest(&**flash)?.0;
    match &old {
        None => claim::flash(&**flash, options.overwrite)?,
        Some(old) => needed_elsewhere(old, label.disk).map_or(Ok(()), Err)?,
    }
    if is_new {
        // A cache must not be needed by a disk that does not know its name yet.
        write_label(home.label(), label)?;
    }
    let is_weighed = options.policy.facts().weighs_costs || options.can_change_policy();
    let is_unknown = is_weighed && !options.costs.are_known();
    if options.measures_costs && is_unknown {
        options.costs = measure_costs(&**flash, home, options)?;
    }
    format(base, labels, old.map_or(0, |old| old.sequence))
}

/// Writes an empty cache to `flash` and binds it to the disk with these labels.
fn format(base: Base<'_>, labels: Labels, sequence: u64) -> Result<Parts, TierError> {
    let Base { flash, home, options, .. } = &base;
    let mut label = made_equal(home.label(), labels)?;
    begin_epoch(&mut label);
    label.cache = new_uuid();
    label.dirty_possible = options.dirty_possible();
    // What a database's log says of groups of earlier epochs was on another cache.
    let mut losses = Losses::default();
    losses.note(Loss { epoch: label.epoch, group: 0 });
    let mut superblock = Superblock { losses, ..empty_superblock(&label, options, sequence) };
    claim::erase_fragment_marks(&**flash)?;
    // All four copies: none of an older cache may stay.
    write_all_copies(&**flash, &mut superblock)?;
    write_label(home.label(), &mut label)?;
    let region = Region::new(options, superblock.cache)?;
    let found = FoundPages::empty(options, &superblock);
    begin_to_serve(assemble(base, superblock, region, found)?, &label)
}

/// The last steps, before a page gets a position.
fn begin_to_serve(parts: Parts, label: &Label) -> Result<Parts, TierError> {
    parts.floor.disk.missing.find_lost(label, Some(parts.floor.access.rescuer.clone()))?;
    parts.floor.objects.make_durable()?;
    parts.room.repair()?;
    Ok(parts)
}

/// Syncs both devices before anything is read. A killed program may have left unsynced writes, and the next
/// superblock will call them durable. Returns whether the flash was synced, and whether its reads come from
/// the medium from now on; for the disk both are required.
fn settle(flash: &dyn Device, home: &dyn Home) -> Result<[Result<(), TierError>; 2], TierError> {
    home.sync().map_err(disk_error)?;
    let is_synced = flash.sync().map_err(flash_error);
    // What a sync that failed in an earlier life has lost may still be in memory.
    home.drop_cached().map_err(disk_error)?;
    Ok([is_synced, flash.drop_cached().map_err(flash_error)])
}

/// Opens a cache for its disk.
pub(crate) fn open(base: Base<'_>) -> Result<(Parts, OpenReport), TierError> {
    let started = now();
    let Base { flash, home, options, .. } = &base;
    options.validate()?;
    let [is_synced, is_there] = settle(&**flash, &**home)?;
    let labels = expect_label(home.label(), options.page_bytes)?;
    let mut report = OpenReport::default();
    if labels.newest.failed_epoch != 0 {
        // It is only read.
        let parts = open_failed::open(base, labels, is_there, &mut report)?;
        report.duration = now().since(started);
        return Ok((parts, report));
    }
    is_synced.and(is_there)?;
    let (newest, faults) = read_newest(&**flash)?;
    report.notices.extend(faults.iter().cloned());
    let parts = match newest {
        None => open_blank(base, labels, &mut report)?,
        Some(superblock) => open_cache(base, labels, superblock, &mut report)?,
    };
    report.notices.extend(parts.floor.lost.notice()?);
    report.duration = now().since(started);
    Ok((parts, report))
}

fn open_blank(base: Base<'_>, labels: Labels, report: &mut OpenReport) -> Result<Parts, TierError> {
    let label = &labels.newest;
    if label.dirty_possible {
        points::OPEN_BLANK_REFUSED.reach();
        let why =
            if report.notices.is_empty() { "it is blank".to_owned() } else { report.notices.join("; ") };
        return Err(TierError::Refused(format!(
            "the flash device holds no superblock that can be read ({why}), but disk {} needs the pages on its cache {}; \
             attach that device, or restore the database from a backup",
            label.disk, label.cache
        )));
    }
    claim::flash(&*base.flash, base.options.overwrite)?;
    check_size(&*base.flash, &base.options.layout())?;
    points::OPEN_BLANK_FORMATTED.reach();
    report.notices.push("the flash device held no cache: a new, empty one was made".to_owned());
    format(base, labels, 0)
}

fn open_cache(
    mut base: Base<'_>,
    labels: Labels,
    superblock: Superblock,
    report: &mut OpenReport,
) -> Result<Parts, TierError> {
    let Base { flash, home, options, .. } = &mut base;
    let label = labels.newest;
    if !options.costs.are_known() {
        let worth = options.costs.write_worth_permille;
        options.costs = Costs { write_worth_permille: worth, ..superblock.costs };
    }
    let plan = decide(&label, &superblock, options)?;
    check_size(&**flash, &options.layout())?;
    let found = read(&plan, &**flash, home, (&superblock, &label), options, report);
    // It may say since that pages are lost, or not any more.
    let labels = if plan.destages { expect_label(home.label(), options.page_bytes)? } else { labels };
    let label = labels.newest;
    let dirty = found.as_ref().map(|_| report.dirty).map_err(TierError::clone);
    if let Outcome::Emptied(notice) = plan.conclude(&superblock, dirty)? {
        report.forget_directory();
        report.notices.push(notice);
        return format(base, labels, superblock.sequence);
    }
    let (mut next, pages, region) = resume(found?, &**flash, &superblock, &label, options, home.log())?;
    begin(&**flash, home.label(), options, &superblock, &mut next, labels)?;
    begin_to_serve(assemble(base, next, region, pages)?, &label)
}

/// What was read of a cache.
enum ReadBack {
    Log(Restored),
    Slots(RestoredSlots),
    Nothing,
}

/// Reads what `plan` says. Dirty pages are copied to disk if the plan says so.
fn read(
    plan: &OpenPlan,
    flash: &dyn Device,
    home: &Arc<dyn Home>,
    (superblock, label): (&Superblock, &Label),
    options: &TierOptions,
    report: &mut OpenReport,
) -> Result<ReadBack, TierError> {
    // Of the same open: after one that was cut off, the label speaks of the mode before.
    let is_known = superblock.mode == Mode::WriteBack && superblock.epoch == label.epoch;
    let is_clean = is_known && !label.dirty_possible;
    match plan.reading {
        ToRead::Nothing => Ok(ReadBack::Nothing),
        ToRead::Slots => {
            let mut slots = recover::restore_slots(flash, superblock, options, report)?;
            if let Some(slots) = slots.as_mut().filter(|_| is_clean && options.keeps_batches()) {
                points::OPEN_CLEAN.reach();
                slots.are_clean();
                report.dirty = 0;
            }
            if let (Some(log), Some(slots)) = (home.log(), &slots)
                && plan.is_of_this_disk()
                && options.keeps_batches()
            {
                prove_log(log, slots.log, superblock)?;
            }
            Ok(slots.map_or(ReadBack::Nothing, ReadBack::Slots))
        }
        ToRead::Log => {
            let mut restored = recover::restore(flash, superblock, options, report)?;
            if let Some(log) = home.log()
                && plan.is_of_this_disk()
            {
                prove_log(log, restored.log, superblock)?;
            }
            if is_clean {
                points::OPEN_CLEAN.reach();
                restored.are_clean();
                report.dirty = 0;
            }
            if plan.destages && report.dirty > 0 {
                points::UNSURE_DESTAGED.reach();
                let copied = restored.destage_all(flash, home, (superblock, label), options)?;
                report.notices.push(match superblock.mode {
                    Mode::WriteBack => format!("{copied} dirty pages were copied to disk first"),
                    _ => format!(
                        "{copied} pages whose writes to disk may not have been durable were written there again"
                    ),
                });
                report.dirty = 0;
            }
            if options.keeps_bases {
                report.dirty -= restored.ask_disk_for_unsure(home, options);
            }
            Ok(ReadBack::Log(restored))
        }
    }
}

/// Proves that the owner's log is the one that the cache depends on.
fn prove_log(log: &dyn OwnersLog, on_flash: LogPosition, superblock: &Superblock) -> Result<(), TierError> {
    let [one, other] = superblock.mark_digests;
    let marks = [(superblock.marks[0], one), (superblock.marks[1], other)];
    log.prove(on_flash, marks).map_err(|why| TierError::Refused(format!("{why}; {HOW_TO_GO_ON}")))
}

/// The superblock that goes on from `superblock`, in the epoch of `label`, with what was found; on flash,
/// what is missing of the log is recorded and repaired.
fn resume(
    found: ReadBack,
    flash: &dyn Device,
    superblock: &Superblock,
    label: &Label,
    options: &TierOptions,
    log: Option<&dyn OwnersLog>,
) -> Result<(Superblock, FoundPages, Region), TierError> {
    let keeps_bases = options.config().keeps_bases;
    let goes_on = keeps_bases && superblock.knows_bases();
    let mut next = Superblock {
        keeps_bases,
        checkpoint: if goes_on { superblock.checkpoint } else { 0 },
        horizon: if goes_on { superblock.horizon } else { 0 },
        epoch: label.epoch,
        staging_groups: options.staging_groups,
        policy: options.policy,
        mode: options.mode,
        clean: false,
        directory: false,
        begun: false,
        released: false,
        renewal: label.renewal,
        costs: options.costs,
        ..*superblock
    };
    match found {
        ReadBack::Log(restored) => {
            let survivors = Some(restored.survivors(superblock));
            let mut before = *superblock;
            restored.record_loss(flash, &mut before)?;
            (next.sequence, next.losses) = (before.sequence, before.losses);
            restored.repair(flash, superblock, &options.layout())?;
            (next.front, next.rear) = (restored.front, restored.rear);
            (next.durable, next.session_rear) = (restored.rear, restored.rear);
            next.log = log.map_or(next.log, OwnersLog::position);
            (next.unsure_from, next.unsure_to) = unsure(superblock, restored.rear, options);
            if !goes_on {
                next.based_from = restored.rear;
            }
            let has_bases = superblock.knows_bases();
            let ring = FoundRing { survivors, records: restored.records, has_bases };
            Ok((next, FoundPages::Ring(ring), restored.region))
        }
        ReadBack::Slots(slots) => {
            slots.repair(flash, &options.layout())?;
            let directory = slots
                .blocks
                .map(|blocks| SlotDirectory::of_blocks(blocks.into_iter(), options.slots, superblock.cache));
            let RestoredSlots { temperatures_written, first, region, kept, materialised, .. } = slots;
            let survivors = kept.as_ref().map(|kept| kept.survivors(superblock));
            next.log = log.map_or(next.log, OwnersLog::position);
            if let Some(kept) = &kept {
                kept.record(superblock, &mut next);
            }
            let found = FoundSlots { first, directory, temperatures_written, kept, survivors, materialised };
            Ok((next, FoundPages::Slots(Box::new(found)), region))
        }
        ReadBack::Nothing => {
            let mut found = FoundPages::empty(options, &next);
            let mut region = Region::new(options, superblock.cache)?;
            if let FoundPages::Slots(slots) = &mut found {
                let first = superblock.next_positions();
                slots.first = first;
                (next.front, next.rear) = (first, first);
                (next.durable, next.session_rear) = (first, first);
                let mut partition = region.partition();
                if let Some(restored) = partition.slots_mut() {
                    restored.restore_slots_begin(first);
                    restored.restore_slots_end();
                }
            }
            Ok((next, found, region))
        }
    }
}

/// Begins a new epoch on flash and disk, after `superblock` was found; `next` is written.
fn begin(
    flash: &dyn Device,
    disk: &dyn Device,
    options: &TierOptions,
    superblock: &Superblock,
    next: &mut Superblock,
    labels: Labels,
) -> Result<(), TierError> {
    let mut label = labels.newest;
    label.dirty_possible = options.dirty_possible();
    if superblock.epoch > label.epoch {
        // The open before this one came no further than the flash: its epoch is finished first. Were it used
        // again, a copy of the flash from before would look like this one.
        points::OPEN_COMPLETED.reach();
        (label.epoch, label.epoch_nonce) = (superblock.epoch, superblock.epoch_nonce);
        record_epoch(flash, disk, next, &mut label, superblock.previous_nonce)?;
    } else if !labels.agree {
        // Whichever copy is lost later, flash must not be two epochs ahead of the other one.
        label.sequence = made_equal(disk, labels)?.sequence;
    }
    let previous = label.epoch_nonce;
    begin_epoch(&mut label);
    record_epoch(flash, disk, next, &mut label, previous)?;
    next.begun = true;
    write_all_copies(flash, next)?;
    Ok(())
}

/// Writes the epoch of `label`, which follows the one with the nonce `previous`, to flash, and then to disk.
fn record_epoch(
    flash: &dyn Device,
    disk: &dyn Device,
    superblock: &mut Superblock,
    label: &mut Label,
    previous: u64,
) -> Result<(), TierError> {
    superblock.epoch = label.epoch;
    superblock.epoch_nonce = label.epoch_nonce;
    superblock.previous_nonce = previous;
    // All four copies, so that whichever survives is of this epoch.
    write_all_copies(flash, superblock)?;
    write_label(disk, label)
}

/// The positions that are unsure after an open. If disk may come to lack pages, what was unsure has just been
/// destaged, and all to come is unsure until the next checkpoint; otherwise it stays so until it is dequeued.
fn unsure(superblock: &Superblock, rear: Position, options: &TierOptions) -> (Position, Position) {
    match options.disk_may_lack() {
        true => (rear, Position::MAX),
        false => (superblock.unsure_from, superblock.unsure_to.min(rear)),
    }
}
