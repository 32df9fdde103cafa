//! The hash function of all tables of the crate.

/// Spreads `key` over `buckets`: Fibonacci hashing, then the upper half of a multiplication instead of a
/// division.
pub(crate) fn bucket_of(key: u64, buckets: usize) -> usize {
    let hash = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * buckets as u128) >> 64) as usize
}
