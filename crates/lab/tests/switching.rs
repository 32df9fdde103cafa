//! A workload that changes in the middle: a cache that may go on under another policy does about as well as
//! the better policy in each half.

use entresol_core::{Cache, Mode, PolicyKind};
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{Arrival, RunConfig, SimulationResult, simulate};
use entresol_runtime::rng::Rng;
use entresol_trace::{Op, Request, Trace};

/// References of a half: 53 turns of the ring. A change costs seven turns under the worse policy: four until
/// the shadows tell something, and three looks.
const HALF: usize = 14_000_000;

/// References to pages. Neighbours are not neighbours on disk: a
/// shadow cannot tell which accesses are.
struct Load {
    rng: Rng,
    /// Of the cache.
    slots: u64,
    /// The first page that no reference was made to.
    unused: u64,
    pages: Vec<u64>,
}

impl Load {
    fn new(slots: u32) -> Self {
        Self { rng: Rng::new(7), slots: slots.into(), unused: 0, pages: Vec::new() }
    }

    fn take(&mut self, pages: u64) -> u64 {
        self.unused += pages;
        self.unused - pages
    }

    /// Seven in ten references are to popular pages, more to a few of them; three are a scan.
    fn popular_and_scanned(&mut self) {
        let pages = 6 * self.slots;
        let (popular, scanned) = (self.take(pages), self.take(pages));
        for at in 0..HALF as u64 {
            let skewed =
                self.rng.below(pages) * self.rng.below(pages) / pages * self.rng.below(pages) / pages;
            let is_scan = self.rng.below(10) < 3;
            self.pages.push(if is_scan { scanned + at % pages } else { popular + skewed });
        }
    }

    /// Batches: `once` times as many new pages as the cache holds are needed once, then nine tenths as many
    /// others again and again for a while, each `halves` / 2 times.
    fn batches(&mut self, once: u64, halves: u64) {
        let (once, often) = (once * self.slots, self.slots * 9 / 10);
        let end = self.pages.len() + HALF;
        while self.pages.len() < end {
            let first = self.take(once);
            self.pages.extend(first..first + once);
            let first = self.take(often);
            let (pages, rng) = (&mut self.pages, &mut self.rng);
            pages.extend((0..often * halves / 2).map(|_| first + rng.below(often)));
        }
        self.pages.truncate(end);
    }

    /// Of a hundred references `changes` change their page.
    fn trace(mut self, changes: u64) -> Trace {
        let mut trace = Trace { name: "two halves".into(), page_bytes: 4096, ..Trace::default() };
        trace.pages = (0..self.unused).map(|page| page * 0x9E37_79B1 % (1 << 32)).collect();
        for page in self.pages {
            trace.requests.push(Request::new(page as u32, Op::Read));
            if self.rng.below(100) < changes {
                trace.requests.push(Request::new(page as u32, Op::Dirty));
            }
        }
        trace
    }
}

fn config(trace: &Trace, policy: PolicyKind, slots: u32) -> RunConfig {
    let catalogue = Catalogue::builtin();
    let flash = catalogue.flash("nvme").expect("built in");
    let disk = catalogue.device("cloud").expect("built in");
    let memory = catalogue.memory("dram").expect("built in");
    RunConfig {
        mode: Mode::WriteBack,
        dram_pages: 4000,
        flash_pages: slots,
        arrival: Arrival::Closed { clients: 8 },
        hit_ns: 1000,
        ..RunConfig::new(Some(Cache::Policy(policy)), (flash, disk), memory, 0..trace.len())
    }
}

/// Seconds of the busier device, and hits on flash.
#[derive(Clone, Copy, Debug)]
struct Did {
    seconds: f64,
    hits: f64,
}

impl Did {
    fn of(result: &SimulationResult) -> Self {
        let rate = result.flash_hit_rate;
        let hits = result.disk_reads as f64 / (1.0 - rate) * rate;
        Self { seconds: result.tf_ms.max(result.td_ms) / 1000.0, hits }
    }

    fn and(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, hits: self.hits + other.hits }
    }
}

/// What policies of one placement do in each half, and what switching among them does, from each of them on.
fn compare(trace: &Trace, policies: [PolicyKind; 2], slots: u32) -> ([[Did; 2]; 2], Vec<SimulationResult>) {
    // Where the second half begins: the changes of a page follow its reference.
    let references = trace.requests.iter().enumerate().filter(|(_, request)| request.is_reference());
    let middle = references.map(|(at, _)| at).nth(HALF).expect("it is twice as long");
    let mut configs = Vec::new();
    for policy in policies {
        let whole = config(trace, policy, slots);
        configs.push(RunConfig { records: 0..middle, ..whole.clone() });
        configs.push(RunConfig { measure_from: middle, ..whole.clone() });
        configs.push(RunConfig { switches: true, ..whole });
    }
    let results = simulate(trace, &configs, &|_, _| {}).expect("all are possible");
    let halves = [0, 3].map(|at| [Did::of(&results[at]), Did::of(&results[at + 1])]);
    (halves, vec![results[2].clone(), results[5].clone()])
}

fn check(trace: &Trace, policies: [PolicyKind; 2], slots: u32) {
    let (halves, switching) = compare(trace, policies, slots);
    for (policy, [first, second]) in policies.iter().zip(&halves) {
        println!("{}: {first:.1?}, then {second:.1?}", policy.name());
    }
    let better = |half: usize| {
        let of_half = halves.map(|did| did[half]);
        let [one, two] = of_half;
        let (better, worse) = if one.seconds < two.seconds { (one, two) } else { (two, one) };
        assert!(worse.seconds > 1.03 * better.seconds, "one policy is better in half {half}");
        better
    };
    let best = better(0).and(better(1));
    for did in halves.map(|[first, second]| first.and(second)) {
        assert!(did.seconds > 1.03 * best.seconds, "no policy is the better one in both halves");
    }
    let did = [0, 1].map(|at| Did::of(&switching[at]));
    for ((begins, result), did) in policies.iter().zip(&switching).zip(did) {
        let (time, hits) = (did.seconds / best.seconds, did.hits / best.hits);
        println!("switching from {}: {did:.1?}; time × {time:.3}, hits × {hits:.3}", begins.name());
        result.switches.iter().for_each(|switch| println!("  {} {}", switch.after_fetches, switch.why));
    }
    for did in did {
        // Two changes cost seven turns of the cache each.
        assert!(did.seconds < 1.035 * best.seconds, "{did:?}, and the better policy in each half {best:?}");
    }
}

#[test]
fn rings_that_switch_do_as_well_as_the_better_policy_in_each_half() {
    // The smallest ring that has shadows, about.
    let slots = 262_144;
    let mut load = Load::new(slots);
    load.popular_and_scanned();
    load.batches(4, 5);
    check(&load.trace(20), [PolicyKind::FaceGsc, PolicyKind::Reuse], slots);
}
