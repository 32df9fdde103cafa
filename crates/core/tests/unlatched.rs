//! Look-ups without the latch: what they find, and what they must not find while the index is changed.

use entresol_core::{
    Admission, Config, Fate, Forget, Job, Lookup, Lsn, PageId, Partition, PolicyKind, Position, Shape,
    SlotId, Ticket, Unlatched, WritePage, index_words, own_bytes,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use zerocopy::IntoBytes;

/// What makes forgotten pages dead.
const CAUSE: u64 = 1;

/// The two parts of a log's region.
struct Memory {
    own: Vec<u64>,
    index: Vec<AtomicU32>,
    shape: Shape,
}

impl Memory {
    fn new(config: &Config) -> Self {
        let mut own = vec![0; own_bytes(config) / 8];
        let index: Vec<_> = (0..index_words(config)).map(|_| AtomicU32::new(0)).collect();
        Partition::format_parts(own.as_mut_bytes(), &index, config).expect("a possible configuration");
        let shape = Shape::of_parts(own.as_bytes(), &index).expect("a partition");
        Self { own, index, shape }
    }

    fn small(policy: PolicyKind) -> Self {
        Self::new(&Config { proofs: true, ..Config::with_group(policy, 256, 8) })
    }

    /// The partition, and a reader of its index.
    fn both(&mut self) -> (Partition<'_>, Unlatched<'_>) {
        let partition = Partition::attach_parts(self.own.as_mut_bytes(), &self.index, &self.shape);
        (partition, self.shape.unlatched(&self.index).expect("hits need no latch"))
    }
}

/// What a page's checksum is in these tests.
fn proof(page: PageId, position: Position) -> u32 {
    (page.0 << 20 ^ position.0) as u32
}

/// A write is complete, with its summary.
fn written(partition: &mut Partition<'_>, ticket: Ticket, pages: &[WritePage], completes_group: bool) {
    let front = partition.window().0;
    let log = partition.log_mut().expect("a log");
    let recorded = completes_group.then(|| log.records(ticket, CAUSE).1);
    partition.written(ticket, pages);
    if let (Some(recorded), Some(log)) = (recorded, partition.log_mut()) {
        log.recorded(recorded);
        log.front_is_durable(front);
    }
}

/// Forgets `page`. False: there is no room for the record of it.
fn forget(partition: &mut Partition<'_>, page: PageId) -> bool {
    let is_done = matches!(partition.forget(page, page, CAUSE), Forget::Done { .. });
    partition.log_mut().expect("a log").dead_is_durable(CAUSE);
    is_done
}

/// Does all jobs, each at once.
fn settle(partition: &mut Partition<'_>) {
    while let Some(job) = partition.next_job() {
        match job {
            Job::Write { ticket, pages, completes_group, .. } => {
                written(partition, ticket, &pages, completes_group);
            }
            Job::Clean(page) => partition.cleaned(&page),
            Job::PullVictims(_) => {}
            Job::Dequeue { ticket, pages, .. } => {
                for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
                    let log = partition.log_mut().expect("a log");
                    if let Admission::Stage { frame, position } = log.restage(ticket, page, Lsn(1)) {
                        partition.staged_with(frame, proof(page.page.expect("a page"), position));
                    }
                }
                partition.dequeued(ticket);
            }
        }
    }
}

fn evict(partition: &mut Partition<'_>, page: PageId) {
    loop {
        match partition.evict(page, Lsn(1), true, true) {
            Admission::Stage { frame, position } => {
                return partition.staged_with(frame, proof(page, position));
            }
            Admission::Full => settle(partition),
            Admission::AlreadyThere | Admission::Bypass { .. } => return,
        }
    }
}

/// Evicts pages until `page`, which was evicted before, is on flash.
fn write_out(partition: &mut Partition<'_>, page: PageId) -> (SlotId, Position) {
    for other in 1000..2000 {
        if let Lookup::Flash { slot, generation: entresol_core::Generation::Exact(position), .. } =
            partition.peek(page)
        {
            return (slot, position);
        }
        evict(partition, PageId(other));
        settle(partition);
    }
    panic!("{page} is written in time");
}

