//! How long pages have been dirty in slots, for a driver that copies old ones to disk. Slots tell no age, so
//! all dirty pages are looked at from time to time. A page is old if it was dirty at the look before, too,
//! and its slot was not written since: its age is between the time of one look and that of two.
//!
//! Half a byte for each slot. One slot of fifteen that was written again between two looks is taken for one
//! that was not: then its page is copied too early, which harms nothing.

/// What the last look has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotAges {
    /// By slot, two in a byte: 0 if its page was clean, else one of fifteen marks of the slot's last write.
    seen: Vec<u8>,
    /// When the last look began, in nanoseconds.
    looked_ns: Option<u64>,
}

/// Marks of writes.
const MARKS: u8 = 15;

impl SlotAges {
    /// For a cache of so many slots.
    pub fn new(slots: u32) -> Self {
        Self { seen: vec![0; slots.div_ceil(2) as usize], looked_ns: None }
    }

    /// Whether another look is due at `now_ns`, for pages of this age. If so, it begins.
    pub fn begin_look(&mut self, now_ns: u64, age_ns: u64) -> bool {
        let is_due = self.looked_ns.is_none_or(|looked| now_ns.saturating_sub(looked) >= age_ns);
        if is_due {
            self.looked_ns = Some(now_ns);
        }
        is_due
    }

    /// The look has come to `slot`: `written` is the number of its last write if its page is dirty. Whether
    /// the page is old.
    pub fn look(&mut self, slot: u32, written: Option<u8>) -> bool {
        let Some(two) = self.seen.get_mut(slot as usize / 2) else { return false };
        let shift = slot % 2 * 4;
        let (mark, seen) = (written.map_or(0, |number| number % MARKS + 1), *two >> shift & 0xf);
        *two = *two & !(0xf << shift) | mark << shift;
        mark != 0 && mark == seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_old_at_its_second_look_unless_its_slot_was_written() {
        let mut ages = SlotAges::new(3);
        let look = |ages: &mut SlotAges, written: [Option<u8>; 3]| {
            [0, 1, 2].map(|slot| ages.look(slot, written[slot as usize]))
        };
        assert!(ages.begin_look(1000, 100));
        assert_eq!(look(&mut ages, [Some(7), Some(9), None]), [false; 3]);
        assert!(!ages.begin_look(1099, 100));
        assert!(ages.begin_look(1100, 100));
        assert_eq!(look(&mut ages, [Some(7), Some(10), Some(1)]), [true, false, false]);
        // The first one was copied meanwhile, and is dirty again at the look after this one.
        assert_eq!(look(&mut ages, [None, Some(10), Some(1)]), [false, true, true]);
        assert_eq!(look(&mut ages, [Some(7), Some(10), Some(255)]), [false, true, false]);
        assert!(!ages.look(4, Some(7)), "there is no such slot");
    }
}
