//! A sample of a trace is the trace without the pages that were not drawn, however it is read.

use entresol_trace::generate::{Mix, Scans};
use entresol_trace::{
    Chunk, Compression, Format, Op, ReadOptions, Request, Sample, SampledTrace, Trace, TraceBuilder,
    TraceError, read_from, read_samples_from, write,
};
use std::ops::Range;
use std::path::Path;

/// Two hundred thousand references with times, in requests of up to three pages.
fn trace() -> Trace {
    let scans = Some(Scans { share: 0.2, pages: 40 });
    let mix =
        Mix { pages: 5000, references: 200_000, scans, references_per_s: Some(1000.0), ..Mix::default() };
    let mut trace = mix.generate().expect("possible");
    for at in (0..trace.requests.len()).filter(|at| at % 5 > 2) {
        trace.requests[at] = trace.requests[at].continued();
    }
    trace
}

fn encoded(trace: &Trace, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(trace, format, Path::new("t"), Compression::None, &mut bytes).expect("memory");
    bytes
}

fn sampled(bytes: &[u8], samples: &[(f64, u64)]) -> Vec<SampledTrace> {
    let samples = samples.iter().map(|(rate, seed)| Sample::new(*rate, *seed).expect("possible")).collect();
    read_samples_from("t", bytes, &ReadOptions { samples, ..ReadOptions::default() }).expect("a trace")
}

type Record = (u64, Op, bool, Option<u64>);

/// All records of a sample, by the pages' numbers in the source.
fn records(trace: &Trace) -> Vec<Record> {
    of_range(trace, &(0..trace.len()))
}

fn of_range(trace: &Trace, range: &Range<usize>) -> Vec<Record> {
    let mut records = Vec::new();
    let add = |chunk: Chunk<'_>| {
        for (at, request) in chunk.requests.iter().enumerate() {
            let page = trace.pages[request.page() as usize];
            records.push((page, request.op(), request.continues(), chunk.times_us.get(at).copied()));
        }
        Ok::<(), TraceError>(())
    };
    trace.each_chunk(range, add).expect("readable");
    records
}

/// The records of `trace` whose pages `holds`: the first of a host request begins it.
fn filtered(trace: &Trace, holds: impl Fn(&Request) -> bool) -> Vec<Record> {
    let (mut records, mut begun) = (Vec::new(), false);
    for (at, request) in trace.requests.iter().enumerate() {
        begun &= request.continues();
        if holds(request) {
            let page = trace.pages[request.page() as usize];
            records.push((page, request.op(), begun, trace.times_us.get(at).copied()));
            begun = true;
        }
    }
    records
}

#[test]
fn a_sample_is_the_trace_without_the_other_pages() {
    let trace = trace();
    // Rates of which the larger does not fit in a block of memory, and two seeds.
    let drawn = [(0.9, 1), (0.1, 1), (0.1, 2), (1.0, 7)];
    let samples = sampled(&encoded(&trace, Format::Entresol), &drawn);
    for (sample, (rate, seed)) in samples.iter().zip(drawn) {
        let expected = filtered(&trace, |request| sample.sample.holds(request.page().into()));
        assert_eq!(records(&sample.trace), expected, "rate {rate}, seed {seed}");
        let share = sample.trace.pages.len() as f64 / 5000.0;
        let error = (rate * (1.0 - rate) / 5000.0).sqrt();
        assert!((share - rate).abs() <= 4.0 * error, "{share} of the pages at rate {rate}");
        assert_eq!(sample.whole.references, 200_000.0);
        assert_eq!(sample.trace.pages, {
            let mut pages: Vec<u64> = Vec::new();
            let mut seen = std::collections::BTreeSet::new();
            pages.extend(expected.iter().map(|record| record.0).filter(|page| seen.insert(*page)));
            pages
        });
    }
    assert_ne!(samples[1].trace.pages, samples[2].trace.pages, "another seed, another sample");
    assert!(samples[0].trace.requests.len() <= 1 << 16, "the rest is not in memory");
    assert!(samples[0].trace.spool.is_some() && samples[1].trace.spool.is_none());
}

