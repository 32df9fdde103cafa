//! What is written is read back, and files of our own format are refused when a single byte of them is wrong.

mod support;

use entresol_core::PageId;
use entresol_trace::generate::{Mix, Scans, Source, TpccModel, write_as_made};
use entresol_trace::{
    Compression, Format, Losses, Op, ReadOptions, Trace, TraceBuilder, TraceError, WRITABLE, read_from, write,
};
use proptest::prelude::*;
use std::path::Path;
use support::{original, recognised};

/// A trace from (object, page, op, pages, time passed) tuples.
fn build(requests: &[(u8, u32, u8, u8, u32)], objects: bool, times: bool) -> Trace {
    let mut builder = TraceBuilder::new("made up", 4096);
    let mut now_us = 0;
    for &(object, page, op, pages, passed_us) in requests {
        now_us += u64::from(passed_us);
        let time_us = times.then_some(now_us);
        let object = if objects { builder.object(&format!("t{object}")).expect("few") } else { 0 };
        let op = [Op::Read, Op::Write, Op::Dirty][usize::from(op % 3)];
        if op == Op::Dirty {
            builder.page(PageId::new(object, page), op, time_us).expect("fits");
        } else {
            let bytes = 4096 * u64::from(pages % 5 + 1);
            builder.extent(object, u64::from(page) * 4096, bytes, op, time_us).expect("fits");
        }
    }
    builder.finish(str::to_owned)
}

fn written(trace: &Trace, format: Format) -> (Vec<u8>, Losses) {
    let mut bytes = Vec::new();
    let losses = write(trace, format, Path::new("t"), Compression::None, &mut bytes).expect("memory");
    (bytes, losses)
}

fn any_trace() -> impl Strategy<Value = Trace> {
    let request = (any::<u8>(), 0_u32..0xFFFF_FFF0, any::<u8>(), any::<u8>(), any::<u32>());
    (prop::collection::vec(request, 1..60), any::<bool>(), any::<bool>())
        .prop_map(|(requests, objects, times)| build(&requests, objects, times))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn our_own_format_keeps_everything(trace in any_trace()) {
        let (bytes, losses) = written(&trace, Format::Entresol);
        prop_assert_eq!(losses, Losses::default());
        prop_assert_eq!(recognised(&bytes), trace);
    }

    #[test]
    fn a_changed_byte_is_noticed(trace in any_trace(), at in any::<prop::sample::Index>(), change in 1_u8..=255) {
        let (mut bytes, _) = written(&trace, Format::Entresol);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let read = read_from("t", &bytes[..], &ReadOptions { format: Some(Format::Entresol), ..ReadOptions::default() });
        prop_assert!(read.is_err(), "byte {} of {} changed by {:#x}: {:?}", at, bytes.len(), change, read);
    }

    #[test]
    fn a_shortened_or_lengthened_file_is_refused(trace in any_trace(), at in any::<prop::sample::Index>()) {
        let (mut bytes, _) = written(&trace, Format::Entresol);
        let options = ReadOptions { format: Some(Format::Entresol), ..ReadOptions::default() };
        let end = at.index(bytes.len());
        prop_assert!(read_from("t", &bytes[..end], &options).is_err());
        bytes.push(0);
        prop_assert!(read_from("t", &bytes[..], &options).is_err());
    }

    #[test]
    fn oracle_general_keeps_references(trace in any_trace()) {
        let references: Vec<_> = original(&trace).into_iter().filter(|(_, op, _)| *op != Op::Dirty).collect();
        prop_assume!(!references.is_empty());
        let format = |format| ReadOptions { format: Some(format), ..ReadOptions::default() };
        let (bytes, losses) = written(&trace, Format::OracleGeneralOpNs);
        prop_assert_eq!(bytes.len(), references.len() * 27);
        prop_assert_eq!((losses.writes, losses.fractions), (0, trace.has_times()));
        let back = original(&read_from("t", &bytes[..], &format(Format::OracleGeneralOpNs)).expect("as written"));
        let expected: Vec<_> = references.iter().map(|&(page, op, _)| (page, op, false)).collect();
        prop_assert_eq!(back, expected);
        let (bytes, losses) = written(&trace, Format::OracleGeneral);
        prop_assert_eq!(bytes.len(), references.len() * 24);
        prop_assert_eq!(losses.writes, references.iter().filter(|(_, op, _)| *op == Op::Write).count());
        let back = read_from("t", &bytes[..], &format(Format::OracleGeneral)).expect("as written");
        prop_assert!(back.requests.iter().all(|request| request.op() == Op::Read));
        prop_assert_eq!(back.requests.len(), references.len());
    }

    #[test]
    fn plain_numbers_keep_identity(trace in any_trace()) {
        prop_assume!(trace.references() > 0);
        let (bytes, losses) = written(&trace, Format::Plain);
        let back = recognised(&bytes);
        let pages = |trace: &Trace| -> Vec<u32> {
            trace.requests.iter().filter(|r| r.is_reference()).map(|r| r.page()).collect()
        };
        // Dense numbers of references alone may differ where a page was named by a change first.
        let same = |trace: &Trace| {
            let pages = pages(trace);
            let first: Vec<usize> =
                pages.iter().map(|page| pages.iter().position(|p| p == page).expect("itself")).collect();
            first
        };
        prop_assert_eq!(same(&back), same(&trace));
        prop_assert_eq!(losses.numbers, trace.pages.iter().any(|&page| page > u64::from(u32::MAX)));
    }
}

