//! No command writes over what it reads, under whatever name; and what a trace may be packed in.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::{Folder, done, plain_trace, refused};

/// Every command that has an output and inputs, with each of its outputs at `out`, and `input` as an input.
fn commands(folder: &Folder, input: &str, out: &str) -> Vec<Vec<String>> {
    let (trace, prices) = (folder.at("trace"), folder.at("prices.toml"));
    let relations = folder.at("relations.toml");
    let is = |name: &str| input == folder.at(name);
    let mut lines: Vec<Vec<&str>> = Vec::new();
    if is("trace") || is("relations.toml") {
        let relations: &[&str] = if is("trace") { &[] } else { &["--relations", &relations] };
        for option in ["--json", "--html"] {
            lines.push([&["mrc", "--trace", &trace, option, out], relations].concat());
            lines.push([&["advise", "--trace", &trace, option, out], relations].concat());
            let simulate =
                ["simulate", "--trace", &trace, "--policy", "lc", "--flash-percent", "20", option, out];
            lines.push([&simulate[..], relations].concat());
            lines.push([&["mrc", "--trace", &trace, "--sample", "0.5", option, out], relations].concat());
        }
        lines.push([&["trace", "info", &trace, "--json", out], relations].concat());
        lines.push([&["trace", "convert", &trace, out, "--to", "plain"], relations].concat());
    }
    if is("prices.toml") {
        lines.push(vec!["advise", "--trace", &trace, "--prices", &prices, "--json", out]);
        let simulate = ["simulate", "--trace", &trace, "--policy", "lc", "--flash-percent", "20"];
        lines.push([&simulate[..], &["--devices", &prices, "--json", out]].concat());
    }
    if is("traces/one") {
        lines.push(vec![
            "reproduce",
            "face",
            "--quick",
            "--traces",
            input.strip_suffix("/one").unwrap(),
            "--json",
            out,
        ]);
    }
    lines.into_iter().map(|line| line.into_iter().map(str::to_owned).collect()).collect()
}

#[test]
fn no_output_is_an_input() {
    let folder = Folder::with_trace(3000, 200);
    std::fs::create_dir(folder.path("traces")).unwrap();
    folder.file("traces/one", plain_trace(100, 10));
    folder.file("relations.toml", "[relations]\n1 = \"one\"\n");
    let own = "[[memory]]\nname = \"dram\"\ndescription = \"\"\nprice_per_gb = 0.001\nwatts_per_gb = 0.4\n";
    folder.file("prices.toml", own);
    let mut count = 0;
    for input in ["trace", "relations.toml", "prices.toml", "traces/one"] {
        let before = std::fs::read(folder.path(input)).unwrap();
        let (hard, soft) = (folder.path("hard"), folder.path("soft"));
        _ = std::fs::remove_file(&hard);
        _ = std::fs::remove_file(&soft);
        std::fs::hard_link(folder.path(input), &hard).unwrap();
        std::os::unix::fs::symlink(folder.path(input), &soft).unwrap();
        let by_way = format!("{}/traces/../{input}", folder.root().display());
        for out in [folder.at(input), folder.at("hard"), folder.at("soft"), by_way] {
            for line in commands(&folder, &folder.at(input), &out) {
                let line: Vec<&str> = line.iter().map(String::as_str).collect();
                let output = support::entresol(&line);
                let told = support::text(&output.stderr);
                let is_refused = told.contains("which this command reads");
                assert!(output.status.code() == Some(2) && is_refused, "{line:?}: {told}");
                assert!(std::fs::read(folder.path(input)).unwrap() == before, "{line:?}");
                count += 1;
            }
        }
    }
    assert!(count > 90, "{count}");
    // Two outputs are two files.
    let trace = folder.at("trace");
    let (one, same) = (folder.at("one.json"), format!("{}/traces/../one.json", folder.root().display()));
    refused(&["mrc", "--trace", &trace, "--json", &one, "--html", &same], &["--html", "same file"]);
    let record =
        ["bench", "tpcc", "--system", "face-gsc", "--minutes", "0.02", "--record", &one, "--json", &same];
    refused(&record, &["--record", "same file"]);
}

