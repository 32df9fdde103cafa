//! TPC-C through crashes at a sample of operations: what was acknowledged is there, and every consistency
//! condition holds. `ENTRESOL_CRASH` and `ENTRESOL_SEED` as in `crash.rs`.

mod support;

use entresol_testkit::{Campaign, Subject, Tpcc};
use support::{seed, stride};

#[test]
fn transactions_survive_crashes() {
    // The systems that the paper measures; the others' crashes are the bank's (`crash.rs`).
    for system in &Subject::DRAWN[..6] {
        let system = *system;
        let campaign = Campaign { stride: stride(60), ..Campaign::new(system, seed(), 46) };
        let report = campaign.run(&Tpcc::default());
        report.expect_sound();
        println!("{system}: {report}");
        assert!(report.operations > 1000 && report.crashes > 15, "{system}: {report}");
        assert!(report.crashes_again > 0 && report.losers > 0, "{system}: {report}");
    }
}
