//! Routing in simulation: clients in a closed loop before two devices with queues.

use super::route::{Costs, Probe, Reads, Router, TICK};
use entresol_runtime::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

const NANOS: f64 = 1e9;

/// Seconds in which a limited device serves its share of the reads of a second, all at once.
const SLICE: f64 = 0.1;

/// A queue before one server.
struct Device {
    /// Mean time of a read, seconds.
    service: f64,
    /// Reads a second, at most: a cloud volume. Infinite: there is no limit.
    limit: f64,
    /// The number of the slice that was last served in, and how many reads in it.
    slice: (f64, f64),
    idle_at: f64,
    under_way: u64,
    /// Since the last tick.
    reads: Reads,
}

impl Device {
    /// A read begins; it takes `part` of the mean time. When it ends.
    fn begin(&mut self, now: f64, part: f64) -> f64 {
        let mut start = self.idle_at.max(now);
        if self.limit.is_finite() {
            let (slice, served) = self.slice;
            let is_full = served + 1.0 > self.limit * SLICE;
            let next = (start / SLICE).floor().max(if is_full { slice + 1.0 } else { slice });
            start = start.max(next * SLICE);
            self.slice = (next, if next > slice { 1.0 } else { served + 1.0 });
        }
        self.idle_at = start + self.service * part;
        self.under_way += 1;
        self.idle_at
    }
}

/// A read under way: when it ends, of which client, from disk, when it began, how many were under way.
type UnderWay = Reverse<(u64, u32, bool, u64, u64)>;

/// Clients that read one page after the other.
struct World {
    rng: Rng,
    reads: BinaryHeap<UnderWay>,
    /// Those with lower numbers continue.
    clients: u32,
    /// Flash, and disk.
    devices: [Device; 2],
    hit_percent: u64,
    router: Router,
    costs: Costs,
    /// Without: all hits are read from flash.
    routes: bool,
    probe: Option<Probe>,
    hits: (u64, u64),
    shares: Vec<f64>,
    ended: Vec<u64>,
}

impl World {
    fn new(seed: u64, clients: u32, hit_percent: u64, (flash, disk): (f64, f64), routes: bool) -> Self {
        let device = |per_second: f64| Device {
            service: 1.0 / per_second,
            limit: f64::INFINITY,
            slice: (0.0, 0.0),
            idle_at: 0.0,
            under_way: 0,
            reads: Reads::default(),
        };
        let mut world = Self {
            rng: Rng::new(seed),
            reads: BinaryHeap::new(),
            clients,
            devices: [device(flash), device(disk)],
            hit_percent,
            router: Router::default(),
            costs: Costs::default(),
            routes,
            probe: None,
            hits: (0, 0),
            shares: Vec::new(),
            ended: Vec::new(),
        };
        (0..clients).for_each(|client| world.begin(client, 0));
        world
    }

    fn begin(&mut self, client: u32, now: u64) {
        let is_hit = self.rng.below(100) < self.hit_percent;
        let [flash, disk] = &self.devices;
        let to_disk = match is_hit.then(|| self.probe.take()) {
            None => true,
            Some(Some(probe)) => probe == Probe::Disk,
            Some(None) => self.routes && self.costs.prefer_disk(1, flash.under_way, disk.under_way),
        };
        if is_hit {
            *(if to_disk { &mut self.hits.1 } else { &mut self.hits.0 }) += 1;
        }
        // Between half of the mean and one and a half.
        let part = 0.5 + self.rng.below(1 << 20) as f64 / f64::from(1 << 20);
        let device = &mut self.devices[usize::from(to_disk)];
        let ends = (device.begin(now as f64 / NANOS, part) * NANOS) as u64;
        self.reads.push(Reverse((ends, client, to_disk, now, device.under_way)));
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 4 {
            let until = (self.shares.len() as u64 + 1) * TICK.as_nanos() as u64;
            let mut ended = 0;
            while let Some(Reverse((ends, client, to_disk, began, queued))) = self.reads.peek().copied()
                && ends <= until
            {
                self.reads.pop();
                ended += 1;
                let device = &mut self.devices[usize::from(to_disk)];
                device.under_way -= 1;
                device.reads.count += 1;
                device.reads.time += Duration::from_nanos(ends - began);
                device.reads.queued += queued;
                if client < self.clients {
                    self.begin(client, ends);
                }
            }
            let [flash, disk] = self.devices.each_mut().map(|device| std::mem::take(&mut device.reads));
            let probe = self.router.tick(&flash, &disk, std::mem::take(&mut self.hits));
            self.probe = probe.filter(|_| self.routes);
            self.costs = self.router.costs();
            self.shares.push(self.router.share());
            self.ended.push(ended);
        }
    }

    /// Reads a second in the last seconds.
    fn rate(&self, seconds: usize) -> f64 {
        self.ended[self.ended.len() - 4 * seconds..].iter().sum::<u64>() as f64 / seconds as f64
    }
}

/// Reads a second of flash and disk before and after a step; clients; hits in a hundred; the share after it.
type Case = ((f64, f64), (f64, f64), u32, u64, std::ops::RangeInclusive<f64>);

