//! Short histories that once failed, or that show why a rule exists.

mod harness;

use entresol_core::{
    Admission, Config, Fate, Forget, Forgotten, FrameId, Generation, Job, Log, Lookup, Lsn, PageId,
    Partition, PolicyKind, Position, SlotId, region_bytes,
};
use harness::crash::{self, Front};
use harness::{Choices, World, small};
use zerocopy::IntoBytes;

const DIRTY: bool = true;
const CLEAN: bool = false;

fn page(number: u32) -> PageId {
    PageId::new(1, number)
}

fn region(config: &Config) -> Vec<u64> {
    vec![0; region_bytes(config) / 8]
}

/// What only log placement answers.
fn log<'p, 'r>(partition: &'p mut Partition<'r>) -> &'p mut Log<'r> {
    partition.log_mut().expect("log placement")
}

/// Stages a new version of a page.
fn stage(partition: &mut Partition<'_>, number: u32, dirty: bool) -> (FrameId, Position) {
    match partition.evict(page(number), Lsn(1), dirty, true) {
        Admission::Stage { frame, position } => {
            partition.staged(frame);
            (frame, position)
        }
        other => panic!("page {number}: {other:?}"),
    }
}

/// Does all outstanding jobs.
fn settle(partition: &mut Partition<'_>) {
    while let Some(job) = partition.next_job() {
        match job {
            Job::Write { ticket, pages, .. } => partition.written(ticket, &pages),
            Job::Dequeue { ticket, pages, .. } => {
                for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
                    match log(partition).restage(ticket, page, Lsn(1)) {
                        Admission::Stage { frame, .. } => partition.staged(frame),
                        Admission::AlreadyThere => {}
                        Admission::Full | Admission::Bypass { .. } => panic!("nothing else is in staging"),
                    }
                }
                partition.dequeued(ticket);
            }
            Job::Clean(page) => partition.cleaned(&page),
            Job::PullVictims(_) => {}
        }
        partition.check().expect("no invariant is broken");
    }
}

fn writes(partition: &mut Partition<'_>, count: usize) -> Vec<Job> {
    (0..count).map(|_| partition.next_write().expect("a group is full")).collect()
}

fn complete(partition: &mut Partition<'_>, job: &Job) {
    let Job::Write { ticket, pages, .. } = job else { panic!("{job:?}") };
    partition.written(*ticket, pages);
    partition.check().expect("no invariant is broken");
}

/// Groups are written out of order: the older version is written last, and must not be served once the newer
/// one is gone.
#[test]
fn a_version_that_arrives_late_is_superseded_already() {
    let config = small(PolicyKind::FaceGr, 2, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    stage(&mut partition, 1, DIRTY);
    stage(&mut partition, 2, DIRTY);
    let (_, newer) = stage(&mut partition, 1, DIRTY);
    stage(&mut partition, 3, DIRTY);
    let jobs = writes(&mut partition, 2);
    complete(&mut partition, &jobs[1]);
    complete(&mut partition, &jobs[0]);
    assert_eq!(partition.occupancy().valid, 3);
    assert_eq!(partition.occupancy().superseded, 1);
    let Lookup::Flash { generation, .. } = partition.peek(page(1)) else { panic!("page 1 is on flash") };
    assert_eq!(generation, Generation::Exact(newer));
    // Evicts both.
    for number in 100..100 + 2 * config.slots {
        stage(&mut partition, number, CLEAN);
        settle(&mut partition);
    }
    assert_eq!(partition.peek(page(1)), Lookup::Absent);
}

/// Second chances are written before a group of lower positions. Their old slots stay until that group is
/// durable, too. Otherwise a recorded front would come without a durable position above the second chances.
#[test]
fn slots_are_released_when_all_before_the_second_chances_is_durable() {
    let config = small(PolicyKind::FaceGsc, 4, 4, 0);
    let mut region = region(&config);
    let mut partition = full_of_referenced(&config, region.as_mut_bytes());
    let fill = |partition: &mut Partition<'_>| {
        while !partition.window().1.0.is_multiple_of(4) {
            let fresh = 9000 + partition.window().1.0 as u32;
            stage(partition, fresh, CLEAN);
        }
    };
    fill(&mut partition);
    let before = writes(&mut partition, 1).remove(0);
    let Some(Job::Dequeue { ticket, pages, .. }) = partition.next_job() else { panic!("the ring is full") };
    for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
        let Admission::Stage { frame, .. } = log(&mut partition).restage(ticket, page, Lsn(1)) else {
            panic!("positions are held back for second chances")
        };
        partition.staged(frame);
    }
    partition.dequeued(ticket);
    fill(&mut partition);
    let after = writes(&mut partition, 1).remove(0);
    let front = partition.window().0;
    complete(&mut partition, &after);
    assert_eq!(partition.window().0, front, "a group before the second chances is not durable yet");
    complete(&mut partition, &before);
    assert!(partition.window().0 > front);
    settle(&mut partition);
}

