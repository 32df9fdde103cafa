//! Measures a look-up, an eviction into staging (without the copy) and an attachment in a cache of 1 M slots
//! with random access. The limits are 150, 400 and 30 ns.
//!
//! Run with `cargo bench -p entresol-core`.

mod support;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use entresol_core::{Partition, PolicyKind, Shape};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{Filled, evict, settle};
use zerocopy::IntoBytes;

const SLOTS: u32 = 1 << 20;
const SAMPLE: usize = 1 << 20;

fn hot_paths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for policy in PolicyKind::ALL {
        let mut filled = Filled::new(policy, SLOTS);
        for (name, present) in [("fetch hit", true), ("fetch miss", false)] {
            let sample = filled.sample(SAMPLE, present);
            let mut partition = filled.attach();
            let learns = !present && policy.learns_from_misses();
            let mut at = 0;
            group.bench_function(BenchmarkId::new(name, policy.name()), |bencher| {
                bencher.iter(|| {
                    at = (at + 1) % SAMPLE;
                    if learns {
                        partition.missed(sample[at]);
                    }
                    black_box(partition.fetch(sample[at]))
                });
            });
        }
        let sample = filled.sample(SAMPLE, true);
        let mut partition = filled.attach();
        let mut at = 0;
        group.bench_function(BenchmarkId::new("evict", policy.name()), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                let mut left = iterations;
                while left > 0 {
                    settle(&mut partition);
                    let batch = left.min(64);
                    let begin = Instant::now();
                    for _ in 0..batch {
                        at = (at + 1) % SAMPLE;
                        black_box(evict(&mut partition, sample[at]));
                    }
                    spent += begin.elapsed();
                    left -= batch;
                }
                spent
            });
        });
        group.bench_function(BenchmarkId::new("jobs per page", policy.name()), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                let mut left = iterations;
                while left > 0 {
                    let batch = left.min(64);
                    for _ in 0..batch {
                        at = (at + 1) % SAMPLE;
                        black_box(evict(&mut partition, sample[at]));
                    }
                    let begin = Instant::now();
                    settle(&mut partition);
                    spent += begin.elapsed();
                    left -= batch;
                }
                spent
            });
        });
        let region = filled.region.as_mut_slice();
        let shape = Shape::of(region.as_bytes()).expect("a partition");
        group.bench_function(BenchmarkId::new("attach", policy.name()), |bencher| {
            bencher.iter(|| {
                let partition =
                    Partition::attach_to(black_box(&mut *region).as_mut_bytes(), black_box(&shape));
                black_box(partition.staging_is_empty())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);
