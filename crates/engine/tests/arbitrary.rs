//! Recovery from anything: structures with right checksums and wrong content, and plain noise. It opens or is
//! refused; it does not panic, hang, or serve a page that does not prove itself.

mod support;

use entresol_core::{Forgotten, PageId, PolicyKind, Position};
use entresol_engine::{FlashTier, Layer, Mode, Source, TierError, check, flash_bytes, inspect};
use entresol_format::summary::{self, Summary};
use entresol_format::{block, page};
use entresol_runtime::rng::Rng;
use support::{PAGE, build, bytes_of, device_of, disk_bytes, load, memory, simulate, small, version, victim};

const PAGES: u64 = 120;
const BLOCK: usize = 4096;

/// A cache that has been around its ring twice, and was not shut down; and its disk.
fn used(policy: PolicyKind, mode: Mode) -> (Vec<u8>, Vec<u8>) {
    simulate(3, move || {
        let mut options = small(policy, 96);
        options.mode = mode;
        let (flash, disk) = memory(&options, PAGES);
        load(disk.clone(), PAGES);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options).unwrap();
        for number in 2..5 {
            for page in (0..PAGES).map(PageId) {
                tier.evict(victim(page, number, page.0 % 3 > 0, true), &build(page, number)).unwrap();
            }
            tier.checkpoint().unwrap();
        }
        (bytes_of(&*flash), bytes_of(&*disk))
    })
}

/// Changes a few bytes of some structure and seals it again.
fn distort(flash: &mut [u8], rng: &mut Rng) {
    let blocks: Vec<usize> = (0..flash.len() / BLOCK)
        .filter(|at| flash[at * BLOCK..].starts_with(b"ENTR"))
        .map(|at| at * BLOCK)
        .collect();
    let at = blocks[rng.below(blocks.len() as u64) as usize];
    let bytes = &mut flash[at..at + BLOCK];
    let magic = <[u8; 8]>::try_from(&bytes[..8]).unwrap();
    let sequence = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    for _ in 0..1 + rng.below(3) {
        let field = if magic == *b"ENTRGRUP" { 48 + rng.below(32) } else { 32 + rng.below(136) } as usize;
        let near = u64::from(bytes[field]).wrapping_add(rng.below(5)).wrapping_sub(2) as u8;
        bytes[field] = if rng.below(2) == 0 { near } else { rng.next_u64() as u8 };
    }
    let sequence =
        if rng.below(4) == 0 { sequence.wrapping_add(rng.below(9)).wrapping_sub(4) } else { sequence };
    block::seal(bytes, magic, sequence);
}

fn try_open(flash: &[u8], disk: &[u8], policy: PolicyKind, mode: Mode, seed: u64) -> bool {
    let mut options = small(policy, 96);
    options.mode = mode;
    let (flash, disk) = (device_of(flash), device_of(disk));
    simulate(seed, move || {
        let _ = inspect(&*flash);
        let _ = check(&*flash, Some(disk.clone()));
        let tier = match FlashTier::open(flash, disk, options) {
            Ok((tier, _)) => tier,
            Err(TierError::Refused(_) | TierError::Damaged { .. } | TierError::Device { .. }) => {
                return false;
            }
            Err(other) => panic!("{other}"),
        };
        let mut buffer = vec![0; PAGE];
        for page in (0..PAGES).map(PageId) {
            if tier.fetch(page, &mut buffer).is_ok() {
                assert!((1..5).contains(&version(page, &buffer)));
            }
        }
        for page in (0..PAGES).map(PageId) {
            if tier.evict(victim(page, 9, true, true), &build(page, 9)).is_err() {
                return true;
            }
        }
        true
    })
}

#[test]
fn distorted_structures_are_opened_or_refused() {
    let mut opened = 0;
    let rounds = 400;
    for policy in [PolicyKind::Face, PolicyKind::FaceGsc] {
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            let (flash, disk) = used(policy, mode);
            assert!(try_open(&flash, &disk, policy, mode, 0), "undistorted, it opens");
            for seed in 0..rounds / 4 {
                let mut rng = Rng::new(seed);
                let mut distorted = flash.clone();
                for _ in 0..1 + rng.below(4) {
                    distort(&mut distorted, &mut rng);
                }
                opened += u64::from(try_open(&distorted, &disk, policy, mode, seed));
            }
        }
    }
    assert!((rounds / 10..rounds).contains(&opened), "{opened} of {rounds} opened");
}

#[test]
fn noise_is_refused_and_blank_flash_is_not_mistaken() {
    let (flash, disk) = used(PolicyKind::FaceGr, Mode::WriteBack);
    let mut rng = Rng::new(8);
    for _ in 0..10 {
        let noise: Vec<u8> = (0..flash.len()).map(|_| rng.next_u64() as u8).collect();
        assert!(!try_open(&noise, &disk, PolicyKind::FaceGr, Mode::WriteBack, 1));
    }
    assert!(!try_open(&vec![0; flash.len()], &disk, PolicyKind::FaceGr, Mode::WriteBack, 1));
    // Every single sector lost, one after the other, where structures lie.
    for sector in (0..flash.len() / 512).filter(|sector| flash[sector * 512..].starts_with(b"ENTR")) {
        let mut torn = flash.clone();
        torn[sector * 512..(sector + 1) * 512].fill(0);
        try_open(&torn, &disk, PolicyKind::FaceGr, Mode::WriteBack, 1);
    }
}

