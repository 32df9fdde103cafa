//! Slots that survive a crash, in sets: a full set has free slots ahead, so that each batch of pages that
//! enter takes as many out, and needs no other batch for that.

use entresol_core::{
    Admission, Config, Job, Lsn, PageId, Partition, PolicyKind, Position, SlotId, region_bytes,
};
use zerocopy::IntoBytes;

const GROUP: u32 = 16;
const SETS: u32 = 6;
const SET_SLOTS: u32 = 64;

struct Cache(Vec<u64>);

impl Cache {
    fn new() -> Self {
        let (slots, set_slots) = (SETS * SET_SLOTS, SET_SLOTS);
        let config = Config {
            group_pages: GROUP,
            set_slots,
            keeps_slots: true,
            ..Config::new(PolicyKind::Flashcache, slots)
        };
        let mut region = vec![0; region_bytes(&config) / 8];
        Partition::format(region.as_mut_bytes(), &config).expect("valid");
        Self(region)
    }

    fn with<R>(&mut self, step: impl FnOnce(&mut Partition<'_>) -> R) -> R {
        let mut partition = Partition::attach(self.0.as_mut_bytes()).expect("formatted");
        let done = step(&mut partition);
        partition.check().expect("no invariant is broken");
        done
    }

    /// Pages enter, `dirty` or clean.
    fn enter(&mut self, pages: impl Iterator<Item = u64>, dirty: bool) {
        for page in pages {
            let admission = self.with(|partition| partition.evict(PageId(page), Lsn(1), dirty, true));
            let Admission::Stage { frame, .. } = admission else { panic!("{admission:?} for {page}") };
            self.with(|partition| partition.staged(frame));
        }
    }

    /// The next batch, if one is due: its pages, and how many slots it calls empty. It is durable after this.
    fn batch(&mut self) -> Option<(usize, usize)> {
        self.with(|partition| match partition.next_write() {
            Some(Job::Write { ticket, pages, .. }) => {
                let emptied = partition.slots().expect("slots").emptied(ticket).count();
                partition.written(ticket, &pages);
                Some((pages.len(), emptied))
            }
            None => None,
            Some(other) => panic!("{other:?}"),
        })
    }

    /// Starts a dequeue, and ends it: whether there was one.
    fn dequeue(&mut self) -> bool {
        let job = self.with(|partition| partition.next_background());
        match job {
            Some(Job::Dequeue { ticket, .. }) => self.with(|partition| partition.dequeued(ticket)),
            Some(Job::Clean(page)) => self.with(|partition| partition.cleaned(&page)),
            None => return false,
            Some(other) => panic!("{other:?}"),
        }
        true
    }
}

/// Group after group of new pages. Returns the pages and the emptied slots of the batches.
fn run(cache: &mut Cache, groups: std::ops::Range<u64>, dirty: bool) -> Vec<(usize, usize)> {
    let mut batches = Vec::new();
    for group in groups {
        // One run of consecutive pages is of one set.
        let first = group * u64::from(GROUP);
        cache.enter(first..first + u64::from(GROUP), dirty);
        while let Some(batch) = cache.batch().or_else(|| if cache.dequeue() { cache.batch() } else { None }) {
            batches.push(batch);
        }
    }
    batches
}

#[test]
fn a_batch_of_a_full_cache_calls_as_many_slots_empty_as_it_fills() {
    let mut cache = Cache::new();
    run(&mut cache, 0..96, false);
    let batches = run(&mut cache, 96..160, false);
    let group = GROUP as usize;
    assert_eq!(batches, vec![(group, group); 64], "one batch a group");
}

/// With few clean pages at their fronts, sets empty their slots one by one. All pages are written.
#[test]
fn a_full_cache_of_dirty_pages_makes_room() {
    let mut cache = Cache::new();
    let batches = run(&mut cache, 0..128, true);
    let staged = cache.with(|partition| partition.occupancy().staged) as usize;
    let written: usize = batches.iter().map(|(pages, _)| pages).sum();
    assert_eq!(written + staged, 128 * GROUP as usize);
    assert!(staged < 2 * GROUP as usize, "{staged} pages wait");
}

#[test]
fn a_restored_page_must_be_in_its_set() {
    let mut cache = Cache::new();
    let fits = cache.with(|partition| {
        let slots = partition.slots_mut().expect("slots");
        slots.restore_slots_begin(Position(0));
        // Pages of one run.
        let restored = (0..SETS).filter(|set| {
            let (slot, page) = (SlotId(set * SET_SLOTS), PageId(u64::from(*set)));
            slots.restore_slot(slot, page, true, Position(0))
        });
        let fits = restored.count();
        slots.restore_slots_end();
        fits
    });
    assert_eq!(fits, 1, "the other sets refuse theirs");
}
