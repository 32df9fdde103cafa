//! The table against a naive model, in a world that crashes.
//!
//! The model has each page with its position, and the change that made it dead. The medium holds the blocks
//! that are synced; of each unsynced write any set of its sectors of 512 bytes may reach it. One block may be
//! unreadable while a table is recovered. After a crash the table must be that of the model after one of its
//! changes: not before the last acknowledged one, not after the last one made.

mod model;

use entresol_core::Position;
use entresol_format::Uuid;
use entresol_format::block::BLOCK_BYTES;
use entresol_objects::{
    COPIES, CutOutcome, Locator, LogWrite, ObjectId, Objects, ObjectsConfig, Pending, SnapshotArea,
    SnapshotRepair, SnapshotWrite, TableCopy, region_bytes,
};
use entresol_runtime::rng::Rng;
use model::Model;
use zerocopy::IntoBytes;

const SECTOR: usize = 512;
/// Slots of the ring.
const SLOTS: u64 = 400;

/// Two snapshot areas (0, 1) and a log (2), of each copy.
type Areas = [[Vec<u8>; 3]; COPIES];

/// A write of a copy of an area: its offset there, and its bytes.
type Unsynced = ([usize; 2], usize, Vec<u8>);

/// The areas, with the writes that are not synced.
struct Medium {
    areas: Areas,
    unsynced: Vec<Unsynced>,
}

impl Medium {
    fn new(config: &ObjectsConfig) -> Self {
        let blocks = [config.snapshot_blocks(), config.snapshot_blocks(), config.log_blocks];
        let areas = blocks.map(|blocks| vec![0; blocks as usize * BLOCK_BYTES]);
        Self { areas: [areas.clone(), areas], unsynced: Vec::new() }
    }

    fn write(&mut self, area: usize, offset: usize, bytes: &[u8]) {
        for (at, block) in (offset..).step_by(BLOCK_BYTES).zip(bytes.chunks(BLOCK_BYTES)) {
            self.unsynced.extend((0..COPIES).map(|copy| ([copy, area], at, block.to_vec())));
        }
    }

    fn sync(&mut self) {
        for ([copy, area], at, bytes) in self.unsynced.drain(..) {
            self.areas[copy][area][at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn crash(&mut self, rng: &mut Rng) {
        let (lost, torn) = (rng.below(4), rng.below(4));
        for ([copy, area], at, bytes) in std::mem::take(&mut self.unsynced) {
            let whole = rng.below(4) < lost;
            for (offset, sector) in (at..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
                if whole || rng.below(4) < torn {
                    self.areas[copy][area][offset..offset + SECTOR].copy_from_slice(sector);
                }
            }
        }
    }
}

/// The areas as they are read: one block of them cannot be, now and then.
fn as_read(areas: &Areas, rng: &mut Rng) -> Areas {
    let mut read = areas.clone();
    if rng.below(2) == 0 {
        let area = &mut read[rng.below(COPIES as u64) as usize][rng.below(3) as usize];
        let block = rng.below((area.len() / BLOCK_BYTES) as u64) as usize;
        area[block * BLOCK_BYTES..][..BLOCK_BYTES].fill(0xbd);
    }
    read
}

/// What happened, so that a run that tests nothing fails.
#[derive(Debug, Default)]
struct Counts {
    full: u64,
    too_many: u64,
    implied: u64,
    reused: u64,
    crashes: u64,
    /// Crashes that lost changes, and those that kept changes that were not acknowledged.
    lost: u64,
    kept: u64,
    regressed: u64,
    repaired: u64,
    snapshots: u64,
    forced: u64,
    dead: u64,
    alive: u64,
}

struct World {
    rng: Rng,
    config: ObjectsConfig,
    region: Vec<u64>,
    medium: Medium,
    model: Model,
    front: u64,
    rear: u64,
    snapshot: Option<SnapshotWrite>,
    log: Vec<LogWrite>,
    counts: Counts,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let config = ObjectsConfig {
            cache: Uuid::from_random(seed, 1),
            objects_max: 5 + rng.below(150) as u32,
            log_blocks: 2 + rng.below(12) as u32,
        };
        let mut region = vec![0; region_bytes(&config) / 8];
        Objects::format(region.as_mut_bytes(), &config).unwrap();
        let (medium, model) = (Medium::new(&config), Model::new(config.objects_max));
        let (snapshot, log, counts) = (None, Vec::new(), Counts::default());
        // The halves of a position are stored apart.
        let start = [0, (1 << 32) - 3000, Position::MAX.0 - (1 << 30)][seed as usize % 3];
        let mut world =
            Self { rng, config, region, medium, model, front: start, rear: start, snapshot, log, counts };
        world.table().front_passed(Position(start));
        world.flush();
        world
    }

    fn table(&mut self) -> Objects<'_> {
        Objects::attach(self.region.as_mut_bytes()).unwrap()
    }

    fn locator(&mut self) -> Locator {
        let mut locator = [0; 24];
        let most = u64::from(self.config.objects_max);
        // A database (first byte) and a relation.
        locator[0] = self.rng.below(4) as u8;
        locator[20] = self.rng.below(most * 2 / 3 + 2) as u8;
        locator
    }

    fn object(&mut self) -> Option<ObjectId> {
        let live: Vec<_> = self.model.live().collect();
        (!live.is_empty()).then(|| live[self.rng.below(live.len() as u64) as usize])
    }

    /// A rear: mostly that of the ring, sometimes an earlier one.
    fn some_rear(&mut self) -> u64 {
        let back = if self.rng.below(4) == 0 { self.rng.below(60) } else { 0 };
        self.rear.saturating_sub(back)
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..250 => self.define(),
            250..560 => self.enter(),
            560..660 => self.cut(),
            660..700 => self.retire(),
            700..702 => self.retire_matching(),
            702..802 => self.dequeue(),
            802..900 => self.read(),
            900..969 => self.write_some(),
            969 => self.burst(),
            970..994 => self.sync_some(),
            _ => self.crash(),
        }
    }

