//! A hand passes over a table in rounds. With each move it meets a part, a few entries in a row, and skips
//! the seven parts after it, which it meets later in the round. So it meets pages of all ages at any time,
//! though the ring keeps them in the order of their age.

use crate::violation::{Violation, same};
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries of a part.
const PART: usize = 8;
/// From one part to the next, in parts.
const STRIDE: usize = 8;

/// See the module's header: the first entry of the next part.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Hand(u32);

impl Hand {
    /// The next part of a table of so many entries.
    pub fn pass(&mut self, entries: usize) -> Range<usize> {
        let first = self.0 as usize;
        let part = first / PART;
        let candidates = [part + STRIDE, (part + 1) % STRIDE].map(|part| part * PART);
        self.0 = candidates.into_iter().find(|next| *next < entries).unwrap_or(0) as u32;
        first..(first + PART).min(entries)
    }

    /// Takes nothing in the region for granted. `what`: an entry of the table.
    pub fn check(&self, what: &str, entries: usize) -> Result<(), Violation> {
        same(|| format!("the {what} that a hand meets next exists"), true, (self.0 as usize) < entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_each_round_every_entry_is_met_once() {
        for entries in [1, 8, 20, 64, 65, 1000, 4096] {
            let mut hand = Hand(0);
            for _ in 0..3 {
                let mut met = vec![0; entries];
                for _ in 0..entries.div_ceil(PART) {
                    hand.pass(entries).for_each(|at| met[at] += 1);
                    hand.check("entry", entries).unwrap();
                }
                assert_eq!(met, vec![1; entries]);
                assert_eq!(hand.0, 0, "{entries} entries: the next round begins");
            }
        }
    }

    #[test]
    fn an_eighth_of_a_round_meets_entries_everywhere() {
        let mut hand = Hand(0);
        let met: Vec<usize> = (0..8).flat_map(|_| hand.pass(512)).map(|at| at / 64).collect();
        assert_eq!(met, (0..8).flat_map(|part| [part; 8]).collect::<Vec<_>>());
    }
}
