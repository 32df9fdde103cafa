//! Writes past the flash that the thread of a connection carries out, many at once.

#[path = "support/client.rs"]
mod client;
#[path = "support/journalled.rs"]
mod journalled;
mod support;

use client::{Client, READ, WRITE};
use entresol_block::{CacheOptions, Loss, Server, ServerOptions, SteerOptions, Volume, VolumeConfig};
use entresol_core::Mode;
use entresol_device::{
    Counters, Device, DeviceError, Fault, FaultPlan, FaultyDevice, FileDevice, FileOptions, Geometry,
    Injection, Io, QueuedFile, Survival, WritePlace,
};
use entresol_engine::{Uuid, flash_bytes};
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::rng::Rng;
use entresol_runtime::{JoinHandle, random, sleep, spawn};
use journalled::{Parts, filled, options, simulate};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PAGE: u64 = journalled::PAGE as u64;
const PAGES: u64 = 600;
const CLIENTS: u64 = 3;
const DEPTH: usize = 32;
const REQUESTS: u64 = 2500;

/// Every write of whole pages is of a long stream: it bypasses the cache.
fn all_bypass(volume: &Volume) {
    volume.steer(SteerOptions { sequential_bypass_bytes: 1, ..SteerOptions::default() });
}

/// The pages of an empty cache that can be written past the flash by a caller.
fn past_pages(volume: &Volume, pages: u64) -> Vec<u64> {
    (0..pages).filter(|page| volume.begin_write(page * PAGE, PAGE, true).is_some()).collect()
}

fn bypassed(volume: &Volume) -> u64 {
    volume.status().bypassed.iter().map(|by| by.writes).sum()
}

fn version(page: &[u8]) -> u64 {
    let words = page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let found: Vec<u64> = words.collect();
    assert!(found.iter().all(|word| *word == found[0]), "a torn page: {found:?}");
    found[0]
}

/// A file of which a page cannot be written: its number. `u64::MAX`: none.
struct Broken {
    file: FileDevice,
    page: Arc<AtomicU64>,
}

impl Broken {
    fn refuses(&self, offset: u64) -> bool {
        offset / PAGE == self.page.load(SeqCst)
    }
}

impl Device for Broken {
    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let refused = batch.iter().any(|io| matches!(io, Io::Write { offset, .. } if self.refuses(*offset)));
        match refused {
            true => self.file.write(self.geometry().capacity_bytes, &filled(0)),
            false => self.file.run(batch),
        }
    }
    fn begin_write(&self, offset: u64, _: usize) -> Option<WritePlace> {
        // A place that the system refuses.
        let beyond = if self.refuses(offset) { self.geometry().capacity_bytes } else { 0 };
        Some(WritePlace { file: self.queued(), offset: offset + beyond })
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.file.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.file.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.file.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.file.counters()
    }
    fn queued(&self) -> Option<QueuedFile> {
        self.file.queued()
    }
}

/// A server, the page that its disk refuses, and pages that it may write past the flash in any order: all but
/// those of the disk's fingerprint.
struct Served {
    server: Server,
    broken: Arc<AtomicU64>,
    pages: Vec<u64>,
}

fn serve(folder: &Path, direct: bool, mode: Mode, workers: usize) -> Served {
    let file = |name: &str, bytes: u64| {
        let options = FileOptions { is_direct_wanted: direct, ..FileOptions::create(bytes) };
        FileDevice::open(folder.join(name), options).unwrap()
    };
    let broken = Arc::new(AtomicU64::new(u64::MAX));
    let disk = Broken { file: file("disk", PAGES * PAGE), page: broken.clone() };
    let flash = file("flash", flash_bytes(&options(mode)));
    let (label, journal) = (file("label", LABEL_FILE_BYTES), file("journal", 1 << 20));
    let mut volume = Volume::create(Arc::new(disk), Arc::new(label), Arc::new(flash), options(mode)).unwrap();
    volume.keep_journal(Arc::new(journal), Uuid::NIL).unwrap();
    all_bypass(&volume);
    let config = VolumeConfig { socket: folder.join("socket"), ..VolumeConfig::usual("write-back") };
    let options = ServerOptions { name: String::new(), workers, ..ServerOptions::of(&config) };
    let pages = past_pages(&volume, PAGES);
    Served { server: Server::start(volume, options).unwrap(), broken, pages }
}

