//! A log device and a page layer in memory that forget, at a crash, what was not made durable.
#![allow(dead_code)]

pub mod bank;
pub mod devices;
pub mod ledger;
pub mod shaped;

use entresol_core::{Lsn, PageId};
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use entresol_engine::{
    Binding, Evicted, Fetched, Layer, Session, Source, TierError, TierMetrics, Upstream, Uuid, Victim,
};
use entresol_format::page;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_store::{Options, Parts, Store, Table};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// A small generator for tests.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Loads `rows` rows of 200 zeros, numbered from 0 on by their keys, and makes a checkpoint.
pub fn load_zeros(store: &Store, table: Table, rows: u32) {
    let mut row = 0u32;
    let mut next = |key: &mut Vec<u8>, value: &mut Vec<u8>| {
        key.extend_from_slice(&row.to_be_bytes());
        value.extend_from_slice(&[0; 200]);
        row += 1;
        row <= rows
    };
    store.bulk_load(table, 0.9, &mut next).unwrap();
    store.checkpoint().unwrap();
}

/// Counts operations of log and layer; halts the simulation at one of them.
#[derive(Default)]
pub struct Fuse {
    operations: AtomicU64,
    halt_at: AtomicU64,
}

impl Fuse {
    pub fn halt_at(&self, operation: u64) {
        self.operations.store(0, SeqCst);
        self.halt_at.store(operation, SeqCst);
    }
    pub fn operations(&self) -> u64 {
        self.operations.load(SeqCst)
    }
    fn burn(&self) {
        let operation = self.operations.fetch_add(1, SeqCst) + 1;
        if operation == self.halt_at.load(SeqCst) {
            entresol_runtime::sim::halt();
        }
    }
}

fn pause(nanos: u64) {
    if entresol_runtime::is_simulated() {
        entresol_runtime::sleep(Duration::from_nanos(1 + entresol_runtime::random() % nanos));
    }
}

/// A device that takes a random time, so that clients overlap.
pub struct Slow<D> {
    pub device: D,
    pub nanos: u64,
}

impl<D: Device> Device for Slow<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        pause(self.nanos);
        self.device.run(batch)?;
        pause(self.nanos);
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        pause(self.nanos);
        self.device.sync()?;
        pause(self.nanos);
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
}

const SECTOR: usize = 512;

struct LogState {
    durable: Vec<u8>,
    /// What was written since the last sync, in order.
    unsynced: BTreeMap<u64, Vec<Vec<u8>>>,
}

/// A log device. A crash keeps a random one of the old and the written contents of each unsynced sector.
pub struct TestLog {
    state: Mutex<LogState>,
    fuse: Arc<Fuse>,
    latency_nanos: u64,
    syncs: AtomicU64,
}

impl TestLog {
    pub fn new(bytes: usize, latency_nanos: u64, fuse: Arc<Fuse>) -> Arc<TestLog> {
        Arc::new(TestLog {
            state: Mutex::new(LogState { durable: vec![0; bytes], unsynced: BTreeMap::new() }),
            fuse,
            latency_nanos,
            syncs: AtomicU64::new(0),
        })
    }

    pub fn after_crash(&self, rng: &mut Rng, fuse: Arc<Fuse>) -> Arc<TestLog> {
        let state = self.state.lock().unwrap();
        let mut durable = state.durable.clone();
        for (sector, versions) in &state.unsynced {
            let pick = rng.below(versions.len() as u64 + 1) as usize;
            if let Some(version) = pick.checked_sub(1).map(|index| &versions[index]) {
                let at = *sector as usize * SECTOR;
                durable[at..at + SECTOR].copy_from_slice(version);
            }
        }
        Arc::new(TestLog {
            state: Mutex::new(LogState { durable, unsynced: BTreeMap::new() }),
            fuse,
            latency_nanos: self.latency_nanos,
            syncs: AtomicU64::new(0),
        })
    }

