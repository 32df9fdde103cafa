//! Samples of a trace against the whole of it.

use entresol_core::{BlockKind, Cache, PolicyKind};
use entresol_lab::advise::{Goal, Question, advise};
use entresol_lab::mrc;
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{
    Arrival, Replacement, RunConfig, SimulationError, SimulationResult, Workload, simulate,
};
use entresol_trace::generate::Mix;
use entresol_trace::{
    Compression, Format, ReadOptions, Sample, SampledTrace, Trace, read_from, read_samples_from, write,
};
use std::path::Path;

const PAGES: u32 = 20_000;

/// A trace of which most of a large sample is in a file, as it is read from one.
fn encoded() -> Vec<u8> {
    encoded_with(false)
}

/// The same with requests of up to three pages, if `continues`: one goes on from block to block of the file.
fn encoded_with(continues: bool) -> Vec<u8> {
    let mix = Mix { pages: PAGES, references: 300_000, write_share: 0.2, ..Mix::default() };
    let mut bytes = Vec::new();
    let mut trace = Mix { references_per_s: Some(50_000.0), ..mix }.generate().expect("possible");
    for at in (0..trace.requests.len()).filter(|at| continues && at % 5 > 2) {
        trace.requests[at] = trace.requests[at].continued();
    }
    write(&trace, Format::Entresol, Path::new("t"), Compression::None, &mut bytes).expect("memory");
    bytes
}

fn whole(bytes: &[u8]) -> Trace {
    read_from("t", bytes, &ReadOptions::default()).expect("a trace")
}

fn samples(bytes: &[u8], rate: f64, hashes: u64) -> Vec<SampledTrace> {
    let samples = (1..=hashes).map(|seed| Sample::new(rate, seed).expect("possible")).collect();
    read_samples_from("t", bytes, &ReadOptions { samples, ..ReadOptions::default() }).expect("a trace")
}

fn config(trace: &Trace, cache: Option<Cache>, dram_pages: u32, flash_pages: u32) -> RunConfig {
    let catalogue = Catalogue::builtin();
    let flash = catalogue.flash("nvme").expect("built in");
    let disk = catalogue.device("sata-disk").expect("built in");
    let memory = catalogue.memory("dram").expect("built in");
    RunConfig {
        dram_pages,
        flash_pages,
        arrival: Arrival::Closed { clients: 4 },
        hit_ns: 1000,
        measure_from: trace.len() / 4,
        ..RunConfig::new(cache, (flash, disk), memory, 0..trace.len())
    }
}

fn policies() -> Vec<Option<Cache>> {
    let kinds = [PolicyKind::Lc, PolicyKind::FaceGsc, PolicyKind::Face, PolicyKind::Glb];
    std::iter::once(None).chain(kinds.map(|kind| Some(Cache::Policy(kind)))).collect()
}

fn run<'t>(workload: impl Into<Workload<'t>>, config: &RunConfig) -> SimulationResult {
    simulate(workload, std::slice::from_ref(config), &|_, _| {}).expect("a possible run").remove(0)
}

