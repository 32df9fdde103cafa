//! Named code points: branches of recovery and of fault handling that a torture run must reach.
//!
//! A crate names its points in one file with [`coverage_points!`](crate::coverage_points) and calls
//! `points::NAME.reach()` at each. Points are not placed on hot paths.
//!
//! Invariant: without the feature `coverage` there is no name and no counter, and `reach` is an empty
//! constant function. (The macro then calls it in a constant, which does not compile otherwise.)

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether code points are counted.
pub const COMPILED_IN: bool = cfg!(feature = "coverage");

/// A named code point with its counter.
#[derive(Debug)]
pub struct Point {
    name: &'static str,
    reached: AtomicU64,
}

impl Point {
    /// A point that has not been reached.
    pub const fn new(name: &'static str) -> Self {
        Self { name, reached: AtomicU64::new(0) }
    }

    /// A short description of the point.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Counts a pass of this point.
    #[inline]
    pub fn reach(&self) {
        self.reached.fetch_add(1, Relaxed);
    }

    /// How often the point was reached in this process.
    pub fn count(&self) -> u64 {
        self.reached.load(Relaxed)
    }
}

/// A code point in a build without counters.
#[derive(Debug, Clone, Copy)]
pub struct Uncounted;

impl Uncounted {
    /// Does nothing.
    #[inline(always)]
    pub const fn reach(self) {}
}

/// Declares code points, and `POINTS`, all of them.
#[cfg(feature = "coverage")]
#[macro_export]
macro_rules! coverage_points {
    ($($NAME:ident = $name:literal;)+) => {
        $(pub(crate) static $NAME: $crate::coverage::Point = $crate::coverage::Point::new($name);)+
        /// All named code points of this crate.
        pub static POINTS: &[&$crate::coverage::Point] = &[$(&$NAME),+];
    };
}

/// Declares code points that compile to nothing, and `POINTS`, which is empty.
#[cfg(not(feature = "coverage"))]
#[macro_export]
macro_rules! coverage_points {
    ($($NAME:ident = $name:literal;)+) => {
        $(pub(crate) const $NAME: $crate::coverage::Uncounted = $crate::coverage::Uncounted;)+
        const _: () = { $($NAME.reach();)+ };
        /// All named code points of this crate: none without the feature `coverage` of `entresol-runtime`.
        pub static POINTS: &[&$crate::coverage::Point] = &[];
    };
}

#[cfg(test)]
mod tests {
    coverage_points! {
        HERE = "here";
        THERE = "there";
    }

    #[test]
    fn a_point_exists_only_when_asked_for() {
        HERE.reach();
        let counts: Vec<_> = POINTS.iter().map(|point| (point.name(), point.count())).collect();
        let all = [("here", 1), ("there", 0)];
        assert_eq!(counts, if super::COMPILED_IN { &all[..] } else { &[] });
    }
}
