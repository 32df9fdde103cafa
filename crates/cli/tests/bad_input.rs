//! Whatever reads a trace refuses what is none: exit status 2, a sentence, and every file is as it was.

mod support;

use std::process::Command;
use support::{Folder, done, plain_trace, refused, text};

/// A folder with traces that cannot be read, and what each is refused with.
fn bad_traces(folder: &Folder) -> Vec<(String, Vec<&'static str>)> {
    let plain = folder.file("plain", plain_trace(5000, 300));
    let packed = ["cut.zst", "cut.gz", "flipped.zst"].map(|name| {
        let path = folder.at(name);
        done(&["trace", "convert", &plain, &path, "--to", "plain"]);
        (path.clone(), std::fs::read(path).expect("written"))
    });
    let [(zst, zstd), (gz, gzip), (flipped, damaged)] = packed;
    std::fs::write(&zst, &zstd[..zstd.len() - 5]).expect("a writable folder");
    std::fs::write(&gz, &gzip[..gzip.len() / 2]).expect("a writable folder");
    let middle = damaged.len() / 2;
    let wrong: Vec<u8> =
        damaged.iter().enumerate().map(|(at, byte)| if at > middle { !byte } else { *byte }).collect();
    std::fs::write(&flipped, wrong).expect("a writable folder");
    let own = folder.at("own.etr");
    done(&["trace", "convert", &plain, &own, "--to", "entresol"]);
    let mut bytes = std::fs::read(&own).expect("written");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let torn = folder.file("torn.etr", bytes);
    vec![
        (folder.at("absent"), vec!["absent", "opening"]),
        (folder.at(""), vec!["folder"]),
        (folder.file("empty", ""), vec!["empty"]),
        (folder.file("damaged", "1\n2\nx\n4\n5\n6\n"), vec!["damaged, line 3", "expected a page number"]),
        (folder.file("beyond", "1\n4294967296\n2\n3\n"), vec!["beyond, line 2", "32 bits"]),
        (
            folder.file("all-beyond", "4294967296\n18446744073709551616\n"),
            vec!["all-beyond, line 1", "32 bits"],
        ),
        (
            folder.file("far.csv", format!("128166372003061629,usr,0,Read,{},8192,41286\n", 1u64 << 45)),
            vec!["far.csv, line 1", "4294967295"],
        ),
        (
            folder.file("strange", "once upon a time\n"),
            vec!["not a trace in a known format", "oraclegeneral"],
        ),
        (zst, vec!["cut.zst", "cut off"]),
        (gz, vec!["cut.gz", "cut off"]),
        (flipped, vec!["flipped.zst", "zstd"]),
        (torn, vec!["torn.etr", "checksum"]),
    ]
}

/// Every command that reads a trace, with outputs that are there already.
fn readers<'a>(trace: &'a str, json: &'a str, html: &'a str) -> Vec<Vec<&'a str>> {
    let outputs = ["--json", json, "--html", html];
    vec![
        [&["simulate", "--trace", trace, "--policy", "none,lc", "--flash-percent", "20"], &outputs[..]]
            .concat(),
        [&["mrc", "--trace", trace], &outputs[..]].concat(),
        [&["advise", "--trace", trace], &outputs[..]].concat(),
        vec!["trace", "info", trace, "--json", json],
        vec!["trace", "convert", trace, json, "--to", "plain"],
    ]
}

#[test]
fn traces_that_cannot_be_read_are_refused_by_all_who_read_them() {
    let folder = Folder::new();
    let traces = bad_traces(&folder);
    let (json, html) = (folder.file("out.json", "earlier"), folder.file("out.html", "results"));
    let before = folder.names();
    for (trace, parts) in &traces {
        for command in readers(trace, &json, &html) {
            refused(&command, parts);
        }
    }
    assert_eq!(folder.names(), before, "nothing is left behind");
    assert_eq!(std::fs::read_to_string(json).expect("still there"), "earlier");
    assert_eq!(std::fs::read_to_string(html).expect("still there"), "results");
}

#[test]
fn columns_that_do_not_fit_are_refused_with_the_line() {
    let folder = Folder::new();
    let good = folder.file("io.txt", "time|op|sector\n1|read|8\n2|write|16\n3|flush|0\n");
    fn info<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["trace", "info", trace], more].concat()
    }
    let shape = ["--columns", "time,op,offset", "--separator", "|", "--header-lines", "1"];
    let sound = [&shape[..], &["--offset-unit", "sectors", "--skip-words", "flush"]].concat();
    let shown = done(&info(&good, &sound)).0;
    assert!(shown.contains("2 (1 reads, 1 writes)") && shown.contains("1.000 s"), "{shown}");
    for (more, parts) in [
        (&["--separator", "|"][..], &["--columns"][..]),
        (&["--columns", "time,op"], &["--columns", "no offset"]),
        (&["--columns", "offset,offset"], &["--columns", "offset is named twice"]),
        (&["--columns", "offset,where"], &["--columns", "where", "size"]),
        (&["--columns", "offset", "--format", "msr"], &["--columns", "--format"]),
        (&["--columns", "offset", "--separator", "xx"], &["--separator", "tab"]),
        (&["--columns", "offset", "--time-unit", "h"], &["--time-unit", "ns"]),
        (&["--columns", "offset", "--size-unit", "0"], &["--size-unit", "sectors"]),
        (&["--columns", "op,offset", "--read-words", "w"], &["--columns", "\"w\" is named twice"]),
        (&["--columns", "time,op,offset"], &["io.txt, line 1", "expected 3 columns", "separator"]),
        (&shape, &["io.txt, line 4", "\"flush\"", "neither a read"]),
        (
            &["--columns", "op,-,offset", "--separator", "|", "--header-lines", "1"],
            &["io.txt, line 2", "\"1\""],
        ),
    ] {
        refused(&info(&good, more), parts);
    }
}

