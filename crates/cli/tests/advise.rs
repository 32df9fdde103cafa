//! `advise` as its users meet it.

mod support;

use support::{Folder, entresol, json, refused, text};

/// A folder with a trace to be advised on.
fn folder() -> Folder {
    Folder::with_trace(30_000, 3000)
}

#[test]
fn a_trace_alone_is_enough() {
    let folder = folder();
    let (trace, out, page) = (folder.at("trace"), folder.at("out.json"), folder.at("out.html"));
    let output = entresol(&["advise", "--trace", &trace, "--json", &out, "--html", &page]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in
        ["Buy flash", "The best few", "More money", "Everything that was tried", "halves", "the flash lasts"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let advice = json(folder.path("out.json"));
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

/// One sample of a tenth of the pages; of few pages it cannot tell.
#[test]
fn quick_advice_is_from_a_sample() {
    let large = Folder::with_trace(300_000, 40_000);
    let (trace, out) = (large.at("trace"), large.at("out.json"));
    let output = entresol(&["advise", "--trace", &trace, "--quick", "--json", &out]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("from one sample of 0.1"), "{}", text(&output.stdout));
    assert_eq!(json(large.path("out.json"))["sample"][1], 1);
    refused(&["advise", "--trace", &trace, "--quick", "--sample", "0.5"], &["--quick", "--sample"]);
}

#[test]
fn prices_of_ones_own_decide() {
    let folder = folder();
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
    let folder = folder();
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
    for value in ["0", "2", "TB", "-2TB", "1e30TB"] {
        with(&["--database-size", value], &["--database-size", "2TB"]);
    }
    with(&["--database-size", "1MB"], &["--database-size", "smaller than the pages"]);
    with(&["--database-size", "2TB", "--budget", "0.00001"], &["--budget", "USD", "from"]);
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
