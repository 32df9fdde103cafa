//! A volume in write-back of which one byte on flash changes: `entresol volume drain` and `detach` copy what
//! can be read, name the rest, and close nothing, until the loss is accepted.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::READ;
use served::{ReadCounts, connect, filled, volume};
use support::{Folder, done, entresol, text};

const PAGE: u64 = 4096;
const PAGES: u64 = 200;
const BAD: u64 = 100;
/// NBD's error.
const EIO: u32 = 5;

fn content(page: u64) -> Vec<u8> {
    filled(0x5eed_0000 + page, PAGE as usize)
}

/// A volume with pages that only its flash has, of which one is damaged there. A server runs.
fn damaged() -> (Folder, ReadCounts) {
    let folder = volume("write-back");
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    (0..PAGES).for_each(|page| client.write(page * PAGE, &content(page)).unwrap());
    client.flush().unwrap();
    let mut flash = std::fs::read(folder.path("flash")).unwrap();
    let at = flash.chunks(PAGE as usize).position(|found| found == content(BAD)).unwrap() * PAGE as usize;
    flash[at + 9] ^= 1;
    let file = std::fs::OpenOptions::new().write(true).open(folder.path("flash")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &flash[at..at + 512], at as u64).unwrap();
    (folder, server)
}

/// Exit status 1, and a sentence that names the bytes.
fn is_losing(arguments: &[&str]) {
    let output = entresol(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    for part in [&format!("{PAGE} bytes at {}", BAD * PAGE), "--accept-loss"] {
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

fn expect_all_but_one(folder: &Folder) {
    let mut client = connect(folder);
    for page in 0..PAGES {
        match page {
            BAD => assert_eq!(client.ask(READ, 0, page * PAGE, PAGE as u32, &[]).unwrap(), EIO),
            _ => assert_eq!(client.read(page * PAGE, PAGE as usize).unwrap(), content(page), "page {page}"),
        }
    }
}

fn on_disk(folder: &Folder) -> usize {
    let disk = std::fs::read(folder.path("disk")).unwrap();
    let is_there = |page: &u64| disk[(page * PAGE) as usize..][..PAGE as usize] == content(*page);
    (0..PAGES).filter(is_there).count()
}

#[test]
fn a_running_server_goes_on_without_what_is_lost() {
    for command in ["drain", "detach"] {
        let (folder, server) = damaged();
        let config = folder.at("data.toml");
        let arguments = ["volume", command, &config];
        for _ in 0..2 {
            is_losing(&arguments);
            expect_all_but_one(&folder);
            assert_eq!(on_disk(&folder), PAGES as usize - 1, "{command:?}");
        }
        done(&[&arguments[..], &["--accept-loss"]].concat());
        let mut client = connect(&folder);
        assert!(client.read(BAD * PAGE, PAGE as usize).is_ok(), "the disk's version counts");
        client.write(BAD * PAGE, &content(BAD)).unwrap();
        (0..PAGES)
            .for_each(|page| assert_eq!(client.read(page * PAGE, PAGE as usize).unwrap(), content(page)));
        server.stop();
    }
}

#[test]
fn a_volume_without_a_server_is_detached_up_to_what_is_lost() {
    let (folder, server) = damaged();
    server.stop();
    let config = folder.at("data.toml");
    for _ in 0..2 {
        is_losing(&["volume", "detach", &config]);
        assert_eq!(on_disk(&folder), PAGES as usize - 1);
    }
    let server = ReadCounts::start(&folder, &[]);
    expect_all_but_one(&folder);
    server.stop();
    done(&["volume", "detach", &config, "--accept-loss"]);
    assert_eq!(on_disk(&folder), PAGES as usize - 1);
}
