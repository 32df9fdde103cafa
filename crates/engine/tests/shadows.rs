//! Shadows beside a tier: what they tell of the cache that it is agrees with what it does, and a small cache
//! has none.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::{FlashTier, Layer, Mode, PageCache, ReadRoute, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use entresol_runtime::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use support::{PAGE, simulate};

/// The smallest cache of this policy that has shadows is not much smaller.
const SLOTS: u32 = 131_072;
const PAGES: u64 = 4 * SLOTS as u64;
const REFERENCES: u64 = 1_200_000;

/// Memory in which zeros take no room: they are not written.
struct WithoutZeros(MemoryDevice);

impl Device for WithoutZeros {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        batch.iter_mut().try_for_each(|io| match io {
            Io::Write { data, .. } if data.iter().all(|byte| *byte == 0) => Ok(()),
            Io::Write { offset, data } => self.0.write(*offset, data),
            Io::Read { offset, buffer } => self.0.read(*offset, buffer),
        })
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

fn tier(slots: u32) -> Arc<FlashTier> {
    let options = TierOptions {
        page_format: PageFormat::Raw,
        mode: Mode::WriteThrough,
        ..TierOptions::new(PolicyKind::Lc, slots)
    };
    let flash = Arc::new(WithoutZeros(MemoryDevice::new("flash", flash_bytes(&options))));
    let (_, disk) = support::memory(&options, PAGES);
    FlashTier::create(flash, disk, options).unwrap()
}

#[test]
fn shadows_tell_what_the_cache_hits() {
    let (told, real) = simulate(1, || {
        let tier = tier(SLOTS);
        let mut rng = Rng::new(3);
        let mut page = [0; PAGE];
        let mut before = tier.metrics();
        for at in 0..REFERENCES {
            if at == REFERENCES / 2 {
                before = tier.metrics();
            }
            // Skewed, with no page so hot that a sample depends on it alone.
            let draw = rng.below(1 << 20);
            let rank = (((draw * draw) >> 20) * PAGES) >> 20;
            let id = PageId(rank * 7919 % PAGES);
            tier.read_pages(id, &mut page, ReadRoute::Populates).unwrap();
            // Staging is written meanwhile.
            entresol_runtime::sleep(Duration::from_micros(5));
        }
        let metrics = tier.metrics();
        let told = metrics.forecasts.since(&before.forecasts);
        let own = *told.iter().next().expect("a cache of this size has shadows");
        assert!(own.is_settled && own.candidate.percent == 100, "{own:?}");
        assert!(told.iter().any(|other| other.candidate.policy == PolicyKind::S3Fifo));
        let hits = |metrics: &entresol_engine::TierMetrics| metrics.flash_hits + metrics.staging_hits;
        let real = (hits(&metrics) - hits(&before)) as f64 / (REFERENCES - REFERENCES / 2) as f64;
        (own.all.hits as f64 / own.all.fetches as f64, real)
    });
    println!("told {told:.3}, really {real:.3}");
    assert!(real > 0.3 && real < 0.95, "{real}");
    assert!((told - real).abs() < 0.02, "told {told}, really {real}");
}

#[test]
fn a_small_cache_has_no_shadows_and_says_so() {
    let sentence = simulate(2, || tier(8192).metrics().forecasts.sentence());
    assert!(sentence.contains("too small"), "{sentence}");
}
