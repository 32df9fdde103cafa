//! SBP's claims over our restarts.

use super::evidence::{Evidence, MEDIA, Restarted, beginning, end, mean};
use crate::paper::{Check, Claim, Statement, Tolerance};

/// "No noticeable degradation": within this share of the tpmC with the directory in DRAM.
const NOTICEABLE: f64 = 0.05;
/// Throughput is stable from where it first reaches such a share of what both restarts end with: nobody says
/// which.
pub(crate) const STABLE: [f64; 3] = [0.85, 0.90, 0.95];
/// A cold restart reaches its rate in the end: so much of what the warm one ends with.
const REACHED: f64 = 0.95;

pub(crate) const CLAIMS: &[Claim<Evidence>] = &[
    Claim {
        statement: Statement {
            id: "sbp.figure4.metadata",
            source: "SBP figure 4",
            says: "the medium of the slot directory makes no visible difference: SLC and MLC lose less than 5 % \
                   against DRAM",
            tolerance: Tolerance::AtLeast(1.0 - NOTICEABLE),
            reason: Some(
                "the directory's writes are two for each page that enters, and each is waited for; on a small \
                 database many pages enter",
            ),
            ..Statement::BASE
        },
        judge: metadata,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure6.recovery",
            source: "SBP figure 6",
            says: "recovery after a crash is over sooner with the slot directory than without it",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: recovery,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure6.stable",
            source: "SBP figure 6",
            says: "throughput is stable sooner with the slot directory (85, 90 and 95 % of what both end with)",
            tolerance: Tolerance::AtEach(&STABLE),
            reason: Some("a cache of this size fills within seconds, and single points scatter"),
            ..Statement::BASE
        },
        judge: stable,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure7.redo-from-flash",
            source: "SBP figure 7",
            says: "with the slot directory flash is read from the first second of recovery, and serves more of redo \
                   than without it",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: redo_from_flash,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure9.shutdown",
            source: "SBP figure 9",
            says: "after a shutdown a warm restart beats a cold one at first; the cold one reaches its rate in the \
                   end (95 % of it)",
            tolerance: Tolerance::AtLeast(REACHED),
            reason: Some("a cache of this size fills within seconds, and single points scatter"),
            ..Statement::BASE
        },
        judge: after_shutdown,
    },
    Claim {
        statement: Statement {
            id: "sbp.s4.consistent",
            source: "SBP §4",
            says: "the database is consistent after every restart",
            tolerance: Tolerance::Exact,
            ..Statement::BASE
        },
        judge: consistent,
    },
];

fn metadata(evidence: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let Some(dram) = evidence.metadata.first() else { return Vec::new() };
    let medium = |(tpmc, (_, name)): (&f64, (&str, &str))| Check {
        agrees: tolerance.allows_of(*tpmc, *dram),
        numbers: format!("{name}: {tpmc:.0} tpmC, {:+.1} %", (tpmc / dram - 1.0) * 100.0),
    };
    evidence.metadata.iter().zip(MEDIA).skip(1).map(medium).collect()
}

fn sooner(warm: Option<f64>, cold: Option<f64>) -> Check {
    let seconds = |at: Option<f64>| at.map_or("not reached".to_owned(), |at| format!("{at:.1} s"));
    Check {
        agrees: warm.is_some_and(|warm| cold.is_none_or(|cold| warm < cold)),
        numbers: format!("{} with and {} without", seconds(warm), seconds(cold)),
    }
}

fn recovery(evidence: &Evidence, _: Tolerance) -> Vec<Check> {
    let [warm, cold] = &evidence.crash;
    vec![sooner(Some(warm.restart_s), Some(cold.restart_s))]
}

fn stable(evidence: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let [warm, cold] = &evidence.crash;
    let at = |share: &f64| {
        let level = share * evidence.level();
        let check = sooner(warm.stable_after(level), cold.stable_after(level));
        Check { numbers: format!("{:.0} %: {}", share * 100.0, check.numbers), ..check }
    };
    tolerance.shares().iter().map(at).collect()
}

fn redo_from_flash(evidence: &Evidence, _: Tolerance) -> Vec<Check> {
    let [warm, cold] = &evidence.crash;
    let (with, without) = (warm.redo_share_from_flash(), cold.redo_share_from_flash());
    let numbers = format!("{:.0} % and {:.0} % of redo's pages", with * 100.0, without * 100.0);
    vec![Check { agrees: warm.redo_from_flash > 0 && with > without, numbers }]
}

fn after_shutdown(evidence: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let of = |part: fn(&Restarted) -> f64| evidence.shutdown.each_ref().map(part);
    let [first, first_cold] = of(|restarted| mean(beginning(&restarted.tpmc)));
    let [last, last_cold] = of(|restarted| mean(end(&restarted.tpmc)));
    let [after, after_cold] = of(Restarted::tpmc_after);
    vec![
        Check {
            agrees: first > first_cold,
            numbers: format!("at first {first:.0} and {first_cold:.0} tpmC"),
        },
        Check {
            agrees: tolerance.allows_of(last_cold, last),
            numbers: format!(
                "in the end {last:.0} and {last_cold:.0}, on the whole {after:.0} and {after_cold:.0} tpmC"
            ),
        },
    ]
}

fn consistent(evidence: &Evidence, _: Tolerance) -> Vec<Check> {
    let check = |restarted: &Restarted| {
        let what = if restarted.warm { "warm" } else { "cold" };
        let how = if restarted.consistent { "consistent" } else { "not consistent" };
        Check { agrees: restarted.consistent, numbers: format!("{what}: {how}") }
    };
    evidence.crash.iter().chain(&evidence.shutdown).map(check).collect()
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
