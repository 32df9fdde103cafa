//! What a backend's calls cost: the C functions over a flash file, in one process with the worker's threads.
//!
//! `door_counts CALLS count WHAT` makes the calls once in a function `counted_WHAT`, for callgrind;
//! `door_counts CALLS time` times them, beside the bare `pread` of the same pages. WHAT: `read` of a page on
//! flash, `absent` (a look-up in vain), `evict` of a dirty page, `again` (a clean page that is on flash).
//!
//! `door_counts CALLS together N,N,…`: so many processes at once, which do nothing else than read or look up
//! in vain. All take the partition's latch for each call, which therefore limits them.
#![allow(unsafe_code)] // calls of C functions

#[path = "../tests/cluster/mod.rs"]
mod cluster;

use cluster::{Cluster, PAGE, Page, error, fork, put, serve, stat};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, EntFork, code};
use entresol_runtime::rng::Rng;
use std::ffi::c_void;
use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const RELATION: u32 = 100;
/// Pages on flash.
const BLOCKS: u32 = 1024;
/// Calls between two looks at the clock.
const BATCH: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [calls, how, what @ ..] = &arguments[..] else {
        eprintln!("usage: door_counts CALLS (count read|absent|evict|again | time | together N,N,...)");
        std::process::exit(2);
    };
    let calls: usize = calls.parse().expect("a number of calls");
    if let ("front", [folder, what]) = (how.as_str(), what) {
        return front(calls, Path::new(folder), what);
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("data/entresol")).expect("a folder");
    let server = Cluster::at(folder.path());
    server.make(RELATION, 4 * BLOCKS);
    server.new_memory();
    let about = EntCluster { system_identifier: 7, redo: 1, timeline: 1, ..EntCluster::default() };
    assert_eq!(server.open(&about), code::DONE, "{}", error());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(server.attach(), code::DONE, "{}", error());
            fill();
            match (how.as_str(), what) {
                ("count", [what]) => count(what, calls),
                ("together", [numbers]) => together(calls, folder.path(), numbers),
                _ => time(calls, &folder.path().join("flash")),
            }
            done.store(true, SeqCst);
        });
        serve(|| done.load(SeqCst));
    });
}

