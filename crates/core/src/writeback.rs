//! When dirty pages are copied to disk before their turn, and how many at once.
//!
//! | the cache | which pages | how many at once | pause |
//! |---|---|---|---|
//! | no request for [`QUIET_NS`], or a quarter of the age | all | [`PAGES_MAX`] | none |
//! | above nine tenths of the ceiling, until below eight tenths | all | the more, the nearer the ceiling is | the shorter |
//! | else | those older than the age | [`PAGES_MIN`] | three times as long as the copy took |
//!
//! For an owner with a log above, pages with old bases are copied, [`PAGES_FOR_HORIZON`] at once, with a
//! pause as in the last line of the table.
//!
//! A page's age is that of its newest version, as the ring tells it: the rear is noted from time to time, and
//! what entered before it is older. A hot page has a young version, and stays on flash.
//!
//! Pure: the caller tells the time and the state, and carries out what is decided.

use crate::Position;
use arrayvec::ArrayVec;

/// Pages that are copied at once while clients use the cache, and the most.
pub const PAGES_MIN: u32 = 2;
/// Pages with old bases are copied so many at once, and the cache pauses before it takes others in hand: the
/// dequeue of a group waits for those of its pages that are in hand, and old ones are near the front.
pub const PAGES_FOR_HORIZON: u32 = 16;
/// See [`PAGES_MIN`]. It is the usual depth of a disk's queue.
pub const PAGES_MAX: u32 = 32;
/// Without a request for so long the cache is idle.
pub const QUIET_NS: u64 = 250_000_000;
/// How long nothing is looked at when there is nothing to do; at most an eighth of the age.
const LOOK_NS: u64 = 100_000_000;
/// Notes of the rear for an age.
const NOTES: usize = 32;

/// What its owner wants of a cache that holds pages newer than disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritebackOptions {
    /// Older pages are copied to disk, and all when the cache is idle. Nanoseconds; `u64::MAX`: none for its
    /// age.
    pub age_ns: u64,
    /// More pages are never newer than disk: further ones are written past the flash. `u32::MAX`: no ceiling.
    pub dirty_max: u32,
}

impl WritebackOptions {
    /// A minute, and no ceiling.
    pub const USUAL: Self = Self { age_ns: 60_000_000_000, dirty_max: u32::MAX };
}

/// The state of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritebackLook {
    /// Since any fixed time.
    pub now_ns: u64,
    /// The position of the next page.
    pub rear: Position,
    /// Pages that are newer than disk.
    pub dirty: u32,
    /// Requests of clients so far.
    pub requests: u64,
}

/// Which dirty pages may be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aged {
    /// All, but for those that were copied within the age: hot pages.
    Quiet,
    /// All.
    All,
    /// Those that entered before this position.
    Before(Position),
    /// Those with a base before this checkpoint of their owner ([`Log::base`](crate::Log::base)).
    Based(u64),
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritebackStep {
    /// Nothing for so many nanoseconds.
    Rest(u64),
    /// Copy some pages, and look again.
    Copy {
        /// Of these.
        which: Aged,
        /// So many at once.
        pages: u32,
        /// Then pause, for so many thousandths of the time that this took.
        pause_permille: u32,
        /// So many before the next look.
        most: u32,
    },
}

/// See the module's header.
pub struct Writeback {
    options: WritebackOptions,
    /// Where the rear was, the oldest note first, and the first one at or before the age.
    notes: ArrayVec<(u64, Position), NOTES>,
    requests: u64,
    /// The time of the last request, as far as looks tell.
    requested_ns: u64,
    is_pressed: bool,
}

impl Writeback {
    /// Of a cache in this state. What it has counts as entered now.
    pub fn new(options: WritebackOptions, look: &WritebackLook) -> Self {
        let notes = ArrayVec::from_iter([(look.now_ns, look.rear)]);
        let (requests, requested_ns) = (look.requests, look.now_ns);
        Self { options, notes, requests, requested_ns, is_pressed: false }
    }

    /// What is to be done where the owner bounds how much of its log is needed if the flash is lost: it wants
    /// no dirty page with a base before checkpoint `number`, and there are so many `behind` it.
    pub fn for_horizon(number: u64, behind: u32) -> WritebackStep {
        match behind {
            0 => WritebackStep::Rest(LOOK_NS),
            _ => WritebackStep::Copy {
                which: Aged::Based(number),
                pages: PAGES_FOR_HORIZON,
                pause_permille: 3000,
                most: PAGES_FOR_HORIZON,
            },
        }
    }

    /// Other options from now on.
    pub fn set(&mut self, options: WritebackOptions) {
        self.options = options;
    }

    /// The options.
    pub fn options(&self) -> WritebackOptions {
        self.options
    }

