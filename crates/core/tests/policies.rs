//! Every policy against its naive model, with the concurrency of an engine, crashes and restarts.

mod harness;

use entresol_core::{Config, Lists, Placement, PolicyKind, Survives};
use harness::world::Mode;
use harness::{Choices, World, small};
use proptest::prelude::*;

/// Long seeded runs over many shapes. Returns the worlds, for their counters.
fn seeded(policy: PolicyKind, mode: Mode, seeds: std::ops::Range<u64>, steps: usize) -> Vec<World> {
    let run = |seed: u64| {
        let mut choices = Choices::from_seed(seed * 7919 + policy as u64);
        let group_pages = [2, 3, 4, 8][choices.below(4)];
        let staging_groups = 2 + choices.below(3) as u32;
        let mut config = small(policy, group_pages, staging_groups, choices.below(8) as u32);
        config.dirty_permille_max = [0, 100, 500, 900, 1000][choices.below(5)];
        // From a working set that fits to one that is far too large.
        let pages = config.slots / 2 + choices.below(2 * config.slots as usize) as u32;
        let mut world = World::new(config, pages, 4 + choices.below(pages as usize / 4));
        // Half of the runs are fast: the ring wraps more often, with less under way at once.
        world.settle_every = [usize::MAX, 16][choices.below(2)];
        world.mode = mode;
        println!("seed {seed}: {config:?}, {pages} pages");
        world.run(&mut choices, steps);
        world
    };
    seeds.map(run).collect()
}

fn seeded_with_forgets_and_flushes(
    policy: PolicyKind,
    mode: Mode,
    seeds: std::ops::Range<u64>,
) -> Vec<World> {
    seeds.map(|seed| harness::run_with_forgets_and_flushes(policy, mode, seed)).collect()
}

fn log_with_forgets_and_flushes(policy: PolicyKind) {
    let worlds = seeded_with_forgets_and_flushes(policy, Mode::Back, 0..100);
    let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
    let found: [(&str, u64, u64); 11] = [
        ("crashes", sum(|w| w.crashes), 50),
        ("destages", sum(|w| w.destages), 1000),
        ("pages found", sum(|w| w.dead.found), 5000),
        ("dirty pages found", sum(|w| w.dead.found_dirty), 2000),
        ("writes that waited for dequeues", sum(|w| w.dead.waits), 100),
        ("long ranges", sum(|w| w.dead.long), 200),
        ("pages promised", sum(|w| w.dead.promised), 5000),
        ("requests with too many records", sum(|w| w.dead.full), 20),
        ("flushes", sum(|w| w.flushes), 500),
        ("walks", sum(|w| w.walking.ended), 1000),
        ("pages that walks had to meet", sum(|w| w.walking.had_to_meet), 5000),
    ];
    println!("{found:?}");
    for (what, count, least) in found {
        assert!(count >= least, "{}: {count} {what}", policy.name());
    }
}

#[test]
fn face_with_forgets_and_flushes() {
    log_with_forgets_and_flushes(PolicyKind::Face);
}

#[test]
fn face_gr_with_forgets_and_flushes() {
    log_with_forgets_and_flushes(PolicyKind::FaceGr);
}

#[test]
fn face_gsc_with_forgets_and_flushes() {
    log_with_forgets_and_flushes(PolicyKind::FaceGsc);
}

#[test]
fn slots_with_forgets_and_flushes() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Slots) {
        let modes = if policy.write_back() { &ALL_MODES[..] } else { &CLEAN_MODES[..] };
        for mode in modes {
            let worlds = seeded_with_forgets_and_flushes(policy, *mode, 0..6);
            let found = worlds.iter().map(|w| w.dead.found).sum::<u64>();
            assert!(found > 200, "{} {mode:?}: {found} pages found", policy.name());
        }
    }
}

fn seeded_and_busy(policy: PolicyKind) {
    let worlds = seeded(policy, Mode::Back, 0..12, 4000);
    let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
    // Without crashes the test would test nothing.
    assert!(sum(|w| w.crashes) > 20, "crashes");
    assert!(sum(|w| w.destages) > 1000, "destages");
    assert!(policy != PolicyKind::FaceGsc || sum(|w| w.second_chances) > 500, "second chances");
}