#[test]
fn a_look_up_without_the_latch_finds_what_one_with_it_finds() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc] {
        let mut memory = Memory::small(policy);
        let (mut partition, index) = memory.both();
        let (mut state, mut hits) = (7_u64, 0);
        for step in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = PageId(state >> 33 & 0xff);
            match step % 7 {
                0 => _ = forget(&mut partition, page),
                1 => settle(&mut partition),
                2 => _ = partition.fetch(page),
                _ => evict(&mut partition, page),
            }
            let page = PageId(state >> 41 & 0xff);
            let hit = index.peek(page);
            match partition.peek(page) {
                found @ Lookup::Flash { slot, .. } => {
                    let hit = hit.expect("the page is on flash");
                    assert_eq!(
                        (hit.lookup(), hit.proof),
                        (found, partition.proof(slot)),
                        "{policy:?}, {step}"
                    );
                    assert!(index.is_current(&hit));
                    hits += 1;
                }
                Lookup::Absent | Lookup::Staged { .. } => assert_eq!(hit, None, "{policy:?}, step {step}"),
            }
        }
        assert!(hits > 1000, "{hits} hits under {policy:?}");
    }
}

#[test]
fn a_hit_is_not_current_after_any_change_of_its_page() {
    type Change = fn(&mut Partition<'_>, PageId);
    let newer: Change = evict;
    let forgotten: Change = |partition, page| assert!(forget(partition, page));
    let overwritten: Change = |partition, _| {
        for other in 3000..3600 {
            evict(partition, PageId(other));
        }
    };
    for (what, change) in [("newer", newer), ("forgotten", forgotten), ("overwritten", overwritten)] {
        let mut memory = Memory::small(PolicyKind::FaceGr);
        let (mut partition, index) = memory.both();
        let page = PageId(5);
        evict(&mut partition, page);
        let (slot, position) = write_out(&mut partition, page);
        let hit = index.fetch(page).expect("it is on flash");
        assert_eq!((hit.slot, hit.position), (slot, position));
        assert!(index.is_current(&hit), "before it is {what}");
        change(&mut partition, page);
        assert!(!index.is_current(&hit), "after it is {what}");
    }
}

/// 1. A page has a version on flash and a newer one in staging.
/// 2. Both are dropped in one step, the newer one first.
/// 3. A reader in between must not take the older one for the newest.
#[test]
fn the_versions_of_a_page_leave_together() {
    let mut memory = Memory::small(PolicyKind::FaceGr);
    let (mut partition, index) = memory.both();
    let page = PageId(5);
    evict(&mut partition, page);
    write_out(&mut partition, page);
    evict(&mut partition, page);
    let mut seen = Vec::new();
    let dropped = partition.log_mut().expect("a log").drop_dead_copies(page, |_, _| {
        seen.push(index.peek(page));
        true
    });
    assert_eq!((dropped, seen), (2, vec![None, None]));
    assert_eq!((partition.peek(page), index.peek(page)), (Lookup::Absent, None));
}

#[test]
fn a_reference_of_a_reader_gives_a_second_chance() {
    let mut memory = Memory::small(PolicyKind::FaceGsc);
    let (mut partition, index) = memory.both();
    for page in 0..8 {
        evict(&mut partition, PageId(page));
    }
    for page in 0..8 {
        write_out(&mut partition, PageId(page));
        assert!(!partition.is_referenced(PageId(page)));
    }
    _ = index.peek(PageId(3));
    assert!(!partition.is_referenced(PageId(3)), "a look is no fetch");
    _ = index.fetch(PageId(3));
    assert!(partition.is_referenced(PageId(3)));
    for other in 3000..3260 {
        evict(&mut partition, PageId(other));
        settle(&mut partition);
    }
    let stay = (0..8).filter(|page| partition.peek(PageId(*page)) != Lookup::Absent);
    assert_eq!(stay.collect::<Vec<_>>(), [3]);
}

#[test]
fn hits_that_change_more_than_a_bit_keep_the_latch() {
    for policy in [PolicyKind::Reuse, PolicyKind::Lru, PolicyKind::Lc, PolicyKind::S3Fifo, PolicyKind::Clock]
    {
        let memory = Memory::new(&Config::with_group(policy, 2048, 16));
        assert!(memory.shape.unlatched(&memory.index).is_none(), "{policy:?}");
    }
}

/// What readers and the writer of the race share. The "flash" has the position of the page in each slot.
struct Race {
    shape: Shape,
    own: Mutex<Vec<u64>>,
    index: Vec<AtomicU32>,
    flash: Vec<AtomicU64>,
    /// By page: the position of the newest version that was acknowledged.
    newest: Vec<AtomicU64>,
    is_over: AtomicBool,
}

impl Race {
    fn with<R>(&self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        let mut own = self.own.lock().expect("no task panics under the latch");
        step(&mut Partition::attach_parts(own.as_mut_bytes(), &self.index, &self.shape))
    }

    fn jobs(&self) {
        while let Some(job) = self.with(|partition| partition.next_job()) {
            match job {
                Job::Write { ticket, pages, completes_group, .. } => {
                    for page in pages.iter().filter(|page| page.page.is_some()) {
                        self.flash[page.slot.0 as usize].store(page.position.0, SeqCst);
                    }
                    self.with(|partition| written(partition, ticket, &pages, completes_group));
                }
                Job::Clean(page) => self.with(|partition| partition.cleaned(&page)),
                Job::PullVictims(_) => {}
                Job::Dequeue { ticket, pages, .. } => self.with(|partition| {
                    for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
                        let log = partition.log_mut().expect("a log");
                        if let Admission::Stage { frame, .. } = log.restage(ticket, page, Lsn(1)) {
                            partition.staged(frame);
                        }
                    }
                    partition.dequeued(ticket);
                }),
            }
        }
    }

    /// A new version of `page` enters. From then on no reader may be served an older one.
    fn evict(&self, page: u64) {
        loop {
            let admission = self.with(|partition| {
                let admission = partition.evict(PageId(page), Lsn(1), true, true);
                if let Admission::Stage { frame, .. } = admission {
                    partition.staged(frame);
                }
                admission
            });
            match admission {
                Admission::Stage { position, .. } => {
                    return self.newest[page as usize].store(position.0, SeqCst);
                }
                _ => self.jobs(),
            }
        }
    }

    fn write(&self, steps: u64) {
        let mut state = 3_u64;
        for step in 0..steps {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = state >> 33 & 0x3f;
            match step % 8 {
                0 => self.jobs(),
                1 => {
                    // From here on no version so far may be served.
                    let rear =
                        self.with(|partition| forget(partition, PageId(page)).then(|| partition.window().1));
                    if let Some(rear) = rear {
                        self.newest[page as usize].store(rear.0, SeqCst);
                    }
                }
                _ => self.evict(page),
            }
        }
        self.is_over.store(true, SeqCst);
    }

    /// Hits that are current are as new as was acknowledged before. Returns their number.
    fn read(&self, seed: u64) -> u64 {
        let index = self.shape.unlatched(&self.index).expect("hits need no latch");
        let (mut state, mut hits) = (seed, 0);
        while !self.is_over.load(SeqCst) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = state >> 33 & 0x3f;
            let least = self.newest[page as usize].load(SeqCst);
            let Some(hit) = index.fetch(PageId(page)) else { continue };
            let found = self.flash[hit.slot.0 as usize].load(SeqCst);
            if !index.is_current(&hit) {
                continue;
            }
            assert!(hit.position.0 >= least, "page {page}: {hit:?}, but {least} was acknowledged");
            assert_eq!(found, hit.position.0, "page {page}: {hit:?}");
            hits += 1;
        }
        hits
    }
}

/// A page is the newest version, and where the reader has found it, in whatever moment it looks.
#[test]
fn readers_beside_a_writer_see_no_older_version() {
    let Memory { own, index, shape } = Memory::small(PolicyKind::FaceGsc);
    let slots = shape.config().slots;
    let race = Race {
        shape,
        own: Mutex::new(own),
        index,
        flash: (0..slots).map(|_| AtomicU64::new(u64::MAX)).collect(),
        newest: (0..64).map(|_| AtomicU64::new(0)).collect(),
        is_over: AtomicBool::new(false),
    };
    let hits = thread::scope(|scope| {
        let readers: Vec<_> = (1..=2)
            .map(|seed| {
                scope.spawn({
                    let race = &race;
                    move || race.read(seed)
                })
            })
            .collect();
        race.write(400_000);
        readers.into_iter().map(|reader| reader.join().expect("it sees no older version")).sum::<u64>()
    });
    assert!(hits > 0, "no read hit");
    race.with(|partition| partition.check()).expect("the index is whole");
}
