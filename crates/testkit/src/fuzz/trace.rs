//! Fuzz target of the trace readers. For any bytes, a reader returns a trace with the documented invariants,
//! or an error.

use entresol_trace::{Compression, Format, Op, ReadOptions, Request, Trace, TraceBuilder, read_from, write};
use std::path::Path;

/// The first byte chooses the format (0: detected from the content). The remaining bytes are the content.
pub fn trace(input: &[u8]) {
    let Some((&choice, content)) = input.split_first() else { return };
    let format = usize::from(choice).checked_sub(1).map(|index| Format::ALL[index % Format::ALL.len()]);
    let Ok(trace) = read_from("input", content, &ReadOptions { format, ..ReadOptions::default() }) else {
        return;
    };
    assert!(!trace.requests.is_empty(), "a trace without requests was not refused");
    let mut pages = 0;
    for request in &trace.requests {
        assert!(request.page() <= pages, "pages are not numbered by their first appearance");
        pages = pages.max(request.page() + 1);
    }
    assert_eq!(pages as usize, trace.unique_pages());
    assert!(trace.times_us.is_empty() || trace.times_us.len() == trace.requests.len());
    assert!(trace.times_us.is_sorted(), "time goes back");
    if let Some(relations) = &trace.relations {
        assert_eq!(relations.of_pages().len(), trace.unique_pages());
    }
}

/// An input for each format.
pub(super) fn samples() -> Vec<(String, Vec<u8>)> {
    let lines: [(Format, &str); 7] = [
        (Format::Fio, "fio version 3 iolog\n1 /a add\n2 /a read 0 4096\n3 /a write 4096 8192\n"),
        (Format::CloudPhysics, "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,8192,7\n"),
        (
            Format::Msr,
            "128166372003061629,usr,0,Read,4096,8192,41286\n128166372003061729,usr,1,Write,0,512,9\n",
        ),
        (Format::Spc, "0,8,512,r,0.000000\n1,8,4096,W,0.5\n"),
        (Format::Mqsim, "11413000 0 657728 16 1\n11565000 1 31244784 64 0\n"),
        (Format::Blkparse, "8,0 3 1 0.000000000 697 Q W 8 + 8 [x]\n8,0 3 2 0.1 697 Q R 16 + 8 [x]\n"),
        (Format::Plain, "7\n*\n9\n7\n"),
    ];
    let mut samples: Vec<_> = lines.map(|(format, text)| (format, text.as_bytes().to_vec())).to_vec();
    let trace = small();
    for format in [Format::Entresol, Format::OracleGeneral, Format::OracleGeneralOpNs] {
        let mut bytes = Vec::new();
        write(&trace, format, Path::new("sample"), Compression::None, &mut bytes)
            .expect("memory does not fail");
        samples.push((format, bytes));
    }
    let postgresql = [(0_u32, 0_u8, 5_u32), (79, 1, 5), (127, 2, 6), (255, 3, 5), (300, 0, 6)];
    let record =
        |(us, op, page): (u32, u8, u32)| [&us.to_le_bytes()[..], &[op], &page.to_le_bytes()].concat();
    samples.push((Format::Postgresql, postgresql.map(record).concat()));
    let vscsi = [(0x28_u16, 7_u64), (0x2A, 16)];
    let record = |(command, sector): (u16, u64)| {
        let head = [command, 0x0203].map(u16::to_le_bytes).concat();
        let middle = [1_u32, 4096, 1].map(u32::to_le_bytes).concat();
        [head, middle, [sector, 500, 9].map(u64::to_le_bytes).concat()].concat()
    };
    samples.push((Format::Vscsi, vscsi.map(record).concat()));
    let number = |format| Format::ALL.iter().position(|it| *it == format).expect("all are there") as u8 + 1;
    let input = |(format, content): (Format, Vec<u8>)| {
        (format.name().to_owned(), [vec![number(format)], content].concat())
    };
    samples.into_iter().map(input).collect()
}

fn small() -> Trace {
    let mut builder = TraceBuilder::new("sample", 4096);
    let fits = "a small trace fits";
    for (label, byte, bytes, op, us) in [("a", 0, 8192, Op::Read, 0), ("b", 4096, 100, Op::Write, 2_000_000)]
    {
        let object = builder.object(label).expect(fits);
        builder.extent(object, byte, bytes, op, Some(us)).expect(fits);
    }
    let trace = builder.finish(str::to_owned);
    debug_assert!(trace.requests.iter().any(|request: &Request| request.continues()));
    trace
}