    /// What is to be done now.
    pub fn step(&mut self, look: &WritebackLook) -> WritebackStep {
        self.note(look);
        if look.requests != self.requests {
            (self.requests, self.requested_ns) = (look.requests, look.now_ns);
        }
        let rest = WritebackStep::Rest(LOOK_NS.min(self.options.age_ns / 8).max(1));
        if look.dirty == 0 {
            return rest;
        }
        let press = self.press(look.dirty);
        let is_aged = self.options.age_ns != u64::MAX;
        if is_aged && look.now_ns - self.requested_ns >= QUIET_NS.min(self.options.age_ns / 4) {
            let (which, most) = (Aged::Quiet, u32::MAX);
            return WritebackStep::Copy { which, pages: PAGES_MAX, pause_permille: 0, most };
        }
        if let Some((permille, beyond)) = press {
            let pages = PAGES_MIN + (PAGES_MAX - PAGES_MIN) * permille / 1000;
            let (pause_permille, most) = (3 * (1000 - permille), beyond.max(PAGES_MIN));
            return WritebackStep::Copy { which: Aged::All, pages, pause_permille, most };
        }
        let (noted_ns, old) = self.notes[0];
        if look.now_ns - noted_ns < self.options.age_ns {
            return rest;
        }
        WritebackStep::Copy {
            which: Aged::Before(old),
            pages: PAGES_MIN,
            pause_permille: 3000,
            most: u32::MAX,
        }
    }

    /// How near the ceiling is, in thousandths of the way from eight tenths of it, and how many pages are
    /// beyond these. `None`: far.
    fn press(&mut self, dirty: u32) -> Option<(u32, u32)> {
        let max = u64::from(self.options.dirty_max);
        let (dirty, low, high) = (u64::from(dirty), max * 8 / 10, max * 9 / 10);
        self.is_pressed =
            self.options.dirty_max != u32::MAX && dirty >= if self.is_pressed { low } else { high };
        let permille = (dirty.saturating_sub(low) * 1000).checked_div(max - low).unwrap_or(1000);
        self.is_pressed.then_some((permille.min(1000) as u32, dirty.saturating_sub(low) as u32))
    }

    fn note(&mut self, look: &WritebackLook) {
        let old_ns = look.now_ns.saturating_sub(self.options.age_ns);
        while self.notes.len() > 1 && self.notes[1].0 <= old_ns {
            self.notes.remove(0);
        }
        let last_ns = self.notes.last().map_or(0, |(ns, _)| *ns);
        let step_ns = self.options.age_ns / (NOTES as u64 - 2);
        if look.now_ns - last_ns >= step_ns && !self.notes.is_full() {
            self.notes.push((look.now_ns, look.rear));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn look(seconds: u64, rear: u64, dirty: u32, requests: u64) -> WritebackLook {
        WritebackLook { now_ns: seconds * SECOND, rear: Position(rear), dirty, requests }
    }

    fn with(dirty_max: u32) -> Writeback {
        Writeback::new(WritebackOptions { dirty_max, ..WritebackOptions::USUAL }, &look(0, 1000, 0, 0))
    }

    #[test]
    fn only_pages_older_than_the_age_are_copied_while_clients_use_the_cache() {
        let mut writeback = with(u32::MAX);
        for second in 1..60 {
            let step = writeback.step(&look(second, 1000 + 10 * second, 500, second));
            assert_eq!(step, WritebackStep::Rest(LOOK_NS), "second {second}");
        }
        for second in 60..1000 {
            let step = writeback.step(&look(second, 1000 + 10 * second, 500, second));
            let WritebackStep::Copy { which: Aged::Before(Position(old)), pages, pause_permille, .. } = step
            else {
                panic!("second {second}: {step:?}")
            };
            assert_eq!((pages, pause_permille), (PAGES_MIN, 3000));
            let exactly = 1000 + 10 * (second - 60);
            assert!(old <= exactly && old + 50 >= exactly, "second {second}: {old}, not {exactly}");
        }
    }

    #[test]
    fn an_idle_cache_is_cleaned_whole_and_a_clean_one_rests() {
        let mut writeback = with(u32::MAX);
        writeback.step(&look(1, 1000, 500, 1));
        let step = writeback.step(&look(2, 1000, 500, 1));
        let (which, most) = (Aged::Quiet, u32::MAX);
        assert_eq!(step, WritebackStep::Copy { which, pages: PAGES_MAX, pause_permille: 0, most });
        assert_eq!(writeback.step(&look(3, 1000, 0, 1)), WritebackStep::Rest(LOOK_NS));
        assert_eq!(writeback.step(&look(4, 1000, 500, 2)), WritebackStep::Rest(LOOK_NS));
    }

    #[test]
    fn the_nearer_the_ceiling_the_more_is_copied() {
        let mut writeback = with(1000);
        let mut at = |dirty| writeback.step(&look(1, 1000, dirty, u64::from(dirty)));
        let copies = |step| match step {
            WritebackStep::Copy { which: Aged::All, pages, pause_permille, most } => {
                (pages, pause_permille, most)
            }
            step => panic!("{step:?}"),
        };
        assert_eq!(at(899), WritebackStep::Rest(LOOK_NS));
        assert_eq!(copies(at(900)), (17, 1500, 100));
        assert_eq!(copies(at(1000)), (PAGES_MAX, 0, 200));
        assert_eq!(copies(at(801)), (2, 2985, 2));
        assert_eq!(at(799), WritebackStep::Rest(LOOK_NS));
        assert_eq!(at(850), WritebackStep::Rest(LOOK_NS));
    }
}
