//! What the children do: the back, and fronts that use the cache until they are killed.

use super::journal::{FRONTS, Journal, Outcome, PAGES, is_forgetting};
use super::world::World;
use entresol_core::{Lsn, PageId};
use entresol_engine::{Deletes, FlashTier, Handed, Layer, PageSet, SharedFront, TierError, Victim};
use entresol_format::{PageFormat, page};
use entresol_runtime::random;
use entresol_shm::atomic::Ordering::SeqCst;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Longest time in which the cache is expected to be there again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Page `id` in version `number`.
pub fn build(id: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let head = page::header_mut(&mut bytes);
    head.page.set(id);
    head.lsn.set(number);
    bytes[32..].chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&number.to_le_bytes()));
    bytes
}

/// The version in a page that proves itself. `None`: it is torn.
pub fn version(id: u64, bytes: &[u8]) -> Option<u64> {
    page::verify(bytes, PageId(id), None).ok()?;
    let number = page::lsn(bytes).0;
    bytes[32..].chunks_exact(8).all(|chunk| chunk == number.to_le_bytes()).then_some(number)
}

/// Serves the cache, and opens it again whenever it was given up.
pub fn back(world: &World) {
    let journal = Journal::attach(&world.path("journal"));
    loop {
        let (flash, home) = world.devices();
        let opened = FlashTier::open_shared(flash, home, world.options.clone(), &world.sharing);
        let (tier, _) = opened.unwrap_or_else(|error| panic!("the cache cannot be opened: {error}"));
        journal.board.opens.fetch_add(1, SeqCst);
        while !tier.is_given_up() {
            journal.board.attached.store(tier.fronts() as u64, SeqCst);
            journal.board.destaged.store(tier.metrics().disk_writes, SeqCst);
            if journal.board.stop.load(SeqCst) != 0 {
                match tier.close() {
                    Ok(()) => return,
                    // A front that was killed last had died with a latch or an unfilled frame.
                    Err(TierError::Gone(_)) => break,
                    Err(error) => panic!("the cache cannot be closed: {error}"),
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        tier.abandon();
    }
}

/// A front of the cache that is served now.
pub fn attach(world: &World) -> SharedFront {
    let began = Instant::now();
    loop {
        match world.attach() {
            Ok(front) => return front,
            Err(error) => assert!(began.elapsed() < PATIENCE, "cannot attach: {error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One who looks at pages, and judges what is found.
pub struct Reader<'a> {
    pub journal: &'a Journal,
    pub disk: File,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub fn new(world: &World, journal: &'a Journal) -> Self {
        let disk = File::options().read(true).write(true).open(world.path("disk")).unwrap();
        Self { journal, disk, buffer: vec![0; PAGE] }
    }

    /// Fetches `page`, from disk if it is not in the cache.
    ///
    /// # Panics
    /// If what is found is not legal.
    pub fn read(&mut self, front: &SharedFront, page: u64) -> Result<(), TierError> {
        let floor = self.journal.floor(page, front.epoch());
        let found = match front.fetch(PageId(page), &mut self.buffer)? {
            Some(_) => {
                self.journal.board.hits.fetch_add(1, SeqCst);
                Outcome::Cached(version(page, &self.buffer).expect("nothing unproved is served"))
            }
            None => Outcome::OnDisk(self.read_disk(page)),
        };
        self.journal.board.reads.fetch_add(1, SeqCst);
        self.journal.judge(floor, front.epoch(), found).unwrap_or_else(|fault| panic!("VIOLATION: {fault}"));
        Ok(())
    }

    /// The version on disk. The back may be writing it just now.
    fn read_disk(&mut self, page: u64) -> u64 {
        for _ in 0..1000 {
            self.disk.read_exact_at(&mut self.buffer, World::place(page)).unwrap();
            if let Some(found) = version(page, &self.buffer) {
                return found;
            }
            std::thread::yield_now();
        }
        panic!("page {page} is torn on disk");
    }

    /// Reads all pages, through fronts that are attached anew when the cache is opened again.
    pub fn read_all(&mut self, world: &World, front: &mut SharedFront) {
        let mut page = 0;
        while page < PAGES {
            match self.read(front, page) {
                Ok(()) => page += 1,
                Err(TierError::Gone(_)) => {
                    *front = attach(world);
                    page = 0;
                }
                Err(error) => panic!("page {page}: {error}"),
            }
        }
    }
}

/// Uses the cache until it is killed.
pub fn front(world: &World, id: u64) {
    let journal = Journal::attach(&world.path("journal"));
    let mut reader = Reader::new(world, &journal);
    loop {
        let front = attach(world);
        loop {
            match step(&front, &mut reader, id) {
                Ok(()) => {}
                Err(TierError::Gone(_)) => break,
                Err(error) => panic!("front {id}: {error}"),
            }
        }
    }
}

/// Writes a page to disk past the cache, durably.
fn write_around(front: &SharedFront, disk: &File, page: u64, number: u64) -> Result<(), TierError> {
    let mut bytes = build(page, number);
    PageFormat::Native.seal_for_disk(&mut bytes, PageId(page));
    front.write_around(PageId(page), || {
        disk.write_all_at(&bytes, World::place(page)).expect("a file can be written");
        disk.sync_data().expect("a file can be synced");
        Ok(())
    })
}

/// A change of an own page, a look at any page, and now and then a flush.
fn step(front: &SharedFront, reader: &mut Reader<'_>, id: u64) -> Result<(), TierError> {
    let (journal, epoch) = (reader.journal, front.epoch());
    reader.read(front, random() % PAGES)?;
    let page = random() % (PAGES / FRONTS) * FRONTS + id;
    let number = journal.begin(page);
    if is_forgetting(page, number) {
        front.forget(PageId(page), PageId(page))?;
        journal.board.forgotten.fetch_add(1, SeqCst);
    } else if random().is_multiple_of(16) {
        journal.around_begins(page, number, epoch);
        write_around(front, &reader.disk, page, number)?;
        journal.around_ends(page, number, epoch);
        journal.board.arounds.fetch_add(1, SeqCst);
    } else {
        let victim = Victim { page: PageId(page), lsn: Lsn(number), dirty: true, fdirty: true };
        let handed = front.evict(victim, &build(page, number))?;
        assert!(matches!(handed, Handed::Taken(_)), "{handed:?}");
        journal.board.evictions.fetch_add(1, SeqCst);
    }
    journal.take(page, number, epoch);
    let own = || (0..PAGES / FRONTS).map(|at| at * FRONTS + id);
    let counter = match random() % 256 {
        0 => &journal.board.checkpoints,
        1..8 => &journal.board.flushes,
        8 => {
            let first = random() % PAGES;
            front.destage(&PageSet::Range(PageId(first), PageId(first + random() % 64)))?;
            journal.board.destages.fetch_add(1, SeqCst);
            return Ok(());
        }
        _ => return Ok(()),
    };
    let taken = journal.taken(own(), epoch);
    let is_flush = std::ptr::eq(counter, &journal.board.flushes);
    if is_flush {
        front.flush()?
    } else {
        front.checkpoint()?
    }
    journal.flushed(&taken);
    counter.fetch_add(1, SeqCst);
    Ok(())
}
