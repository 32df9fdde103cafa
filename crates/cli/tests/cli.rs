//! The command as its users meet it: exit status, one sentence on stderr, nothing left behind.

mod support;

use std::process::Command;
use support::{Folder, entresol, refused, text};

#[test]
fn numbers_out_of_range_are_refused_with_what_is_allowed() {
    for value in ["0", "-3", "nan", "101", "1e400", "some", ""] {
        for option in ["--flash-percent", "--dram-percent"] {
            refused(&["bench", "tpcc", option, value], &[option, "per"]);
        }
    }
    for value in ["0", "-1", "100001", "99999999999999999999999", "2.5"] {
        refused(&["bench", "tpcc", "--warehouses", value], &["--warehouses", value, "1 to 100000"]);
    }
    refused(&["bench", "tpcc", "--clients", "0"], &["--clients", "1 to 10000"]);
    refused(&["bench", "tpcc", "--minutes", "-1"], &["--minutes", "at least"]);
    refused(&["bench", "tpcc", "--minutes", "inf"], &["--minutes", "not a number"]);
    refused(&["bench", "tpcc", "--warmup", "soon"], &["--warmup", "auto"]);
    refused(&["bench", "tpcc", "--seed", "-1"], &["--seed", "whole number"]);
    refused(&["bench", "tpcc", "--think-ms", "-1"], &["--think-ms", "0 to 600000"]);
    refused(&["bench", "restart", "--checkpoint-interval", "60,0"], &["--checkpoint-interval", "1 to 86400"]);
    refused(&["inspect", "layout", "--slots", "1"], &["--slots", "2048"]);
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let systems = "disk-only, flash-only, lc, face, face-gr, face-gsc";
    refused(&["bench", "tpcc", "--system", "lc,tic"], &["--system", "\"tic\"", systems]);
    refused(&["bench", "restart", "--system", ""], &["--system", systems]);
    refused(&["bench", "tpcc", "--flash-device", "floppy"], &["--flash-device", "\"floppy\"", "mlc", "nvme"]);
    refused(&["bench", "tpcc", "--flash-device", "raid0-8"], &["--flash-device", "mlc"]);
    refused(&["bench", "tpcc", "--disk-device", "tape"], &["--disk-device", "raid0-8", "cloud"]);
    refused(&["bench", "tpcc", "--replacement", "mru"], &["--replacement", "lru, clock"]);
    refused(&["bench", "tpcc", "--flash-percen", "8"], &["--flash-percen", "--flash-percent"]);
    refused(&["bench", "tpch"], &["tpch", "tpcc"]);
}

#[test]
fn the_same_thing_is_not_run_twice() {
    refused(&["bench", "tpcc", "--system", "lc,face,lc"], &["--system", "lc is named twice"]);
    refused(&["bench", "tpcc", "--flash-percent", "8,8.0"], &["--flash-percent", "8 is named twice"]);
    refused(
        &["bench", "restart", "--checkpoint-interval", "60,60"],
        &["--checkpoint-interval", "60 is named twice"],
    );
}

#[test]
fn only_one_run_is_recorded() {
    refused(&["bench", "tpcc", "--record", "t.etr"], &["--record records one run and 6 are asked for"]);
    let one = ["bench", "tpcc", "--system", "disk-only", "--record", "/nonexistent/t.etr"];
    refused(&one, &["--record", "does not exist"]);
}

#[test]
fn sizes_that_cannot_work_are_refused_before_loading() {
    refused(
        &["bench", "tpcc", "--warehouses", "1", "--flash-percent", "0.1"],
        &["--flash-percent 0.1", "1 warehouses", "at least", "larger share"],
    );
    refused(&["bench", "tpcc", "--warehouses", "100000", "--flash-percent", "1"], &["--warehouses 100000"]);
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_loading() {
    let folder = Folder::new();
    let at = |name: &str| folder.at(name);
    refused(&["bench", "tpcc", "--json", &at("no/result.json")], &["--json", "does not exist"]);
    refused(&["bench", "tpcc", "--html", &at("")], &["--html", "is a folder"]);
    refused(&["bench", "restart", "--json", "/dev/null"], &["--json", "/dev/null", "not a regular file"]);
    refused(
        &["bench", "tpcc", "--json", &at("one"), "--html", &at("one")],
        &["--html", "same file as --json"],
    );
    assert_eq!(folder.names(), [""; 0], "nothing is left behind");
}

/// A limit on the size of files stands for a file system without room.
#[test]
fn a_full_disk_is_an_error_before_anything_is_loaded() {
    let folder = Folder::new();
    let script = "trap '' XFSZ; ulimit -f 20000; exec \"$0\" bench tpcc --real --flash flash --disk disk --log log \
                  --warehouses 1 --clients 4 --system face-gsc --minutes 0.1";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_entresol")])
        .current_dir(folder.root())
        .output()
        .expect("there is a shell");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("enough space") && message.contains("disk: open of"), "{message}");
}