#[test]
fn pages_of_an_older_cache_on_the_same_device_are_not_taken_for_pages_of_this_one() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        simulate(5, move || {
            let mut options = small(policy, 96);
            options.mode = Mode::WriteThrough;
            let (flash, disk) = memory(&options, PAGES);
            load(disk.clone(), PAGES);
            let old = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            for page in (0..90).map(PageId) {
                old.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
            }
            old.close().unwrap();
            // The same places, positions and group numbers, by another cache that gets less far.
            let new = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
            for page in (0..90).map(PageId) {
                new.evict(victim(page, 3, true, true), &build(page, 3)).unwrap();
                if page.0 == 21 {
                    new.checkpoint().unwrap();
                    break;
                }
            }
            drop(new);
            let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
            assert!(report.entries <= 22, "{report:?}");
            let mut buffer = vec![0; PAGE];
            for page in (0..PAGES).map(PageId) {
                tier.fetch(page, &mut buffer).unwrap();
                let expected = if page.0 < 22 {
                    3
                } else if page.0 < 90 {
                    2
                } else {
                    1
                };
                assert_eq!(version(page, &buffer), expected);
            }
        });
    }
}

#[test]
fn a_page_in_the_wrong_place_is_not_served() {
    let (flash, disk) = used(PolicyKind::FaceGsc, Mode::WriteBack);
    // Swap two whole pages on flash: each proves itself, but not as the version meant there.
    let mut swapped = flash.clone();
    let pages: Vec<usize> = (0..flash.len() / BLOCK)
        .map(|at| at * BLOCK)
        .filter(|at| *at >= 1 << 20 && page::header(&flash[*at..]).lsn.get() == 4)
        .filter(|at| {
            page::verify(&flash[*at..*at + PAGE], PageId(page::header(&flash[*at..]).page.get()), None)
                .is_ok()
        })
        .collect();
    let (one, two) = (pages[0], pages[1]);
    swapped.copy_within(one..one + PAGE, two);
    swapped[one..one + PAGE].copy_from_slice(&flash[two..two + PAGE]);
    let named = [one, two].map(|at| PageId(page::header(&flash[at..]).page.get()));
    simulate(1, move || {
        let report = check(&*device_of(&swapped), None).unwrap();
        assert!(!report.is_sound(), "{report}");
        let options = small(PolicyKind::FaceGsc, 96);
        assert_eq!(swapped.len() as u64, flash_bytes(&options));
        assert_eq!(disk.len() as u64, disk_bytes(PAGES));
        let (tier, _) = FlashTier::open(device_of(&swapped), device_of(&disk), options).unwrap();
        for page in named {
            let fetched = tier.fetch(page, &mut vec![0; PAGE]);
            assert!(matches!(fetched, Err(TierError::Damaged { .. }) | Ok(_)), "{fetched:?}");
            if let Ok(fetched) = fetched {
                assert!(!fetched.dirty, "a clean page comes from disk");
            }
        }
    });
}

#[test]
fn a_record_in_a_summary_makes_older_copies_stale() {
    let (mut flash, disk) = used(PolicyKind::FaceGr, Mode::WriteThrough);
    let mut options = small(PolicyKind::FaceGr, 96);
    options.mode = Mode::WriteThrough;
    let sources = |flash: &[u8]| -> Vec<Source> {
        let (flash, disk, options) = (device_of(flash), device_of(&disk), options.clone());
        simulate(1, move || {
            let (tier, _) = FlashTier::open(flash, disk, options).unwrap();
            let mut buffer = vec![0; PAGE];
            (0..PAGES).map(|page| tier.fetch(PageId(page), &mut buffer).unwrap().source).collect()
        })
    };
    let before = sources(&flash);
    let (stale, last) = (PageId(100), PageId(PAGES - 1));
    assert!(before[stale.0 as usize] == Source::Flash && before[last.0 as usize] == Source::Flash);
    // The newest summaries: they name `stale`, whose copy is in an older group, and their own last page.
    let group_of = |block: &[u8]| Some(Summary::decode(block, 4).ok()?.head.group);
    let newest = flash.chunks_exact(BLOCK).filter_map(group_of).max().unwrap();
    for block in flash.chunks_exact_mut(BLOCK).filter(|block| group_of(block) == Some(newest)) {
        let mut again = vec![0; BLOCK];
        let summary = Summary::decode(block, 4).unwrap();
        let forgotten = |page| Forgotten { first: page, last: page, below: Position(newest * 4), after: 0 };
        summary::encode(&mut again, &summary.head, summary.entries(), &[forgotten(stale), forgotten(last)]);
        block.copy_from_slice(&again);
    }
    let after = sources(&flash);
    assert_eq!(after[stale.0 as usize], Source::Disk);
    assert_eq!(
        after[last.0 as usize],
        Source::Flash,
        "a copy at the record's position or after it is not stale"
    );
}
