//! Runs one hot path a given number of times, in a function of its own that callgrind can count.
//! `benches/instructions.sh` at the root of the repository runs it and prints the instructions of each call.
//!
//! Usage: `hot_path_counts <policy> <fetch-hit | fetch-miss | evict | jobs | attach> <calls>`

#[path = "../benches/support/mod.rs"]
mod support;

use entresol_core::{PageId, Partition, PolicyKind, Shape};
use std::hint::black_box;
use support::{Filled, evict, settle};
use zerocopy::IntoBytes;

/// Enough for the fixed costs to be small, few enough for valgrind.
const SLOTS: u32 = 1 << 14;

#[inline(never)]
fn counted_fetch(partition: &mut Partition<'_>, sample: &[PageId]) {
    for page in sample {
        black_box(partition.fetch(*page));
    }
}

#[inline(never)]
fn counted_missed(partition: &mut Partition<'_>, sample: &[PageId]) {
    for page in sample {
        partition.missed(*page);
    }
}

#[inline(never)]
fn counted_evict(partition: &mut Partition<'_>, sample: &[PageId]) {
    for page in sample {
        black_box(evict(partition, *page));
    }
}

#[inline(never)]
fn counted_jobs(partition: &mut Partition<'_>) {
    settle(partition);
    black_box(partition); // prevents a tail call, which callgrind would count as a return
}

#[inline(never)]
fn counted_attach(region: &mut [u64], calls: usize) {
    let shape = Shape::of(region.as_bytes()).expect("a partition");
    for _ in 0..calls {
        let partition = Partition::attach_to(black_box(&mut *region).as_mut_bytes(), black_box(&shape));
        black_box(partition.staging_is_empty());
    }
}

fn main() -> Result<(), String> {
    let usage = "usage: hot_path_counts <policy> <fetch-hit | fetch-miss | evict | jobs | attach> <calls>";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, path, calls] = arguments.as_slice() else { return Err(usage.to_owned()) };
    let policy = PolicyKind::from_name(policy).ok_or(usage)?;
    let calls: usize = calls.parse().map_err(|_| usage)?;
    let mut filled = Filled::new(policy, SLOTS);
    match path.as_str() {
        "fetch-hit" | "fetch-miss" => {
            let sample = filled.sample(calls, path == "fetch-hit");
            counted_fetch(&mut filled.attach(), &sample);
            if path == "fetch-miss" && policy.learns_from_misses() {
                counted_missed(&mut filled.attach(), &sample);
            }
        }
        "evict" | "jobs" => {
            let sample = filled.sample(calls, true);
            let mut partition = filled.attach();
            for batch in sample.chunks(64) {
                match path.as_str() {
                    "evict" => {
                        counted_evict(&mut partition, batch);
                        settle(&mut partition);
                    }
                    _ => {
                        batch.iter().for_each(|page| _ = evict(&mut partition, *page));
                        counted_jobs(&mut partition);
                    }
                }
            }
        }
        "attach" => counted_attach(&mut filled.region, calls),
        _ => return Err(usage.to_owned()),
    }
    Ok(())
}
