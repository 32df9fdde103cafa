//! A cache behind the block door: requests are encoded as an NBD client does, decoded by the server's state
//! machine, and carried out by a volume. Sockets and threads are left out.
//!
//! A page of the client is a part of the cache's page, so that clients write parts of the same page at once.
//! Some requests of one client are under way together.

use super::opened::Opened;
use super::oracle::{Shared, bytes};
use super::{PAGES, begin_write, failed};
use entresol_block::{Streams, Volume, VolumeError};
use entresol_engine::TierError;
use entresol_nbd::{ErrorCode, Event, Export, Exports, Handshake, Replies, Requests, Step};
use entresol_runtime::{now, random, sleep, spawn};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Most pages that are read at once.
const RUN_MAX: u64 = 12;
/// Longest time that the thread of a connection does something else between looking a page up and reading it.
const OTHER_WORK_US: u64 = 2000;

/// Longest time before a trim, and before each concurrent read.
const BESIDE_US: u64 = 100;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;

/// A client's connection.
pub(super) struct Door {
    pub volume: Arc<Volume>,
    /// Bytes of a page of the client.
    page_bytes: u64,
    session: Mutex<Session>,
    /// Reads, and writes past the flash, that were carried out as the thread of a connection does it.
    ahead: AtomicU64,
    past: AtomicU64,
}

struct Session {
    requests: Requests,
    replies: Replies,
    cookie: u64,
    streams: Streams,
}

fn shake_hands(volume: &Volume) -> Result<Session, String> {
    let exports =
        Exports::new(vec![Export::new("data", volume.bytes())]).map_err(|error| error.to_string())?;
    let mut handshake = Handshake::new();
    let option = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &4u32.to_be_bytes(), b"data"];
    let (said, mut at) = (option.concat(), 0);
    loop {
        let sent = handshake.output().len();
        handshake.sent(sent);
        let (used, step) = handshake.receive(&said[at..], &exports);
        at += used;
        match step {
            Step::Opened(opened) => {
                return Ok(Session {
                    requests: opened.requests,
                    replies: opened.replies,
                    cookie: 0,
                    streams: Streams::default(),
                });
            }
            Step::Continue if used > 0 || sent > 0 => {}
            step => return Err(format!("the handshake ends: {step:?}")),
        }
    }
}

impl Door {
    /// Connects to the volume.
    pub fn connect(volume: Arc<Volume>, page_bytes: usize) -> Result<Self, String> {
        let session = Mutex::new(shake_hands(&volume)?);
        Ok(Self {
            volume,
            page_bytes: page_bytes as u64,
            session,
            ahead: AtomicU64::new(0),
            past: AtomicU64::new(0),
        })
    }

    /// Reads, and writes past the flash, that were carried out as the thread of a connection does it, since
    /// this was asked last.
    pub fn take_ahead(&self) -> (u64, u64) {
        (self.ahead.swap(0, Relaxed), self.past.swap(0, Relaxed))
    }

    /// Other work of the thread of a connection, now and then.
    fn works_elsewhere() {
        if random().is_multiple_of(2) {
            sleep(Duration::from_micros(random() % OTHER_WORK_US));
        }
    }

    /// Writes past the flash, or into the cache at once, as the thread of a connection does, which has other
    /// work before a write past the flash and after it. False: a worker has to.
    fn write_past(&self, offset: u64, data: &[u8], is_sequential: bool) -> bool {
        let (volume, length) = (&self.volume, data.len() as u64);
        let begin = || volume.begin_write(offset, length, is_sequential);
        let past = match begin() {
            None if volume.try_write(offset, data, is_sequential) => return true,
            None if volume.has_copies_to_void(offset, length, is_sequential) => {
                volume.void_copies([(offset, length)].into_iter());
                begin()
            }
            past => past,
        };
        let Some(past) = past else { return false };
        Self::works_elsewhere();
        let is_written = past.write_now(data).is_ok();
        Self::works_elsewhere();
        let is_done = self.volume.end_write(past, data, is_written);
        self.past.fetch_add(u64::from(is_done), Relaxed);
        is_done
    }