    fn define(&mut self) {
        let locator = self.locator();
        let answer = self.table().define(&locator);
        let last = self.table().last().0;
        match answer {
            Ok(object) => {
                let known = self.model.lookup(&locator);
                if known.is_none() {
                    self.counts.reused += u64::from(self.model.was_defined(object));
                    self.model.define(object, locator, last, self.front);
                } else {
                    assert_eq!(known, Some(object), "a locator has one number");
                }
            }
            Err(_) => {
                assert!(self.model.is_full() && self.model.lookup(&locator).is_none());
                self.counts.full += 1;
            }
        }
    }

    /// More changes than the log has buffers for, now and then.
    fn burst(&mut self) {
        if self.rng.below(20) != 0 {
            return;
        }
        for _ in 0..self.rng.below(1500) {
            self.define();
            self.retire();
            self.dequeue();
            self.rear += 1;
        }
    }

    /// A page enters. Its object's definition is durable before.
    fn enter(&mut self) {
        let Some(object) = self.object() else { return };
        if self.table().durable().0 < self.model.defined_at(object) {
            self.flush();
        }
        if self.rear - self.front >= SLOTS {
            self.dequeue();
        }
        let page = object.page(self.rng.below(40) as u32);
        self.model.enter(page, self.rear);
        self.rear += 1;
    }

    fn cut(&mut self) {
        let Some(mut object) = self.object() else { return };
        let (mut number, rear) = (self.rng.below(40) as u32, self.some_rear());
        if self.rng.below(2) == 0 {
            // The oldest object is cut often, and at ever higher numbers for a while.
            object = self.model.live().next().unwrap_or(object);
            number = (self.rear / 8 % 40) as u32;
        }
        let outcome = self.table().cut(object, number, Position(rear));
        let last = self.table().last().0;
        let expected = self.model.cut(object, number, rear, last, self.front);
        assert_eq!(outcome, expected, "{object:?} cut to {number} at {rear}");
        match outcome {
            CutOutcome::TooMany => self.counts.too_many += 1,
            CutOutcome::Implied => self.counts.implied += 1,
            CutOutcome::Kept => {}
        }
    }

    fn retire(&mut self) {
        let Some(object) = self.object() else { return };
        // Above all positions of the object, as the contract wants.
        let rear = self.some_rear().max(self.model.last_position(object).map_or(0, |last| last + 1));
        assert!(self.table().retire(object, Position(rear)));
        let last = self.table().last().0;
        self.model.retire(object, rear, last);
    }

    fn retire_matching(&mut self) {
        let (database, rear) = (self.rng.below(4) as u8, self.rear);
        let before = self.table().last().0;
        let retired = self.table().retire_matching(|locator| locator[0] == database, Position(rear));
        let all: Vec<_> = self.model.live_where(|locator| locator[0] == database);
        assert_eq!(retired as usize, all.len());
        for (object, sequence) in all.into_iter().zip(before + 1..) {
            self.model.retire(object, rear, sequence);
        }
    }

    /// The front moves on, durably.
    fn dequeue(&mut self) {
        self.front = (self.front + 1 + self.rng.below(8)).min(self.rear);
        let front = self.front;
        let freed = self.table().front_passed(Position(front));
        assert_eq!(freed, self.model.front_passed(front));
    }

    /// Compares all pages.
    fn read(&mut self) {
        let Self { region, model, counts, .. } = self;
        let table = Objects::attach(region.as_mut_bytes()).unwrap();
        for (page, position, dead) in model.pages() {
            assert_eq!(table.is_dead(page, Position(position)), dead, "{page} at {position}");
            *if dead { &mut counts.dead } else { &mut counts.alive } += 1;
        }
    }

    fn write_some(&mut self) {
        if self.table().pending() == Pending::Snapshot
            || self.table().snapshot_due() && self.rng.below(2) == 0
        {
            self.counts.forced += u64::from(self.table().pending() == Pending::Snapshot);
            self.take_snapshot();
        } else {
            let most = self.rng.below(4);
            self.write_log(most);
        }
    }

