//! Short histories of forgetting and flushing that once failed.

mod harness;

use entresol_core::{
    Admission, Config, DequeuePages, Fate, Forget, FrameId, Job, Log, Lookup, Lsn, PageId, Partition,
    PolicyKind, Position, Ticket, Walk, WritePages, region_bytes,
};
use harness::small;
use std::collections::BTreeSet;
use zerocopy::IntoBytes;

/// The number of what makes pages dead.
const AFTER: u64 = 7;

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

/// Gives a new, dirty version of a page its frame.
fn enter(partition: &mut Partition<'_>, number: u32) -> FrameId {
    match partition.evict(page(number), Lsn(1), true, true) {
        Admission::Stage { frame, .. } => frame,
        other => panic!("page {number}: {other:?}"),
    }
}

fn stage(partition: &mut Partition<'_>, number: u32) {
    let frame = enter(partition, number);
    partition.staged(frame);
}

fn next_write(partition: &mut Partition<'_>) -> (Ticket, WritePages) {
    match partition.next_write() {
        Some(Job::Write { ticket, pages, .. }) => (ticket, pages),
        other => panic!("a write, not {other:?}"),
    }
}

fn write_all(partition: &mut Partition<'_>) {
    while let Some(Job::Write { ticket, pages, .. }) = partition.next_write() {
        partition.written(ticket, &pages);
        partition.check().expect("no invariant is broken");
    }
}

fn next_dequeue(partition: &mut Partition<'_>) -> (Ticket, DequeuePages) {
    loop {
        match partition.next_job().expect("a dequeue") {
            Job::Dequeue { ticket, pages, .. } => return (ticket, pages),
            Job::PullVictims(_) => {}
            job => panic!("a dequeue, not {job:?}"),
        }
    }
}

/// Stages pages, from 0 on, until the next one needs a dequeue. Each was fetched from flash.
fn fill(partition: &mut Partition<'_>, config: &Config) -> u32 {
    let mut number = 0;
    while u64::from(config.slots) - partition.window().1.0 >= 3 * u64::from(config.group_pages) {
        stage(partition, number);
        write_all(partition);
        let _ = partition.fetch(page(number));
        number += 1;
    }
    number
}