const CASES: [Case; 9] = [
    // The usual: a disk far slower than flash.
    ((50_000.0, 200.0), (50_000.0, 200.0), 8, 90, 0.0..=0.01),
    // Flash becomes half as fast as the disk, with one client, and with many.
    ((10_000.0, 1_000.0), (500.0, 1_000.0), 1, 100, 0.9..=1.0),
    ((10_000.0, 1_000.0), (500.0, 1_000.0), 32, 100, 0.6..=0.73),
    ((10_000.0, 1_000.0), (500.0, 1_000.0), 128, 100, 0.6..=0.73),
    // Half of the reads miss: the disk is busy with them.
    ((10_000.0, 1_000.0), (500.0, 1_000.0), 32, 50, 0.25..=0.4),
    // Few hits: a flash of a tenth of the disk's reads serves as many as it can.
    ((10_000.0, 1_000.0), (100.0, 1_000.0), 16, 20, 0.45..=0.65),
    // Back again.
    ((500.0, 1_000.0), (10_000.0, 1_000.0), 32, 100, 0.0..=0.15),
    ((500.0, 1_000.0), (20_000.0, 200.0), 1, 100, 0.0..=0.05),
    // The same speed.
    ((1_000.0, 1_000.0), (1_000.0, 1_000.0), 16, 100, 0.45..=0.55),
];

#[test]
fn the_share_converges_within_ten_seconds_of_a_step_and_stays() {
    for (number, (before, after, clients, hits, expected)) in CASES.into_iter().enumerate() {
        for seed in 0..8 {
            let mut world = World::new(seed, clients, hits, before, true);
            world.run(30);
            world.devices[0].service = 1.0 / after.0;
            world.devices[1].service = 1.0 / after.1;
            world.run(10);
            world.run(60);
            let last = &world.shares[world.shares.len() - 4 * 60..];
            let (least, most) = last
                .iter()
                .fold((1.0_f64, 0.0_f64), |(least, most), share| (least.min(*share), most.max(*share)));
            let found = format!("case {number}, seed {seed}: {least:.3} to {most:.3}");
            assert!(most - least <= 0.1, "{found}");
            assert!(expected.contains(&least) && expected.contains(&most), "{found}, not in {expected:?}");
        }
    }
}

/// Whatever the devices do, the clients read at least nineteen twentieths of what the disk alone would give
/// them, and of what the cache alone would.
#[test]
fn it_is_never_slower_than_either_alone() {
    for (number, (before, after, clients, hits, _)) in CASES.into_iter().enumerate() {
        let rate = |hits: u64, routes: bool| {
            let mut world = World::new(7, clients, hits, before, routes);
            world.run(30);
            world.devices[0].service = 1.0 / after.0;
            world.devices[1].service = 1.0 / after.1;
            world.run(30);
            world.rate(20)
        };
        let (found, disk, cache) = (rate(hits, true), rate(0, false), rate(hits, false));
        let told = format!("case {number}: {found} reads a second; disk alone {disk}, cache alone {cache}");
        assert!(found >= 0.95 * disk && found >= 0.95 * cache, "{told}");
    }
}

/// A disk stands still for a while, and many clients leave one behind: how long reads took then is found out
/// anew by the few that are sent there.
#[test]
fn what_reads_took_is_found_out_anew() {
    for seed in 0..8 {
        for stall in [0.0, 0.5, 2.0] {
            let mut world = World::new(seed, 16, 100, (500.0, 1_000.0), true);
            world.run(30);
            world.devices[1].idle_at += stall;
            world.run(3);
            world.clients = 1;
            world.run(10);
            world.run(20);
            let found = world.rate(20);
            assert!(found >= 0.95 * 1_000.0, "seed {seed}, {stall} s: {found} reads a second");
        }
    }
}

/// A disk that is as quick as flash as long as it serves few reads, and serves so many a second at most: hits
/// are kept from it.
#[test]
fn hits_do_not_take_the_place_of_misses() {
    for (hits, clients) in [(60, 32), (60, 8), (90, 32)] {
        let rate = |hits: u64, routes: bool| {
            let mut world = World::new(3, clients, hits, (2_000.0, 10_000.0), routes);
            world.devices[1].limit = 600.0;
            world.run(30);
            world.rate(20)
        };
        let (found, cache) = (rate(hits, true), rate(hits, false));
        assert!(found >= 0.95 * cache, "{hits} % hits, {clients} clients: {found} reads a second, {cache}");
    }
}

/// All hits are read from flash, so only probes show the disk's speed. They cost next to nothing.
#[test]
fn a_device_that_is_silent_is_asked_once_a_second() {
    let mut world = World::new(1, 4, 100, (10_000.0, 100.0), true);
    world.run(60);
    assert!(world.router.share() > 0.0, "the disk was asked");
    // A probe takes the place of one read in ten thousand.
    assert!(world.rate(30) >= 0.97 * 10_000.0, "{}", world.rate(30));
}
