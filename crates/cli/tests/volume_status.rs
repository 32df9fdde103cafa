//! What a server tells of itself without being asked, and when it is: log, status, metrics, exit status.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::{READ, WRITE};
use served::{DISK_BYTES, ReadCounts, connect, filled, volume, volume_under};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{Folder, done, text};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above this crate").to_owned()
}

/// The text of a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).expect(path)
}

/// The body that `GET /metrics` answers.
fn scrape(port: &str) -> String {
    let mut stream = TcpStream::connect(port).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    text.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

/// A served volume in write-back with a budget, and its metrics after some requests.
fn exposition() -> String {
    let folder = volume("write-back");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    done(&["volume", "set", &folder.at("data.toml"), "flash-writes-per-day", "200G"]);
    let server = ReadCounts::start(&folder, &["--metrics", &port]);
    let mut client = connect(&folder);
    (0..50).for_each(|page| client.write(page * 4096, &filled(page, 4096)).unwrap());
    client.flush().unwrap();
    (0..100).for_each(|page| _ = client.read(page * 4096, 4096).unwrap());
    // Connections that ask for nothing.
    let idle: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&port).unwrap()).collect();
    let text = scrape(&port);
    drop(idle);
    server.stop();
    text
}

/// Runs promtool; `None`: it is not there, which is said.
fn promtool(arguments: &[&str], input: &str) -> Option<Output> {
    let started = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("promtool is not there (Debian's package prometheus): its checks are left out");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

/// Names of metrics in a text: those that begin as ours do.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("entresol_")).map(str::to_owned).collect()
}

#[test]
fn metrics_have_the_types_of_prometheus() {
    let text = exposition();
    let mut types = BTreeMap::new();
    // By histogram and labels: the bounds and counts so far.
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut others = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            assert!(types.insert(name, kind).is_none(), "{name} has one family");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (metric, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        match metric.split_once("le=\"") {
            Some((labels, bound)) => {
                let bound = bound.trim_end_matches("\"}").parse().unwrap_or(f64::INFINITY);
                let key = labels.replace("_bucket", "").trim_end_matches(',').to_owned();
                buckets.entry(key).or_default().push((bound, value));
            }
            None => _ = others.insert(metric, value),
        }
    }
    let histograms: Vec<_> = types.iter().filter(|(_, kind)| **kind == "histogram").collect();
    assert_eq!(histograms.len(), 8, "{histograms:?}");
    for (key, buckets) in &buckets {
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{key}");
        let (last, all) = buckets[buckets.len() - 1];
        let (name, labels) = key.split_once('{').unwrap();
        let of = |end: &str| others[&*format!("{name}_{end}{{{labels}}}")];
        assert!(last.is_infinite() && all == of("count"), "{key}");
        assert!(types[name] == "histogram" && (of("sum") > 0.0) == (all > 0.0), "{key}");
    }
    let read = buckets.iter().filter(|(key, _)| key.starts_with("entresol_block_read_"));
    assert!(read.map(|(_, buckets)| buckets[buckets.len() - 1].1).sum::<f64>() >= 100.0, "{text}");
    let expected = [
        ("entresol_block_requests_total{cache=\"data\",command=\"read\"}", 100.0),
        ("entresol_block_request_bytes_total{cache=\"data\",command=\"write\"}", 50.0 * 4096.0),
        ("entresol_block_device_state{cache=\"data\",device=\"disk\",state=\"ok\"}", 1.0),
        ("entresol_block_device_state{cache=\"data\",device=\"flash\",state=\"off\"}", 0.0),
        ("entresol_block_device_errors_total{cache=\"data\",device=\"flash\",kind=\"write\"}", 0.0),
        ("entresol_block_dirty_pages{cache=\"data\"}", 50.0),
        ("entresol_block_lost_without_flash_bytes{cache=\"data\"}", 50.0 * 4096.0),
        ("entresol_block_lost_bytes{cache=\"data\"}", 0.0),
    ];
    for (metric, value) in expected {
        assert_eq!(others.get(metric), Some(&value), "{metric}: {text}");
    }
    if let Some(output) = promtool(&["check", "metrics"], &text) {
        let told = told_by(&output);
        assert!(output.status.success() && told.is_empty(), "{told}");
    }
}

