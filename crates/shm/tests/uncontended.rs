//! System calls are for contention alone. The count is this process's, so this file has one test.

use entresol_runtime::sync::Rank;
use entresol_shm::atomic::{AtomicU32, Ordering::SeqCst};
use entresol_shm::{Epoch, Plan, Segment, SystemCalls, system_calls};
use std::num::NonZeroU64;
use std::time::Duration;

#[test]
fn what_nobody_waits_for_makes_no_system_call() {
    let mut plan = Plan::new(1);
    let region = plan.guarded("region", Rank::Test, 8);
    let epoch = plan.part::<Epoch>("epoch");
    let fronts = plan.fronts("fronts", 1);
    let segment = Segment::create_memfd(&plan).expect("memory").publish().expect("it has no name");
    let (region, epoch) = (segment.guarded(&region), segment.part(&epoch));
    let front = segment.fronts(&fronts).register().expect("a free seat");
    let what = NonZeroU64::new(1).expect("not 0");
    for round in 0..1_000_000 {
        front.holds(what);
        let mut area = region.lock(front.holder()).expect("nobody poisons it");
        assert_eq!(area[7], round);
        area[7] += 1;
        assert!(region.try_lock_area(0, front.holder()).expect("nobody poisons it").is_none());
        drop(area);
        let seen = epoch.seen();
        epoch.raise();
        assert!(epoch.wait(seen, None));
        front.holds_nothing();
    }
    let calls = |sleeps, wakes, woken| SystemCalls { sleeps, wakes, woken };
    assert_eq!(system_calls(), calls(0, 0, 0));

    // One who waits in vain leaves a mark, for which one raise makes one call.
    assert!(!epoch.wait(epoch.seen(), Some(Duration::from_millis(1))));
    assert_eq!(system_calls(), calls(1, 0, 0));
    epoch.raise();
    assert_eq!(system_calls(), calls(1, 1, 0));
    epoch.raise();
    assert_eq!(system_calls(), calls(1, 1, 0));

    // With contention there are some: they are counted.
    let asleep = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let guard = region.lock(front.holder()).expect("nobody poisons it");
        scope.spawn(|| {
            asleep.store(1, SeqCst);
            drop(region.lock(front.holder()).expect("nobody poisons it"));
        });
        while system_calls().sleeps == 1 {
            std::thread::yield_now();
        }
        assert_eq!(asleep.load(SeqCst), 1);
        drop(guard);
    });
    assert!(system_calls().wakes >= 2, "{:?}", system_calls());
}
