//! Every format: recognised from its content, split into pages, refused with a place where damaged.

mod support;

use entresol_trace::{
    Column, Columns, Layout, Op, OpWords, ReadOptions, Separator, Trace, TraceError, Unit, read_from,
};
use proptest::prelude::*;
use support::{original, recognised, refused};

const MSR: &str = "128166372003061629,usr,0,Read,4096,8192,41286
128166372003061729,usr,1,Write,0,512,100
128166372013061729,usr,0,write,4096,1,100
";
const SPC: &str = "0,8,512,r,0.000000\n1,8,4096,W,0.5\n0,9,8192,w,1.25,extra\n";
const FIO: &str = "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n/dev/b write 4096 8192\n/dev/a close\n";
const BLKPARSE: &str = "  8,0    3        1     0.000000000   697  Q   W 8 + 8 [kjournald]
  8,0    3        1     0.000000100   697  C   W 8 + 8 [0]
  8,16   3        1     0.000010000   697  Q   R 16 + 8 [dd]
CPU3 (8,0):
";

fn names(trace: &Trace) -> Vec<String> {
    trace.relations.as_ref().map_or(vec![], |relations| relations.names().to_vec())
}

#[test]
fn text_formats_are_recognised() {
    let msr = recognised(MSR.as_bytes());
    let disk = |object: u64, page: u64| object << 32 | page;
    let expected = [
        (disk(0, 1), Op::Read, false),
        (disk(0, 2), Op::Read, true),
        (disk(1, 0), Op::Write, false),
        (disk(0, 1), Op::Write, false),
    ];
    assert_eq!(original(&msr), expected);
    assert_eq!(
        (names(&msr), msr.times_us),
        (vec!["usr.0".into(), "usr.1".into()], vec![0, 0, 10, 1_000_010])
    );

    let spc = recognised(SPC.as_bytes());
    let expected = [
        (disk(0, 1), Op::Read, false),
        (disk(1, 1), Op::Write, false),
        (disk(0, 1), Op::Write, false),
        (disk(0, 2), Op::Write, true),
        (disk(0, 3), Op::Write, true),
    ];
    assert_eq!(original(&spc), expected);

    let fio = recognised(FIO.as_bytes());
    let expected =
        [(disk(0, 0), Op::Read, false), (disk(1, 1), Op::Write, false), (disk(1, 2), Op::Write, true)];
    assert_eq!((original(&fio), names(&fio)), (expected.to_vec(), vec!["/dev/a".into(), "/dev/b".into()]));

    let blkparse = recognised(BLKPARSE.as_bytes());
    assert_eq!(original(&blkparse), [(disk(0, 1), Op::Write, false), (disk(1, 2), Op::Read, false)]);
    assert_eq!(names(&blkparse), ["8,0", "8,16"]);

    let plain = recognised(b"7\n*\n9\n7\n");
    assert_eq!(original(&plain), [(7, Op::Read, false), (9, Op::Read, false), (7, Op::Read, false)]);
    assert_eq!((plain.relations, plain.times_us), (None, vec![]));
}

#[test]
fn texts_of_any_shape_are_what_their_columns_say() {
    let columns = |columns: &[Column], layout| {
        let columns = Columns::new(columns.to_vec(), layout, OpWords::default()).expect("sound");
        ReadOptions { columns: Some(columns), ..ReadOptions::default() }
    };
    let layout = Layout {
        separator: Separator::Character(';'),
        header_lines: 2,
        time_ns: 1_000_000,
        offset_unit: Unit::Bytes(512),
        ..Layout::default()
    };
    let text =
        "# a tool\nms;op;volume;sector;bytes;latency\n10;R;a;8;4096;1\n\n12;write;b;0;5000;1\n15;r;a;8;1;1";
    let all = [Column::Time, Column::Op, Column::Object, Column::Offset, Column::Size];
    let trace = read_from("t", text.as_bytes(), &columns(&all, layout)).expect("a trace");
    let expected = [
        (1, Op::Read, false),
        (1 << 32, Op::Write, false),
        (1 << 32 | 1, Op::Write, true),
        (1, Op::Read, false),
    ];
    assert_eq!(original(&trace), expected);
    assert_eq!((names(&trace), trace.times_us), (vec!["a".into(), "b".into()], vec![0, 2000, 2000, 5000]));

    let short = read_from("t", "h\nh\n1;r;a;8;1\n1;r;a\n".as_bytes(), &columns(&all, layout));
    let short = short.expect_err("a line without an offset").to_string();
    assert!(short.starts_with("t, line 4: expected 5 columns"), "{short}");
    let nothing = read_from("t", "h\nh\n".as_bytes(), &columns(&all, layout)).expect_err("no line");
    assert_eq!(nothing.to_string(), "t holds no request in the columns that are named");

    // What is named counts, not what it would be taken for.
    let numbers = columns(&[Column::Offset], Layout::default());
    let trace = read_from("t", "4096\n8193\n".as_bytes(), &numbers).expect("a trace");
    assert_eq!(original(&trace), [(1, Op::Read, false), (2, Op::Read, false)]);
    assert!(trace.times_us.is_empty());
}

