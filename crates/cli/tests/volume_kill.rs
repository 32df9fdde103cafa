//! SIGKILL of a server under load: no acknowledged write is lost, flushed or not.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::{Client, FLUSH, WRITE};
use served::ReadCounts;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::{Folder, done};

const PAGE: u64 = 4096;
const PAGES: u64 = 6000;
const CLIENTS: u64 = 4;

fn volume(mode: &str, policy: &str, journal: bool) -> Folder {
    let folder = Folder::new();
    File::create(folder.path("disk")).unwrap().set_len(PAGES * PAGE).unwrap();
    File::create(folder.path("flash")).unwrap().set_len(12 << 20).unwrap();
    let (config, disk, flash) = (folder.at("data.toml"), folder.at("disk"), folder.at("flash"));
    let devices = ["--disk", &disk, "--flash", &flash];
    done(&[&["volume", "create", &config, "--mode", mode, "--policy", policy], &devices[..]].concat());
    folder.keep_journal(journal.then_some("journal"));
    // Streams that are long for so small a volume.
    done(&["volume", "set", &config, "sequential-bypass-bytes", "262144"]);
    folder
}

fn content(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE as usize / 16)
}

/// By page: the version whose write was acknowledged last, and the one that was begun last.
type Known = Arc<Mutex<Vec<(u64, u64)>>>;

/// Writes pages of its own until the server is gone: alone, in runs, and in a long stream; flushes seldom.
fn write_until_killed(folder: &Folder, known: &Known, client: u64, round: u64, done: &AtomicU64) {
    // The others may have written enough before this one has a connection.
    let Ok(mut connection) = Client::connect(&folder.path("data.sock")) else { return };
    let (first, own) = (client * PAGES / CLIENTS, PAGES / CLIENTS);
    let mut state = round << 8 | client | 1 << 40;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut stream = 0;
    loop {
        let (at, pages) = match below(8) {
            0..=4 => (below(own), 1),
            5 => (below(own - 16), 1 + below(16)),
            6 => {
                stream = (stream + 32) % (own - 32);
                (stream, 32)
            }
            _ => {
                if below(40) == 0 && connection.ask(FLUSH, 0, 0, 0, &[]).is_err() {
                    return;
                }
                continue;
            }
        };
        let mut data = Vec::new();
        let mut versions = Vec::new();
        for page in first + at..first + at + pages {
            let mut known = known.lock().unwrap();
            known[page as usize].1 += 1;
            versions.push((page, known[page as usize].1));
            data.extend(content(page, known[page as usize].1));
        }
        match connection.ask(WRITE, 0, (first + at) * PAGE, data.len() as u32, &data) {
            Ok(0) => versions.iter().for_each(|(page, version)| {
                known.lock().unwrap()[*page as usize].0 = *version;
                done.fetch_add(1, SeqCst);
            }),
            Ok(error) => panic!("a write failed: {error}"),
            Err(_) => return,
        }
    }
}

/// Writes, and kills the server after so many acknowledged pages, again and again. Returns the pages whose
/// acknowledged version was lost, and those that were written.
fn kill_again_and_again(mode: &str, policy: &str, journal: bool, rounds: u64) -> (u64, u64) {
    let folder = volume(mode, policy, journal);
    let known: Known = Arc::new(Mutex::new(vec![(0, 0); PAGES as usize]));
    let (mut lost, mut written) = (0, 0);
    for round in 0..rounds {
        let server = ReadCounts::start(&folder, &[]);
        let mut client = Client::connect(&folder.path("data.sock")).unwrap();
        for first in (0..PAGES).step_by(64) {
            let pages = 64.min(PAGES - first);
            let found = client.read(first * PAGE, (pages * PAGE) as usize).unwrap();
            let mut known = known.lock().unwrap();
            for (page, bytes) in (first..).zip(found.chunks_exact(PAGE as usize)) {
                let (acknowledged, begun) = known[page as usize];
                let version = (acknowledged..=begun).rev().find(|version| match version {
                    0 => bytes.iter().all(|byte| *byte == 0),
                    version => *bytes == content(page, *version),
                });
                lost += u64::from(version.is_none());
                // What was being written is there, or is not, and stays so. Versions are given out once.
                let version = version.unwrap_or(begun);
                known[page as usize] = (version, begun.max(version));
            }
        }
        drop(client);
        let acknowledged = AtomicU64::new(0);
        thread::scope(|scope| {
            for one in 0..CLIENTS {
                let (folder, known, acknowledged) = (&folder, &known, &acknowledged);
                scope.spawn(move || write_until_killed(folder, known, one, round, acknowledged));
            }
            let enough = 200 + round * 977 % 3000;
            while acknowledged.load(SeqCst) < enough {
                thread::sleep(Duration::from_millis(1));
            }
            server.kill();
        });
        written += acknowledged.load(SeqCst);
    }
    (lost, written)
}

#[test]
fn no_acknowledged_write_is_lost_by_a_kill() {
    for (mode, policy) in
        [("write-back", "face-gsc"), ("write-through", "face-gsc"), ("write-through", "sce")]
    {
        let (lost, written) = kill_again_and_again(mode, policy, true, 12);
        println!("{policy}, {mode}: {written} acknowledged pages, {lost} lost");
        assert_eq!(lost, 0, "{policy}, {mode}, of {written} pages");
    }
}

/// The test would notice: without the journal, writes are lost.
#[test]
fn without_a_journal_acknowledged_writes_are_lost() {
    let (lost, written) = kill_again_and_again("write-back", "face-gsc", false, 12);
    println!("without a journal: {written} acknowledged pages, {lost} lost");
    assert!(lost > 0, "of {written} pages");
}
