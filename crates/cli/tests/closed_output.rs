//! Nobody reads what is printed: the terminal is gone, the reader of the pipe has ended, the file system of
//! the log is full. No command panics, and no server stops serving.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::Client;
use served::{ReadCounts, connect, filled, volume};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::{Folder, done, plain_trace};

/// What stdout and stderr are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// Files.
    Open,
    /// Pipes whose reader has ended.
    NoReader,
    /// A full file system.
    Full,
    /// Not open at all.
    Closed,
}

impl Sink {
    fn stdio(self, folder: &Folder, name: &str) -> Stdio {
        match self {
            Self::Open | Self::Closed => File::create(folder.path(name)).unwrap().into(),
            Self::NoReader => std::io::pipe().unwrap().1.into(),
            Self::Full => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
        }
    }

    fn command(self, folder: &Folder, arguments: &[String]) -> Command {
        let program = env!("CARGO_BIN_EXE_entresol");
        let mut command = match self {
            Self::Closed => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "exec \"$@\" >&- 2>&-", "sh", program]);
                shell
            }
            _ => Command::new(program),
        };
        command.args(arguments).stdout(self.stdio(folder, "stdout")).stderr(self.stdio(folder, "stderr"));
        command
    }
}

/// Every command, in an order in which they go well; those that last for long are refused.
fn commands(folder: &Folder) -> Vec<Vec<String>> {
    let at = |name: &str| folder.at(name);
    let (trace, packed, made, new, old) =
        (at("trace"), at("t.etr"), at("m.etr"), at("new.toml"), at("data.toml"));
    let (used, data) = (at("flash"), at("disk"));
    let nowhere = at("no folder/socket");
    let (disk, flash, json, none) = (at("disk2"), at("flash2"), at("x.json"), at("none"));
    let lines: Vec<Vec<&str>> = vec![
        vec!["devices"],
        vec!["inspect", "layout"],
        vec!["trace", "info", &trace],
        vec!["trace", "convert", &trace, &packed, "--to", "plain"],
        vec!["trace", "generate", "zipf", "--pages", "1000", "--references", "1000", "--out", &made],
        vec!["mrc", "--trace", &trace, "--json", &json],
        vec!["advise", "--trace", &trace],
        vec!["simulate", "--trace", &trace, "--policy", "lc", "--flash-percent", "20"],
        vec!["reproduce", "face", "--traces", &none],
        vec![
            "bench",
            "tpcc",
            "--system",
            "face-gsc",
            "--warehouses",
            "1",
            "--minutes",
            "0.02",
            "--warmup",
            "0.02",
        ],
        vec!["bench", "restart", "--system", "none"],
        vec!["worker"],
        vec!["torture", "--none"],
        vec!["volume", "create", &new, "--disk", &disk, "--flash", &flash, "--mode", "write-back"],
        vec!["volume", "status", &new],
        vec!["volume", "status", &new, "--watch"],
        vec!["volume", "status", "--all"],
        vec!["volume", "check", &new],
        vec!["volume", "set", &new, "dirty-percent-max", "90"],
        vec!["volume", "resize", &new, "--flash-size", "16M"],
        vec!["volume", "replace-flash", &new, &none],
        vec!["volume", "drain", &new],
        vec!["volume", "detach", &new],
        vec!["volume", "journal", "accept", &new],
        vec!["volume", "journal", "without", &new],
        vec!["volume", "journal", "remove", &none],
        vec!["inspect", &used],
        vec!["check", &used],
        vec!["check", &used, &data],
        vec!["detach", &used, &data],
        vec!["serve", &none],
        vec!["serve", &old, "--socket", &nowhere],
        vec!["doctor", "--disk", &disk, "--flash", &flash],
        vec!["completions", "bash"],
        vec!["manual", &none],
        vec!["--help"],
        vec!["--version"],
        vec!["volume", "--help"],
        vec!["nonsense"],
    ];
    lines.into_iter().map(|line| line.into_iter().map(str::to_owned).collect()).collect()
}

fn prepared() -> Folder {
    let folder = volume("write-back");
    folder.file("trace", plain_trace(5000, 300));
    for (name, bytes) in [("disk2", 24 << 20), ("flash2", 12 << 20)] {
        File::create(folder.path(name)).unwrap().set_len(bytes).unwrap();
    }
    folder
}

/// Exit statuses, and whether something was printed.
fn run(sink: Sink) -> Vec<(Vec<String>, Option<i32>, bool)> {
    let folder = prepared();
    let one = |line: Vec<String>| {
        let status = sink.command(&folder, &line).status().unwrap();
        let printed = std::fs::metadata(folder.path("stdout")).is_ok_and(|file| file.len() > 0);
        (line, status.code(), printed)
    };
    commands(&folder).into_iter().map(one).collect()
}