    /// Reads as the thread of a connection does, which has other work between the look-up and the read.
    /// False: a worker has to.
    fn read_ahead(&self, offset: u64, data: &mut [u8]) -> bool {
        let Some(ahead) = self.volume.begin_read(offset, data.len() as u64) else { return false };
        Self::works_elsewhere();
        let is_served = ahead.read_now(data).is_ok() && self.volume.end_read(ahead, data);
        self.ahead.fetch_add(u64::from(is_served), Relaxed);
        is_served
    }

    /// Sends a request and decodes its reply.
    fn ask(
        &self,
        (command, flags): (u16, u16),
        page: u64,
        pages: u64,
        data: &mut [u8],
        as_stream: bool,
    ) -> Result<(), TierError> {
        let refuse = |what: String| TierError::Refused(format!("request {command} of page {page}: {what}"));
        let (offset, length) = match command {
            FLUSH => (0, 0),
            _ => (page * self.page_bytes, pages * self.page_bytes),
        };
        let (request, replies, is_sequential) = {
            let mut session = self.session.lock();
            session.cookie += 1;
            let cookie = session.cookie;
            let mut head = 0x2560_9513_u32.to_be_bytes().to_vec();
            head.extend([flags.to_be_bytes(), command.to_be_bytes()].concat());
            head.extend([cookie.to_be_bytes(), offset.to_be_bytes()].concat());
            head.extend((length as u32).to_be_bytes());
            let cut = (random() % head.len() as u64) as usize;
            let (used, none) = session.requests.receive(&head[..cut]);
            if used != cut || none.is_some() {
                return Err(refuse("a part of its head is taken for a request".to_owned()));
            }
            let (_, event) = session.requests.receive(&head[cut..]);
            let Some(Event::Request(request)) = event else { return Err(refuse(format!("{event:?}"))) };
            if request.cookie.0 != cookie.to_be_bytes() {
                return Err(refuse("another cookie".to_owned()));
            }
            if command == WRITE {
                session.requests.payload_taken(data.len());
            }
            // The client's pages are too few for a long stream.
            let is_long = self.volume.follow(&mut session.streams, &request.command);
            (request, session.replies, is_long || as_stream)
        };
        let is_done = match command {
            READ => !is_sequential && self.read_ahead(offset, data),
            WRITE => flags & FUA == 0 && self.write_past(offset, data, is_sequential),
            _ => false,
        };
        let done = if is_done { Ok(()) } else { self.volume.carry_out(request.command, is_sequential, data) };
        // Told as it is: the oracle knows whether that may be.
        if let Err(VolumeError::Tier(error @ (TierError::Lost { .. } | TierError::Damaged { .. }))) = done {
            return Err(error);
        }
        let (head, why) = match done {
            Ok(()) if command == READ => (replies.read(request.cookie, offset, length as u32).to_vec(), None),
            Ok(()) => (replies.done(request.cookie).to_vec(), None),
            Err(error) => {
                let text = error.to_string();
                (replies.error(request.cookie, ErrorCode::Io, &text).to_vec(), Some(text))
            }
        };
        let expected = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &request.cookie.0].concat();
        match why {
            None if head == expected => Ok(()),
            why => Err(refuse(format!("reply {head:02x?}, {why:?}"))),
        }
    }

    /// Pages of the client in one of the cache.
    pub fn page_of_cache(&self) -> u64 {
        self.volume.page_bytes() / self.page_bytes
    }

    /// Whether a read of it needs no disk.
    pub fn is_cached(&self, page: u64) -> bool {
        self.volume.is_cached(page * self.page_bytes, self.page_bytes)
    }

    /// Reads a page; with pages after it in one request, if `with_others`.
    pub fn read(&self, page: u64, buffer: &mut [u8], with_others: bool) -> Result<(), TierError> {
        if !with_others {
            return self.ask((READ, 0), page, 1, buffer, false);
        }
        // Now and then past the cache.
        let as_stream = random().is_multiple_of(4);
        if random().is_multiple_of(16) {
            self.ask((CACHE, 0), page, 1, &mut [], false)?;
        }
        // With pages around it, unless the disk cannot read one of those: often whole pages of the cache.
        let page_of_cache = self.page_of_cache();
        let is_whole = random().is_multiple_of(2);
        let first = if is_whole { page / page_of_cache * page_of_cache } else { page };
        let most = if is_whole { (1 + random() % 3) * page_of_cache } else { 1 + random() % RUN_MAX };
        let pages = most.min(PAGES - first);
        let mut run = vec![0; buffer.len() * pages as usize];
        if pages > 1 && self.ask((READ, 0), first, pages, &mut run, as_stream).is_ok() {
            let at = (page - first) as usize * buffer.len();
            buffer.copy_from_slice(&run[at..at + buffer.len()]);
            return Ok(());
        }
        self.ask((READ, 0), page, 1, buffer, as_stream)
    }

    pub fn write(&self, page: u64, data: &[u8], fua: bool, as_stream: bool) -> Result<(), TierError> {
        let pages = data.len() as u64 / self.page_bytes;
        self.ask((WRITE, if fua { FUA } else { 0 }), page, pages, &mut data.to_vec(), as_stream)
    }

    fn write_zeroes(&self, page: u64, fua: bool) -> Result<(), TierError> {
        self.ask((WRITE_ZEROES, if fua { FUA } else { 0 }), page, 1, &mut [], false)
    }

    /// Trims pages that follow each other. The disk may make zeros of them, if the client is the only one;
    /// else no byte changes.
    pub fn trim(self: &Arc<Self>, oracle: &Shared, page: u64, pages: u64) -> Result<(), TierError> {
        oracle.lock().are_trimmed(page..page + pages);
        let is_alone = oracle.lock().clients == 1;
        let reader = is_alone.then(|| {
            let (door, count) = (self.clone(), pages);
            spawn("reads beside a trim", move || {
                for _ in 0..8 {
                    sleep(Duration::from_micros(random() % BESIDE_US));
                    // It may find what was there, zeros, or a sector that the disk cannot read.
                    let mut found = vec![0; door.page_bytes as usize];
                    _ = door.ask((READ, 0), page + random() % count, 1, &mut found, false);
                }
            })
        });
        if is_alone {
            sleep(Duration::from_micros(random() % BESIDE_US));
        }
        let trimmed = self.ask((TRIM, 0), page, pages, &mut [], false);
        reader.into_iter().for_each(|task| task.join());
        trimmed?;
        if is_alone { self.has_one_answer(page, pages) } else { Ok(()) }
    }

    /// Whether these pages, which are not being written now, are the same from the cache and past it, if they
    /// can be read.
    fn has_one_answer(&self, page: u64, pages: u64) -> Result<(), TierError> {
        let answer = |page, as_stream| {
            let mut found = vec![0; self.page_bytes as usize];
            self.ask((READ, 0), page, 1, &mut found, as_stream).ok().map(|()| found)
        };
        for page in page..page + pages {
            if let (Some(cached), Some(around)) = (answer(page, false), answer(page, true))
                && cached != around
            {
                return Err(TierError::Refused(format!("trimmed page {page} has two answers")));
            }
        }
        Ok(())
    }

    /// The server ends.
    pub fn close(&self) -> Result<(), TierError> {
        self.volume.close().map_err(|error| match error {
            VolumeError::Tier(error) => error,
            error => TierError::Refused(error.to_string()),
        })
    }

    pub fn flush(&self) -> Result<(), TierError> {
        self.ask((FLUSH, 0), 0, 0, &mut [], false)
    }
}

