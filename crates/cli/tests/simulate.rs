//! `simulate`, `mrc` and `reproduce` as their users meet them: results where they belong, bad input refused
//! with a sentence.

mod support;

use support::{Folder, done, entresol, json, refused, text};

/// A folder with a trace to be replayed.
fn folder() -> Folder {
    Folder::with_trace(20_000, 2000)
}

#[test]
fn a_simulation_writes_what_is_asked_for() {
    let folder = folder();
    let (trace, out, page) = (folder.at("trace"), folder.at("out.json"), folder.at("out.html"));
    let output = entresol(&[
        "simulate",
        "--trace",
        &trace,
        "--policy",
        "none,face-gsc,lc",
        "--dram-pages",
        "100",
        "--flash-percent",
        "10,20",
        "--json",
        &out,
        "--html",
        &page,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Hits and traffic"));
    let results = json(folder.path("out.json"));
    let runs = results.as_array().expect("an array");
    let names: Vec<_> =
        runs.iter().map(|run| (run["policy"].as_str(), run["flash_pages"].as_u64())).collect();
    let expected = [("none", 0), ("face-gsc", 182), ("face-gsc", 364), ("lc", 182), ("lc", 364)];
    assert_eq!(names.len(), expected.len());
    for ((name, pages), (policy, about)) in names.iter().zip(expected) {
        assert_eq!(*name, Some(policy));
        assert!(pages.is_some_and(|pages| pages.abs_diff(about) < 10), "{pages:?} about {about}");
    }
    let fields = "policy mode dram_pages flash_pages references dram_hit_rate flash_hit_rate dirty_evictions \
                  write_reduction flash_reads flash_writes disk_reads disk_writes duplicate_share clwa flwa twaf gc_count \
                  mean_response_us p99_response_us tv_ms energy_j flash_lifetime_years money digest seed";
    for field in fields.split_whitespace() {
        assert!(runs.iter().all(|run| run.get(field).is_some()), "{field}");
    }
    assert!(runs[2]["flash_hit_rate"].as_f64() > runs[1]["flash_hit_rate"].as_f64(), "more flash, more hits");
    let html = std::fs::read_to_string(folder.path("out.html")).expect("written");
    assert!(html.contains("<svg") && html.contains("face-gsc") && html.ends_with("</html>\n"));
    let again = folder.at("again.json");
    entresol(&[
        "simulate",
        "--trace",
        &trace,
        "--policy",
        "lc",
        "--dram-pages",
        "100",
        "--flash-percent",
        "10",
        "--json",
        &again,
    ]);
    assert_eq!(json(folder.path("again.json"))[0]["digest"], runs[3]["digest"], "the same run");
}

#[test]
fn without_flash_the_policies_are_those_of_dram() {
    let folder = folder();
    let (trace, out) = (folder.at("trace"), folder.at("out.json"));
    let sizes =
        ["simulate", "--trace", &trace, "--dram-pages", "300", "--json", &out, "--policy", "lru,fifo,clock"];
    assert_eq!(entresol(&sizes).status.code(), Some(0));
    let runs = json(folder.path("out.json"));
    let curves = folder.at("curves.json");
    assert_eq!(
        entresol(&["mrc", "--trace", &trace, "--sizes", "300,30", "--json", &curves]).status.code(),
        Some(0)
    );
    let curves = json(folder.path("curves.json"));
    for (at, policy) in ["lru", "fifo", "clock"].into_iter().enumerate() {
        assert_eq!(runs[at]["replacement"], policy);
        assert_eq!(curves[at]["policy"], policy);
        assert_eq!(curves[at]["points"][1]["misses"], runs[at]["disk_reads"], "{policy}: two ways to count");
        assert_eq!(curves[at]["points"][0]["pages"], 30, "sizes come in order");
    }
}

#[test]
fn sce_is_simulated_with_its_knobs() {
    let folder = folder();
    let (trace, out) = (folder.at("trace"), folder.at("out.json"));
    let run = |more: &[&str]| {
        let sce = ["simulate", "--trace", &trace, "--policy", "sce", "--dram-pages", "50", "--json", &out];
        let output = entresol(&[&sce[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        json(folder.path("out.json"))
    };
    let runs = run(&["--flash-percent", "10,50"]);
    let number =
        |run: &serde_json::Value, field: &str| run[field].as_f64().unwrap_or_else(|| panic!("{field}"));
    for run in runs.as_array().expect("an array") {
        assert_eq!((&run["policy"], &run["mode"]), (&"sce".into(), &"write-through".into()));
        for field in
            ["flash_hit_rate", "flash_reads", "clwa", "flwa", "twaf", "mean_response_us", "tv_ms", "energy_j"]
        {
            assert!(number(run, field).is_finite(), "{field}: {run}");
        }
        assert_eq!(number(run, "disk_writes"), number(run, "dirty_evictions"), "every write goes to disk");
        let misses = (1.0 - number(run, "dram_hit_rate")) * number(run, "references");
        assert!(
            number(run, "disk_reads") > misses - number(run, "flash_reads"),
            "populations read the disk, too"
        );
    }
    assert!(number(&runs[1], "flash_hit_rate") > number(&runs[0], "flash_hit_rate"));
    let usual = runs[1].clone();
    let knobs = ["--flash-percent", "50", "--fragment-pages", "32", "--population-workers", "1"];
    let slow = run(&[&knobs[..], &["--population-pace", "1"]].concat())[0].clone();
    assert!(
        number(&slow, "flash_writes") < number(&usual, "flash_writes"),
        "one population in a thousand references"
    );
    assert_ne!(slow["decision_hash"], usual["decision_hash"]);
}

#[test]
fn samples_stand_for_the_trace_and_say_how_sure_they_are() {
    let folder = Folder::with_trace(60_000, 10_000);
    let (trace, out) = (folder.at("trace"), folder.at("out.json"));
    let sizes = ["--dram-pages", "200", "--flash-pages", "2000"];
    let run = |more: &[&str]| {
        let command = ["simulate", "--trace", &trace, "--policy", "lc", "--json", &out];
        let (shown, _) = done(&[&command[..], &sizes, more].concat());
        (shown, json(&out)[0].clone())
    };
    let (shown, exact) = run(&[]);
    assert!(exact["sample"].is_null() && !shown.contains('±'), "{shown}");
    let (shown, sampled) = run(&["--sample", "0.3"]);
    assert!(
        shown.contains("Estimates from 5 samples, each of 0.3 of the pages") && shown.contains('±'),
        "{shown}"
    );
    assert_eq!(sampled["references"], exact["references"]);
    assert_eq!((&sampled["sample"]["hashes"], &sampled["sample"]["flash_pages"]), (&5.into(), &600.into()));
    let rate = |result: &serde_json::Value| result["flash_hit_rate"].as_f64().expect("a number");
    assert!((rate(&sampled) - rate(&exact)).abs() < 0.03, "{} {}", rate(&sampled), rate(&exact));
    let (_, again) = run(&["--sample", "0.3"]);
    assert_eq!(again["digest"], sampled["digest"]);
    let (shown, one) = run(&["--sample", "0.3", "--sample-hashes", "1"]);
    assert!(one["sample"]["half_widths"].is_null() && one["digest"] != sampled["digest"], "{shown}");
    let (shown, _) = done(&["mrc", "--trace", &trace, "--sample", "0.2", "--policy", "lru"]);
    assert!(shown.contains('±'), "{shown}");
    let refuse = |more: &[&str], parts: &[&str]| {
        refused(&[&["simulate", "--trace", &trace, "--policy", "lc"], &sizes[..], more].concat(), parts);
    };
    refuse(&["--sample", "0.1"], &["200 of 2000 pages of flash", "sample 0.1280 of the pages or more"]);
    for rate in ["0", "2", "-0.1", "half", "nan"] {
        refuse(&["--sample", rate], &["--sample", "share of the pages"]);
    }
    refuse(&["--sample-hashes", "3"], &["--sample"]);
    refuse(&["--sample", "0.5", "--sample-hashes", "0"], &["--sample-hashes", "1 to 64"]);
    refuse(&["--sample", "0.5", "--exact-devices"], &["--exact-devices", "sample"]);
    refused(&["mrc", "--trace", &trace, "--sizes", "100", "--sample", "0.1"], &["10 of 100 pages", "0.3200"]);
    refused(&["mrc", "--trace", &trace, "--sample", "0.0000001"], &["--sample", "sample more"]);
    refused(
        &["advise", "--trace", &trace, "--sample", "0.01"],
        &["too few", "of the pages or more, or replay the whole trace"],
    );
}

#[test]
fn bad_input_is_refused_and_nothing_is_left_behind() {
    let folder = folder();
    let trace = folder.at("trace");
    let simulate = |more: &[&str], parts: &[&str]| {
        refused(&[&["simulate", "--trace", &trace][..], more].concat(), parts);
    };
    simulate(&["--policy", "arc"], &["--policy", "\"arc\"", "face-gsc", "none"]);
    simulate(&["--policy", "face-gsc"], &["--policy face-gsc", "--flash-percent"]);
    simulate(&["--policy", "lc,lc"], &["lc is named twice"]);
    simulate(&["--flash-pages", "0"], &["--flash-pages", "1 to"]);
    simulate(&["--policy", "face", "--flash-pages", "7"], &["7 pages", "at least"]);
    simulate(
        &["--policy", "sce", "--flash-pages", "9", "--fragment-pages", "10"],
        &["9 pages", "at least 10"],
    );
    simulate(
        &["--policy", "sce", "--flash-pages", "90", "--fragment-pages", "257"],
        &["--fragment-pages", "1 to 256"],
    );
    simulate(&["--policy", "sce", "--flash-pages", "90", "--mode", "write-back"], &["sce", "write-through"]);
    simulate(
        &["--policy", "lc", "--flash-pages", "90", "--population-pace", "5"],
        &["--population-pace", "only sce"],
    );
    simulate(&["--policy", "sce"], &["--policy sce", "--flash-percent"]);
    simulate(&["--dram-percent", "0"], &["--dram-percent", "more than 0"]);
    simulate(&["--mode", "write-sideways"], &["--mode", "write-back"]);
    simulate(&["--flash-device", "floppy", "--flash-percent", "20"], &["--flash-device", "floppy", "nvme"]);
    simulate(&["--disk-device", "tape"], &["--disk-device", "tape", "sata-disk"]);
    simulate(&["--stream", "sideways"], &["--stream", "above"]);
    simulate(&["--format", "csv"], &["--format", "csv", "oraclegeneral"]);
    simulate(&["--policy", "lru", "--measure-from", "5"], &["times"]);
    simulate(&["--policy", "lru", "--timed"], &["no times"]);
    simulate(&["--clients", "0"], &["--clients"]);
    simulate(&["--policy", "lru", "--json", &folder.at("no/out.json")], &["--json", "does not exist"]);
    simulate(&["--devices", &folder.at("missing.toml")], &["--devices", "missing.toml"]);
    refused(&["simulate", "--trace", &folder.at("missing"), "--policy", "lru"], &["missing"]);
    std::fs::write(folder.path("empty"), "").expect("a writable folder");
    refused(&["simulate", "--trace", &folder.at("empty"), "--policy", "lru"], &["empty"]);
    refused(&["mrc", "--trace", &trace, "--sizes", "0"], &["--sizes", "1 to"]);
    refused(&["mrc", "--trace", &trace, "--policy", "lc"], &["--policy", "lru, fifo, clock"]);
    refused(
        &["mrc", "--trace", &trace, "--policy", "sce"],
        &["sce is a policy of a flash cache", "lru, fifo, clock"],
    );
    refused(&["reproduce", "faec"], &["faec", "face", "all"]);
    refused(&["reproduce", "face,face"], &["face is named twice"]);
    refused(&["reproduce", "face", "--traces", &folder.at("missing")], &["--traces", "not a folder"]);
    assert_eq!(folder.names(), ["empty", "trace"]);
}
