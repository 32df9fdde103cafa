//! Pages of PostgreSQL: 8 KiB heap and index pages, with a header of PostgreSQL's own.
//!
//! | offset | bytes | PostgreSQL's name | on flash |
//! |---|---|---|---|
//! | 0 | 8 | `pd_lsn`: two words of 4 bytes, the upper one first | as it is |
//! | 8 | 2 | `pd_checksum` | lower half of our checksum |
//! | 18 | 2 | `pd_pagesize_version`: 0x2004 in pages that we take | upper half of our checksum |
//!
//! So a page carries its proof, and takes no memory for it: CRC32C of the page id, its stamp, and the page
//! with zeros in these two fields. Both fields are restored when it is read or destaged: the version is
//! always the same, and the checksum is PostgreSQL's, or 0 in a cluster without checksums. (Sources:
//! `storage/bufpage.h`, `storage/checksum_impl.h` of PostgreSQL 17.)

use crate::checksum;
use entresol_core::{Lsn, PageId, Position};
use zerocopy::IntoBytes;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;
/// The field `pd_pagesize_version` of the pages that are taken: 8 KiB, layout 4 (since PostgreSQL 8.3).
pub const VERSION: u16 = 0x2004;

const CHECKSUM: std::ops::Range<usize> = 8..10;
const PAGESIZE_VERSION: std::ops::Range<usize> = 18..20;

fn half(bytes: &[u8], at: std::ops::Range<usize>) -> u16 {
    u16::from_le_bytes([bytes[at.start], bytes[at.start + 1]])
}

/// Whether `bytes` are a page that can be proved: not a new one, which is all zeros, nor one of another
/// version.
pub fn is_possible(bytes: &[u8]) -> bool {
    bytes.len() == PAGE_BYTES && half(bytes, PAGESIZE_VERSION) == VERSION
}

/// LSN of the newest change in the page.
pub fn lsn(bytes: &[u8]) -> Lsn {
    let word = |at: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        u64::from(u32::from_le_bytes(word))
    };
    Lsn(word(0) << 32 | word(4))
}

/// Puts the proof into the page. Returns it.
pub fn seal(bytes: &mut [u8], id: PageId, stamp: Position) -> u32 {
    let sum = sum_of(bytes, id, stamp);
    bytes[CHECKSUM].copy_from_slice(&(sum as u16).to_le_bytes());
    bytes[PAGESIZE_VERSION].copy_from_slice(&((sum >> 16) as u16).to_le_bytes());
    sum
}

/// The proof in a page on flash.
pub fn proof(bytes: &[u8]) -> u32 {
    u32::from(half(bytes, CHECKSUM)) | u32::from(half(bytes, PAGESIZE_VERSION)) << 16
}

/// The expected proof of this page.
pub fn sum_of(bytes: &[u8], id: PageId, stamp: Position) -> u32 {
    let mut sum = checksum::of([id.0.to_le(), stamp.0.to_le()].as_bytes());
    let mut at = 0;
    for field in [CHECKSUM, PAGESIZE_VERSION] {
        sum = checksum::append(sum, &bytes[at..field.start]);
        sum = checksum::append(sum, &[0; 2]);
        at = field.end;
    }
    checksum::append(sum, &bytes[at..])
}

/// Makes a sealed page PostgreSQL's again.
pub fn restore(bytes: &mut [u8], id: PageId, checksums: bool) {
    bytes[PAGESIZE_VERSION].copy_from_slice(&VERSION.to_le_bytes());
    set_checksum(bytes, id, checksums);
}

