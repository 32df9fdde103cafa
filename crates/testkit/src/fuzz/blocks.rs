//! Fuzz targets: the structures on flash and disk of one block each. An input is parsed unchanged, and again
//! with a corrected checksum, so that the code after the checksum test is reached.
//!
//! An accepted structure must be the same after it is written and read again.

use super::reseal::seal_block;
use entresol_core::{Forgotten, PageId, Position};
use entresol_engine::{TierOptions, flash_bytes};
use entresol_format::label::Label;
use entresol_format::segment::{self, ENTRY_BYTES, Head};
use entresol_format::summary::{self, Summary};
use entresol_format::superblock::Superblock;
use entresol_format::{BLOCK_BYTES, BlockFault, checksum, page as pages};

/// Calls `look` with the input, then with the input padded to a block and sealed.
fn both(input: &[u8], look: impl Fn(&[u8])) {
    look(input);
    let mut block = vec![0; BLOCK_BYTES];
    let length = input.len().min(BLOCK_BYTES);
    block[..length].copy_from_slice(&input[..length]);
    seal_block(&mut block);
    look(&block);
}

pub(super) fn superblock(input: &[u8]) {
    both(input, |block| {
        let Ok(found) = Superblock::decode(block) else { return };
        let mut again = vec![0; BLOCK_BYTES];
        found.encode(&mut again);
        assert_eq!(Superblock::decode(&again), Ok(found));
        let options = TierOptions::of(&found);
        if options.validate().is_ok() {
            assert!(flash_bytes(&options) > 0);
        }
        let _ = (
            found.offset(),
            found.stamps().stamp(found.rear),
            found.is_needed(),
            found.is_unsure(found.rear),
        );
    });
}

pub(super) fn label(input: &[u8]) {
    both(input, |block| {
        let Ok(found) = Label::decode(block) else { return };
        let mut again = vec![0; BLOCK_BYTES];
        found.encode(&mut again);
        assert_eq!(Label::decode(&again), Ok(found));
    });
}

/// The first byte is the number of pages of a group.
pub(super) fn summary(input: &[u8]) {
    let Some((group_pages, input)) = input.split_first() else { return };
    let group_pages = u32::from(*group_pages);
    both(input, |block| {
        let Ok(found) = Summary::decode(block, group_pages) else { return };
        let records: Vec<Forgotten> = found.stale().collect();
        assert_eq!(found.entries().len(), group_pages as usize);
        if found.head.version > 1 && records.len() <= summary::stale_max(group_pages) {
            let mut again = vec![0; BLOCK_BYTES];
            summary::encode(&mut again, &found.head, found.entries(), &records);
            let read = Summary::decode(&again, group_pages).expect("what was encoded is decoded");
            assert_eq!(read.head, found.head);
            assert!(read.entries().eq(found.entries()) && read.stale().eq(records));
        }
    });
}

/// A header block, then entries.
pub(super) fn segment(input: &[u8]) {
    let (block, entries) = input.split_at(input.len().min(BLOCK_BYTES));
    both(block, |block| {
        if let Ok(found) = Head::decode(block) {
            let mut again = vec![0; BLOCK_BYTES];
            found.encode(&mut again);
            assert_eq!(Head::decode(&again), Ok(found));
        }
    });
    for (bytes, view) in entries.chunks_exact(ENTRY_BYTES).zip(segment::decode_entries(entries, ENTRY_BYTES))
    {
        let mut again = [0; ENTRY_BYTES];
        segment::encode_entry(&mut again, view);
        assert_eq!(segment::decode_entries(&again, ENTRY_BYTES).next(), Some(view), "{bytes:02x?}");
    }
    assert_eq!(checksum::append(checksum::of(block), entries), checksum::of(input));
}

/// A page of 4 KiB.
pub(super) fn page(input: &[u8]) {
    both(input, |block| {
        if block.len() != BLOCK_BYTES {
            assert!(matches!(
                entresol_format::block::open(block, *b"ENTRNONE"),
                Err(BlockFault::Length { .. } | BlockFault::Magic { .. } | BlockFault::Blank)
            ));
            return;
        }
        let id = PageId(pages::header(block).page.get());
        let generation = Position(pages::header(block).generation.get());
        let sound = pages::verify(block, id, Some(generation));
        assert_eq!(sound.is_ok(), pages::verify(block, id, None).is_ok());
        let mut sealed = block.to_vec();
        pages::seal(&mut sealed, id, generation);
        pages::verify(&sealed, id, Some(generation)).expect("a sealed page proves itself");
        assert!(pages::verify(&sealed, PageId(id.0 ^ 1), None).is_err());
        assert!(pages::verify(&sealed, id, Some(Position(generation.0 ^ 1))).is_err());
    });
}