/// Writes a page in its next version: data or zeros, now and then durably.
pub(super) fn write(door: &Door, oracle: &Shared, page: u64) -> Result<(), String> {
    let version = begin_write(oracle, page);
    let (is_zero, fua) = (random().is_multiple_of(8), random().is_multiple_of(4));
    let since = if fua { oracle.lock().flushed() } else { now() };
    if is_zero {
        oracle.lock().is_zero(page, version);
    }
    let written = match is_zero {
        true => door.write_zeroes(page, fua),
        false => {
            let data = bytes(oracle.lock().cache, page, version);
            let as_stream = oracle.lock().may_go_straight(page..page + 1, false);
            door.write(page, &data, fua, as_stream)
        }
    };
    match written {
        Err(error) if oracle.lock().may_fail(page, &error, true, since) => return Ok(()),
        written => written.map_err(failed)?,
    }
    oracle.lock().is_acknowledged(page, version);
    if fua {
        oracle.lock().is_durable(page, version);
    }
    Ok(())
}

/// Makes zeros of whole pages of the cache, from the one of `page` on. All are this client's.
pub(super) fn zero_whole(door: &Door, oracle: &Shared, page: u64) -> Result<(), String> {
    let page_of_cache = door.page_of_cache();
    let first = page / page_of_cache * page_of_cache;
    let run = first..PAGES.min(first + page_of_cache * (1 + random() % 2));
    let fua = random().is_multiple_of(4);
    let since = if fua { oracle.lock().flushed() } else { now() };
    for page in run.clone() {
        let version = begin_write(oracle, page);
        oracle.lock().is_zero(page, version);
    }
    let flags = if fua { FUA } else { 0 };
    let zeroed = door.ask((WRITE_ZEROES, flags), first, run.end - first, &mut [], false);
    let mut oracle = oracle.lock();
    if let Err(error) = zeroed {
        let may_fail = run.clone().all(|page| oracle.may_fail(page, &error, true, since));
        return if may_fail { Ok(()) } else { Err(failed(error)) };
    }
    for page in run {
        let version = oracle.of(page).newest;
        oracle.is_acknowledged(page, version);
        if fua {
            oracle.is_durable(page, version);
        }
    }
    Ok(())
}