#[test]
fn face_agrees_with_its_model() {
    seeded_and_busy(PolicyKind::Face);
}

#[test]
fn face_gr_agrees_with_its_model() {
    seeded_and_busy(PolicyKind::FaceGr);
}

#[test]
fn face_gsc_agrees_with_its_model() {
    seeded_and_busy(PolicyKind::FaceGsc);
}

#[test]
fn lc_agrees_with_its_model() {
    seeded_and_busy(PolicyKind::Lc);
}

/// Slot placement, in the modes that it allows.
fn seeded_in(policy: PolicyKind, modes: &[Mode]) {
    for mode in modes {
        let worlds = seeded(policy, *mode, 0..8, 3000);
        let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
        let what = format!("{} {mode:?}", policy.name());
        assert!(sum(|w| w.crashes) > 10, "{what}: crashes");
        assert!(sum(|w| w.flash_hits) > 500, "{what}: {} hits", sum(|w| w.flash_hits));
        assert_eq!(sum(|w| w.arrivals) > 500, policy.populates(), "{what}: {} arrivals", sum(|w| w.arrivals));
        assert_eq!(sum(|w| w.moves) > 500, policy.exclusive(), "{what}: {} moves", sum(|w| w.moves));
        let dirty = *mode == Mode::Back;
        assert_eq!(sum(|w| w.destages) > 300, dirty, "{what}: {} destages", sum(|w| w.destages));
        assert!(*mode != Mode::Around || sum(|w| w.bypasses) > 1000, "{what}: bypasses");
    }
}

const ALL_MODES: [Mode; 3] = [Mode::Back, Mode::Through, Mode::Around];
const CLEAN_MODES: [Mode; 2] = [Mode::Through, Mode::Around];

#[test]
fn tac_agrees_with_its_model() {
    seeded_in(PolicyKind::Tac, &CLEAN_MODES);
}

#[test]
fn exadata_agrees_with_its_model() {
    seeded_in(PolicyKind::Exadata, &CLEAN_MODES);
}

#[test]
fn loc_agrees_with_its_model() {
    seeded_in(PolicyKind::Loc, &ALL_MODES);
}

#[test]
fn glb_agrees_with_its_model() {
    seeded_in(PolicyKind::Glb, &ALL_MODES);
}

#[test]
fn flashcache_agrees_with_its_model() {
    seeded_in(PolicyKind::Flashcache, &ALL_MODES);
}

#[test]
fn s3_fifo_agrees_with_its_model() {
    seeded_in(PolicyKind::S3Fifo, &ALL_MODES);
}

/// Long enough for pages to be promoted, to return from the ghost, and to be passed in the main queue.
#[test]
fn s3_fifo_agrees_with_its_model_for_a_long_time() {
    let mut world = World::new(small(PolicyKind::S3Fifo, 2, 2, 12), 200, 3);
    world.crash_often = false;
    world.settle_every = 4;
    let mut choices = Choices::from_seed(1);
    for used in [200, 50, 200] {
        world.pages_used = used;
        world.run(&mut choices, 4000);
    }
    assert!(world.flash_hits > 500, "{} hits", world.flash_hits);
}

#[test]
fn reuse_in_slots_agrees_with_its_model() {
    seeded_in(PolicyKind::ReuseSlots, &ALL_MODES);
}

#[test]
fn reuse_agrees_with_its_model() {
    let worlds = seeded(PolicyKind::Reuse, Mode::Back, 0..12, 4000);
    let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
    assert!(sum(|w| w.crashes) > 20, "crashes");
    assert!(sum(|w| w.destages) > 1000, "destages");
    assert!(sum(|w| w.second_chances) > 500, "second chances");
}

#[test]
fn reuse_with_forgets_and_flushes() {
    log_with_forgets_and_flushes(PolicyKind::Reuse);
}

