//! The log and the snapshots, step by step.

use entresol_core::Position;
use entresol_format::Uuid;
use entresol_format::block::{self, BLOCK_BYTES};
use entresol_objects::{
    Damaged, Locator, Objects, ObjectsConfig, Part, Pending, RecoverError, Recovered, Sequence, SnapshotArea,
    SnapshotRepair, TableCopy, region_bytes,
};
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

/// One copy of the areas.
#[derive(Clone)]
struct Areas {
    areas: [Vec<u8>; 2],
    log: Vec<u8>,
}

/// Both copies.
struct Flash([Areas; 2]);

impl Flash {
    fn new(config: &ObjectsConfig) -> Self {
        let area = vec![0; config.snapshot_blocks() as usize * BLOCK_BYTES];
        let areas =
            Areas { areas: [area.clone(), area], log: vec![0; config.log_blocks as usize * BLOCK_BYTES] };
        Self([areas.clone(), areas])
    }

    fn snapshot(&mut self, table: &mut Objects<'_>) {
        let mut bytes = vec![0; self.0[0].areas[0].len()];
        let write = table.snapshot(&mut bytes).expect("none is under way");
        write.seal(&mut bytes);
        self.0.iter_mut().for_each(|copy| copy.areas[write.area as usize].copy_from_slice(&bytes));
        table.snapshot_written(write.token);
    }

    fn log_block(&mut self, table: &mut Objects<'_>) -> bool {
        let mut block = [0; BLOCK_BYTES];
        let Some(write) = table.next_log_block(&mut block) else { return false };
        self.0.iter_mut().for_each(|copy| copy.put(write.place as usize, &block));
        table.log_written(write.token);
        true
    }

    fn recover_in<'r>(
        &self,
        region: &'r mut [u64],
        config: &ObjectsConfig,
    ) -> Result<Recovered<'r>, RecoverError> {
        let copies =
            self.0.each_ref().map(|Areas { areas: [even, odd], log }| TableCopy { areas: [even, odd], log });
        Objects::recover(region.as_mut_bytes(), config, &copies)
    }

    fn damaged(&self, config: &ObjectsConfig) -> Vec<Damaged> {
        self.recover_in(&mut region(config), config).unwrap().damaged().to_vec()
    }

    fn recover(&self, config: &ObjectsConfig) -> Result<Sequence, RecoverError> {
        self.recover_in(&mut region(config), config).map(|found| found.last())
    }
}

impl Areas {
    fn put(&mut self, place: usize, block: &[u8]) {
        self.log[place * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
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
    flash.0[0].log[2 * BLOCK_BYTES + 100] ^= 1;
    assert_eq!(flash.recover(&config), Ok(Sequence(5)), "the other copy has it");
    let block = Damaged { copy: 0, part: Part::LogBlock(2), was_durable: true };
    assert_eq!(flash.damaged(&config), [block]);
    flash.0[1].log[2 * BLOCK_BYTES + 100] ^= 1;
    assert_eq!(flash.recover(&config), Err(RecoverError::Lost { place: 3, expected: 3, found: 2 }));
    flash.0[0].log[2 * BLOCK_BYTES + 100] ^= 1;
    flash.0[1].areas[1][40] ^= 1;
    assert_eq!(flash.recover(&config), Ok(Sequence(5)), "the other copy has it");
    let snapshot = Damaged { copy: 1, part: Part::Snapshot(SnapshotArea::Odd), was_durable: true };
    assert_eq!(flash.damaged(&config), [snapshot, Damaged { copy: 1, ..block }]);
    flash.0[0].areas[1][40] ^= 1;
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
    flash.0[1].areas[0][100] ^= 1;
    assert_eq!(flash.recover(&config), Ok(Sequence(1)), "the other copy has it");
    flash.0[0].areas[0][100] ^= 1;
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
    for copy in &mut flash.0 {
        let second = &mut copy.log[BLOCK_BYTES..2 * BLOCK_BYTES];
        assert_eq!(second[48], 2, "the first sequence of the block");
        second[48] = 3;
        block::seal(second, *b"ENTROLOG", 1);
    }
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
            flash.0.iter_mut().for_each(|copy| copy.put(1, &block));
        }
    }
    let recovered = flash.recover_in(&mut second, &config).unwrap();
    assert_eq!(recovered.last(), Sequence(0));
    let mut table = recovered.resume(Position(0), Position(0));
    flash.snapshot(&mut table);
    table.define(&locator(7)).unwrap();
    flash.log_block(&mut table);
    assert_eq!(flash.recover(&config), Ok(Sequence(1)));
}