    fn take_snapshot(&mut self) {
        // Log writes may be under way.
        if self.rng.below(2) == 0 {
            self.sync_some();
        }
        let mut bytes = vec![0xee; self.config.snapshot_blocks() as usize * BLOCK_BYTES];
        let Some(write) = self.table().snapshot(&mut bytes) else { return };
        write.seal(&mut bytes);
        let area = usize::from(write.area == SnapshotArea::Odd);
        self.medium.write(area, 0, &bytes[..write.blocks as usize * BLOCK_BYTES]);
        self.snapshot = Some(write);
        self.counts.snapshots += 1;
    }

    fn write_log(&mut self, most: u64) {
        let mut block = [0; BLOCK_BYTES];
        for _ in 0..most {
            let Some(write) = self.table().next_log_block(&mut block) else { break };
            self.medium.write(2, write.place as usize * BLOCK_BYTES, &block);
            self.log.push(write);
        }
    }

    fn sync_some(&mut self) {
        self.medium.sync();
        if let Some(write) = self.snapshot.take() {
            self.table().snapshot_written(write.token);
        }
        for write in std::mem::take(&mut self.log) {
            self.table().log_written(write.token);
        }
        let (durable, last) = (self.table().durable(), self.table().last());
        assert!(durable <= last);
    }

    fn flush(&mut self) {
        for _ in 0..4 {
            match self.table().pending() {
                Pending::Nothing => break,
                Pending::Log => self.write_log(u64::MAX),
                Pending::Snapshot => self.take_snapshot(),
                Pending::SnapshotUnderWay => {}
            }
            self.sync_some();
        }
        assert_eq!((self.table().pending(), self.table().durable()), (Pending::Nothing, self.table().last()));
    }

    fn crash(&mut self) {
        let (durable, last) = (self.table().durable().0, self.table().last().0);
        self.medium.crash(&mut self.rng);
        (self.snapshot, self.log) = (None, Vec::new());
        let found = loop {
            let read = as_read(&self.medium.areas, &mut self.rng);
            let copies = read.each_ref().map(|[even, odd, log]| TableCopy { areas: [even, odd], log });
            // The region may have anything in it.
            self.region.fill(self.rng.next_u64());
            let recovered = Objects::recover(self.region.as_mut_bytes(), &self.config, &copies).unwrap();
            let found = recovered.last().0;
            let repair = recovered.repair();
            assert!((durable..=last).contains(&found), "{durable} to {last} expected, {found} found");
            if self.front < self.rear && self.rng.below(3) == 0 {
                let lost = self.rng.below(self.rear - self.front + 1);
                self.counts.regressed += u64::from(lost > 0);
                self.rear -= lost;
            }
            let table = recovered.resume(Position(self.front), Position(self.rear));
            table.check();
            assert_eq!(table.pending(), Pending::Snapshot);
            if let Some(SnapshotRepair { area, from, to }) = repair {
                let area = area as usize;
                self.medium.unsynced.push(([to, area], 0, read[from][area].clone()));
                self.counts.repaired += 1;
            }
            // Crashes again, mostly while the first snapshot is written.
            let again = self.rng.below(9);
            if again > 0 {
                self.medium.sync();
            }
            if again > 2 {
                break found;
            }
            if again > 0 {
                self.take_snapshot();
            }
            self.medium.crash(&mut self.rng);
            self.snapshot = None;
        };
        self.counts.crashes += 1;
        self.counts.lost += u64::from(found < last);
        self.counts.kept += u64::from(found > durable);
        self.model.crash(found, self.front, self.rear);
        self.read();
        for (object, locator) in self.model.named() {
            assert_eq!(self.table().lookup(&locator), Some(object));
        }
        assert_eq!(self.table().usage().live as usize, self.model.live().count());
        self.flush();
    }
}

fn run(seed: u64, steps: u64) -> Counts {
    let mut world = World::new(seed);
    for step in 0..steps {
        world.step();
        if step % 64 == 0 {
            world.table().check();
        }
    }
    world.read();
    world.counts
}

#[test]
fn the_table_is_that_of_the_model_at_every_crash() {
    let (seeds, steps) = (16, 100_000);
    let mut all = Counts::default();
    for seed in 0..seeds {
        println!("seed {seed}");
        let counts = run(seed, steps);
        println!("{counts:?}");
        all.full += counts.full;
        all.too_many += counts.too_many;
        all.implied += counts.implied;
        all.reused += counts.reused;
        all.crashes += counts.crashes;
        all.lost += counts.lost;
        all.kept += counts.kept;
        all.regressed += counts.regressed;
        all.repaired += counts.repaired;
        all.forced += counts.forced;
        all.dead += counts.dead;
        all.alive += counts.alive;
    }
    let Counts {
        full,
        too_many,
        implied,
        reused,
        crashes,
        lost,
        kept,
        regressed,
        repaired,
        forced,
        dead,
        alive,
        ..
    } = all;
    let happened =
        [full, too_many, implied, reused, crashes, lost, kept, regressed, repaired, forced, dead, alive];
    assert!(happened.iter().all(|count| *count >= 10), "too little happened: {all:?}");
}
