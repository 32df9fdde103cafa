//! Restart after a crash, as in ARIES: find the newest checkpoint, redo from its redo point, roll back the
//! losers, make a checkpoint. A restart after a shutdown that left dirty pages on flash redoes only what was
//! logged after that shutdown began, and makes no checkpoint: the log still reaches back to the one before,
//! and has what a crash of this life takes from the flash.
//!
//! Invariants:
//! 1. Redo repeats every change whose page is older, in log order. It appends nothing to the log, so it may
//!    be interrupted and repeated. Pages evicted meanwhile are legal versions: the log up to its end is
//!    durable, because it is synced before it is read, and is read from the medium. The rest of the sector
//!    after the end is cleared before redo.
//! 2. Undo appends compensations (see [`crate::txn::rollback`]). A restart after a crash during undo redoes
//!    these and continues with the rest.
//! 3. A change that replaces the whole page is redone without reading the page.
//!
//! 4. A change that is in a durable version of its page is not redone, and the page is not fetched for it
//!    ([`crate::durable`]). If the page turns out to be damaged (a later write of it was torn), redo begins
//!    again and ignores its notes. With full page writes, the log then has an image of the page.
//! 5. Before anything is written or redone, the restart checks that disk and log belong together
//!    ([`crate::wal::session`]).
//! 6. A page whose LSN is not in the log is refused ([`crate::pool`], rule 6).
//! 7. Without the flash redo begins at the horizon ([`crate::horizon`]), and believes no note. The log must
//!    be whole from there to the end that is found from the newest checkpoint on; nothing is written before
//!    that is known. The flash is refused from then on. A crash repeats all of this, until a checkpoint is
//!    complete.

