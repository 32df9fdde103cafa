//! LSNs of dirty pages on flash, which a front reads from summaries.

mod support;

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_engine::{Deletes, Handed, Layer, SharedFront, TierOptions};
use entresol_format::summary::Summary;
use entresol_format::{BLOCK_BYTES, PageFormat};
use entresol_runtime::rng::Rng;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::shared::{PAGES, World, put};
use support::{PAGE, small, victim};

/// A cache.
fn new_world(options: TierOptions) -> World {
    // Every test makes its first world with it.
    World::new(options)
}

/// Changes, fetches and forgets pages, and makes checkpoints now and then.
fn work(world: &World, front: &SharedFront, rng: &mut Rng, next: &mut u64) {
    let mut buffer = vec![0; PAGE];
    for _ in 0..300 {
        let page = PageId(rng.below(PAGES / 4));
        match rng.below(40) {
            0 => drop(front.forget(page, page).unwrap()),
            1 => front.checkpoint().unwrap(),
            2..5 => front.flush().unwrap(),
            5..20 => drop(world.fetch(front, page, &mut buffer)),
            _ => {
                *next += 1;
                put(front, page, *next);
            }
        }
    }
}

/// Every LSN that is known is the fetched version's. Returns how many are known.
fn check(world: &World, front: &SharedFront) -> usize {
    let mut buffer = vec![0; PAGE];
    let known = (0..PAGES).map(PageId).filter(|page| {
        let Some(Lsn(lsn)) = front.newer_lsn(*page) else { return false };
        // It may have been destaged, and dropped, since it was asked for.
        assert_eq!(world.fetch(front, *page, &mut buffer).1, lsn, "page {page}");
        true
    });
    known.count()
}

#[test]
fn a_known_lsn_is_that_of_the_newest_version_also_after_restarts() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc, PolicyKind::Reuse] {
        // Changed pages enter under each of them.
        let world = new_world(TierOptions { takes_changes: true, ..small(policy, 96) });
        let mut tier = world.create();
        let (mut rng, mut next, mut known, mut at_opens) = (Rng::new(7), 1, 0, 0);
        for round in 0..8 {
            let front = world.attach().unwrap();
            at_opens += check(&world, &front);
            for _ in 0..4 {
                work(&world, &front, &mut rng, &mut next);
                known += check(&world, &front);
            }
            if round % 2 == 0 {
                front.flush().unwrap();
            }
            tier.abandon();
            drop((front, tier));
            tier = world.reopen();
        }
        assert!(at_opens > 60 && known > 300, "{policy:?}: {at_opens}, {known} LSNs were known");
        tier.close().unwrap();
    }
}

/// A page that is not on flash after so long never will be.
fn stalled_after() -> Duration {
    let is_hunt = std::env::var_os("ENTRESOL_MUTANT").is_some();
    Duration::from_secs(if is_hunt { 10 } else { 60 })
}

/// Waits until the LSN of `page` is known to be this one.
fn await_lsn(front: &SharedFront, page: u64, lsn: u64) {
    let until = Instant::now() + stalled_after();
    while front.newer_lsn(PageId(page)) != Some(Lsn(lsn)) {
        assert!(Instant::now() < until, "page {page} is on flash with LSN {lsn}");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_lsn_is_told_once_its_group_is_on_flash() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGsc] {
        let world = new_world(TierOptions { policy, ..postgres() });
        let tier = world.create();
        let front = world.attach().unwrap();
        for page in 0..4 {
            assert_eq!(front.newer_lsn(PageId(page)), None, "it is on disk");
            put_postgres(&front, page, 10 + page as u32);
            front.flush().unwrap();
            let known = (0..4).filter_map(|page| Some((page, front.newer_lsn(PageId(page))?.0)));
            known.for_each(|(page, lsn)| assert_eq!(lsn, 10 + page, "{policy:?}: page {page}"));
        }
        (0..4).for_each(|page| await_lsn(&front, page, 10 + page));
        put_postgres(&front, 0, 20);
        let known = front.newer_lsn(PageId(0));
        assert!(known.is_none_or(|lsn| lsn == Lsn(20)), "{policy:?}: {known:?}, the older version is dead");
        (4..8).for_each(|page| put_postgres(&front, page, 30));
        await_lsn(&front, 0, 20);
        front.forget(PageId(0), PageId(0)).unwrap();
        assert_eq!(front.newer_lsn(PageId(0)), None, "{policy:?}: it is dead");
        (8..12).for_each(|page| put_unchanged(&front, page, 40));
        (12..16).for_each(|page| put_postgres(&front, page, 50));
        front.checkpoint().unwrap();
        await_lsn(&front, 12, 50);
        let known = (8..12).filter_map(|page| front.newer_lsn(PageId(page)));
        assert_eq!(known.count(), 0, "{policy:?}: the disk has them, too");
        tier.close().unwrap();
    }
}

