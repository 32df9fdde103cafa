//! The horizon: how much of its owner's log a log on flash needs while its disk lacks pages.

mod harness;

use entresol_core::PolicyKind;
use harness::{Choices, World, small};

/// A seeded run of a partition that keeps bases.
fn run(policy: PolicyKind, seed: u64) -> World {
    let mut choices = Choices::from_seed(seed * 104_729 + policy as u64);
    let mut config = small(policy, [2, 3, 4, 8][choices.below(4)], 2, choices.below(8) as u32);
    config.keeps_bases = true;
    config.proofs = seed.is_multiple_of(2);
    config.refusals = seed % 7 == 3;
    let pages = config.slots / 2 + choices.below(2 * config.slots as usize) as u32;
    let mut world = World::new(config, pages, 4 + choices.below(pages as usize / 4));
    world.settle_every = [usize::MAX, 16][choices.below(2)];
    world.crash_often = !seed.is_multiple_of(3);
    world.front_lags = seed % 4 == 1;
    world.forgets_and_flushes = seed % 3 == 2;
    world.holds = seed % 5 == 2;
    world.refuses = config.refusals;
    println!("seed {seed}: {config:?}, {pages} pages");
    world.run(&mut choices, 4000);
    world.assert_horizon_arrives();
    world
}

#[test]
fn no_policy_names_a_horizon_after_a_change_that_the_disk_lacks() {
    let logs = [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc, PolicyKind::Reuse];
    for policy in logs {
        let worlds: Vec<World> = (0..24).map(|seed| run(policy, seed)).collect();
        let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
        let found = [
            ("checkpoints", sum(|w| w.bases.completed), 1000),
            ("checkpoints that waited for old pages", sum(|w| w.bases.refused), 10),
            ("horizons that moved", sum(|w| w.bases.moved), 300),
            ("crashes", sum(|w| w.crashes), 30),
            ("dirty pages forgotten", sum(|w| w.dead.found_dirty), 100),
        ];
        println!("{}: {found:?}", policy.name());
        for (what, count, least) in found {
            assert!(count >= least, "{}: {count} {what}", policy.name());
        }
    }
}

/// A page that is always changed again keeps the base of its first change, through newer versions and second
/// chances, until the disk has it.
#[test]
fn a_hot_page_keeps_its_base_until_it_is_copied() {
    use entresol_core::{Admission, Cleaning, Config, Lsn, PageId, Partition, region_bytes};
    use zerocopy::IntoBytes;
    let config = Config { keeps_bases: true, ..small(PolicyKind::FaceGsc, 4, 2, 4) };
    let mut region = vec![0u64; region_bytes(&config) / 8];
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("it is valid");
    let write_all = |partition: &mut Partition<'_>| {
        while let Some(job) = partition.next_write() {
            let entresol_core::Job::Write { ticket, pages, .. } = job else { unreachable!("a write") };
            partition.written(ticket, &pages);
        }
    };
    for number in 1..=50 {
        let Admission::Stage { frame, .. } = partition.evict(PageId(7), Lsn(number), true, true) else {
            panic!("there is room")
        };
        partition.staged(frame);
        partition.close_group();
        write_all(&mut partition);
        while let Some(entresol_core::Job::Dequeue { ticket, .. }) = partition.next_background() {
            partition.dequeued(ticket);
        }
        assert!(partition.log_mut().expect("a log").checkpoint_complete(number));
        assert_eq!(partition.log().expect("a log").horizon(), 0, "checkpoint {number}");
    }
    let Cleaning::Copy(page) = partition.clean(PageId(7)) else { panic!("it is dirty") };
    partition.cleaned(&page);
    assert_eq!(partition.log().expect("a log").horizon(), 50);
}