/// LC: while the first version of a new page is being written, the next version waits. Otherwise it would get
/// a slot of its own.
#[test]
fn one_page_never_has_two_slots() {
    let config = small(PolicyKind::Lc, 2, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    stage(&mut partition, 1, DIRTY);
    let first = writes(&mut partition, 1).remove(0);
    stage(&mut partition, 1, DIRTY);
    assert!(partition.next_write().is_none(), "the slot is busy");
    complete(&mut partition, &first);
    let second = writes(&mut partition, 1).remove(0);
    complete(&mut partition, &second);
    assert_eq!((partition.occupancy().valid, partition.occupancy().dirty), (1, 1));
}

/// Fills the ring with referenced pages.
fn full_of_referenced<'r>(config: &Config, region: &'r mut [u8]) -> Partition<'r> {
    let mut partition = Partition::format(region, config).expect("valid");
    let mut number = 0;
    loop {
        let free = config.slots as u64 - partition.window().1.0;
        if free < 3 * config.group_pages as u64 {
            return partition;
        }
        stage(&mut partition, number, DIRTY);
        while let Some(job) = partition.next_write() {
            complete(&mut partition, &job);
        }
        let _ = partition.fetch(page(number));
        number += 1;
    }
}

/// Closing a group must leave the positions that second chances under way may need.
#[test]
fn a_group_is_not_closed_over_second_chances() {
    let config = small(PolicyKind::FaceGsc, 4, 4, 0);
    let mut region = region(&config);
    let mut partition = full_of_referenced(&config, region.as_mut_bytes());
    while !partition.window().1.0.is_multiple_of(4) {
        let fresh = 9000 + partition.window().1.0 as u32;
        stage(&mut partition, fresh, CLEAN);
    }
    while let Some(job) = partition.next_write() {
        complete(&mut partition, &job);
    }
    let mut dequeues = Vec::new();
    while let Some(job) = partition.next_job() {
        let Job::Dequeue { ticket, pages, .. } = job else { continue };
        dequeues.push((ticket, pages));
    }
    assert!(dequeues.len() > 1, "several are under way at once: {}", dequeues.len());
    // After every page that returns, a checkpoint asks to close the group.
    for (ticket, pages) in dequeues {
        for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
            let Admission::Stage { frame, .. } = log(&mut partition).restage(ticket, page, Lsn(1)) else {
                panic!("positions are held back for second chances")
            };
            partition.staged(frame);
            partition.close_group();
            partition.check().expect("no invariant is broken");
        }
        partition.dequeued(ticket);
    }
    assert_eq!(partition.window().1.0 % 4, 0, "now it is closed");
    settle(&mut partition);
}

