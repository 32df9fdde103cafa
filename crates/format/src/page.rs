//! The header of every page of a store: 32 bytes, little-endian (docs/FORMAT.md has the table).
//!
//! The flash tier stamps the generation and the checksum when it copies the page into staging. The disk layer
//! does so when it writes the page. So DRAM frames have stale values of both.

use crate::checksum;
use entresol_core::{Lsn, PageId, Position};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of [`PageHeader`].
pub const PAGE_HEADER_BYTES: usize = 32;

/// The header as stored.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PageHeader {
    /// CRC32C (CRC-32/ISCSI) of the rest of the page.
    pub checksum: U32,
    /// The kind of page; defined by the store.
    pub kind: U16,
    /// Defined by the store.
    pub flags: U16,
    /// The page's id.
    pub page: U64,
    /// LSN of the newest change.
    pub lsn: U64,
    /// Flash position of this version.
    pub generation: U64,
}

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER_BYTES);

/// The fault of a page that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageFault {
    /// The checksum does not match the content.
    #[error("checksum {found:#010x} found, {expected:#010x} expected")]
    Checksum {
        /// In the header.
        expected: u32,
        /// Of the content.
        found: u32,
    },
    /// The page is another one.
    #[error("page {found} found, {expected} expected")]
    Identity {
        /// The expected page.
        expected: PageId,
        /// The page found.
        found: PageId,
    },
    /// The version is another one.
    #[error("generation {} found, {} expected", found.0, expected.0)]
    Generation {
        /// The expected version.
        expected: Position,
        /// The version found.
        found: Position,
    },
}

/// The header of `page`, which is at least [`PAGE_HEADER_BYTES`] long.
pub fn header(page: &[u8]) -> &PageHeader {
    PageHeader::ref_from_prefix(page).expect("a page is longer than its header").0
}

/// The header of `page`, mutable.
pub fn header_mut(page: &mut [u8]) -> &mut PageHeader {
    PageHeader::mut_from_prefix(page).expect("a page is longer than its header").0
}

/// LSN of the newest change in `page`.
pub fn lsn(page: &[u8]) -> Lsn {
    Lsn(header(page).lsn.get())
}

/// Stamps id and generation, then the checksum. To be called last, just before the page is written.
pub fn seal(page: &mut [u8], id: PageId, generation: Position) {
    let head = header_mut(page);
    head.page = U64::new(id.0);
    head.generation = U64::new(generation.0);
    let sum = checksum::of(&page[4..]);
    header_mut(page).checksum = U32::new(sum);
}

/// Proves that `page` is `id`, of version `generation` if one is given, and undamaged.
pub fn verify(page: &[u8], id: PageId, generation: Option<Position>) -> Result<(), PageFault> {
    let head = header(page);
    let found = checksum::of(&page[4..]);
    if found != head.checksum.get() {
        return Err(PageFault::Checksum { expected: head.checksum.get(), found });
    }
    if head.page.get() != id.0 {
        return Err(PageFault::Identity { expected: id, found: PageId(head.page.get()) });
    }
    match generation {
        Some(wanted) if wanted.0 != head.generation.get() => {
            Err(PageFault::Generation { expected: wanted, found: Position(head.generation.get()) })
        }
        _ => Ok(()),
    }
}