use crate::bytes::Reader;
use crate::checkpoint::CheckpointRecord;
use crate::checkpoints::{flash_is_needed, kept_checkpoints, read_checkpoint, read_checkpoint_at};
use crate::core::Core;
use crate::durable::DurablePages;
use crate::history::{History, analyse, check_capacity, for_each_change, nonsense};
use crate::page::op::PageOp;
use crate::page::{bitmap, meta};
use crate::pool::{PageWrite, Pool};
use crate::space::Space;
use crate::undo::{ActiveTxn, Undo};
use crate::wal::log::{Resume, clear_behind};
use crate::wal::master::Master;
use crate::wal::scan::LogScan;
use crate::wal::{RecordHeader, RecordKind, Wal, blocks, log_area, session};
use crate::work::Work;
use crate::{Options, PageNumber, Parts, RestartReport, StoreError, TxnId, points};
use entresol_core::{KeptCheckpoint, KeptCheckpoints, LogBound, Lsn};
use entresol_engine::{Layer, TierError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Opens the store on `parts`.
pub(crate) fn restart(parts: &Parts, options: Options) -> Result<(Core, RestartReport), StoreError> {
    let start = entresol_runtime::now();
    let device = &*parts.log;
    // If the program was killed without a power failure, there may be records that are not durable yet. If a
    // sync failed, there may be bytes in memory that will never be durable.
    device.sync()?;
    device.drop_cached()?;
    let mut master = blocks::find(device)?;
    if master.page_bytes != options.page_bytes {
        return Err(StoreError::Config(format!(
            "the store was created with pages of {} bytes, and is opened with {}",
            master.page_bytes, options.page_bytes
        )));
    }
    options.check_log(log_area(device).max(master.area))?;
    let found = session::check_binding(&master, &parts.layer.binding()?)?;
    let mut scan = LogScan::new(device, &master);
    let pool = Pool::new(parts.layer.clone(), &options);
    let Begin { checkpoint, mut history, number, kept, oldest, is_flash_lost } =
        find_begin(parts, &mut scan, &mut master)?;
    clear_behind(device, &master, &mut scan, history.end)?;
    pool.wal_rule().set_log_end(history.end);
    let analysed = entresol_runtime::now();

    // What is handed down from here on was logged after that checkpoint's redo point.
    parts.layer.resume_checkpoints(number)?;
    pool.wal_rule().set_redoing(true);
    let materialised = parts.layer.materialised();
    redo(&pool, &mut scan, redo_from(&checkpoint, materialised.end), &mut history)?;
    pool.wal_rule().set_redoing(false);
    let resume = Resume { end: history.end, oldest, redo_point: checkpoint.redo_point, session: found };
    let bind = |log, session| Ok(parts.layer.bind_log(log, session)?);
    let wal = Arc::new(Wal::resume(parts.log.clone(), &mut master, resume, bind)?);
    pool.wal_rule().set_wal(wal.clone());
    let redone = entresol_runtime::now();
    let (redo_fetched, redo_from_flash) = pool.fetch_counts();

    let space = find_space(&pool, options.page_bytes as usize)?;
    let horizon = KeptCheckpoints::new(LogBound(options.flash_loss.log_bytes()), number, kept);
    let is_promised = horizon.promised().is_some();
    let core = Core::new(&options, pool, wal, space, history.next_txn, horizon);
    let losers = history.losers.len() as u64;
    scan.follow(&master);
    undo(&core, &mut scan, history.losers)?;
    let undone = entresol_runtime::now();
    let (pages_fetched, pages_from_flash) = core.pool.fetch_counts();
    // A shutdown that left dirty pages on flash has saved itself a checkpoint. The restart saves it, too:
    // with nothing to roll back, the store is as it was.
    if losers > 0 || materialised.dirty == 0 {
        core.checkpointer.make()?;
    } else {
        points::MATERIALISED.reach();
    }
    if !is_promised {
        core.checkpointer.settle()?;
    }
    let report = RestartReport {
        duration: entresol_runtime::now().since(start),
        analysis: analysed.since(start),
        redo: redone.since(analysed),
        undo: undone.since(redone),
        log_bytes: history.end.0 - checkpoint.redo_point.0,
        records: history.records,
        redo_fetched,
        redo_from_flash,
        pages_fetched,
        pages_from_flash,
        losers,
        materialised: materialised.dirty,
        unreadable_end: history.unreadable_end,
        is_flash_lost,
    };
    Ok((core, report))
}

/// Where a restart begins.
struct Begin {
    checkpoint: CheckpointRecord,
    /// From there on.
    history: History,
    /// The number of the newest checkpoint.
    number: u64,
    /// The checkpoints from its horizon on.
    kept: VecDeque<KeptCheckpoint<Lsn>>,
    /// The oldest LSN that is needed from now on.
    oldest: Lsn,
    is_flash_lost: bool,
}

/// Reads the log. Without the flash, that is refused from then on.
fn find_begin(parts: &Parts, scan: &mut LogScan<'_>, master: &mut Master) -> Result<Begin, StoreError> {
    let (device, layer) = (&*parts.log, &*parts.layer);
    let is_flash_lost = layer.is_flash_lost();
    let mut checkpoint = read_checkpoint(scan, master)?;
    let mut history = analyse(scan, master, &checkpoint, layer)?;
    // A checkpoint was cut off between its record and the master record. The content of the record was true
    // before the record was written, so the checkpoint is adopted. Otherwise restarts that are repeatedly cut
    // off there would fill the log with such records.
    let is_adopted = history.newer_checkpoint.is_some();
    if let Some(newer) = history.newer_checkpoint {
        points::CHECKPOINT_ADOPTED.reach();
        master.checkpoint = newer;
        master.durable = history.end;
        // The record is checked before both blocks name it.
        checkpoint = read_checkpoint(scan, master)?;
        if !is_flash_lost {
            blocks::write_both(master, device)?;
        }
        history = analyse(scan, master, &checkpoint, layer)?;
    }
    let number = checkpoint.kept.map_or(0, |kept| kept.number);
    let kept = kept_checkpoints(scan, master, &checkpoint, is_flash_lost)?;
    // Of the newest checkpoint: what transactions needed that have ended since an older one is not there.
    let oldest = kept.front().map_or(checkpoint.oldest(), |kept| kept.redo_point.min(checkpoint.oldest()));
    if is_flash_lost {
        points::FLASH_LOST.reach();
        let horizon = kept.front().ok_or_else(flash_is_needed)?;
        (checkpoint, history) = go_back(scan, master, horizon, (&checkpoint, history), layer)?;
        // Nothing was written yet. From here on the flash is refused, if it returns.
        layer.give_up_flash()?;
        if is_adopted {
            blocks::write_both(master, device)?;
        }
    }
    Ok(Begin { checkpoint, history, number, kept, oldest, is_flash_lost })
}

/// For a restart without the flash: the checkpoint to begin with, and the history from there on.
fn go_back(
    scan: &mut LogScan<'_>,
    master: &Master,
    horizon: &KeptCheckpoint<Lsn>,
    (newest, at_newest): (&CheckpointRecord, History),
    layer: &dyn Layer,
) -> Result<(CheckpointRecord, History), StoreError> {
    let checkpoint = read_checkpoint_at(scan, master, horizon.record)?;
    let mut history = analyse(scan, master, &checkpoint, layer)?;
    if history.end != at_newest.end {
        // A place between that is no hole for the search of claims.
        return Err(scan.missing(history.end));
    }
    history.next_txn = history.next_txn.max(newest.next_txn);
    // A page on disk may be torn, or older than a note from before its last write believes.
    history.durable = DurablePages::default();
    Ok((checkpoint, history))
}

/// Why a pass of redo ended early.
enum Stop {
    /// The layer's version of this page is damaged, or older than its note: its notes must be ignored.
    Distrust(PageNumber),
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Layer(TierError::Damaged { page, .. } | TierError::Unreadable { page, .. }) => {
                Stop::Distrust(PageNumber(page.number()))
            }
            error => Stop::Failed(error),
        }
    }
}