    /// Whether the sector in which the record at `lsn` begins is durable. Always true for small logs, which
    /// wrap.
    fn is_durable(&self, lsn: Lsn) -> bool {
        let state = self.state.lock().unwrap();
        if state.durable.len() < 4 << 20 {
            return true;
        }
        let sector = (8192 + lsn.0) / SECTOR as u64;
        !state.unsynced.contains_key(&sector)
            && state.durable[sector as usize * SECTOR..][..SECTOR].iter().any(|byte| *byte != 0)
    }
}

impl Device for TestLog {
    fn geometry(&self) -> Geometry {
        Geometry::new(self.state.lock().unwrap().durable.len() as u64, SECTOR as u32)
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        self.fuse.burn();
        for io in batch.iter_mut() {
            let mut state = self.state.lock().unwrap();
            match io {
                Io::Read { offset, buffer } => {
                    assert!(*offset % SECTOR as u64 == 0 && buffer.len() % SECTOR == 0);
                    let at = *offset as usize;
                    buffer.copy_from_slice(&state.durable[at..at + buffer.len()]);
                    for (index, chunk) in buffer.chunks_mut(SECTOR).enumerate() {
                        if let Some(versions) = state.unsynced.get(&(*offset / SECTOR as u64 + index as u64))
                        {
                            chunk.copy_from_slice(versions.last().unwrap());
                        }
                    }
                }
                Io::Write { offset, data } => {
                    assert!(*offset % SECTOR as u64 == 0 && data.len() % SECTOR == 0);
                    assert!(*offset as usize + data.len() <= state.durable.len());
                    for (index, chunk) in data.chunks(SECTOR).enumerate() {
                        state
                            .unsynced
                            .entry(*offset / SECTOR as u64 + index as u64)
                            .or_default()
                            .push(chunk.to_vec());
                    }
                }
            }
        }
        pause(self.latency_nanos);
        self.fuse.burn();
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.fuse.burn();
        pause(self.latency_nanos);
        let mut state = self.state.lock().unwrap();
        for (sector, versions) in std::mem::take(&mut state.unsynced) {
            let at = sector as usize * SECTOR;
            state.durable[at..at + SECTOR].copy_from_slice(versions.last().unwrap());
        }
        drop(state);
        self.syncs.fetch_add(1, SeqCst);
        self.fuse.burn();
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn counters(&self) -> Counters {
        Counters { syncs: self.syncs.load(SeqCst), ..Counters::default() }
    }
}

type Bytes = Arc<[u8]>;

#[derive(Default)]
struct Pages {
    durable: BTreeMap<PageId, Bytes>,
    /// Versions evicted since the last checkpoint, oldest first, and whether the newest is dirty.
    volatile: BTreeMap<PageId, (Vec<Bytes>, bool)>,
}

/// How the layer behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Like a disk: what is evicted is clean afterwards.
    Disk,
    /// Like the flash tier: it stays dirty, is destaged some time, and victims are pulled.
    Flash,
}

/// A page layer. A crash keeps, of each page, a random one of the durable version and those evicted
/// since.
pub struct TestLayer {
    pages: Mutex<Pages>,
    /// Durable at once.
    binding: Mutex<Binding>,
    upstream: OnceLock<Weak<dyn Upstream>>,
    kind: Kind,
    fuse: Arc<Fuse>,
    latency_nanos: u64,
    log: Arc<TestLog>,
    evictions: AtomicU64,
    /// Each so-and-so-many-th fetch fails; 0: none.
    pub failing_fetch: AtomicU64,
    fetches: AtomicU64,
}

impl TestLayer {
    pub fn new(kind: Kind, latency_nanos: u64, fuse: Arc<Fuse>, log: Arc<TestLog>) -> Arc<TestLayer> {
        Arc::new(TestLayer {
            pages: Mutex::default(),
            binding: Mutex::new(Binding {
                disk: Uuid::from_random(1, 2),
                log: Uuid::NIL,
                session: Session::default(),
            }),
            upstream: OnceLock::new(),
            kind,
            fuse,
            latency_nanos,
            log,
            evictions: AtomicU64::new(0),
            failing_fetch: AtomicU64::new(0),
            fetches: AtomicU64::new(0),
        })
    }