#[test]
fn a_sample_of_everything_is_the_whole() {
    let bytes = encoded_with(true);
    let (trace, all) = (whole(&bytes), samples(&bytes, 1.0, 1));
    assert!(all[0].trace.spool.is_some(), "records in a file make no difference");
    for cache in policies() {
        for dram_pages in [400, 0] {
            let config = config(&trace, cache, dram_pages, 2048);
            let exact = run(&trace, &config);
            let mut sampled = run(Workload::Samples(&all), &config);
            let sample = sampled.sample.take().expect("samples say so");
            assert_eq!((sample.rate, sample.hashes, sample.half_widths), (1.0, 1, None));
            assert_eq!(sample.references, exact.references as f64);
            // A drive of 2,048 slots is too small to stand for one: nothing is said of its wear.
            (sampled.flwa, sampled.twaf, sampled.gc_count) = (exact.flwa, exact.twaf, exact.gc_count);
            assert_eq!(sampled.flash_lifetime_years, None);
            sampled.flash_lifetime_years = exact.flash_lifetime_years;
            let near = (sampled.mean_response_us / exact.mean_response_us - 1.0).abs();
            assert!(near < 1e-9, "{} {}", sampled.mean_response_us, exact.mean_response_us);
            sampled.mean_response_us = exact.mean_response_us;
            // Of a request over that place it is not known to which part it belongs.
            assert!(
                sampled.requests.abs_diff(exact.requests) <= 2,
                "{} {}",
                sampled.requests,
                exact.requests
            );
            sampled.requests = exact.requests;
            sampled.digest.clone_from(&exact.digest);
            sampled.records_per_second = exact.records_per_second;
            for (sampled, exact) in [
                (&mut sampled.dram_hit_rate, exact.dram_hit_rate),
                (&mut sampled.flash_hit_rate, exact.flash_hit_rate),
                (&mut sampled.write_reduction, exact.write_reduction),
            ] {
                // Reads are interpolated at the place where the measured part begins.
                assert!((*sampled - exact).abs() < 1e-5, "{cache:?} {dram_pages}: {sampled} {exact}");
                *sampled = exact;
            }
            assert_eq!(sampled, exact, "{cache:?} with {dram_pages} pages of DRAM");
        }
    }
}

#[test]
fn a_fifth_of_the_pages_tells_of_all() {
    let bytes = encoded();
    let (trace, some) = (whole(&bytes), samples(&bytes, 0.2, 6));
    let workload = Workload::Samples(&some);
    assert!((workload.pages() as f64 / trace.unique_pages() as f64 - 1.0).abs() < 0.03);
    assert_eq!(workload.records(), trace.len());
    let (mut off, mut seen) = (0, 0);
    for cache in policies() {
        let config = config(&trace, cache, 400, 3000);
        let (exact, sampled) = (run(&trace, &config), run(workload, &config));
        let half = sampled.half_widths().expect("several samples").clone();
        // But for the place where the measured part begins, which is that of a sampled record.
        assert!(sampled.references.abs_diff(exact.references) < 20, "{cache:?}: counted exactly");
        for (what, sampled, exact, half, most) in [
            ("DRAM", sampled.dram_hit_rate, exact.dram_hit_rate, half.dram_hit_rate, 0.02),
            ("flash", sampled.flash_hit_rate, exact.flash_hit_rate, half.flash_hit_rate, 0.02),
            ("reads", sampled.disk_reads as f64, exact.disk_reads as f64, half.disk_reads, 0.05),
            ("writes", sampled.flash_writes as f64, exact.flash_writes as f64, half.flash_writes, 0.06),
            ("response", sampled.mean_response_us, exact.mean_response_us, half.mean_response_us, 0.06),
        ] {
            let scale = if most < 0.03 { 1.0 } else { exact.max(1.0) };
            let error = (sampled - exact).abs() / scale;
            assert!(error < most, "{cache:?}, {what}: {sampled} for {exact}");
            assert!(half / scale < 2.0 * most, "{cache:?}, {what}: ± {half} of {exact}");
            seen += 1;
            off += u32::from((sampled - exact).abs() > half);
        }
    }
    assert!(off * 3 < seen, "{off} of {seen} figures are outside their intervals");
}

