//! A program is killed within a second of its last flush, power stays, and the newest summary on flash is
//! damaged: what was flushed is missed, and no older version is served in its place.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::MemoryDevice;
use entresol_engine::{FlashTier, Flushed, Mode, PageCache, ReadRoute, TierError, TierOptions};
use entresol_format::PageFormat;
use entresol_runtime::sleep;
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, bytes_of, device_of, memory, refusal, simulate};

const PAGES: u64 = 60;
/// Written and flushed last.
const NEWEST: u64 = 7;

fn options(policy: PolicyKind, mode: Mode) -> TierOptions {
    TierOptions {
        mode,
        page_format: PageFormat::Raw,
        staging_groups: 4,
        segment_entries: 16,
        ..support::small(policy, 80)
    }
}

fn bytes(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE / 16)
}

/// Flash and disk when the program is killed, how far it knew its flash to be flushed, and the blocks of
/// flash that its last flush has changed.
fn killed(options: &TierOptions) -> (Arc<MemoryDevice>, Arc<MemoryDevice>, Flushed, Vec<usize>) {
    let (flash, disk) = memory(options, PAGES);
    let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
    for page in 0..30 {
        tier.write_pages(PageId(page), &bytes(page, 1)).unwrap();
    }
    tier.flush().unwrap();
    let before = bytes_of(&*flash);
    tier.write_pages(PageId(NEWEST), &bytes(NEWEST, 2)).unwrap();
    tier.flush().unwrap();
    let flushed = tier.flushed().unwrap();
    drop(tier);
    let after = bytes_of(&*flash);
    let is_changed = |at: &usize| before[at * PAGE..][..PAGE] != after[at * PAGE..][..PAGE];
    let changed = (0..after.len() / PAGE).filter(is_changed).collect();
    (flash, disk, flushed, changed)
}

fn version(tier: &FlashTier, page: u64) -> Option<u64> {
    let mut found = vec![0; PAGE];
    match tier.read_pages(PageId(page), &mut found, ReadRoute::StaysOut) {
        Err(TierError::Damaged { .. } | TierError::Lost { .. }) => None,
        read => {
            read.unwrap();
            Some(u64::from_le_bytes(found[8..16].try_into().unwrap()))
        }
    }
}

#[test]
fn damage_of_the_newest_flush_is_no_torn_write_if_power_has_not_failed() {
    let (mut refused, mut lost) = (0, 0);
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            simulate(1, || {
                let options = options(policy, mode);
                let (flash, disk, flushed, changed) = killed(&options);
                let (flash, disk) = (bytes_of(&*flash), bytes_of(&*disk));
                for at in changed {
                    let mut image = flash.clone();
                    image[at * PAGE + 40] ^= 1;
                    let what = format!("{policy:?}, {mode:?}, block {at}");
                    let known = TierOptions { flushed: Some(flushed), ..options.clone() };
                    match FlashTier::open(device_of(&image), device_of(&disk), known) {
                        Ok((tier, _)) => {
                            let found = version(&tier, NEWEST);
                            assert!(found.is_none_or(|found| found == 2), "{what}: version {found:?}");
                            let others = (0..30).filter(|page| *page != NEWEST);
                            assert!(others.into_iter().all(|page| version(&tier, page) == Some(1)), "{what}");
                            lost += u32::from(found.is_none());
                        }
                        refusal_of => {
                            let why = refusal(refusal_of.map(drop));
                            assert!(
                                mode == Mode::WriteBack && why.contains("was flushed to group"),
                                "{what}: {why}"
                            );
                            refused += 1;
                        }
                    }
                    // After a power failure nobody can tell, and the owner hears of it.
                    let (tier, report) =
                        FlashTier::open(device_of(&image), device_of(&disk), options.clone()).unwrap();
                    let is_older = version(&tier, NEWEST) != Some(2);
                    let is_told = report.notices.concat().contains("power failure cut off");
                    assert!(
                        !is_older || is_told || mode == Mode::WriteThrough,
                        "{what}: {:?}",
                        report.notices
                    );
                }
            });
        }
    }
    assert!(refused >= 3 && lost >= 2, "{refused} refused, {lost} lost");
}

/// The last flush ends an open group, or a full one. More than a second later power fails, and a block that
/// this flush has written is damaged.
#[test]
fn damage_of_a_flush_is_no_torn_write_a_second_later() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        for others in 0..8 {
            simulate(1, || {
                let options = options(policy, Mode::WriteBack);
                let (flash, disk) = memory(&options, PAGES);
                let tier = FlashTier::create(flash.clone(), disk.clone(), options.clone()).unwrap();
                for page in 0..30 + others {
                    tier.write_pages(PageId(page), &bytes(page, 1)).unwrap();
                }
                tier.flush().unwrap();
                tier.write_pages(PageId(NEWEST), &bytes(NEWEST, 2)).unwrap();
                tier.flush().unwrap();
                sleep(Duration::from_millis(1100));
                let (flash, disk) = (bytes_of(&*flash), bytes_of(&*disk));
                drop(tier);
                let newest = bytes(NEWEST, 2);
                let at = flash.chunks_exact(PAGE).position(|block| block == newest).unwrap();
                let mut image = flash.clone();
                image[at * PAGE + 40] ^= 1;
                let (tier, _) = FlashTier::open(device_of(&image), device_of(&disk), options).unwrap();
                let found = version(&tier, NEWEST);
                assert_eq!(found, None, "{policy:?}, {others} pages more");
            });
        }
    }
}