#[test]
fn other_formats_are_sampled_by_the_pages_own_numbers() {
    let trace = trace();
    let bytes = encoded(&trace, Format::OracleGeneralOpNs);
    let whole = read_from("t", &bytes[..], &ReadOptions::default()).expect("a trace");
    let sample = &sampled(&bytes, &[(0.3, 5)])[0];
    let expected = filtered(&whole, |request| sample.sample.holds(whole.pages[request.page() as usize]));
    assert_eq!(records(&sample.trace), expected);
    let relations = |sample: &SampledTrace| sample.trace.relations.clone().expect("objects").len();
    let msr = "128166372003061629,usr,0,Read,0,8192,1\n128166372003061729,usr,1,Write,4096,8192,1\n";
    let volumes = &sampled(msr.as_bytes(), &[(1.0, 1)])[0];
    let expected = [
        (0, Op::Read, false, Some(0)),
        (1, Op::Read, true, Some(0)),
        (1 << 32 | 1, Op::Write, false, Some(10)),
        (1 << 32 | 2, Op::Write, true, Some(10)),
    ];
    assert_eq!((records(&volumes.trace), relations(volumes)), (expected.to_vec(), 2));
    assert_eq!((volumes.whole.requests, volumes.whole.reads, volumes.whole.records), (2.0, 2.0, 4.0));
}

#[test]
fn parts_of_a_long_sample_are_found_as_in_memory() {
    let trace = trace();
    let sample = &sampled(&encoded(&trace, Format::Entresol), &[(0.9, 1)])[0];
    let all = records(&sample.trace);
    assert_eq!(all.len(), sample.trace.len());
    for range in [0..1, 65_535..65_537, 65_536..70_000, 131_071..131_080, 1000..all.len(), 5..5] {
        assert_eq!(of_range(&sample.trace, &range), all[range.clone()], "{range:?}");
    }
    for at in [0, 65_535, 65_536, 131_072, all.len() - 1] {
        assert_eq!(sample.trace.time_us(at).expect("readable"), all[at].3);
    }
    assert_eq!(sample.trace.time_us(all.len()).expect("readable"), None);
    let (from_us, until_us) = (20_000_000, 150_000_000);
    let range = sample.trace.between(20.0, 150.0).expect("a span");
    let place = |us: u64| all.iter().position(|record| record.3 >= Some(us)).expect("within");
    assert_eq!(range, place(from_us)..place(until_us));
}

#[test]
fn the_whole_traces_counts_are_known_at_each_sampled_record() {
    let trace = trace();
    for (rate, near) in [(1.0, 1.0), (0.5, 60.0), (0.02, 400.0)] {
        let sample = &sampled(&encoded(&trace, Format::Entresol), &[(rate, 3)])[0];
        for number in [0, 1, 777, 65_000, 123_456, 199_999] {
            let place = sample.sampled(&(number..number)).start;
            let found = sample.number(place) as f64;
            assert!((found - number as f64).abs() <= near, "rate {rate}: {number} is found at {found}");
        }
        let all = sample.sampled(&(0..200_000));
        assert_eq!((all.clone(), sample.counted(&all).references), (0..sample.trace.len(), 200_000.0));
        let (first, second) = (sample.sampled(&(0..80_000)), sample.sampled(&(80_000..200_000)));
        let counted = sample.counted(&first).reads + sample.counted(&second).reads;
        assert!((counted - sample.whole.reads).abs() < 1e-6);
        assert!((sample.counted(&first).references - 80_000.0).abs() <= near);
    }
}

#[test]
fn rates_and_requests_without_sense_are_refused() {
    for rate in [0.0, -0.1, 1.1, f64::NAN, 1e-9] {
        assert!(matches!(Sample::new(rate, 1), Err(TraceError::Option(_))), "{rate}");
    }
    let bytes = encoded(&trace(), Format::Entresol);
    let samples = vec![Sample::new(0.5, 1).expect("possible")];
    let with = ReadOptions { samples, ..ReadOptions::default() };
    assert!(matches!(read_from("t", &bytes[..], &with), Err(TraceError::Option(_))));
    assert!(matches!(
        read_samples_from("t", &bytes[..], &ReadOptions::default()),
        Err(TraceError::Option(_))
    ));
    assert!(matches!(read_samples_from("t", &b""[..], &with), Err(TraceError::Empty { .. })));
    let mut torn = bytes.clone();
    let last = torn.len() - 1;
    torn[last] ^= 1;
    assert!(read_samples_from("t", &torn[..], &with).is_err(), "what is not drawn is verified, too");
    assert!(TraceBuilder::new("t", 4096).is_empty());
}
