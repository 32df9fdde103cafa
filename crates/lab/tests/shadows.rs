//! Shadows beside a cache say what the replay of the whole load under another policy, or with another size,
//! comes to.

use entresol_core::{Cache, Mode, PolicyKind};
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{RunConfig, SimulationResult, simulate};
use entresol_runtime::rng::Rng;
use entresol_trace::{Op, Request, Trace};

const PAGES: u64 = 2_000_000;
const SLOTS: u32 = 400_000;

/// Skewed references, in which a tenth of the pages changes its place in the middle.
fn trace() -> Trace {
    let mut rng = Rng::new(9);
    let mut trace = Trace { name: "skewed".into(), page_bytes: 4096, ..Trace::default() };
    trace.pages = (0..PAGES).collect();
    for _ in 0..6_000_000 {
        let page = rng.below(PAGES) * rng.below(PAGES) / PAGES * rng.below(PAGES) / PAGES;
        let page = (page * 7919 % PAGES) as u32;
        trace.requests.push(Request::new(page, Op::Read));
        if rng.below(3) == 0 {
            trace.requests.push(Request::new(page, Op::Dirty));
        }
    }
    trace
}

fn config(trace: &Trace, policy: PolicyKind, flash_pages: u32, shadows: bool) -> RunConfig {
    let catalogue = Catalogue::builtin();
    let flash = catalogue.flash("nvme").expect("built in");
    let disk = catalogue.device("sata-disk").expect("built in");
    let memory = catalogue.memory("dram").expect("built in");
    RunConfig {
        mode: Mode::WriteBack,
        dram_pages: 10_000,
        flash_pages,
        shadows,
        hit_ns: 1000,
        measure_from: trace.len() / 2,
        ..RunConfig::new(Some(Cache::Policy(policy)), (flash, disk), memory, 0..trace.len())
    }
}

#[test]
#[ignore = "takes five minutes: cargo test --release -p entresol-lab --test shadows -- --ignored"]
fn shadows_say_what_other_caches_come_to() {
    let trace = trace();
    let kinds = [PolicyKind::FaceGsc, PolicyKind::Reuse, PolicyKind::Lc];
    let mut configs: Vec<RunConfig> = kinds.map(|kind| config(&trace, kind, SLOTS, true)).into();
    configs.push(config(&trace, PolicyKind::FaceGsc, SLOTS / 2, false));
    configs.push(config(&trace, PolicyKind::FaceGsc, SLOTS * 2, false));
    let results = simulate(&trace, &configs, &|_, _| {}).expect("all are possible");
    let real = |policy: &str, percent: u32| -> &SimulationResult {
        let pages = SLOTS * percent / 100;
        results.iter().find(|r| r.policy == policy && r.flash_pages == pages).expect("it was run")
    };
    for beside in &results[..kinds.len()] {
        assert_eq!(beside.forecasts.len(), 7, "{}", beside.policy);
        let of_gsc = |percent: u32| beside.policy == "face-gsc" && percent != 100;
        let told = beside.forecasts.iter().filter(|told| {
            kinds.iter().any(|kind| kind.name() == told.policy) && told.size_percent == 100
                || of_gsc(told.size_percent)
        });
        for told in told {
            let expected = real(&told.policy, told.size_percent);
            let points = (told.flash_hit_rate - expected.flash_hit_rate) * 100.0;
            let writes = told.flash_writes as f64 / expected.flash_writes as f64;
            println!(
                "beside {}: {} at {} %: {:.1} %, {points:+.1} points; flash writes × {writes:.2}",
                beside.policy,
                told.policy,
                told.size_percent,
                told.flash_hit_rate * 100.0
            );
            assert!(points.abs() < 2.0, "{told:?} {}", expected.flash_hit_rate);
        }
    }
    // Shadows change nothing.
    let alone =
        simulate(&trace, &[config(&trace, PolicyKind::Lc, SLOTS, false)], &|_, _| {}).expect("possible");
    assert_eq!(alone[0].decision_hash, real("lc", 100).decision_hash);
}
