//! What 3LA says, judged by our runs.

use super::{B_TABLE_2, FACTORS, POLICIES, Run, Workload};
use crate::cost::{EquiCost, layer_watts};
use crate::paper::Verdict;
use crate::paper::three_layer::{RAM_WATTS_PER_GB, SSD_WATTS_PER_GB, TABLE_2};
use crate::paper::verdict::Check;
use entresol_core::PolicyKind;

const GLB: PolicyKind = PolicyKind::Glb;
const LOC: PolicyKind = PolicyKind::Loc;
/// "By a factor of six" (TPC-E): we ask for so many times on another workload.
const ENERGY_TIMES: f64 = 5.0;
/// "No performance improvement can be observed" (§4.1), in a chart: less than this share of T_v.
const NOTHING: f64 = 0.03;
/// Because the flash is "large enough to accommodate all pages": less than this share of the disk's part of T_v.
const NOTHING_OF_DISK: f64 = 0.01;
/// No fewer disk reads: less than this share.
const AS_MANY: f64 = 0.02;

/// What is known about claims that do not hold here: source, beginning of the claim, reason.
pub(super) const REASONS: &[(&str, &str, &str)] = &[(
    "3LA figures 3, 4",
    "there, \"no performance improvement",
    "twice the money doubles DRAM as well, so fewer pages go to and from flash; glb, which writes a page to flash for each that \
     DRAM takes in, gains most. Disk accesses, which the paper's reason is about, do not fall, and the gain is a share of the \
     chart's height that nobody would see",
)];

/// Judges them. The first workload is TPC-C, the second the read-only one.
pub(super) fn verdicts(workloads: &[Workload]) -> Vec<Verdict> {
    let writers: Vec<&Workload> = workloads.iter().filter(|w| w.figure != "figure 4").collect();
    let read_only = workloads.iter().find(|w| w.figure == "figure 4");
    let all = |check: &dyn Fn(&Workload) -> Vec<Check>| writers.iter().flat_map(|w| check(w)).collect();
    let needs = "the trace";
    vec![
        sizes(),
        powers(),
        Verdict::judge(
            "3LA figures 2a, 3",
            "three layers of n = 2 and n = 8 are faster than two of the same money, as long as two do not hold all pages",
            needs,
            all(&beats_two_layers),
        ),
        Verdict::judge("3LA table 2", "T_v falls with n, 2 to 8, at b = 1000", needs, all(&falls_with_n)),
        Verdict::judge(
            "3LA figure 2a",
            "loc with n = 8 takes 32 to 35 % less than 2LA, TPC-E",
            "the TPC-E trace, which is not public",
            Vec::new(),
        ),
        Verdict::judge(
            "3LA table 2",
            "glb is ahead with n = 2, loc with n = 8 (b = 1000)",
            needs,
            all(&overtakes),
        ),
        Verdict::judge(
            "3LA figure 2b",
            "with n, flash reads rise and disk reads fall (b = 1000)",
            needs,
            all(&accesses),
        ),
        Verdict::judge(
            "3LA figure 2b",
            "with n, glb writes more to flash and loc less (b = 1000)",
            needs,
            all(&flash_writes),
        ),
        Verdict::judge(
            "3LA table 2",
            "energy falls several-fold (at least five-fold at n = 8, b = 1000; theirs about seven-fold)",
            needs,
            all(&energy),
        ),
        Verdict::judge(
            "3LA figures 3, 4",
            "once the flash of n = 8 holds all pages, twice the money saves less than 1 % of the disk's time (glb, loc)",
            needs,
            workloads.iter().flat_map(no_fewer_disk_accesses).collect(),
        ),
        Verdict::judge(
            "3LA figures 3, 4",
            "there, \"no performance improvement can be observed\": less than 3 % of T_v (glb, loc)",
            needs,
            workloads.iter().flat_map(no_improvement).collect(),
        ),
        Verdict::judge(
            "3LA figure 4",
            "a read-only load gains more from larger b than TPC-C does (T_v of loc, n = 8, largest by smallest b)",
            needs,
            read_only
                .zip(writers.first())
                .map(|(read, write)| faster_gain(read, write))
                .into_iter()
                .collect(),
        ),
        Verdict::judge(
            "3LA figure 5",
            "where n = 2 holds all pages, more n costs time",
            needs,
            all(&rises_with_n),
        ),
        Verdict::judge(
            "3LA figure 6a",
            "there, more n means fewer DRAM hits and more flash accesses, and no fewer disk reads",
            needs,
            all(&why_it_rises),
        ),
        Verdict::judge(
            "3LA figure 6b",
            "there, energy falls with n nevertheless",
            needs,
            all(&energy_at_all),
        ),
    ]
}

