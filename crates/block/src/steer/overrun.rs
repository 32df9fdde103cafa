//! Whether writes bypass a cache that they overrun: more arrive than the ring can pass on to the disk.
//!
//! Then each page costs a write to flash, a read of it and a write to disk, and the client waits for all
//! three. Where the disk is as quick as the flash, the write to disk alone is the better part. Which of the
//! two is quicker is not derived from the devices, which may be one and the same; it is measured:
//!
//! 1. writes *enter* the cache. When clients wait all the time for [`OVERRUN_TICKS`], and the disk gets at
//!    least half as many pages as clients write, the cache is overrun;
//! 2. for [`PROBE_TICKS`] writes go *past* it. The first of these ticks finishes what was under way, and
//!    the last one counts;
//! 3. if the clients wrote more pages by [`WORTH`], writes go past for [`PAST_TICKS_MIN`], and then enter
//!    again, for the next comparison. Otherwise they enter, and are not compared for a while. Both times
//!    double, up to [`TICKS_MAX`], as long as the answer is the same. A comparison fills the ring with dirty
//!    pages anew, which enter again when they are written, so it is short: [`AGAIN_TICKS`] of overrun.
//!
//! When clients do not wait any more, writes enter again at once.

use std::time::Duration;

/// Ticks in a row in which the cache is overrun.
const OVERRUN_TICKS: u32 = 4;
/// As many after writes that went past.
const AGAIN_TICKS: u32 = 2;
/// Writes under way, in the mean of a tick, from which on clients wait. A client of one request at a time has
/// work of its own between two of them.
const WAITING: f64 = 0.5;
/// The part of the pages written by clients that the disk gets meanwhile.
const PASSED_ON: f64 = 0.5;
const PROBE_TICKS: u32 = 3;
/// The gain from which on the disk alone is better. What is past the cache is not in it for later reads.
const WORTH: f64 = 1.1;
/// Until the next comparison: eight seconds of writes past the cache, a second of others at first, a minute
/// at most.
const PAST_TICKS_MIN: u32 = 32;
const TICKS_MIN: u32 = 4;
const TICKS_MAX: u32 = 240;

/// The writes of clients since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// Time since then.
    pub passed: Duration,
    /// Pages of writes that have ended, but of sequential streams.
    pub pages: u64,
    /// How long these writes took, in sum.
    pub took: Duration,
    /// Pages written to disk: by clients past the cache, and by the cache.
    pub to_disk: u64,
    /// The disk is known to be much slower than the flash: it is not tried.
    pub is_disk_slow: bool,
}

impl Writes {
    fn rate(&self) -> f64 {
        self.pages as f64 / self.passed.as_secs_f64().max(1e-9)
    }

    fn clients_wait(&self) -> bool {
        self.pages > 0 && self.took.as_secs_f64() >= WAITING * self.passed.as_secs_f64()
    }

    fn overrun(&self) -> bool {
        self.clients_wait() && self.to_disk as f64 >= PASSED_ON * self.pages as f64 && !self.is_disk_slow
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Writes enter. Ticks until they may be compared, ticks in a row in which the cache was overrun, and the
    /// pages a second of the last one.
    Enter { rest: u32, overrun: u32, rate: f64 },
    /// They are past the cache, to compare with this rate, for so many ticks.
    Probe { left: u32, entering: f64 },
    /// They are past the cache for so many ticks.
    Past { left: u32 },
}

/// See the module's header.
#[derive(Clone, Copy, Debug)]
pub struct Overrun {
    state: State,
    /// Ticks until the next comparison, if its answer is the same as the last one's.
    again: u32,
    was_worth: bool,
}

impl Default for Overrun {
    fn default() -> Self {
        let state = State::Enter { rest: 0, overrun: 0, rate: 0.0 };
        Self { state, again: TICKS_MIN, was_worth: false }
    }
}

impl Overrun {
    /// A tick has passed. True: from now on writes are past the cache.
    pub fn tick(&mut self, writes: &Writes) -> bool {
        self.state = match self.state {
            State::Enter { rest: 0, overrun, rate } if writes.overrun() => match overrun + 1 {
                // Of the last two ticks the better one: one of them may have been disturbed.
                OVERRUN_TICKS => State::Probe { left: PROBE_TICKS, entering: rate.max(writes.rate()) },
                overrun => State::Enter { rest: 0, overrun, rate: writes.rate() },
            },
            State::Enter { rest, .. } => {
                State::Enter { rest: rest.saturating_sub(1), overrun: 0, rate: writes.rate() }
            }
            State::Probe { .. } | State::Past { .. } if !writes.clients_wait() => Self::enter(0),
            State::Probe { left: 1, entering } => self.compared(writes.rate() > WORTH * entering),
            State::Probe { left, entering } => State::Probe { left: left - 1, entering },
            State::Past { left: 0 } => {
                State::Enter { rest: 0, overrun: OVERRUN_TICKS - AGAIN_TICKS, rate: 0.0 }
            }
            State::Past { left } => State::Past { left: left - 1 },
        };
        !matches!(self.state, State::Enter { .. })
    }

