//! The log against a model: whatever is torn, a restart finds a prefix of what was appended, and all that was flushed.

use super::log::{Draft, Resume};
use super::master::Master;
use super::scan::LogScan;
use super::{FIRST_LSN, LOG_START, RecordKind, Wal, pieces, record};
use crate::TxnId;
use crate::log_room::Room;
use entresol_core::Lsn;
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use std::sync::Arc;

fn device(memory: MemoryDevice, plan: &Arc<FaultPlan>) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new("log", memory, plan.clone()))
}

fn new_log() -> (Arc<FaultyDevice>, Arc<FaultPlan>) {
    let plan = Arc::new(FaultPlan::none());
    (device(MemoryDevice::new("log", LOG_START + (1 << 20)), &plan), plan)
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
    wal.append(&mut bytes, draft).unwrap()
}

/// All records from `at` on, as (LSN, transaction, payload), and the log's end.
fn read(device: &FaultyDevice, master: &Master, at: Lsn) -> (Vec<(Lsn, u64, Vec<u8>)>, Lsn) {
    let mut scan = LogScan::new(device, master);
    let (mut records, mut end, mut epoch) = (Vec::new(), at, 0);
    while let Some((header, payload)) = scan.next(end, epoch).unwrap() {
        epoch = header.epoch;
        end = Lsn((header.lsn.0 + header.length as u64).next_multiple_of(8));
        records.push((header.lsn, header.txn.0, payload.to_vec()));
    }
    (records, end)
}

#[test]
fn pieces_split_where_the_area_wraps() {
    assert_eq!(pieces(1024, 512, 4096), [(LOG_START + 1024, 512), (LOG_START, 0)]);
    assert_eq!(pieces(4096 * 7 + 3584, 1024, 4096), [(LOG_START + 3584, 512), (LOG_START, 512)]);
}

#[test]
fn a_restart_finds_what_was_flushed_and_no_leftovers() {
    let mut random = 7u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % bound
    };
    for _ in 0..60 {
        let (mut log, plan) = new_log();
        let mut wal = Wal::create(log.clone(), 4096).unwrap();
        // As a checkpoint would.
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
                if wal.used() > wal.area() / 2 {
                    wal.flush(model[model.len() - 1].0).unwrap();
                    oldest = model[model.len() - 1].0;
                    wal.set_checkpoint(oldest, oldest).unwrap();
                    model.drain(..model.len() - 1);
                    flushed = 1;
                }
            }
            // A flush under way: written, not synced, and torn.
            if next(2) == 0 && model.len() > flushed {
                let at = plan.operations() + 1;
                plan.inject(Injection { at, device: None, fault: Fault::SyncError, forever: false });
                assert!(wal.flush(model[model.len() - 1].0).is_err());
                assert!(wal.flush(append(&wal, 0, &[])).is_err(), "the first failure is for good");
            }
            log = device(log.after_crash(&Survival::Seed(next(1 << 31))), &plan);
            let master = Master::read(&*log).unwrap().unwrap();
            assert_eq!(master.checkpoint, oldest);
            let (found, end) = read(&log, &master, oldest);
            assert!(found.len() >= flushed, "{} of {flushed} flushed records found", found.len());
            assert_eq!(found, model[..found.len()], "a prefix of what was appended");
            model.truncate(found.len());
            flushed = found.len();
            wal = Wal::resume(log.clone(), master, Resume { end, oldest, redo_point: oldest }).unwrap();
            assert!(wal.end() >= end);
        }
        assert!(count > 100);
    }
}

#[test]
fn a_leftover_with_the_right_place_is_told_by_its_epoch() {
    let (log, plan) = new_log();
    let wal = Wal::create(log.clone(), 4096).unwrap();
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
    let master = Master::read(&*log).unwrap().unwrap();
    let (found, end) = read(&log, &master, first);
    assert_eq!(found.iter().map(|(_, txn, _)| *txn).collect::<Vec<_>>(), [1, 2]);
    // A new record exactly where the lost one was: what lies behind it is of another life.
    let wal = Wal::resume(log.clone(), master, Resume { end, oldest: first, redo_point: first }).unwrap();
    wal.flush(append(&wal, 5, &sector(5))).unwrap();
    let (found, _) = read(&log, &Master::read(&*log).unwrap().unwrap(), first);
    assert_eq!(found.iter().map(|(_, txn, _)| *txn).collect::<Vec<_>>(), [1, 2, 5]);
}

#[test]
fn the_log_is_never_overwritten_where_it_is_needed() {
    let (log, _) = new_log();
    let wal = Wal::create(log.clone(), 4096).unwrap();
    assert_eq!(wal.end(), Lsn(FIRST_LSN));
    let refused = (0..2000u64).find_map(|number| wal.flush(append(&wal, number, &[1; 1000])).err());
    assert!(matches!(refused, Some(crate::StoreError::LogFull { capacity, .. }) if capacity == 1 << 20));
    assert!(matches!(wal.flush(append(&wal, 1, &[])), Err(crate::StoreError::LogFull { .. })), "for good");
}

#[test]
fn a_log_too_small_for_images_of_pages_is_refused() {
    let (log, _) = new_log();
    let refused = Wal::create(log, 32768).err().map(|error| error.to_string());
    assert!(refused.is_some_and(|why| why.contains(&(LOG_START + 256 * 32768).to_string())));
}

#[test]
fn a_record_is_refused_when_the_redo_point_has_moved() {
    let (log, _) = new_log();
    let wal = Wal::create(log, 4096).unwrap();
    let seen = wal.redo_point();
    append(&wal, 1, &[]);
    let (moved, ()) = wal.set_redo_point(|_| Ok::<(), ()>(())).unwrap();
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
    assert_eq!(wal.append(&mut bytes, Draft { ..draft }), None);
    assert_eq!(bytes, before);
    draft.redo_point = Some(moved);
    assert_eq!(wal.append(&mut bytes, draft), Some(moved));
}
