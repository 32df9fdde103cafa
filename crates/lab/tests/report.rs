//! Reports over fixed results: what is printed and what the page holds, word by word.
//! `UPDATE_EXPECT=1 cargo test -p entresol-lab --test report` rewrites the golden files; read the difference.

use entresol_core::System;
use entresol_lab::config::FIGURE_4;
use entresol_lab::paper::face;
use entresol_lab::report::terminal::Widths;
use entresol_lab::report::{Report, html, json, restart_report, terminal, tpcc_report};
use entresol_lab::result::{RestartResult, TpccResult};
use expect_test::expect_file;

/// Results a little off the paper's, for each system at each size. Where the paper has no number, made up.
fn tpcc_results(sizes: &[f64]) -> Vec<TpccResult> {
    let mut results = Vec::new();
    for (rank, system) in FIGURE_4.into_iter().enumerate() {
        let cached = matches!(system, System::Cached(_));
        let sizes = if cached { sizes } else { &[0.0] };
        for size in sizes {
            let near =
                |table: face::SizeTable| table.at(system, *size).map_or(0.0, |value| (value * 1.015).round());
            results.push(TpccResult {
                system: system.name().into(),
                flash_percent: *size,
                flash_device: "mlc".into(),
                disk_device: "raid0-8".into(),
                warehouses: 10,
                clients: 50,
                dram_percent: 0.4,
                seed: 1,
                virtual_minutes: 2.0,
                warmup_minutes: if cached { 3.25 } else { 0.5 },
                database_pages: 262_144,
                flash_pages: (size * 2621.44) as u64,
                dram_pages: 1048,
                tpmC: 1000.0 + 700.0 * rank as f64 + 90.0 * size,
                transactions_per_second: 37.0 + 26.0 * rank as f64,
                dram_hit_rate: 0.871,
                flash_hit_rate: cached.then(|| near(face::FLASH_HITS) / 100.0),
                write_reduction: near(face::WRITE_REDUCTION) / 100.0,
                duplicate_share: if system.name() == "face" { 0.33 } else { 0.05 },
                flash_utilisation: near(face::FLASH_UTILISATION) / 100.0,
                flash_iops: near(face::FLASH_IOPS),
                disk_utilisation: 0.9,
                disk_iops: 2222.0,
                flash_write_amplification: 1.25,
                flash_writes: cached.then_some(1_000_000),
                flash_writes_per_day: None,
                new_order_ms_p50: 12.5,
                new_order_ms_p99: 480.0,
                deadlocks: rank as u64,
                consistency_ok: system.name() != "lc",
                speedup: 14.5,
                wall_seconds: 20.5,
                resident_mib: 1500,
                digest: format!("{:016x}", 0xfeed_0000 + rank as u64),
            });
        }
    }
    results
}

fn restart_results() -> Vec<RestartResult> {
    let mut results = Vec::new();
    for (name, restart_s, tpmc) in
        [("disk-only", 60.0, 900.0), ("lc", 50.0, 1800.0), ("face-gsc", 10.0, 4000.0)]
    {
        for interval in [60.0, 180.0] {
            let restart_s = restart_s * interval / 60.0;
            let curve = (0..360).map(f64::from).map(|s| {
                let warm = ((s - restart_s) / 120.0).clamp(0.0, 1.0);
                [s, (tpmc * warm).round()]
            });
            results.push(RestartResult {
                system: name.into(),
                checkpoint_interval_s: interval,
                flash_percent: if name == "disk-only" { 0.0 } else { 8.0 },
                flash_device: "mlc".into(),
                disk_device: "raid0-8".into(),
                warehouses: 10,
                clients: 50,
                seed: 1,
                restart_s,
                directory_restore_s: if name == "face-gsc" { 0.125 } else { 0.0 },
                log_bytes: 123 << 20,
                redo: "plain".into(),
                redo_pages: 23_456,
                redo_from_flash_share: if name == "face-gsc" { 0.991 } else { 0.0 },
                tpmC_after: curve.collect(),
                tpmC_before: (tpmc * 1.1).round(),
                pages_touched: 12_345,
                restart_io: [34_567, 23_456, 1_234, 2_345],
                turnover: 1.5,
                consistency_ok: true,
                digest: "00000000deadbeef".into(),
            });
        }
    }
    results
}

fn extra() -> Vec<(String, String)> {
    vec![("checkpoint".into(), "every 60 s".into()), ("odd <path>".into(), "a & \"b\"".into())]
}

/// The page without its plots and style sheet, which are not for reading word by word.
fn words(page: &str) -> String {
    let mut rest = page;
    let mut out = String::new();
    for (from, to) in [("<style>", "</style>")].into_iter().chain(std::iter::repeat(("<svg", "</svg>"))) {
        let Some(start) = rest.find(from) else { break };
        let end = start + rest[start..].find(to).expect("every element is closed") + to.len();
        out.push_str(&rest[..start]);
        out.push_str(&format!("[{}]", &from[1..].trim_end_matches('>')));
        rest = &rest[end..];
    }
    // Nor is the script that sorts tables.
    let rest = rest.split("<script>").next().unwrap_or_default();
    out + rest
}

