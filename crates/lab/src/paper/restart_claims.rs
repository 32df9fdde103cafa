//! FaCE's claims about `bench restart` (table 6, figure 6, §5.5) over our results.
//!
//! Invariant: systems are compared at the same checkpoint interval only.

use super::face;
use super::verdict::{Check, Verdict};
use crate::config::System;
use crate::result::RestartResult;
use entresol_core::PolicyKind;

const GSC: System = System::Cached(PolicyKind::FaceGsc);

/// Width of the windows in which throughput after a restart is compared, seconds: single seconds are noise.
pub const WINDOW_S: f64 = 10.0;
/// The largest restore of a directory by the smallest that still counts as "regardless of the checkpoint interval".
const RESTORE_SPREAD_MAX: f64 = 1.5;

/// All claims, in the order of the paper. `results` are of one configuration: one pair of devices, any systems and
/// checkpoint intervals.
pub fn verdicts(results: &[RestartResult]) -> Vec<Verdict> {
    vec![
        restart_factor(results),
        redo_from_flash(results),
        directory_restore(results),
        throughput_after(results),
    ]
}

fn of_system(results: &[RestartResult], system: System) -> impl Iterator<Item = &RestartResult> {
    results.iter().filter(move |r| r.system == system.name())
}

/// face-gsc with disk-only at the same interval.
fn pairs(results: &[RestartResult]) -> Vec<(&RestartResult, &RestartResult)> {
    let partner = |gsc: &RestartResult| {
        of_system(results, System::DiskOnly)
            .find(|disk| (disk.checkpoint_interval_s - gsc.checkpoint_interval_s).abs() < 1e-9)
    };
    of_system(results, GSC).filter_map(|gsc| Some((gsc, partner(gsc)?))).collect()
}

fn restart_factor(results: &[RestartResult]) -> Verdict {
    let check = |(gsc, disk): (&RestartResult, &RestartResult)| {
        let factor = disk.restart_s / gsc.restart_s;
        Check {
            agrees: factor >= face::RESTART_FACTOR_MIN,
            numbers: format!(
                "{factor:.1} × at {} s ({:.1} s / {:.1} s)",
                gsc.checkpoint_interval_s, disk.restart_s, gsc.restart_s
            ),
        }
    };
    let checks = pairs(results).into_iter().map(check).collect();
    let claim = "face-gsc restarts at least 4 times faster than disk-only at every checkpoint interval";
    Verdict::judge("FaCE table 6", claim, "--system disk-only,face-gsc", checks)
}

fn redo_from_flash(results: &[RestartResult]) -> Verdict {
    let check = |r: &RestartResult| Check {
        agrees: r.redo_from_flash_share >= face::REDO_FROM_FLASH_MIN,
        numbers: format!("{:.1} % at {} s", r.redo_from_flash_share * 100.0, r.checkpoint_interval_s),
    };
    let checks = of_system(results, GSC).map(check).collect();
    let claim = "at least 98 % of the pages that face-gsc's recovery needs come from flash";
    Verdict::judge("FaCE §5.5", claim, "--system face-gsc", checks)
}

fn directory_restore(results: &[RestartResult]) -> Verdict {
    let times: Vec<f64> = of_system(results, GSC).map(|r| r.directory_restore_s).collect();
    let (low, high) = times.iter().fold((f64::MAX, 0.0_f64), |(low, high), t| (low.min(*t), high.max(*t)));
    let agrees = high <= low * RESTORE_SPREAD_MAX;
    let check = Check { agrees, numbers: format!("{low:.3} s to {high:.3} s (the paper's 4 GB: 2.5 s)") };
    let checks = if times.len() < 2 { Vec::new() } else { vec![check] };
    let claim =
        "restoring the directory takes about the same time at every checkpoint interval (within 1.5 ×)";
    Verdict::judge("FaCE §5.5", claim, "--system face-gsc --checkpoint-interval 60,120,180", checks)
}

fn throughput_after(results: &[RestartResult]) -> Verdict {
    let check = |(gsc, disk): (&RestartResult, &RestartResult)| {
        let windows: Vec<_> = windows(&gsc.tpmC_after).into_iter().zip(windows(&disk.tpmC_after)).collect();
        let below = windows.iter().position(|(gsc, disk)| gsc < disk);
        let above = windows.iter().filter(|(gsc, disk)| gsc > disk).count();
        let place = match below {
            Some(window) => format!("below it from second {:.0}", window as f64 * WINDOW_S),
            None => format!("above in {above} of {} windows, below in none", windows.len()),
        };
        Check {
            agrees: below.is_none() && above > 0,
            numbers: format!("at {} s: {place}", gsc.checkpoint_interval_s),
        }
    };
    let checks = pairs(results).into_iter().map(check).collect();
    let claim = "after a kill, face-gsc's tpmC is above disk-only's at all times (windows of 10 s; equal while both are down)";
    Verdict::judge("FaCE figure 6", claim, "--system disk-only,face-gsc", checks)
}

/// Means of a series `[second, tpmC]` over windows of [`WINDOW_S`] from second 0; a window without a point counts as 0.
pub fn windows(series: &[[f64; 2]]) -> Vec<f64> {
    let end = series.iter().map(|[second, _]| *second).fold(0.0, f64::max);
    let count = if series.is_empty() { 0 } else { (end / WINDOW_S) as usize + 1 };
    let mean = |window: usize| {
        let inside = |second: f64| (second / WINDOW_S) as usize == window;
        let (sum, points) = series
            .iter()
            .filter(|[second, _]| inside(*second))
            .fold((0.0, 0u32), |(sum, points), [_, tpmc]| (sum + tpmc, points + 1));
        if points == 0 { 0.0 } else { sum / f64::from(points) }
    };
    (0..count).map(mean).collect()
}

#[cfg(test)]
#[path = "restart_claims_tests.rs"]
mod tests;