/// Where redo begins: at the checkpoint's redo point, or where a quick shutdown has left everything in the
/// layer. That may be after the last record: the rest of its sector was filled. A page of a log that has lost
/// its end is refused, as ever.
fn redo_from(checkpoint: &CheckpointRecord, materialised: Option<Lsn>) -> Lsn {
    checkpoint.redo_point.max(materialised.unwrap_or_default())
}

/// Redoes all changes that are not durable.
fn redo(pool: &Pool, scan: &mut LogScan<'_>, from: Lsn, history: &mut History) -> Result<(), StoreError> {
    loop {
        match redo_once(pool, scan, from, history) {
            Ok(()) => return Ok(()),
            Err(Stop::Failed(error)) => return Err(error),
            // The page is rebuilt from its image in the log. A damaged page without a note is reported by the
            // layer itself.
            Err(Stop::Distrust(page)) if history.durable.forget(page.id()) => {
                points::NOTE_DISTRUSTED.reach();
            }
            Err(Stop::Distrust(page)) => {
                pool.fix_shared(page)?;
            }
        }
    }
}

fn redo_once(pool: &Pool, scan: &mut LogScan<'_>, from: Lsn, history: &History) -> Result<(), Stop> {
    let mut at = from;
    while at < history.end {
        let Some((header, payload)) = scan.next(at, 0)? else {
            return Err(Stop::Failed(scan.missing(at)));
        };
        at = header.end();
        for_each_change(&header, payload, |page, ops| match history.durable.has(page, header.lsn) {
            true => {
                points::NOTE_SKIPS.reach();
                Ok(())
            }
            false => redo_page(pool, &header, page, ops, history.durable.least(page)),
        })?;
    }
    Ok(())
}

/// Redoes one record's changes of one page, unless the page has them. A page that is read must be at least as
/// new as `least`.
fn redo_page(
    pool: &Pool,
    header: &RecordHeader,
    number: PageNumber,
    ops: &[u8],
    least: Lsn,
) -> Result<(), Stop> {
    let mut reader = Reader(ops);
    let mut op = PageOp::decode(&mut reader).ok_or_else(|| nonsense(header))?;
    let mut page: PageWrite<'_> =
        if op.is_blind() { pool.fix_new(number)? } else { pool.fix_exclusive(number)? };
    if !op.is_blind() && page.lsn() < least {
        return Err(Stop::Distrust(number));
    }
    if page.lsn() >= header.lsn {
        points::CHANGE_THERE.reach();
        return Ok(());
    }
    let mut is_image = false;
    loop {
        is_image |= op.is_blind();
        if !op.fits(&page) {
            return Err(Stop::Failed(StoreError::Corrupt {
                place: format!("page {number} at LSN {}, log record {}", page.lsn().0, header.lsn.0),
                expected: "a page that the logged change fits".into(),
                found: format!("a page of kind {} that it does not fit", crate::page::kind(&page)),
            }));
        }
        op.apply(page.change());
        if reader.is_empty() {
            break;
        }
        op = PageOp::decode(&mut reader).ok_or_else(|| nonsense(header))?;
    }
    if is_image && !crate::page::is_sound(&page) {
        return Err(Stop::Failed(nonsense(header)));
    }
    points::CHANGE_REPEATED.reach();
    page.changed(header.lsn);
    Ok(())
}