/// Writes and reads pages of its own, with one request of a page under way at a time.
fn client(socket: &Path, me: u64) {
    let mut client = Client::connect(socket).unwrap();
    let mut rng = Rng::new(me);
    let mut versions = vec![0; PAGES as usize];
    let mut under_way: HashMap<u64, (u64, bool)> = HashMap::new();
    let mut sent = 0;
    while sent < REQUESTS || !under_way.is_empty() {
        while sent < REQUESTS && under_way.len() < DEPTH {
            let page = rng.below(PAGES / CLIENTS) * CLIENTS + me;
            if under_way.values().any(|(other, _)| *other == page) {
                break;
            }
            let is_write = rng.below(4) > 0;
            let cookie = if is_write {
                versions[page as usize] += 1;
                let data = filled(page << 32 | versions[page as usize]);
                client.send(WRITE, 0, page * PAGE, PAGE as u32, &data)
            } else {
                client.send(READ, 0, page * PAGE, PAGE as u32, &[])
            };
            under_way.insert(cookie.unwrap(), (page, is_write));
            sent += 1;
        }
        let (error, cookie) = client.reply().unwrap();
        let (page, is_write) = under_way.remove(&cookie).expect("one of those that were sent");
        assert_eq!(error, 0);
        if !is_write {
            let mut found = vec![0; PAGE as usize];
            client.stream.read_exact(&mut found).unwrap();
            let newest = versions[page as usize];
            assert_eq!(version(&found), if newest > 0 { page << 32 | newest } else { 0 }, "page {page}");
        }
    }
}

#[test]
fn writes_under_way_together_are_all_made() {
    for (direct, mode) in [(false, Mode::WriteBack), (true, Mode::WriteBack), (true, Mode::WriteThrough)] {
        let folder = tempfile::tempdir().unwrap();
        let Served { server, .. } = serve(folder.path(), direct, mode, 4);
        let socket = folder.path().join("socket");
        std::thread::scope(|scope| {
            for me in 0..CLIENTS {
                let socket = &socket;
                scope.spawn(move || client(socket, me));
            }
        });
        assert!(bypassed(server.volume()) > REQUESTS, "{:?}", server.volume().status().bypassed);
        server.stop().unwrap();
    }
}

/// Sends writes of these pages at once.
fn send_together(client: &mut Client, pages: &[u64], number: u64) -> Vec<u64> {
    let mut bytes = Vec::new();
    for page in pages {
        bytes.extend([0x25, 0x60, 0x95, 0x13, 0, 0, 0, WRITE as u8]);
        bytes.extend(page.to_be_bytes());
        bytes.extend((page * PAGE).to_be_bytes());
        bytes.extend((PAGE as u32).to_be_bytes());
        bytes.extend(filled(number));
    }
    client.stream.write_all(&bytes).unwrap();
    (0..pages.len())
        .map(|_| client.reply().unwrap())
        .filter(|reply| reply.0 != 0)
        .map(|reply| reply.1)
        .collect()
}

/// Without workers: what is answered, the thread of the connection has carried out.
#[test]
fn no_worker_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let Served { server, pages, .. } = serve(folder.path(), true, Mode::WriteBack, 0);
    let mut client = Client::connect(&folder.path().join("socket")).unwrap();
    (1..6).for_each(|number| assert!(send_together(&mut client, &pages[..20], number).is_empty()));
    assert_eq!(bypassed(server.volume()), 100);
    drop(client);
    server.stop().unwrap();
}

