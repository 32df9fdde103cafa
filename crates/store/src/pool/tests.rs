//! The pool over a layer that records its calls.

use super::Pool;
use crate::wal::{LOG_START, Wal};
use crate::{Options, PageNumber, Replacement};
use entresol_core::{Lsn, PageId};
use entresol_device::MemoryDevice;
use entresol_engine::{
    Binding, Evicted, Fetched, Layer, Session, Source, TierError, TierMetrics, Upstream, Uuid, Victim,
};
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{sleep, spawn};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

#[derive(Default)]
struct Notes {
    fetched: Mutex<Vec<u32>>,
    evicted: Mutex<Vec<(u32, bool)>>,
    upstream: OnceLock<Weak<dyn Upstream>>,
    /// The next fetch panics.
    panics: AtomicBool,
}

impl Layer for Notes {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.fetched.lock().push(page.number());
        assert!(!self.panics.swap(false, SeqCst), "injected");
        sleep(Duration::from_millis(1));
        buffer.fill(page.number() as u8);
        Ok(Fetched { source: Source::Flash, dirty: page.number() % 2 == 1, fdirty: false })
    }
    fn evict(&self, victim: Victim, _: &[u8]) -> Result<Evicted, TierError> {
        sleep(Duration::from_millis(1));
        self.evicted.lock().push((victim.page.number(), victim.dirty));
        Ok(Evicted { dirty: victim.dirty })
    }
    fn try_evict(&self, victim: Victim, _: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.evicted.lock().push((victim.page.number(), victim.dirty));
        Ok(Some(Evicted { dirty: victim.dirty }))
    }
    fn checkpoint(&self) -> Result<(), TierError> {
        Ok(())
    }
    fn attach(&self, upstream: Weak<dyn Upstream>) {
        assert!(self.upstream.set(upstream).is_ok());
    }
    fn capacity_pages(&self) -> u64 {
        u64::from(u32::MAX)
    }
    fn binding(&self) -> Result<Binding, TierError> {
        Ok(Binding { disk: Uuid::NIL, log: Uuid::NIL, session: Session::default() })
    }
    fn bind_log(&self, _: Uuid, _: Session) -> Result<(), TierError> {
        Ok(())
    }
    fn metrics(&self) -> TierMetrics {
        TierMetrics::default()
    }
    fn close(&self) -> Result<(), TierError> {
        Ok(())
    }
}

const FRAMES: u32 = 64;

fn simulate(replacement: Replacement, main: impl FnOnce(Arc<Pool>, Arc<Notes>) + Send) {
    Simulation::new(SimConfig::default())
        .run(move || {
            let layer = Arc::new(Notes::default());
            let options = Options { frames: FRAMES as usize, replacement, ..Options::default() };
            main(Pool::new(layer.clone(), &options), layer)
        })
        .unwrap();
}

fn visit(pool: &Pool, page: u32) {
    let read = pool.fix_shared(PageNumber(page)).unwrap();
    assert!(read.iter().all(|byte| *byte == page as u8));
}

#[test]
fn many_who_want_a_page_wait_for_one_fetch() {
    simulate(Replacement::Lru, |pool, layer| {
        let readers: Vec<_> = (0..20)
            .map(|_| {
                let pool = pool.clone();
                spawn("reader", move || visit(&pool, 7))
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join());
        assert_eq!(*layer.fetched.lock(), [7]);
        assert_eq!(pool.access_counts(), (20, 19));
        assert_eq!(pool.fetch_counts(), (1, 1));
    });
}

/// The former content of the frame must not be served as the page.
#[test]
fn a_fetch_that_panics_leaves_no_page() {
    let layer = Arc::new(Notes::default());
    let options = Options { frames: FRAMES as usize, ..Options::default() };
    let pool = Pool::new(layer.clone(), &options);
    (0..FRAMES).for_each(|page| visit(&pool, page));
    layer.panics.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| visit(&pool, 100))).is_err());
    visit(&pool, 100);
    assert_eq!(layer.fetched.lock().iter().filter(|page| **page == 100).count(), 2);
    (0..2 * FRAMES).for_each(|page| visit(&pool, page));
}

#[test]
fn a_client_waits_while_every_frame_is_pinned() {
    simulate(Replacement::Lru, |pool, layer| {
        let mut pins: Vec<_> = (0..FRAMES).map(|page| pool.pin(PageNumber(page)).unwrap()).collect();
        let other = {
            let pool = pool.clone();
            spawn("starved", move || visit(&pool, 100))
        };
        sleep(Duration::from_millis(50));
        assert!(layer.evicted.lock().is_empty() && !layer.fetched.lock().contains(&100));
        pins.remove(33);
        other.join();
        assert_eq!(*layer.evicted.lock(), [(33, true)], "dirty below, as the layer said when it was fetched");
        assert!(layer.fetched.lock().contains(&100));
    });
}

