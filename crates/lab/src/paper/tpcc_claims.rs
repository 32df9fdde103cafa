//! FaCE's claims about `bench tpcc` (tables 3 and 4, figure 4) over our results.
//!
//! Invariant: a claim that the paper makes of one device or size is judged on that device and size only, and is "not
//! tested" elsewhere. Slack: the paper's own rows have steps of 0.2 % against their trend, so a trend may step back by 1 %.

use super::face;
use super::verdict::{Check, Verdict};
use crate::config::System;
use crate::result::TpccResult;
use entresol_core::PolicyKind;

const LC: System = System::Cached(PolicyKind::Lc);
const FACE: System = System::Cached(PolicyKind::Face);
const GR: System = System::Cached(PolicyKind::FaceGr);
const GSC: System = System::Cached(PolicyKind::FaceGsc);
const FACE_FAMILY: [System; 3] = [FACE, GR, GSC];

/// Share by which a trend may step back and still count.
const TREND_SLACK: f64 = 0.01;
/// Rates this close count as about equal (the paper's differ by at most 0.2 points): one point, and a hair for rounding.
const ABOUT_EQUAL: f64 = 0.01 + 1e-9;

type Value = fn(&TpccResult) -> f64;

/// All claims, in the order of the paper. `results` are of one configuration: one pair of devices, any systems and sizes.
pub fn verdicts(results: &[TpccResult]) -> Vec<Verdict> {
    let grid = Grid { results };
    vec![
        grid.hits_rise(),
        grid.write_reduction_rises(),
        grid.hit_order(),
        grid.lc_ahead(),
        grid.duplicates(),
        grid.lc_utilisation(),
        grid.lc_iops_fall(),
        grid.face_utilisation(),
        grid.face_iops_rise(),
        grid.iops_factor(),
        grid.throughput_order(),
        grid.face_scales(),
        grid.slc_margin(),
        grid.small_cache_beats_flash_only(),
        grid.flash_only_factor(),
        grid.disk_only_last(),
    ]
}

struct Grid<'a> {
    results: &'a [TpccResult],
}

