//! The log against a model: after any torn write, a restart finds a prefix of the appended records, and all
//! flushed ones.

use super::log::{Resume, clear_behind};
use super::master::Master;
use super::ring::Ring;
use super::ring::{FIRST_LSN, LOG_START, PADDING};
use super::room::Room;
use super::scan::LogScan;
use super::session::SessionMatch;
use super::tail::Draft;
use super::{RecordKind, Wal, blocks, hole, record};
use crate::checkpoint::CheckpointRecord;
use crate::checkpoints::read_checkpoint;
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::Uuid;
use entresol_format::checksum;
use entresol_runtime::rng::Rng;
use std::sync::Arc;

fn device(memory: MemoryDevice, plan: &Arc<FaultPlan>) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new("log", memory, plan.clone()))
}

fn new_log() -> (Arc<FaultyDevice>, Arc<FaultPlan>) {
    let plan = Arc::new(FaultPlan::none());
    (device(MemoryDevice::new("log", LOG_START + (1 << 20)), &plan), plan)
}

fn create(log: Arc<dyn Device>, page_bytes: u32) -> Result<Wal, StoreError> {
    Wal::create(log, page_bytes, Uuid::NIL, |_, _| Ok(()))
}

/// Does the steps of a restart between its passes and its first record.
fn resume(log: Arc<dyn Device>, mut master: Master, end: Lsn, oldest: Lsn) -> Wal {
    clear_behind(&*log, &master, &mut LogScan::new(&*log, &master), end).unwrap();
    let found = Resume { end, oldest, redo_point: oldest, session: SessionMatch::Same };
    Wal::resume(log, &mut master, found, |_, _| Ok(())).unwrap()
}

fn append(wal: &Wal, txn: u64, payload: &[u8]) -> Lsn {
    let mut bytes = Vec::new();
    record::start(&mut bytes);
    bytes.extend_from_slice(payload);
    let draft = Draft {
        kind: RecordKind::Update,
        txn: TxnId(txn),
        chain: None,
        redo_point: None,
        room: &Room::kept(),
    };
    wal.tail().append(&mut bytes, draft).unwrap()
}

type Records = Vec<(Lsn, u64, Vec<u8>)>;

/// All records from `at` on, as (LSN, transaction, payload), and the log's end.
fn read(device: &FaultyDevice, master: &Master, at: Lsn) -> (Records, Lsn) {
    try_read(device, master, at).unwrap()
}

/// As [`read`]; an error if the log has a hole.
fn try_read(device: &FaultyDevice, master: &Master, at: Lsn) -> Result<(Records, Lsn), StoreError> {
    let mut scan = LogScan::new(device, master);
    let (mut records, mut end, mut epoch) = (Vec::new(), at, 0);
    while let Some((header, payload)) = scan.next(end, epoch)? {
        epoch = header.epoch;
        end = Lsn((header.lsn.0 + header.length as u64).next_multiple_of(8));
        records.push((header.lsn, header.txn.0, payload.to_vec()));
    }
    hole::check_end(&mut scan, master, end, epoch)?;
    Ok((records, end))
}

#[test]
fn pieces_split_where_the_area_wraps() {
    let mut ring = Ring { area: 4096, shift: 0 };
    assert_eq!(ring.pieces(1024, 512), [(LOG_START + 1024, 512), (LOG_START, 0)]);
    assert_eq!(ring.pieces(4096 * 7 + 3584, 1024), [(LOG_START + 3584, 512), (LOG_START, 512)]);
    ring.shift = 3072;
    assert_eq!(ring.pieces(4096 * 7 + 512, 1024), [(LOG_START + 3584, 512), (LOG_START, 512)]);
}

