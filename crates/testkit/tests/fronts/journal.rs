//! The oracle's memory: a segment of its own, which no killed process can take along. It says of each page
//! what its owner has begun, what the cache has taken, what is durable and what was served.
//!
//! Changes of a page are numbered. A change is an eviction or a request to forget, as its number says
//! ([`is_forgetting`]); number 1 is the page that was loaded to disk.

use entresol_shm::atomic::{AtomicU64, Ordering::SeqCst};
use entresol_shm::{Plan, Segment, Shared, shared_struct};
use std::path::Path;

/// Pages in all. Each front owns every fourth of the first [`FRONTS`] times as many.
pub const PAGES: u64 = 600;
/// Processes that are fronts.
pub const FRONTS: u64 = 4;

shared_struct! {
    /// What is known of a page. Words with an epoch have it in their upper half: what was taken or served
    /// counts until the cache is opened again.
    pub struct Known {
        /// The last change that its owner has begun.
        begun: AtomicU64,
        /// The last change that the cache has taken, with the epoch.
        taken: AtomicU64,
        /// The last change that was durable.
        durable: AtomicU64,
        /// The newest version that a front was served, with the epoch.
        served: AtomicU64,
        /// The last change that went past the cache, with the epoch, and the last of these that was done.
        /// While one is under way, the cache has no copy and the disk an older one.
        around: AtomicU64,
        around_done: AtomicU64,
    }

    /// What the processes tell each other, and count.
    pub struct Board {
        /// The back is to close the cache and end.
        pub stop: AtomicU64,
        /// Opens of the cache so far.
        pub opens: AtomicU64,
        /// Fronts that the back knows.
        pub attached: AtomicU64,
        pub reads: AtomicU64,
        pub hits: AtomicU64,
        pub evictions: AtomicU64,
        /// Writes past the cache.
        pub arounds: AtomicU64,
        pub forgotten: AtomicU64,
        pub flushes: AtomicU64,
        pub checkpoints: AtomicU64,
        pub destages: AtomicU64,
        pub destaged: AtomicU64,
    }
}

/// See the module's header.
pub struct Journal {
    pages: Shared<[Known]>,
    pub board: Shared<Board>,
}

/// What may be found of a page by a fetch that begins now.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    page: u64,
    least: u64,
    durable: u64,
    around_done: u64,
}

/// What a fetch has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This version in the cache.
    Cached(u64),
    /// This version on disk, and none in the cache.
    OnDisk(u64),
}