fn told_by(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn rules_and_dashboard_and_document_name_metrics_that_there_are() {
    let text = exposition();
    let mut samples: BTreeSet<String> = BTreeSet::new();
    let mut families: BTreeSet<String> = BTreeSet::new();
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(family) => _ = families.insert(family.split(' ').next().unwrap().to_owned()),
            None if line.starts_with('#') => {}
            None => _ = samples.insert(line.split('{').next().unwrap().to_owned()),
        }
    }
    let rules = file("contrib/prometheus/entresol.rules.yml");
    let expressions: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(expressions.len(), 5);
    let dashboard: serde_json::Value = serde_json::from_str(&file("contrib/grafana/entresol.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut used: Vec<(String, String)> =
        expressions.iter().map(|expression| ("a rule".to_owned(), (*expression).to_owned())).collect();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()) && panel["gridPos"]["w"].is_u64(), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            used.push((title.to_owned(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    let query = dashboard["templating"]["list"][1]["query"].as_str().unwrap();
    used.push(("the variable".to_owned(), query.to_owned()));
    assert!(used.len() > 20);
    for (place, expression) in &used {
        let names = named(expression);
        assert!(!names.is_empty() || expression.starts_with("up{"), "{place}: {expression}");
        let unknown: Vec<_> = names.difference(&samples).collect();
        assert!(unknown.is_empty(), "{place}: there is no {unknown:?}");
    }
    // The document has a row for each family, and for no other.
    let document = file("docs/BLOCK.md");
    let rows = document.lines().filter(|line| line.starts_with("| `entresol_"));
    let documented: BTreeSet<String> = rows.flat_map(|row| named(row.split('|').nth(1).unwrap())).collect();
    // Only a cache with shadows has it.
    families.insert("entresol_forecast_hit_ratio".to_owned());
    assert_eq!(documented, families);
    let path = repository().join("contrib/prometheus/entresol.rules.yml");
    if let Some(output) = promtool(&["check", "rules", path.to_str().unwrap()], "") {
        let told = told_by(&output);
        assert!(output.status.success() && told.contains("5 rules found"), "{told}");
    }
    // The expressions of the dashboard, as rules: Grafana puts its variables in.
    let rule = |(at, (_, expression)): (usize, &(String, String))| {
        let expression = expression.replace("$__rate_interval", "1m").replace("$cache", ".*");
        format!("  - record: panel:{at}\n    expr: {}\n", serde_json::to_string(&expression).unwrap())
    };
    let panels = used.iter().enumerate().filter(|(_, (place, _))| place != "the variable");
    let rules = format!("groups:\n- name: panels\n  rules:\n{}", panels.map(rule).collect::<String>());
    let folder = Folder::new();
    let path = folder.file("panels.yml", rules);
    if let Some(output) = promtool(&["check", "rules", &path], "") {
        assert!(output.status.success(), "{}", told_by(&output));
    }
}

/// contrib/prometheus/entresol.rules.test.yml: which alerts fire when.
#[test]
fn alerts_fire() {
    let path = repository().join("contrib/prometheus/entresol.rules.test.yml");
    if let Some(output) = promtool(&["test", "rules", path.to_str().unwrap()], "") {
        assert!(output.status.success(), "{}", told_by(&output));
    }
}

/// All keys of a value, those of objects in it as `outer.inner`.
fn keys(value: &serde_json::Value, before: &str, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                // Kinds of errors are no fields.
                if before == "devices.errors." {
                    continue;
                }
                found.insert(format!("{before}{name}"));
                keys(value, &format!("{before}{name}."), found);
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| keys(value, before, found)),
        _ => {}
    }
}

#[test]
fn the_fields_of_a_status_are_documented() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    (0..50).for_each(|page| client.write(page * 4096, &filled(page, 4096)).unwrap());
    assert_eq!(client.read(0, 4096).unwrap(), filled(0, 4096));
    let shown = done(&["volume", "status", &config]).0;
    for part in
        ["server                running for", "/disk: ok", "/flash: ok", " of 32.0 MiB used", "requests  "]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let lost = "lost without flash    200.0 KiB";
    assert!(shown.contains("newer than disk       50 pages") && shown.contains(lost), "{shown}");
    let status: serde_json::Value =
        serde_json::from_str(&done(&["volume", "status", &config, "--json"]).0).unwrap();
    assert_eq!(status["devices"][1]["path"], folder.at("flash"));
    assert_eq!(status["requests"]["written_bytes"], 50 * 4096);
    assert_eq!(status["lost_without_flash_bytes"], 50 * 4096);
    assert!(status["journal"]["used_bytes"].as_u64().unwrap() >= 50 * 4096, "{status}");
    let mut found = BTreeSet::new();
    keys(&status, "", &mut found);
    // Without a change, or ranges, there are none of these in it.
    let change = ["what", "seconds", "done", "total"].map(|field| format!("under_way.{field}"));
    found.extend(change.into_iter().chain(["lost.offset", "lost.bytes"].map(str::to_owned)));
    let document = file("docs/BLOCK.md");
    let table = document.split("| field of `volume status --json` |").nth(1).expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let documented: BTreeSet<String> = rows
        .flat_map(|row| {
            let names: Vec<_> = row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
            names.into_iter().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(documented, found);
    server.stop();
}

/// A server starts or ends, say.
#[test]
fn a_volume_that_is_open_elsewhere_is_told_as_such() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let label = std::fs::File::open(folder.path("data.label")).unwrap();
    label.lock().unwrap();
    let shown = done(&["volume", "status", &config]).0;
    assert!(shown.contains("under way             open in another program"), "{shown}");
    assert!(shown.contains("/disk: ok") && !shown.contains("newer than disk"), "{shown}");
    drop(label);
    assert!(done(&["volume", "status", &config]).0.contains("newer than disk       0"));
}

#[test]
fn a_watch_prints_rates_as_json_lines() {
    let folder = volume("write-back");
    let server = ReadCounts::start(&folder, &[]);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(["volume", "status", &folder.at("data.toml"), "--watch", "1", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut client = connect(&folder);
    // Until a line has seen requests: it may have begun before them.
    let mut rates = serde_json::Value::Null;
    for _ in 0..60 {
        client.write(0, &filled(1, 4096)).unwrap();
        rates = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if rates["requests_per_second"].as_f64().unwrap() > 0.0 {
            break;
        }
    }
    assert!(rates["written_bytes_per_second"].as_f64().unwrap() > 0.0, "{rates}");
    assert!(rates["dirty_pages"].as_u64().unwrap() >= 1 && rates["failed"] == 0, "{rates}");
    // It ends with the server.
    server.stop();
    lines.for_each(|line| drop(line.unwrap()));
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}

/// A server whose stderr is read, and which survives files that may not grow.
fn serve_with_log(folder: &Folder) -> (ReadCounts, impl FnOnce() -> String + use<>) {
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" serve \"$1\"", env!("CARGO_BIN_EXE_entresol")])
        .arg(folder.at("data.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = child.stderr.take().unwrap();
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        text
    });
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready: "), "{ready}");
    (ReadCounts(child), move || read.join().unwrap())
}

#[test]
fn a_notice_is_told_once() {
    let folder = volume_under("write-through", Some("face-gsc"));
    // Another flash device, without a cache.
    let bytes = folder.path("flash").metadata().unwrap().len();
    folder.file("flash", vec![0; bytes as usize]);
    let (server, log) = serve_with_log(&folder);
    server.stop();
    let log = log();
    assert_eq!(log.matches("the flash device held no cache").count(), 1, "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn failed_requests_are_told_and_not_too_often() {
    let folder = volume("write-back");
    let (server, log) = serve_with_log(&folder);
    let mut client = connect(&folder);
    (0..20).for_each(|_| assert_eq!(client.ask(READ, 0, DISK_BYTES, 512, &[]).unwrap(), 22));
    drop(client);
    server.stop();
    let log = log();
    let told = log.lines().filter(|line| line.contains("WARN data: a request of a client is not possible"));
    assert_eq!(told.count(), 5, "{log}");
}

/// Every write to a file fails: the flash, and the label that would say so.
#[test]
fn a_server_that_can_serve_nothing_ends() {
    let folder = volume("write-back");
    let (mut server, log) = serve_with_log(&folder);
    let mut client = connect(&folder);
    (0..100).for_each(|page| client.write(page * 4096, &filled(page, 4096)).unwrap());
    let id = server.0.id().to_string();
    match Command::new("prlimit").args(["--pid", &id, "--fsize=0"]).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            println!("prlimit is not there (util-linux): {error}");
            return server.stop();
        }
    }
    let failed = client.ask(WRITE, 0, 0, 4096, &filled(7, 4096)).unwrap();
    assert_eq!(failed, 5, "the journal takes no record");
    assert_ne!(client.ask(client::FLUSH, 0, 0, 0, &[]).unwrap(), 0);
    assert_eq!(server.0.wait().unwrap().code(), Some(2));
    let log = log();
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("entresol: data: the flash cache has failed and stopped: "), "{log}");
    assert!(last.ends_with("the server ends, so that it can be started again"), "{log}");
    assert!(log.contains("WARN data: a write of 4096 bytes at 0 failed: journal: "), "{log}");
    assert!(!log.contains("LSN") && !log.contains("page 0:"), "{log}");
    // Nothing that was acknowledged is lost with it.
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    (0..100).for_each(|page| assert_eq!(client.read(page * 4096, 4096).unwrap(), filled(page, 4096)));
    server.stop();
}
