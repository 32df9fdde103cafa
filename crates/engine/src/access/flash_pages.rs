//! Pages as they are on flash: their layout, their stamps, and the proof of a page that was read.
//!
//! Invariant: a page that is proved is the version that the directory means.

use super::Common;
use super::listed::Listed;
use entresol_core::{Generation, PageId, Placement, Position, SlotId};
use entresol_device::{Device, DeviceError, QueuedFile};
use entresol_format::page::{self, PageFault};
use entresol_format::stamps::Stamps;
use entresol_format::{Layout, PageFormat};
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;

/// See the module's header.
pub(crate) struct FlashPages {
    /// The flash device, to read.
    pub(super) flash: Arc<dyn Device>,
    pub(super) layout: Layout,
    pub(super) page_format: PageFormat,
    pub page_bytes: usize,
    is_log: bool,
    /// The directory keeps a checksum of each page.
    has_proofs: bool,
    /// What is stamped into pages.
    pub stamps: Stamps,
    /// Slot placement: the positions of all pages that are served from flash. The directory keeps one byte of
    /// each; pages of an earlier open, or of another cache, have positions outside.
    pub(super) positions: Range<u64>,
    /// Of a policy that keeps the slot directory on flash up with every page.
    listed: Option<Arc<Listed>>,
}

/// Why a slot does not give the page that is wanted.
#[derive(Debug, Error)]
pub(super) enum SlotFault {
    #[error(transparent)]
    Unreadable(#[from] DeviceError),
    #[error(transparent)]
    Unproved(#[from] PageFault),
}

impl FlashPages {
    pub(super) fn new(common: Common) -> Self {
        let Common { options, flash, stamps, positions, listed } = common;
        let config = options.config();
        Self {
            flash,
            layout: options.layout(),
            page_format: options.page_format,
            page_bytes: options.page_bytes as usize,
            is_log: config.policy.placement() == Placement::Log,
            has_proofs: config.proofs,
            stamps,
            positions,
            listed,
        }
    }

    /// The bytes of page `at` among pages that follow each other.
    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        at * self.page_bytes..(at + 1) * self.page_bytes
    }

    /// The file of the flash device, if there is one.
    pub(crate) fn queued(&self) -> Option<QueuedFile> {
        self.flash.queued()
    }

    /// How pages are laid out on flash.
    pub(crate) fn format(&self) -> (&Layout, PageFormat) {
        (&self.layout, self.page_format)
    }

    /// What is stamped into a page, or into its checksum, when it enters at `position`.
    pub(crate) fn stamp(&self, position: Position) -> Position {
        if self.has_proofs && !self.is_log { Position(0) } else { self.stamps.stamp(position) }
    }

    /// Reads the page in `slot`, and proves it as [`FlashPages::prove`] does. Then `buffer` has it as its
    /// owner knows it.
    pub(super) fn read(
        &self,
        buffer: &mut [u8],
        id: PageId,
        slot: SlotId,
        generation: Generation,
        proof: u32,
    ) -> Result<(), SlotFault> {
        self.flash.read(self.layout.slot_offset(slot), buffer)?;
        self.prove(buffer, id, slot, generation, proof)?;
        self.page_format.unseal(buffer, id);
        Ok(())
    }

    /// Proves that `bytes`, read from `slot`, are the version of `id` that the directory means; `proof` is
    /// the checksum that it keeps, if it keeps one.
    pub(crate) fn prove(
        &self,
        bytes: &[u8],
        id: PageId,
        slot: SlotId,
        generation: Generation,
        proof: u32,
    ) -> Result<(), PageFault> {
        if self.has_proofs {
            let stamp = match generation {
                Generation::Exact(position) => self.stamps.stamp(position),
                Generation::LowByte(_) => Position(0),
            };
            return self.page_format.verify(bytes, id, stamp, proof);
        }
        if let (false, Generation::Exact(position)) = (self.page_format.names_itself(), generation) {
            return self.page_format.verify_alone(bytes, id, self.stamps.stamp(position));
        }
        page::verify(bytes, id, None)?;
        let found = self.stamps.position_in(slot, Position(page::header(bytes).generation.get()));
        let possible = self.is_log || self.may_hold(slot, id, found);
        if possible && generation.matches(found) {
            return Ok(());
        }
        let expected = match generation {
            Generation::Exact(position) => position,
            Generation::LowByte(byte) => Position(byte.into()),
        };
        Err(PageFault::Generation { expected, found })
    }

    /// Slot placement: whether the version of `page` that entered at `position` may be served from `slot`.
    fn may_hold(&self, slot: SlotId, page: PageId, position: Position) -> bool {
        let is_listed = || self.listed.as_ref().is_none_or(|listed| listed.admits(slot, page, position));
        self.positions.contains(&position.0) && is_listed()
    }
}
