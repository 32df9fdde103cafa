//! 3LA's chapter: what is arithmetic is exact, and the replay's virtual time is the paper's formula.

use entresol_core::PolicyKind;
use entresol_lab::cost::{AccessCosts, Accesses, virtual_time_ms};
use entresol_lab::paper::Outcome;
use entresol_lab::replay::simulate;
use entresol_lab::reproduce::{Context, Effort, Paper, equi_cost_run, run};
use entresol_trace::generate::TpccModel;
use expect_test::expect_file;

#[test]
fn replayed_times_are_formulas_5_to_7() {
    let model = TpccModel { warehouses: 1, references: 60_000, ..TpccModel::default() };
    let trace = model.generate().expect("a possible model");
    let policies = [None, Some(PolicyKind::Loc), Some(PolicyKind::Glb)];
    let configs = policies.map(|policy| equi_cost_run(&trace, 500, policy, policy.map_or(0.0, |_| 4.0)));
    for result in simulate(&trace, &configs, &|_, _| {}).expect("possible runs") {
        let flash = Accesses { reads: result.flash_reads, writes: result.flash_writes };
        let disk = Accesses { reads: result.disk_reads, writes: result.disk_writes };
        let formula = virtual_time_ms((AccessCosts::PAPER_FLASH, flash), (AccessCosts::PAPER_DISK, disk));
        assert!((result.tv_ms / formula - 1.0).abs() < 1e-6, "{}: {} {formula}", result.policy, result.tv_ms);
        assert!(result.policy == "none" || (flash.reads > 0 && flash.writes > 0), "{}", result.policy);
    }
}

#[test]
fn verdicts_on_3la_are_as_published_and_its_arithmetic_exact() {
    let context = Context { effort: Effort::Quick, seed: 1, traces: None, progress: &|_, _| {} };
    let chapter = run(Paper::ThreeLayer, &context).expect("the paper");
    expect_file!["golden/reproduce-3la.txt"].assert_eq(&chapter.verdict_lines());
    for claim in &chapter.claims {
        let arithmetic = claim.verdict.claim.contains("exactly");
        assert!(!arithmetic || claim.verdict.outcome == Outcome::Holds, "{claim:?}");
        let fails = claim.verdict.outcome == Outcome::DoesNotHold;
        assert!(!fails || !claim.why.is_empty(), "a claim that does not hold says why: {claim:?}");
    }
    let [holds, fails, given, unjudged] = chapter.tally();
    assert!(
        holds >= 9 && holds > 3 * fails && given == 0,
        "{holds} hold, {fails} do not, {unjudged} not judged"
    );
    assert!(chapter.setup.iter().any(|sentence| sentence.contains("Not reproduced with TPC-E")));
}
