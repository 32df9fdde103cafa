//! RW: tables 5.1 and 5.2, figures 5.1 and 5.2, the memory figures of §4.1.3, and sweeps of what the thesis
//! does not say.
//!
//! Each run is the replay of [`crate::replay`] without DRAM (the stream is one below a buffer pool), one
//! client, a cache that is its own translation layer, a chip of the thesis' latencies, and a storage behind
//! of a fixed latency. The first third warms up, the rest is measured. The numbers and claims of the thesis
//! are in [`crate::paper::rw`].

mod sweep;
mod tables;
mod workload;

use super::chapter::Chapter;
use super::{Context, Effort, Paper};
use crate::bench::parallel;
use crate::paper::judged;
use crate::paper::rw::{self, Contender, RwRow};
use crate::replay::device::{DeviceKind, DeviceSpec, MemorySpec};
use crate::replay::{self, Places, RunConfig, block_sizes};
use anyhow::Context as _;
use entresol_core::{BlockKind, Cache, Mode};
use entresol_ftl::cache::{
    BlockCache, Fill, FlashTier, FlashTierConfig, Measures, RwFdb, RwFdbConfig, Thresholds,
};
use entresol_runtime::say::thousands;
use entresol_trace::Trace;

/// Flash, in per cent of the pages that the trace touches: where FlashTier without a write buffer hits about
/// as often as in the thesis. The one number that is fitted.
const FLASH_PERCENT: f64 = 80.0;
/// Latency of the storage behind, microseconds: the thesis gives none.
const BACKEND_US: f64 = 1000.0;
/// Thresholds of admission: the thesis gives none. The least under which figure 3.2 can send a page that was
/// written and not read to each of its three places but the read-frequent one.
const THRESHOLDS: Thresholds = Thresholds { read: 0, write: 1 };
/// A trace that touches as much has the thesis' write buffers; smaller ones have smaller ones.
const FULL_BYTES: f64 = 512.0 * 1024.0 * 1024.0;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    page_kb: u32,
    contender: Contender,
    buffer_mb: u32,
    thresholds: Thresholds,
    flash_percent: f64,
    backend_us: f64,
}

impl Setting {
    const fn new(page_kb: u32, contender: Contender, buffer_mb: u32) -> Self {
        Self {
            page_kb,
            contender,
            buffer_mb,
            thresholds: THRESHOLDS,
            flash_percent: FLASH_PERCENT,
            backend_us: BACKEND_US,
        }
    }
}

/// What came out of a run; `row.response` is in microseconds until it is normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    setting: Setting,
    row: RwRow,
    mean_us: f64,
}

/// The traces of both page sizes, with the place of each page.
struct Bench {
    small: (Trace, Places),
    large: (Trace, Places),
}

impl Bench {
    fn trace(&self, page_kb: u32) -> &(Trace, Places) {
        if page_kb == 16 { &self.large } else { &self.small }
    }

    /// Runs all settings, as many at a time as there are cores.
    fn run(&self, context: &Context<'_>, what: &str, settings: &[Setting]) -> anyhow::Result<Vec<Outcome>> {
        (context.progress)(what, 0.0);
        parallel::map(settings, |_, setting| {
            self.run_one(setting).with_context(|| format!("RW, {what}, {setting:?}"))
        })
    }

    fn run_one(&self, setting: &Setting) -> anyhow::Result<Outcome> {
        let (trace, places) = self.trace(setting.page_kb);
        let cache = cache(trace, setting)?;
        let unit_pages = cache.sizes().unit_pages;
        let replayed = replay::blocks(trace, places, &config(trace, setting), cache, &|_| {})?;
        let (counted, chip) = replayed.totals.chip.expect("a cache that is its own layer says what it did");
        let measures = Measures::of(&counted, &chip, unit_pages);
        let waiting = &replayed.waiting;
        let mean_us = waiting.waited_ns as f64 / 1e3 / waiting.requests.max(1) as f64;
        let row = RwRow {
            page_kb: setting.page_kb,
            contender: setting.contender,
            buffer_mb: setting.buffer_mb,
            hit_rate: measures.hit_rate * 100.0,
            gc_count: measures.gc_count as f64,
            clwa: measures.clwa,
            flwa: measures.flwa,
            response: 1.0,
        };
        Ok(Outcome { setting: *setting, row, mean_us })
    }
}

fn cache(trace: &Trace, setting: &Setting) -> anyhow::Result<Box<dyn BlockCache>> {
    let flash_pages = (trace.unique_pages() as f64 * setting.flash_percent / 100.0) as u32;
    let scale = (trace.footprint_bytes() as f64 / FULL_BYTES).min(1.0);
    let bytes = f64::from(setting.buffer_mb) * 1024.0 * 1024.0 * scale;
    let sizes = block_sizes(trace, flash_pages, (bytes / f64::from(trace.page_bytes)) as u32);
    let fill = if setting.contender == Contender::FlashtierPages { Fill::Page } else { Fill::Block };
    Ok(match setting.contender {
        Contender::Rwfdb => {
            let config = RwFdbConfig { thresholds: setting.thresholds, ..RwFdbConfig::new(sizes) };
            Box::new(RwFdb::new(config)?)
        }
        _ => Box::new(FlashTier::new(FlashTierConfig { fill, ..FlashTierConfig::new(sizes) })?),
    })
}

