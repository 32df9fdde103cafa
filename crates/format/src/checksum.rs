//! CRC32C, the checksum of all structures on flash, on disk, in the log and in traces.
//!
//! Invariant: `append(of(a), b) == of(ab)`, so a checksum may be computed in pieces.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `bytes`.
#[inline]
pub fn of(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Continues the checksum `sum` (0: of no bytes) over further `bytes`.
#[inline]
pub fn append(sum: u32, bytes: &[u8]) -> u32 {
    // The state is the complement of the sum.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;

    #[test]
    fn it_is_crc32c() {
        // RFC 3720, appendix B.4.
        assert_eq!(of(b"123456789"), 0xe306_9283);
        assert_eq!(of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!((of(b""), append(0, b"")), (0, 0));
    }

    #[test]
    fn pieces_give_the_sum_of_the_whole() {
        let mut rng = Rng::new(1);
        let bytes: Vec<u8> = (0..3000).map(|_| rng.next_u64() as u8).collect();
        for _ in 0..1000 {
            let to = rng.below(bytes.len() as u64 + 1) as usize;
            let at = rng.below(to as u64 + 1) as usize;
            assert_eq!(append(of(&bytes[..at]), &bytes[at..to]), of(&bytes[..to]), "{at} of {to}");
        }
    }
}
