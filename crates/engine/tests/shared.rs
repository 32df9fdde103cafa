//! Fronts that attach a cache's segment as other processes do, each with a mapping and a thread of its own.
//! Processes that die are `crates/testkit/tests/fronts.rs`.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_engine::{
    AttachOptions, Deletes, FlashTier, Handed, Home, Layer, Mode, PageSet, SharedFront, Sharing, Source,
    TierError, TierOptions, disk_offset, marks_on,
};
use entresol_format::PageFormat;
use entresol_format::superblock::{self, Superblock};
use entresol_objects::{Locator, ObjectId};
use entresol_runtime::rng::Rng;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::shared::{PAGES, World, put, survivors};
use support::{PAGE, build, refusal, small, victim};

const FRONTS: u64 = 4;

/// Changes pages of its own, and forgets, flushes and makes checkpoints now and then. Returns the versions;
/// 0: forgotten.
fn client(world: &World, id: u64) -> Vec<u64> {
    let front = world.attach().unwrap();
    let mut rng = Rng::new(id);
    let mut versions = vec![1; (PAGES / FRONTS) as usize];
    let mut buffer = vec![0; PAGE];
    let mut next = 1;
    for _ in 0..3000 {
        let at = rng.below(PAGES / FRONTS);
        let page = PageId(at * FRONTS + id);
        let newest = &mut versions[at as usize];
        let (is_cached, found) = world.fetch(&front, page, &mut buffer);
        match *newest {
            0 => assert!(!is_cached, "page {page} was forgotten"),
            newest => assert_eq!(found, newest, "{}: page {page}", world.options.policy.name()),
        }
        match rng.below(8) {
            0 if is_cached => {
                front.forget(page, page).unwrap();
                *newest = 0;
            }
            1..5 => {
                next += 1;
                *newest = next;
                put(&front, page, next);
            }
            _ => {}
        }
        match rng.below(200) {
            0 => front.checkpoint().unwrap(),
            1..4 => front.flush().unwrap(),
            _ => {}
        }
    }
    versions
}

