//! The sector size of a log is that of its creation, whatever device the log is on later. A device with
//! smaller sectors may tear one.

mod support;

use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_store::{Lock, Store, StoreError};
use std::sync::Arc;
use support::shaped::Shaped;
use support::{ledger, simulate};

const DISK_BYTES: u64 = 8 << 20;
const LOG_BYTES: u64 = (1 << 20) + 8192;
const LOG_START: u64 = 8192;
/// Rows of a table.
const ROWS: u32 = 80;

/// A disk and a log without their devices' shapes.
struct Media(MemoryDevice, MemoryDevice);

/// Bytes of a sector, and of what the medium writes.
type Shape = (u32, u32);

fn faulty(memory: &MemoryDevice) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new("device", memory.fork("device"), Arc::new(FaultPlan::none())))
}

impl Media {
    fn blank() -> Media {
        Media(MemoryDevice::new("disk", DISK_BYTES), MemoryDevice::new("log", LOG_BYTES))
    }

    /// Opens (or creates) the ledger on a log device of that shape, expects `rows`, commits up to `more`, and
    /// crashes.
    fn live(&self, shape: Shape, new: bool, rows: u32, more: u32) -> Result<Media, StoreError> {
        let (disk, log) = (faulty(&self.0), faulty(&self.1));
        let shaped: Arc<dyn Device> = Shaped::new(log.clone(), shape.0, shape.1);
        simulate(1, || {
            let open = if new { ledger::create } else { ledger::open };
            let store = open(disk.clone(), shaped)?;
            assert_eq!(ledger::count(&store)?, rows, "on sectors of {shape:?}");
            ledger::commit(&store, more)?;
            assert_eq!(ledger::count(&store)?, more);
            store.verify()?;
            Ok::<_, StoreError>(())
        })
        .unwrap()?;
        Ok(Media(disk.after_crash(&Survival::None), log.after_crash(&Survival::None)))
    }
}

#[test]
fn a_log_of_large_sectors_opens_on_a_device_with_smaller_ones() {
    for created in [(4096, 4096), (512, 4096), (1024, 2048)] {
        let mut media = Media::blank().live(created, true, 0, 7).unwrap();
        let mut rows = 7;
        for shape in [(512, 512), created, (512, 512), (512, 512), (1024, 2048), created] {
            media = media.live(shape, false, rows, rows + 5).unwrap();
            rows += 5;
        }
    }
}

#[test]
fn a_device_with_larger_sectors_than_the_log_is_refused() {
    let media = Media::blank().live((512, 512), true, 0, 7).unwrap();
    for shape in [(4096, 4096), (512, 4096), (1024, 1024)] {
        let Err(StoreError::Config(why)) = media.live(shape, false, 7, 7) else {
            panic!("not refused on {shape:?}");
        };
        for part in ["sectors of 512 bytes", &format!("units of {}", shape.1), "copy the log"] {
            assert!(why.contains(part), "{why}");
        }
    }
    media.live((512, 512), false, 7, 9).unwrap();
}

/// Gives the first rows this value, of `bytes` bytes, in one transaction.
fn update(store: &Store, rows: u32, bytes: usize, value: u8) -> Result<(), StoreError> {
    let table = store.table("ledger")?.expect("the table is there");
    let mut txn = store.begin();
    for row in 0..rows {
        assert!(txn.update(table, &row.to_be_bytes(), &vec![value; bytes])?);
    }
    txn.commit().map(drop)
}

/// The value of each row.
fn values(store: &Store) -> Result<Vec<u8>, StoreError> {
    let table = store.table("ledger")?.expect("the table is there");
    let (mut values, mut value) = (Vec::new(), Vec::new());
    let mut txn = store.begin();
    for row in 0..ROWS {
        assert!(txn.get(table, &row.to_be_bytes(), Lock::None, &mut value)?);
        values.push(value[0]);
    }
    txn.commit()?;
    Ok(values)
}

fn on(media: &Media, plan: &Arc<FaultPlan>) -> [Arc<FaultyDevice>; 2] {
    let device =
        |memory: &MemoryDevice| Arc::new(FaultyDevice::new("device", memory.fork("device"), plan.clone()));
    [&media.0, &media.1].map(device)
}

/// The flush of a transaction that gives the first rows this value is written, and not synced.
fn tear(store: &Store, plan: &FaultPlan, rows: u32, bytes: usize, value: u8) {
    let at = plan.operations() + 2;
    plan.inject(Injection { at, device: None, fault: Fault::SyncError, forever: false });
    assert!(update(store, rows, bytes, value).is_err());
}