/// Whether a log with a flipped bit is refused. If it is not, it must contain all of `model`.
fn is_refused(log: &FaultyDevice, oldest: Lsn, model: &[(Lsn, u64, Vec<u8>)]) -> bool {
    let master = blocks::read(log).unwrap().unwrap();
    match try_read(log, &master, oldest) {
        Ok((found, _)) => {
            assert_eq!(found, model, "a flipped bit");
            false
        }
        Err(StoreError::Corrupt { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// The log after its program was killed a few times. The next open finds unsynced writes.
fn after_kills(
    mut log: Arc<FaultyDevice>,
    plan: &Arc<FaultPlan>,
    oldest: Lsn,
    mut next: impl FnMut(u64) -> u64,
) -> Arc<FaultyDevice> {
    for _ in 0..next(3) {
        log = Arc::new(log.after_kill(plan.clone()));
        if next(2) == 0 {
            log.sync().unwrap();
            let master = blocks::read(&*log).unwrap().unwrap();
            let (_, end) = read(&log, &master, oldest);
            clear_behind(&*log, &master, &mut LogScan::new(&*log, &master), end).unwrap();
        }
    }
    log
}

#[test]
fn a_restart_finds_what_was_flushed_and_no_leftovers() {
    let mut rng = Rng::new(7);
    let mut next = |bound| rng.below(bound);
    let mut damaged = 0;
    for _ in 0..200 {
        let (mut log, plan) = new_log();
        let mut wal = create(log.clone(), 4096).unwrap();
        let part_bytes = [super::tail::PART_BYTES, 2048][next(2) as usize];
        wal.tail().set_part_bytes(part_bytes);
        // As in a checkpoint.
        let mut oldest = append(&wal, 0, b"checkpoint");
        wal.flush(oldest).unwrap();
        wal.set_checkpoint(oldest, oldest).unwrap();
        let mut model: Vec<(Lsn, u64, Vec<u8>)> = vec![(oldest, 0, b"checkpoint".to_vec())];
        let (mut flushed, mut count) = (1, 0);
        for _life in 0..12 {
            for _ in 0..next(40) {
                for _ in 0..1 + next(4) {
                    count += 1;
                    let payload = vec![count as u8; next(if count % 50 == 0 { 9000 } else { 700 }) as usize];
                    let lsn = append(&wal, count, &payload);
                    model.push((lsn, count, payload));
                }
                if next(2) == 0 {
                    wal.flush(model[model.len() - 1].0).unwrap();
                    flushed = model.len();
                }
                if wal.ledger().used() > wal.ledger().area() / 2 {
                    wal.flush(model[model.len() - 1].0).unwrap();
                    oldest = model[model.len() - 1].0;
                    wal.set_checkpoint(oldest, oldest).unwrap();
                    model.drain(..model.len() - 1);
                    flushed = 1;
                }
            }
            // A flush in progress, or one of its parts: written, not synced, and torn.
            if next(2) == 0 && model.len() > flushed {
                let at = plan.operations() + 1 + next(6);
                let device = Some("log".to_owned());
                plan.inject(Injection { at, device, fault: Fault::SyncError, forever: false });
                while wal.flush(model[model.len() - 1].0).is_ok() {
                    model.push((append(&wal, 0, b"more"), 0, b"more".to_vec()));
                }
                flushed = model.iter().filter(|(lsn, ..)| wal.is_durable(*lsn)).count();
                assert!(wal.flush(append(&wal, 0, &[])).is_err(), "the first failure is for good");
            }
            log = after_kills(log, &plan, oldest, &mut next);
            log = device(log.after_crash(&Survival::Seed(next(1 << 31))), &plan);
            let master = blocks::read(&*log).unwrap().unwrap();
            assert_eq!(master.checkpoint, oldest);
            let (found, end) = read(&log, &master, oldest);
            assert!(found.len() >= flushed, "{} of {flushed} flushed records found", found.len());
            assert_eq!(found, model[..found.len()], "a prefix of what was appended");
            model.truncate(found.len());
            wal = resume(log.clone(), master, end, oldest);
            wal.tail().set_part_bytes(part_bytes);
            assert!(wal.tail().end() >= end);
            // Damage before the newest flush is detected, or harmless.
            let durable = wal.tail().end();
            let lsn = append(&wal, 0, b"newest");
            wal.flush(lsn).unwrap();
            model.push((lsn, 0, b"newest".to_vec()));
            flushed = model.len();
            let [(offset, _), _] = master.ring().pieces(oldest.0 + next(durable.0 - oldest.0), 1);
            let copy = device(log.after_crash(&Survival::None), &plan);
            copy.flip_bit(offset * 8 + next(8));
            damaged += u32::from(is_refused(&copy, oldest, &model));
        }
        assert!(count > 100);
    }
    assert!(damaged > 1000, "only {damaged} damaged logs were refused");
}

/// A length that becomes zero must not be mistaken for padding up to the sector's end.
#[test]
fn a_record_whose_length_turns_to_zero_is_no_padding() {
    let (log, plan) = new_log();
    let wal = create(log.clone(), 4096).unwrap();
    let first = append(&wal, 1, b"checkpoint");
    wal.flush(first).unwrap();
    wal.set_checkpoint(first, first).unwrap();
    // 64 bytes: a single bit.
    let [lsn, _] = [2, 3].map(|txn| append(&wal, txn, &[7; 64 - record::RECORD_HEADER_BYTES]));
    wal.flush(append(&wal, 4, b"the same sector")).unwrap();
    wal.flush(append(&wal, 5, b"the next")).unwrap();
    let log = device(log.after_crash(&Survival::None), &plan);
    let master = blocks::read(&*log).unwrap().unwrap();
    let [(offset, _), _] = master.ring().pieces(lsn.0 + 64, 1);
    log.flip_bit(offset * 8 + 6);
    let refused = try_read(&log, &master, first).err().map(|error| error.to_string());
    assert!(
        refused.as_ref().is_some_and(|why| why.contains(&format!("from LSN {}", lsn.0 + 64))),
        "{refused:?}"
    );
}

/// If either block is damaged later, an older disk must not be accepted as that of a session which has
/// written nothing.
#[test]
fn both_blocks_say_that_a_session_has_begun() {
    let (log, plan) = new_log();
    let wal = create(log.clone(), 4096).unwrap();
    let first = append(&wal, 1, b"checkpoint");
    wal.flush(first).unwrap();
    wal.set_checkpoint(first, first).unwrap();
    let master = blocks::read(&*log).unwrap().unwrap();
    let wal = resume(log.clone(), master, wal.tail().end(), first);
    wal.flush(append(&wal, 2, b"of the new session")).unwrap();
    for block in [0, 4096] {
        let copy = device(log.after_crash(&Survival::None), &plan);
        copy.flip_bit((block + 30) * 8);
        let left = blocks::read(&*copy).unwrap().unwrap();
        assert_eq!(
            (left.session.number, left.begun),
            (master.session.number + 1, true),
            "without the block at {block}"
        );
    }
}

/// After the end there are leftovers of an older life, and after them a sector that a power failure has torn.
#[test]
fn an_unreadable_sector_behind_leftovers_is_of_no_importance() {
    let (log, plan) = new_log();
    let wal = create(log.clone(), 4096).unwrap();
    let first = append(&wal, 1, b"checkpoint");
    wal.flush(first).unwrap();
    wal.set_checkpoint(first, first).unwrap();
    let end = wal.tail().end();
    // One sector each.
    let lsns = [2, 3, 4].map(|txn| append(&wal, txn, &[7; 512 - record::RECORD_HEADER_BYTES]));
    wal.flush(lsns[2]).unwrap();
    // After the crash only the first of these is missing: the flush was torn.
    let log = device(log.after_crash(&Survival::None), &plan);
    let master = blocks::read(&*log).unwrap().unwrap();
    log.write(master.ring().pieces(lsns[0].0, 512)[0].0, &[0; 512]).unwrap();
    let wal = resume(log.clone(), master, end, first);
    let newer = append(&wal, 5, &[8; 512 - record::RECORD_HEADER_BYTES]);
    assert_eq!(newer, lsns[0]);
    wal.flush(newer).unwrap();
    let memory = log.after_crash(&Survival::None);
    memory.mark_unreadable(master.ring().pieces(lsns[2].0, 512)[0].0, 512);
    let log = device(memory, &plan);
    let master = blocks::read(&*log).unwrap().unwrap();
    let (found, end) = read(&log, &master, first);
    assert_eq!((found.len(), end), (2, lsns[1]));
}

/// Damage at the start of a part after a long one: the look-ahead is long enough.
#[test]
fn a_hole_in_a_long_flush_is_found_from_the_part_after_it() {
    let plan = Arc::new(FaultPlan::none());
    let log = device(MemoryDevice::new("log", LOG_START + (64 << 20)), &plan);
    let wal = create(log.clone(), 4096).unwrap();
    let first = append(&wal, 1, b"checkpoint");
    wal.flush(first).unwrap();
    wal.set_checkpoint(first, first).unwrap();
    let mut lsns = Vec::new();
    // Almost a full part, and then the longest record.
    for _ in 0..3 {
        lsns.push(append(&wal, 2, &vec![1; super::tail::PART_BYTES as usize - 100]));
        lsns.push(append(&wal, 3, &vec![2; record::RECORD_BYTES_MAX - record::RECORD_HEADER_BYTES]));
    }
    wal.flush(lsns[5]).unwrap();
    let log = device(log.after_crash(&Survival::None), &plan);
    let master = blocks::read(&*log).unwrap().unwrap();
    assert_eq!(read(&log, &master, first).0.len(), 7);
    for (index, lsn) in lsns.iter().enumerate() {
        let copy = device(log.after_crash(&Survival::None), &plan);
        let [(offset, _), _] = master.ring().pieces(lsn.0 + 50, 1);
        copy.flip_bit(offset * 8);
        // Damage of the last part looks like a torn flush.
        let expected = if index < 4 { None } else { Some(1 + index) };
        let found = try_read(&copy, &master, first).ok().map(|(records, _)| records.len());
        assert_eq!(found, expected, "damage of record {index}");
    }
}

#[test]
fn a_lost_write_of_a_master_record_is_repeated_once() {
    let (log, plan) = new_log();
    let wal = create(log.clone(), 4096).unwrap();
    let mut lsn = append(&wal, 0, b"checkpoint");
    wal.flush(lsn).unwrap();
    let lose = |forever| {
        let at = plan.operations() + 1;
        plan.inject(Injection { at, device: None, fault: Fault::LostWrite, forever });
    };
    for round in 1..5 {
        lose(false);
        wal.set_checkpoint(lsn, lsn).unwrap();
        assert_eq!(plan.struck(), round);
        // Both blocks name it: each of them is sufficient.
        for block in [0, 4096] {
            let copy = device(log.after_crash(&Survival::None), &plan);
            copy.flip_bit((block + 30) * 8);
            assert_eq!(blocks::read(&*copy).unwrap().unwrap().checkpoint, lsn);
        }
        lsn = append(&wal, 0, b"checkpoint");
        wal.flush(lsn).unwrap();
    }
    lose(true);
    let refused = wal.set_checkpoint(lsn, lsn).err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|why| why.contains("other bytes are read back")), "{refused:?}");
}

#[test]
fn a_checkpoint_of_another_disk_or_of_a_later_session_is_refused() {
    let (disk, other) = (Uuid::from_random(1, 2), Uuid::from_random(3, 4));
    for (of, session, refused) in [(disk, 1, false), (disk, 2, true), (other, 1, true)] {
        let (log, _) = new_log();
        let wal = Wal::create(log.clone(), 4096, disk, |_, _| Ok(())).unwrap();
        let redo_point = wal.tail().end();
        let checkpoint =
            CheckpointRecord { redo_point, next_txn: 1, disk: of, session, active: vec![], kept: None };
        let mut bytes = Vec::new();
        record::start(&mut bytes);
        checkpoint.encode(&mut bytes);
        let room = &Room::kept();
        let draft =
            Draft { kind: RecordKind::Checkpoint, txn: TxnId::SYSTEM, chain: None, redo_point: None, room };
        let lsn = wal.tail().append(&mut bytes, draft).unwrap();
        wal.flush(lsn).unwrap();
        wal.set_checkpoint(lsn, redo_point).unwrap();
        let master = blocks::find(&*log).unwrap();
        let read = read_checkpoint(&mut LogScan::new(&*log, &master), &master);
        match read {
            Ok(found) => assert!(!refused && found == checkpoint),
            Err(StoreError::Corrupt { expected, .. }) => {
                assert!(refused && expected.contains(&format!("disk {disk}, session 1 or older")));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_log_of_another_version_is_refused() {
    let (log, plan) = new_log();
    let mut block = [0; 512];
    block[..8].copy_from_slice(b"ENTRSLOG");
    block[8] = 1;
    block[30] = 7;
    let sum = checksum::of(&block[16..64]);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
    log.write(4096, &block).unwrap();
    let why = blocks::find(&*log).unwrap_err().to_string();
    assert!(why.contains("version 1") && why.contains("use the program that wrote it"), "{why}");
    drop(plan);
}

#[test]
fn a_leftover_with_the_right_place_is_told_by_its_epoch() {
    let (log, plan) = new_log();
    let wal = create(log.clone(), 4096).unwrap();
    let first = append(&wal, 1, b"checkpoint");
    wal.flush(first).unwrap();
    wal.set_checkpoint(first, first).unwrap();
    // Three records of a sector each, of which the middle one is lost.
    let sector = |byte| vec![byte; 512 - record::RECORD_HEADER_BYTES];
    let [_, _, c] = [2, 3, 4].map(|txn| append(&wal, txn, &sector(txn as u8)));
    let at = plan.operations() + 1;
    plan.inject(Injection { at, device: None, fault: Fault::SyncError, forever: false });
    assert!(wal.flush(c).is_err());
    let log = device(log.after_crash(&Survival::Sectors(vec![true, false, true])), &plan);
    let master = blocks::read(&*log).unwrap().unwrap();
    let (found, end) = read(&log, &master, first);
    assert_eq!(found.iter().map(|(_, txn, _)| *txn).collect::<Vec<_>>(), [1, 2]);
    // A new record exactly in the place of the lost one: the records after it are of another life.
    let wal = resume(log.clone(), master, end, first);
    wal.flush(append(&wal, 5, &sector(5))).unwrap();
    let (found, _) = read(&log, &blocks::read(&*log).unwrap().unwrap(), first);
    assert_eq!(found.iter().map(|(_, txn, _)| *txn).collect::<Vec<_>>(), [1, 2, 5]);
}

/// Power tears the first sector of a flush on a device with smaller ones, and restarts are cut off before
/// their first record. Whole records after the torn sector are no records, whatever was in it before.
#[test]
fn a_record_after_a_torn_sector_is_a_leftover() {
    let cases = [512, 400].into_iter().flat_map(|bytes| [(bytes, 0), (bytes, PADDING)]);
    for ((bytes, before), survivors) in cases.flat_map(|case| (0..1u32 << 8).map(move |mask| (case, mask))) {
        let plan = Arc::new(FaultPlan::none());
        let blank = MemoryDevice::new("log", LOG_START + (1 << 20)).with_sectors(512, 4096);
        let log = device(blank, &plan);
        let wal = create(log.clone(), 4096).unwrap();
        let first = append(&wal, 1, b"checkpoint");
        wal.flush(first).unwrap();
        wal.set_checkpoint(first, first).unwrap();
        log.write(LOG_START + FIRST_LSN + 4096, &[before; 4096]).unwrap();
        log.sync().unwrap();
        // The first two fill a sector.
        for (txn, length) in [(2, bytes), (3, 4096 - bytes), (4, 512)] {
            append(&wal, txn, &vec![7; length - record::RECORD_HEADER_BYTES]);
        }
        let at = plan.operations() + 2;
        plan.inject(Injection { at, device: None, fault: Fault::SyncError, forever: false });
        assert!(wal.flush(Lsn(wal.tail().end().0 - 8)).is_err());
        let survives = (0..16).map(|piece| piece >= 8 || survivors >> piece & 1 == 1).collect();
        let mut log = device(log.after_crash(&Survival::Sectors(survives)), &plan);
        let expected: &[u64] = match survivors {
            0xff => &[1, 2, 3, 4],
            _ if survivors & 1 == 1 => &[1, 2],
            _ => &[1],
        };
        let master = blocks::read(&*log).unwrap().unwrap();
        for restart in 0..3 {
            let (found, end) = read(&log, &master, first);
            let found: Vec<u64> = found.iter().map(|(_, txn, _)| *txn).collect();
            assert_eq!(found, expected, "restart {restart}, {bytes}, {before:#x}, {survivors:#b}");
            clear_behind(&*log, &master, &mut LogScan::new(&*log, &master), end).unwrap();
            log = device(log.after_crash(&Survival::None), &plan);
        }
        let (_, end) = read(&log, &master, first);
        let wal = resume(log.clone(), master, end, first);
        wal.flush(append(&wal, 5, b"of the new session")).unwrap();
        let (found, _) = read(&log, &blocks::read(&*log).unwrap().unwrap(), first);
        assert_eq!(found.last().map(|(_, txn, _)| *txn), Some(5));
        assert_eq!(found.len(), expected.len() + 1);
    }
}

#[test]
fn the_log_is_never_overwritten_where_it_is_needed() {
    let (log, _) = new_log();
    let wal = create(log.clone(), 4096).unwrap();
    assert_eq!(wal.tail().end(), Lsn(FIRST_LSN));
    let refused = (0..2000u64).find_map(|number| wal.flush(append(&wal, number, &[1; 1000])).err());
    assert!(matches!(refused, Some(crate::StoreError::LogFull { capacity, .. }) if capacity == 1 << 20));
    assert!(matches!(wal.flush(append(&wal, 1, &[])), Err(crate::StoreError::LogFull { .. })), "for good");
}

#[test]
fn a_log_too_small_for_images_of_pages_is_refused() {
    let (log, _) = new_log();
    let refused = create(log, 32768).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|why| why.contains(&(LOG_START + 256 * 32768).to_string())));
}

#[test]
fn a_record_is_refused_when_the_redo_point_has_moved() {
    let (log, _) = new_log();
    let wal = create(log, 4096).unwrap();
    let seen = wal.tail().redo_point();
    append(&wal, 1, &[]);
    let (moved, ()) = wal.tail().set_redo_point(|_| Ok::<(), ()>(())).unwrap();
    let mut bytes = Vec::new();
    record::start(&mut bytes);
    let mut draft = Draft {
        kind: RecordKind::System,
        txn: TxnId::SYSTEM,
        chain: None,
        redo_point: Some(seen),
        room: &Room::kept(),
    };
    let before = bytes.clone();
    assert_eq!(wal.tail().append(&mut bytes, Draft { ..draft }), None);
    assert_eq!(bytes, before);
    draft.redo_point = Some(moved);
    assert_eq!(wal.tail().append(&mut bytes, draft), Some(moved));
}