/// Writes pages in their next versions, with all requests under way at once. Now and then they are trimmed
/// then, when they may not be durable on disk.
pub(super) fn write_together(opened: &Opened, oracle: &Shared, pages: Vec<u64>) -> Result<(), String> {
    let Some(door) = &opened.door else { return Ok(()) };
    let wrong = Arc::new(Mutex::new(None));
    let start = |page| {
        let (door, oracle, wrong) = (door.clone(), oracle.clone(), wrong.clone());
        spawn("request", move || {
            if let Err(what) = write(&door, &oracle, page) {
                *wrong.lock() = Some(what);
            }
        })
    };
    let tasks: Vec<_> = pages.iter().copied().map(start).collect();
    tasks.into_iter().for_each(|task| task.join());
    // A page that is lost becomes zeros, though no trim reaches the disk: it may be another client's.
    let may_trim = {
        let oracle = oracle.lock();
        oracle.clients == 1 || !(oracle.may_lose || oracle.may_be_unreadable)
    };
    if let Some(first) = pages.first().filter(|_| random().is_multiple_of(4) && may_trim) {
        let (begun, last) = (now(), PAGES.min(first + RUN_MAX));
        if let Err(error) = door.trim(oracle, *first, last - first) {
            let mut oracle = oracle.lock();
            let mine: Vec<u64> = oracle.some(*first, PAGES).filter(|page| *page < last).collect();
            if !mine.into_iter().all(|page| oracle.may_fail(page, &error, true, begun)) {
                return Err(failed(error));
            }
        }
    }
    wrong.lock().take().map_or(Ok(()), Err)
}
