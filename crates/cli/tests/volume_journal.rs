//! The journal of a server that was killed, as its owner sees it: a copy of the volume, a journal that is
//! gone, a file that is none, and the list of journals.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use served::{ReadCounts, connect, filled, volume};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use support::{Folder, done, refused};

/// A write-back volume with a flushed page, 1, and one that was acknowledged only, 2; its server was killed.
fn killed() -> Folder {
    let folder = volume("write-back");
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    client.write(0, &filled(1, 4096)).unwrap();
    client.flush().unwrap();
    client.write(4096, &filled(2, 4096)).unwrap();
    server.kill();
    folder
}

/// The folder was copied, and the configuration of the copy names its own parts and the journal of the
/// original.
#[test]
fn a_copy_that_is_started_first_takes_nothing_from_the_original() {
    let (folder, copy) = (killed(), Folder::new());
    for name in ["disk", "flash", "data.label"] {
        std::fs::copy(folder.path(name), copy.path(name)).unwrap();
    }
    let (old, new) = (folder.root().to_str().unwrap(), copy.root().to_str().unwrap());
    let text = std::fs::read_to_string(folder.path("data.toml")).unwrap();
    let journal = format!("{:?}", folder.at("journal"));
    let copied = text.replace(old, new).replace(&format!("{:?}", copy.at("journal")), &journal);
    let config = copy.file("data.toml", copied);
    refused(
        &["serve", &config],
        &["1 acknowledged writes", "is a copy, or was moved", "volume journal accept"],
    );
    refused(&["volume", "detach", &config], &["is a copy, or was moved"]);
    // The original has everything.
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    assert_eq!(client.read(0, 4096).unwrap(), filled(1, 4096));
    assert_eq!(client.read(4096, 4096).unwrap(), filled(2, 4096));
    server.stop();
}

#[test]
fn a_journal_that_is_gone_is_told_in_log_status_and_metrics() {
    let folder = killed();
    let config = folder.at("data.toml");
    std::fs::remove_file(folder.path("journal")).unwrap();
    let shown = || done(&["volume", "status", &config]).0;
    assert!(shown().contains("may be missing"), "without a server: {}", shown());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let log = std::fs::File::create(folder.path("log")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(["serve", &config, "--metrics", &port])
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    // `ready`.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let server = ReadCounts(child);
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(log.matches("may be missing").count() == 1 && log.contains("not started since"), "{log}");
    assert!(shown().contains("may be missing"), "{}", shown());
    let json: serde_json::Value =
        serde_json::from_str(&done(&["volume", "status", &config, "--json"]).0).unwrap();
    assert_eq!(json["journal_missing"], true);
    assert!(json["start_notices"][0].as_str().unwrap().contains("may be missing"));
    let mut stream = TcpStream::connect(&port).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    assert!(metrics.contains("entresol_block_journal_missing{cache=\"data\"} 1"), "{metrics}");
    server.stop();
    assert!(!shown().contains("may be missing"), "after a clean end: {}", shown());
}

#[test]
fn a_file_of_the_owner_is_no_journal() {
    let folder = volume("write-back");
    let text = b"precious".repeat(4 << 20);
    folder.file("precious", &text);
    folder.keep_journal(Some("precious"));
    refused(&["serve", &folder.at("data.toml")], &["exists and is no journal"]);
    assert!(std::fs::read(folder.path("precious")).unwrap() == text);
}

#[test]
fn journals_are_listed_and_removed() {
    let folder = killed();
    let name = format!("entresol-test-{:08x}.journal", folder.path("disk").metadata().unwrap().ino());
    let listed = format!("/dev/shm/{name}");
    std::fs::copy(folder.path("journal"), &listed).unwrap();
    let shown = || done(&["volume", "status", "--all"]).0;
    let entry = |shown: &str| {
        let lines = shown.lines().skip_while(|line| *line != listed).skip(1);
        lines.take_while(|line| line.starts_with(' ')).collect::<Vec<_>>().join("\n")
    };
    let told = entry(&shown());
    assert!(told.contains("needed: the next start") && told.contains(&folder.at("data.label")), "{told}");
    assert!(told.contains("1 acknowledged writes"), "{told}");
    let remove = ["volume", "journal", "remove", &listed];
    refused(&remove, &["1 acknowledged writes", "--force"]);
    ReadCounts::start(&folder, &[]).stop();
    assert!(entry(&shown()).contains("not needed"), "{}", shown());
    done(&remove);
    assert!(!shown().contains(&listed), "{}", shown());
    refused(&remove, &["not there"]);
    refused(&["volume", "journal", "remove", &folder.at("disk"), "--force"], &["is no journal"]);
    refused(&["volume", "status"], &["CONFIG"]);
}
