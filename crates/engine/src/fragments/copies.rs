//! Copies of pages on flash: where they are, and what proves them ([`Proofs`](super::proofs::Proofs)).

use super::proofs::{Cleaning, ProvableCopy};
use super::{FragmentOptions, points};
use crate::buffer::AlignedBuffer;
use entresol_core::{PageId, Position, SlotId};
use entresol_device::{BufferPool, Device, Io};
use entresol_format::{BLOCK_BYTES, PageFormat, fragments as format, page};
use std::sync::Arc;

/// See the module's header.
pub(super) struct FlashCopies {
    pub flash: Arc<dyn Device>,
    pub options: FragmentOptions,
    /// Makes the stamps and blocks of different opens different.
    salt: u64,
    /// For blocks of proofs.
    blocks: BufferPool,
}

impl FlashCopies {
    pub(super) fn new(flash: Arc<dyn Device>, options: FragmentOptions, salt: u64) -> Self {
        Self { flash, options, salt, blocks: BufferPool::new(BLOCK_BYTES, usize::MAX) }
    }

    pub(super) fn offset(&self, slot: SlotId) -> u64 {
        self.options.slot_offset(slot)
    }

    /// The stamp of a copy whose word is known.
    fn stamp(&self, copy: ProvableCopy, word: u32) -> Position {
        let number = if self.options.page_format == PageFormat::Native { word } else { copy.population };
        Position(self.salt.wrapping_add(number.into()))
    }

    /// Completes the bytes of a page in the version of `copy`, which was begun. Returns its word.
    pub(super) fn seal(&self, bytes: &mut [u8], id: PageId, copy: ProvableCopy) -> u32 {
        let number = copy.word.expect("a version that is begun has a number");
        let checksum = self.options.page_format.seal(bytes, id, self.stamp(copy, number));
        if self.options.page_format == PageFormat::Native { number } else { checksum }
    }

    /// Reads adjacent copies, each into its part of `bytes`, in one request. `copies` are of one fragment, or
    /// their words are known.
    pub(super) fn read(&self, copies: &[ProvableCopy], bytes: &mut [u8]) -> ReadCopies {
        let [first, ..] = copies else { return ReadCopies::Unreadable };
        let offset = self.offset(first.slot);
        if copies.iter().all(|copy| copy.word.is_some()) {
            return match self.flash.read(offset, bytes) {
                Ok(()) => ReadCopies::Known,
                Err(_) => ReadCopies::Unreadable,
            };
        }
        let mut block = self.blocks.take(BLOCK_BYTES);
        let place = self.options.proofs_offset(first.slot);
        let mut ios = [Io::Read { offset, buffer: bytes }, Io::Read { offset: place, buffer: &mut block }];
        let is_read = self.flash.run(&mut ios).is_ok();
        match (is_read, self.is_block(&block, first.block)) {
            (true, true) => ReadCopies::WithProofs(block),
            (true, false) => {
                points::PROOFS_DAMAGED.reach();
                ReadCopies::Unproved
            }
            (false, _) => ReadCopies::Unreadable,
        }
    }

    /// Reads the block of proofs of the fragment of `slot`, which must have this number.
    pub(super) fn read_proofs(&self, slot: SlotId, number: u32) -> Option<AlignedBuffer> {
        let mut block = self.blocks.take(BLOCK_BYTES);
        let is_read = self.flash.read(self.options.proofs_offset(slot), &mut block).is_ok();
        (is_read && self.is_block(&block, number)).then_some(block)
    }

    /// Whether this is the undamaged block of proofs with this number.
    fn is_block(&self, block: &[u8], number: u32) -> bool {
        format::proofs_sequence(block, self.options.fragment_pages) == Some(self.sequence(number))
    }

    fn sequence(&self, number: u32) -> u64 {
        self.salt.wrapping_add(number.into()) % entresol_format::block::SEQUENCE_MAX
    }

    /// Memory for a block that is to be written, without its words.
    pub(super) fn take_block(&self) -> AlignedBuffer {
        let mut block = self.blocks.take(BLOCK_BYTES);
        block.fill(0);
        block
    }

    pub(super) fn give_back(&self, block: AlignedBuffer) {
        self.blocks.give_back(block);
    }

    /// Completes a block of proofs that has its words.
    pub(super) fn seal_proofs(&self, block: &mut [u8], number: u32) {
        format::seal_proofs(block, self.options.fragment_pages, self.sequence(number));
    }

    /// As [`FlashCopies::seal_proofs`]. Returns the offset of the block on flash.
    pub(super) fn seal_cleaned(&self, block: &mut [u8], cleaning: Cleaning) -> u64 {
        self.seal_proofs(block, cleaning.number);
        self.options.proofs_offset(cleaning.slot)
    }

    /// The word of a copy in the block of its fragment.
    pub(super) fn word_in(&self, block: &[u8], slot: SlotId) -> u32 {
        format::proof(block, slot.0 % self.options.fragment_pages)
    }

    /// Whether what was read is the expected page and version.
    pub(super) fn is_proved(&self, id: PageId, copy: ProvableCopy, word: u32, bytes: &[u8]) -> bool {
        let stamp = self.stamp(copy, word);
        let is_it = match self.options.page_format {
            PageFormat::Native => page::verify(bytes, id, Some(stamp)).is_ok(),
            format => format.verify(bytes, id, stamp, word).is_ok(),
        };
        if !is_it {
            points::FETCH_DAMAGED.reach();
        }
        is_it
    }
}

/// What became of a read of copies.
pub(super) enum ReadCopies {
    /// Read; their words are known.
    Known,
    /// Read, with the block of proofs of their fragment.
    WithProofs(AlignedBuffer),
    /// Read, and the block of proofs is damaged, or another one.
    Unproved,
    /// Not read.
    Unreadable,
}
