//! A point in time of the running runtime.

use crate::sim;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the runtime started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Time passed since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanos(duration)))
    }
}

/// `duration` in nanoseconds; the longest representable one if it is longer than 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The current time: virtual inside a simulation, otherwise since the first call in the process.
pub fn now() -> Time {
    match sim::world() {
        Some(world) => world.now(),
        None => wall_clock(),
    }
}

fn wall_clock() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    Time(nanos(START.get_or_init(Instant::now).elapsed()))
}
