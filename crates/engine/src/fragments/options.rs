//! Settings of a cache of fragments.

use super::versions::proof_bytes;
use crate::TierError;
use entresol_core::{FragmentConfig, SlotId};
use entresol_format::PageFormat;
use entresol_format::layout::{fragment_page_offset, page_bytes_possible};

/// The configuration of a cache of fragments. It is not stored on flash, so all of it may change from one
/// open to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentOptions {
    /// Bytes of a page: a power of two, 4 KiB to 32 KiB.
    pub page_bytes: u32,
    /// The format of the pages: native or raw.
    pub page_format: PageFormat,
    /// Fragments that fit on flash.
    pub slots: u32,
    /// Pages of a fragment, 1 to 256.
    pub fragment_pages: u32,
    /// Tasks that populate, and populations that may be under way at once.
    pub workers: u32,
    /// Most populations begun per thousand reads and writes.
    pub pace_permille: u32,
    /// Permits the cache on a flash device with any content, except a cache that is needed.
    pub overwrite: bool,
}

impl FragmentOptions {
    /// The usual settings for about `flash_pages` pages of 4 KiB: fragments of 1 MiB, smaller ones where
    /// fewer than 64 of them would fit.
    pub fn new(flash_pages: u32) -> Self {
        Self::of_pages(flash_pages, 4096, PageFormat::Native)
    }

    /// As [`FragmentOptions::new`], for pages of this size and format.
    pub fn of_pages(flash_pages: u32, page_bytes: u32, page_format: PageFormat) -> Self {
        let config = FragmentConfig::sized(1, flash_pages, page_bytes);
        Self {
            page_bytes,
            page_format,
            slots: config.slots,
            fragment_pages: config.fragment_pages,
            workers: config.workers,
            pace_permille: config.pace_permille,
            overwrite: false,
        }
    }

    /// The same with `slots` fragments of `fragment_pages`, and the usual pace for these.
    pub fn with_fragments(self, fragment_pages: u32, slots: u32) -> Self {
        let flash_pages = fragment_pages.saturating_mul(slots);
        let config = FragmentConfig::new(1, slots).with_fragments(fragment_pages, flash_pages);
        Self { slots: config.slots, fragment_pages, pace_permille: config.pace_permille, ..self }
    }

    /// Pages of `page_bytes` that fit on a flash device of `capacity` bytes.
    pub fn pages_on(capacity: u64, page_bytes: u32) -> u32 {
        let room = capacity.saturating_sub(fragment_page_offset(SlotId(0), page_bytes));
        u32::try_from(room / u64::from(page_bytes.max(1))).unwrap_or(u32::MAX)
    }

    /// Pages that fit on flash.
    pub fn flash_pages(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.fragment_pages)
    }

    /// Bytes of DRAM that fetches need to prove that no write-through was lost, in addition to the core's
    /// directory: one for each page, and four more if the pages do not have their checksums.
    pub fn proof_bytes(&self) -> u64 {
        self.flash_pages() * proof_bytes(self.page_format) as u64
    }

    /// The least size of the flash device, in bytes.
    pub fn flash_bytes(&self) -> u64 {
        fragment_page_offset(SlotId(0), self.page_bytes) + self.flash_pages() * u64::from(self.page_bytes)
    }

    /// The core's configuration, for a volume of `volume_pages`.
    pub(super) fn config(&self, volume_pages: u32) -> FragmentConfig {
        FragmentConfig {
            fragment_pages: self.fragment_pages,
            workers: self.workers,
            pace_permille: self.pace_permille,
            ..FragmentConfig::new(volume_pages, self.slots)
        }
    }

    /// Checks that a cache can be made from these options.
    ///
    /// # Errors
    /// [`TierError::Config`] names the impossible setting, and the possible values.
    pub fn validate(&self) -> Result<(), TierError> {
        if !page_bytes_possible(self.page_bytes) {
            return Err(TierError::Config(format!(
                "a page of {} bytes is not possible; choose 4096, 8192, 16384 or 32768",
                self.page_bytes
            )));
        }
        if !matches!(self.page_format, PageFormat::Native | PageFormat::Raw) {
            return Err(TierError::Config(format!(
                "a cache of fragments has no {} pages; choose native or raw ones",
                self.page_format.name()
            )));
        }
        self.config(1).validate().map_err(|error| TierError::Config(error.to_string()))
    }

    /// Native pages are evicted, and others written.
    pub(super) fn expects_native(&self) -> Result<(), TierError> {
        self.expects(self.page_format == PageFormat::Native, "are written, not evicted")
    }

    /// Refuses a request for which `holds` is false.
    pub(super) fn expects(&self, holds: bool, what: &str) -> Result<(), TierError> {
        let format = self.page_format.name();
        if holds { Ok(()) } else { Err(TierError::Config(format!("{format} pages of this cache {what}"))) }
    }

    /// Refuses bytes that are no whole pages.
    pub(super) fn check_whole(&self, bytes: &[u8]) -> Result<(), TierError> {
        let is_whole = bytes.len().is_multiple_of(self.page_bytes as usize);
        self.expects(is_whole, "are read and written as a whole")
    }
}
