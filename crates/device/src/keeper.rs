//! What keeps the writes of a [`crate::RedoDevice`] outside of the program.

use crate::DeviceError;
use std::ops::Range;

const SECTOR_BYTES: usize = 512;

/// Copies what it is asked for of a block of 4,096 bytes into a buffer of that length. Returns which of its
/// eight sectors of 512 bytes that are: bit `n` for sector `n`.
pub type ReadKept<'a> = &'a dyn Fn(u64, &mut [u8]) -> u8;

/// Keeps writes outside of the program while a device cannot be synced. A failure of the device may have lost
/// them there, and the program that remembers them may be killed.
pub trait WriteKeeper: Send + Sync {
    /// A sync has failed: keeps these blocks, by number, and ranges of zeros, in bytes, which are older.
    ///
    /// # Errors
    /// The keeper's: nothing is kept.
    fn begin(&self, zeros: &[Range<u64>], blocks: &[u64], read: ReadKept<'_>) -> Result<(), DeviceError>;
    /// These blocks have been written since.
    ///
    /// # Errors
    /// The keeper's: an older state may be kept.
    fn wrote(&self, blocks: Range<u64>, read: ReadKept<'_>) -> Result<(), DeviceError>;
    /// These bytes have been discarded since, or made zeros.
    ///
    /// # Errors
    /// As [`WriteKeeper::wrote`].
    fn cleared(&self, bytes: Range<u64>, are_zeros: bool, read: ReadKept<'_>) -> Result<(), DeviceError>;
    /// Everything is durable on the device: nothing is kept from now on, durably.
    ///
    /// # Errors
    /// The keeper's.
    fn end(&self) -> Result<(), DeviceError>;
}

/// Runs of these of the eight sectors of 512 bytes of a block, bit `n` for sector `n`: their bytes in it.
pub fn sector_runs(sectors: u8) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let has = |sector: &usize| sectors >> sector & 1 != 0;
        let first = (from..8).find(has)?;
        let end = (first..8).find(|sector| !has(sector)).unwrap_or(8);
        from = end;
        Some(first * SECTOR_BYTES..end * SECTOR_BYTES)
    })
}
