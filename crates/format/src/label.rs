//! The label of a disk: the identity of the disk, and the cache that belongs to it (docs/FORMAT.md has the
//! table).
//!
//! Two copies, at 0 and 32 KiB, are written alternately (copy = sequence mod 2), each followed by a sync.
//! Page `n` is at 64 KiB + `n` pages. Invariant: after a crash at any time, one copy is whole.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a label.
pub const MAGIC: [u8; 8] = *b"ENTRDISK";
/// Copies on a disk.
pub const COPIES: u64 = 2;
/// Distance of the copies in bytes.
pub const COPY_STRIDE: u64 = 32 << 10;
/// Bytes reserved for the label; page 0 follows.
pub const LABEL_AREA_BYTES: u64 = 64 << 10;

const DIRTY_POSSIBLE: u32 = 1;
const LOST: u32 = 2;

/// The label as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawLabel {
    pub(crate) header: BlockHeader,
    pub(crate) disk: Uuid,
    pub(crate) cache: Uuid,
    pub(crate) epoch: U64,
    pub(crate) page_bytes: U32,
    pub(crate) flags: U32,
    pub(crate) log: Uuid,
    pub(crate) session: U64,
    pub(crate) epoch_nonce: U64,
    pub(crate) session_nonce: U64,
    pub(crate) failed_epoch: U64,
    pub(crate) failed_nonce: U64,
    pub(crate) renewal: U64,
    pub(crate) zero: [u8; 3952],
}

const _: () = assert!(size_of::<RawLabel>() == BLOCK_BYTES);

/// A session of a database: the time from one open of its log to the next.
///
/// Sessions are counted from 1. Two branches of one copy that were both opened may have the same number, but
/// their nonces differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Its number. 0: no session has begun.
    pub number: u64,
    /// A random number, drawn when it begins.
    pub nonce: u64,
}

/// A label, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// A newer label has a larger number.
    pub sequence: u64,
    /// The disk.
    pub disk: Uuid,
    /// The cache bound to it. [`Uuid::NIL`]: none.
    pub cache: Uuid,
    /// Incremented whenever the disk is opened for writing.
    pub epoch: u64,
    /// A random number, drawn when the epoch begins. Two branches of one copy have the same epochs and
    /// different nonces.
    pub epoch_nonce: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The cache may hold pages newer than this disk. Then the disk without its cache is not a whole
    /// database.
    pub dirty_possible: bool,
    /// The log of the database on this disk. [`Uuid::NIL`]: none was ever used with it.
    pub log: Uuid,
    /// The newest session of that log in which this disk took part.
    pub session: Session,
    /// The epoch of the cache in which its flash failed, while the disk lacks pages for that reason
    /// ([`crate::missing`]). 0: it lacks none.
    pub failed_epoch: u64,
    /// The nonce of that epoch.
    pub failed_nonce: u64,
    /// Incremented before the cache drops what only this disk's state of now has made unneeded.
    pub renewal: u64,
    /// The record after the label ([`crate::missing`]) names pages whose newest versions are lost, while no
    /// flash has failed.
    pub lost: bool,
}

impl Label {
    /// The offset of this label on its disk, in bytes.
    pub fn offset(&self) -> u64 {
        self.sequence % COPIES * COPY_STRIDE
    }

    /// Writes it into `block`, [`BLOCK_BYTES`] long.
    pub fn encode(&self, block: &mut [u8]) {
        let mut raw = RawLabel::new_zeroed();
        raw.disk = self.disk;
        raw.cache = self.cache;
        raw.epoch.set(self.epoch);
        raw.page_bytes.set(self.page_bytes);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        raw.flags.set(flag(self.dirty_possible, DIRTY_POSSIBLE) | flag(self.lost, LOST));
        raw.log = self.log;
        raw.session.set(self.session.number);
        raw.epoch_nonce.set(self.epoch_nonce);
        raw.session_nonce.set(self.session.nonce);
        raw.failed_epoch.set(self.failed_epoch);
        raw.failed_nonce.set(self.failed_nonce);
        raw.renewal.set(self.renewal);
        block.copy_from_slice(raw.as_bytes());
        block::seal(block, MAGIC, self.sequence);
    }

    /// Reads one back: whole, undamaged and with possible values only.
    pub fn decode(block: &[u8]) -> Result<Self, BlockFault> {
        let header = block::open(block, MAGIC)?;
        let raw = RawLabel::ref_from_bytes(block).expect("an opened block has the structure's length");
        let page_bytes = raw.page_bytes.get();
        if !crate::layout::page_bytes_possible(page_bytes) {
            return Err(BlockFault::Field { field: "page size", found: page_bytes.into() });
        }
        for (field, found) in [("epoch", raw.epoch.get()), ("session", raw.session.get())] {
            // So that the next one does not overflow.
            if found >= block::SEQUENCE_MAX {
                return Err(BlockFault::Field { field, found });
            }
        }
        Ok(Self {
            sequence: header.sequence.get(),
            disk: raw.disk,
            cache: raw.cache,
            epoch: raw.epoch.get(),
            epoch_nonce: raw.epoch_nonce.get(),
            page_bytes,
            dirty_possible: raw.flags.get() & DIRTY_POSSIBLE != 0,
            log: raw.log,
            session: Session { number: raw.session.get(), nonce: raw.session_nonce.get() },
            failed_epoch: raw.failed_epoch.get(),
            failed_nonce: raw.failed_nonce.get(),
            renewal: raw.renewal.get(),
            lost: raw.flags.get() & LOST != 0,
        })
    }
}