fn plots(page: &str) -> usize {
    page.matches("<svg").count()
}

/// Nothing on the page asks for anything outside of it, and no element is left open.
fn self_contained(page: &str) {
    for outside in ["src=", "fetch(", "import(", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script>").count(), 1, "the one that sorts tables");
    let addresses = page.matches("http").count();
    assert_eq!(
        addresses,
        page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count(),
        "only the SVG's name space"
    );
    for element in ["table", "tr", "section", "figure", "svg", "div", "p", "main", "td", "th"] {
        let opened =
            page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "<{element}>");
    }
}

#[test]
fn one_size_in_a_terminal() {
    let report = tpcc_report(&tpcc_results(&[8.0]), &extra());
    expect_file!["golden/tpcc-one-size.txt"].assert_eq(&terminal::render(&report, false, Widths::UNBOUND));
}

#[test]
fn all_sizes_in_a_terminal() {
    let report = tpcc_report(&tpcc_results(&face::FLASH_PERCENTS), &extra());
    expect_file!["golden/tpcc-all-sizes.txt"].assert_eq(&terminal::render(&report, false, Widths::UNBOUND));
}

/// Runs that test no claim, as those on real devices do, say so in one line.
#[test]
fn unjudged_claims_take_one_line() {
    let results: Vec<_> = tpcc_results(&[8.0]).into_iter().filter(|run| run.system == "disk-only").collect();
    let text = terminal::render(&tpcc_report(&results, &extra()), false, Widths::UNBOUND);
    assert!(!text.contains("needs"), "{text}");
    assert_eq!(text.matches("None of the paper's 26 claims is judged by these runs.").count(), 1, "{text}");
}

#[test]
fn restarts_in_a_terminal() {
    let report = restart_report(&restart_results(), &[]);
    expect_file!["golden/restart.txt"].assert_eq(&terminal::render(&report, false, Widths::UNBOUND));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let report = tpcc_report(&tpcc_results(&[8.0]), &[]);
    let coloured = terminal::render(&report, true, Widths::UNBOUND);
    let mut plain = coloured.clone();
    for code in ["0", "1", "2", "31", "32"] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_ne!(coloured, plain);
    let shown: Vec<_> = plain.lines().map(str::trim_end).collect();
    let expected = terminal::render(&report, false, Widths::UNBOUND);
    assert_eq!(shown, expected.lines().collect::<Vec<_>>());
}

#[test]
fn pages_hold_everything_and_need_nothing() {
    let one = html::render(&tpcc_report(&tpcc_results(&[8.0]), &extra()));
    self_contained(&one);
    assert_eq!(plots(&one), 1, "figure 4");
    expect_file!["golden/tpcc-one-size.html"].assert_eq(&words(&one));

    let all = html::render(&tpcc_report(&tpcc_results(&face::FLASH_PERCENTS), &[]));
    self_contained(&all);
    assert_eq!(plots(&all), 5, "tables 3a, 3b, 4a, 4b and figure 4");

    let restart = html::render(&restart_report(&restart_results(), &[]));
    self_contained(&restart);
    assert_eq!(plots(&restart), 2, "figure 6 for each interval");
}

#[test]
fn no_results_make_a_report_all_the_same() {
    let reports: [Report; 2] = [tpcc_report(&[], &[]), restart_report(&[], &[])];
    for report in reports {
        assert!(
            terminal::render(&report, false, Widths::UNBOUND).contains("TPC-C workload, not a TPC result.")
        );
        self_contained(&html::render(&report));
    }
}

#[test]
fn json_reads_back_as_it_was_and_has_the_names_of_the_interface() {
    let results = tpcc_results(&[8.0]);
    let bytes = json(&results).expect("results can be written");
    assert_eq!(serde_json::from_slice::<Vec<TpccResult>>(&bytes).expect("what was written"), results);
    let text = String::from_utf8(bytes).expect("JSON is UTF-8");
    for name in [
        "system",
        "flash_percent",
        "flash_device",
        "disk_device",
        "warehouses",
        "clients",
        "seed",
        "virtual_minutes",
        "tpmC",
        "dram_hit_rate",
        "flash_hit_rate",
        "write_reduction",
        "duplicate_share",
        "flash_utilisation",
        "flash_iops",
        "disk_utilisation",
        "consistency_ok",
        "digest",
    ] {
        assert_eq!(text.matches(&format!("\"{name}\":")).count(), results.len(), "{name}");
    }
    let results = restart_results();
    let bytes = json(&results).expect("results can be written");
    assert_eq!(serde_json::from_slice::<Vec<RestartResult>>(&bytes).expect("what was written"), results);
    let text = String::from_utf8(bytes).expect("JSON is UTF-8");
    for name in [
        "system",
        "checkpoint_interval_s",
        "restart_s",
        "directory_restore_s",
        "redo_pages",
        "redo_from_flash_share",
        "tpmC_after",
    ] {
        assert_eq!(text.matches(&format!("\"{name}\":")).count(), results.len(), "{name}");
    }
}
