//! Experiments from end to end, as small as they can be.

mod support;

use support::{Folder, done, json, refused};

/// What a run in `folder` printed, which must go well, with what every run here has in common.
fn bench(arguments: &[&str], folder: &Folder) -> String {
    let (out, page) = (folder.at("result.json"), folder.at("result.html"));
    let common = ["--warehouses", "1", "--clients", "8", "--warmup", "0.05", "--json", &out, "--html", &page];
    let (shown, said) = done(&[&["bench"], arguments, &common].concat());
    assert_eq!(said, "");
    shown
}

/// What was printed and written.
fn results(arguments: &[&str]) -> (String, serde_json::Value, String) {
    let folder = Folder::new();
    let shown = bench(arguments, &folder);
    assert_eq!(folder.names(), ["result.html", "result.json"], "nothing but the two files");
    let page = std::fs::read_to_string(folder.path("result.html")).expect("written by the command");
    (shown, json(folder.path("result.json")), page)
}

#[test]
fn tpcc_prints_and_writes_its_results() {
    let (shown, values, page) = results(&["tpcc", "--system", "disk-only,face-gsc", "--minutes", "0.1"]);
    assert!(shown.contains("TPC-C workload, not a TPC result."), "{shown}");
    let systems: Vec<_> =
        values.as_array().expect("an array").iter().map(|run| run["system"].clone()).collect();
    assert_eq!(systems, ["disk-only", "face-gsc"]);
    // A system without a flash cache has no hit rate of one.
    let rates = [0, 1].map(|run| values[run]["flash_hit_rate"].clone());
    assert!(rates[0].is_null() && rates[1].as_f64().is_some_and(|rate| rate > 0.0), "{rates:?}");
    for run in values.as_array().expect("an array") {
        assert_eq!((&run["consistency_ok"], &run["seed"]), (&true.into(), &1.into()));
        assert!(run["tpmC"].as_f64().is_some_and(|tpmc| tpmc > 0.0), "{run}");
        let digest = run["digest"].as_str().expect("a digest");
        assert!(shown.contains(digest) && page.contains(digest), "{digest}");
    }
}

#[test]
fn tpcc_runs_on_a_cache_of_fragments() {
    let arguments = ["tpcc", "--system", "sce", "--flash-percent", "30", "--minutes", "0.2"];
    let (_, values, _) = results(&arguments);
    let run = &values[0];
    assert_eq!((&run["system"], &run["consistency_ok"]), (&"sce".into(), &true.into()));
    assert!(run["flash_hit_rate"].as_f64().is_some_and(|rate| rate > 0.02), "{run}");
    let knobs = ["--fragment-pages", "16", "--population-workers", "1", "--population-pace", "1"];
    let (shown, values, _) = results(&[&arguments[..], &knobs].concat());
    let hits = |run: &serde_json::Value| run["flash_hit_rate"].as_f64().expect("a rate");
    assert!(hits(&values[0]) < hits(run) / 2.0, "one population in a thousand accesses: {values}");
    assert!(shown.contains("pages of a fragment: 16"), "{shown}");
    let refused =
        |arguments: &[&str], words: &[&str]| refused(&[&["bench", "tpcc"], arguments].concat(), words);
    refused(&["--population-workers", "2"], &["--population-workers", "only sce", "--system"]);
    refused(&["--system", "sce", "--fragment-pages", "257"], &["--fragment-pages", "256"]);
    refused(
        &["--system", "sce", "--warehouses", "1", "--flash-percent", "0.1", "--fragment-pages", "200"],
        &["--flash-percent 0.1", "fragments on flash"],
    );
}

#[test]
fn restart_prints_and_writes_its_results() {
    let arguments = ["restart", "--system", "face-gsc", "--minutes", "0.2", "--checkpoint-interval", "5"];
    let (shown, values, page) = results(&arguments);
    assert!(shown.contains("Table 6") && page.contains("<svg"), "{shown}");
    let run = &values[0];
    assert_eq!((&run["system"], &run["checkpoint_interval_s"]), (&"face-gsc".into(), &5.0.into()));
    assert!(run["restart_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{run}");
    assert!(run["tpmC_after"].as_array().is_some_and(|points| points.len() > 1), "{run}");
}

#[test]
fn restarts_are_told_apart_by_their_logs() {
    let every = ["restart", "--system", "disk-only", "--minutes", "0.1", "--checkpoint-interval", "3"];
    let (shown, values, _) = results(&[&every[..], &["--redo", "plain,imaged,usual"]].concat());
    assert!(shown.contains("no notes, no images (FaCE)"), "{shown}");
    let of = |run: usize, field: &str| values[run][field].clone();
    assert_eq!([0, 1, 2].map(|run| of(run, "redo")), ["plain", "imaged", "usual"]);
    // A page whose image is in the log is not read; the usual log of disk-only has images and no notes.
    assert!(of(0, "redo_pages").as_u64() > of(1, "redo_pages").as_u64(), "{values}");
    assert_eq!(of(1, "restart_s"), of(2, "restart_s"));
    refused(&["bench", "restart", "--redo", "none"], &["--redo", "known are plain, imaged, noted, usual"]);
}

#[test]
fn lc_forgets_if_it_is_told_to() {
    let lc = ["tpcc", "--system", "lc", "--minutes", "0.2", "--flash-percent", "8"];
    let hits = |knobs: &[&str]| {
        let (_, values, _) = results(&[&lc[..], knobs].concat());
        values[0]["flash_hit_rate"].as_f64().expect("a rate")
    };
    let (usual, forgets) = (hits(&[]), hits(&["--lc-history", "0"]));
    assert!(forgets < usual && hits(&["--lc-history", "100", "--lc-dirty", "900"]) == usual);
    refused(&["bench", "tpcc", "--system", "face", "--lc-history", "0"], &["--lc-history", "only lc"]);
    refused(&["bench", "tpcc", "--lc-dirty", "1001"], &["--lc-dirty", "1000"]);
}

#[test]
fn a_recorded_run_is_a_trace_of_its_page_accesses() {
    let folder = Folder::new();
    let record = |name: &str| {
        let trace = folder.at(name);
        let one = ["tpcc", "--system", "face-gsc", "--minutes", "0.05", "--record", &trace];
        let shown = bench(&one, &folder);
        assert!(shown.contains("measured from second 3 of the trace on"), "{shown}");
        std::fs::read(trace).expect("written by the command")
    };
    let bytes = record("a.etr");
    assert!(bytes == record("b.etr"), "the seed decides");
    let trace =
        entresol_trace::read_from("a", &bytes[..], &entresol_trace::ReadOptions::default()).expect("whole");
    let info = entresol_trace::Info::of(&trace);
    assert!(info.references > 10_000 && info.dirty > 1000 && info.dirty < info.references, "{info}");
    assert!((5.0..=6.1).contains(&trace.seconds()), "three seconds of warm-up and of measurement: {info}");
    let tables: Vec<&str> = info.relations.iter().map(|relation| relation.name.as_str()).collect();
    for table in ["stock", "order_line", "customer", "district"] {
        assert!(tables.contains(&table), "{table} in {tables:?}");
    }
}