#[test]
fn unknown_names_and_sizes_of_nothing_are_refused() {
    let folder = Folder::with_trace(2000, 200);
    let trace = folder.at("trace");
    let out = folder.at("out.json");
    let simulate = ["simulate", "--trace", &trace, "--json", &out];
    for (more, parts) in [
        (vec!["--policy", "arc"], vec!["--policy", "\"arc\"", "face-gsc"]),
        (vec!["--policy", ""], vec!["--policy"]),
        (vec!["--policy", "lru", "--format", "tape"], vec!["--format", "tape", "blkparse"]),
        (vec!["--policy", "lru", "--format", "msr"], vec!["trace", "line 1"]),
        (vec!["--policy", "lc", "--flash-pages", "0"], vec!["--flash-pages", "1 to"]),
        (vec!["--policy", "lc", "--flash-percent", "0"], vec!["--flash-percent", "more than 0"]),
        (vec!["--policy", "lru", "--dram-percent", "0"], vec!["--dram-percent", "more than 0"]),
        (vec!["--policy", "lru", "--page-bytes", "0"], vec!["page"]),
        (vec!["--policy", "rwfdb", "--flash-pages", "1"], vec!["1 pages", "rwfdb takes at least"]),
        (vec!["--policy", "lc", "--flash-pages", "1"], vec!["1 pages", "at least"]),
        (vec!["--policy", "rwfdb", "--flash-pages", "100", "--mode", "write-back"], vec!["write-through"]),
    ] {
        refused(&[&simulate[..], &more].concat(), &parts);
    }
    refused(&["mrc", "--trace", &trace, "--sizes", "0", "--json", &out], &["--sizes", "1 to"]);
    refused(&["advise", "--trace", &trace, "--budget", "0", "--json", &out], &["--budget"]);
    refused(&["reproduce", "tac", "--json", &out], &["tac", "face", "all"]);
    for bench in ["tpcc", "restart"] {
        for (system, parts) in [
            ("arc", ["\"arc\"", "face-gsc"]),
            ("none", ["none", "disk-only"]),
            ("rwfdb", ["translation layer", "simulate --policy rwfdb"]),
            ("flashtier", ["translation layer", "simulate --policy flashtier"]),
        ] {
            refused(&["bench", bench, "--system", system, "--json", &out], &parts);
        }
    }
    assert_eq!(folder.names(), ["trace"]);
}

/// Not even the superuser makes a file in /proc.
#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_trace_is_read() {
    let folder = Folder::new();
    let (absent, missing) = (folder.at("absent"), folder.at("no/out"));
    for (out, part) in
        [("/proc/out", "cannot write"), (missing.as_str(), "does not exist"), ("/dev/null", "not a")]
    {
        for option in ["--json", "--html"] {
            refused(&["simulate", "--trace", &absent, "--policy", "lru", option, out], &[option, part]);
            refused(&["mrc", "--trace", &absent, option, out], &[option, part]);
            refused(&["advise", "--trace", &absent, option, out], &[option, part]);
            refused(&["reproduce", "3la", "--quick", option, out], &[option, part]);
        }
        refused(&["trace", "info", &absent, "--json", out], &["--json", part]);
        refused(&["trace", "convert", &absent, out, "--to", "plain"], &["OUTPUT", part]);
        refused(&["trace", "generate", "zipf", "--out", out], &["--out", part]);
    }
    assert_eq!(folder.names(), [""; 0]);
}

/// A limit on the size of files stands for a file system without room.
#[test]
fn results_that_do_not_fit_leave_the_old_ones() {
    let folder = Folder::with_trace(20_000, 2000);
    let html = folder.file("out.html", "earlier");
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" simulate --trace trace --policy lru --html out.html";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_entresol")])
        .current_dir(folder.root())
        .output()
        .expect("there is a shell");
    let sentence = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{sentence}");
    assert!(sentence.contains("out.html") && sentence.contains("nothing was left behind"), "{sentence}");
    assert_eq!(folder.names(), ["out.html", "trace"]);
    assert_eq!(std::fs::read_to_string(html).expect("still there"), "earlier");
}
