//! A ring under `reuse` takes other pages when those on flash are no longer used.

use entresol_core::{Cache, PolicyKind};
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{RunConfig, simulate};
use entresol_trace::generate::Loops;

/// Two loops that take turns: the short one fits into the cache, and the long one does not. Once pages of
/// the long one fill the ring, no page promises more than those that were dequeued last. So every page is
/// kept out until looks at the ring tell that its pages wait longer (`reuse/look.rs`). How long that takes
/// depends on the seed: without looks the worst of these has .20 hits.
#[test]
fn a_ring_of_idle_pages_takes_others() {
    let catalogue = Catalogue::builtin();
    let [flash, disk] = ["nvme", "sata-disk"].map(|name| catalogue.device(name).expect("built in"));
    let memory = catalogue.memory("dram").expect("built in");
    let hits = |seed: u64| {
        let loops =
            Loops { pages: vec![800, 4200], run_pages: 200, references: 100_000, seed, ..Loops::default() };
        let trace = loops.generate().expect("possible");
        let ring = Some(Cache::Policy(PolicyKind::Reuse));
        let config = RunConfig {
            dram_pages: 25,
            flash_pages: 800,
            ..RunConfig::new(ring, (flash, disk), memory, 0..trace.requests.len())
        };
        simulate(&trace, &[config], &|_, _| ()).expect("a replay")[0].flash_hit_rate
    };
    let hits: Vec<f64> = (1..=6).map(hits).collect();
    assert!(hits.iter().all(|hits| *hits > 0.3), "{hits:?}");
}