#[test]
fn fronts_use_one_cache_and_what_they_leave_is_there_after_a_restart() {
    for options in survivors() {
        let policy = options.policy;
        let world = World::new(options);
        let tier = world.create();
        let versions: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..FRONTS)
                .map(|id| {
                    scope.spawn({
                        let world = &world;
                        move || client(world, id)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let metrics = tier.metrics();
        assert!(metrics.flash_hits > 100 && metrics.staging_hits > 10, "{metrics:?}");
        assert!(metrics.disk_writes > 100 && metrics.flash_writes > 1000, "{metrics:?}");
        assert_eq!(tier.fronts(), 0, "all have left");
        let front = world.attach().unwrap();
        front.flush().unwrap();
        let (there, here) = (tier.metrics(), front.metrics());
        assert_eq!((here.slots, here.flash_hits), (there.slots, there.flash_hits));
        assert!(here.slots_dirty > 0 && here.slots_valid <= 96, "{here:?}");
        tier.abandon();
        assert!(matches!(
            front.fetch(PageId(0), &mut [0; PAGE]),
            Err(TierError::Refused(_) | TierError::Gone(_))
        ));
        drop((front, tier));
        let tier = world.reopen();
        let front = world.attach().unwrap();
        let mut buffer = vec![0; PAGE];
        for (id, versions) in versions.iter().enumerate() {
            for (at, expected) in versions.iter().enumerate() {
                let page = PageId(at as u64 * FRONTS + id as u64);
                let (is_cached, found) = world.fetch(&front, page, &mut buffer);
                match *expected {
                    0 => assert!(!is_cached, "{policy:?}: page {page} was forgotten"),
                    expected => assert_eq!(found, expected, "{policy:?}: page {page}"),
                }
            }
        }
        tier.close().unwrap();
    }
}

#[test]
fn a_front_of_an_abandoned_cache_is_told_to_attach_again() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let front = world.attach().unwrap();
    put(&front, PageId(3), 2);
    front.flush().unwrap();
    let epoch = front.epoch();
    tier.abandon();
    drop(tier);
    let mut buffer = vec![0; PAGE];
    let ends = [
        front.fetch(PageId(3), &mut buffer).err(),
        front.evict(victim(PageId(3), 3, true, true), &build(PageId(3), 3)).err(),
        front.forget(PageId(3), PageId(3)).err(),
        front.flush().err(),
        front.checkpoint().err(),
        front.destage(&PageSet::ALL).err(),
        world.attach().err(),
    ];
    for (at, end) in ends.into_iter().enumerate() {
        assert!(matches!(end, Some(TierError::Gone(_))), "call {at}: {end:?}");
    }
    let tier = world.reopen();
    assert!(matches!(front.fetch(PageId(3), &mut buffer), Err(TierError::Gone(_))), "the old segment");
    let front = world.attach().unwrap();
    assert_eq!(front.epoch(), epoch + 1);
    assert_eq!(world.fetch(&front, PageId(3), &mut buffer), (true, 2));
    tier.close().unwrap();
}

#[test]
fn a_survey_counts_the_pages_of_each_object() {
    let world = World::new(TierOptions { objects: 600, ..small(PolicyKind::FaceGsc, 96) });
    let tier = world.create();
    let front = world.attach().unwrap();
    let name = |number: u32| {
        let mut name = Locator::default();
        name[..4].copy_from_slice(&number.to_le_bytes());
        name
    };
    let objects: Vec<_> = (0..600).map(|number| front.define(&name(number)).unwrap().unwrap()).collect();
    for (object, pages) in [(objects[3], 7), (objects[599], 5), (objects[8], 4)] {
        (0..pages).for_each(|page| put(&front, object.page(page), 2));
    }
    let page = objects[8].page(9);
    front.evict(victim(page, 1, false, true), &build(page, 1)).unwrap();
    front.cut(objects[3], 4).unwrap();
    front.retire(objects[599]).unwrap();
    let (mut counts, mut dirty) = (vec![0; 600], 0);
    let mut survey = || {
        front.survey(|page, is_dirty| {
            counts[page.object() as usize] += 1;
            dirty += u32::from(is_dirty);
        })
    };
    survey().unwrap();
    let found: Vec<_> = (0..).zip(&counts).filter(|(_, count)| **count > 0).collect();
    assert_eq!((found, dirty), (vec![(3, &4), (8, &5)], 8));
    let (mut next, mut some, mut all) = (Some(ObjectId(0)), Vec::new(), Vec::new());
    while let Some(first) = next {
        next = front.names(first, &mut some).unwrap();
        all.extend(some.iter().copied());
    }
    let expected: Vec<_> = (0..599).map(|number| (objects[number as usize], name(number))).collect();
    assert_eq!(all, expected);
    tier.abandon();
}

#[test]
fn the_flash_records_how_far_its_owner_is() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let marks = || {
        let (flash, home) = world.devices();
        marks_on(&*flash, home.label()).unwrap()
    };
    let tier = world.create();
    let front = world.attach().unwrap();
    put(&front, PageId(3), 2);
    front.checkpoint().unwrap();
    tier.close().unwrap();
    drop((front, tier));
    assert_eq!(marks(), None);
    let tier = world.reopen();
    tier.mark([7, 7]).unwrap();
    let front = world.attach().unwrap();
    front.checkpoint_at([7, 9]).unwrap();
    tier.abandon();
    drop((front, tier));
    assert_eq!(marks(), Some([7, 9]));
    // Later superblocks have them, too, also in the next open.
    let tier = world.reopen();
    let front = world.attach().unwrap();
    (0..120).for_each(|page| put(&front, PageId(page), 3));
    front.checkpoint().unwrap();
    tier.close().unwrap();
    drop((front, tier));
    assert_eq!(marks(), Some([7, 9]));
    // One copy of the superblock may be lost.
    let tier = world.reopen();
    tier.mark([9, 11]).unwrap();
    tier.abandon();
    drop(tier);
    let mut bytes = std::fs::read(world.path("flash")).unwrap();
    let copies = (0..superblock::COPIES).map(|copy| (copy * superblock::COPY_STRIDE) as usize);
    let newest =
        copies.max_by_key(|at| Superblock::decode(&bytes[*at..*at + 4096]).unwrap().sequence).unwrap();
    bytes[newest + 100] ^= 1;
    std::fs::write(world.path("flash"), bytes).unwrap();
    assert_eq!(marks(), Some([9, 11]));
}

#[test]
fn an_evictor_waits_for_room_and_try_evict_does_not() {
    let world = World::new(TierOptions { staging_groups: 2, ..small(PolicyKind::FaceGsc, 96) });
    let tier = world.create();
    std::thread::scope(|scope| {
        for id in 0..FRONTS {
            let world = &world;
            scope.spawn(move || {
                let front = world.attach().unwrap();
                let mut refused = 0;
                for round in 0..500 {
                    let page = PageId(round % 100 * FRONTS + id);
                    let data = build(page, round + 2);
                    let victim = victim(page, round + 2, true, true);
                    if front.try_evict(victim, &data).unwrap().is_none() {
                        refused += 1;
                        front.evict(victim, &data).unwrap();
                    }
                }
                assert!(refused > 0, "staging is full at times");
            });
        }
    });
    tier.close().unwrap();
}

/// Raised by the test below.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_caller_that_is_interrupted_waits_no_longer() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let attach = AttachOptions {
        is_direct: false,
        interrupted: Some(|| IS_INTERRUPTED.load(SeqCst)),
        ..AttachOptions::default()
    };
    let front = SharedFront::attach(&world.sharing, &world.path("flash"), &world.options, &attach).unwrap();
    front.flush().unwrap();
    IS_INTERRUPTED.store(true, SeqCst);
    // The back may answer before the caller looks.
    let ends = (0..100_000).map(|_| front.flush()).find(|outcome| outcome.is_err());
    assert!(matches!(ends, Some(Err(TierError::Interrupted))), "{ends:?}");
    drop(front);
    tier.close().unwrap();
}