#[test]
fn real_paths_come_together_and_are_not_mixed_up() {
    let folder = Folder::new();
    let at = |name: &str| folder.at(name);
    let (flash, disk, log) = (at("flash"), at("disk"), at("log"));
    refused(&["bench", "tpcc", "--real"], &["--flash", "--disk", "--log"]);
    refused(&["bench", "tpcc", "--flash", &flash], &["--real"]);
    refused(
        &[
            "bench",
            "tpcc",
            "--real",
            "--flash",
            &flash,
            "--disk",
            &disk,
            "--log",
            &log,
            "--flash-device",
            "mlc",
        ],
        &["--real", "--flash-device"],
    );
    refused(
        &["bench", "tpcc", "--real", "--flash", &flash, "--disk", &flash, "--log", &log],
        &["--disk", "is the same as --flash"],
    );
    std::fs::write(&disk, "not Entresol's").expect("a writable folder");
    refused(
        &["bench", "restart", "--real", "--flash", &flash, "--disk", &disk, "--log", &log],
        &["--disk", "holds something of 14 bytes that is no device", "--overwrite"],
    );
    assert_eq!(std::fs::read(&disk).expect("still there"), b"not Entresol's");
    assert_eq!(folder.names(), ["disk"]);
}

#[test]
fn flash_caches_that_are_none_are_refused() {
    let folder = Folder::new();
    let missing = folder.at("missing");
    refused(&["check", &missing], &["missing"]);
    refused(&["inspect", &missing], &["missing"]);
    refused(&["check"], &["<FLASH>"]);
}

#[test]
fn help_teaches() {
    let output = entresol(&["bench", "tpcc", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for part in ["face-gsc", "[default: 0.4]", "--html <FILE>", "Examples:", "not a TPC result"] {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert!(!help.contains('\x1b'), "no colour without a terminal");
    let output = entresol(&["--help"]);
    assert!(text(&output.stdout).contains("entresol bench tpcc"));
}

#[test]
fn without_arguments_it_shows_the_ways_in() {
    let output = entresol::<&str>(&[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let shown = text(&output.stdout);
    assert_eq!(shown.lines().filter(|line| line.starts_with("You have")).count(), 4, "{shown}");
}

#[test]
fn doctor_looks_and_advises() {
    let folder = Folder::new();
    for (name, bytes) in [("disk", 256 << 20), ("flash", 64 << 20), ("small", 1 << 20)] {
        std::fs::File::create(folder.path(name)).and_then(|file| file.set_len(bytes)).expect("a file");
    }
    let look = |flash: &str| {
        let output = entresol(&["doctor", "--disk", &folder.at("disk"), "--flash", &folder.at(flash)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let shown = look("flash");
    for part in
        ["Linux ", "256.0 MiB, a file", "It is blank", "25 % of the disk", "Next:", "entresol volume create"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let shown = look("small");
    assert!(shown.contains("too small") && !shown.contains("Next:"), "{shown}");
    assert!(text(&entresol(&["doctor"]).stdout).contains("Name the devices"));
    refused(&["doctor", "--disk", &folder.at("nothing")], &["--disk", "No such file"]);
    refused(&["doctor", "--flash", &folder.at("")], &["neither a block device nor a file"]);
}

#[test]
fn devices_lists_every_profile() {
    let output = entresol(&["devices"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    for profile in entresol_device::Profile::all() {
        assert!(shown.contains(profile.description), "{} in {shown}", profile.name);
    }
    assert!(shown.contains("28495"), "the rates of FaCE's table 1: {shown}");
}

#[test]
fn layout_counts_from_the_types() {
    let output = entresol(&["inspect", "layout", "--slots", "2048"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    for policy in entresol_core::PolicyKind::ALL {
        let bytes = entresol_core::bytes_per_slot(policy).to_string();
        let row = shown.lines().find(|line| line.trim_start().starts_with(&format!("{} ", policy.name())));
        let row = row.unwrap_or_else(|| panic!("a row for {} in {shown}", policy.name()));
        assert_eq!(row.split_whitespace().nth(1), Some(bytes.as_str()), "{row}");
    }
    let face = shown.lines().find(|line| line.trim_start().starts_with("face ")).expect("a row for face");
    let of_formats: Vec<_> = face.split_whitespace().skip(1).take(4).collect();
    assert_eq!(of_formats, ["16", "16", "20", "16"], "native, allowed, raw and PostgreSQL's");
    let sce = shown.lines().find(|line| line.trim_start().starts_with("sce ")).expect("a row for sce");
    assert!(
        sce.contains("2.25") && shown.contains("64 fragments of 32 pages"),
        "72 bytes a fragment: {shown}"
    );
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("9,216 bytes more, 144.0 for each fragment on flash"), "{shown}");
    assert!(shown.contains("144.0 with the directory (allowed: 152)"), "{shown}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let script = format!("'{}' devices | true; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_entresol"));
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[cfg(not(feature = "torture"))]
#[test]
fn without_torture_the_command_says_how_to_get_it() {
    for arguments in [&["torture"][..], &["torture", "--seed", "-1", "--states=7"], &["torture", "--help"]] {
        refused(arguments, &["cargo run --release --features torture -- torture"]);
    }
    let help = text(&entresol(&["--help"]).stdout);
    assert!(!help.contains("torture"), "{help}");
}
