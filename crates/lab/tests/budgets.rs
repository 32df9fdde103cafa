//! A budget of writes to flash is kept by the policies that weigh writes.

use entresol_core::{Cache, PolicyKind};
use entresol_engine::DailyWrites;
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{Arrival, RunConfig, SimulationResult, simulate};
use entresol_runtime::rng::Rng;
use entresol_trace::{Op, Request, Trace};

const PAGES: u64 = 60_000;
const REFERENCES: u64 = 500_000;

/// Skewed references, every second of which changes its page.
fn trace() -> Trace {
    let mut rng = Rng::new(4);
    let mut trace = Trace { name: "skewed".into(), page_bytes: 4096, ..Trace::default() };
    trace.pages = (0..PAGES).collect();
    for _ in 0..REFERENCES {
        let page = rng.below(PAGES) * rng.below(PAGES) / PAGES * rng.below(PAGES) / PAGES;
        let page = (page * 7919 % PAGES) as u32;
        trace.requests.push(Request::new(page, Op::Read));
        if rng.below(2) == 0 {
            trace.requests.push(Request::new(page, Op::Dirty));
        }
    }
    trace
}

fn config(trace: &Trace, policy: PolicyKind, budget: DailyWrites) -> RunConfig {
    let catalogue = Catalogue::builtin();
    let flash = catalogue.flash("mlc").expect("built in");
    let disk = catalogue.device("raid0-8").expect("built in");
    let memory = catalogue.memory("dram").expect("built in");
    RunConfig {
        dram_pages: 600,
        flash_pages: 6000,
        flash_writes_per_day: budget,
        arrival: Arrival::Closed { clients: 4 },
        hit_ns: 1000,
        measure_from: trace.len() / 5,
        ..RunConfig::new(Some(Cache::Policy(policy)), (flash, disk), memory, 0..trace.len())
    }
}

fn run(trace: &Trace, policy: PolicyKind, budget: DailyWrites) -> SimulationResult {
    simulate(trace, &[config(trace, policy, budget)], &|_, _| {}).expect("it is possible").remove(0)
}

#[test]
fn budgets_are_kept() {
    let trace = trace();
    // In slots, pages that are there and have changed are written again, whatever that is worth.
    let parts = [(PolicyKind::Reuse, &[0.6, 0.3, 0.1, 0.05][..]), (PolicyKind::ReuseSlots, &[0.6])];
    for (policy, parts) in parts {
        let free = run(&trace, policy, DailyWrites::Unlimited);
        assert_eq!((free.write_budget, free.written_per_day), (None, None));
        let wanted = free.flash_writes as f64 * 4096.0 / free.elapsed_s * 86_400.0;
        let mut hits = free.flash_hit_rate;
        for part in parts {
            let budget = (wanted * part) as u64;
            let limited = run(&trace, policy, DailyWrites::Bytes(budget));
            assert_eq!(limited.write_budget, Some(budget));
            let kept = limited.written_per_day.expect("it has a budget") / budget as f64;
            println!(
                "{} {part}: {:.1} % of the budget, hits {:.1} %",
                policy.name(),
                kept * 100.0,
                limited.flash_hit_rate * 100.0
            );
            assert!((0.9..1.05).contains(&kept), "{}, {part} of what it wants: {kept}", policy.name());
            assert!(limited.flash_hit_rate < hits, "fewer writes, fewer hits");
            hits = limited.flash_hit_rate;
        }
    }
}