/// Whether change `number` of a page is that it is forgotten.
pub fn is_forgetting(page: u64, number: u64) -> bool {
    let mixed = (page << 20 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    number > 1 && mixed.is_multiple_of(8)
}

fn of_epoch(word: u64, epoch: u64) -> u64 {
    if word >> 32 == epoch { word & u64::from(u32::MAX) } else { 0 }
}

impl Journal {
    fn plan() -> (Plan, impl Fn(&Segment) -> Self) {
        let mut plan = Plan::new(1);
        let pages = plan.slice::<Known>("pages", PAGES as usize);
        let board = plan.part::<Board>("board");
        let of = move |segment: &Segment| Self { pages: segment.slice(&pages), board: segment.part(&board) };
        (plan, of)
    }

    pub fn create(path: &Path) -> Self {
        let (plan, of) = Self::plan();
        let journal = of(&Segment::create(path, &plan).unwrap().publish().unwrap());
        journal.pages.iter().for_each(|page| {
            page.begun.store(1, SeqCst);
            page.durable.store(1, SeqCst);
        });
        journal
    }

    pub fn attach(path: &Path) -> Self {
        let (plan, of) = Self::plan();
        of(&Segment::attach(path, &plan).unwrap())
    }

    fn page(&self, page: u64) -> &Known {
        &self.pages[page as usize]
    }

    /// The number of the next change of `page`, which begins.
    pub fn begin(&self, page: u64) -> u64 {
        self.page(page).begun.fetch_add(1, SeqCst) + 1
    }

    /// The cache of `epoch` has taken this change.
    pub fn take(&self, page: u64, number: u64, epoch: u64) {
        self.page(page).taken.store(epoch << 32 | number, SeqCst);
    }

    /// This change goes past the cache of `epoch`.
    pub fn around_begins(&self, page: u64, number: u64, epoch: u64) {
        self.page(page).around.store(epoch << 32 | number, SeqCst);
    }

    /// The disk has it.
    pub fn around_ends(&self, page: u64, number: u64, epoch: u64) {
        self.page(page).around_done.store(epoch << 32 | number, SeqCst);
    }

    /// What was taken of these pages in `epoch`: durable, if a flush that begins now succeeds.
    pub fn taken(&self, pages: impl Iterator<Item = u64>, epoch: u64) -> Vec<(u64, u64)> {
        pages.map(|page| (page, of_epoch(self.page(page).taken.load(SeqCst), epoch))).collect()
    }

    /// These changes are durable.
    pub fn flushed(&self, taken: &[(u64, u64)]) {
        for (page, number) in taken {
            self.page(*page).durable.fetch_max(*number, SeqCst);
        }
    }

    /// To be asked before a fetch of `page` begins in `epoch`.
    pub fn floor(&self, page: u64, epoch: u64) -> Floor {
        let known = self.page(page);
        let durable = known.durable.load(SeqCst);
        let of_now = [&known.taken, &known.served].map(|word| of_epoch(word.load(SeqCst), epoch));
        let around_done = of_epoch(known.around_done.load(SeqCst), epoch);
        Floor { page, least: durable.max(of_now[0]).max(of_now[1]), durable, around_done }
    }

    /// Judges what a fetch has found, which began with `floor` in `epoch`.
    pub fn judge(&self, floor: Floor, epoch: u64, found: Outcome) -> Result<(), String> {
        let Floor { page, least, durable, around_done } = floor;
        let is_around = of_epoch(self.page(page).around.load(SeqCst), epoch) > around_done;
        let newest = self.page(page).begun.load(SeqCst);
        let was_forgotten = || (least..=newest).any(|number| is_forgetting(page, number));
        let is_legal = match found {
            Outcome::Cached(version) => (least..=newest).contains(&version) && !is_forgetting(page, version),
            Outcome::OnDisk(_) if is_around || was_forgotten() => return Ok(()),
            Outcome::OnDisk(version) => (least..=newest).contains(&version),
        };
        if !is_legal {
            return Err(format!(
                "page {page} in epoch {epoch}: found {found:?}, expected {least} to {newest} (durable {durable}; the first is \
                 {} request to forget)",
                if is_forgetting(page, least) { "a" } else { "no" }
            ));
        }
        let (Outcome::Cached(version) | Outcome::OnDisk(version)) = found;
        self.page(page).served.fetch_max(epoch << 32 | version, SeqCst);
        Ok(())
    }
}

#[test]
fn the_oracle_notices_each_kind_of_wrong_answer() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::create(&directory.path().join("journal"));
    let page = 17;
    let judge = |epoch, found| journal.judge(journal.floor(page, epoch), epoch, found).is_ok();
    assert!(judge(1, Outcome::OnDisk(1)) && !judge(1, Outcome::Cached(2)), "nothing was begun");
    let next = |epoch| {
        let number = journal.begin(page);
        journal.take(page, number, epoch);
        number
    };
    let mut number = next(1);
    while is_forgetting(page, number) || is_forgetting(page, number + 1) {
        number = next(1);
    }
    assert!(judge(1, Outcome::Cached(number)), "the newest");
    assert!(!judge(1, Outcome::Cached(number - 1)) && !judge(1, Outcome::OnDisk(number - 1)), "was taken");
    assert!(judge(2, Outcome::OnDisk(1)), "the cache was opened again, and nothing was durable");
    assert!(judge(2, Outcome::Cached(number)) && !judge(2, Outcome::OnDisk(1)), "it was served since");
    journal.flushed(&journal.taken([page].into_iter(), 1));
    assert!(!judge(3, Outcome::Cached(1)) && judge(3, Outcome::Cached(number)), "it is durable");
    journal.begin(page);
    assert!(judge(3, Outcome::Cached(number)) && judge(3, Outcome::Cached(number + 1)), "begun, not taken");
    assert!(!judge(3, Outcome::Cached(number)), "the newer one was served");
    journal.around_begins(page, number + 1, 3);
    assert!(
        judge(3, Outcome::OnDisk(1)) && !judge(3, Outcome::Cached(number)),
        "its write goes past the cache"
    );
    journal.around_ends(page, number + 1, 3);
    assert!(!judge(3, Outcome::OnDisk(1)), "the disk has it");
    while !is_forgetting(page, number) {
        number = next(3);
    }
    assert!(!judge(3, Outcome::Cached(number)) && !judge(3, Outcome::Cached(number - 1)), "it is forgotten");
    assert!(judge(3, Outcome::OnDisk(1)), "what the disk has does not matter then");
}
