//! `entresol trace` as its users meet it.

mod support;

use support::{Folder, done, json, refused};

const MSR: &[u8] =
    b"128166372003061629,usr,0,Read,4096,8192,41286\n128166372013061629,usr,1,Write,0,512,100\n";

#[test]
fn info_counts() {
    let folder = Folder::new();
    let (trace, out) = (folder.file("t.csv", MSR), folder.at("info.json"));
    let (shown, said) = done(&["trace", "info", &trace, "--json", &out]);
    assert!(shown.contains("3 (2 reads, 1 writes)") && shown.contains("usr.0"), "{shown}");
    assert_eq!(said, "");
    let info = json(out);
    assert_eq!(
        (&info["references"], &info["unique_pages"], &info["span_s"]),
        (&3.into(), &3.into(), &1.0.into())
    );
    assert_eq!(info["relations"][0]["name"], "usr.0");
    let (shown, _) = done(&["trace", "info", &trace, "--page-bytes", "512"]);
    assert!(shown.contains("17 (16 reads, 1 writes)"), "{shown}");
}

#[test]
fn formats_are_converted_and_losses_said() {
    let folder = Folder::new();
    let trace = folder.file("t.csv", MSR);
    let [own, oracle, plain] = ["t.etr", "t.oracle.zst", "t.txt.gz"].map(|name| folder.at(name));
    let (shown, said) = done(&["trace", "convert", &trace, &own, "--to", "entresol"]);
    assert!(shown.contains("3 requests to 3 pages, entresol"), "{shown}");
    assert_eq!(said, "");
    let (_, said) = done(&["trace", "convert", &own, &oracle, "--to", "oracleGeneral"]);
    assert!(
        said.contains("1 writes became references") && said.contains("relations were left out"),
        "{said}"
    );
    let (_, said) = done(&["trace", "convert", &own, &plain, "--to", "plain"]);
    assert!(said.contains("times were left out, pages were numbered anew"), "{said}");
    let facts = |path: &str| done(&["trace", "info", path]).0.lines().skip(1).collect::<Vec<_>>().join("\n");
    assert_eq!(facts(&own), facts(&trace));
    for lossy in [&oracle, &plain] {
        assert!(facts(lossy).contains("3 (3 reads, 0 writes)"), "{}", facts(lossy));
    }
}

#[test]
fn generated_traces_follow_their_arguments() {
    let folder = Folder::new();
    let [a, b, c] = ["a.etr", "b.etr", "c.etr"].map(|name| folder.at(name));
    let zipf = ["trace", "generate", "zipf", "--pages", "500", "--references", "2000", "--rate", "1000"];
    for (out, seed) in [(&a, "7"), (&b, "7"), (&c, "8")] {
        done(&[&zipf[..], &["--seed", seed, "--out", out]].concat());
    }
    let [a, b, c] = [a, b, c].map(|path| std::fs::read(path).expect("written"));
    assert!(a == b && a != c, "the seed decides, and nothing else");
    for kind in ["uniform", "pareto", "sequential", "loops", "tpcc"] {
        let out = folder.at(kind);
        let arguments =
            ["trace", "generate", kind, "--references", "3000", "--warehouses", "1", "--out", &out];
        let (shown, _) = done(&[&arguments[..], &["--scan-percent", "5", "--phases", "2"]].concat());
        assert!(shown.contains("requests to"), "{shown}");
        assert!(done(&["trace", "info", &out]).0.contains("references     3000 ("));
    }
}

#[test]
fn bad_input_is_refused_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let good = folder.file("good", b"1\n2\n3\n4\n");
    let empty = folder.file("empty", b"");
    let damaged = folder.file("damaged", b"1\n2\nx\n4\n");
    let beyond = folder.file("beyond", b"1\n4294967296\n2\n");
    let strange = folder.file("strange", b"once upon a time\n");
    let packed = zstd_of(b"1\n2\n3\n4\n");
    let cut = folder.file("cut.zst", &packed[..packed.len() - 3]);
    let before = folder.names();
    refused(&["trace", "info", &folder.at("absent")], &["absent", "opening"]);
    refused(&["trace", "info", &folder.at("")], &["folder"]);
    refused(&["trace", "info", &empty], &["empty"]);
    refused(&["trace", "info", &damaged], &["damaged, line 3: expected a page number"]);
    refused(&["trace", "info", &beyond], &["beyond, line 2", "32 bits"]);
    refused(&["trace", "info", &strange], &["not a trace in a known format", "oraclegeneral"]);
    refused(&["trace", "info", &cut], &["cut.zst", "cut off"]);
    refused(&["trace", "info", &good, "--format", "tape"], &["\"tape\"", "blkparse"]);
    refused(&["trace", "info", &good, "--stream", "beside"], &["\"beside\"", "above"]);
    refused(&["trace", "info", &good, "--stream", "below"], &["plain format holds one stream"]);
    refused(&["trace", "info", &good, "--relations", &strange], &["strange", "[relations]"]);
    let out = folder.at("out");
    refused(&["trace", "convert", &good, &out, "--to", "msr"], &["\"msr\"", "entresol, oraclegeneral"]);
    refused(&["trace", "convert", &damaged, &out, "--to", "plain"], &["damaged, line 3"]);
    refused(&["trace", "convert", &good, &folder.at("no/out"), "--to", "plain"], &["does not exist"]);
    refused(&["trace", "generate", "zipf", "--pages", "0", "--out", &out], &["0 pages"]);
    refused(&["trace", "generate", "zipf", "--references", "0", "--out", &out], &["0 references"]);
    refused(&["trace", "generate", "zipf", "--skew", "-1", "--out", &out], &["-1"]);
    refused(&["trace", "generate", "zipf", "--rate", "0", "--out", &out], &["references a second"]);
    refused(&["trace", "generate", "tpcc", "--warehouses", "0", "--out", &out], &["warehouses"]);
    refused(&["trace", "generate", "loops", "--loop-pages", "5,0", "--out", &out], &["0 pages"]);
    refused(&["trace", "generate", "bell", "--out", &out], &["bell", "zipf"]);
    assert_eq!(folder.names(), before);
}

/// What the zstd of the trace crate makes of some text.
fn zstd_of(plain: &[u8]) -> Vec<u8> {
    let folder = Folder::new();
    let (from, to) = (folder.file("t", plain), folder.at("t.zst"));
    done(&["trace", "convert", &from, &to, "--to", "plain"]);
    std::fs::read(to).expect("written")
}

#[test]
fn every_format_is_listed() {
    let (help, _) = done(&["trace", "info", "--help"]);
    for format in entresol_trace::Format::ALL {
        assert!(help.contains(&format!("\n  {} ", format.name())), "{format} in {help}");
    }
}