/// An error is that of the request that met it: others of its batch are made, in both modes. In write-back
/// the flash takes the page.
#[test]
fn an_error_within_a_batch_is_that_of_its_request() {
    for mode in [Mode::WriteBack, Mode::WriteThrough] {
        let folder = tempfile::tempdir().unwrap();
        let Served { server, broken, mut pages } = serve(folder.path(), true, mode, 4);
        pages.truncate(20);
        let mut client = Client::connect(&folder.path().join("socket")).unwrap();
        assert!(send_together(&mut client, &pages, 1).is_empty());
        broken.store(pages[9], SeqCst);
        let failed = send_together(&mut client, &pages, 2);
        assert_eq!(failed, if mode == Mode::WriteBack { vec![] } else { vec![pages[9]] }, "{mode:?}");
        for page in &pages {
            let found = version(&client.read(page * PAGE, PAGE as usize).unwrap());
            assert_eq!(found, if failed.contains(page) { 1 } else { 2 }, "{mode:?}: page {page}");
        }
        broken.store(u64::MAX, SeqCst);
        assert!(send_together(&mut client, &pages, 3).is_empty());
        client.flush().unwrap();
        for page in pages {
            assert_eq!(version(&client.read(page * PAGE, PAGE as usize).unwrap()), 3);
        }
        drop(client);
        server.stop().unwrap();
    }
}

const FEW_PAGES: u64 = 90;
const WRITERS: u64 = 3;
/// So small that it is full now and then.
const JOURNAL_BYTES: u64 = 400 << 10;

fn parts(mode: Mode) -> Parts {
    Parts::new(mode, FEW_PAGES, JOURNAL_BYTES)
}

fn pause() {
    sleep(Duration::from_micros(random() % 150));
}

/// Writes a page past the flash as the thread of a connection does, which is slow. Whether it was made so.
fn write_past(volume: &Volume, page: u64, number: u64) -> bool {
    let data = filled(number);
    let begin = || volume.begin_write(page * PAGE, PAGE, true);
    let past = begin().or_else(|| {
        // Copies of other pages are made void with it, or not: another task may write those now.
        volume.void_copies((page..FEW_PAGES).step_by(7).map(|page| (page * PAGE, PAGE)));
        begin()
    });
    let Some(past) = past else { return volume.try_write(page * PAGE, &data, true) };
    pause();
    // Now and then it is not made, and a worker does it.
    let is_written = !random().is_multiple_of(8) && past.write_now(&data).is_ok();
    pause();
    volume.end_write(past, &data, is_written)
}

/// What the tasks of a volume share: the newest acknowledged version of each page; how many writes callers
/// made past the flash, and how many a worker made; and whether the writers have ended.
struct Tasks {
    volume: Arc<Volume>,
    acknowledged: Vec<AtomicU64>,
    made: [AtomicU64; 2],
    is_over: AtomicBool,
}

impl Tasks {
    /// Writes pages of its own, past the flash and to the cache, and flushes.
    fn writer(self: &Arc<Self>, seed: u64, me: u64) -> JoinHandle {
        let shared = self.clone();
        spawn("writer", move || {
            let Self { volume, acknowledged, made, .. } = &*shared;
            let mut rng = Rng::new(seed << 8 | me);
            for number in 1..160 {
                let page = rng.below(FEW_PAGES / WRITERS) * WRITERS + me;
                let is_past = rng.below(4) > 0;
                let is_made = match is_past {
                    true => write_past(volume, page, number),
                    false => volume.try_write(page * PAGE, &filled(number), false),
                };
                made[usize::from(!is_made)].fetch_add(u64::from(is_past), SeqCst);
                if !is_made {
                    volume.write_of_stream(page * PAGE, &filled(number), false, is_past).unwrap();
                }
                acknowledged[page as usize].store(number, SeqCst);
                if rng.below(40) == 0 {
                    volume.flush().unwrap();
                } else if volume.is_settling_due() {
                    volume.settle().unwrap();
                }
                pause();
            }
        })
    }

    /// Reads all pages: none at an older version than before, or than was acknowledged.
    fn reader(self: &Arc<Self>) -> JoinHandle {
        let shared = self.clone();
        spawn("reader", move || {
            let (mut seen, mut found) = (vec![0; FEW_PAGES as usize], filled(0));
            while !shared.is_over.load(SeqCst) {
                let page = (random() % FEW_PAGES) as usize;
                let least = shared.acknowledged[page].load(SeqCst).max(seen[page]);
                shared.volume.read(page as u64 * PAGE, &mut found).unwrap();
                seen[page] = version(&found);
                assert!(seen[page] >= least, "page {page} at {}, not {least}", seen[page]);
            }
        })
    }

