//! Log lines for operators: one when a cache opens, closes, switches itself off, fails, or refuses a device.
//!
//! The lines go to `tracing`. Without a subscriber a line costs one check of a flag. Fetches and evictions
//! write no lines.

use crate::{OpenReport, TierError, TierOptions};
use entresol_format::Uuid;
use entresol_format::missing::PageRange;
use tracing::{error, info, warn};

/// A cache was opened or made.
pub(crate) fn opened(cache: Uuid, options: &TierOptions, report: &OpenReport) {
    info!(
        %cache,
        policy = options.policy.name(),
        mode = ?options.mode,
        slots = options.slots,
        page_bytes = options.page_bytes,
        warm = report.warm,
        pages = report.entries,
        dirty = report.dirty,
        "flash cache opened"
    );
    for notice in &report.notices {
        warn!(%cache, "{notice}");
    }
}

/// A cache was not opened.
pub(crate) fn refused(refusal: &TierError) {
    warn!("flash cache not opened: {refusal}");
}

/// A cache was closed by its owner, or the disk released from it.
pub(crate) fn ended(cache: Uuid, how: &str, result: &Result<(), TierError>) {
    match result {
        Ok(()) => info!(%cache, "flash cache {how}"),
        Err(failure) => error!(%cache, "flash cache not {how}: {failure}"),
    }
}

/// A cache continues without its flash.
pub(crate) fn switched_off(notice: &str) {
    error!("{notice}");
}

/// A cache continues without its flash, which has pages that the disk lacks.
pub(crate) fn degraded(notice: &str) {
    error!("{notice}");
}

/// The disk refuses a write, or the flash a read, which is tried again.
pub(crate) fn disk_refuses(error: &TierError) {
    error!("{error}; this is tried again, the pages stay on flash, and all else goes on");
}

/// What was refused before succeeds.
pub(crate) fn disk_takes_again() {
    warn!("disk and flash do again what they have refused");
}

/// Most ranges of lost pages that are named at once.
const NAMED_MAX: usize = 100;

/// Of the pages that the disk lacks, these cannot be read from the flash.
pub(crate) fn lost(missing: u64, ranges: &[PageRange]) {
    let pages: u64 = ranges.iter().map(|(_, pages)| u64::from(*pages)).sum();
    if pages == 0 {
        return;
    }
    error!(
        "the flash has failed: {pages} of {missing} pages that only it has cannot be read; requests for them fail until they \
         are written again"
    );
    for (first, pages) in ranges.iter().take(NAMED_MAX) {
        error!("lost with the flash: page {first} and the {} after it", pages - 1);
    }
    if ranges.len() > NAMED_MAX {
        error!("lost with the flash: {} more ranges of pages", ranges.len() - NAMED_MAX);
    }
}

/// The newest versions of these pages were on flash alone, and cannot be read there.
pub(crate) fn pages_lost(pages: &[entresol_core::PageId]) {
    for page in pages {
        error!(%page, "page {page} is lost: its newest version on flash is damaged or cannot be read; requests for it fail until it is written again as a whole");
    }
}

/// The owner releases the disk though pages are lost.
pub(crate) fn given_up(losing: &TierError) {
    warn!("the disk is released with the loss that its owner accepts: {losing}");
}

/// Copying pages from a failed flash to disk has failed.
pub(crate) fn not_salvaged(error: &TierError) {
    error!("pages that the disk lacks are not copied from the failed flash now: {error}");
}

/// A cache has failed and stopped.
pub(crate) fn failed(failure: &TierError) {
    error!("{failure}");
}

/// A front in another process died.
pub(crate) fn front_died(pid: u32, held_something: bool) {
    match held_something {
        true => error!(
            pid,
            "a process died while it changed the flash cache's memory; the cache must be opened again"
        ),
        false => warn!(pid, "a process that used the flash cache died"),
    }
}

/// A front in another process has met damage, and so has the back.
pub(crate) fn damaged(page: entresol_core::PageId, error: &TierError) {
    error!(%page, "{error}");
}