/// Reads the end of the store from the meta page and the last bitmap.
fn find_space(pool: &Pool, page_bytes: usize) -> Result<Space, StoreError> {
    let groups = {
        let page = pool.fix_shared(meta::META_PAGE)?;
        meta::check(&page)?;
        meta::groups(&page)
    };
    let most = u32::MAX / bitmap::group_pages(page_bytes);
    if !(1..=most).contains(&groups) {
        return Err(StoreError::Corrupt {
            place: "meta page 0".into(),
            expected: format!("1 to {most} groups of pages"),
            found: groups.to_string(),
        });
    }
    let last = groups - 1;
    let number = bitmap::bitmap_of_group(last, page_bytes);
    let capacity = pool.layer().capacity_pages();
    check_capacity(number.0.into(), capacity)?;
    let page = pool.fix_shared(number)?;
    bitmap::check(&page, number)?;
    if !bitmap::get(&page, number.0 % bitmap::group_pages(page_bytes)) {
        return Err(StoreError::Corrupt {
            place: format!("bitmap page {number}"),
            expected: "its own bit set".into(),
            found: "it clear".into(),
        });
    }
    let end = last * bitmap::group_pages(page_bytes) + bitmap::end(&page);
    check_capacity(u64::from(end).saturating_sub(1), capacity)?;
    Ok(Space::new(groups, end, capacity, page_bytes))
}

/// Rolls back the transactions without a commit or end record.
fn undo(core: &Core, scan: &mut LogScan<'_>, losers: BTreeMap<TxnId, ActiveTxn>) -> Result<(), StoreError> {
    let mut work = Work::default();
    for loser in losers.into_values() {
        let txn = core.active.restore(loser);
        let mut at = loser.last;
        while at.0 != 0 {
            let (header, payload) = scan.at(at)?;
            let mut reader = Reader(payload);
            let before = match header.kind {
                RecordKind::Update => {
                    let undo = Undo::decode(&mut reader).ok_or_else(|| nonsense(&header))?;
                    points::LOSER_UNDONE.reach();
                    core.rollback.undo_one(&mut work, &txn, undo, header.previous)?;
                    header.previous
                }
                RecordKind::Compensation => {
                    points::COMPENSATED.reach();
                    Lsn(reader.u64().ok_or_else(|| nonsense(&header))?)
                }
                _ => header.previous,
            };
            if before >= at {
                return Err(nonsense(&header));
            }
            at = before;
        }
        core.rollback.log_end(&mut work, &txn, RecordKind::End);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use entresol_device::MemoryDevice;
    use entresol_engine::DiskLayer;

    /// A transaction enters the table of active transactions, and a checkpoint is made before its first
    /// record.
    #[test]
    fn a_checkpoint_before_the_first_record_of_a_transaction_is_found_by_a_restart() {
        let log = Arc::new(MemoryDevice::new("log", 2 << 20));
        let disk = Arc::new(MemoryDevice::new("disk", 4 << 20));
        let options = Options { page_bytes: 4096, frames: 64, ..Options::default() };
        let layer = DiskLayer::create(disk.clone(), 4096).unwrap();
        Store::create(Parts { layer, log: log.clone() }, options.clone()).unwrap().shutdown().unwrap();
        let layer = DiskLayer::open(disk.clone(), 4096).unwrap();
        let (core, _) = restart(&Parts { layer, log: log.clone() }, options.clone()).unwrap();
        // All of the log is durable, so the checkpoint record is next.
        core.wal.flush(core.wal.tail().end()).unwrap();
        let txn = core.active.begin();
        core.active.enter(&txn, &core.wal, 0);
        core.checkpointer.make().unwrap();
        drop(core);
        let layer = DiskLayer::open(disk, 4096).unwrap();
        let (_, report) = restart(&Parts { layer, log }, options).unwrap();
        assert_eq!(report.losers, 1);
    }
}
