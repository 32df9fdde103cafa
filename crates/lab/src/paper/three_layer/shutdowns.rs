//! Claims of 3LA about the end of a system and its next start (section 3.3), and what judges them.

use crate::paper::{Check, Claim, Statement};
use entresol_core::PolicyKind;

/// A store that was shut down in the middle of a checkpoint interval, and started again.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    /// LOC or GLB.
    pub policy: PolicyKind,
    /// Dirty pages stayed on flash, and the directory was materialised; otherwise they were flushed.
    pub materialised: bool,
    /// Seconds of the shutdown.
    pub shutdown_s: f64,
    /// Pages that it wrote to disk.
    pub disk_writes: u64,
    /// Dirty pages that the start found on flash.
    pub dirty: u64,
    /// Seconds of the start, and with a flash that is empty.
    pub start_s: [f64; 2],
    /// Per cent of the misses in DRAM that flash served in the first seconds, and with a flash that is empty.
    pub hits: [f64; 2],
    /// The consistency conditions of TPC-C hold in the end.
    pub consistent: bool,
}

pub(crate) const CLAIMS: &[Claim<[Shutdown]>] = &[
    Claim {
        statement: Statement {
            id: "3la.s3-3.shutdown",
            source: "3LA §3.3",
            says: "materialising H instead of flushing dirty pages speeds up the shutdown, alone and with the start after it \
                   (loc, glb; TPC-C in the store)",
            ..Statement::BASE
        },
        judge: |all, _| of_policies(all, sooner),
    },
    Claim {
        statement: Statement {
            id: "3la.s3-3.warm-start",
            source: "3LA §3.3",
            says: "and shortens the warm-up: in the first seconds flash serves more than an empty one (loc, glb)",
            ..Statement::BASE
        },
        judge: |all, _| of_policies(all, warmer),
    },
];

fn of_policies(all: &[Shutdown], judge: fn(&Shutdown, &Shutdown) -> Check) -> Vec<Check> {
    let pair = |quick: &Shutdown| {
        let flushed = all.iter().find(|other| other.policy == quick.policy && !other.materialised)?;
        let Check { agrees, numbers } = judge(quick, flushed);
        let is_sound = quick.consistent && flushed.consistent && quick.dirty > 0;
        Some(Check { agrees: agrees && is_sound, numbers: format!("{} {numbers}", quick.policy.name()) })
    };
    all.iter().filter(|run| run.materialised).filter_map(pair).collect()
}

fn sooner(quick: &Shutdown, flushed: &Shutdown) -> Check {
    let both = |run: &Shutdown| run.shutdown_s + run.start_s[0];
    Check {
        agrees: quick.shutdown_s < flushed.shutdown_s && both(quick) < both(flushed),
        numbers: format!(
            "{:.2} s instead of {:.2}, with the start {:.2} instead of {:.2} ({} dirty pages stay)",
            quick.shutdown_s,
            flushed.shutdown_s,
            both(quick),
            both(flushed),
            quick.dirty
        ),
    }
}

/// Compared with an empty flash after a shutdown that flushed: after a quick one redo would fill it.
fn warmer(quick: &Shutdown, flushed: &Shutdown) -> Check {
    let (warm, cold) = (quick.hits[0], flushed.hits[1]);
    Check { agrees: warm > cold, numbers: format!("{warm:.0} % of the misses instead of {cold:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{Outcome, judged};

    fn run(materialised: bool, shutdown_s: f64, start_s: f64, warm: f64) -> Shutdown {
        Shutdown {
            policy: PolicyKind::Glb,
            materialised,
            shutdown_s,
            disk_writes: 0,
            dirty: u64::from(materialised),
            start_s: [start_s, start_s],
            hits: [warm, 10.0],
            consistent: true,
        }
    }

    #[test]
    fn each_claim_can_fail() {
        let outcomes = |quick: Shutdown| -> Vec<Outcome> {
            let runs = [quick, run(false, 5.0, 1.0, 60.0)];
            judged(CLAIMS, &[&runs[..]]).into_iter().map(|judged| judged.verdict.outcome).collect()
        };
        let (holds, fails) = (Outcome::Holds, Outcome::DoesNotHold);
        assert_eq!(outcomes(run(true, 1.0, 2.0, 60.0)), [holds, holds]);
        assert_eq!(outcomes(run(true, 1.0, 6.0, 60.0)), [fails, holds], "the start takes what it saved");
        assert_eq!(outcomes(run(true, 6.0, 0.0, 60.0)), [fails, holds]);
        assert_eq!(outcomes(run(true, 1.0, 2.0, 9.0)), [holds, fails]);
        assert_eq!(outcomes(Shutdown { dirty: 0, ..run(true, 1.0, 2.0, 60.0) }), [fails, fails]);
        assert_eq!(outcomes(Shutdown { consistent: false, ..run(true, 1.0, 2.0, 60.0) }), [fails, fails]);
        assert!(judged(CLAIMS, &[&[][..]]).iter().all(|judged| judged.verdict.outcome == Outcome::NotJudged));
    }
}
