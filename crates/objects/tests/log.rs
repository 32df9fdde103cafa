//! The log and the snapshots, step by step.

use entresol_core::Position;
use entresol_format::Uuid;
use entresol_format::block::{self, BLOCK_BYTES};
use entresol_objects::{Locator, Objects, ObjectsConfig, Pending, RecoverError, Sequence, region_bytes};
use zerocopy::IntoBytes;

fn config(log_blocks: u32) -> ObjectsConfig {
    ObjectsConfig { cache: Uuid::from_random(5, 6), objects_max: 4000, log_blocks }
}

fn region(config: &ObjectsConfig) -> Vec<u64> {
    vec![0; region_bytes(config) / 8]
}

fn locator(number: u32) -> Locator {
    let mut locator = [0; 24];
    locator[..4].copy_from_slice(&number.to_le_bytes());
    locator
}

struct Flash {
    areas: [Vec<u8>; 2],
    log: Vec<u8>,
}

impl Flash {
    fn new(config: &ObjectsConfig) -> Self {
        let area = vec![0; config.snapshot_blocks() as usize * BLOCK_BYTES];
        Self { areas: [area.clone(), area], log: vec![0; config.log_blocks as usize * BLOCK_BYTES] }
    }

    fn snapshot(&mut self, table: &mut Objects<'_>) {
        let mut bytes = vec![0; self.areas[0].len()];
        let write = table.snapshot(&mut bytes).expect("none is under way");
        write.seal(&mut bytes);
        self.areas[write.area as usize].copy_from_slice(&bytes);
        table.snapshot_written(write.token);
    }

