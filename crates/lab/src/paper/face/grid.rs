//! Results of `bench tpcc` by system and flash size, as FaCE's claims ask for them.
//!
//! Invariant: a claim that the paper makes of one device or size is judged on that device and size only, and
//! is "not judged" elsewhere.

use crate::paper::{Check, Tolerance};
use crate::report::whole;
use crate::result::TpccResult;
use entresol_core::{PolicyKind, System};

pub(super) const LC: System = System::Cached(PolicyKind::Lc);
pub(super) const FACE: System = System::Cached(PolicyKind::Face);
pub(super) const GR: System = System::Cached(PolicyKind::FaceGr);
pub(super) const GSC: System = System::Cached(PolicyKind::FaceGsc);
pub(super) const FACE_FAMILY: [System; 3] = [FACE, GR, GSC];

/// What a trend needs.
pub(super) const SIZES: &str = "two or more sizes, e.g. --flash-percent 4,8,12,16,20";
/// What a trend on MLC needs.
pub(super) const MLC_SIZES: &str =
    "two or more sizes on MLC, e.g. --flash-percent 4,8,12,16,20 --flash-device mlc";

/// The paper's own rows have steps of 0.2 % against their trend, so a trend may step back by 1 %.
pub(super) const TREND: Tolerance = Tolerance::StepBack(0.01);

type Value = fn(&TpccResult) -> f64;

/// The trend of a value as the flash grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    Rises,
    Falls,
}

/// Results of one configuration.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    results: &'a [TpccResult],
}

impl<'a> Grid<'a> {
    /// All results.
    pub fn of(results: &'a [TpccResult]) -> Self {
        Self { results }
    }

    /// All results if their flash device is `device`, else none.
    pub fn only_on(results: &'a [TpccResult], device: &str) -> Self {
        let on = results.iter().all(|r| r.flash_device == device);
        Self { results: if on { results } else { &[] } }
    }

    /// The results of a system, in the order of flash sizes.
    pub fn rows(self, system: System) -> Vec<&'a TpccResult> {
        let mut rows: Vec<_> = self.results.iter().filter(|r| r.system == system.name()).collect();
        rows.sort_by(|a, b| a.flash_percent.total_cmp(&b.flash_percent));
        rows
    }

    /// The result of a system without a flash cache.
    pub fn baseline(self, system: System) -> Option<&'a TpccResult> {
        self.results.iter().find(|r| r.system == system.name())
    }

    /// The result of a system at a flash size.
    pub fn at(self, system: System, flash_percent: f64) -> Option<&'a TpccResult> {
        let same =
            |r: &&TpccResult| r.system == system.name() && (r.flash_percent - flash_percent).abs() < 1e-9;
        self.results.iter().find(same)
    }

    /// The rows of `systems` at each size where all of them ran.
    pub fn sizes<const N: usize>(self, systems: [System; N]) -> Vec<(f64, [&'a TpccResult; N])> {
        let complete = |row: &'a TpccResult| {
            let all: Vec<_> = systems.iter().filter_map(|s| self.at(*s, row.flash_percent)).collect();
            Some((row.flash_percent, <[&TpccResult; N]>::try_from(all).ok()?))
        };
        self.rows(systems[0]).into_iter().filter_map(complete).collect()
    }

    /// One check for each of `systems` that ran at two or more sizes: `value` follows the trend.
    pub fn trend(
        self,
        systems: &[System],
        value: Value,
        trend: Trend,
        tolerance: Tolerance,
        show: fn(f64) -> String,
    ) -> Vec<Check> {
        let of_system = |system: &System| {
            let values: Vec<f64> = self.rows(*system).into_iter().map(value).collect();
            if values.len() < 2 {
                return None;
            }
            let along = |from: f64, to: f64| if trend == Trend::Rises { to - from } else { from - to };
            let steps = values.windows(2).all(|w| tolerance.allows_of(along(w[0], w[1]), w[0]));
            let agrees = steps && along(values[0], values[values.len() - 1]) > 0.0;
            let shown = values.iter().map(|v| show(*v)).collect::<Vec<_>>().join(" → ");
            Some(Check { agrees, numbers: format!("{} {shown}", system.name()) })
        };
        systems.iter().filter_map(of_system).collect()
    }
}

/// A share as per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `above` as a multiple of `below`.
pub(super) fn ratio_check(above: f64, below: f64, tolerance: Tolerance) -> Check {
    if below <= 0.0 {
        return Check { agrees: false, numbers: format!("{} / {}", whole(above), whole(below)) };
    }
    let factor = above / below;
    let numbers = format!("{factor:.2} × ({} / {})", whole(above), whole(below));
    Check { agrees: tolerance.allows(factor), numbers }
}
