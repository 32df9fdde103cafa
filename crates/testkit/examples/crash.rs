//! Crashes from the command line: a campaign on any system, or one crash again.
//!
//! ```text
//! crash <bank|bank-no-images|tpcc> <system|all> [--seed S] [--seeds N] [--at N] [--stride N] [--transactions N]
//!       [--again N]
//! ```

use anyhow::{Context, bail};
use entresol_testkit::{Bank, Campaign, Report, Subject, Tpcc, Workload};
use std::time::Instant;

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let workload = words.next().context("which workload: bank, bank-no-images or tpcc?")?;
    let system = words
        .next()
        .context("which system: all, disk-only, lc, face, face-gr, face-gsc or write-through?")?;
    let (mut seed, mut seeds, mut at, mut stride, mut transactions, mut again) = (1, 1, None, 1, None, 3);
    while let Some(option) = words.next() {
        let value: u64 = words.next().context("an option without its value")?.parse()?;
        match option.as_str() {
            "--seed" => seed = value,
            "--seeds" => seeds = value,
            "--at" => at = Some(value),
            "--stride" => stride = value,
            "--again" => again = value,
            "--transactions" => transactions = Some(value),
            other => bail!("there is no option {other}"),
        }
    }
    let systems = match system.as_str() {
        "all" => Subject::all(),
        name => vec![Subject::from_name(name).context("there is no such system")?],
    };
    let mut failures = 0;
    for system in systems {
        for seed in seed..seed + seeds {
            let run = |usual: u64| {
                let transactions = transactions.unwrap_or(usual);
                Campaign { only: at, stride, again, ..Campaign::new(system, seed, transactions) }
            };
            let started = Instant::now();
            let report = match workload.as_str() {
                "bank" => campaign(&run(40), &Bank::default()),
                "bank-no-images" => campaign(&run(40), &Bank { full_page_writes: false, ..Bank::default() }),
                "tpcc" => campaign(&run(46), &Tpcc::default()),
                other => bail!("there is no workload {other}"),
            };
            let seconds = started.elapsed().as_secs_f64();
            let restarts = (report.restarts + report.crashes_again) as f64 / seconds;
            println!("{workload} on {system}, seed {seed}: {report}");
            println!("{seconds:.1} s, {restarts:.0} crash states a second\n");
            failures += report.failures.len();
        }
    }
    if failures == 0 { Ok(()) } else { bail!("{failures} failures") }
}

fn campaign<W: Workload>(campaign: &Campaign, workload: &W) -> Report {
    campaign.run(workload)
}