#[test]
fn a_capture_is_not_written_over_its_tables() {
    let folder = Folder::with_trace(3000, 200);
    for beside in ["trace.pages", "trace.relations.toml"] {
        folder.file(beside, "");
        let (trace, out) = (folder.at("trace"), folder.at(beside));
        refused(&["trace", "convert", &trace, &out, "--to", "plain"], &["which this command reads"]);
        std::fs::remove_file(out).unwrap();
    }
}

#[test]
fn the_devices_of_an_experiment_are_no_results() {
    let folder = Folder::new();
    let [flash, disk, log] = ["flash", "disk", "log"].map(|name| folder.at(name));
    for out in [&flash, &disk, &log] {
        let machine = ["--flash", &flash, "--disk", &disk, "--log", &log, "--json", out];
        let line = [&["bench", "tpcc", "--real", "--system", "face-gsc", "--warehouses", "1"], &machine[..]]
            .concat();
        refused(&line, &["--json", "which this command reads"]);
    }
    assert!(folder.names().is_empty());
}

#[test]
fn traces_as_they_are_found() {
    let folder = Folder::new();
    let info = |path: &str, more: &[&str]| done(&[&["trace", "info", path], more].concat());
    let columns = ["--columns", "time,op,offset,size"];
    // A byte order mark.
    let marked = folder.file("marked", b"\xef\xbb\xbf1,r,0,4096\n2,w,4096,4096\n");
    assert!(info(&marked, &columns).0.contains("2 (1 reads, 1 writes)"));
    let marked = folder.file("marked.plain", b"\xef\xbb\xbf7\n8\n7\n");
    assert!(info(&marked, &[]).0.contains("3 reads"));
    // The last page of a request is beyond all page numbers.
    let beyond = folder.file("beyond", "1,r,17592186040320,8192\n");
    let line = [&["trace", "info", &beyond], &columns[..]].concat();
    refused(&line, &["byte 17592186044416", "page 4294967296"]);
    // Requests of no bytes.
    let empty = folder.file("empty", "1,SET,82\n1,GET,0\n2,GET,0\n2,GET,10\n");
    let words = [
        "--columns",
        "offset,op,size",
        "--offset-unit",
        "pages",
        "--read-words",
        "get",
        "--write-words",
        "set",
    ];
    let (shown, said) = info(&empty, &words);
    assert!(shown.contains("2 (1 reads, 1 writes)"), "{shown}");
    assert!(said.contains("2 requests of no bytes were left out"), "{said}");
    let many: String = (0..300).map(|key| format!("{key},SET,9\n{key},GET,{}\n", key % 2)).collect();
    let many = folder.file("many", many);
    let mrc = [&["mrc", "--trace", &many, "--sample", "1"], &words[..]].concat();
    assert!(done(&mrc).1.contains("150 requests of no bytes"));
    // A response time that is not used.
    let back = folder
        .file("back", "128166372003061629,usr,0,Read,0,4096,-5\n128166372013061629,usr,0,Write,0,4096,7\n");
    assert!(info(&back, &[]).0.contains("2 (1 reads, 1 writes)"));
    // Other packers.
    let packed = folder.file("packed.xz", b"\xFD7zXZ\0\0\x04\xe6\xd6\xb4\x46");
    refused(&["trace", "info", &packed], &["packed by xz", "xz -dc"]);
}

/// `zstd --long=31`.
#[test]
fn a_long_window_is_unpacked() {
    let folder = Folder::new();
    let text: String = (0..100_000).map(|line| format!("{line},r,{},4096\n", line * 4096)).collect();
    let packed = folder.path("long.zst");
    let zstd =
        Command::new("zstd").args(["-q", "--long=31", "-1", "-o"]).arg(&packed).stdin(Stdio::piped()).spawn();
    let Ok(mut zstd) = zstd else {
        println!("skipped: there is no zstd");
        return;
    };
    zstd.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(zstd.wait().unwrap().success());
    let shown = done(&["trace", "info", &folder.at("long.zst"), "--columns", "time,op,offset,size"]).0;
    assert!(shown.contains("100000 (100000 reads, 0 writes)"), "{shown}");
}
