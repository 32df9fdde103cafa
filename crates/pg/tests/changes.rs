//! The cache is changed while processes use it: another size, another flash, another policy. Each process
//! finds its pages as it left them.
#![allow(unsafe_code)] // calls of C functions

mod cluster;

use cluster::{Cluster, FOLDER, ROLE, Role, error, fork, put, read, stage, wait_for};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, EntEvent, close, code, event};
use entresol_runtime::rng::Rng;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

const BLOCKS: u32 = 2500;
const FIRST: u32 = 100;
const CLIENTS: u32 = 3;
const STEPS: u64 = 15_000;
const MB: u64 = 1 << 20;

fn at_start() -> EntCluster {
    EntCluster { system_identifier: 0x77, redo: 7, timeline: 1, ..EntCluster::default() }
}

/// Not a test by itself: what a started process does.
#[test]
fn a_role() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    match role.strip_prefix("client ") {
        Some(id) => client(&folder, id.parse().unwrap()),
        None => worker(&folder),
    }
}

fn cluster_of(folder: &Path) -> Cluster {
    let mut cluster = Cluster::at(folder);
    cluster.max_bytes = 48 * MB;
    cluster
}

/// One turn of the main thread.
fn serve() {
    let mut next = EntEvent::default();
    // SAFETY: it is there.
    if unsafe { abi::ent_worker_wait(5, &raw mut next) } != code::DONE {
        return;
    }
    match next.kind {
        event::PULL => abi::ent_worker_pulled(0),
        event::MESSAGE => {}
        _ => panic!("worker fails: {}", error()),
    }
}

/// Serves, and changes the cache until the clients have ended.
fn worker(folder: &Path) {
    let cluster = cluster_of(folder);
    assert_eq!(cluster.open(&at_start()), code::DONE, "{}", error());
    fs::write(folder.join("open"), "").unwrap();
    let paths = ["flash", "flash-2"].map(|name| CString::new(folder.join(name).to_str().unwrap()).unwrap());
    let mut changes = 0;
    for turn in 0.. {
        if folder.join("close").exists() {
            break;
        }
        let mut options = cluster.options();
        options.flash_bytes = [24, 40, 16, 48][turn % 4] * MB;
        options.flash = paths[turn / 3 % 2].as_ptr();
        options.policy = [c"face-gsc", c"reuse", c"face"][turn % 3].as_ptr();
        change(&options);
        changes += 1;
        (0..20).for_each(|_| serve());
    }
    assert!(changes > 5, "{changes} changes");
    assert_eq!(abi::ent_worker_close(close::DRAINED, 7), code::DONE, "{}", error());
}

fn change(options: &entresol_pg::types::EntOptions) {
    // SAFETY: its strings live longer.
    match unsafe { abi::ent_worker_prepare(options) } {
        code::DONE => {}
        code::NOTHING => return,
        other => panic!("{other}: {}", error()),
    }
    while abi::ent_worker_is_prepared() == code::NOTHING {
        serve();
    }
    abi::ent_worker_close_gate();
    while !abi::ent_worker_is_alone() {
        std::thread::yield_now();
    }
    assert_eq!(abi::ent_worker_change(7, 7), code::DONE, "{}", error());
    abi::ent_worker_open_gate(true);
}

/// Calls until the cache is not changed meanwhile. Returns how often it was.
fn again<T>(cluster: &Cluster, changed: &mut u64, mut work: impl FnMut() -> Result<T, i32>) -> T {
    loop {
        match work() {
            Ok(done) => return done,
            Err(code::CHANGED) => {
                abi::ent_detach();
                *changed += 1;
                while cluster.attach() == code::CHANGED {
                    std::thread::yield_now();
                }
            }
            Err(code) => panic!("{code}: {}", error()),
        }
    }
}

fn client(folder: &Path, id: u32) {
    let mut cluster = cluster_of(folder);
    cluster.place = id + 1;
    let (fork, mut changed) = (fork(FIRST + id), 0);
    let mut rng = Rng::new(id.into());
    let mut versions = vec![1_u64; BLOCKS as usize];
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    for step in 2..STEPS {
        let block = rng.below(BLOCKS.into()) as u32;
        let newest = &mut versions[block as usize];
        let found = again(&cluster, &mut changed, || read(fork, block));
        let found = found.unwrap_or_else(|| cluster.on_disk(FIRST + id, block));
        assert_eq!(found, *newest, "block {block} after {changed} changes");
        let is_done = |code: i32| if code < code::DONE { Err(code) } else { Ok(code) };
        match rng.below(10) {
            0..6 => {
                let taken = again(&cluster, &mut changed, || is_done(put(fork, block, step)));
                if taken == code::DISK_ONLY {
                    cluster::write(&cluster, FIRST + id, block, step);
                }
                *newest = step;
            }
            6 => _ = again(&cluster, &mut changed, || is_done(stage(fork, block, *newest, 0))),
            7 => {
                again(&cluster, &mut changed, || is_done(abi::ent_forget(fork, block, 1)));
                cluster::write(&cluster, FIRST + id, block, step);
                *newest = step;
            }
            8 => _ = again(&cluster, &mut changed, || is_done(abi::ent_flush(fork))),
            _ => {}
        }
    }
    abi::ent_detach();
    assert!(changed > 3, "{changed} changes were met");
    let text: Vec<String> = versions.iter().map(u64::to_string).collect();
    fs::write(folder.join(format!("versions {id}")), text.join("\n")).unwrap();
}

#[test]
fn processes_find_their_pages_after_each_change() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let cluster = cluster_of(folder);
    (0..CLIENTS).for_each(|id| cluster.make(FIRST + id, BLOCKS));
    cluster.new_memory();
    let worker = Role::start(folder, "worker");
    wait_for(&folder.join("open"));
    let clients: Vec<_> = (0..CLIENTS).map(|id| Role::start(folder, &format!("client {id}"))).collect();
    clients.into_iter().for_each(Role::join);
    fs::write(folder.join("close"), "").unwrap();
    worker.join();
    for id in 0..CLIENTS {
        let text = fs::read_to_string(folder.join(format!("versions {id}"))).unwrap();
        for (block, expected) in (0..).zip(text.lines()) {
            let found = cluster.on_disk(FIRST + id, block);
            assert_eq!(found.to_string(), expected, "relation {id}, block {block}");
        }
    }
}