/// Unlikely pages are kept out, also where the durable front lags.
#[test]
fn reuse_keeps_pages_out_as_its_model() {
    let worlds: Vec<World> = (0..6).map(|seed| harness::run_that_keeps_out(seed, 12_000)).collect();
    let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
    let (bypasses, crashes, hits) = (sum(|w| w.bypasses), sum(|w| w.crashes), sum(|w| w.flash_hits));
    println!("{bypasses} bypasses, {crashes} crashes, {hits} hits");
    assert!(bypasses > 1000 && crashes > 10 && hits > 1000);
}

/// Second chances wait for destages, and for those of earlier dequeues.
#[test]
fn reuse_lets_pages_leave_first_as_its_model() {
    let worlds: Vec<World> = (0..12).map(|seed| harness::run_that_stays(seed, 12_000)).collect();
    let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
    let (chances, waits) = (sum(|w| w.second_chances), sum(|w| w.waits));
    println!("{chances} second chances, {waits} waits");
    assert!(chances > 1000 && waits > 100);
}

/// Pages whose write to disk is under way do not leave, under any policy of a log, and others get on.
#[test]
fn held_pages_stay_as_in_the_models() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Log) {
        let worlds: Vec<World> = (0..16).map(|seed| harness::run_that_holds(policy, seed)).collect();
        let stayed = worlds.iter().map(|world| world.stayed).sum::<u64>();
        assert!(stayed > 1000, "{policy:?}: {stayed}");
    }
}

/// Pages that the disk refuses stay, under any policy of a log, and others get on.
#[test]
fn refused_pages_stay_as_in_the_models() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Log) {
        let worlds: Vec<World> = (0..24).map(|seed| harness::run_that_refuses(policy, seed)).collect();
        let sum = |count: fn(&World) -> u64| worlds.iter().map(count).sum::<u64>();
        let (kept, waits, stuck) = (sum(|w| w.kept), sum(|w| w.waits), sum(|w| w.stuck));
        println!("{policy:?}: {kept} pages kept, {waits} waits, {stuck} stuck");
        assert!(kept > 40 && waits > 0, "{policy:?}: {kept}, {waits}");
        let without_crash = worlds.iter().filter(|world| world.crashes == 0);
        assert_eq!(without_crash.map(|world| world.stuck).sum::<u64>(), 0, "there is a group for what stays");
    }
}

/// Long enough for classes to be learned, and for notes to be as old as they get.
#[test]
fn reuse_agrees_with_its_models_for_a_long_time() {
    for policy in [PolicyKind::Reuse, PolicyKind::ReuseSlots] {
        let mut world = World::new(small(policy, 4, 2, 0), 800, 3);
        world.settle_every = 4;
        world.crash_often = false;
        let mut choices = Choices::from_seed(1);
        for (used, steps) in [(60, 5000), (800, 5000), (10, 30_000), (800, 15_000)] {
            world.pages_used = used;
            world.run(&mut choices, steps);
        }
        println!("{}: {} hits, {} bypasses", policy.name(), world.flash_hits, world.bypasses);
        assert!(world.flash_hits > 500, "{}: {} hits", policy.name(), world.flash_hits);
        assert!(world.bypasses > 500, "{}: {} bypasses", policy.name(), world.bypasses);
    }
}

#[test]
fn policies_for_comparison_agree_with_their_models() {
    // LRU, FIFO, CLOCK, and what may be added: one list, and nothing survives.
    let is_one = |policy: &PolicyKind| {
        let facts = policy.facts().slots().filter(|facts| facts.lists == Lists::Fixed(1));
        facts.is_some_and(|facts| facts.survives == Survives::Never && !facts.clean_only)
    };
    for policy in PolicyKind::ALL.into_iter().filter(is_one) {
        seeded_in(policy, &ALL_MODES);
    }
}

/// Long enough for temperatures to be halved several times.
#[test]
fn tac_agrees_with_its_model_for_a_long_time() {
    let mut world = World::new(small(PolicyKind::Tac, 2, 2, 0), 900, 3);
    world.crash_often = false;
    world.settle_every = 4;
    let mut choices = Choices::from_seed(1);
    for used in [900, 60, 900] {
        world.pages_used = used;
        world.run(&mut choices, 4000);
    }
    assert!(world.flash_hits > 500, "{} references", world.flash_hits);
}

