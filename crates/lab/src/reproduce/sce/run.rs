//! One system under one workload of SCE's chapter.

use super::workload::{FRAGMENT_BYTES, Workload};
use crate::paper::sce::{Measured, System};
use crate::replay::device::{Catalogue, Device};
use crate::replay::tier::Inline;
use crate::replay::{Arrival, FragmentKnobs, Places, Replayed, RunConfig, below_dram, core_config, replay};
use entresol_core::{Cache, Mode, Partition, PolicyKind, region_bytes};
use zerocopy::IntoBytes;

/// Clients, enough to keep the disks busy.
const CLIENTS: u32 = 32;
/// Time of a DRAM hit.
const HIT_NS: u64 = 2_000;
/// Populations of fragments of 1 MiB in a thousand accesses, at most.
const PACE_PERMILLE: u32 = 16;
/// The part of a run that counts as its end: its last third.
const END_FROM: f64 = 2.0 / 3.0;

/// What a workload runs on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub system: System,
    /// Fragments of flash.
    pub flash: u32,
    /// The device under the database.
    pub disk: &'a str,
    /// Random writes of 4 KiB a second that the flash takes; `None`: as the catalogue has it.
    pub flash_writes: Option<f64>,
    /// flashcache's block.
    pub block_bytes: u32,
}

/// Runs `workload`.
pub(super) fn run(workload: &Workload, places: &Places, setup: &Setup<'_>) -> anyhow::Result<Measured> {
    let catalogue = Catalogue::builtin();
    let trace = &workload.trace;
    let system = setup.system;
    let layer = if system == System::Sce { Some(Cache::Fragments) } else { None };
    let mut flash = catalogue.flash("sce-flash")?.clone();
    flash.random_write_iops = setup.flash_writes.unwrap_or(flash.random_write_iops);
    let devices = (&flash, catalogue.device(setup.disk)?);
    let config = RunConfig {
        mode: Mode::WriteThrough,
        dram_pages: workload.dram_pages,
        flash_pages: setup.flash * workload.fragment_pages(),
        fragments: FragmentKnobs {
            fragment_pages: Some(workload.fragment_pages()),
            pace_permille: Some(PACE_PERMILLE),
            ..FragmentKnobs::default()
        },
        arrival: Arrival::Closed { clients: CLIENTS },
        hit_ns: HIT_NS,
        ..RunConfig::new(layer, devices, catalogue.memory("dram-2012")?, 0..trace.requests.len())
    };
    let told = |_: f64| {};
    let replayed = match system {
        System::NoCache | System::Sce => replay(trace, places, &config, &told)?,
        System::Flashcache(mode) => {
            let core = core_config(PolicyKind::Flashcache, config.flash_pages)?;
            let mut region = vec![0u64; region_bytes(&core) / 8];
            let partition = Partition::format(region.as_mut_bytes(), &core)?;
            let disk = Device::new(&config.disk_device, trace.page_bytes);
            let devices = (Device::new(&config.flash_device, setup.block_bytes), disk);
            let sizes = (trace.page_bytes, setup.block_bytes);
            let tier = Inline::new(partition, mode, devices, places.as_slice(), sizes);
            below_dram(trace, &config, tier, &told)?
        }
    };
    Ok(measured(system, &replayed, trace.page_bytes))
}

fn measured(system: System, replayed: &Replayed, page_bytes: u32) -> Measured {
    let curve = &replayed.curve;
    let from = (curve.len() as f64 * END_FROM) as usize;
    let (first, last) = (&curve[from.min(curve.len() - 1)], &curve[curve.len() - 1]);
    let seconds = last.time_s.max(1e-9);
    let rate = |references: u64, seconds: f64| references as f64 / seconds.max(1e-9);
    let mut throughput_curve = Vec::new();
    for pair in curve.windows(2) {
        let passed = pair[1].time_s - pair[0].time_s;
        throughput_curve.push((pair[1].time_s, rate(pair[1].references - pair[0].references, passed)));
    }
    let ends = &curve[from.min(curve.len() - 1)..];
    let mib = |pages: u64| pages as f64 * f64::from(page_bytes) / f64::from(FRAGMENT_BYTES);
    let tier = &replayed.totals.tier;
    let disk_reads = tier.disk_reads + replayed.totals.read_ahead;
    let traffic = [tier.flash_hits + tier.dequeue_reads, tier.flash_writes, disk_reads, tier.disk_writes];
    Measured {
        system,
        throughput: rate(last.references - first.references, last.time_s - first.time_s),
        response_us: replayed.waiting.waited_ns as f64 / replayed.waiting.requests.max(1) as f64 / 1e3,
        hit_rate: ends.iter().map(|point| point.flash_hit_rate).sum::<f64>() / ends.len() as f64,
        throughput_curve,
        flash_curve: curve.iter().map(|point| (point.time_s, point.flash_pages.map(mib))).collect(),
        hit_curve: curve.iter().map(|point| (point.time_s, point.flash_hit_rate)).collect(),
        traffic_mib_s: traffic.map(|pages| mib(pages) / seconds),
        flash_written_mib: mib(tier.flash_writes),
    }
}
