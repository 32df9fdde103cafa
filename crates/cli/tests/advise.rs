//! `advise` as its users meet it.

use std::path::PathBuf;
use std::process::{Command, Output};

fn entresol(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(arguments)
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("the command was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Exit status 2, nothing on stdout, and one line on stderr with every one of `parts`.
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = entresol(arguments);
    let sentence = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {sentence}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(sentence.lines().count(), 1, "{arguments:?}: {sentence}");
    for part in parts {
        assert!(sentence.contains(part), "{arguments:?}: no {part:?} in {sentence}");
    }
}

/// A folder with a trace of plain page numbers: 30,000 references to 3,000 pages, some far more often than others.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        let mut state = 7u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let lines: String = (0..30_000).map(|_| format!("{}\n", below(3000) * below(3000) / 3000)).collect();
        std::fs::write(folder.path("trace"), lines).expect("a writable folder");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().expect("a UTF-8 path").to_owned()
    }

    fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).expect("a writable folder");
        self.at(name)
    }
}

#[test]
fn a_trace_alone_is_enough() {
    let folder = Folder::new();
    let (trace, out, page) = (folder.at("trace"), folder.at("out.json"), folder.at("out.html"));
    let output = entresol(&["advise", "--trace", &trace, "--json", &out, "--html", &page]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in ["Advice", "The best few", "More money", "Everything that was tried", "halves"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let json = std::fs::read(folder.path("out.json")).expect("written");
    let advice: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(advice["verdict"], "flash", "{}", advice["sentence"]);
    let best = advice["best"].as_array().expect("an array");
    assert!(best.len() >= 3, "the best few: {best:?}");
    for field in
        ["policy", "mode", "dram_pages", "flash_pages", "money", "mean_response_us", "p99_response_us"]
    {
        assert!(!best[0][field].is_null(), "{field} in {}", best[0]);
    }
    for field in ["energy_j", "gain", "gain_in_halves"] {
        assert!(!best[0][field].is_null(), "{field} in {}", best[0]);
    }
    let html = std::fs::read_to_string(folder.path("out.html")).expect("written");
    assert!(html.contains("<svg") && html.contains("Buy flash"), "a page with plots");
}

#[test]
fn prices_of_ones_own_decide() {
    let folder = Folder::new();
    let trace = folder.at("trace");
    let dear = "[[memory]]\nname = \"dram\"\ndescription = \"\"\nprice_per_gb = 0.001\nwatts_per_gb = 0.4\n";
    let prices = folder.file("prices.toml", dear);
    // DRAM that costs next to nothing leaves no room for flash.
    let output = entresol(&[
        "advise", "--trace", &trace, "--prices", &prices, "--budget", "0.000012", "--policy", "face-gsc",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("No flash"), "{}", text(&output.stdout));
}

#[test]
fn what_is_not_possible_is_refused() {
    let folder = Folder::new();
    let trace = folder.at("trace");
    let with = |arguments: &[&str], parts: &[&str]| {
        refused(&[&["advise", "--trace", trace.as_str()], arguments].concat(), parts);
    };
    refused(&["advise"], &["--trace"]);
    refused(&["advise", "--trace", &folder.at("missing")], &["missing"]);
    with(&["--prices", "1970"], &["--prices", "1970", "today, face-2012, 3la-2010"]);
    for (text, part) in [
        ("colour = 1\n", "colour"),
        ("[[memory]]\nname = 5\n", "not a list of devices"),
        ("[[machine]]\nname='m'\nmemory='m'\nflash=['slc']\ndisk='cloud'\n", "no memory is called"),
        ("[[machine]]\nname='m'\nmemory='dram'\nflash=['tape']\ndisk='cloud'\n", "no flash device is called"),
        ("[[machine]]\nname='m'\nmemory='dram'\nflash=['fusion-slc']\ndisk='cloud'\n", "has no price"),
        ("[[machine]]\nname='m'\nmemory='dram'\nflash=['3la-flash']\ndisk='cloud'\n", "EUR"),
        ("[[machine]]\nname='m'\nmemory='dram'\nflash=[]\ndisk='cloud'\n", "no flash device"),
        ("[[memory]]\nname='m'\ndescription=''\nprice_per_gb=0\nwatts_per_gb=1\n", "price_per_gb"),
    ] {
        let prices = folder.file("prices.toml", text);
        with(&["--prices", &prices], &["--prices", "prices.toml", part]);
    }
    for value in ["0", "-1", "nan", "much", ""] {
        with(&["--budget", value], &["--budget", "money"]);
    }
    with(&["--budget", "1e-12"], &["--budget", "USD", "from"]);
    for value in ["0", "5", "-1ms", "soon", "msx", "0us"] {
        with(&["--target-latency", value], &["--target-latency", "500us"]);
    }
    with(&["--budget", "1", "--target-latency", "1ms"], &["--budget", "--target-latency"]);
    with(&["--policy", "none"], &["--policy", "face-gsc"]);
    with(&["--policy", "lc,lc"], &["--policy", "lc is named twice"]);
    with(&["--flash-device", "raid0-8"], &["--flash-device", "nvme"]);
    with(&["--disk-device", "tape"], &["--disk-device", "sata-disk"]);
    with(&["--memory", "core"], &["--memory", "dram"]);
    with(&["--timed"], &["no times"]);
    with(&["--min-years", "-1"], &["--min-years"]);
    with(&["--json", &folder.at("no/out.json")], &["--json", "does not exist"]);
    let empty = folder.file("empty", "");
    refused(&["advise", "--trace", &empty], &["empty", "no request"]);
}