/// Long enough for LRU-2's intervals to be forgotten: 1,024 references.
#[test]
fn lc_agrees_with_its_model_for_a_long_time() {
    for (pages, history) in [(48, 16), (400, 2), (2000, 0), (2000, 16)] {
        let config = Config { history, ..small(PolicyKind::Lc, 2, 2, 0) };
        let mut world = World::new(config, pages, 3);
        world.crash_often = false; // a restart restarts the clock
        world.settle_every = 4;
        let mut choices = Choices::from_seed(1);
        // Pages referenced twice grow old during a stream of others. Then a small working set evicts them.
        for used in [pages, 48, pages, 48] {
            world.pages_used = used as usize;
            world.run(&mut choices, 4000);
        }
        assert!(world.flash_hits > 500, "{} references", world.flash_hits);
    }
}

/// On longer rings more dequeues are under way at once.
#[test]
fn longer_rings_agree_with_their_models() {
    for policy in harness::crash::survivors() {
        let config = small(policy, 2, 3, 120);
        let mut world = World::new(config, 400, 60);
        // If all pages are used alike for ever, `reuse` rightly displaces none.
        world.take_changes();
        world.run(&mut Choices::from_seed(policy as u64), 8000);
        assert!(world.destages > 200, "{}: {} destages", policy.name(), world.destages);
        // Short rings allow four; two with a reserved group for each.
        let few = if policy.facts().log().is_some_and(|log| log.second_chances.is_some()) { 2 } else { 4 };
        assert!(world.dequeues_at_once > few, "{}: {} at once", policy.name(), world.dequeues_at_once);
    }
}

/// Of many dequeues at once the ring keeps as many groups free, or is freeing them.
#[test]
fn rings_with_many_dequeues_agree_with_their_models() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Log) {
        for (seed, refuses) in [(1, false), (2, true)] {
            let config = Config { dequeues: 32, refusals: refuses, ..small(policy, 2, 3, 260) };
            let mut world = World::new(config, 900, 60);
            world.refuses = refuses;
            world.forgets_and_flushes = refuses;
            world.front_lags = !refuses;
            world.crash_often = false;
            world.take_changes();
            world.run(&mut Choices::from_seed(seed), 12_000);
            assert!(world.destages > 100, "{}: {} destages", policy.name(), world.destages);
            // Those with second chances of `reuse` wait for each other.
            let few = if policy == PolicyKind::Reuse { 4 } else { 8 };
            assert!(world.dequeues_at_once > few, "{}: {} at once", policy.name(), world.dequeues_at_once);
        }
    }
}

#[test]
fn longer_rings_with_forgets_and_flushes() {
    for policy in harness::crash::survivors() {
        let config = small(policy, 2, 3, 120);
        let mut world = World::new(config, 400, 60);
        world.forgets_and_flushes = true;
        world.run(&mut Choices::from_seed(policy as u64), 24_000);
        let (found, waits) = (world.dead.found, world.dead.waits);
        assert!(found > 500 && waits > 10, "{}: {found} pages found, {waits} waits", policy.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// As above, from lists of choices, so that a failure shrinks to a short list.
    #[test]
    fn policies_agree_with_their_models(
        policy in prop::sample::select(PolicyKind::ALL.to_vec()),
        group_pages in 2u32..6,
        more in 0u32..4,
        pages in 4u32..120,
        choices in prop::collection::vec(any::<u32>(), 0..3000),
    ) {
        let mut world = World::new(small(policy, group_pages, 2, more), pages, 6);
        world.run(&mut Choices::from_list(choices), usize::MAX);
    }

    /// As above, with forgotten pages and flushes.
    #[test]
    fn policies_forget_and_flush_as_their_models(
        policy in prop::sample::select(PolicyKind::ALL.to_vec()),
        group_pages in 2u32..6,
        more in 0u32..4,
        pages in 4u32..120,
        proofs in any::<bool>(),
        choices in prop::collection::vec(any::<u32>(), 0..3000),
    ) {
        let config = entresol_core::Config { proofs, ..small(policy, group_pages, 2, more) };
        let mut world = World::new(config, pages, 6);
        world.forgets_and_flushes = true;
        world.run(&mut Choices::from_list(choices), usize::MAX);
    }
}