#[test]
fn a_mode_that_wants_the_disk_first_says_so() {
    let world = World::new(TierOptions { mode: Mode::WriteThrough, ..small(PolicyKind::FaceGsc, 96) });
    let tier = world.create();
    let front = world.attach().unwrap();
    let (page, data) = (PageId(5), build(PageId(5), 2));
    assert_eq!(front.evict(victim(page, 2, true, true), &data).unwrap(), Handed::DiskFirst);
    let mut buffer = vec![0; PAGE];
    assert_eq!(world.fetch(&front, page, &mut buffer), (false, 1), "nothing was done");
    assert!(matches!(front.evict(victim(page, 2, false, true), &data).unwrap(), Handed::Taken(_)));
    assert_eq!(world.fetch(&front, page, &mut buffer), (true, 2));
    tier.close().unwrap();
}

/// Overwrites the copies of `page` on flash.
fn damage(world: &World, page: PageId) {
    let path = world.path("flash");
    let mut bytes = std::fs::read(&path).unwrap();
    let mut hits = 0;
    for chunk in bytes.chunks_exact_mut(PAGE) {
        let head = entresol_format::page::header(chunk);
        if head.page.get() == page.0 && entresol_format::page::verify(chunk, page, None).is_ok() {
            chunk[PAGE / 2] ^= 1;
            hits += 1;
        }
    }
    assert!(hits > 0, "page {page} is on flash");
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
}

#[test]
fn damage_is_told_to_the_caller_and_to_the_back() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let front = world.attach().unwrap();
    let (clean, dirty) = (PageId(7), PageId(8));
    front.evict(victim(clean, 1, false, true), &build(clean, 1)).unwrap();
    put(&front, dirty, 2);
    // Out of staging.
    (100..140).for_each(|page| put(&front, PageId(page), 2));
    front.checkpoint().unwrap();
    damage(&world, clean);
    damage(&world, dirty);
    let mut buffer = vec![0; PAGE];
    let found = front.fetch(dirty, &mut buffer);
    assert!(matches!(found, Err(TierError::Damaged { page, .. }) if page == dirty), "{found:?}");
    assert_eq!(world.fetch(&front, clean, &mut buffer), (false, 1), "the disk has it");
    // The back takes the clean page from disk, and it enters the flash anew.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while tier.metrics().damaged_clean == 0 || front.fetch(clean, &mut buffer).unwrap().is_none() {
        assert!(std::time::Instant::now() < deadline, "{:?}", tier.metrics());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(
        front.fetch(clean, &mut buffer).unwrap().map(|fetched| fetched.source == Source::Disk),
        Some(false)
    );
    drop(front);
    tier.abandon();
}

