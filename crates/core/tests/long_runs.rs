//! Random runs with forgetting, flushing, holding and keeping out: a few seeds, and many if `cargo xtask
//! mutants` has made a bug alive that they must notice.

mod harness;

use entresol_core::PolicyKind;
use harness::world::Mode;

#[test]
fn random_runs_find_nothing() {
    let is_hunt = std::env::var_os("ENTRESOL_MUTANT").is_some();
    for seed in 0..if is_hunt { 100 } else { 4 } {
        for policy in harness::crash::survivors().chain([PolicyKind::Lc]) {
            harness::run_with_forgets_and_flushes(policy, Mode::Back, seed);
        }
        harness::run_that_keeps_out(seed, 4000);
        harness::run_that_stays(seed, 4000);
        harness::run_that_holds(PolicyKind::FaceGsc, seed);
    }
}
