//! The functions that may be called in critical sections allocate nothing: an allocator counts the calls of
//! each thread.
#![allow(unsafe_code)] // an allocator

mod cluster;

use cluster::{Cluster, error, fork, put, read, stage};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, close, code};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

thread_local! {
    /// Calls of the allocator by this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

impl Counting {
    fn count(&self) {
        // A thread that ends has no counter any more.
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }
}

// SAFETY: everything is the system's allocator's; counting does not unwind and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator that `work` makes.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

#[test]
fn the_allocator_counts() {
    assert_eq!(calls(|| drop(black_box(Box::new(1)))), 2);
}

#[test]
fn what_may_be_called_in_critical_sections_allocates_nothing() {
    const BLOCKS: u32 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::at(folder.path());
    cluster.make(100, BLOCKS);
    cluster.make(101, BLOCKS);
    cluster.new_memory();
    let at_start = EntCluster { system_identifier: 1, redo: 1, timeline: 1, ..EntCluster::default() };
    assert_eq!(cluster.open(&at_start), code::DONE, "{}", error());
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    let (one, two) = (fork(100), fork(101));
    let (mut hits, mut misses, mut full) = (0, 0, 0);
    // More pages than fit: they are destaged, and evictors wait.
    let allocated = calls(|| {
        for round in 0..2 * BLOCKS {
            let block = round % BLOCKS;
            assert_eq!(put(one, block, 2), code::DONE);
            full += u32::from(stage(two, block, 1, 0) == code::FULL);
            for before in [0, 500, BLOCKS - 300] {
                match read(one, (block + BLOCKS - before) % BLOCKS).unwrap() {
                    Some(_) => hits += 1,
                    None => misses += 1,
                }
            }
            let (mut same, mut here) = (0, false);
            // SAFETY: both are there.
            unsafe { abi::ent_residency(one, block, 16, true, &raw mut same, &raw mut here) };
            // SAFETY: it is there.
            unsafe { abi::ent_is_newer(one, block, &raw mut here) };
            match round % 400 {
                1 => assert_eq!(abi::ent_forget(one, block, 3), code::DONE),
                2 => assert_eq!(abi::ent_forget(one, block.saturating_sub(5), u32::MAX), code::DONE),
                3 => assert_eq!(abi::ent_forget_relation(two), code::DONE),
                _ => assert!(abi::ent_is_attached()),
            }
        }
    });
    assert_eq!(allocated, 0, "{hits} hits, {misses} misses, {full} refused");
    assert!(hits > 1000 && misses > 500, "{hits} hits, {misses} misses");
    let stat = cluster::stat();
    assert!(stat.destaged > 1000 && stat.retired > 10 && stat.cuts > 10, "{stat:?}");
    abi::ent_detach();
    assert_eq!(abi::ent_worker_close(close::WARM, 7), code::DONE, "{}", error());
}
