//! The three-layer replay against naive models, and its own accounts.

use entresol_core::{BlockKind, Cache, Mode, PolicyKind};
use entresol_ftl::cache::{
    BlockCache, FlashTier, FlashTierConfig, HostPage, Lookup, Measures, RwFdb, RwFdbConfig,
};
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{Arrival, RunConfig, SimulationError, SimulationResult, block_sizes, simulate};
use entresol_runtime::rng::Rng;
use entresol_trace::{Op, Relations, Request, Trace};
use std::collections::{HashMap, VecDeque};

const PAGES: u64 = 4_000;

/// Skewed references of which one in four changes its page, the change told as `change` says; three host
/// requests in ten go on with the next page.
fn trace(references: usize, change: Op) -> Trace {
    let mut rng = Rng::new(11);
    let mut dense: HashMap<u64, u32> = HashMap::new();
    let mut trace = Trace { name: "skewed".into(), page_bytes: 4096, ..Trace::default() };
    let mut number = 0;
    while trace.requests.len() < references {
        let goes_on = change == Op::Write && rng.below(10) < 3 && number + 1 < PAGES;
        number = if goes_on { number + 1 } else { rng.below(PAGES) * rng.below(PAGES) / PAGES };
        let next = dense.len() as u32;
        let page = *dense.entry(number).or_insert(next);
        if page == next {
            trace.pages.push(number);
        }
        let changed = rng.below(4) == 0;
        let request = Request::new(page, if changed && change == Op::Write { Op::Write } else { Op::Read });
        trace.requests.push(if goes_on { request.continued() } else { request });
        if changed && change == Op::Dirty {
            trace.requests.push(Request::new(page, Op::Dirty));
        }
    }
    trace.times_us = (0..trace.requests.len() as u64).map(|at| at / 3 * 40).collect();
    let of_page = trace.pages.iter().map(|number| u16::from(*number >= PAGES / 2)).collect();
    trace.relations = Some(Relations::new(of_page, vec!["low".into(), "high".into()]));
    trace
}

fn config(trace: &Trace, flash_layer: Option<Cache>, dram_pages: u32, flash_pages: u32) -> RunConfig {
    let catalogue = Catalogue::builtin();
    let flash = catalogue.flash("nvme").expect("built in");
    let disk = catalogue.device("raid0-8").expect("built in");
    let memory = catalogue.memory("dram").expect("built in");
    RunConfig {
        mode: match flash_layer {
            Some(Cache::Policy(policy)) => policy.usual_mode(),
            _ => Mode::WriteBack,
        },
        dram_pages,
        flash_pages,
        arrival: Arrival::Closed { clients: 4 },
        hit_ns: 1000,
        ..RunConfig::new(flash_layer, (flash, disk), memory, 0..trace.requests.len())
    }
}

fn run(trace: &Trace, config: &RunConfig) -> SimulationResult {
    simulate(trace, std::slice::from_ref(config), &|_, _| {}).expect("a possible run").remove(0)
}

