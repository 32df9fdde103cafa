//! The base of a dirty page on flash: the owner's checkpoint from which on its log has all changes of the
//! page that the disk lacks (`entresol_core::BASES_MAX`). It is in bits of an entry's flags that are zero
//! elsewhere.
//!
//! Of the checkpoint's number the low 24 bits are stored. Pages that are dirty have bases near the last
//! checkpoint. An entry of a page that was copied to disk keeps the base that it had: sixteen million
//! checkpoints later that would be taken for another one.

/// The lowest bit of a base within the flags.
const SHIFT: u32 = 8;
/// Bits of a base.
const BITS: u32 = 24;

/// The bits of `base` in an entry's flags, and `flag`, which says that there is one.
pub(crate) fn flags(base: Option<StoredBase>, flag: u32) -> u32 {
    base.map_or(0, |base| flag | base.0 << SHIFT)
}

/// The base in an entry's flags.
pub(crate) fn of_flags(flags: u32, flag: u32) -> Option<StoredBase> {
    (flags & flag != 0).then_some(StoredBase(flags >> SHIFT))
}

/// A base as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBase(u32);

impl StoredBase {
    /// A base to be stored.
    pub fn of(number: u64) -> Self {
        Self(number as u32 & ((1 << BITS) - 1))
    }

    /// The number of the checkpoint: the one with these low bits that is nearest to `near`.
    pub fn number(self, near: u64) -> u64 {
        let spare = u32::BITS - BITS;
        let ahead = (self.0.wrapping_sub(near as u32) << spare) as i32 >> spare;
        near.saturating_add_signed(i64::from(ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_the_number_nearest_to_a_known_one() {
        for near in [0u64, 1, 200, (1 << 24) - 1, 1 << 24, (1 << 40) + 7] {
            for number in
                [near, near + 1, near + 1000, near.saturating_sub(200), near.saturating_sub(1 << 20)]
            {
                assert_eq!(StoredBase::of(number).number(near), number, "near {near}");
                let stored = of_flags(flags(Some(StoredBase::of(number)), 4) | 3, 4).expect("it has a base");
                assert_eq!(stored, StoredBase::of(number));
            }
        }
        assert_eq!(of_flags(flags(None, 4) | 3, 4), None);
    }
}
