//! FaCE's claims about LC over an LC that remembers no page that has left (`history` = 0), and about pulling
//! victims from DRAM.
//!
//! Which LC the paper had it does not say. Its lead over mvFIFO in hits is 7.3 to 8.8 points at every size.
//! Ours with its usual history leads by 7 to 18 points, by most with small caches. Without a history its lead
//! is 6 to 10 points after a minute; in long runs it hits less than mvFIFO from 8 % on.

use super::grid::{GSC, Grid, LC};
use super::machines::Machines;
use super::throughput::{FLAT, lc_flat};
use super::{FLASH_HITS, hits};
use crate::paper::{Check, Claim, Statement, Tolerance};
use crate::result::TpccResult;
use entresol_core::{PolicyKind, System};

/// "Negligible" (section 3.3): within so many points.
const NEGLIGIBLE_POINTS: f64 = 1.0;

/// Why an LC that forgets does worse in long runs.
const FORGETS: &str = "without a history a page must be referenced twice while it is on flash, or it is the next to leave; those that were \
                       stay for long. So the longer it runs, the more of the cache is stale";

pub(crate) const CLAIMS: &[Claim<Machines>] = &[
    Claim {
        statement: Statement {
            id: "face.s5-3.lc-lead-forgetful",
            source: "FaCE §5.3",
            says: "an lc that forgets: its hit rate is 2 to 10 points above face's",
            tolerance: Tolerance::Between(2.0, 10.0),
            needs: "runs of an lc without history",
            reason: Some(FORGETS),
            ..Statement::BASE
        },
        judge: |machines, tolerance| forgetful(machines, |results| hits::lc_lead(results, tolerance)),
    },
    Claim {
        statement: Statement {
            id: "face.table3a.hit-order-forgetful",
            source: "FaCE table 3a",
            says: "an lc that forgets: its hit rate is above face-gsc's at every size",
            needs: "runs of an lc without history",
            reason: Some(FORGETS),
            ..Statement::BASE
        },
        judge: |machines, _| forgetful(machines, hits_above_gsc),
    },
    Claim {
        statement: Statement {
            id: "face.table3b.lc-reduction-forgetful",
            source: "FaCE table 3b, §5.3",
            says: "an lc that forgets: its write reduction is above that of face, face-gr and face-gsc at every size",
            needs: "runs of an lc without history",
            set_on_it: Some(hits::DIRTY_SHARE),
            reason: Some(FORGETS),
            ..Statement::BASE
        },
        judge: |machines, tolerance| forgetful(machines, |results| hits::lc_reduction(results, tolerance)),
    },
    Claim {
        statement: Statement {
            id: "face.figure4a.lc-flat-forgetful",
            source: "FaCE figure 4a",
            says: "an lc that forgets: its tpmC on MLC remains flat as the flash grows (largest by smallest at most 1.1)",
            tolerance: Tolerance::AtMost(FLAT),
            needs: "runs of an lc without history",
            ..Statement::BASE
        },
        judge: |machines, tolerance| forgetful(machines, |results| lc_flat(results, tolerance)),
    },
    Claim {
        statement: Statement {
            id: "face.s3-3.pulling",
            source: "FaCE §3.3",
            says: "pulling victims from DRAM has a negligible effect on the hits of DRAM and flash (less than a point)",
            tolerance: Tolerance::Below(NEGLIGIBLE_POINTS),
            needs: "a run of face-gsc that pulls none",
            ..Statement::BASE
        },
        judge: pulling,
    },
];

/// Judges the results with an LC that forgets, if there are any.
fn forgetful(machines: &Machines, judge: impl Fn(&[TpccResult]) -> Vec<Check>) -> Vec<Check> {
    if machines.forgets.is_empty() { Vec::new() } else { judge(&machines.with_forgetful_lc()) }
}

fn hits_above_gsc(results: &[TpccResult]) -> Vec<Check> {
    let check = |(size, [lc, gsc]): (f64, [&TpccResult; 2])| {
        let [lc, gsc] = [lc, gsc].map(|r| r.flash_hits() * 100.0);
        Check { agrees: lc > gsc, numbers: format!("at {size} %: {lc:.1} and {gsc:.1} %") }
    };
    Grid::of(results).sizes([LC, GSC]).into_iter().map(check).collect()
}

fn pulling(machines: &Machines, tolerance: Tolerance) -> Vec<Check> {
    let mut checks = Vec::new();
    for without in &machines.unpulled {
        let Some(with) = Grid::of(&machines.mlc).at(GSC, without.flash_percent) else { continue };
        for (what, of) in
            [("DRAM", (|r| r.dram_hit_rate) as fn(&TpccResult) -> f64), ("flash", |r| r.flash_hits())]
        {
            let [with, without] = [with, without].map(|r| of(r) * 100.0);
            checks.push(Check {
                agrees: tolerance.allows((with - without).abs()),
                numbers: format!("{what} hits {with:.2} % with it, {without:.2} % without"),
            });
        }
    }
    checks
}

/// LC's lead over mvFIFO in hits at each size where both ran, points: ours remembering, forgetting, and the
/// paper's.
pub(crate) fn leads(machines: &Machines) -> Vec<(f64, [f64; 2], Option<f64>)> {
    let face = System::Cached(PolicyKind::Face);
    let lead = |results: &[TpccResult], size: f64| {
        let grid = Grid::of(results);
        let of = |system: System| grid.at(system, size).map(|r| r.flash_hits() * 100.0);
        Some(of(LC)? - of(face)?)
    };
    let forgets = machines.with_forgetful_lc();
    let at = |r: &TpccResult| {
        let size = r.flash_percent;
        let paper = FLASH_HITS.at(LC, size).zip(FLASH_HITS.at(face, size)).map(|(lc, face)| lc - face);
        Some((size, [lead(&machines.mlc, size)?, lead(&forgets, size)?], paper))
    };
    machines.forgets.iter().filter_map(at).collect()
}
