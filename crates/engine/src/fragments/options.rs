//! Settings of a cache of fragments.

use super::proofs::{LINE_BYTES, PLACE_BYTES};
use crate::TierError;
use entresol_core::{FragmentConfig, SlotId};
use entresol_format::layout::{fragment_offset, page_bytes_possible};
use entresol_format::{BLOCK_BYTES, PageFormat};

/// Bytes of DRAM for each fragment on flash that keep proofs of pages.
const KEPT_BYTES: u64 = 64;
/// A small cache may keep as many bytes of proofs: those of 1 GiB of flash in pages of 4 KiB.
const KEPT_BYTES_MIN: u64 = 1 << 20;

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
    /// Fragments whose proofs are in memory; 0: the usual number ([`FragmentOptions::proofs_kept`]).
    pub proofs_kept: u32,
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
            proofs_kept: 0,
            overwrite: false,
        }
    }

    /// The same with `slots` fragments of `fragment_pages`, and the usual pace for these.
    pub fn with_fragments(self, fragment_pages: u32, slots: u32) -> Self {
        let flash_pages = fragment_pages.saturating_mul(slots);
        let config = FragmentConfig::new(1, slots).with_fragments(fragment_pages, flash_pages);
        Self { slots: config.slots, fragment_pages, pace_permille: config.pace_permille, ..self }
    }

    /// Pages of `page_bytes` that a flash device of `capacity` bytes has room for.
    pub fn pages_on(capacity: u64, page_bytes: u32) -> u32 {
        let room = capacity.saturating_sub(fragment_offset(0, 0));
        u32::try_from(room / u64::from(page_bytes.max(1))).unwrap_or(u32::MAX)
    }

    /// The same with as many of the fragments as fit into `capacity` bytes of flash, with their proofs.
    pub fn fitted(self, capacity: u64) -> Self {
        if self.flash_bytes() <= capacity {
            return self;
        }
        let fragment = self.pages_bytes() + BLOCK_BYTES as u64;
        let slots = capacity.saturating_sub(fragment_offset(0, 0)) / fragment;
        Self { slots: u32::try_from(slots).unwrap_or(u32::MAX).min(self.slots), ..self }
    }

    /// Pages that fit on flash.
    pub fn flash_pages(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.fragment_pages)
    }

    /// The same, or [`FragmentOptions::fitted`], if `capacity` is enough for the pages without their proofs:
    /// the number of fragments is that of a release that had no proofs on flash.
    pub(super) fn with_room_for_proofs(self, capacity: u64) -> Self {
        let is_enough_for_pages = fragment_offset(self.slots, self.pages_bytes()) <= capacity;
        if is_enough_for_pages { self.fitted(capacity) } else { self }
    }

    /// Fragments whose proofs are in memory: with 64 bytes for each fragment on flash, or a megabyte in all
    /// if that is more. The proofs of the others are read from flash with their pages.
    pub fn proofs_kept(&self) -> u32 {
        let bytes = (KEPT_BYTES * u64::from(self.slots)).max(KEPT_BYTES_MIN);
        let usual = u32::try_from(bytes / self.line_bytes()).unwrap_or(u32::MAX);
        (if self.proofs_kept == 0 { usual.max(1) } else { self.proofs_kept }).min(self.slots)
    }

    /// Flash has proofs, because memory does not have all of them.
    pub(super) fn has_proofs_on_flash(&self) -> bool {
        self.proofs_kept() < self.slots
    }

    /// Bytes of DRAM of the proofs of one fragment that memory keeps.
    fn line_bytes(&self) -> u64 {
        LINE_BYTES as u64 + u64::from(self.fragment_pages) * size_of::<u32>() as u64
    }

    /// Bytes of DRAM of the engine, with which fetches prove pages, in addition to the core's directory.
    pub fn proof_bytes(&self) -> u64 {
        u64::from(self.slots) * PLACE_BYTES as u64 + u64::from(self.proofs_kept()) * self.line_bytes()
    }

    /// Bytes of the pages of a fragment.
    pub(super) fn pages_bytes(&self) -> u64 {
        u64::from(self.fragment_pages) * u64::from(self.page_bytes)
    }

    /// Bytes of flash that a fragment takes.
    fn fragment_bytes(&self) -> u64 {
        self.pages_bytes() + if self.has_proofs_on_flash() { BLOCK_BYTES as u64 } else { 0 }
    }

    /// Byte offset of a page on flash.
    pub fn slot_offset(&self, slot: SlotId) -> u64 {
        let (fragment, page) = (slot.0 / self.fragment_pages, slot.0 % self.fragment_pages);
        fragment_offset(fragment, self.fragment_bytes()) + u64::from(page) * u64::from(self.page_bytes)
    }

    /// Byte offset of the proofs of the fragment of `slot`: after its pages.
    pub(super) fn proofs_offset(&self, slot: SlotId) -> u64 {
        self.slot_offset(SlotId(slot.0 / self.fragment_pages * self.fragment_pages)) + self.pages_bytes()
    }

    /// The offsets of all blocks of proofs on flash.
    pub fn proofs_offsets(&self) -> impl Iterator<Item = u64> {
        let fragments = if self.has_proofs_on_flash() { self.slots } else { 0 };
        (0..fragments).map(|fragment| self.proofs_offset(SlotId(fragment * self.fragment_pages)))
    }

    /// The least size of the flash device, in bytes.
    pub fn flash_bytes(&self) -> u64 {
        fragment_offset(self.slots, self.fragment_bytes())
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