impl<'a> Grid<'a> {
    fn rows(&self, system: System) -> Vec<&'a TpccResult> {
        let mut rows: Vec<_> = self.results.iter().filter(|r| r.system == system.name()).collect();
        rows.sort_by(|a, b| a.flash_percent.total_cmp(&b.flash_percent));
        rows
    }

    fn baseline(&self, system: System) -> Option<&'a TpccResult> {
        self.results.iter().find(|r| r.system == system.name())
    }

    fn at(&self, system: System, flash_percent: f64) -> Option<&'a TpccResult> {
        let same =
            |r: &&TpccResult| r.system == system.name() && (r.flash_percent - flash_percent).abs() < 1e-9;
        self.results.iter().find(same)
    }

    /// The rows of `systems` at each size where all of them ran.
    fn sizes<const N: usize>(&self, systems: [System; N]) -> Vec<(f64, [&'a TpccResult; N])> {
        let complete = |row: &'a TpccResult| {
            let all: Vec<_> = systems.iter().filter_map(|s| self.at(*s, row.flash_percent)).collect();
            Some((row.flash_percent, <[&TpccResult; N]>::try_from(all).ok()?))
        };
        self.rows(systems[0]).into_iter().filter_map(complete).collect()
    }

    fn on(&self, device: &str) -> bool {
        self.results.iter().all(|r| r.flash_device == device)
    }

    /// This grid if its flash device is `device`, else an empty one.
    fn only_on(&self, device: &str) -> Grid<'a> {
        if self.on(device) { Grid { results: self.results } } else { Grid { results: &[] } }
    }

    /// One check for each of `systems` that ran at two or more sizes: `value` rises (or falls) with the size.
    fn trend(&self, systems: &[System], value: Value, rising: bool, show: fn(f64) -> String) -> Vec<Check> {
        let of_system = |system: &System| {
            let values: Vec<f64> = self.rows(*system).into_iter().map(value).collect();
            if values.len() < 2 {
                return None;
            }
            let along = |from: f64, to: f64| if rising { to - from } else { from - to };
            let steps = values.windows(2).all(|w| along(w[0], w[1]) >= -TREND_SLACK * w[0].abs());
            let agrees = steps && along(values[0], values[values.len() - 1]) > 0.0;
            let shown = values.iter().map(|v| show(*v)).collect::<Vec<_>>().join(" → ");
            Some(Check { agrees, numbers: format!("{} {shown}", system.name()) })
        };
        systems.iter().filter_map(of_system).collect()
    }

    fn hits_rise(&self) -> Verdict {
        let checks = self.trend(&[LC, FACE, GR, GSC], |r| r.flash_hits(), true, percent);
        Verdict::judge("FaCE table 3a", "the flash hit rate rises with the flash size", SIZES, checks)
    }

    fn write_reduction_rises(&self) -> Verdict {
        let checks = self.trend(&[LC, FACE, GR, GSC], |r| r.write_reduction, true, percent);
        Verdict::judge("FaCE table 3b", "the write reduction rises with the flash size", SIZES, checks)
    }

    fn hit_order(&self) -> Verdict {
        let check = |(size, [lc, gsc, gr, face]): (f64, [&TpccResult; 4])| {
            let [lc, gsc, gr, face] = [lc, gsc, gr, face].map(|r| r.flash_hits());
            Check {
                agrees: lc > gsc && gsc > gr && gsc > face && (gr - face).abs() <= ABOUT_EQUAL,
                numbers: format!(
                    "at {size} %: {} / {} / {} / {}",
                    percent(lc),
                    percent(gsc),
                    percent(gr),
                    percent(face)
                ),
            }
        };
        let checks = self.sizes([LC, GSC, GR, FACE]).into_iter().map(check).collect();
        let claim = "hit rates: lc > face-gsc > face-gr ≈ face (within 1 point)";
        Verdict::judge("FaCE table 3a", claim, "--system lc,face,face-gr,face-gsc", checks)
    }

    fn lc_ahead(&self) -> Verdict {
        let check = |(size, [lc, face]): (f64, [&TpccResult; 2])| {
            let points = (lc.flash_hits() - face.flash_hits()) * 100.0;
            Check { agrees: (2.0..=10.0).contains(&points), numbers: format!("{points:+.1} at {size} %") }
        };
        let checks = self.sizes([LC, FACE]).into_iter().map(check).collect();
        Verdict::judge(
            "FaCE §5.3",
            "lc's hit rate is 2 to 10 points above face's",
            "--system lc,face",
            checks,
        )
    }

    fn duplicates(&self) -> Verdict {
        let (low, high) = face::DUPLICATES_AT_16;
        let check = |r: &TpccResult| Check {
            agrees: (low..=high).contains(&r.duplicate_share),
            numbers: percent(r.duplicate_share),
        };
        let checks = self.at(FACE, 16.0).map(check).into_iter().collect();
        let claim = "30 to 40 % of face's slots hold superseded versions at 16 %";
        Verdict::judge("FaCE §5.3", claim, "--system face --flash-percent 16", checks)
    }

    fn lc_utilisation(&self) -> Verdict {
        let check = |r: &TpccResult| Check {
            agrees: r.flash_utilisation > face::LC_UTILISATION_MIN,
            numbers: format!("{} at {} %", percent(r.flash_utilisation), r.flash_percent),
        };
        let checks = self.only_on("mlc").rows(LC).into_iter().map(check).collect();
        let claim = "lc keeps the flash device above 90 % utilisation";
        Verdict::judge("FaCE table 4a", claim, "--system lc --flash-device mlc", checks)
    }

    fn lc_iops_fall(&self) -> Verdict {
        let checks = self.only_on("mlc").trend(&[LC], |r| r.flash_iops, false, whole);
        Verdict::judge(
            "FaCE table 4b",
            "lc's flash I/Os a second fall with the flash size",
            MLC_SIZES,
            checks,
        )
    }

    fn face_utilisation(&self) -> Verdict {
        let check = |r: &TpccResult| Check {
            agrees: r.flash_utilisation < face::FACE_UTILISATION_MAX,
            numbers: format!("{} {} at {} %", r.system, percent(r.flash_utilisation), r.flash_percent),
        };
        let grid = self.only_on("mlc");
        let checks = FACE_FAMILY.iter().flat_map(|s| grid.rows(*s)).map(check).collect();
        let claim = "face, face-gr and face-gsc keep the flash device below 85 % utilisation";
        Verdict::judge("FaCE table 4a", claim, "--system face,face-gr,face-gsc --flash-device mlc", checks)
    }

    fn face_iops_rise(&self) -> Verdict {
        let checks = self.only_on("mlc").trend(&FACE_FAMILY, |r| r.flash_iops, true, whole);
        Verdict::judge(
            "FaCE table 4b",
            "the face family's flash I/Os a second rise with the flash size",
            MLC_SIZES,
            checks,
        )
    }

    fn iops_factor(&self) -> Verdict {
        let grid = self.only_on("mlc");
        let check = |(gsc, lc): (&TpccResult, &TpccResult)| {
            ratio_check(gsc.flash_iops, lc.flash_iops, |factor| factor >= face::GSC_OVER_LC_IOPS_AT_20)
        };
        let checks = grid.at(GSC, 20.0).zip(grid.at(LC, 20.0)).map(check).into_iter().collect();
        let claim = "face-gsc does at least 4 times lc's flash I/Os a second at 20 %";
        Verdict::judge(
            "FaCE table 4b",
            claim,
            "--system lc,face-gsc --flash-percent 20 --flash-device mlc",
            checks,
        )
    }

    fn throughput_order(&self) -> Verdict {
        let check = |(size, [gsc, gr, face, lc]): (f64, [&TpccResult; 4])| {
            let tpmc = [gsc, gr, face, lc].map(|r| r.tpmC);
            let shown = tpmc.map(whole).join(" / ");
            Check { agrees: tpmc.windows(2).all(|w| w[0] > w[1]), numbers: format!("at {size} %: {shown}") }
        };
        let checks = self.only_on("mlc").sizes([GSC, GR, FACE, LC]).into_iter().map(check).collect();
        let claim = "tpmC on MLC: face-gsc > face-gr > face > lc";
        Verdict::judge(
            "FaCE figure 4a",
            claim,
            "--system lc,face,face-gr,face-gsc --flash-device mlc",
            checks,
        )
    }

    fn face_scales(&self) -> Verdict {
        let checks = self.only_on("mlc").trend(&FACE_FAMILY, |r| r.tpmC, true, whole);
        Verdict::judge(
            "FaCE figure 4a",
            "the face family's tpmC on MLC rises with the flash size",
            MLC_SIZES,
            checks,
        )
    }

    fn slc_margin(&self) -> Verdict {
        let check = |(size, [gsc, lc]): (f64, [&TpccResult; 2])| {
            let check = ratio_check(gsc.tpmC, lc.tpmC, |factor| factor >= face::GSC_OVER_LC_ON_SLC);
            Check { numbers: format!("{} at {size} %", check.numbers), ..check }
        };
        let checks = self.only_on("slc").sizes([GSC, LC]).into_iter().map(check).collect();
        let claim = "tpmC on SLC: face-gsc is at least 1.25 times lc";
        Verdict::judge("FaCE figure 4b", claim, "--system lc,face-gsc --flash-device slc", checks)
    }

    /// face-gsc against flash-only on MLC at the sizes in `sizes`.
    fn over_flash_only(
        &self,
        sizes: std::ops::RangeInclusive<f64>,
        agrees: impl Fn(f64) -> bool,
    ) -> Vec<Check> {
        let grid = self.only_on("mlc");
        let Some(flash_only) = grid.baseline(System::FlashOnly) else { return Vec::new() };
        let check = |gsc: &TpccResult| {
            let check = ratio_check(gsc.tpmC, flash_only.tpmC, &agrees);
            Check { numbers: format!("{} at {} %", check.numbers, gsc.flash_percent), ..check }
        };
        grid.rows(GSC).into_iter().filter(|r| sizes.contains(&r.flash_percent)).map(check).collect()
    }

    fn small_cache_beats_flash_only(&self) -> Verdict {
        let least = face::FACE_OVER_FLASH_ONLY_AT_10 * 0.8;
        let checks = self.over_flash_only(8.0..=12.0, |factor| factor >= least);
        let claim = "tpmC on MLC: face-gsc with flash of about 10 % (8 to 12) is about twice flash-only or more (≥ 1.6)";
        Verdict::judge(
            "FaCE §2.3",
            claim,
            "--system flash-only,face-gsc --flash-percent 8 --flash-device mlc",
            checks,
        )
    }

    fn flash_only_factor(&self) -> Verdict {
        let about = face::GSC_OVER_FLASH_ONLY_ON_MLC * 0.8..=face::GSC_OVER_FLASH_ONLY_ON_MLC * 1.2;
        let checks = self.over_flash_only(20.0..=20.0, |factor| about.contains(&factor));
        let claim = "tpmC on MLC: face-gsc at 20 % is about 3 times flash-only (2.4 to 3.6)";
        Verdict::judge(
            "FaCE figure 4a",
            claim,
            "--system flash-only,face-gsc --flash-percent 20 --flash-device mlc",
            checks,
        )
    }

    fn disk_only_last(&self) -> Verdict {
        let others =
            System::OF_FACE.iter().filter(|system| **system != System::DiskOnly).map(|system| system.name());
        let results = others.flat_map(|name| self.results.iter().filter(move |result| result.system == name));
        let slowest = results.min_by(|a, b| a.tpmC.total_cmp(&b.tpmC));
        let check = |(disk_only, slowest): (&TpccResult, &TpccResult)| Check {
            agrees: disk_only.tpmC < slowest.tpmC,
            numbers: format!(
                "disk-only {}, next {} {}",
                whole(disk_only.tpmC),
                slowest.system,
                whole(slowest.tpmC)
            ),
        };
        let checks = self.baseline(System::DiskOnly).zip(slowest).map(check).into_iter().collect();
        Verdict::judge(
            "FaCE figure 4",
            "disk-only has the lowest tpmC",
            "--system disk-only and another",
            checks,
        )
    }
}

const SIZES: &str = "two or more sizes, e.g. --flash-percent 4,8,12,16,20";
const MLC_SIZES: &str = "two or more sizes on MLC, e.g. --flash-percent 4,8,12,16,20 --flash-device mlc";

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn ratio_check(above: f64, below: f64, agrees: impl Fn(f64) -> bool) -> Check {
    if below <= 0.0 {
        return Check { agrees: false, numbers: format!("{} / {}", whole(above), whole(below)) };
    }
    let factor = above / below;
    Check { agrees: agrees(factor), numbers: format!("{factor:.2} × ({} / {})", whole(above), whole(below)) }
}

#[cfg(test)]
#[path = "tpcc_claims_tests.rs"]
mod tests;