#[test]
fn curves_of_samples_are_near_those_of_the_whole() {
    let bytes = encoded();
    let trace = whole(&bytes);
    let (all, policies, sizes) = (0..trace.len(), [Replacement::Lru, Replacement::Fifo], [500, 2000, 8000]);
    let curves = |workload: Workload<'_>| mrc::curves(workload, &all, &policies, &sizes, &|_| {});
    let exact = curves(Workload::Whole(&trace)).expect("possible");
    let everything = samples(&bytes, 1.0, 1);
    let same = curves(Workload::Samples(&everything)).expect("possible");
    let some = samples(&bytes, 0.2, 5);
    let near = curves(Workload::Samples(&some)).expect("possible");
    for ((exact, same), near) in exact.iter().zip(&same).zip(&near) {
        assert_eq!((exact.references, exact.unique_pages), (same.references, same.unique_pages));
        assert_eq!(near.references, exact.references, "all records are counted");
        for ((exact, same), near) in exact.points.iter().zip(&same.points).zip(&near.points) {
            assert_eq!((exact.pages, exact.misses), (same.pages, same.misses));
            assert!((near.miss_ratio - exact.miss_ratio).abs() < 0.015, "{near:?} {exact:?}");
            assert!(near.half_width.is_some_and(|half| half < 0.06) && exact.half_width.is_none());
        }
    }
    let small = curves(Workload::Samples(&samples(&bytes, 0.01, 1))).expect_err("5 pages of 500");
    assert!(small.to_string().contains("leaves 5 of 500 pages"), "{small}");
}

#[test]
fn what_a_sample_cannot_answer_is_refused_with_what_would_do() {
    let bytes = encoded();
    let (trace, some) = (whole(&bytes), samples(&bytes, 0.1, 2));
    let refused = |config: RunConfig| {
        let error = Workload::Samples(&some).validate(&config).expect_err("refused");
        assert!(simulate(Workload::Samples(&some), &[config], &|_, _| {}).is_err());
        error
    };
    let gsc = Some(Cache::Policy(PolicyKind::FaceGsc));
    let good = config(&trace, gsc, 400, 4000);
    assert_eq!(Workload::Samples(&some).validate(&good), Ok(()));
    let small = refused(RunConfig { flash_pages: 1000, ..good.clone() });
    assert!(matches!(small, SimulationError::SampleTooSmall { scaled: 100, .. }), "{small}");
    assert!(small.to_string().contains("sample 0.2560 of the pages or more"), "{small}");
    let little = refused(RunConfig { dram_pages: 100, ..good.clone() });
    assert!(little.to_string().contains("10 of 100 pages of DRAM"), "{little}");
    for (cache, word) in [
        (Cache::Fragments, "sce"),
        (Cache::Blocks(BlockKind::RwFdb), "rwfdb"),
        (Cache::Policy(PolicyKind::Tac), "tac"),
    ] {
        let mode = cache.usual_mode();
        let torn = refused(RunConfig { flash_layer: Some(cache), mode, ..good.clone() }).to_string();
        assert!(torn.contains(word) && torn.contains("neighbours"), "{torn}");
    }
    assert!(refused(RunConfig { arrival: Arrival::Timed, ..good.clone() }).to_string().contains("--timed"));
    let exact = refused(RunConfig { exact_devices: true, ..good });
    assert!(exact.to_string().contains("--exact-devices"), "{exact}");
}

#[test]
fn advice_from_samples_is_that_of_the_whole() {
    let bytes = encoded();
    let (trace, some) = (whole(&bytes), samples(&bytes, 0.5, 3));
    let catalogue = Catalogue::builtin();
    let memory = catalogue.memory("dram").expect("built in");
    let money = 1000.0 * 4096.0 / 1e9 * memory.price_per_gb;
    let question = Question {
        base: config(&trace, None, 1, 0),
        flash_devices: vec![catalogue.flash("nvme").expect("built in").clone()],
        caches: ["face-gsc", "lc"].map(|name| Cache::from_name(name).expect("a policy")).to_vec(),
        goal: Goal::Budget(money),
        years_min: 0.0,
        database_bytes: None,
    };
    let exact = advise(&trace, &question, &|_, _| {}).expect("possible");
    let near = advise(Workload::Samples(&some), &question, &|_, _| {}).expect("possible");
    assert_eq!((near.verdict, near.sureness, near.sample), (exact.verdict, exact.sureness, Some((0.5, 3))));
    let response = near.best[0].mean_response_us / exact.best[0].mean_response_us;
    assert!((response - 1.0).abs() < 0.1, "{} {}", near.sentence, exact.sentence);
    assert!(near.best[0].response_half_width_us.is_some() && exact.best[0].response_half_width_us.is_none());
}
