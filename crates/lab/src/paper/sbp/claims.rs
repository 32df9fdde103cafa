//! SBP's claims over our restarts.

use super::evidence::{Evidence, MEDIA, Ran, Restarted, beginning, end, mean, mean_until};
use super::{BASE_BY_PROTOTYPE, METADATA_BYTES, RECOVERY_SAVED, SSD_BYTES};
use crate::paper::{Check, Claim, Statement, Tolerance};
use entresol_core::PolicyKind;
use entresol_engine::TierOptions;
use entresol_format::BLOCK_BYTES;

/// "No noticeable degradation": within this share of the tpmC with the directory in DRAM.
const NOTICEABLE: f64 = 0.05;
/// "Very small" (section 5.3): at most this share of the flash.
const SMALL: f64 = 0.01;
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
            id: "sbp.s5-3.metadata-size",
            source: "SBP §5.3",
            says: "metadata is very small in comparison with the SSD: 23 MB of 3.6 GB, 0.6 % (at most 1 %)",
            tolerance: Tolerance::AtMost(SMALL),
            figures: &[METADATA_BYTES / SSD_BYTES],
            ..Statement::BASE
        },
        judge: metadata_size,
    },
    Claim {
        statement: Statement {
            id: "sbp.s3.directory-writes",
            source: "SBP §3, FaCE §4.1",
            says: "each page that enters the full flash costs two writes of the slot directory, one to invalidate and one to validate \
                   (within 10 %)",
            tolerance: Tolerance::Between(2.0 * 0.9, 2.0 * 1.1),
            ..Statement::BASE
        },
        judge: directory_writes,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure6.recovery",
            source: "SBP figure 6",
            says: "recovery after a crash is over sooner with the slot directory than without it (20 %)",
            tolerance: Tolerance::Above(0.0),
            figures: &[RECOVERY_SAVED],
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
            says: "with the slot directory flash is read from the first second of recovery, without it not at first, and it \
                   serves more of redo",
            tolerance: Tolerance::Direction,
            ..Statement::BASE
        },
        judge: redo_from_flash,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure5.log-pages",
            source: "SBP figure 5",
            says: "the system without an SSD writes more log pages in a given time than the prototype, with and without \
                   persistent metadata",
            reason: Some(
                "our log is written in sectors as commits ask for it, and several commits share a write: its pages grow with the \
                 transactions, which are fewer without flash",
            ),
            ..Statement::BASE
        },
        judge: log_pages,
    },
    Claim {
        statement: Statement {
            id: "sbp.s5-5.base",
            source: "SBP §5.5",
            says: "recovery without an SSD takes longer than the prototype's without persistence (about 20 %)",
            tolerance: Tolerance::Above(1.0),
            figures: &[BASE_BY_PROTOTYPE],
            reason: Some(
                "our log has images of pages, DB2's has none: without an SSD most pages are rebuilt from them without a read, and \
                 the prototype has done 1.6 times the work, and pays two writes of its directory for each page that enters",
            ),
            ..Statement::BASE
        },
        judge: base,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure8.cpu",
            source: "SBP figure 8",
            says: "from the crash until the cold restart has been at work for ten seconds more of the processor is used with the \
                   slot directory",
            ..Statement::BASE
        },
        judge: cpu,
    },
    Claim {
        statement: Statement {
            id: "sbp.figure9.peak",
            source: "SBP figure 9",
            says: "after a shutdown a warm restart's tpmC peaks at first and then falls to a level",
            reason: Some(
                "DRAM is filled within a second here, and page cleaning begins at once: there is no time without writes to disk",
            ),
            ..Statement::BASE
        },
        judge: peak,
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

/// Counted from the layout of a cache of the paper's size.
fn metadata_size(_: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let slots = (SSD_BYTES / BLOCK_BYTES as f64) as u32;
    let directory = TierOptions::new(PolicyKind::Tac, slots).layout().directory_blocks();
    let share = directory as f64 / f64::from(slots);
    let bytes = directory as f64 * BLOCK_BYTES as f64;
    let numbers = format!("{:.2} %, {:.0} MB for 3.6 GB", share * 100.0, bytes / 1e6);
    vec![Check { agrees: tolerance.allows(share), numbers }]
}

/// In a warm cache: a free slot needs no invalidation.
fn directory_writes(evidence: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let [warm, cold] = evidence.shutdown.each_ref().map(|restarted| restarted.directory_writes);
    let numbers = format!("{warm:.2} for each page written to flash ({cold:.2} while a cold cache fills)");
    vec![Check { agrees: tolerance.allows(warm), numbers }]
}

fn sooner(warm: Option<f64>, cold: Option<f64>) -> Check {
    let seconds = |at: Option<f64>| at.map_or("not reached".to_owned(), |at| format!("{at:.1} s"));
    Check {
        agrees: warm.is_some_and(|warm| cold.is_none_or(|cold| warm < cold)),
        numbers: format!("{} with and {} without", seconds(warm), seconds(cold)),
    }
}

fn recovery(evidence: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let [warm, cold] = evidence.crash.each_ref().map(|restarted| restarted.restart_s);
    let saved = 1.0 - warm / cold;
    let numbers = format!("{warm:.1} s with and {cold:.1} without, {:.0} % saved", saved * 100.0);
    vec![Check { agrees: tolerance.allows(saved), numbers }]
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
    let [first, first_cold] = [warm, cold].map(Restarted::first_flash_reads);
    vec![
        Check {
            agrees: first > 0.0 && first_cold == 0.0,
            numbers: format!("{first:.0} and {first_cold:.0} pages in the first second"),
        },
        Check {
            agrees: with > without,
            numbers: format!("{:.0} % and {:.0} % of redo's pages", with * 100.0, without * 100.0),
        },
    ]
}

fn log_pages(evidence: &Evidence, _: Tolerance) -> Vec<Check> {
    let [base, prototypes @ ..] = &evidence.logged;
    let check = |(prototype, name): (&Ran, &str)| Check {
        agrees: base.log_pages > prototype.log_pages,
        numbers: format!(
            "{} pages at {:.0} tpmC without an SSD, {} at {:.0} with {name}",
            base.log_pages, base.tpmc, prototype.log_pages, prototype.tpmc
        ),
    };
    prototypes.iter().zip(["volatile metadata", "persistent metadata"]).map(check).collect()
}

fn base(evidence: &Evidence, tolerance: Tolerance) -> Vec<Check> {
    let (base, cold) = (&evidence.base, &evidence.crash[1]);
    let ratio = base.restart_s / cold.restart_s;
    let shown = |restarted: &Restarted| {
        format!("{:.1} s, {} pages fetched", restarted.restart_s, restarted.redo_pages)
    };
    let numbers = format!("{ratio:.2} × ({}; {})", shown(base), shown(cold));
    vec![Check { agrees: tolerance.allows(ratio), numbers }]
}

fn cpu(evidence: &Evidence, _: Tolerance) -> Vec<Check> {
    let until = evidence.crash[1].restart_s + 10.0;
    let [warm, cold] = evidence.crash.each_ref().map(|restarted| mean_until(&restarted.cpu, until) * 100.0);
    vec![Check { agrees: warm > cold, numbers: format!("{warm:.2} and {cold:.2} % until second {until:.0}") }]
}

fn peak(evidence: &Evidence, _: Tolerance) -> Vec<Check> {
    let warm = &evidence.shutdown[0];
    let (first, last) = (mean(beginning(&warm.tpmc)), mean(end(&warm.tpmc)));
    vec![Check { agrees: first > last, numbers: format!("{first:.0} tpmC at first, {last:.0} in the end") }]
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
    evidence.crash.iter().chain(&evidence.shutdown).chain([&evidence.base]).map(check).collect()
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