    pub fn after_crash(&self, rng: &mut Rng, fuse: Arc<Fuse>, log: Arc<TestLog>) -> Arc<TestLayer> {
        let pages = self.pages.lock().unwrap();
        let mut durable = pages.durable.clone();
        for (id, (versions, _)) in &pages.volatile {
            let pick = rng.below(versions.len() as u64 + 1) as usize;
            if let Some(version) = pick.checked_sub(1).map(|index| versions[index].clone()) {
                durable.insert(*id, version);
            }
        }
        Arc::new(TestLayer {
            pages: Mutex::new(Pages { durable, volatile: BTreeMap::new() }),
            binding: Mutex::new(*self.binding.lock().unwrap()),
            upstream: OnceLock::new(),
            kind: self.kind,
            fuse,
            latency_nanos: self.latency_nanos,
            log,
            evictions: AtomicU64::new(0),
            failing_fetch: AtomicU64::new(0),
            fetches: AtomicU64::new(0),
        })
    }

    fn store(&self, victim: Victim, data: &[u8]) -> Evicted {
        let header = page::header(data);
        assert_eq!(header.page.get(), victim.page.0, "the evicted page is the page named");
        assert_eq!(header.lsn.get(), victim.lsn.0, "the victim's LSN is the page's");
        if victim.fdirty {
            assert!(victim.dirty);
            assert!(victim.lsn.0 == 1 || self.log.is_durable(victim.lsn), "the log comes first");
        }
        let dirty = self.kind == Kind::Flash && victim.dirty;
        let mut pages = self.pages.lock().unwrap();
        let newest = pages
            .volatile
            .get(&victim.page)
            .and_then(|(versions, _)| versions.last())
            .or_else(|| pages.durable.get(&victim.page))
            .cloned();
        if let Some(newest) = &newest {
            let (old, new) = (page::lsn(newest), victim.lsn);
            assert!(
                new >= old || !entresol_runtime::is_simulated() || self.redoing(),
                "a version is superseded by an older one"
            );
            if !victim.fdirty {
                assert_eq!(&newest[4..], &data[4..], "a page called clean is what the layer holds");
                return Evicted { dirty };
            }
        }
        let entry = pages.volatile.entry(victim.page).or_default();
        entry.0.push(data.into());
        entry.1 = dirty;
        Evicted { dirty }
    }

    /// Until the first checkpoint after a restart, redo may legally go through older versions.
    fn redoing(&self) -> bool {
        self.evictions.load(SeqCst) & RECOVERED == 0
    }

    fn background(&self) {
        let count = self.evictions.fetch_add(1, SeqCst);
        let Some(upstream) = self.upstream.get().and_then(Weak::upgrade) else { return };
        if self.kind == Kind::Flash {
            if count % 16 == 5 {
                upstream.pull_victims(4);
            }
            if count % 8 == 3 {
                let some = {
                    let mut pages = self.pages.lock().unwrap();
                    let found = pages.volatile.iter_mut().find(|(_, (_, dirty))| *dirty);
                    found.map(|(id, (versions, dirty))| {
                        *dirty = false;
                        (*id, page::lsn(versions.last().unwrap()))
                    })
                };
                if let Some((id, lsn)) = some {
                    upstream.destaged(id, lsn);
                }
            }
        }
    }
}

const RECOVERED: u64 = 1 << 40;

