//! 3LA's claims over runs as its figures are drawn, and over runs that contradict them.

use super::*;
use crate::paper::Outcome;
use crate::paper::claim::tests::{Spoiler, assert_spoiled, assert_tolerances_decide, outcome_of};
use crate::replay::SimulationResult;
use entresol_core::PolicyKind;

const GLB: Option<PolicyKind> = Some(PolicyKind::Glb);
const LOC: Option<PolicyKind> = Some(PolicyKind::Loc);
/// Of so many, n = 8 gives flash for all at b = 4000, and n = 2 at b = 7500.
const PAGES: u32 = 15_000;
const B_ALL: u32 = PAGES / 2;

/// T_v, seconds, by b, policy and n, of TPC-C.
const TV_S: [(u32, Option<PolicyKind>, [f64; 4]); 10] = [
    (1000, GLB, [800.0, 700.0, 600.0, 500.0]),
    (1000, LOC, [900.0, 750.0, 590.0, 450.0]),
    (4000, GLB, [400.0, 390.0, 380.0, 300.0]),
    (4000, LOC, [400.0, 390.0, 380.0, 300.0]),
    (B_ALL, GLB, [295.0, 296.0, 297.0, 298.0]),
    (B_ALL, LOC, [295.0, 296.0, 297.0, 298.0]),
    (8000, GLB, [295.0, 295.0, 295.0, 295.0]),
    (8000, LOC, [295.0, 295.0, 295.0, 295.0]),
    (PAGES, GLB, [250.0, 251.0, 252.0, 253.0]),
    (PAGES, LOC, [250.0, 251.0, 252.0, 253.0]),
];

fn run((b, policy, n): (u32, Option<PolicyKind>, f64), tv_s: f64) -> Run {
    let (times, all) = (n as u64, b == B_ALL);
    let result = SimulationResult {
        tv_ms: tv_s * 1e3,
        tf_ms: tv_s * 10.0,
        td_ms: if b > 1000 { 1e6 } else { tv_s * 990.0 },
        dram_hit_rate: 0.9 - n / 100.0,
        flash_reads: 1000 * times,
        dirty_evictions: 600 * times,
        clean_evictions: 400 * times,
        flash_writes: if policy == LOC && !all { 10_000 - 1000 * times } else { 1000 * times },
        disk_reads: if all { 5000 } else { 10_000 - 1000 * times + u64::from(policy == LOC) },
        ..SimulationResult::default()
    };
    Run { b, n, policy, result }
}

fn workload(figure: &'static str) -> Workload {
    let mut runs = vec![run((1000, None, 0.0), 1000.0), run((4000, None, 0.0), 500.0)];
    runs.push(run((PAGES, None, 0.0), 150.0));
    for (b, policy, tv_s) in TV_S {
        // The read-only load gains more.
        let share = if figure == READ_ONLY && b > 1000 { 0.7 } else { 1.0 };
        runs.extend(FACTORS.into_iter().zip(tv_s).map(|(n, tv_s)| run((b, policy, n), tv_s * share)));
    }
    Workload { figure, name: figure.into(), pages: PAGES, runs, b_all: B_ALL }
}

fn as_drawn() -> Vec<Workload> {
    vec![workload("figures 2, 3, 5 and 6"), workload(READ_ONLY)]
}

fn result(workload: &mut Workload, b: u32, policy: Option<PolicyKind>, n: f64) -> &mut SimulationResult {
    let run = workload.runs.iter_mut().find(|run| (run.b, run.policy, run.n) == (b, policy, n));
    &mut run.expect("a run of the fixture").result
}

#[test]
fn the_figures_satisfy_the_claims() {
    let judged = judged_on(&as_drawn());
    // Those of shutdowns have tests of their own.
    let claims: Vec<_> = statements(CLAIMS.into_iter().flatten()).collect();
    assert_eq!(judged.len(), claims.len());
    for claim in claims {
        // TPC-E's trace is not public.
        let untested = claim.id == "3la.figure2a.loc-saves";
        let expected = if untested { Outcome::NotJudged } else { Outcome::Holds };
        assert_eq!(outcome_of(&judged, claim.id), expected, "{judged:?}");
    }
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS.into_iter().flatten(), as_drawn().as_slice());
}

#[test]
fn each_claim_fails_on_evidence_that_contradicts_it() {
    let spoilers: [Spoiler<Vec<Workload>>; 16] = [
        ("3la.figures2a-3.beats-two-layers", |w| result(&mut w[0], 4000, None, 0.0).tv_ms = 350e3),
        ("3la.table2.falls-with-n", |w| result(&mut w[0], 1000, GLB, 4.0).tv_ms = 810e3),
        ("3la.table2.overtakes", |w| result(&mut w[0], 1000, LOC, 2.0).tv_ms = 790e3),
        ("3la.figure2b.accesses", |w| result(&mut w[0], 1000, LOC, 8.0).flash_reads = 0),
        ("3la.figure2b.flash-writes", |w| {
            let result = result(&mut w[0], 1000, GLB, 8.0);
            (result.flash_writes, result.dirty_evictions, result.clean_evictions) = (100, 60, 40);
        }),
        ("3la.table2.energy", |w| {
            result(&mut w[0], 1000, None, 0.0).tv_ms = 910e3;
            for n in FACTORS {
                result(&mut w[0], 1000, GLB, n).tv_ms = 900e3 - n * 2.5e3;
            }
        }),
        ("3la.s3-3.global-hits", |w| result(&mut w[0], 1000, GLB, 4.0).disk_reads += 2),
        ("3la.s3-3.flash-writes", |w| result(&mut w[0], 1000, GLB, 4.0).clean_evictions += 100),
        ("3la.footnote5.hdd3", |w| result(&mut w[0], 1000, GLB, 4.0).td_ms += 200e3),
        ("3la.figures3-4.disk-time", |w| result(&mut w[0], 8000, LOC, 8.0).td_ms = 0.98e6),
        ("3la.figures3-4.no-improvement", |w| result(&mut w[1], 8000, GLB, 8.0).tv_ms = 200e3),
        ("3la.figure4.read-only-gains", |w| {
            result(&mut w[1], 4000, LOC, 8.0).tv_ms = 320e3;
            result(&mut w[1], 8000, LOC, 8.0).tv_ms = 318e3;
        }),
        ("3la.s4-2.ram-holds-all", |w| result(&mut w[0], PAGES, LOC, 8.0).tv_ms = 149e3),
        ("3la.figure5.rises-with-n", |w| result(&mut w[0], B_ALL, GLB, 8.0).tv_ms = 290e3),
        ("3la.figure6a.why-it-rises", |w| result(&mut w[0], B_ALL, LOC, 8.0).disk_reads = 4800),
        ("3la.figure6b.energy-falls", |w| result(&mut w[0], B_ALL, LOC, 8.0).tv_ms = 1000e3),
    ];
    assert_spoiled(&spoilers, as_drawn, |workloads| judged_on(workloads));
}