#[test]
fn binary_formats_are_recognised() {
    let mut postgresql = Vec::new();
    for (time_us, op, page) in [(0_u32, 0_u8, 5_u32), (79, 1, 5), (127, 2, 6), (255, 3, 5), (300, 0, 6)] {
        postgresql.extend([&time_us.to_le_bytes()[..], &[op], &page.to_le_bytes()].concat());
    }
    let above = recognised(&postgresql);
    assert_eq!(original(&above), [(5, Op::Read, false), (5, Op::Dirty, false), (6, Op::Read, false)]);
    assert_eq!((above.times_us, above.page_bytes), (vec![0, 79, 300], 8192));

    let (mut v1, mut v2) = (Vec::new(), Vec::new());
    for (serial, command, sector) in [(0_u32, 0x28_u16, 7_u64), (1, 0x2A, 16), (2, 0x35, 0)] {
        let (bytes, segments, time_us) = (4096_u32, 1_u32, 500_000 + u64::from(serial));
        v1.extend([serial, bytes, segments].map(u32::to_le_bytes).concat());
        v1.extend([command, 0x0103].map(u16::to_le_bytes).concat());
        v1.extend([sector, time_us].map(u64::to_le_bytes).concat());
        v2.extend([command, 0x0203].map(u16::to_le_bytes).concat());
        v2.extend([serial, bytes, segments].map(u32::to_le_bytes).concat());
        v2.extend([sector, time_us, 100].map(u64::to_le_bytes).concat());
    }
    for bytes in [v1, v2] {
        let trace = recognised(&bytes);
        assert_eq!(original(&trace), [(0, Op::Read, false), (1, Op::Read, true), (2, Op::Write, false)]);
        assert_eq!(trace.times_us, [0, 0, 1]);
    }
}

#[test]
fn times_of_a_long_capture_are_unwrapped() {
    let mut bytes = Vec::new();
    for (time_us, page) in [(u32::MAX - 1, 1_u32), (3, 2), (2, 3), (9, 4)] {
        bytes.extend([&time_us.to_le_bytes()[..], &[0], &page.to_le_bytes()].concat());
    }
    let options =
        ReadOptions { format: entresol_trace::Format::from_name("postgresql"), ..ReadOptions::default() };
    let trace = read_from("t", &bytes[..], &options).expect("a capture");
    let wrap = 1_u64 << 32;
    assert_eq!(trace.times_us, [wrap - 2, wrap + 3, wrap + 3, wrap + 9]);
}

#[test]
fn damage_is_named_with_its_place() {
    assert_eq!(
        refused(MSR.replace("usr,1,Write", "usr,1,Trim").as_bytes()),
        "t, line 2: the type is \"Trim\", not Read or Write"
    );
    assert!(refused(SPC.replace("0.5", "soon").as_bytes()).starts_with("t, line 2: the time is \"soon\""));
    assert!(refused(FIO.replace("write 4096 8192", "write 4096").as_bytes()).starts_with("t, line 5: "));
    assert!(refused(b"1\n2\nthree\n4\n").starts_with("t, line 3: expected a page number"));
    let mut postgresql: Vec<u8> =
        (0..100_u32).flat_map(|n| [&n.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat()).collect();
    postgresql[9 * 50 + 4] = 7;
    assert_eq!(refused(&postgresql), "t, byte 450: the operation is 7, not 0 (R), 1 (D), 2 (M) or 3 (F)");
    postgresql[9 * 50 + 4] = 1;
    postgresql.truncate(9 * 100 - 4);
    let cut = refused(&postgresql);
    assert!(cut.starts_with("t is cut off: its last record has 5 of 9 bytes"), "{cut}");
}

#[test]
fn what_cannot_be_a_trace_is_refused() {
    assert_eq!(refused(b""), "t holds no request: the file is empty");
    assert!(refused(b"hello\n").contains("--columns time,op,offset,size"));
    assert!(refused(b"\n\n").contains("not a trace in a known format (entresol, fio"));
    assert!(refused(b"fio version 2 iolog\n/a add\n").contains("not a trace in a known format"));
    assert!(refused(b"once upon a time\nthere was a disk\n").contains("not a trace"));
    assert!(refused(&[0xFF; 1000]).contains("not a trace"));
    assert!(
        refused(b"5000000000\n1\n2\n").contains("line 1: page number \"5000000000\" has more than 32 bits")
    );
    let beyond = refused(MSR.replace("Read,4096", &format!("Read,{}", 1_u64 << 45)).as_bytes());
    assert!(beyond.contains("t, line 1: byte 35184372088832 is in page 8589934592"), "{beyond}");
    let huge = refused(MSR.replace("4096,8192", "4096,99999999999").as_bytes());
    assert!(huge.contains("t, line 1: a request of 99999999999 bytes"), "{huge}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let read = |options: ReadOptions| read_from("t", MSR.as_bytes(), &options);
    let refused = read(ReadOptions { page_bytes: Some(1000), ..ReadOptions::default() });
    assert!(matches!(refused, Err(TraceError::Option(_))), "{refused:?}");
    let refused = read(ReadOptions { relations: Some("absent.toml".into()), ..ReadOptions::default() });
    assert!(matches!(refused, Err(TraceError::Io { .. })), "{refused:?}");
    let sectors =
        read(ReadOptions { page_bytes: Some(512), ..ReadOptions::default() }).expect("smaller pages");
    assert_eq!(sectors.references(), 16 + 1 + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = read_from("t", &bytes[..], &ReadOptions::default());
        for format in entresol_trace::Format::ALL {
            let _ = read_from("t", &bytes[..], &ReadOptions { format: Some(format), ..ReadOptions::default() });
        }
    }

    #[test]
    fn damaged_text_never_panics(
        which in 0_usize..4,
        edits in prop::collection::vec((any::<prop::sample::Index>(), "[ -~]"), 1..6),
    ) {
        let mut bytes = [MSR, SPC, FIO, BLKPARSE][which].as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte.as_bytes()[0];
        }
        if let Ok(trace) = read_from("t", &bytes[..], &ReadOptions::default()) {
            prop_assert!(trace.requests.iter().all(|r| (r.page() as usize) < trace.pages.len()));
        }
    }
}