    fn log_block(&mut self, table: &mut Objects<'_>) -> bool {
        let mut block = [0; BLOCK_BYTES];
        let Some(write) = table.next_log_block(&mut block) else { return false };
        self.log[write.place as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
        table.log_written(write.token);
        true
    }

    fn recover(&self, config: &ObjectsConfig) -> Result<Sequence, RecoverError> {
        let mut region = region(config);
        let [even, odd] = &self.areas;
        let found = Objects::recover(region.as_mut_bytes(), config, [even, odd], &self.log)?;
        Ok(found.last())
    }
}

#[test]
fn changes_without_a_buffer_wait_for_a_snapshot() {
    let config = config(64);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    assert_eq!(table.pending(), Pending::Snapshot);
    flash.snapshot(&mut table);
    assert_eq!(table.pending(), Pending::Nothing);
    for number in 0..1000 {
        table.define(&locator(number)).unwrap();
    }
    assert_eq!(table.pending(), Pending::Log);
    table.define(&locator(1000)).unwrap();
    assert_eq!(table.pending(), Pending::Snapshot);
    while flash.log_block(&mut table) {}
    assert_eq!((table.durable(), table.pending()), (Sequence(1000), Pending::Snapshot));
    assert_eq!(flash.recover(&config), Ok(Sequence(1000)));
    flash.snapshot(&mut table);
    assert_eq!((table.durable(), table.pending()), (Sequence(1001), Pending::Nothing));
    assert_eq!(flash.recover(&config), Ok(Sequence(1001)));
}

#[test]
fn a_full_log_waits_for_a_snapshot() {
    let config = config(4);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    for number in 0..4 {
        assert_eq!(table.snapshot_due(), number > 2);
        table.define(&locator(number)).unwrap();
        assert!(flash.log_block(&mut table));
    }
    table.define(&locator(4)).unwrap();
    assert_eq!(table.pending(), Pending::Snapshot);
    assert!(!flash.log_block(&mut table));
    assert_eq!(flash.recover(&config), Ok(Sequence(4)));
}

#[test]
fn the_log_waits_while_a_snapshot_is_under_way() {
    let config = config(4);
    let mut region = region(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    let mut bytes = vec![0; config.snapshot_blocks() as usize * BLOCK_BYTES];
    let write = table.snapshot(&mut bytes).unwrap();
    table.define(&locator(1)).unwrap();
    assert!(table.next_log_block(&mut [0; BLOCK_BYTES]).is_none());
    assert!(table.snapshot(&mut bytes).is_none());
    assert_eq!(table.pending(), Pending::SnapshotUnderWay);
    table.snapshot_written(write.token);
    assert_eq!((table.durable(), table.pending()), (Sequence(0), Pending::Log));
    assert!(table.next_log_block(&mut [0; BLOCK_BYTES]).is_some());
}

#[test]
fn a_lost_middle_of_the_log_is_refused() {
    let config = config(8);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    for number in 0..5 {
        table.define(&locator(number)).unwrap();
        flash.log_block(&mut table);
    }
    flash.log[2 * BLOCK_BYTES + 100] ^= 1;
    assert_eq!(flash.recover(&config), Err(RecoverError::Lost { place: 3, expected: 3, found: 2 }));
    flash.log[2 * BLOCK_BYTES + 100] ^= 1;
    flash.areas[1][40] ^= 1;
    assert!(matches!(flash.recover(&config), Err(RecoverError::NoSnapshot { .. })));
}

#[test]
fn a_lost_snapshot_is_refused() {
    let config = config(8);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    flash.snapshot(&mut table);
    table.define(&locator(0)).unwrap();
    flash.log_block(&mut table);
    flash.areas[0][100] ^= 1;
    assert_eq!(flash.recover(&config), Err(RecoverError::LostSnapshot { place: 0, expected: 2, found: 1 }));
}

#[test]
fn a_log_ends_where_a_sequence_is_missing() {
    let config = config(8);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    for number in 0..2 {
        table.define(&locator(number)).unwrap();
        flash.log_block(&mut table);
    }
    assert_eq!(flash.recover(&config), Ok(Sequence(2)));
    let second = &mut flash.log[BLOCK_BYTES..2 * BLOCK_BYTES];
    assert_eq!(second[48], 2, "the first sequence of the block");
    second[48] = 3;
    block::seal(second, *b"ENTROLOG", 1);
    assert_eq!(flash.recover(&config), Ok(Sequence(1)));
}

/// 1. Log block 0 is handed out. Before it is written, a snapshot is taken.
/// 2. The block's write ends after the snapshot's.
/// 3. So its token must not acknowledge the block that was filled since.
#[test]
fn a_block_under_way_at_a_snapshot_acknowledges_nothing_later() {
    let config = config(8);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    table.define(&locator(0)).unwrap();
    let under_way = table.next_log_block(&mut [0; BLOCK_BYTES]).unwrap();
    flash.snapshot(&mut table);
    table.define(&locator(1)).unwrap();
    let later = table.next_log_block(&mut [0; BLOCK_BYTES]).unwrap();
    assert_ne!(under_way.place, later.place);
    table.log_written(under_way.token);
    assert_eq!((table.durable(), table.pending()), (Sequence(1), Pending::Log));
    table.log_written(later.token);
    assert_eq!(table.pending(), Pending::Nothing);
}

/// 1. Log blocks 0 and 1 are written, and 0 is lost in a crash.
/// 2. The next open writes another block 0, with as many records.
/// 3. So block 1 of before would follow it without a gap.
#[test]
fn a_leftover_block_is_never_taken_for_a_later_one() {
    let config = config(8);
    let (mut first, mut second) = (region(&config), region(&config));
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(first.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    for number in 0..2 {
        table.define(&locator(number)).unwrap();
        let mut block = [0; BLOCK_BYTES];
        let write = table.next_log_block(&mut block).unwrap();
        if write.place == 1 {
            flash.log[BLOCK_BYTES..2 * BLOCK_BYTES].copy_from_slice(&block);
        }
    }
    let [even, odd] = &flash.areas;
    let recovered = Objects::recover(second.as_mut_bytes(), &config, [even, odd], &flash.log).unwrap();
    assert_eq!(recovered.last(), Sequence(0));
    let mut table = recovered.resume(Position(0), Position(0));
    flash.snapshot(&mut table);
    table.define(&locator(7)).unwrap();
    flash.log_block(&mut table);
    assert_eq!(flash.recover(&config), Ok(Sequence(1)));
}

#[test]
fn a_number_that_the_front_has_not_passed_is_not_free_in_a_log() {
    let config = config(8);
    let mut region = region(&config);
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    let object = table.define(&locator(1)).unwrap();
    table.retire(object, Position(10));
    table.front_passed(Position(10));
    assert_eq!(table.define(&locator(2)), Ok(object));
    flash.log_block(&mut table);
    assert_eq!(flash.recover(&config), Ok(Sequence(3)));
    // The same with a front that is too low.
    flash.log[56] = 9;
    block::seal(&mut flash.log[..BLOCK_BYTES], *b"ENTROLOG", 0);
    assert!(matches!(flash.recover(&config), Err(RecoverError::Record { place: 0, sequence: 3, .. })));
}