/// 1. Log block 0 is written, and only one copy of it reaches flash before a crash.
/// 2. That copy cannot be read, so the next open does without; later it can be read again.
/// 3. Only the other copy of that open's first block reaches flash before another crash.
#[test]
fn a_copy_that_could_not_be_read_is_never_taken_for_a_later_one() {
    let config = config(8);
    let (mut first, mut second, mut third) = (region(&config), region(&config), region(&config));
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(first.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    table.define(&locator(0)).unwrap();
    let mut unread = [0; BLOCK_BYTES];
    table.next_log_block(&mut unread).unwrap();
    let mut table = flash.recover_in(&mut second, &config).unwrap().resume(Position(0), Position(0));
    flash.snapshot(&mut table);
    flash.0[0].put(0, &unread);
    table.define(&locator(7)).unwrap();
    let mut block = [0; BLOCK_BYTES];
    let write = table.next_log_block(&mut block).unwrap();
    flash.0[1].put(write.place as usize, &block);
    let recovered = flash.recover_in(&mut third, &config).unwrap();
    assert_eq!(recovered.last(), Sequence(1));
    assert!(recovered.lookup(&locator(0)).is_none() && recovered.lookup(&locator(7)).is_some());
}

/// It may have been torn as well, and the next open may find neither copy.
#[test]
fn what_one_copy_has_is_not_known_to_be_damaged_nor_durable() {
    let config = config(8);
    let (mut first, mut second) = (region(&config), region(&config));
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(first.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    table.define(&locator(0)).unwrap();
    let mut block = [0; BLOCK_BYTES];
    table.next_log_block(&mut block).unwrap();
    flash.0[0].put(0, &block);
    let block = Damaged { copy: 1, part: Part::LogBlock(0), was_durable: false };
    assert_eq!(flash.damaged(&config), [block]);
    let table = flash.recover_in(&mut second, &config).unwrap().resume(Position(0), Position(0));
    assert_eq!((table.last(), table.durable()), (Sequence(1), Sequence(0)));
}

/// Two opens are cut off, each with another copy of a snapshot of the same number.
#[test]
fn snapshots_of_one_number_are_made_one() {
    let config = config(8);
    let (mut first, mut second) = (region(&config), region(&config));
    let (mut flash, mut other) = (Flash::new(&config), Flash::new(&config));
    let mut table = Objects::format(first.as_mut_bytes(), &config).unwrap();
    table.define(&locator(0)).unwrap();
    flash.snapshot(&mut table);
    let mut table = Objects::format(second.as_mut_bytes(), &config).unwrap();
    table.define(&locator(1)).unwrap();
    other.snapshot(&mut table);
    flash.0[1] = other.0[1].clone();
    let found = flash.recover_in(&mut first, &config).unwrap();
    let SnapshotRepair { area, from, to } = found.repair().expect("they differ");
    assert!(found.lookup(&locator(from as u32)).is_some());
    flash.0[to].areas[area as usize] = flash.0[from].areas[area as usize].clone();
    assert_eq!(flash.recover_in(&mut second, &config).unwrap().repair(), None);
}

/// The same with a snapshot.
#[test]
fn a_snapshot_that_could_not_be_read_is_never_taken_for_a_later_one() {
    let config = config(8);
    let (mut first, mut second, mut third) = (region(&config), region(&config), region(&config));
    let mut flash = Flash::new(&config);
    let mut table = Objects::format(first.as_mut_bytes(), &config).unwrap();
    flash.snapshot(&mut table);
    table.define(&locator(0)).unwrap();
    let mut unread = Flash::new(&config);
    unread.snapshot(&mut table);
    let mut table = flash.recover_in(&mut second, &config).unwrap().resume(Position(0), Position(0));
    table.define(&locator(7)).unwrap();
    let mut next = Flash::new(&config);
    next.snapshot(&mut table);
    flash.0[0].areas[0] = next.0[0].areas[0].clone();
    flash.0[1].areas[0] = unread.0[1].areas[0].clone();
    let recovered = flash.recover_in(&mut third, &config).unwrap();
    assert!(recovered.lookup(&locator(0)).is_none() && recovered.lookup(&locator(7)).is_some());
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
    for copy in &mut flash.0 {
        copy.log[56] = 9;
        block::seal(&mut copy.log[..BLOCK_BYTES], *b"ENTROLOG", 0);
    }
    assert!(matches!(flash.recover(&config), Err(RecoverError::Record { place: 0, sequence: 3, .. })));
}
