//! A page stored as its difference from another page.
//!
//! Encoding: runs of changed 8-byte words, each a little-endian `u16` first word, a `u16` number of words,
//! and the words. A page that differs from its base in an LSN, a checksum and one row takes some tens of
//! bytes.
//!
//! Invariant: `apply(base, encode(base, page)) == page`.

/// Unit in which memory devices store content, in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// A difference of this size or more saves too little.
const DELTA_BYTES_MAX: usize = PAGE_BYTES / 2;
const WORD: usize = 8;
const BLOCK: usize = 64;
/// Unchanged words between two changed ones that take less space than the head of a new run.
const GAP_WORDS: usize = 1;

pub(super) type Page = [u8; PAGE_BYTES];

static ZEROS: Page = [0; PAGE_BYTES];

const _: () = assert!(PAGE_BYTES / BLOCK == u64::BITS as usize);

/// The encoded difference.
pub(super) struct Encoder {
    bytes: [u8; DELTA_BYTES_MAX],
    length: usize,
}

impl Encoder {
    /// The difference of `page` from `base` (zeros if none), or `None` if it takes half a page or more.
    pub fn encode(base: Option<&Page>, page: &Page) -> Option<Self> {
        let base = base.unwrap_or(&ZEROS);
        let changed = changed_blocks(base, page);
        // A difference with fewer changed blocks always fits.
        if changed.count_ones() as usize * (BLOCK + 4) > DELTA_BYTES_MAX - 4
            && changed_words(base, page) * WORD > DELTA_BYTES_MAX - 8
        {
            return None;
        }
        let mut encoder = Self { bytes: [0; DELTA_BYTES_MAX], length: 0 };
        // Head of the open run, its first word, and the word after its last.
        let mut run: Option<(usize, usize, usize)> = None;
        let mut left = changed;
        while left != 0 {
            let block = left.trailing_zeros() as usize * (BLOCK / WORD);
            left &= left - 1;
            for index in block..block + BLOCK / WORD {
                let at = index * WORD;
                if base[at..at + WORD] == page[at..at + WORD] {
                    continue;
                }
                let from = match run {
                    Some((_, _, end)) if index - end <= GAP_WORDS => end,
                    _ => {
                        encoder.close(run);
                        run = Some((encoder.length, index, index));
                        encoder.length += 4;
                        index
                    }
                };
                let bytes = (index + 1 - from) * WORD;
                if encoder.length + bytes > DELTA_BYTES_MAX - 4 {
                    return None;
                }
                encoder.bytes[encoder.length..encoder.length + bytes]
                    .copy_from_slice(&page[from * WORD..(index + 1) * WORD]);
                encoder.length += bytes;
                if let Some((_, _, end)) = &mut run {
                    *end = index + 1;
                }
            }
        }
        encoder.close(run);
        Some(encoder)
    }

    fn close(&mut self, run: Option<(usize, usize, usize)>) {
        if let Some((head, first, end)) = run {
            self.bytes[head..head + 2].copy_from_slice(&(first as u16).to_le_bytes());
            self.bytes[head + 2..head + 4].copy_from_slice(&((end - first) as u16).to_le_bytes());
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Bit `b`: the `b`-th 64 bytes differ.
fn changed_blocks(base: &Page, page: &Page) -> u64 {
    let blocks = base.as_chunks::<BLOCK>().0.iter().zip(page.as_chunks::<BLOCK>().0);
    blocks.enumerate().fold(0, |changed, (block, (old, new))| {
        // Without a branch or a call: the base page is often not in the processor's cache, and can then be
        // read ahead.
        let words = old.as_chunks::<WORD>().0.iter().zip(new.as_chunks::<WORD>().0);
        let differing =
            words.fold(0, |any, (old, new)| any | (u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new)));
        changed | u64::from(differing != 0) << block
    })
}

/// The number of words that differ; much faster than encoding.
fn changed_words(base: &Page, page: &Page) -> usize {
    let words = base.as_chunks::<WORD>().0.iter().zip(page.as_chunks::<WORD>().0);
    words.filter(|(old, new)| old != new).count()
}

/// Turns the base page in `page` into the page whose difference is `delta`.
pub(super) fn apply(page: &mut [u8], mut delta: &[u8]) {
    while let [first_low, first_high, words_low, words_high, rest @ ..] = delta {
        let first = usize::from(u16::from_le_bytes([*first_low, *first_high])) * WORD;
        let length = usize::from(u16::from_le_bytes([*words_low, *words_high])) * WORD;
        page[first..first + length].copy_from_slice(&rest[..length]);
        delta = &rest[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;

    fn round_trip(base: Option<&Page>, page: &Page) -> Option<usize> {
        let delta = Encoder::encode(base, page)?;
        let mut copy = base.copied().unwrap_or([0; PAGE_BYTES]);
        apply(&mut copy, delta.bytes());
        assert!(copy == *page, "the page came back changed");
        Some(delta.bytes().len())
    }

    #[test]
    fn equal_pages_take_nothing() {
        assert_eq!(round_trip(Some(&[7; PAGE_BYTES]), &[7; PAGE_BYTES]), Some(0));
        assert_eq!(round_trip(None, &[0; PAGE_BYTES]), Some(0));
    }

    #[test]
    fn small_changes_take_little_and_come_back() {
        let mut rng = Rng::new(11);
        let mut base = [0u8; PAGE_BYTES];
        base.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        let mut small = 0;
        for changes in 0..600 {
            let mut page = base;
            for _ in 0..changes {
                page[rng.below(PAGE_BYTES as u64) as usize] ^= 1 + rng.below(255) as u8;
            }
            match round_trip(Some(&base), &page) {
                Some(bytes) => {
                    assert!(bytes <= changes * 20, "{changes} changes took {bytes} bytes");
                    small += 1;
                }
                None => assert!(changes > 90, "{changes} changes did not fit"),
            }
        }
        assert!(small > 90);
    }

    #[test]
    fn runs_at_both_ends_and_the_largest_difference() {
        let base = [1u8; PAGE_BYTES];
        let mut page = base;
        page[0] = 2;
        page[PAGE_BYTES - 1] = 2;
        assert_eq!(round_trip(Some(&base), &page), Some(24));
        page[..DELTA_BYTES_MAX - 64].fill(9);
        assert!(round_trip(Some(&base), &page).is_some());
        page[..DELTA_BYTES_MAX].fill(9);
        assert!(round_trip(Some(&base), &page).is_none());
    }
}
