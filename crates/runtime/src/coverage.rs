//! Named code points: branches of recovery and of the handling of faults, which a torture must have reached.
//!
//! A crate names its points in one file with [`coverage_points!`](crate::coverage_points) and says `points::NAME.reach()` where
//! they are. Invariant: points stand off the hot paths; without the feature `coverage` reaching one compiles to nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A named code point.
#[derive(Debug)]
pub struct Point {
    name: &'static str,
    reached: AtomicU64,
}

impl Point {
    /// A point that was not reached yet.
    pub const fn new(name: &'static str) -> Self {
        Self { name, reached: AtomicU64::new(0) }
    }

    /// What happens there, in a few words.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The code has come here.
    #[inline]
    pub fn reach(&self) {
        if cfg!(feature = "coverage") {
            self.reached.fetch_add(1, Relaxed);
        }
    }

    /// How often, in this process. Always 0 without the feature `coverage`.
    pub fn count(&self) -> u64 {
        self.reached.load(Relaxed)
    }
}

/// Declares code points, and `POINTS`, all of them.
#[macro_export]
macro_rules! coverage_points {
    ($($NAME:ident = $name:literal;)+) => {
        $(pub(crate) static $NAME: $crate::coverage::Point = $crate::coverage::Point::new($name);)+
        /// All named code points of this crate.
        pub static POINTS: &[&$crate::coverage::Point] = &[$(&$NAME),+];
    };
}

#[cfg(test)]
mod tests {
    coverage_points! {
        HERE = "here";
        THERE = "there";
    }

    #[test]
    fn a_point_counts_only_when_asked_to() {
        HERE.reach();
        let counts: Vec<u64> = POINTS.iter().map(|point| point.count()).collect();
        assert_eq!(counts, [u64::from(cfg!(feature = "coverage")), 0]);
        assert_eq!(THERE.name(), "there");
    }
}
