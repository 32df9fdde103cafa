//! Claims of 3LA that no figure shows: of the algorithms (section 3.3), and of faster disks (footnote 5).

use super::over_n::{falls, over_n, shown, writers};
use super::{B_TABLE_2, FACTORS, HDD3_MS, POLICIES, Run, Workload};
use crate::cost::AccessCosts;
use crate::paper::{Check, Claim, Statement, Tolerance};
use entresol_core::PolicyKind;

/// "Equals": within this share.
const EQUAL: f64 = 0.02;

pub(super) const CLAIMS: &[Claim<[Workload]>] = &[
    Claim {
        statement: Statement {
            id: "3la.s3-3.global-hits",
            source: "3LA §3.3",
            says: "glb hits DRAM or flash more often than loc: fewer disk reads at every n (b = 1000)",
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, global_hits),
    },
    Claim {
        statement: Statement {
            id: "3la.s3-3.flash-writes",
            source: "3LA §3.3",
            says: "glb writes as many pages to flash as DRAM evicts (b = 1000, within 2 %)",
            tolerance: Tolerance::Between(1.0 - EQUAL, 1.0 + EQUAL),
            needs: "the trace",
            reason: Some(
                "pages reach the flash through staging in memory, from which a page that comes back at once is taken without \
                 having been written",
            ),
            ..Statement::BASE
        },
        judge: |workloads, tolerance| writers(workloads, |workload| flash_writes(workload, tolerance)),
    },
    Claim {
        statement: Statement {
            id: "3la.footnote5.hdd3",
            source: "3LA footnote 5",
            says: "with HDD3 (2 ms instead of 4.5) it is similar: three layers are faster than two, and T_v falls with n (b = 1000)",
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, on_hdd3),
    },
];

fn global_hits(workload: &Workload) -> Vec<Check> {
    let of = |n: f64| {
        let reads = |policy| workload.at(B_TABLE_2, Some(policy), n).map(|run| run.result.disk_reads);
        let (glb, loc) = reads(PolicyKind::Glb).zip(reads(PolicyKind::Loc))?;
        Some(Check { agrees: glb < loc, numbers: format!("n = {n}: {glb} and {loc} disk reads") })
    };
    FACTORS.into_iter().filter_map(of).collect()
}

fn flash_writes(workload: &Workload, tolerance: Tolerance) -> Vec<Check> {
    let check = |run: &Run| {
        let evicted = run.result.dirty_evictions + run.result.clean_evictions;
        let ratio = run.result.flash_writes as f64 / evicted.max(1) as f64;
        Check {
            agrees: tolerance.allows(ratio),
            numbers: format!("n = {}: {} of {evicted} evicted", run.n, run.result.flash_writes),
        }
    };
    workload.over_n(B_TABLE_2, PolicyKind::Glb).into_iter().map(check).collect()
}

/// T_v with a disk of HDD3's times, seconds.
fn tv_on_hdd3(run: &Run) -> f64 {
    (run.result.tf_ms + run.result.td_ms * HDD3_MS / AccessCosts::PAPER_DISK.read_ms) / 1e3
}

fn on_hdd3(workload: &Workload) -> Vec<Check> {
    let Some(two) = workload.two_layers(B_TABLE_2).map(tv_on_hdd3) else { return Vec::new() };
    let mut checks = over_n(workload, B_TABLE_2, ("s", 0), tv_on_hdd3, |_, values| falls(values));
    for policy in POLICIES {
        let runs = workload.over_n(B_TABLE_2, policy);
        let shares: Vec<f64> = runs.into_iter().map(|run| tv_on_hdd3(run) / two * 100.0).collect();
        checks.push(Check {
            agrees: shares.iter().all(|share| *share < 100.0),
            numbers: format!("{} {} % of 2LA's", policy.name(), shown(&shares, 0)),
        });
    }
    checks
}