/// Brings the pages to flash, out of staging.
fn fill() {
    for block in 0..BLOCKS {
        assert_eq!(put(fork(RELATION), block, 2), code::DONE);
    }
    assert_eq!(abi::ent_checkpoint(1, 1), code::DONE, "{}", error());
    while stat().slots_valid < u64::from(BLOCKS) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Random blocks on flash, always the same.
fn blocks(calls: usize) -> Vec<u32> {
    let mut rng = Rng::new(1);
    (0..calls).map(|_| rng.below(u64::from(BLOCKS)) as u32).collect()
}

fn read(fork: EntFork, block: u32, page: &mut Page) -> u32 {
    let pages = [page.0.as_mut_ptr().cast::<c_void>()];
    let mut done = 0;
    // SAFETY: one page.
    let code = unsafe { abi::ent_read(fork, block, pages.as_ptr(), 1, &raw mut done) };
    assert_eq!(code, code::DONE);
    done
}

#[inline(never)]
fn counted_read(blocks: &[u32], page: &mut Page) {
    for block in blocks {
        assert_eq!(read(fork(RELATION), *block, page), 1);
    }
}

#[inline(never)]
fn counted_absent(blocks: &[u32], page: &mut Page) {
    for block in blocks {
        assert_eq!(read(fork(RELATION), BLOCKS + *block, page), 0);
    }
}

/// `flags`: of `ent_stage`.
#[inline(never)]
fn counted_stage(blocks: &[u32], page: &Page, flags: u32) {
    for block in blocks {
        // SAFETY: a page.
        let code = unsafe { abi::ent_stage(fork(RELATION), *block, page.0.as_ptr().cast(), 2, flags) };
        assert_eq!(code, code::DONE);
    }
}

fn count(what: &str, calls: usize) {
    let blocks = blocks(calls);
    let mut page = Page::new(0, 2);
    match what {
        "read" => counted_read(&blocks, &mut page),
        "absent" => counted_absent(&blocks, &mut page),
        "evict" => counted_stage(&blocks, &page, entresol_pg::types::flag::DIRTY),
        "again" => counted_stage(&blocks, &page, 0),
        _ => panic!("{what} is none of read, absent, evict, again"),
    }
}

/// Calls of processes side by side: of each number of them, and of each kind.
fn together(calls: usize, folder: &Path, numbers: &str) {
    for what in ["absent", "read"] {
        for number in numbers.split(',').map(|number| number.parse::<usize>().expect("numbers")) {
            let program = std::env::current_exe().expect("this program");
            let fronts: Vec<_> = (0..number)
                .map(|_| {
                    let mut front = Command::new(&program);
                    front.arg(calls.to_string()).arg("front").arg(folder).arg(what);
                    front.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process")
                })
                .collect();
            let mut per_second = 0.0;
            let mut fronts: Vec<_> = fronts
                .into_iter()
                .map(|mut front| {
                    let mut said = BufReader::new(front.stdout.take().expect("a pipe"));
                    said.read_line(&mut String::new()).expect("it is attached");
                    (front, said)
                })
                .collect();
            // They begin when their pipes are closed.
            fronts.iter_mut().for_each(|(front, _)| drop(front.stdin.take()));
            for (mut front, mut said) in fronts {
                let mut seconds = String::new();
                said.read_line(&mut seconds).expect("the time that it took");
                per_second += calls as f64 / seconds.trim().parse::<f64>().expect("seconds");
                assert!(front.wait().expect("it ends").success());
            }
            println!("{what:<8} {number:3} processes {per_second:12.0} calls/s");
        }
    }
}

/// One of them.
fn front(calls: usize, folder: &Path, what: &str) {
    assert_eq!(Cluster::at(folder).attach(), code::DONE, "{}", error());
    let mut rng = Rng::new(u64::from(std::process::id()));
    let blocks: Vec<u32> = (0..calls).map(|_| rng.below(u64::from(BLOCKS)) as u32).collect();
    let mut page = Page::new(0, 2);
    println!("attached");
    std::io::stdin().read_line(&mut String::new()).expect("the end");
    let began = Instant::now();
    match what {
        "read" => counted_read(&blocks, &mut page),
        _ => counted_absent(&blocks, &mut page),
    }
    println!("{}", began.elapsed().as_secs_f64());
}

/// The best of many batches, in microseconds a call.
fn best(blocks: &[u32], mut call: impl FnMut(&[u32])) -> f64 {
    let once = |some: &[u32], call: &mut dyn FnMut(&[u32])| {
        let began = Instant::now();
        call(some);
        began.elapsed().as_secs_f64() * 1e6 / some.len() as f64
    };
    blocks.chunks_exact(BATCH).map(|some| once(some, &mut call)).fold(f64::MAX, f64::min)
}

fn time(calls: usize, flash: &Path) {
    let blocks = blocks(calls);
    let mut page = Page::new(0, 2);
    // As a front opens it: past the kernel's cache, if the file system can.
    let direct = fs::File::options().read(true).custom_flags(0x4000).open(flash).expect("the flash");
    let cached = fs::File::open(flash).expect("the flash");
    let mut results = Vec::new();
    for (name, file) in [("pread, O_DIRECT", &direct), ("pread, page cache", &cached)] {
        let pread = |some: &[u32]| {
            let mut page = Page([0; PAGE]);
            for block in some {
                let offset = (8 << 20) + u64::from(*block) * PAGE as u64;
                file.read_exact_at(&mut page.0, offset).expect("a page");
            }
            black_box(&page);
        };
        results.push((name, best(&blocks, pread)));
    }
    results.push(("read", best(&blocks, |some| counted_read(some, &mut page))));
    results.push(("absent", best(&blocks, |some| counted_absent(some, &mut page))));
    results.push(("again", best(&blocks, |some| counted_stage(some, &page, 0))));
    let dirty = entresol_pg::types::flag::DIRTY;
    results.push(("evict", best(&blocks, |some| counted_stage(some, &page, dirty))));
    for (name, us) in results {
        println!("{name:<20} {us:8.2} µs");
    }
}