fn rounded(value: f64, digits: i32) -> f64 {
    (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
}

fn sizes() -> Verdict {
    let check = |row: &crate::paper::three_layer::EnergyRow| {
        let ours = rounded(EquiCost::PAPER.dram_left(1000.0, row.flash_pages), 2);
        Check { agrees: ours == row.dram_pages, numbers: format!("{ours:.2}") }
    };
    let checks = TABLE_2[..5].iter().map(check).collect();
    let claim = "|L_r| exactly (formula 3 without its floor): 1000, 799.02, 598.05, 397.07, 196.09";
    Verdict::judge("3LA table 2", claim, "nothing", checks)
}

fn powers() -> Verdict {
    let check = |row: &crate::paper::three_layer::EnergyRow| {
        let milliwatts = |pages: f64, unit: f64| layer_watts(pages, EquiCost::PAPER.page_bytes, unit) * 1e3;
        let flash = milliwatts(row.flash_pages, SSD_WATTS_PER_GB);
        let dram = milliwatts(EquiCost::PAPER.dram_left(1000.0, row.flash_pages), RAM_WATTS_PER_GB);
        let ours = [flash, dram, flash + dram].map(|power| rounded(power, 3));
        Check {
            agrees: ours == [row.flash_mw, row.dram_mw, row.both_mw],
            numbers: format!("{:.3} + {:.3} = {:.3}", ours[0], ours[1], ours[2]),
        }
    };
    let checks = TABLE_2[..5].iter().map(check).collect();
    Verdict::judge("3LA table 2", "P_f, P_r and their sum exactly, mW", "nothing", checks)
}

fn shown(values: &[f64], digits: usize) -> String {
    values.iter().map(|value| format!("{value:.digits$}")).collect::<Vec<_>>().join(" → ")
}

/// Values over n for each algorithm, judged together.
fn over_n(
    workload: &Workload,
    b: u32,
    (what, digits): (&str, usize),
    of: impl Fn(&Run) -> f64,
    agrees: impl Fn(PolicyKind, &[f64]) -> bool,
) -> Vec<Check> {
    let check = |policy: PolicyKind| {
        let values: Vec<f64> = workload.over_n(b, policy).into_iter().map(&of).collect();
        (values.len() == FACTORS.len()).then(|| Check {
            agrees: agrees(policy, &values),
            numbers: format!("{} {what} {}", policy.name(), shown(&values, digits)),
        })
    };
    POLICIES.into_iter().filter_map(check).collect()
}

fn falls(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] < pair[0])
}

fn rises(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] > pair[0])
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
        of(GLB).zip(of(LOC))
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

fn energy(workload: &Workload) -> Vec<Check> {
    let Some(two) = workload.two_layers(B_TABLE_2).map(Run::energy_j) else { return Vec::new() };
    over_n(
        workload,
        B_TABLE_2,
        ("× less than 2LA:", 1),
        |run| two / run.energy_j(),
        |_, times| rises(times) && times.last().is_some_and(|times| *times >= ENERGY_TIMES),
    )
}

/// Runs at n = 8 with flash for all pages, for some money and for twice as much.
fn doubled(workload: &Workload, check: impl Fn(&str, &Run, &Run) -> Check) -> Vec<Check> {
    let [small, large] = workload.enough();
    let of = |policy: PolicyKind| {
        let at = |b| workload.at(b, Some(policy), 8.0);
        Some(check(&format!("{}, b = {small} and {large}", policy.name()), at(small)?, at(large)?))
    };
    POLICIES.into_iter().filter_map(of).collect()
}

fn no_fewer_disk_accesses(workload: &Workload) -> Vec<Check> {
    doubled(workload, |what, before, after| {
        let [before, after] = [before, after].map(|run| run.result.td_ms / 1e3);
        let saved = 1.0 - after / before;
        Check {
            agrees: saved < NOTHING_OF_DISK,
            numbers: format!("{what}: {before:.0} → {after:.0} s of disk, {:.1} % saved", saved * 100.0),
        }
    })
}

fn no_improvement(workload: &Workload) -> Vec<Check> {
    // What the eye has to compare with in such a chart.
    let highest = workload.runs.iter().map(Run::tv_s).fold(0.0, f64::max);
    doubled(workload, |what, before, after| {
        let [before, after] = [before, after].map(Run::tv_s);
        let saved = 1.0 - after / before;
        Check {
            agrees: saved < NOTHING,
            numbers: format!(
                "{what}: {before:.0} → {after:.0} s, {:.1} % saved, {:.1} % of the chart's height",
                saved * 100.0,
                (before - after) / highest * 100.0
            ),
        }
    })
}

fn faster_gain(read_only: &Workload, writer: &Workload) -> Check {
    let ratio = |workload: &Workload| {
        let budgets = workload.budgets();
        let at =
            |b: Option<&u32>| b.and_then(|b| workload.at(*b, Some(LOC), 8.0)).map_or(f64::NAN, Run::tv_s);
        at(budgets.last()) / at(budgets.first())
    };
    let (read, write) = (ratio(read_only), ratio(writer));
    Check { agrees: read < write, numbers: format!("read-only {read:.2}, TPC-C {write:.2}") }
}

fn rises_with_n(workload: &Workload) -> Vec<Check> {
    over_n(workload, workload.b_all, ("s", 1), Run::tv_s, |_, values| rises(values))
}

fn why_it_rises(workload: &Workload) -> Vec<Check> {
    let b = workload.b_all;
    let hits = |run: &Run| run.result.dram_hit_rate * 100.0;
    let flash = |run: &Run| (run.result.flash_reads + run.result.flash_writes) as f64 / 1e3;
    let disk = |run: &Run| run.result.disk_reads as f64 / 1e3;
    let mut checks = over_n(workload, b, ("DRAM hits, %", 2), hits, |_, values| falls(values));
    checks.extend(over_n(workload, b, ("flash accesses, thousands", 0), flash, |_, values| rises(values)));
    checks.extend(over_n(workload, b, ("disk reads, thousands", 1), disk, |_, values| {
        values.iter().all(|value| *value >= values[0] * (1.0 - AS_MANY))
    }));
    checks
}

fn energy_at_all(workload: &Workload) -> Vec<Check> {
    over_n(workload, workload.b_all, ("J", 1), Run::energy_j, |_, values| falls(values))
}
