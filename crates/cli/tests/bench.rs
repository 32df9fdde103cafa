//! Experiments from end to end, as small as they can be.

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str], json: &Path, html: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_entresol"))
        .arg("bench")
        .args(arguments)
        .args(["--warehouses", "1", "--clients", "8", "--warmup", "0.05"])
        .args([Path::new("--json"), json, Path::new("--html"), html])
        .output()
        .expect("the command was built for this test")
}

/// What was printed and written by a run that must go well.
fn results(arguments: &[&str]) -> (String, serde_json::Value, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, html) = (folder.path().join("result.json"), folder.path().join("result.html"));
    let output = bench(arguments, &json, &html);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*errors), (Some(0), ""));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing but the two files");
    let read = |path| std::fs::read_to_string(path).expect("written by the command");
    let values = serde_json::from_str(&read(&json)).expect("JSON");
    (String::from_utf8_lossy(&output.stdout).into_owned(), values, read(&html))
}

#[test]
fn tpcc_prints_and_writes_its_results() {
    let (shown, values, page) = results(&["tpcc", "--system", "disk-only,face-gsc", "--minutes", "0.1"]);
    assert!(shown.contains("TPC-C workload, not a TPC result."), "{shown}");
    let systems: Vec<_> =
        values.as_array().expect("an array").iter().map(|run| run["system"].clone()).collect();
    assert_eq!(systems, ["disk-only", "face-gsc"]);
    for run in values.as_array().expect("an array") {
        assert_eq!((&run["consistency_ok"], &run["seed"]), (&true.into(), &1.into()));
        assert!(run["tpmC"].as_f64().is_some_and(|tpmc| tpmc > 0.0), "{run}");
        let digest = run["digest"].as_str().expect("a digest");
        assert!(shown.contains(digest) && page.contains(digest), "{digest}");
    }
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
fn a_recorded_run_is_a_trace_of_its_page_accesses() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let record = |name: &str| {
        let (trace, json) = (folder.path().join(name), folder.path().join("result.json"));
        let one = ["tpcc", "--system", "face-gsc", "--minutes", "0.05", "--record"];
        let arguments = [&one[..], &[trace.to_str().expect("UTF-8")]].concat();
        let output = bench(&arguments, &json, &folder.path().join("result.html"));
        let (shown, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.status.code(), &*errors), (Some(0), ""));
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