/// Writes a page to disk, as a front's caller does.
fn write(world: &World, page: PageId, number: u64) {
    let mut bytes = build(page, number);
    PageFormat::Native.seal_for_disk(&mut bytes, page);
    let disk = File::options().write(true).open(world.path("disk")).unwrap();
    disk.write_all_at(&bytes, disk_offset(page, PAGE as u32)).unwrap();
}

/// A write past the cache is kept by the next flush, not by its return: until then a crash of the back finds
/// the copy that the cache had, which is dirty, and may go to disk.
#[test]
fn a_flush_keeps_what_was_written_past_the_cache() {
    for is_flushed in [false, true] {
        let world = World::new(small(PolicyKind::FaceGsc, 96));
        let tier = world.create();
        let front = world.attach().unwrap();
        let (page, mut buffer) = (PageId(5), vec![0; PAGE]);
        put(&front, page, 2);
        front.checkpoint().unwrap();
        let done = front.write_around(page, || {
            write(&world, page, 3);
            Ok::<(), TierError>(())
        });
        done.unwrap();
        assert_eq!(world.fetch(&front, page, &mut buffer), (false, 3), "served until the back ends");
        if is_flushed {
            front.flush().unwrap();
        }
        drop(front);
        tier.abandon();
        drop(tier);
        let tier = world.reopen();
        let front = world.attach().unwrap();
        let expected = if is_flushed { (false, 3) } else { (true, 2) };
        assert_eq!(world.fetch(&front, page, &mut buffer), expected, "flushed: {is_flushed}");
        front.destage(&PageSet::Range(page, page)).unwrap();
        front.forget(page, page).unwrap();
        assert_eq!(world.fetch(&front, page, &mut buffer), (false, expected.1), "on disk");
        drop(front);
        tier.close().unwrap();
    }
}

#[test]
fn a_page_that_is_written_past_the_cache_is_forgotten_when_the_disk_has_it() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let tier = world.create();
    let (front, other) = (world.attach().unwrap(), world.attach().unwrap());
    let page = PageId(5);
    let mut buffer = vec![0; PAGE];
    put(&front, page, 2);
    front.checkpoint().unwrap();
    let done = front.write_around(page, || {
        assert!(other.fetch(page, &mut [0; PAGE])?.is_none(), "it is forgotten before it is written");
        write(&world, page, 3);
        Ok::<(), TierError>(())
    });
    done.unwrap();
    assert_eq!(world.fetch(&other, page, &mut buffer), (false, 3));
    front.flush().unwrap();
    tier.abandon();
    drop(tier);
    let tier = world.reopen();
    let (front, other) = (world.attach().unwrap(), world.attach().unwrap());
    assert_eq!(world.fetch(&front, page, &mut buffer), (false, 3), "and after a crash");
    put(&front, page, 4);
    front.checkpoint().unwrap();
    // The write fails after groups were written that could have named the forgotten page.
    let failed = front.write_around(page, || {
        (100..140).for_each(|page| put(&other, PageId(page), 2));
        Err(TierError::Interrupted)
    });
    assert!(matches!(failed, Err(TierError::Interrupted)), "{failed:?}");
    assert!(matches!(front.fetch(page, &mut buffer), Err(TierError::Gone(_))));
    assert!(tier.is_given_up());
    tier.abandon();
    drop(tier);
    let tier = world.reopen();
    let front = world.attach().unwrap();
    assert_eq!(world.fetch(&front, page, &mut buffer), (true, 4), "what was forgotten is the newest version");
    tier.close().unwrap();
}

