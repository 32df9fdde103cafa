//! Runs of destages: dirty pages that are adjacent to a dirty victim on disk are copied there with it. A disk
//! writes them as one, and later each would cost as much as a random write.
//!
//! A run goes up from the victim, then down.

use crate::PageId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most pages on either side of a victim.
const PAGES_MAX: u32 = 63;

/// The run that was begun last.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Run {
    /// The object of the victim, and its number there.
    object: u32,
    number: u32,
    /// Pages that were copied on the side where the run is, and 1 more. 0: it has ended there.
    up: u32,
    down: u32,
    /// The value of the victim, in the policy's unit.
    pub value: u32,
}

impl Run {
    /// A dirty victim of this value was chosen.
    pub fn begin(&mut self, victim: PageId, value: u32) {
        *self = Self { object: victim.object(), number: victim.number(), up: 1, down: 1, value };
    }

    /// The page that is next. `None`: the run has ended.
    pub fn next(&self) -> Option<PageId> {
        let number = match (self.up, self.down) {
            (0, 0) => return None,
            (0, down) => self.number.wrapping_sub(down),
            (up, _) => self.number.wrapping_add(up),
        };
        Some(PageId::new(self.object, number))
    }

    /// Whether that is copied.
    pub fn found(&mut self, found: bool) {
        let side = if self.up > 0 { &mut self.up } else { &mut self.down };
        *side = if found && *side < PAGES_MAX { *side + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_up_and_then_down() {
        let mut run = Run { object: 0, number: 0, up: 0, down: 0, value: 0 };
        assert_eq!(run.next(), None);
        run.begin(PageId::new(7, 100), 5);
        for (page, found) in [(101, true), (102, false), (99, true), (98, true), (97, false)] {
            assert_eq!(run.next(), Some(PageId::new(7, page)));
            run.found(found);
        }
        assert_eq!(run.next(), None);
        run.begin(PageId::new(7, 100), 5);
        let all = std::iter::from_fn(|| run.next().inspect(|_| run.found(true)));
        assert_eq!(all.count() as u32, 2 * PAGES_MAX);
    }
}
