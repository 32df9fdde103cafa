//! A seeded mutator: fuzzing of a corpus without coverage. It flips bits, sets bytes to interesting values,
//! and copies, moves, removes, doubles or zeroes ranges, or takes them from another input. It also truncates.
//!
//! Invariant: the same seed and inputs give the same output in every release.

use entresol_runtime::rng::Rng;

/// Maximum length of the output, in bytes.
const LENGTH_MAX: usize = 1 << 17;

/// Boundary values that often cause errors.
const INTERESTING: [u64; 12] =
    [0, 1, 7, 8, 0x7f, 0x80, 0xff, 0x7fff, 0x8000_0000, u32::MAX as u64, u64::MAX >> 1, u64::MAX];

/// Changes `input` in a few places; `other` is another input from which bytes are taken.
pub fn mutate(input: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + rng.below(6) {
        step(&mut bytes, other, rng);
    }
    bytes.truncate(LENGTH_MAX);
    bytes
}

fn range(length: usize, rng: &mut Rng) -> std::ops::Range<usize> {
    let start = rng.below(length as u64) as usize;
    let most = (length - start).min(1 << rng.below(13));
    start..start + 1 + rng.below(most as u64) as usize
}

fn step(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    if bytes.is_empty() {
        bytes.extend_from_slice(other);
        return;
    }
    let at = rng.below(bytes.len() as u64) as usize;
    match rng.below(10) {
        0 | 1 => bytes[at] ^= 1 << rng.below(8),
        2 => bytes[at] = rng.next_u64() as u8,
        3 => bytes[at] = bytes[at].wrapping_add(rng.below(9) as u8).wrapping_sub(4),
        4 => {
            let number = INTERESTING[rng.below(INTERESTING.len() as u64) as usize].to_le_bytes();
            let width = (1usize << rng.below(4)).min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        5 => {
            let filling = if rng.below(2) == 0 { 0 } else { 0xff };
            let range = range(bytes.len(), rng);
            bytes[range].fill(filling);
        }
        6 => {
            let range = range(bytes.len(), rng);
            let to = rng.below((bytes.len() - range.len() + 1) as u64) as usize;
            bytes.copy_within(range, to);
        }
        7 => {
            let range = range(bytes.len(), rng);
            bytes.drain(range);
        }
        8 if !other.is_empty() => {
            let range = range(other.len(), rng);
            let end = (at + range.len()).min(bytes.len());
            let replaced = if rng.below(2) == 0 { at..end } else { at..at };
            bytes.splice(replaced, other[range].iter().copied());
        }
        9 => bytes.truncate(at),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_output_and_seeds_differ() {
        let (input, other) = ([1u8; 300], [2u8; 300]);
        let out = |seed| mutate(&input, &other, &mut Rng::new(seed));
        let all: std::collections::BTreeSet<Vec<u8>> = (0..200).map(out).collect();
        assert!(all.len() > 150, "{}", all.len());
        assert_eq!(out(7), out(7));
        assert!(all.iter().any(|bytes| bytes.len() < 300) && all.iter().any(|bytes| bytes.contains(&2)));
        mutate(&[], &[], &mut Rng::new(1));
    }
}