    /// Changes the cache as a whole.
    fn changer(self: &Arc<Self>, usual: CacheOptions) -> JoinHandle {
        let shared = self.clone();
        spawn("changer", move || {
            while !shared.is_over.load(SeqCst) {
                sleep(Duration::from_millis(random() % 20));
                match random() % 3 {
                    0 => shared.volume.drain(Loss::Refused).unwrap(),
                    _ => shared.volume.set_cache(usual.clone(), Loss::Refused).unwrap(),
                }
            }
        })
    }
}

/// Tasks write, read, flush and change the cache as a whole; the program is killed. No version is followed by
/// an older one, and none is lost.
#[test]
fn no_version_is_followed_by_an_older_one() {
    let mut made = [0, 0];
    for (mode, seed) in [Mode::WriteBack, Mode::WriteThrough]
        .into_iter()
        .flat_map(|mode| (0..40).map(move |seed| (mode, seed)))
    {
        let parts = parts(mode);
        let mut newest = Vec::new();
        simulate(seed, || {
            let acknowledged = (0..FEW_PAGES).map(|_| AtomicU64::new(0)).collect();
            let (made_here, is_over) = ([0, 0].map(AtomicU64::new), AtomicBool::new(false));
            let tasks = Arc::new(Tasks { volume: parts.create(), acknowledged, made: made_here, is_over });
            let writers: Vec<_> = (0..WRITERS).map(|me| tasks.writer(seed, me)).collect();
            let others = [tasks.reader(), tasks.changer(parts.1.clone().into())];
            writers.into_iter().for_each(|task| task.join());
            tasks.is_over.store(true, SeqCst);
            others.into_iter().for_each(|task| task.join());
            made.iter_mut().zip(&tasks.made).for_each(|(all, here)| *all += here.load(SeqCst));
            newest = tasks.acknowledged.iter().map(|version| version.load(SeqCst)).collect();
            // Killed: nothing is flushed, and the journal stays.
            std::mem::forget(tasks);
        });
        simulate(seed, || {
            let (volume, _) = parts.open();
            let mut found = filled(0);
            for (page, newest) in newest.iter().enumerate() {
                volume.read(page as u64 * PAGE, &mut found).unwrap();
                assert_eq!(version(&found), *newest, "{mode:?}, seed {seed}: page {page}");
            }
            volume.close().unwrap();
        });
    }
    assert!(made.iter().all(|count| *count > 2000), "{made:?}");
}

/// A page that the cache has, or that is being written, or is a part of one, is not for the caller.
#[test]
fn what_has_to_wait_is_refused() {
    simulate(1, || {
        let volume = parts(Mode::WriteBack).create();
        let free = past_pages(&volume, FEW_PAGES);
        let at = free.windows(3).find(|pages| pages[2] == pages[0] + 2).expect("three that are adjacent")[0];
        let begin = |page: u64, length: u64| volume.begin_write((at + page) * PAGE, length, true);
        let first = begin(0, 2 * PAGE).expect("no copy is in the cache");
        assert!(begin(1, PAGE).is_none(), "it is being written");
        assert!(begin(2, PAGE / 2).is_none(), "it is a part of a page");
        assert!(volume.begin_write((at + 2) * PAGE, PAGE, false).is_none(), "it enters the cache");
        let data = [filled(1), filled(1)].concat();
        first.write_now(&data).unwrap();
        assert!(volume.end_write(first, &data, true));
        volume.write((at + 2) * PAGE, &filled(2), false).unwrap();
        assert!(begin(2, PAGE).is_none(), "it is dirty");
        volume.drain(Loss::Refused).unwrap();
        assert!(begin(2, PAGE).is_none(), "a clean copy of it is forgotten first");
        volume.void_copies([((at + 2) * PAGE, PAGE)].into_iter());
        drop(begin(2, PAGE).expect("no crash finds a copy any more"));
        volume.close().unwrap();
    });
}