fn config(trace: &Trace, setting: &Setting) -> RunConfig {
    let backend = DeviceSpec {
        name: "san".into(),
        description: "networked storage".into(),
        kind: DeviceKind::Disk,
        capacity_gb: 1000.0,
        random_read_iops: 20_000.0,
        random_write_iops: 20_000.0,
        sequential_read_mb_s: Some(200.0),
        sequential_write_mb_s: Some(200.0),
        read_us: Some(setting.backend_us),
        write_us: Some(setting.backend_us),
        currency: String::new(),
        gap_kb: 0.0,
        price_per_gb: None,
        watts_per_gb: None,
        rated_full_writes: None,
        model: None,
    };
    let memory = MemorySpec {
        name: String::new(),
        description: String::new(),
        currency: String::new(),
        price_per_gb: 0.0,
        watts_per_gb: 0.0,
    };
    let (layer, requests) = (Cache::Blocks(BlockKind::RwFdb), trace.requests.len());
    RunConfig {
        mode: Mode::WriteThrough,
        whole_writes: true,
        measure_from: requests / 3,
        ..RunConfig::new(Some(layer), (&backend, &backend), &memory, 0..requests)
    }
}

/// The runs of both tables, and page-level caching on FlashTier's device.
fn of_tables() -> Vec<Setting> {
    let of_size = |page_kb: u32| {
        let of = move |contender: Contender, buffers: &'static [u32]| {
            buffers.iter().map(move |&buffer_mb| Setting::new(page_kb, contender, buffer_mb))
        };
        of(Contender::Flashtier, &[0, 8, 16])
            .chain(of(Contender::FlashtierPages, &[8]))
            .chain(of(Contender::Rwfdb, &[8, 16]))
    };
    of_size(16).chain(of_size(8)).collect()
}

/// Divides mean responses by that of FlashTier without a write buffer, at each page size.
fn normalised(outcomes: &[Outcome]) -> Vec<RwRow> {
    let base = |page_kb: u32| {
        let is_base = |o: &&Outcome| {
            o.row.page_kb == page_kb && o.row.contender == Contender::Flashtier && o.row.buffer_mb == 0
        };
        outcomes.iter().find(is_base).map_or(1.0, |o| o.mean_us)
    };
    outcomes.iter().map(|o| RwRow { response: o.mean_us / base(o.row.page_kb), ..o.row }).collect()
}

/// Reproduces the thesis.
pub(super) fn chapter(context: &Context<'_>) -> anyhow::Result<Chapter> {
    (context.progress)("workload", 0.0);
    let workload = workload::workload(context)?;
    let large = workload::doubled(&workload.trace)?;
    let (small_places, large_places) = (Places::of(&workload.trace), Places::of(&large));
    let bench = Bench { small: (workload.trace, small_places), large: (large, large_places) };
    let outcomes = bench.run(context, "tables 5.1 and 5.2", &of_tables())?;
    let rows = normalised(&outcomes);
    let mut sections = tables::sections(&rows);
    let sizes = sweep::Sizes::new(&bench, context)?;
    sections.push(sizes.section());
    if context.effort == Effort::Full {
        sections.extend(sweep::sections(&bench, context)?);
    }
    (context.progress)("done", 1.0);
    Ok(Chapter {
        paper: Paper::Rw.name(),
        title: Paper::Rw.title(),
        setup: setup(&workload.described, &bench.small.0),
        rows: tables::rows(&rows).into_vec(),
        claims: judged(rw::CLAIMS, &[rows.as_slice()]),
        depends_on: vec![sizes.sentence()],
        sections,
    })
}

fn setup(workload: &str, trace: &Trace) -> Vec<String> {
    let writes = trace.requests.iter().filter(|request| request.changes()).count();
    let share = 100.0 * writes as f64 / trace.requests.len().max(1) as f64;
    vec![
        format!(
            "{workload} {} requests, {share:.0} % writes (the thesis' InnoDB: 34 %), over {} pages of 8 KB. Pages of 16 KB \
             are two neighbours taken as one.",
            thousands(trace.requests.len()),
            thousands(trace.unique_pages())
        ),
        format!(
            "Flash: {FLASH_PERCENT} % of the pages touched, so that FlashTier without a write buffer hits about as often as \
             in the thesis, which does not give the size; on top, 10 % spare and 7 % log blocks. Nothing else was fitted."
        ),
        format!(
            "Not in the thesis, chosen: thresholds of 0 reads and 1 write (with 0 writes no written page is write-frequent), \
             storage behind of {BACKEND_US:.0} µs and 200 MB/s; the full run sweeps them. The chip has table 4.1's rates: \
             149,700 reads and 15,300 writes a second."
        ),
        "CLWA and FLWA: flash pages written by the cache, and copied by merges and collection, for each flash page that \
         the workload writes. The thesis' unit is not said; for each write request TWAF is four and two times as much. GC \
         count: log blocks merged and blocks evicted; hit rate: of reads."
            .into(),
    ]
}
