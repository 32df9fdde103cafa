use super::*;
use crate::paper::claim::tests::{Spoiler, assert_spoiled, assert_tolerances_decide};
use crate::paper::face::{FLASH_PERCENTS, GSC_TPMC};
use crate::paper::{Outcome, judged};

fn result(system: System, dram_percent: f64, flash_percent: f64, tpmc: f64) -> TpccResult {
    TpccResult {
        system: system.name().into(),
        dram_percent,
        flash_percent,
        tpmC: tpmc,
        ..TpccResult::default()
    }
}

/// Table 5's line of more flash, and the rest as the figures are drawn.
fn as_drawn() -> Machines {
    let flash = FLASH_PERCENTS.into_iter().zip(GSC_TPMC);
    let mlc = flash.map(|(size, tpmc)| result(GSC, DRAM_PERCENT, size, tpmc)).collect();
    let dram = (1..=5).map(|step| {
        let step = f64::from(step);
        result(System::DiskOnly, DRAM_PERCENT * (1.0 + step), 0.0, 2000.0 + 100.0 * step)
    });
    let array = |(disks, lc): (f64, f64)| {
        let systems = [(System::DiskOnly, 210.0 * disks), (LC, lc), (GSC, 400.0 * disks)];
        (disks, systems.map(|(system, tpmc)| result(system, DRAM_PERCENT, 12.0, tpmc)).to_vec())
    };
    let lc = [(4.0, 2000.0), (8.0, 3000.0), (12.0, 3100.0), (16.0, 3200.0)];
    Machines {
        mlc,
        dram: dram.collect(),
        arrays: lc.map(array).to_vec(),
        forgets: Vec::new(),
        unpulled: Vec::new(),
    }
}

#[test]
fn steps_of_table_5_are_paired_by_their_price() {
    let machines = as_drawn();
    let steps: Vec<_> = machines.table_5().iter().map(|(step, _, flash)| (*step, flash.tpmC)).collect();
    assert_eq!(steps, [(1.0, 3681.0), (2.0, 4310.0), (3.0, 4830.0), (4.0, 5161.0), (5.0, 5570.0)]);
}

#[test]
fn tolerances_decide() {
    assert_tolerances_decide(CLAIMS, &as_drawn());
}

#[test]
fn each_claim_fails_on_results_that_contradict_it() {
    let spoilers: [Spoiler<Machines>; 4] = [
        ("face.table5.more-flash", |m| m.dram[4].tpmC = 5571.0),
        ("face.figure5.gsc-scales", |m| m.arrays[2].1[2].tpmC = 3199.0),
        ("face.figure5.lc-below-disk-only", |m| m.arrays[3].1[0].tpmC = 3199.0),
        ("face.figure5.lc-stops", |m| m.arrays[3].1[1].tpmC = 3301.0),
    ];
    assert_spoiled(&spoilers, as_drawn, |machines| judged(CLAIMS, &[machines]));
}

#[test]
fn without_runs_only_arithmetic_is_judged() {
    let none = Machines {
        mlc: Vec::new(),
        dram: Vec::new(),
        arrays: Vec::new(),
        forgets: Vec::new(),
        unpulled: Vec::new(),
    };
    let outcomes: Vec<_> = judged(CLAIMS, &[&none]).iter().map(|judged| judged.verdict.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::DoesNotHold,
            Outcome::NotJudged,
            Outcome::NotJudged,
            Outcome::NotJudged,
            Outcome::NotJudged,
        ]
    );
}