/// 1. A caller has written a page past the flash, and has not ended the write.
/// 2. A sync of the disk fails, and loses what was not durable. What is remembered is written again, and the
///    next sync succeeds.
/// 3. The write is ended, acknowledged, and flushed: it is on the disk.
#[test]
fn a_failed_sync_loses_no_write_that_has_not_ended() {
    simulate(1, || {
        let Parts([disk, label, flash, _], options) = parts(Mode::WriteThrough);
        let plan = Arc::new(FaultPlan::new(1, Vec::new()));
        let disk = Arc::new(FaultyDevice::new("disk", disk.fork("disk"), plan.clone()));
        let volume = Arc::new(Volume::create(disk.clone(), label, flash, options).unwrap());
        let pages = past_pages(&volume, FEW_PAGES);
        let past = volume.begin_write(pages[0] * PAGE, PAGE, true).expect("the cache is empty");
        past.write_now(&filled(1)).unwrap();
        volume.write_of_stream(pages[1] * PAGE, &filled(2), false, true).unwrap();
        let (at, fault) = (plan.operations(), Fault::SyncErrorLosingWrites);
        plan.inject(Injection { at, device: None, fault, forever: false });
        let flush = spawn("flush", {
            let volume = volume.clone();
            move || volume.flush().unwrap()
        });
        sleep(Duration::from_millis(5));
        assert!(volume.end_write(past, &filled(1), true));
        flush.join();
        volume.flush().unwrap();
        let left = disk.after_crash(&Survival::None);
        for (page, expected) in [(pages[0], 1), (pages[1], 2)] {
            let mut found = filled(0);
            left.read(page * PAGE, &mut found).unwrap();
            assert_eq!(version(&found), expected);
        }
        volume.close().unwrap();
    });
}

/// A change of the cache as a whole waits for a write that a caller has begun.
#[test]
fn a_change_waits_for_a_write_that_has_begun() {
    simulate(1, || {
        let parts = parts(Mode::WriteBack);
        let (volume, is_changed) = (parts.create(), Arc::new(AtomicBool::new(false)));
        let page = past_pages(&volume, FEW_PAGES)[0];
        let past = volume.begin_write(page * PAGE, PAGE, true).expect("the cache is empty");
        let change = spawn("change", {
            let (volume, is_changed, usual) = (volume.clone(), is_changed.clone(), parts.1.clone());
            move || {
                volume.set_cache(usual.into(), Loss::Refused).unwrap();
                is_changed.store(true, SeqCst);
            }
        });
        sleep(Duration::from_secs(1));
        assert!(!is_changed.load(SeqCst));
        past.write_now(&filled(1)).unwrap();
        assert!(volume.end_write(past, &filled(1), true));
        change.join();
        volume.close().unwrap();
    });
}

/// 1. A page is written to the cache, and recorded.
/// 2. It is destaged and leaves the cache, without a flush.
/// 3. A caller writes it past the flash.
/// 4. The program is killed.
///
/// The next one does not carry out the older write.
#[test]
fn an_older_write_is_not_carried_out_over_a_callers() {
    let parts = Parts::new(Mode::WriteBack, FEW_PAGES, 16 << 20);
    let mut page = 0;
    simulate(1, || {
        let volume = parts.create();
        page = past_pages(&volume, FEW_PAGES)[0];
        volume.write(page * PAGE, &filled(1), false).unwrap();
        let mut others = (0..FEW_PAGES).cycle().filter(|other| *other != page);
        let is_made = (0..1000).any(|_| {
            volume.write(others.next().unwrap() * PAGE, &filled(1), false).unwrap();
            volume.begin_write(page * PAGE, PAGE, true).is_some_and(|past| {
                past.write_now(&filled(2)).unwrap();
                volume.end_write(past, &filled(2), true)
            })
        });
        assert!(is_made);
        std::mem::forget(volume);
    });
    simulate(2, || {
        let (volume, _) = parts.open();
        let mut found = filled(0);
        volume.read(page * PAGE, &mut found).unwrap();
        assert_eq!(version(&found), 2);
        volume.close().unwrap();
    });
}