#[test]
fn oracle_general_says_when_a_page_comes_again() {
    let trace = recognised(b"5\n6\n5\n5\n");
    let (bytes, _) = written(&trace, Format::OracleGeneral);
    let next: Vec<i64> =
        bytes.chunks(24).map(|r| i64::from_le_bytes(r[16..].try_into().expect("eight"))).collect();
    assert_eq!(next, [3, -1, 4, -1]);
    assert_eq!(original(&recognised(&bytes)), original(&trace));
}

#[test]
fn blocks_of_a_long_trace_follow_each_other() {
    let requests: Vec<_> =
        (0..1_200_000_u32).map(|n| (0, n.wrapping_mul(2_654_435_761) >> 12, n as u8, 0, n % 7)).collect();
    let trace = build(&requests, true, true);
    let (bytes, _) = written(&trace, Format::Entresol);
    assert!(recognised(&bytes) == trace, "the trace came back changed");
}

#[test]
fn other_formats_are_not_written() {
    let trace = recognised(b"1\n");
    let refused = write(&trace, Format::Msr, Path::new("t"), Compression::None, Vec::new());
    assert!(
        matches!(&refused, Err(TraceError::Option(why)) if why.contains("entresol, oraclegeneral")),
        "{refused:?}"
    );
}

#[test]
fn compressed_files_come_back() {
    let trace = recognised(b"1\n2\n1\n");
    for (name, compression) in
        [("t", Compression::None), ("t.zst", Compression::Zstd), ("t.gz", Compression::Gzip)]
    {
        assert_eq!(Compression::of(Path::new(name)), compression);
        for format in WRITABLE {
            let mut bytes = Vec::new();
            write(&trace, format, Path::new(name), compression, &mut bytes).expect("memory");
            assert_eq!(recognised(&bytes).requests, trace.requests, "{name} {format}");
        }
    }
}

#[test]
fn what_is_written_as_it_is_made_is_the_trace_that_would_be_in_memory() {
    let mixed = Mix {
        pages: 3000,
        references: 1_100_000,
        scans: Some(Scans { share: 0.1, pages: 50 }),
        references_per_s: Some(777.0),
        ..Mix::default()
    };
    let tpcc = TpccModel { warehouses: 1, references: 30_000, ..TpccModel::default() };
    let traces = [mixed.generate(), tpcc.generate()].map(|trace| trace.expect("possible"));
    let sources: [&dyn Source; 2] = [&mixed, &tpcc];
    for (source, trace) in sources.into_iter().zip(traces) {
        for compression in [Compression::None, Compression::Zstd] {
            let (mut made, mut whole) = (Vec::new(), Vec::new());
            let counted = write_as_made(source, Path::new("t"), compression, &mut made).expect("memory");
            write(&trace, Format::Entresol, Path::new("t"), compression, &mut whole).expect("memory");
            assert_eq!(counted, (trace.len() as u64, trace.unique_pages() as u64));
            assert!(made == whole, "{}: {} and {} bytes", trace.name, made.len(), whole.len());
        }
    }
    let impossible = Mix { pages: 0, ..mixed };
    assert!(write_as_made(&impossible, Path::new("t"), Compression::None, Vec::new()).is_err());
}