fn rate(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Two layers in a few lines: LRU with dirty pages.
fn naive_two_layers(trace: &Trace, frames: usize) -> (u64, u64, u64) {
    let mut list: VecDeque<(u32, bool)> = VecDeque::new();
    let (mut references, mut misses, mut writes) = (0, 0, 0);
    for request in &trace.requests {
        let at = list.iter().position(|(page, _)| *page == request.page());
        references += u64::from(request.is_reference());
        if !request.is_reference() {
            list[at.expect("just referenced")].1 = true;
            continue;
        }
        let entry = match at {
            Some(at) => list.remove(at).expect("found there"),
            None => {
                misses += 1;
                if list.len() == frames {
                    writes += u64::from(list.pop_front().expect("full").1);
                }
                (request.page(), false)
            }
        };
        list.push_back((entry.0, entry.1 || request.changes()));
    }
    (references, misses, writes)
}

#[test]
fn two_layers_are_as_the_naive_model() {
    for change in [Op::Write, Op::Dirty] {
        let trace = trace(30_000, change);
        let result = run(&trace, &config(&trace, None, 300, 0));
        let (references, misses, writes) = naive_two_layers(&trace, 300);
        assert_eq!((result.references, result.disk_reads), (references, misses), "{change:?}");
        assert_eq!((result.dirty_evictions, result.disk_writes), (writes, writes));
        assert_eq!(result.dram_hit_rate, 1.0 - rate(misses, references));
        let by_relation: u64 = result.relations.iter().map(|r| r.references).sum();
        let reads: u64 = result.relations.iter().map(|r| r.disk_reads).sum();
        assert_eq!((by_relation, reads), (references, misses));
    }
}

/// FaCE's algorithm 1 without groups in flight: a ring of (page, dirty) of which the newest of a page is
/// valid.
fn naive_mvfifo(trace: &Trace, frames: usize, slots: usize) -> (u64, u64) {
    let mut dram: VecDeque<(u32, bool, bool)> = VecDeque::new();
    let mut ring: VecDeque<(u32, bool)> = VecDeque::new();
    let (mut flash_hits, mut disk_reads) = (0, 0);
    for request in &trace.requests {
        let at = dram.iter().position(|(page, ..)| *page == request.page());
        let mut entry = match at {
            Some(at) => dram.remove(at).expect("found there"),
            None => {
                if dram.len() == frames {
                    let (page, dirty, fdirty) = dram.pop_front().expect("full");
                    if fdirty || !ring.iter().any(|(p, _)| *p == page) {
                        ring.push_back((page, dirty));
                        if ring.len() > slots {
                            ring.pop_front();
                        }
                    }
                }
                let newest = ring.iter().rev().find(|(page, _)| *page == request.page());
                if newest.is_some() {
                    flash_hits += 1
                } else {
                    disk_reads += 1
                }
                (request.page(), newest.is_some_and(|(_, dirty)| *dirty), false)
            }
        };
        if request.changes() {
            entry = (entry.0, true, true);
        }
        dram.push_back(entry);
    }
    (flash_hits, disk_reads)
}

#[test]
fn mvfifo_hits_about_as_often_as_the_naive_model() {
    let trace = trace(60_000, Op::Write);
    for policy in [PolicyKind::Face, PolicyKind::FaceGr] {
        let result = run(&trace, &config(&trace, Some(Cache::Policy(policy)), 200, 1280));
        let (hits, reads) = naive_mvfifo(&trace, 200, 1280);
        let (ours, naive) = (result.flash_hit_rate, rate(hits, hits + reads));
        // The ring keeps a few groups free, and frames are emptied group by group.
        assert!((ours - naive).abs() < 0.03, "{}: {ours} against {naive}", policy.name());
    }
}

#[test]
fn accounts_balance_for_every_policy() {
    let trace = trace(60_000, Op::Write);
    for policy in PolicyKind::ALL {
        let result = run(&trace, &config(&trace, Some(Cache::Policy(policy)), 200, 1280));
        let name = policy.name();
        let misses = ((1.0 - result.dram_hit_rate) * result.references as f64).round() as u64;
        let hits = result.flash_reads - result.destage_reads;
        assert!(hits + result.disk_reads <= misses, "{name}: staging serves the rest");
        assert!(misses - hits - result.disk_reads < misses / 4, "{name}");
        assert!(result.disk_reads >= result.trace_pages, "{name}: every page is read once");
        assert!(result.disk_writes <= result.dirty_evictions, "{name}: {result:?}");
        assert!(result.elapsed_s > 0.0 && result.mean_response_us > 1.0, "{name}");
        assert!(result.p99_response_us > result.mean_response_us, "{name}");
        assert!((0.0..=1.0).contains(&result.flash_utilisation), "{name}");
        assert!(result.energy_j.is_some_and(|joules| joules > 0.0), "{name}");
        assert!(result.flash_lifetime_years.is_some_and(|years| years > 0.0), "{name}");
        assert!(result.money.is_some_and(|money| money > 0.0), "{name}");
        assert!(result.warm_up.len() >= 59 && result.warm_up.last().expect("some")[3] > result.warm_up[0][3]);
        let again = run(&trace, &config(&trace, Some(Cache::Policy(policy)), 200, 1280));
        assert_eq!(again.digest, result.digest, "{name}");
    }
}

#[test]
fn lifetime_counts_what_the_chip_programs() {
    let trace = trace(60_000, Op::Write);
    let device = Catalogue::builtin().flash("nvme").expect("built in").clone();
    let rated = device.rated_full_writes.expect("rated") * device.capacity_gb * 1e9;
    let seconds = trace.seconds();
    for (policy, copies) in [(PolicyKind::Face, false), (PolicyKind::Lc, true)] {
        let mut one = config(&trace, Some(Cache::Policy(policy)), 200, 1280);
        one.flash_device = device.clone();
        let result = run(&trace, &one);
        let twaf = result.twaf.expect("a drive is modelled");
        // TWAF is by pages that the workload wrote.
        let programmed = twaf * result.dirty_evictions as f64;
        let host = result.flash_writes as f64;
        assert!(if copies { programmed > 1.2 * host } else { programmed >= host }, "{programmed} {host}");
        let years = rated / (programmed * 4096.0 / seconds) / (365.25 * 24.0 * 3600.0);
        let found = result.flash_lifetime_years.expect("rated and written");
        assert!((found / years - 1.0).abs() < 1e-9, "{policy:?}: {found} years, not {years}");
    }
}

#[test]
fn decisions_do_not_depend_on_time() {
    let trace = trace(40_000, Op::Write);
    for policy in PolicyKind::ALL {
        let one = config(&trace, Some(Cache::Policy(policy)), 200, 1280);
        let catalogue = Catalogue::builtin();
        let other = RunConfig {
            arrival: Arrival::Timed,
            hit_ns: 0,
            disk_device: catalogue.device("sata-disk").expect("built in").clone(),
            ..one.clone()
        };
        let (one, other) = (run(&trace, &one), run(&trace, &other));
        assert_eq!(one.decision_hash, other.decision_hash);
        assert_eq!((one.flash_writes, one.disk_reads), (other.flash_writes, other.disk_reads));
        assert_ne!(one.mean_response_us, other.mean_response_us);
        assert_ne!(one.digest, other.digest);
    }
}

#[test]
fn what_is_measured_begins_where_it_is_told() {
    let trace = trace(40_000, Op::Write);
    let whole = config(&trace, Some(Cache::Policy(PolicyKind::FaceGsc)), 200, 1280);
    let half = RunConfig { measure_from: 20_000, ..whole.clone() };
    let (whole, half) = (run(&trace, &whole), run(&trace, &half));
    assert_eq!((whole.references, half.references), (40_000, 20_000));
    assert_eq!(whole.decision_hash, half.decision_hash, "the same run");
    assert!(half.flash_hit_rate > whole.flash_hit_rate, "it is warm by then");
    assert!(half.elapsed_s < whole.elapsed_s && half.disk_reads < whole.disk_reads);
    assert_eq!(half.warm_up.last().map(|p| p[1]), whole.warm_up.last().map(|p| p[1]));
}

#[test]
fn in_write_through_mode_nothing_on_flash_is_newer_than_disk() {
    let trace = trace(40_000, Op::Write);
    for policy in PolicyKind::ALL {
        let config =
            RunConfig { mode: Mode::WriteThrough, ..config(&trace, Some(Cache::Policy(policy)), 200, 1280) };
        let result = run(&trace, &config);
        assert_eq!(result.disk_writes, result.dirty_evictions, "{}", policy.name());
        assert_eq!((result.dirty_share, result.write_reduction), (0.0, 0.0), "{}", policy.name());
    }
}

#[test]
fn without_dram_references_go_straight_down() {
    let trace = trace(40_000, Op::Write);
    let writes = trace.requests.iter().filter(|r| r.changes()).count() as u64;
    let bare = run(&trace, &config(&trace, None, 0, 0));
    assert_eq!((bare.disk_writes, bare.disk_reads), (writes, trace.requests.len() as u64 - writes));
    let cached = run(&trace, &config(&trace, Some(Cache::Policy(PolicyKind::FaceGsc)), 0, 1280));
    assert_eq!(cached.dirty_evictions, writes);
    assert!(cached.flash_hit_rate > 0.2 && cached.disk_reads < bare.disk_reads);
    assert!(cached.mean_response_us < bare.mean_response_us);
}

#[test]
fn a_host_request_is_over_when_its_last_page_is_there() {
    let trace = trace(20_000, Op::Write);
    let requests = trace.requests.iter().filter(|r| !r.continues()).count() as u64;
    let alone = RunConfig { arrival: Arrival::Closed { clients: 1 }, ..config(&trace, None, 1, 0) };
    let result = run(&trace, &alone);
    assert_eq!(result.requests, requests);
    // One frame: nearly every page is a miss, and the pages of a request are asked for together.
    let (mean, lone) = (result.mean_response_us, 5500.0);
    // Some are so near the one before that they pass under the head.
    assert!(mean > 0.9 * lone && mean < 1.5 * lone, "{mean}");
}

#[test]
fn impossible_runs_are_refused() {
    let trace = trace(1000, Op::Write);
    let refused = |config: RunConfig| config.validate(&trace).expect_err("not possible").to_string();
    let gsc = Some(Cache::Policy(PolicyKind::FaceGsc));
    assert!(refused(config(&trace, gsc, 10, 8)).contains("at least"));
    assert!(
        refused(RunConfig { records: 0..0, ..config(&trace, gsc, 10, 1280) }).contains("no page references")
    );
    let nobody = Arrival::Closed { clients: 0 };
    assert!(refused(RunConfig { arrival: nobody, ..config(&trace, gsc, 10, 1280) }).contains("client"));
    let timeless = Trace { times_us: Vec::new(), ..trace.clone() };
    let timed = RunConfig { arrival: Arrival::Timed, ..config(&trace, gsc, 10, 1280) };
    assert!(matches!(timed.validate(&timeless), Err(SimulationError::NoTimes { .. })));
}

/// The machines of crates/ftl, driven by hand without DRAM, times or devices.
#[test]
fn caches_that_are_their_own_translation_layer_decide_as_by_hand() {
    let trace = trace(30_000, Op::Write);
    let mut order: Vec<u64> = trace.pages.clone();
    order.sort_unstable();
    for kind in BlockKind::ALL {
        let mut config = config(&trace, Some(Cache::Blocks(kind)), 0, 1280);
        assert!(matches!(config.validate(&trace), Err(SimulationError::Mode { .. })), "write-through only");
        config.mode = Mode::WriteThrough;
        let result = run(&trace, &config);
        let sizes = |buffer| block_sizes(&trace, 1280, buffer);
        let mut cache: Box<dyn BlockCache> = match kind {
            BlockKind::RwFdb => Box::new(RwFdb::new(RwFdbConfig::new(sizes(64))).expect("possible")),
            BlockKind::FlashTier => {
                Box::new(FlashTier::new(FlashTierConfig::new(sizes(0))).expect("possible"))
            }
            BlockKind::FlashTierBuffered => {
                Box::new(FlashTier::new(FlashTierConfig::new(sizes(64))).expect("possible"))
            }
        };
        for request in &trace.requests {
            let number = trace.pages[request.page() as usize];
            let page = HostPage(order.binary_search(&number).expect("a page of the trace") as u32);
            if request.changes() {
                cache.evict(page);
            } else if cache.fetch(page) == Lookup::Absent {
                cache.arrived(page);
            }
        }
        cache.check();
        let (counters, measures) =
            (cache.counters(), Measures::of(&cache.counters(), &cache.chip().counters(), 1));
        assert_eq!(result.decision_hash, format!("{:016x}", cache.decision_hash()), "{kind:?}");
        assert_eq!((result.flash_hit_rate, result.clwa), (measures.hit_rate, measures.clwa));
        assert_eq!((result.flwa, result.twaf), (Some(measures.flwa), Some(measures.twaf())));
        assert_eq!(result.gc_count, Some(measures.gc_count));
        assert_eq!((result.disk_reads, result.disk_writes), (counters.disk_reads, counters.writes));
        assert_eq!(result.policy, kind.name());
    }
}

#[test]
fn a_write_through_cache_answers_reads_sooner_than_the_disk_and_writes_no_sooner() {
    let trace = trace(30_000, Op::Write);
    let alone = |flash_layer, mode| {
        let arrival = Arrival::Closed { clients: 1 };
        run(&trace, &RunConfig { arrival, mode, ..config(&trace, flash_layer, 0, 1280) })
    };
    let bare = alone(None, Mode::WriteBack);
    let cached = alone(Some(Cache::Blocks(BlockKind::RwFdb)), Mode::WriteThrough);
    assert!(cached.flash_hit_rate > 0.3, "{}", cached.flash_hit_rate);
    assert!(cached.mean_response_us < bare.mean_response_us, "{cached:?}");
    assert_eq!(cached.disk_writes, bare.disk_writes);
    assert!(cached.tf_ms > 0.0 && cached.flash_utilisation > 0.0);
}