/// A restart may find the ring full to the last slot. GSC then has no positions for second chances, and must
/// still make progress.
#[test]
fn a_ring_restored_full_gets_going() {
    for policy in crash::survivors() {
        let config = small(policy, 4, 2, 0);
        let mut region = region(&config);
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        let front = 5 * config.slots as u64 / 4 * 4;
        log(&mut partition).restore_begin(Position(front));
        for at in 0..config.slots {
            log(&mut partition).restore_entry(Position(front + at as u64), page(at), DIRTY);
        }
        log(&mut partition).restore_end(Position(front + config.slots as u64));
        partition.check().expect("no invariant is broken");
        for at in 0..config.slots {
            assert!(matches!(partition.fetch(page(at)), Lookup::Flash { dirty: true, .. }));
        }
        let dirty: Vec<_> = partition.dirty_slots().collect();
        assert_eq!(dirty.len(), config.slots as usize);
        for number in 0..3 * config.slots {
            settle(&mut partition);
            // A policy may keep new pages out: not those that must enter.
            let entered = log(&mut partition).evict_changed(page(10_000 + number), Lsn(1), CLEAN);
            let Admission::Stage { frame, .. } = entered else { panic!("page {number}: {entered:?}") };
            partition.staged(frame);
        }
    }
}

/// The record of a page whose copies so far are all stale.
fn forgotten(of: u32) -> Forgotten {
    Forgotten { first: page(of), last: page(of), below: Position(1 << 40), after: 0 }
}

