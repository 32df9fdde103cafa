//! The mutants of this repository fit its sources, so that a change that takes one away is noticed at once.

use entresol_xtask::{mutants, paths};

#[test]
fn every_mutant_fits_the_sources_and_has_its_tests() {
    let count = mutants::check(paths::repository()).unwrap();
    assert!(count > 200, "{count} mutants were found");
}
