//! 3LA's claims about money for b = 1000 pages of DRAM (table 2, figure 2), and that three layers are faster
//! (figure 3).

use super::over_n::{falls, over_n, rises, shown, writers};
use super::{
    B_TABLE_2, EnergyRow, LOC_SAVES, POLICIES, RAM_WATTS_PER_GB, Run, SSD_WATTS_PER_GB, TABLE_2, Workload,
};
use crate::cost::{EquiCost, layer_watts};
use crate::paper::{Check, Claim, Statement, Tolerance};
use entresol_core::PolicyKind;

/// "By a factor of six" (TPC-E): we ask for so many times on another workload.
const ENERGY_TIMES: f64 = 5.0;
/// Table 2: 29.09 J of two layers by 4.24 J (glb) and 4.17 J (loc) with n = 8: 6.86 and 6.98, on the average.
const ENERGY_TABLE_2: f64 = 6.92;

pub(super) const CLAIMS: &[Claim<[Workload]>] = &[
    Claim {
        statement: Statement {
            id: "3la.table2.sizes",
            source: "3LA table 2",
            says: "|L_r| exactly (formula 3 without its floor): 1000, 799.02, 598.05, 397.07, 196.09",
            tolerance: Tolerance::Exact,
            ..Statement::BASE
        },
        judge: sizes,
    },
    Claim {
        statement: Statement {
            id: "3la.table2.powers",
            source: "3LA table 2",
            says: "P_f, P_r and their sum exactly, mW",
            tolerance: Tolerance::Exact,
            ..Statement::BASE
        },
        judge: powers,
    },
    Claim {
        statement: Statement {
            id: "3la.s4.range-of-n",
            source: "3LA §4, §4.2",
            says: "the practical range of n is about [1, 10), and close to its end RAM has one page (b = 1000)",
            tolerance: Tolerance::Exact,
            ..Statement::BASE
        },
        judge: range_of_n,
    },
    Claim {
        statement: Statement {
            id: "3la.figures2a-3.beats-two-layers",
            source: "3LA figures 2a, 3",
            says: "three layers of n = 2 and n = 8 are faster than two of the same money, as long as two do not hold \
                   all pages",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, beats_two_layers),
    },
    Claim {
        statement: Statement {
            id: "3la.table2.falls-with-n",
            source: "3LA table 2",
            says: "T_v falls with n, 2 to 8, at b = 1000",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, falls_with_n),
    },
    Claim {
        statement: Statement {
            id: "3la.figure2a.loc-saves",
            source: "3LA figure 2a",
            says: "loc with n = 8 takes 32 to 35 % less than 2LA, TPC-E",
            tolerance: Tolerance::Between(LOC_SAVES.0, LOC_SAVES.1),
            needs: "the TPC-E trace, which is not public",
            ..Statement::BASE
        },
        judge: |_, _| Vec::new(),
    },
    Claim {
        statement: Statement {
            id: "3la.table2.overtakes",
            source: "3LA table 2",
            says: "glb is ahead with n = 2, loc with n = 8 (b = 1000)",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, overtakes),
    },
    Claim {
        statement: Statement {
            id: "3la.figure2b.accesses",
            source: "3LA figure 2b",
            says: "with n, flash reads rise and disk reads fall (b = 1000)",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, accesses),
    },
    Claim {
        statement: Statement {
            id: "3la.figure2b.flash-writes",
            source: "3LA figure 2b",
            says: "with n, glb writes more to flash and loc less (b = 1000)",
            tolerance: Tolerance::Direction,
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, _| writers(workloads, flash_writes),
    },
    Claim {
        statement: Statement {
            id: "3la.table2.energy",
            source: "3LA table 2",
            says: "energy falls several-fold (at least five-fold at n = 8, b = 1000; theirs about seven-fold)",
            tolerance: Tolerance::AtLeast(ENERGY_TIMES),
            figures: &[ENERGY_TABLE_2],
            needs: "the trace",
            ..Statement::BASE
        },
        judge: |workloads, tolerance| writers(workloads, |workload| energy(workload, tolerance)),
    },
];

fn rounded(value: f64, digits: i32) -> f64 {
    (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
}

fn sizes(_: &[Workload], _: Tolerance) -> Vec<Check> {
    let check = |row: &EnergyRow| {
        let ours = rounded(EquiCost::PAPER.dram_left(1000.0, row.flash_pages), 2);
        Check { agrees: ours == row.dram_pages, numbers: format!("{ours:.2}") }
    };
    TABLE_2[..5].iter().map(check).collect()
}

fn powers(_: &[Workload], _: Tolerance) -> Vec<Check> {
    let check = |row: &EnergyRow| {
        let milliwatts = |pages: f64, unit: f64| layer_watts(pages, EquiCost::PAPER.page_bytes, unit) * 1e3;
        let flash = milliwatts(row.flash_pages, SSD_WATTS_PER_GB);
        let dram = milliwatts(EquiCost::PAPER.dram_left(1000.0, row.flash_pages), RAM_WATTS_PER_GB);
        let ours = [flash, dram, flash + dram].map(|power| rounded(power, 3));
        Check {
            agrees: ours == [row.flash_mw, row.dram_mw, row.both_mw],
            numbers: format!("{:.3} + {:.3} = {:.3}", ours[0], ours[1], ours[2]),
        }
    };
    TABLE_2[..5].iter().map(check).collect()
}

fn range_of_n(_: &[Workload], _: Tolerance) -> Vec<Check> {
    let limit = EquiCost::PAPER.n_limit();
    let pages = EquiCost::PAPER.layers(B_TABLE_2, limit).dram_pages;
    vec![
        Check { agrees: limit.ceil() == 10.0, numbers: format!("n < {limit:.3}") },
        Check { agrees: pages == 1, numbers: format!("|L_r| = {pages} there") },
    ]
}

fn beats_two_layers(workload: &Workload) -> Vec<Check> {
    let mut checks = Vec::new();
    for b in workload.budgets() {
        let Some(two) = workload.two_layers(b) else { continue };
        let runs = POLICIES
            .into_iter()
            .flat_map(|policy| [2.0, 8.0].into_iter().filter_map(move |n| workload.at(b, Some(policy), n)));
        let shares: Vec<f64> = runs.map(|run| run.tv_s() / two.tv_s() * 100.0).collect();
        checks.push(Check {
            agrees: shares.iter().all(|share| *share < 100.0),
            numbers: format!(
                "b = {b}: glb {} %, loc {} % of 2LA's T_v",
                shown(&shares[..2], 0),
                shown(&shares[2..], 0)
            ),
        });
    }
    checks
}

fn falls_with_n(workload: &Workload) -> Vec<Check> {
    over_n(workload, B_TABLE_2, ("s", 0), Run::tv_s, |_, values| falls(values))
}

fn overtakes(workload: &Workload) -> Vec<Check> {
    let at = |n: f64| {
        let of = |policy| workload.at(B_TABLE_2, Some(policy), n).map(Run::tv_s);
        of(PolicyKind::Glb).zip(of(PolicyKind::Loc))
    };
    let Some((first, last)) = at(2.0).zip(at(8.0)) else { return Vec::new() };
    vec![
        Check {
            agrees: first.0 < first.1,
            numbers: format!("n = 2: glb {:.0} s, loc {:.0} s", first.0, first.1),
        },
        Check {
            agrees: last.1 < last.0,
            numbers: format!("n = 8: glb {:.0} s, loc {:.0} s", last.0, last.1),
        },
    ]
}

fn accesses(workload: &Workload) -> Vec<Check> {
    let reads = |run: &Run| run.result.flash_reads as f64 / 1e3;
    let disk = |run: &Run| run.result.disk_reads as f64 / 1e3;
    let mut checks =
        over_n(workload, B_TABLE_2, ("flash reads, thousands", 0), reads, |_, values| rises(values));
    checks.extend(over_n(workload, B_TABLE_2, ("disk reads, thousands", 0), disk, |_, values| falls(values)));
    checks
}

fn flash_writes(workload: &Workload) -> Vec<Check> {
    let writes = |run: &Run| run.result.flash_writes as f64 / 1e3;
    over_n(workload, B_TABLE_2, ("thousands", 0), writes, |policy, values| match policy {
        PolicyKind::Glb => rises(values),
        _ => falls(values),
    })
}

fn energy(workload: &Workload, tolerance: Tolerance) -> Vec<Check> {
    let Some(two) = workload.two_layers(B_TABLE_2).map(Run::energy_j) else { return Vec::new() };
    over_n(
        workload,
        B_TABLE_2,
        ("× less than 2LA:", 1),
        |run| two / run.energy_j(),
        |_, times| rises(times) && times.last().is_some_and(|times| tolerance.allows(*times)),
    )
}