#[test]
fn a_forgotten_page_is_not_restored() {
    let config = small(PolicyKind::Face, 2, 2, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    log(&mut partition).restore_begin(Position(0));
    log(&mut partition).restore_entry(Position(0), page(1), DIRTY);
    log(&mut partition).restore_entry(Position(1), page(2), CLEAN);
    log(&mut partition).restore_forget(&forgotten(1));
    log(&mut partition).restore_entry(Position(2), page(2), DIRTY);
    log(&mut partition).restore_forget(&forgotten(77));
    log(&mut partition).restore_end(Position(4));
    partition.check().expect("no invariant is broken");
    assert_eq!(partition.peek(page(1)), Lookup::Absent);
    let expected = Lookup::Flash { slot: SlotId(2), generation: Generation::Exact(Position(2)), dirty: true };
    assert_eq!(partition.peek(page(2)), expected);
    let held: Vec<_> =
        (0..4).filter_map(|slot| partition.slot(SlotId(slot))).map(|v| (v.page, v.valid)).collect();
    assert_eq!(held, [(page(1), false), (page(2), false), (page(2), true)]);
    assert_eq!((partition.occupancy().valid, partition.occupancy().superseded), (1, 2));
}

#[test]
#[should_panic(expected = "was restored before")]
fn a_position_is_restored_once() {
    let config = small(PolicyKind::Face, 2, 2, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    log(&mut partition).restore_begin(Position(0));
    log(&mut partition).restore_entry(Position(0), page(1), DIRTY);
    log(&mut partition).restore_entry(Position(0), page(2), DIRTY);
}

#[test]
#[should_panic(expected = "is not in the ring")]
fn a_position_outside_the_ring_is_not_restored() {
    let config = small(PolicyKind::Face, 2, 2, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    log(&mut partition).restore_begin(Position(64));
    log(&mut partition).restore_entry(Position(64 + config.slots as u64), page(1), DIRTY);
}

/// LRU-2's retained information: a page that returns soon after its eviction is not the next victim.
#[test]
fn a_page_that_comes_back_is_remembered() {
    let departed_again = |history: u32| {
        let config = Config { history, ..small(PolicyKind::Lc, 2, 2, 10) };
        let mut region = region(&config);
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        let mut number = 1000;
        let mut scan = |partition: &mut Partition<'_>, pages: u32| {
            for _ in 0..pages {
                stage(partition, number, CLEAN);
                settle(partition);
                number += 1;
            }
        };
        // A long scan evicts page 1, which returns, and another scan follows.
        stage(&mut partition, 1, CLEAN);
        scan(&mut partition, config.slots + 4);
        assert_eq!(partition.peek(page(1)), Lookup::Absent);
        stage(&mut partition, 1, CLEAN);
        scan(&mut partition, config.slots + 4);
        partition.peek(page(1)) == Lookup::Absent
    };
    assert!(departed_again(0), "without history it is one more page referenced once");
    assert!(!departed_again(100), "with history it has two references, and the scan's pages one");
}

/// The rule for the front (`restore.rs`) is needed: recovery without it restores older pages.
#[test]
fn recovery_that_trusts_the_oldest_slots_serves_old_pages() {
    let mut stale = 0;
    for seed in 0..16 {
        let mut choices = Choices::from_seed(seed);
        let mut world = World::new(small(PolicyKind::Face, 4, 3, 0), 80, 4);
        for step in 0..4000 {
            world.step(&mut choices);
            world.verify(); // with the rule, nothing is lost
            let recovered = crash::recover(&world, &mut Choices::from_seed(step), Front::Trusted);
            let newest = recovered.newest();
            stale += newest.values().filter(|c| c.version < world.durable[c.page as usize]).count();
        }
    }
    assert!(stale > 0, "the runs never came into danger");
}

/// A ring under `reuse` after pages that were used once only, and changed. The durable front does not lag.
fn of_pages_used_once(region: &mut [u64], config: &Config) -> u32 {
    let mut partition = Partition::format(region.as_mut_bytes(), config).expect("valid");
    for number in 0..10_000 {
        assert_eq!(partition.fetch(page(number)), Lookup::Absent);
        partition.missed(page(number));
        if let Admission::Stage { frame, .. } = partition.evict(page(number), Lsn(1), DIRTY, true) {
            partition.staged(frame);
        }
        settle(&mut partition);
        let (front, _) = partition.window();
        log(&mut partition).front_is_durable(front);
    }
    10_000
}

const KEPT_OUT: Admission = Admission::Bypass { stale: false };

/// A page was forgotten, and the record of that is not durable. A crash would find it: it does not bypass.
#[test]
fn a_page_bypasses_when_it_is_durably_forgotten() {
    let config = small(PolicyKind::Reuse, 4, 2, 0);
    let mut region = region(&config);
    let next = of_pages_used_once(&mut region, &config);
    let mut partition = Partition::attach(region.as_mut_bytes()).expect("a partition");
    assert_eq!(partition.evict(page(next), Lsn(1), DIRTY, true), KEPT_OUT, "an unlikely page");
    let there = (0..next).filter(|number| matches!(partition.peek(page(*number)), Lookup::Flash { .. }));
    let there: Vec<u32> = there.take(2).collect();
    for number in &there {
        let got = partition.forget(page(*number), page(*number), 1);
        assert!(matches!(got, Forget::Done { found: 1, .. }), "{got:?}");
    }
    assert!(there.len() == 2 && log(&mut partition).records_waiting() > 0);
    let got = partition.evict(page(there[0]), Lsn(1), DIRTY, true);
    assert!(matches!(got, Admission::Stage { .. }), "{got:?}");
    let made = log(&mut partition).records_made();
    log(&mut partition).recorded(made);
    assert_eq!(partition.evict(page(there[1]), Lsn(1), DIRTY, true), KEPT_OUT);
}

/// More groups were released than are searched for an older copy.
#[test]
fn changed_pages_enter_while_the_durable_front_lags_far() {
    let config = small(PolicyKind::Reuse, 4, 2, 40);
    let mut region = region(&config);
    let next = of_pages_used_once(&mut region, &config);
    let mut partition = Partition::attach(region.as_mut_bytes()).expect("a partition");
    let (front, _) = partition.window();
    let is_there = |number: &u32| matches!(partition.peek(page(*number)), Lookup::Flash { .. });
    let there = (0..next).find(is_there).expect("a page on flash");
    while partition.window().0.0 - front.0 <= 8 * 4 {
        stage(&mut partition, there, DIRTY);
        settle(&mut partition);
    }
    let got = partition.evict(page(next), Lsn(1), DIRTY, true);
    assert!(matches!(got, Admission::Stage { .. }), "{got:?}");
    let (front, _) = partition.window();
    log(&mut partition).front_is_durable(front);
    assert_eq!(partition.evict(page(next + 1), Lsn(1), DIRTY, true), KEPT_OUT);
}
