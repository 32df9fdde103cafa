//! What an uncontended lock and unlock costs, beside `parking_lot`'s mutex, in nanoseconds; and what the
//! other operations cost.
//!
//! ```text
//! cargo run --release -p entresol-shm --example latch
//! strace -f -c -e trace=futex cargo run --release -p entresol-shm --example latch     # no futex call
//! ```

use entresol_runtime::sync::Rank;
use entresol_shm::{Epoch, Plan, Segment, system_calls};
use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Instant;

const ROUNDS: u32 = 1_000_000;
const BATCHES: usize = 31;
const PAGE_BYTES: usize = 8192;

/// Nanoseconds of one call.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn median(mut batches: Vec<f64>) -> f64 {
    batches.sort_by(f64::total_cmp);
    batches[batches.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut plan = Plan::new(1);
    let region = plan.guarded("region", Rank::Test, 8);
    let epoch = plan.part::<Epoch>("epoch");
    let pages = plan.bytes("pages", 64 * PAGE_BYTES);
    let fronts = plan.fronts("fronts", 1);
    let segment = Segment::create_memfd(&plan)?.publish()?;
    let (region, epoch, pages) = (segment.guarded(&region), segment.part(&epoch), segment.area(&pages));
    let front = segment.fronts(&fronts).register()?;
    let (me, what) = (front.holder(), NonZeroU64::MIN);
    let mutex = parking_lot::Mutex::new([0_u64; 8]);
    let (mut page, private) = (vec![0; PAGE_BYTES], vec![1; PAGE_BYTES]);

    // In turn, so that what slows the machine down slows both.
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let latch = nanoseconds(|| region.lock(me).expect("nobody poisons it")[0] += 1);
        let parking = nanoseconds(|| black_box(&mutex).lock()[0] += 1);
        ours.push(latch);
        theirs.push(parking);
        ratios.push(latch / parking);
    }
    println!("latch, lock and unlock          {:7.2} ns", median(ours));
    println!("parking_lot, lock and unlock    {:7.2} ns", median(theirs));
    println!("latch / parking_lot             {:7.2}", median(ratios));
    println!("epoch, raise                    {:7.2} ns", nanoseconds(|| epoch.raise()));
    println!(
        "front, holds and holds nothing  {:7.2} ns",
        nanoseconds(|| {
            front.holds(what);
            front.holds_nothing();
        })
    );
    println!(
        "page of 8 KiB, copy out         {:7.2} ns",
        nanoseconds(|| {
            pages.copy_out(0, black_box(&mut page));
        })
    );
    println!(
        "page of 8 KiB, copy in          {:7.2} ns",
        nanoseconds(|| {
            pages.copy_in(0, black_box(&page));
        })
    );
    println!(
        "page of 8 KiB, private copy     {:7.2} ns",
        nanoseconds(|| {
            black_box(&mut page).copy_from_slice(black_box(&private));
        })
    );
    println!("{:?}", system_calls());
    Ok(())
}
