//! What shadows cost beside a cache: memory, and time for each page that DRAM fetches and evicts, measured
//! beside the same loop without them. References are skewed (Zipf, exponent 1, over four times the slots).
//!
//! Usage: `cargo run --release -p entresol-engine --example shadow_costs [SLOTS ...]`

use entresol_core::{Config, Costs, Mode, PageId, PolicyKind, ShadowPlan, region_bytes};
use entresol_engine::Shadow;
use entresol_runtime::rng::Rng;
use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// References that are measured, and those before them for each slot.
const REFERENCES: u64 = 20_000_000;
const WARM_UP: u64 = 8;
/// Runs of each; the quickest counts.
const RUNS: usize = 3;

/// References of a database over a DRAM of a sixteenth of the slots, first in, first out.
struct Load {
    rng: Rng,
    pages: u64,
    frames: VecDeque<(PageId, bool)>,
}

impl Load {
    fn new(slots: u32) -> Self {
        let frames = (0..u64::from(slots / 16)).map(|page| (PageId(page), false)).collect();
        Self { rng: Rng::new(7), pages: 4 * u64::from(slots), frames }
    }

    /// The page that is fetched, and the one that leaves with what it is.
    fn next(&mut self) -> (PageId, (PageId, bool)) {
        let rank = (self.pages as f64).powf(self.rng.next_u64() as f64 / u64::MAX as f64) as u64 % self.pages;
        // Spread over the disk.
        let page = PageId(rank.wrapping_mul(0x9e37_79b9) % self.pages);
        let dirty = self.rng.below(3) == 0;
        self.frames.push_back((page, dirty));
        (page, self.frames.pop_front().expect("it has frames"))
    }

    fn run(&mut self, references: u64, mut step: impl FnMut(PageId, (PageId, bool))) -> Duration {
        let begun = Instant::now();
        for _ in 0..references {
            let (page, victim) = self.next();
            step(page, victim);
        }
        begun.elapsed()
    }
}

fn measure(policy: PolicyKind, slots: u32) -> Result<(), Box<dyn Error>> {
    let config = Config::new(policy, slots);
    let plan = match ShadowPlan::of(&config, Mode::WriteBack) {
        Ok(plan) => plan,
        Err(why) => {
            println!("{:>12} {slots:>10}   no shadows: the cache {}", policy.name(), why.0);
            return Ok(());
        }
    };
    let shadow = Shadow::new(&config, Mode::WriteBack, &Costs::default());
    let tell = |page, (victim, dirty)| {
        shadow.fetch(page);
        shadow.evict(victim, dirty, dirty);
    };
    let (mut with, mut without) = (Load::new(slots), Load::new(slots));
    with.run(WARM_UP * u64::from(slots), tell);
    let [mut quickest, mut bare] = [Duration::MAX; 2];
    for _ in 0..RUNS {
        bare = bare.min(without.run(REFERENCES, |page, victim| _ = black_box((page, victim))));
        quickest = quickest.min(with.run(REFERENCES, tell));
    }
    let nanos = quickest.saturating_sub(bare).as_nanos() as f64 / REFERENCES as f64;
    println!(
        "{:>12} {slots:>10} {:>6} {:>10} {:>8.2} {nanos:>8.1} {:>10.2}   {}",
        policy.name(),
        plan.one_of(),
        plan.bytes(),
        100.0 * plan.bytes() as f64 / region_bytes(&config) as f64,
        nanos * 1e5 / 1e7,
        shadow.forecasts().sentence(),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let slots: Vec<u32> = std::env::args().skip(1).map(|slots| slots.parse()).collect::<Result<_, _>>()?;
    let slots = if slots.is_empty() { vec![100_000, 1 << 20, 1 << 22] } else { slots };
    println!(
        "{:>12} {:>10} {:>6} {:>10} {:>8} {:>8} {:>10}",
        "policy", "slots", "1 of", "bytes", "% of dir", "ns each", "% at 100k/s"
    );
    for slots in slots {
        for policy in [PolicyKind::FaceGsc, PolicyKind::Reuse, PolicyKind::Lc] {
            measure(policy, slots)?;
        }
    }
    Ok(())
}
