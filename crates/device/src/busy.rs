//! The time during which a real device has at least one request outstanding (iostat's %util).
//!
//! There is no lock, because every request of every thread passes here: a thread that was preempted while it
//! held a lock would stop them all. The price: a request that begins and ends while the last outstanding
//! request ends may not be counted. So the total is never too long, and exact if one thread at a time uses
//! the device.
//!
//! Invariant: the word's count is the number of live [`Busy`] guards, and of requests under way without one.

use entresol_runtime::now;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// Bits of the word that count outstanding requests. The other bits hold the start of the busy interval.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Nanoseconds of a tick, as a power of two: 48 bits of them are two years.
const TICK_SHIFT: u32 = 8;
const TICKS_MASK: u64 = u64::MAX >> COUNT_BITS;

/// The clock of one device, or of one kind of work.
#[derive(Debug, Default)]
pub struct BusyClock {
    word: AtomicU64,
    total_ticks: AtomicU64,
}

/// A request under way, until dropped.
#[must_use]
pub struct Busy<'a>(&'a BusyClock);

fn ticks() -> u64 {
    (now().0 >> TICK_SHIFT) & TICKS_MASK
}

/// Ticks since the start in the word.
fn passed(word: u64) -> u64 {
    ticks().wrapping_sub(word >> COUNT_BITS) & TICKS_MASK
}

impl BusyClock {
    /// A request begins.
    ///
    /// # Panics
    /// If 65,535 are under way.
    pub fn start(&self) -> Busy<'_> {
        let began = |word| match word & COUNT_MASK {
            0 => Some(ticks() << COUNT_BITS | 1),
            count => {
                assert!(count < COUNT_MASK, "no device has {count} requests outstanding");
                Some(word + 1)
            }
        };
        self.word.fetch_update(AcqRel, Acquire, began).expect("there is always a next word");
        Busy(self)
    }

    /// A request has ended whose guard was given up ([`Busy::goes_on`]).
    pub(crate) fn end(&self) {
        let mut busy = 0;
        let ended = |word| {
            busy = if word & COUNT_MASK == 1 { passed(word) } else { 0 };
            // The start stays, so that the next one differs from it.
            Some(word - 1)
        };
        self.word.fetch_update(AcqRel, Acquire, ended).expect("there is always a next word");
        if busy > 0 {
            self.total_ticks.fetch_add(busy, Relaxed);
        }
    }

    /// The time so far.
    pub fn total(&self) -> Duration {
        let word = self.word.load(Acquire);
        let running = if word & COUNT_MASK > 0 { passed(word) } else { 0 };
        Duration::from_nanos((self.total_ticks.load(Relaxed) + running) << TICK_SHIFT)
    }
}

impl Busy<'_> {
    /// The request outlives the guard: [`BusyClock::end`] ends it.
    pub(crate) fn goes_on(self) {
        std::mem::forget(self);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::sim::{SimConfig, Simulation};
    use entresol_runtime::{sleep, spawn};
    use std::sync::Arc;

    /// Runs `main` in a simulation, where time is exact.
    fn simulate(main: impl FnOnce() + Send) {
        Simulation::new(SimConfig::default()).run(main).unwrap();
    }

    #[test]
    fn overlapping_requests_count_once_and_idle_time_not_at_all() {
        simulate(|| {
            let tick = Duration::from_nanos(1 << TICK_SHIFT);
            let clock = Arc::new(BusyClock::default());
            sleep(tick * 7);
            let requests: Vec<_> = [(0, 10), (4, 10), (100, 3)]
                .into_iter()
                .map(|(at, length)| {
                    let clock = clock.clone();
                    spawn("request", move || {
                        sleep(tick * at);
                        let _busy = clock.start();
                        sleep(tick * length);
                    })
                })
                .collect();
            sleep(tick * 8);
            assert_eq!(clock.total(), tick * 8, "while one is outstanding");
            requests.into_iter().for_each(|request| request.join());
            assert_eq!(clock.total(), tick * 17);
        });
    }

    #[test]
    fn no_request_is_forgotten_whoever_ends_first() {
        let clock = Arc::new(BusyClock::default());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let clock = clock.clone();
                std::thread::spawn(move || (0..10_000).for_each(|_| drop(clock.start())))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(clock.word.load(Acquire) & COUNT_MASK, 0);
        let idle = clock.total();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(clock.total(), idle);
    }
}