/// 1. A group is written before an older one of which a page is still being copied in.
/// 2. A page of it is forgotten.
/// 3. The older group must not take the record: it is overwritten before the stale copy is.
#[test]
fn a_record_is_written_with_the_last_group_of_its_copies() {
    let config = small(PolicyKind::FaceGr, 2, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    let late = enter(&mut partition, 1);
    (2..=4).for_each(|number| stage(&mut partition, number));
    let (newer, newer_pages) = next_write(&mut partition);
    assert_eq!(newer_pages[0].position, Position(2));
    let got = partition.forget(page(4), page(4), AFTER);
    assert_eq!(got, Forget::Done { found: 1, dirty: 1, in_dequeue: false });
    partition.staged(late);
    let (older, older_pages) = next_write(&mut partition);
    assert_eq!(older_pages[0].position, Position(0));
    assert!(log(&mut partition).records(older, AFTER).0.is_empty());
    assert!(log(&mut partition).records(newer, AFTER - 1).0.is_empty(), "what made it dead is not durable");
    let (records, end) = log(&mut partition).records(newer, AFTER);
    assert_eq!((records.len(), records[0].first, records[0].below), (1, page(4), Position(4)));
    log(&mut partition).recorded(end);
    assert_eq!(log(&mut partition).records_waiting(), 0);
}

/// 1. A page is destaged and its slot released.
/// 2. It is forgotten and written to disk.
/// 3. Power fails before the slot is overwritten and before a record of the front is durable.
/// 4. So the restart finds the page in the slot.
#[test]
fn a_dequeued_page_is_recorded_until_the_front_is_durable() {
    let config = small(PolicyKind::Face, 2, 2, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    fill(&mut partition, &config);
    let (ticket, pages) = next_dequeue(&mut partition);
    assert!(pages.iter().all(|page| page.fate == Fate::Destage));
    partition.dequeued(ticket);
    let front = partition.window().0;
    assert_eq!((front, partition.peek(page(0))), (Position(2), Lookup::Absent));
    let nothing = Forget::Done { found: 0, dirty: 0, in_dequeue: false };
    assert_eq!(partition.forget(page(0), page(0), AFTER), nothing);
    assert_eq!(log(&mut partition).records_waiting(), 1);
    log(&mut partition).front_is_durable(front);
    assert_eq!(partition.forget(page(1), page(1), AFTER + 1), nothing);
    assert_eq!(log(&mut partition).records_waiting(), 1, "no restart finds page 1 any more");
}

/// A page moves from its frame to a slot while a long range is forgotten.
#[test]
fn a_page_published_between_the_steps_is_forgotten() {
    let config = small(PolicyKind::FaceGr, 2, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    stage(&mut partition, 1);
    stage(&mut partition, 2);
    let (ticket, pages) = next_write(&mut partition);
    let range = (page(0), page(1000));
    let below = log(&mut partition).forget_begin(range.0, range.1, AFTER).expect("no record waits");
    let mut found = 0;
    let mut forget = |partition: &mut Partition<'_>, entries: std::ops::Range<u32>| {
        let Forget::Done { found: pages, .. } = log(partition).forget_entries(range, below, AFTER, entries)
        else {
            panic!("the record was made")
        };
        found += pages;
    };
    forget(&mut partition, 0..config.slots);
    partition.written(ticket, &pages);
    let entries = partition.entries();
    forget(&mut partition, config.slots..entries);
    partition.check().expect("no invariant is broken");
    assert_eq!(
        (found, partition.peek(page(1)), partition.peek(page(2))),
        (2, Lookup::Absent, Lookup::Absent)
    );
}

/// Pages move while a walk goes on: from frames to slots, and back with second chances.
#[test]
fn a_walk_meets_pages_that_move() {
    let step = |partition: &Partition<'_>, walk: &mut Walk, places: u32, met: &mut BTreeSet<PageId>| {
        partition.walk(walk, places, |page| _ = met.insert(page))
    };
    for policy in [PolicyKind::FaceGsc, PolicyKind::Reuse, PolicyKind::Lc, PolicyKind::ReuseSlots] {
        let config = small(policy, 4, 4, 0);
        let mut region = region(&config);
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        (0..4).for_each(|number| stage(&mut partition, number));
        for places in 1..config.slots {
            let (mut walk, mut met) = (Walk::default(), BTreeSet::new());
            step(&partition, &mut walk, places, &mut met);
            if places == 3 {
                write_all(&mut partition);
            }
            while step(&partition, &mut walk, places, &mut met) {}
            assert_eq!(met, (0..4).map(page).collect(), "{policy:?}, {places} at a time");
        }
    }
    let config = small(PolicyKind::FaceGsc, 4, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    let pages = fill(&mut partition, &config);
    let (mut walk, mut met) = (Walk::default(), BTreeSet::new());
    step(&partition, &mut walk, 1, &mut met);
    let (ticket, dequeued) = next_dequeue(&mut partition);
    for returns in dequeued.iter().filter(|page| page.fate == Fate::SecondChance) {
        let Admission::Stage { frame, .. } = log(&mut partition).restage(ticket, returns, Lsn(1)) else {
            panic!("there is room")
        };
        partition.staged(frame);
    }
    let stay: BTreeSet<_> =
        (0..pages).map(page).filter(|page| partition.peek(*page) != Lookup::Absent).collect();
    while step(&partition, &mut walk, 1, &mut met) {}
    assert!(met.is_superset(&stay), "{stay:?} were there throughout, and {met:?} were met");
    assert!(partition.window().1.0 > pages.into(), "none got a second chance");
}

/// More pages enter at each step of a walk than it meets: it ends nevertheless.
#[test]
fn a_walk_ends_while_pages_enter() {
    let config = small(PolicyKind::FaceGr, 2, 2, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    let (mut walk, mut number) = (Walk::default(), 0);
    stage(&mut partition, 0);
    while partition.walk(&mut walk, 1, |_| ()) || number == 0 {
        let end = number + 2;
        while number < end {
            match partition.evict(page(1 + number), Lsn(1), true, true) {
                Admission::Stage { frame, .. } => {
                    partition.staged(frame);
                    number += 1;
                }
                _ => match partition.next_job().expect("there is room, or a job") {
                    Job::Write { ticket, pages, .. } => partition.written(ticket, &pages),
                    Job::Dequeue { ticket, .. } => partition.dequeued(ticket),
                    job => panic!("{job:?}"),
                },
            }
        }
        assert!(number < 8 * config.slots, "it runs after the rear");
    }
    assert!(number >= config.slots, "the ring went round");
}

/// A second chance would give a page of a long range a position that is not below the record's.
#[test]
fn a_page_that_is_being_forgotten_gets_no_second_chance() {
    let config = small(PolicyKind::FaceGsc, 4, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    fill(&mut partition, &config);
    let (ticket, pages) = next_dequeue(&mut partition);
    let returns = pages.iter().find(|page| page.fate == Fate::SecondChance).expect("they were fetched");
    log(&mut partition).forget_begin(page(0), page(1000), AFTER).expect("no record waits");
    assert_eq!(log(&mut partition).restage(ticket, returns, Lsn(1)), Admission::AlreadyThere);
    assert_eq!(partition.peek(returns.page.expect("a page")), Lookup::Absent);
    assert_eq!(
        log(&mut partition).awaits_dead(),
        Some(AFTER),
        "its slot is not released before it is dead for good"
    );
    partition.check().expect("no invariant is broken");
}

/// 1. A dirty page is flushed.
/// 2. It is forgotten.
/// 3. Its group becomes full, and power fails before what made the page dead is durable.
/// 4. So the group's last summary must name the page, too.
#[test]
fn a_flushed_page_stays_named() {
    for is_over in [true, false] {
        let config = small(PolicyKind::FaceGr, 4, 2, 0);
        let mut region = region(&config);
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        stage(&mut partition, 1);
        assert_eq!(partition.flush(), Some(Position(1)));
        let (ticket, pages) = next_write(&mut partition);
        assert_eq!(
            log(&mut partition).flush_of(ticket).map(|flush| (flush.flushed, flush.upto)),
            Some((0, 1))
        );
        assert_eq!(partition.flushed(), Position(0));
        if is_over {
            partition.written(ticket, &pages);
            assert_eq!(partition.flushed(), Position(1));
        }
        stage(&mut partition, 2);
        assert!(matches!(partition.forget(page(1), page(2), AFTER), Forget::Done { found: 2, .. }));
        stage(&mut partition, 3);
        assert_eq!(log(&mut partition).staged_pages(Position(0)), 0b101, "page 2 was not flushed");
    }
}

/// 1. A page gets a position, and its frame is being filled.
/// 2. A flush begins. There is nothing to write yet.
/// 3. The frame is filled: the writers are to be told, for nothing else may happen.
/// 4. A page that comes later is not flushed, so nobody is told of it.
#[test]
fn who_fills_a_frame_that_a_flush_waits_for_tells_the_writers() {
    for policy in [PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        let config = small(policy, 4, 2, 0);
        let mut region = region(&config);
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
        let frame = enter(&mut partition, 1);
        assert_eq!(partition.flush(), Some(Position(1)));
        assert!(partition.next_write().is_none(), "it is not filled");
        partition.staged(frame);
        assert!(partition.write_due(frame), "{policy:?}: a flush waits for it");
        let (ticket, pages) = next_write(&mut partition);
        partition.written(ticket, &pages);
        assert_eq!(partition.flushed(), Position(1));
        let later = enter(&mut partition, 2);
        partition.staged(later);
        assert!(!partition.write_due(later), "{policy:?}: no flush waits for it");
    }
}

/// Records wait and nothing else does, so each flush takes one position.
#[test]
fn flushes_leave_the_positions_of_second_chances() {
    let config = small(PolicyKind::FaceGsc, 4, 4, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    let mut number = fill(&mut partition, &config);
    while !partition.window().1.0.is_multiple_of(4) {
        stage(&mut partition, number);
        number += 1;
    }
    write_all(&mut partition);
    let mut dequeues = Vec::new();
    while let Some(job) = partition.next_job() {
        let Job::Dequeue { ticket, pages, .. } = job else { continue };
        dequeues.push((ticket, pages));
    }
    assert!(!dequeues.is_empty());
    assert!(matches!(partition.forget(page(number - 1), page(number - 1), AFTER), Forget::Done { .. }));
    log(&mut partition).dead_is_durable(AFTER);
    let mut flushes = 0;
    while partition.flush().is_some() {
        write_all(&mut partition);
        flushes += 1;
        assert!(flushes < config.slots, "positions are not without end");
    }
    for (ticket, pages) in dequeues {
        for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
            let Admission::Stage { frame, .. } = log(&mut partition).restage(ticket, page, Lsn(1)) else {
                panic!("positions are held back for second chances")
            };
            partition.staged(frame);
            write_all(&mut partition);
        }
        partition.dequeued(ticket);
    }
}

#[test]
fn slots_are_forgotten_all_or_not_at_all() {
    let config = small(PolicyKind::Lru, 2, 2, 0);
    let mut region = region(&config);
    let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("valid");
    stage(&mut partition, 1);
    write_all(&mut partition);
    stage(&mut partition, 2);
    let (ticket, pages) = next_write(&mut partition);
    assert_eq!(partition.forget(page(1), page(2), AFTER), Forget::Full);
    assert!(matches!(partition.peek(page(1)), Lookup::Flash { dirty: true, .. }));
    partition.written(ticket, &pages);
    let got = partition.forget(page(1), page(2), AFTER);
    assert_eq!(got, Forget::Done { found: 2, dirty: 2, in_dequeue: false });
}