    fn enter(rest: u32) -> State {
        State::Enter { rest, overrun: 0, rate: 0.0 }
    }

    fn compared(&mut self, is_worth: bool) -> State {
        self.again = match is_worth {
            _ if is_worth == self.was_worth => (self.again * 2).min(TICKS_MAX),
            true => PAST_TICKS_MIN,
            false => TICKS_MIN,
        };
        self.was_worth = is_worth;
        if is_worth { State::Past { left: self.again } } else { Self::enter(self.again) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache that takes so many pages a tick at first, until its room is used up, and `entering` then; the
    /// disk alone takes `past`. Gives the pages of each tick, and how many ticks were past the cache.
    fn run(ticks: u64, room: u64, entering: u64, past: u64, depth: f64) -> (Vec<u64>, usize) {
        let (mut overrun, mut is_past, mut left) = (Overrun::default(), false, room);
        let (mut all, mut past_ticks) = (Vec::new(), 0);
        for _ in 0..ticks {
            let absorbed = if is_past { 0 } else { left.min(entering * 5) };
            left -= absorbed;
            let pages = if is_past { past } else { absorbed.max(entering) };
            let writes = Writes {
                passed: Duration::from_millis(250),
                pages,
                took: Duration::from_millis(250).mul_f64(depth),
                to_disk: if absorbed > entering { 0 } else { pages },
                is_disk_slow: false,
            };
            past_ticks += usize::from(is_past);
            is_past = overrun.tick(&writes);
            all.push(pages);
        }
        (all, past_ticks)
    }

    #[test]
    fn a_disk_as_quick_as_the_flash_gets_what_overruns_the_cache() {
        let (all, _) = run(4000, 100_000, 1000, 3000, 32.0);
        let late = &all[1000..];
        let mean = late.iter().sum::<u64>() as f64 / late.len() as f64;
        assert!(mean > 0.95 * 3000.0, "{mean}");
        assert_eq!(all[..20], [5000; 20], "the room is used first");
    }

    #[test]
    fn a_slower_disk_is_seldom_tried() {
        for past in [30, 900, 1080] {
            let (_, past_ticks) = run(4000, 0, 1000, past, 32.0);
            assert!((3..80).contains(&past_ticks), "{past_ticks} of 4000 ticks at {past}");
        }
    }

    #[test]
    fn clients_that_do_not_wait_are_left_alone() {
        assert_eq!(run(400, 0, 1000, 3000, 0.3).1, 0);
        // A ring that takes all for long.
        assert_eq!(run(400, 2_000_000, 1000, 3000, 32.0).1, 0);
    }

    #[test]
    fn writes_enter_when_the_load_ends() {
        let mut overrun = Overrun::default();
        let busy = Writes {
            passed: Duration::from_millis(250),
            pages: 1000,
            took: Duration::from_secs(8),
            to_disk: 1000,
            is_disk_slow: false,
        };
        let quick = Writes { pages: 3000, ..busy };
        (0..3).for_each(|_| assert!(!overrun.tick(&busy)));
        let past = PROBE_TICKS + 1 + PAST_TICKS_MIN;
        (0..past + 4).for_each(|tick| {
            assert_eq!(overrun.tick(if tick == 0 { &busy } else { &quick }), tick < past, "{tick}")
        });
        let calm = Writes { took: Duration::from_millis(20), ..busy };
        assert!(!overrun.tick(&calm));
        // A disk that is known to be slow is not tried.
        let slow = Writes { is_disk_slow: true, ..busy };
        (0..40).for_each(|_| assert!(!overrun.tick(&slow)));
    }
}