/// PostgreSQL's pages: a group has two summaries, and a part of it may be flushed.
fn postgres() -> TierOptions {
    TierOptions { page_format: PageFormat::Postgres, page_bytes: 8192, ..small(PolicyKind::FaceGsc, 96) }
}

/// Hands down a changed page of PostgreSQL with this LSN.
fn put_postgres(front: &SharedFront, page: u64, lsn: u32) {
    hand_down(front, page, lsn, true);
}

/// The same of a page that the disk has.
fn put_unchanged(front: &SharedFront, page: u64, lsn: u32) {
    hand_down(front, page, lsn, false);
}

fn hand_down(front: &SharedFront, page: u64, lsn: u32, dirty: bool) {
    let mut bytes = vec![0; 8192];
    bytes[4..8].copy_from_slice(&lsn.to_le_bytes());
    PageFormat::Postgres.unseal(&mut bytes, PageId(page));
    let handed = front.evict(victim(PageId(page), lsn.into(), dirty, dirty), &bytes).unwrap();
    assert!(matches!(handed, Handed::Taken(_)), "{handed:?}");
}

/// The copies of a group's summary on flash: their blocks, and the LSNs of the first page.
fn copies(world: &World, number: u64) -> (Vec<usize>, Vec<u64>) {
    let flash = fs::read(world.path("flash")).unwrap();
    let blocks = flash.chunks_exact(BLOCK_BYTES).enumerate();
    let summaries = blocks.filter_map(|(at, block)| Some((at, Summary::decode(block, 4).ok()?)));
    let mut found: Vec<_> = summaries
        .filter(|(_, summary)| summary.head.group == number)
        .filter_map(|(at, summary)| Some((at, summary.entry(0)?.lsn.0)))
        .collect();
    found.sort_by_key(|(_, lsn)| *lsn);
    found.into_iter().unzip()
}

/// 1. A life writes a group; a crash tears a page of it, and takes the group back.
/// 2. Redo, in the next life, has an older version of the page when it is given the same position, and
///    flushes it: a part of the group.
/// 3. The other copy of the group's summary still is the first life's.
#[test]
fn a_summary_that_a_crash_took_back_tells_no_lsn() {
    const TORN: u64 = 2;
    let world = new_world(postgres());
    let tier = world.create();
    let front = world.attach().unwrap();
    (40..48).for_each(|page| put_postgres(&front, page, 2));
    front.checkpoint().unwrap();
    (0..4).for_each(|page| put_postgres(&front, page, 100));
    await_lsn(&front, 0, 100);
    tier.abandon();
    drop((front, tier));
    let (blocks, lsns) = copies(&world, TORN);
    assert_eq!(lsns, [100, 100]);
    let mut flash = fs::read(world.path("flash")).unwrap();
    flash[(blocks.into_iter().min().unwrap() + 1) * BLOCK_BYTES + 100] ^= 1;
    fs::write(world.path("flash"), &flash).unwrap();

    let tier = world.reopen();
    let front = world.attach().unwrap();
    assert_eq!(front.newer_lsn(PageId(0)), None, "its group was torn");
    put_postgres(&front, 0, 50);
    front.flush().unwrap();
    let (blocks, lsns) = copies(&world, TORN);
    assert_eq!(lsns, [50, 100], "one copy is left over");
    let left_over = blocks[1] * BLOCK_BYTES..(blocks[1] + 1) * BLOCK_BYTES;
    let older = fs::read(world.path("flash")).unwrap()[left_over.clone()].to_vec();
    assert_eq!(front.newer_lsn(PageId(0)), None, "its group is still filled, in memory");
    tier.abandon();
    drop((front, tier));

    let tier = world.reopen();
    let front = world.attach().unwrap();
    assert_eq!(front.newer_lsn(PageId(0)), Some(Lsn(50)));
    assert_eq!(copies(&world, TORN).1, [50, 50], "the open has rewritten both");
    drop(front);

    // The device has lost one of these two writes.
    let flash = File::options().write(true).open(world.path("flash")).unwrap();
    flash.write_all_at(&older, left_over.start as u64).unwrap();
    assert_eq!(copies(&world, TORN).1, [50, 100]);
    let front = world.attach().unwrap();
    assert_eq!(front.newer_lsn(PageId(0)), None, "the copies contradict each other");
    tier.close().unwrap();
}

/// Every group is in its place again a round later, with the same pages and newer LSNs.
#[test]
fn a_group_of_an_older_round_tells_no_lsn() {
    const SLOTS: u64 = 96;
    let world = new_world(TierOptions { policy: PolicyKind::Face, ..postgres() });
    let tier = world.create();
    let front = world.attach().unwrap();
    for round in 1..4 {
        for page in 0..SLOTS {
            let lsn = round * 1000 + page;
            put_postgres(&front, page, lsn as u32);
            let known = front.newer_lsn(PageId(page));
            assert!(known.is_none_or(|known| known == Lsn(lsn)), "{known:?}, it has LSN {lsn}");
        }
        await_lsn(&front, SLOTS / 2, round * 1000 + SLOTS / 2);
    }
    tier.close().unwrap();
}