/// Puts PostgreSQL's own checksum into the page, or 0.
pub fn set_checksum(bytes: &mut [u8], id: PageId, checksums: bool) {
    bytes[CHECKSUM].fill(0);
    if checksums {
        let sum = postgres_checksum(bytes, id.number());
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Sums of PostgreSQL's checksum that are computed side by side.
const SUMS: usize = 32;
/// The prime of FNV-1a.
const PRIME: u32 = 16_777_619;
/// What each sum begins with.
const BASES: [u32; SUMS] = [
    0x5b1f_36e9,
    0xb852_5960,
    0x02ab_50aa,
    0x1de6_6d2a,
    0x79ff_467a,
    0x9bb9_f8a3,
    0x217e_7cd2,
    0x83e1_3d2c,
    0xf8d4_474f,
    0xe39e_b970,
    0x42c6_ae16,
    0x9932_16fa,
    0x7b09_3b5d,
    0x98da_ff3c,
    0xf718_902a,
    0x0b1c_9cdb,
    0xe58f_764b,
    0x1876_36bc,
    0x5d7b_3bb1,
    0xe73d_e7de,
    0x92be_c979,
    0xcca6_c0b2,
    0x304a_0979,
    0x85aa_43d4,
    0x7831_25bb,
    0x6ca8_eaa2,
    0xe407_eac6,
    0x4b5c_fc3e,
    0x9fbf_8c76,
    0x15ca_20be,
    0xf2ca_9fd3,
    0x959b_d756,
];

/// PostgreSQL's checksum of block `number` with this content, whose checksum field is 0: 32 sums in the
/// manner of FNV-1a over every 32nd word, folded to 16 bits, never 0.
fn postgres_checksum(bytes: &[u8], number: u32) -> u16 {
    let mut sums = BASES;
    let mix = |sum: &mut u32, word: u32| {
        let mixed = *sum ^ word;
        *sum = mixed.wrapping_mul(PRIME) ^ mixed >> 17;
    };
    let (words, _) = bytes.as_chunks::<4>();
    for row in words.chunks_exact(SUMS) {
        for (sum, word) in sums.iter_mut().zip(row) {
            mix(sum, u32::from_le_bytes(*word));
        }
    }
    for _ in 0..2 {
        sums.iter_mut().for_each(|sum| mix(sum, 0));
    }
    let folded = sums.iter().fold(0, |all, sum| all ^ sum);
    ((folded ^ number) % 65_535 + 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u8> {
        let mut page: Vec<u8> = (0..PAGE_BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
        page[PAGESIZE_VERSION].copy_from_slice(&VERSION.to_le_bytes());
        page
    }

    /// Computed with PostgreSQL 17.11's own function from the same bytes.
    #[test]
    fn the_checksum_is_postgresqls() {
        for (number, expected) in [(0, 18_050), (1, 18_051), (123_456_789, 32_442)] {
            let mut page = page();
            set_checksum(&mut page, PageId::new(9, number), true);
            assert_eq!(half(&page, CHECKSUM), expected, "{number}");
        }
    }

    #[test]
    fn a_sealed_page_is_proved_and_restored() {
        for checksums in [false, true] {
            let (id, stamp) = (PageId::new(3, 77), Position(1 << 40));
            let mut before = page();
            set_checksum(&mut before, id, checksums);
            let mut sealed = before.clone();
            let sum = seal(&mut sealed, id, stamp);
            assert_eq!((proof(&sealed), sum_of(&sealed, id, stamp)), (sum, sum));
            for (id, stamp) in [(PageId::new(3, 78), stamp), (id, Position(1 << 41))] {
                assert_ne!(sum_of(&sealed, id, stamp), sum);
            }
            for at in [0, 10, 17, 20, 8191] {
                sealed[at] ^= 1;
                assert_ne!(sum_of(&sealed, id, stamp), sum, "{at}");
                sealed[at] ^= 1;
            }
            assert_eq!(lsn(&sealed), lsn(&before));
            restore(&mut sealed, id, checksums);
            assert_eq!(sealed, before);
        }
    }

    #[test]
    fn new_pages_and_those_of_other_versions_are_not_taken() {
        assert!(is_possible(&page()));
        assert!(!is_possible(&[0; PAGE_BYTES]));
        assert!(!is_possible(&page()[..4096]));
        let mut other = page();
        other[18] = 3;
        assert!(!is_possible(&other));
    }
}