#[test]
fn cold_pages_go_first_and_hot_ones_stay() {
    for replacement in [Replacement::Lru, Replacement::Clock] {
        simulate(replacement, |pool, layer| {
            for page in 0..1000 {
                visit(&pool, page);
                visit(&pool, 0);
                visit(&pool, 1);
            }
            let evicted: Vec<u32> = layer.evicted.lock().iter().map(|(page, _)| *page).collect();
            let hot = evicted.iter().filter(|page| **page < 2).count();
            assert_eq!(evicted.len() - hot, 1000 - FRAMES as usize);
            match replacement {
                Replacement::Lru => assert!(hot == 0 && evicted.is_sorted()),
                // In its first round, the hand finds every page referenced.
                Replacement::Clock => assert!(hot <= 2, "{hot} evictions of hot pages"),
            }
        });
    }
}

#[test]
fn pulled_victims_leave_free_frames_but_not_too_many() {
    simulate(Replacement::Lru, |pool, layer| {
        for page in 0..FRAMES {
            visit(&pool, page);
        }
        let held = pool.pin(PageNumber(1)).unwrap();
        let upstream = layer.upstream.get().unwrap().upgrade().unwrap();
        assert_eq!(upstream.pull_victims(3), 3);
        let pages = |evicted: &[(u32, bool)]| evicted.iter().map(|(page, _)| *page).collect::<Vec<_>>();
        assert_eq!(pages(&layer.evicted.lock()), [0, 2, 3], "the coldest that are not pinned");
        assert_eq!(upstream.pull_victims(1000), FRAMES as usize / 8 - 3);
        drop(held);
        let before = layer.evicted.lock().len();
        for page in 200..200 + FRAMES / 8 {
            visit(&pool, page);
        }
        assert_eq!(layer.evicted.lock().len(), before, "fetches take the free frames first");
    });
}

#[test]
fn a_destaged_page_is_clean_unless_it_has_changed() {
    simulate(Replacement::Lru, |pool, layer| {
        let upstream = layer.upstream.get().unwrap().upgrade().unwrap();
        let dirty = |page| {
            let pin = pool.pin(PageNumber(page)).unwrap();
            (pin.frame().state.get().dirty, pin.frame().state.get().fdirty)
        };
        for page in [1, 3] {
            let mut write = pool.fix_exclusive(PageNumber(page)).unwrap();
            write.change()[100] = 1;
            write.changed(Lsn(500));
        }
        assert_eq!(dirty(1), (true, true));
        let mut buffer = vec![0; 4096];
        for frame in 0..FRAMES as usize {
            pool.clean_frame(frame, &mut buffer).unwrap();
        }
        assert_eq!((dirty(1), dirty(3)), ((true, false), (true, false)));
        upstream.destaged(PageNumber(1).id(), Lsn(499));
        assert_eq!(dirty(1), (true, false), "an older version was destaged");
        upstream.destaged(PageNumber(1).id(), Lsn(500));
        assert_eq!(dirty(1), (false, false));
        // A change that is not yet logged: the LSN is still the old one.
        let mut write = pool.fix_exclusive(PageNumber(3)).unwrap();
        write.change()[100] = 2;
        upstream.destaged(PageNumber(3).id(), Lsn(500));
        assert_eq!(dirty(3), (true, true));
        write.changed(Lsn(600));
        drop(write);
        assert_eq!(dirty(3), (true, true));
    });
}

#[test]
fn a_page_without_content_is_never_evicted() {
    simulate(Replacement::Lru, |pool, layer| {
        drop(pool.fix_new(PageNumber(9)).unwrap());
        assert!(pool.try_pin(PageNumber(9)).is_none());
        for page in 100..100 + 2 * FRAMES {
            visit(&pool, page);
        }
        assert_eq!(layer.evicted.lock().len() as u32, FRAMES, "all frames are in use");
        assert!(layer.evicted.lock().iter().all(|(page, _)| *page != 9));
        visit(&pool, 9);
    });
}

/// Redo may begin again, with an older version of a page that it has evicted: which is written to disk over
/// the newer one. The layer's reports of these versions after redo are not noted.
#[test]
fn no_version_is_noted_that_redo_has_made() {
    simulate(Replacement::Lru, |pool, layer| {
        let upstream = layer.upstream.get().unwrap().upgrade().unwrap();
        let log = Arc::new(MemoryDevice::new("log", LOG_START + (1 << 20)));
        let wal = Arc::new(Wal::create(log, 4096, Uuid::NIL, |_, _| Ok(())).unwrap());
        let found = wal.tail().end();
        pool.wal_rule().set_log_end(found);
        upstream.durable(&[(PageId(7), found)], None);
        pool.wal_rule().set_wal(wal.clone());
        upstream.durable(&[(PageId(7), Lsn(found.0 - 8))], None);
        assert_eq!(wal.tail().end(), found, "a note is in the log");
        upstream.durable(&[(PageId(7), Lsn(found.0 - 8)), (PageId(8), found)], None);
        let of_one = wal.tail().end().0 - found.0;
        assert!(of_one > 0, "the version of this session is noted");
        upstream.durable(&[(PageId(8), found), (PageId(9), found)], None);
        assert_eq!(wal.tail().end().0 - found.0, 2 * of_one + 16, "a note of two pages has 16 bytes more");
    });
}