/// The back ends while a front writes past the cache: the next one finds what the front has forgotten.
#[test]
fn a_write_past_a_cache_that_has_ended_is_not_called_done() {
    for is_reopened in [false, true] {
        let world = World::new(small(PolicyKind::FaceGsc, 96));
        let mut tier = Some(world.create());
        let front = world.attach().unwrap();
        put(&front, PageId(5), 2);
        front.checkpoint().unwrap();
        let done = front.write_around(PageId(5), || {
            let ended = tier.take().unwrap();
            ended.abandon();
            drop(ended);
            if is_reopened {
                tier = Some(world.reopen());
            }
            Ok::<(), TierError>(())
        });
        assert!(matches!(done, Err(TierError::Gone(_))), "{done:?}");
        let tier = tier.unwrap_or_else(|| world.reopen());
        let front = world.attach().unwrap();
        assert_eq!(world.fetch(&front, PageId(5), &mut [0; PAGE]), (true, 2));
        tier.close().unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let world = World::new(small(PolicyKind::FaceGsc, 96));
    let expect = |found: String, part: &str| assert!(found.contains(part), "{found:?} has no {part:?}");
    // No flash, then no segment.
    assert!(matches!(world.attach().err(), Some(TierError::Device { role: "flash", .. })));
    let (flash, home) = world.devices();
    let other = TierOptions { policy: PolicyKind::Lc, ..world.options.clone() };
    let slots = FlashTier::create_shared(flash.clone(), home.clone(), other, &world.sharing);
    assert!(matches!(slots.err(), Some(TierError::Config(why)) if why.contains("places pages in slots")));
    let raw = TierOptions { page_format: PageFormat::Raw, ..world.options.clone() };
    let raw = FlashTier::create_shared(flash, home, raw, &world.sharing);
    assert!(matches!(raw.err(), Some(TierError::Config(why)) if why.contains("raw")));
    expect(refusal(world.attach()), "no flash cache is there");
    // Something else is at the segment's path.
    std::fs::write(world.path("segment"), [7; 5000]).unwrap();
    let (flash, home) = world.devices();
    let create = FlashTier::create_shared(flash, home, world.options.clone(), &world.sharing);
    expect(refusal(create), "no published segment");
    assert_eq!(std::fs::read(world.path("segment")).unwrap(), [7; 5000], "it was left as it is");
    std::fs::remove_file(world.path("segment")).unwrap();
    let tier = world.create();
    // Other options.
    let attach = |options: &TierOptions, sharing: &Sharing, flash: &str| {
        let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
        refusal(SharedFront::attach(sharing, &world.path(flash), options, &attach))
    };
    let other = TierOptions { staging_groups: 3, ..world.options.clone() };
    expect(attach(&other, &world.sharing, "flash"), "made with other options");
    let other = Sharing { fronts: 9, ..world.sharing.clone() };
    expect(attach(&world.options, &other, "flash"), "laid out in another way");
    // The options of the tasks are the back's alone.
    let same = TierOptions { write_workers: 7, ..world.options.clone() };
    let attach_options = AttachOptions { is_direct: false, ..AttachOptions::default() };
    SharedFront::attach(&world.sharing, &world.path("flash"), &same, &attach_options).unwrap();
    // Another cache's flash.
    let elsewhere = World::new(world.options.clone());
    elsewhere.create().close().unwrap();
    std::fs::copy(elsewhere.path("flash"), world.path("other flash")).unwrap();
    expect(attach(&world.options, &world.sharing, "other flash"), "holds cache");
    // A second back.
    let (flash, home) = elsewhere.devices();
    let second = FlashTier::open_shared(flash, home, world.options.clone(), &world.sharing);
    expect(refusal(second), "another process serves");
    // Seats.
    let fronts: Vec<_> = (0..8).map(|_| world.attach().unwrap()).collect();
    expect(refusal(world.attach()), "seats");
    drop(fronts);
    // A segment that was cut off.
    let bytes = std::fs::read(world.path("segment")).unwrap();
    let (cut_path, cut) = (world.path("cut"), Sharing::at(world.path("cut"), 8));
    std::fs::write(&cut_path, &bytes[..bytes.len() / 2]).unwrap();
    expect(attach(&world.options, &cut, "flash"), "bytes, expected");
    // A segment of another version.
    let mut older = bytes;
    older[8] ^= 0x40;
    std::fs::write(&cut_path, &older).unwrap();
    expect(attach(&world.options, &cut, "flash"), "version");
    tier.close().unwrap();
}
