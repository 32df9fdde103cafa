//! What the caches are made with: as small as may be, so that a short life fills and wraps everything there
//! is.

use super::cache::Cache;
use super::files::OBJECTS_MAX;
use entresol_block::CacheOptions;
use entresol_core::{Costs, Mode, PolicyKind, WritebackOptions};
use entresol_engine::{FragmentOptions, TierOptions, flash_bytes};
use entresol_format::PageFormat;

/// Fragments on flash, and pages of each: fewer than the client uses.
const FRAGMENTS: (u32, u32) = (6, 4);

/// Fragments whose proofs are in memory: the others' are read from flash.
const PROOFS_KEPT: u32 = 2;

/// So quick that pages leave the ring of `reuse` before others return to its rear.
const QUICK_FLASH: Costs = Costs::of_times_ns([50_000, 5_000, 4_000, 2_000, 300_000, 300_000]);

/// So quick that pages are copied to disk in a short life. Without a ceiling: the oracle asks for whole
/// pages.
const QUICK_WRITEBACK: WritebackOptions = WritebackOptions { age_ns: 4_000_000, dirty_max: u32::MAX };

/// Dirty pages are copied when their room is needed.
const NO_WRITEBACK: WritebackOptions = WritebackOptions { age_ns: u64::MAX, dirty_max: u32::MAX };

/// The options of a life in which dirty pages stay, also while the cache is idle. A volume copies them then,
/// unless its owner says otherwise.
pub(super) fn without_writeback(cache: Cache, options: CacheOptions) -> CacheOptions {
    match options {
        CacheOptions::Pages(options) if options.writeback.is_some() || cache.door.is_some() => {
            TierOptions { writeback: Some(NO_WRITEBACK), ..options }.into()
        }
        options => options,
    }
}

/// Whether dirty pages of this cache are copied to disk behind its clients: of three policies, others behind
/// the door than in front of it.
fn copies_behind(cache: Cache) -> bool {
    let is_it = match cache.door {
        Some(_) => [PolicyKind::FaceGsc, PolicyKind::Reuse, PolicyKind::Lc],
        None => [PolicyKind::Face, PolicyKind::FaceGsc, PolicyKind::S3Fifo],
    };
    let has_no_log = cache.page_format == PageFormat::Raw && !cache.objects;
    has_no_log && cache.policy.is_some_and(|policy| is_it.contains(&policy))
}

pub(super) fn options(cache: Cache) -> CacheOptions {
    match cache.policy {
        Some(policy) => pages(cache, policy).into(),
        None => fragments(cache).into(),
    }
}

fn pages(cache: Cache, policy: PolicyKind) -> TierOptions {
    let Cache { mode, page_format, objects, .. } = cache;
    let ((slots, group_pages), staging_groups) = (cache.slots(), 4);
    TierOptions {
        page_format,
        page_bytes: cache.tier_page_bytes(),
        mode,
        // As the PostgreSQL door has it.
        takes_changes: objects && page_format != PageFormat::Raw && mode == Mode::WriteBack,
        group_pages,
        staging_groups,
        segment_entries: 16,
        slots,
        objects: if objects { OBJECTS_MAX } else { 0 },
        history: policy.history(slots),
        keeps_slots: cache.slots_survive(),
        write_workers: 2,
        background_workers: 3,
        writeback: copies_behind(cache).then_some(QUICK_WRITEBACK),
        costs: if page_format == PageFormat::Raw { QUICK_FLASH } else { Costs::default() },
        ..TierOptions::new(policy, slots)
    }
}

/// A population follows every access that asks for one, so that short lives have many.
fn fragments(cache: Cache) -> FragmentOptions {
    let (slots, fragment_pages) = FRAGMENTS;
    let usual = FragmentOptions::of_pages(slots * fragment_pages, cache.tier_page_bytes(), cache.page_format);
    FragmentOptions {
        slots,
        fragment_pages,
        workers: 2,
        pace_permille: 1000,
        proofs_kept: PROOFS_KEPT,
        ..usual
    }
}

/// Bytes of flash of a cache.
pub(super) fn flash_bytes_of(options: &CacheOptions) -> u64 {
    match options {
        CacheOptions::Pages(options) => flash_bytes(options),
        CacheOptions::Fragments(options) => options.flash_bytes(),
    }
}

/// The options of a cache that is not behind the door.
pub(super) fn of_pages(options: &CacheOptions) -> Result<&TierOptions, String> {
    match options {
        CacheOptions::Pages(options) => Ok(options),
        CacheOptions::Fragments(_) => Err("fragments of raw pages are tortured behind the door".to_owned()),
    }
}
