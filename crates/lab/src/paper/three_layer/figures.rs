//! 3LA's claims about more money: where it saves nothing (figures 3 and 4), and where more n costs time
//! (figures 5 and 6).

use super::over_n::{falls, over_n, rises, writers};
use super::{POLICIES, Run, Workload};
use crate::paper::{Check, Claim, Statement, Tolerance};
use entresol_core::PolicyKind;

/// "No performance improvement can be observed" (§4.1), in a chart: less than this share of T_v.
const NOTHING: f64 = 0.02;
/// Because the flash is "large enough to accommodate all pages": less than this share of the disk's part of
/// T_v.
const NOTHING_OF_DISK: f64 = 0.01;
/// No fewer disk reads: less than this share.
const AS_MANY: f64 = 0.02;

pub(super) const CLAIMS: &[Claim<[Workload]>] = &[
    Claim {
        statement: Statement {
            id: "3la.figures3-4.disk-time",
            source: "3LA figures 3, 4",
            says: "once the flash of n = 8 holds all pages, twice the money saves less than 1 % of the disk's time \
                   (glb, loc)",
            tolerance: Tolerance::Below(NOTHING_OF_DISK),
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, tolerance| {
            workloads.iter().flat_map(|workload| no_fewer_disk_accesses(workload, tolerance)).collect()
        },
    },
    Claim {
        statement: Statement {
            id: "3la.figures3-4.no-improvement",
            source: "3LA figures 3, 4",
            says: "there, \"no performance improvement can be observed\": less than 2 % of T_v (glb, loc)",
            tolerance: Tolerance::Below(NOTHING),
            needs: "the trace",
            reason: Some(
                "twice the money doubles DRAM as well, so fewer pages go to and from flash; glb, which writes a page \
                 to flash for each that DRAM takes in, gains most. Disk accesses, which the paper's reason is about, \
                 do not fall, and the gain is a share of the chart's height that nobody would see",
            ),
            ..Statement::BASE
        },
        judge: |workloads, tolerance| {
            workloads.iter().flat_map(|workload| no_improvement(workload, tolerance)).collect()
        },
    },
    Claim {
        statement: Statement {
            id: "3la.figure4.read-only-gains",
            source: "3LA figure 4",
            says: "a read-only load gains more from larger b than TPC-C does (T_v of loc, n = 8, largest by smallest b)",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: read_only_gains,
    },
    Claim {
        statement: Statement {
            id: "3la.s4-2.ram-holds-all",
            source: "3LA §4.2",
            says: "where RAM alone holds all pages, trading RAM for flash brings nothing: three layers are no faster than two (n = 2, 8)",
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| workloads.iter().flat_map(no_faster).collect(),
    },
    Claim {
        statement: Statement {
            id: "3la.figure5.rises-with-n",
            source: "3LA figure 5",
            says: "where n = 2 holds all pages, more n costs time",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, rises_with_n),
    },
    Claim {
        statement: Statement {
            id: "3la.figure6a.why-it-rises",
            source: "3LA figure 6a",
            says: "there, more n means fewer DRAM hits and more flash accesses, and no fewer disk reads",
            tolerance: Tolerance::AtLeast(1.0 - AS_MANY),
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, tolerance| writers(workloads, |workload| why_it_rises(workload, tolerance)),
    },
    Claim {
        statement: Statement {
            id: "3la.figure6b.energy-falls",
            source: "3LA figure 6b",
            says: "there, energy falls with n nevertheless",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, energy_at_all),
    },
];

/// Runs at n = 8 with flash for all pages, for some money and for twice as much.
fn doubled(workload: &Workload, check: impl Fn(&str, &Run, &Run) -> Check) -> Vec<Check> {
    let [small, large] = workload.enough();
    let of = |policy: PolicyKind| {
        let at = |b| workload.at(b, Some(policy), 8.0);
        Some(check(&format!("{}, b = {small} and {large}", policy.name()), at(small)?, at(large)?))
    };
    POLICIES.into_iter().filter_map(of).collect()
}

fn no_fewer_disk_accesses(workload: &Workload, tolerance: Tolerance) -> Vec<Check> {
    doubled(workload, |what, before, after| {
        let [before, after] = [before, after].map(|run| run.result.td_ms / 1e3);
        let saved = 1.0 - after / before;
        Check {
            agrees: tolerance.allows(saved),
            numbers: format!("{what}: {before:.0} → {after:.0} s of disk, {:.1} % saved", saved * 100.0),
        }
    })
}

fn no_improvement(workload: &Workload, tolerance: Tolerance) -> Vec<Check> {
    // What the eye has to compare with in such a chart.
    let highest = workload.runs.iter().map(Run::tv_s).fold(0.0, f64::max);
    doubled(workload, |what, before, after| {
        let [before, after] = [before, after].map(Run::tv_s);
        let saved = 1.0 - after / before;
        Check {
            agrees: tolerance.allows(saved),
            numbers: format!(
                "{what}: {before:.0} → {after:.0} s, {:.1} % saved, {:.1} % of the chart's height",
                saved * 100.0,
                (before - after) / highest * 100.0
            ),
        }
    })
}

fn read_only_gains(workloads: &[Workload], _: Tolerance) -> Vec<Check> {
    let ratio = |workload: &Workload| {
        let budgets = workload.budgets();
        let at = |b: Option<&u32>| {
            b.and_then(|b| workload.at(*b, Some(PolicyKind::Loc), 8.0)).map_or(f64::NAN, Run::tv_s)
        };
        at(budgets.last()) / at(budgets.first())
    };
    let of = |read_only: bool| workloads.iter().find(|w| w.is_read_only() == read_only).map(ratio);
    let check = |(read, write): (f64, f64)| Check {
        agrees: read < write,
        numbers: format!("read-only {read:.2}, TPC-C {write:.2}"),
    };
    of(true).zip(of(false)).map(check).into_iter().collect()
}

fn no_faster(workload: &Workload) -> Vec<Check> {
    let b = workload.pages;
    let Some(two) = workload.two_layers(b).map(Run::tv_s) else { return Vec::new() };
    let of = |policy: PolicyKind| {
        let times = [2.0, 8.0].map(|n| workload.at(b, Some(policy), n).map(Run::tv_s));
        let [Some(few), Some(many)] = times else { return None };
        let numbers = format!("{}, b = {b}: {few:.0} and {many:.0} s, two layers {two:.0}", policy.name());
        Some(Check { agrees: few.min(many) >= two, numbers })
    };
    POLICIES.into_iter().filter_map(of).collect()
}

fn rises_with_n(workload: &Workload) -> Vec<Check> {
    over_n(workload, workload.b_all, ("s", 1), Run::tv_s, |_, values| rises(values))
}

fn why_it_rises(workload: &Workload, tolerance: Tolerance) -> Vec<Check> {
    let b = workload.b_all;
    let hits = |run: &Run| run.result.dram_hit_rate * 100.0;
    let flash = |run: &Run| (run.result.flash_reads + run.result.flash_writes) as f64 / 1e3;
    let disk = |run: &Run| run.result.disk_reads as f64 / 1e3;
    let mut checks = over_n(workload, b, ("DRAM hits, %", 2), hits, |_, values| falls(values));
    checks.extend(over_n(workload, b, ("flash accesses, thousands", 0), flash, |_, values| rises(values)));
    checks.extend(over_n(workload, b, ("disk reads, thousands", 1), disk, |_, values| {
        values.iter().all(|value| tolerance.allows_of(*value, values[0]))
    }));
    checks
}

fn energy_at_all(workload: &Workload) -> Vec<Check> {
    over_n(workload, workload.b_all, ("J", 1), Run::energy_j, |_, values| falls(values))
}