#[test]
fn no_command_minds_that_nobody_reads() {
    let as_usual = run(Sink::Open);
    assert!(as_usual.iter().filter(|(_, status, _)| *status == Some(0)).count() >= 20, "{as_usual:?}");
    for sink in [Sink::NoReader, Sink::Full, Sink::Closed] {
        for ((line, status, _), (_, usual, prints)) in run(sink).into_iter().zip(&as_usual) {
            // What was asked for could not be written: that is told by the status.
            let is_told = sink == Sink::Full && *prints && *usual != Some(2);
            let is_help = line.iter().any(|word| word == "--help" || word == "--version");
            let expected = if is_told && !is_help { Some(2) } else { *usual };
            assert_eq!(status, expected, "{sink:?}: {line:?}");
        }
    }
}

/// The names below "Commands:" in the help of a command.
fn subcommands(of: &[&str]) -> BTreeSet<String> {
    let shown = done(&[of, &["--help"]].concat()).0;
    let lines = shown.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_is_in_the_list() {
    let folder = Folder::new();
    let listed = commands(&folder);
    let mut missing = Vec::new();
    let mut look = vec![Vec::<String>::new()];
    let mut leaves = 0;
    while let Some(of) = look.pop() {
        let words: Vec<&str> = of.iter().map(String::as_str).collect();
        let below = subcommands(&words);
        if below.is_empty() && !listed.iter().any(|line| line.starts_with(&of)) {
            missing.push(of.clone());
        }
        leaves += usize::from(below.is_empty());
        look.extend(below.into_iter().map(|name| [&of[..], &[name]].concat()));
    }
    assert!(missing.is_empty(), "{missing:?}");
    assert!(leaves > 20, "{leaves} commands were found");
}

/// A server that was started so. It cannot say that it is ready.
fn served(sink: Sink, folder: &Folder) -> ReadCounts {
    let arguments = ["serve".to_owned(), folder.at("data.toml")];
    let child = sink.command(folder, &arguments).env("ENTRESOL_LOG", "info").spawn().unwrap();
    let server = ReadCounts(child);
    while Client::connect(&folder.path("data.sock")).is_err() {
        sleep(Duration::from_millis(5));
    }
    server
}

/// Changes of the mode, requests that are refused, and a failed start are logged.
#[test]
fn a_server_serves_on_without_a_log() {
    for sink in [Sink::NoReader, Sink::Full, Sink::Closed] {
        let folder = volume("write-back");
        let config = folder.at("data.toml");
        let server = served(sink, &folder);
        let mut client = connect(&folder);
        client.write(4096, &filled(1, 4096)).unwrap();
        client.flush().unwrap();
        for mode in ["write-through", "write-back"] {
            done(&["volume", "set", &config, "mode", mode]);
            assert_eq!(client.read(4096, 4096).unwrap(), filled(1, 4096), "{sink:?}");
        }
        client.write(8192, &filled(2, 4096)).unwrap();
        assert_eq!(client.read(8192, 4096).unwrap(), filled(2, 4096), "{sink:?}");
        done(&["volume", "drain", &config]);
        server.stop();
    }
}

/// The reader of the log is there, and does not read: no request waits for it.
#[test]
fn a_log_that_nobody_reads_stops_no_request() {
    let folder = volume("write-back");
    let text = std::fs::read_to_string(folder.path("data.toml")).unwrap();
    folder.file("data.toml", text.replace("connections_max = 64", "connections_max = 1"));
    let (reader, writer) = std::io::pipe().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(["serve", &folder.at("data.toml")])
        .env("ENTRESOL_LOG", "info")
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let server = ReadCounts(child);
    let mut client = loop {
        match Client::connect(&folder.path("data.sock")) {
            Ok(client) => break client,
            Err(_) => sleep(Duration::from_millis(5)),
        }
    };
    // One too many is told in a line; a pipe takes 64 KiB.
    for _ in 0..3000 {
        let refused = Client::connect(&folder.path("data.sock")).err().expect("one too many");
        assert_ne!(refused.kind(), ErrorKind::WouldBlock, "the server answers");
    }
    client.write(8192, &filled(2, 4096)).unwrap();
    assert_eq!(client.read(8192, 4096).unwrap(), filled(2, 4096));
    server.stop();
    drop(reader);
}

/// `entresol volume status --watch | head`.
#[test]
fn a_watch_ends_with_its_reader() {
    let folder = volume("write-back");
    let server = ReadCounts::start(&folder, &[]);
    let watch = ["volume", "status", &folder.at("data.toml"), "--watch"].map(str::to_owned);
    let status = Sink::NoReader.command(&folder, &watch).status().unwrap();
    assert_eq!(status.code(), Some(0));
    server.stop();
}