impl Layer for TestLayer {
    fn fetch(&self, id: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.fuse.burn();
        pause(self.latency_nanos);
        let (fetch, failing) = (self.fetches.fetch_add(1, SeqCst), self.failing_fetch.load(SeqCst));
        if failing > 0 && fetch % failing == 0 {
            return Err(TierError::Refused("a test wants this fetch to fail".into()));
        }
        let pages = self.pages.lock().unwrap();
        let (data, dirty) = match pages.volatile.get(&id) {
            Some((versions, dirty)) => (versions.last().unwrap(), *dirty),
            None => match pages.durable.get(&id) {
                Some(data) => (data, false),
                None => panic!("page {id} is fetched and was never evicted"),
            },
        };
        buffer.copy_from_slice(data);
        let source = if self.kind == Kind::Flash { Source::Flash } else { Source::Disk };
        Ok(Fetched { source, dirty, fdirty: false })
    }
    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.fuse.burn();
        pause(self.latency_nanos);
        let evicted = self.store(victim, data);
        self.background();
        Ok(evicted)
    }
    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        if victim.lsn.0.is_multiple_of(3) {
            return Ok(None);
        }
        Ok(Some(self.store(victim, data)))
    }
    fn checkpoint(&self) -> Result<(), TierError> {
        self.fuse.burn();
        let snapshot: Vec<PageId> = self.pages.lock().unwrap().volatile.keys().copied().collect();
        pause(self.latency_nanos * 4);
        let mut pages = self.pages.lock().unwrap();
        for id in snapshot {
            if let Some((versions, _)) = pages.volatile.remove(&id) {
                pages.durable.insert(id, versions.last().unwrap().clone());
            }
        }
        drop(pages);
        self.evictions.fetch_or(RECOVERED, SeqCst);
        self.fuse.burn();
        Ok(())
    }
    fn attach(&self, upstream: Weak<dyn Upstream>) {
        assert!(self.upstream.set(upstream).is_ok(), "a layer is attached once");
    }
    fn capacity_pages(&self) -> u64 {
        u64::from(u32::MAX)
    }
    fn binding(&self) -> Result<Binding, TierError> {
        Ok(*self.binding.lock().unwrap())
    }
    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        let mut binding = self.binding.lock().unwrap();
        (binding.log, binding.session) = (log, session);
        Ok(())
    }
    fn metrics(&self) -> TierMetrics {
        TierMetrics::default()
    }
    fn close(&self) -> Result<(), TierError> {
        self.checkpoint()
    }
}

/// A log and a layer that fail together.
pub struct World {
    pub fuse: Arc<Fuse>,
    pub log: Arc<TestLog>,
    pub layer: Arc<TestLayer>,
}

impl World {
    pub fn new(kind: Kind, log_bytes: usize, latency_nanos: u64) -> World {
        let fuse = Arc::new(Fuse::default());
        let log = TestLog::new(log_bytes, latency_nanos, fuse.clone());
        let layer = TestLayer::new(kind, latency_nanos, fuse.clone(), log.clone());
        World { fuse, log, layer }
    }

    pub fn parts(&self) -> Parts {
        Parts { layer: self.layer.clone(), log: self.log.clone() }
    }
}

impl bank::Site for World {
    fn create(&self) -> Parts {
        self.parts()
    }
    fn open(&self) -> Parts {
        self.parts()
    }
    fn halt_at(&self, operation: u64) {
        self.fuse.halt_at(operation);
    }
    fn after_crash(&self, rng: &mut Rng) -> World {
        let fuse = Arc::new(Fuse::default());
        let log = self.log.after_crash(rng, fuse.clone());
        let layer = self.layer.after_crash(rng, fuse.clone(), log.clone());
        World { fuse, log, layer }
    }
}

/// A small pool over fast devices.
pub fn small() -> Options {
    Options { frames: 64, ..Options::default() }
}

/// A store outside the simulation, in memory.
pub fn plain_store(options: Options) -> Store {
    Store::create(World::new(Kind::Disk, 64 << 20, 1).parts(), options).unwrap()
}

pub fn simulate<T: Send>(seed: u64, main: impl FnOnce() -> T + Send) -> entresol_runtime::sim::Outcome<T> {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main)
}