/// What a power failure leaves in the flush of a transaction that gives all rows another value, of `bytes`
/// bytes: of the log's sectors of 512 bytes these survive. And where that flush begins; the medium of the log
/// writes `unit` bytes at once.
fn torn(unit: u32, bytes: usize, survives: &Survival) -> (Media, u64) {
    let blank = MemoryDevice::new("log", LOG_BYTES).with_sectors(512, unit);
    let plan = Arc::new(FaultPlan::none());
    let [disk, log] = on(&Media(MemoryDevice::new("disk", DISK_BYTES), blank), &plan);
    let flush = simulate(1, || {
        let store = ledger::create(disk.clone(), log.clone()).unwrap();
        let table = store.table("ledger").unwrap().unwrap();
        let mut txn = store.begin();
        (0..ROWS).for_each(|row| txn.insert(table, &row.to_be_bytes(), &vec![1; bytes]).unwrap());
        txn.commit().unwrap();
        store.checkpoint().unwrap();
        // With images of all pages.
        update(&store, ROWS, bytes, 2).unwrap();
        let flush = store.log_needed().end.0.next_multiple_of(unit.into());
        tear(&store, &plan, ROWS, bytes, 3);
        flush
    });
    (Media(disk.after_crash(&Survival::None), log.after_crash(survives)), flush.unwrap())
}

/// A length of rows with which the records of a transaction end where units of the log's medium do.
fn bytes_that_fill(unit: u32) -> usize {
    let begins_a_record = |bytes: &usize| {
        let (media, flush) = torn(unit, *bytes, &Survival::All);
        let (next, mut block) = (flush + u64::from(unit), [0; 512]);
        media.1.read(LOG_START + next, &mut block).unwrap();
        block[8..16] == next.to_le_bytes()
    };
    (100..400).step_by(8).find(begins_a_record).expect("records of some length end where a unit does")
}

/// Power tears the first sector of a flush, and a later one begins with a record. A restart that is cut off
/// does not make a whole of the two: the transaction is there as a whole, or not at all.
#[test]
fn a_torn_sector_is_no_hole_in_a_transaction() {
    let survives = (0..1024).map(|sector| sector == 0 || sector >= 8).collect();
    let (media, _) = torn(4096, bytes_that_fill(4096), &Survival::Sectors(survives));
    for cut in 1.. {
        let plan = Arc::new(FaultPlan::crash_at(cut));
        let [disk, log] = on(&media, &plan);
        let found =
            simulate(cut, || ledger::open(disk.clone(), log.clone()).and_then(|store| values(&store)));
        if !plan.has_crashed() {
            assert_eq!(found.unwrap().unwrap(), [2; ROWS as usize]);
            assert!(cut > 10, "a restart of {cut} operations");
            break;
        }
        let media = Media(disk.after_crash(&Survival::None), log.after_crash(&Survival::None));
        let [disk, log] = on(&media, &Arc::new(FaultPlan::none()));
        let found = simulate(cut, || ledger::open(disk, log).and_then(|store| values(&store)));
        assert_eq!(found.unwrap().unwrap(), [2; ROWS as usize], "after one that was cut off at {cut}");
    }
}

/// The first sector of a flush is lost, and so is all of the next life's flush but its first sector, which a
/// record fills. The records after it are of the older life, and in their places.
#[test]
fn a_record_of_an_older_life_follows_none_of_a_newer_one() {
    let bytes = bytes_that_fill(512);
    let (media, _) = torn(512, bytes, &Survival::Sectors((0..1024).map(|sector| sector > 0).collect()));
    let plan = Arc::new(FaultPlan::none());
    let [disk, log] = on(&media, &plan);
    simulate(1, || {
        let store = ledger::open(disk.clone(), log.clone()).unwrap();
        // With an image of its page.
        update(&store, 1, bytes, 4).unwrap();
        tear(&store, &plan, 3, bytes, 5);
    })
    .unwrap();
    let media = Media(disk.after_crash(&Survival::None), log.after_crash(&Survival::Sectors(vec![true])));
    let [disk, log] = on(&media, &plan);
    let found = simulate(1, || ledger::open(disk, log).and_then(|store| values(&store)));
    let mut expected = [2; ROWS as usize];
    expected[0] = 4;
    assert_eq!(found.unwrap().unwrap(), expected);
}
