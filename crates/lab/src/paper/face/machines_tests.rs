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
        let systems = [(System::DiskOnly, 210.0 * disks), (LC, lc), (GSC, 400.0 * disks.min(14.0))];
        (disks, systems.map(|(system, tpmc)| result(system, DRAM_PERCENT, 12.0, tpmc)).to_vec())
    };
    let lc = [(4.0, 2000.0), (8.0, 3000.0), (12.0, 3100.0), (16.0, 3200.0)];
    let mlc_and_lc = |mut mlc: Vec<TpccResult>| {
        mlc.push(result(LC, DRAM_PERCENT, 8.0, 1500.0));
        mlc
    };
    let slc = [(LC, 3000.0), (GSC, 4500.0)].map(|(system, tpmc)| result(system, DRAM_PERCENT, 8.0, tpmc));
    Machines {
        mlc: mlc_and_lc(mlc),
        slc: slc.to_vec(),
        dram: dram.collect(),
        arrays: lc.map(array).to_vec(),
        ..Machines::default()
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
    let spoilers: [Spoiler<Machines>; 6] = [
        ("face.table5.more-flash", |m| m.dram[4].tpmC = 5571.0),
        ("face.figure5.gsc-scales", |m| m.arrays[1].1[0].tpmC = 839.0),
        ("face.figure5.gsc-saturates", |m| m.arrays[3].1[2].tpmC = 6401.0),
        ("face.figure4b.lc-gains", |m| m.slc[0].tpmC = 1499.0),
        ("face.figure5.lc-below-disk-only", |m| m.arrays[3].1[0].tpmC = 3199.0),
        ("face.figure5.lc-stops", |m| m.arrays[3].1[1].tpmC = 3301.0),
    ];
    assert_spoiled(&spoilers, as_drawn, |machines| judged(CLAIMS, &[machines]));
}

#[test]
fn without_runs_only_arithmetic_is_judged() {
    let judged = judged(CLAIMS, &[&Machines::default()]);
    let outcomes: Vec<_> = judged.iter().map(|judged| judged.verdict.outcome).collect();
    assert_eq!(outcomes[..2], [Outcome::DoesNotHold, Outcome::Holds]);
    assert!(outcomes[2..].iter().all(|outcome| *outcome == Outcome::NotJudged), "{outcomes:?}");
}
