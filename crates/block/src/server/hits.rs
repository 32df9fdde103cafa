//! Requests that the thread of a connection carries out itself, all that it has at once: hits, which it reads
//! from flash, writes past the flash, and writes into the cache that find room. No thread is woken for them.
//!
//! Invariants:
//!
//! - A request that cannot be carried out here after all is carried out by a worker.
//! - The thread of the connection waits for nothing but devices and its socket while one is under way: the
//!   request's reservation may be the one that the thread would wait for, and others wait for the pages that
//!   a write holds.

use super::Shared;
use super::job::Job;
use super::outgoing::Reply;
use crate::volume::{Ahead, Past};
use entresol_device::{Ended, FileQueue};
use std::io::Result;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What the thread carries out.
#[expect(clippy::large_enum_variant, reason = "hits are frequent: no allocation for each")]
enum Own<'a> {
    Read(Ahead<'a>),
    Write(Past<'a>),
}

/// See the module's header.
pub(super) struct Hits<'a> {
    shared: &'a Arc<Shared>,
    /// `None`: the kernel does not permit it. Then workers read hits that arrive together, and write.
    queue: Option<FileQueue<(Job, Own<'a>)>>,
    /// Received and not begun yet.
    received: Vec<(Job, Own<'a>)>,
    /// The last ones were received one by one: the client waits for each reply.
    was_alone: bool,
    /// To be sent.
    replies: Vec<Reply>,
}

impl<'a> Hits<'a> {
    pub fn new(shared: &'a Arc<Shared>) -> Self {
        let queue = FileQueue::new().inspect_err(|error| {
            tracing::info!("workers read the flash, and write past it, for there is no io_uring: {error}");
        });
        Self { shared, queue: queue.ok(), received: Vec::new(), was_alone: true, replies: Vec::new() }
    }

    /// Whether none is under way.
    pub fn is_idle(&self) -> bool {
        self.received.is_empty() && self.queue.as_ref().is_none_or(FileQueue::is_idle)
    }

    /// Takes a request that was received, if it is a hit, or a write that is not the only request under way
    /// and goes past the flash, or finds room in the cache.
    pub fn take(&mut self, job: Job, is_alone: bool) -> std::result::Result<(), Job> {
        let volume = &self.shared.volume;
        let begun = if let Some((offset, length)) = job.is_small_read() {
            volume.begin_read(offset, length).map(Own::Read)
        } else if let Some((offset, length)) = job.is_small_write().filter(|_| !is_alone)
            && self.queue.is_some()
        {
            return self.take_write(job, (offset, length));
        } else {
            None
        };
        match begun {
            Some(begun) => self.received.push((job, begun)),
            None => return Err(job),
        }
        Ok(())
    }

    fn take_write(&mut self, job: Job, (offset, length): (u64, u64)) -> std::result::Result<(), Job> {
        let Err(job) = self.take_past(job) else { return Ok(()) };
        let (volume, is_sequential) = (&self.shared.volume, job.is_sequential);
        if volume.try_write(offset, &job.reserved.data, is_sequential) {
            self.replies.push(job.into_reply());
            self.shared.settle_if_due();
        } else if volume.has_copies_to_void(offset, length, is_sequential) {
            self.shared.push_void(job);
        } else {
            return Err(job);
        }
        Ok(())
    }

    /// Takes a write, if it may begin past the flash.
    pub fn take_past(&mut self, job: Job) -> std::result::Result<(), Job> {
        let Some((offset, length)) = job.is_small_write().filter(|_| self.queue.is_some()) else {
            return Err(job);
        };
        match self.shared.volume.begin_write(offset, length, job.is_sequential) {
            Some(past) => self.received.push((job, Own::Write(past))),
            None => return Err(job),
        }
        Ok(())
    }

    /// Begins the requests that were received. The only hit of a client that waits for each reply is read at
    /// once.
    pub fn begin(&mut self) {
        let is_alone = self.received.len() == 1 && self.queue.as_ref().is_none_or(FileQueue::is_idle);
        let mut received = std::mem::take(&mut self.received);
        for (job, begun) in received.drain(..) {
            match begun {
                Own::Read(ahead) => self.begin_read(job, ahead, is_alone),
                Own::Write(past) => self.begin_write(job, past),
            }
        }
        self.was_alone = is_alone;
        self.received = received;
    }

    fn begin_read(&mut self, mut job: Job, ahead: Ahead<'a>, is_alone: bool) {
        let file = ahead.file();
        let (is_slow, parts) = (file.as_ref().is_none_or(|file| file.is_direct()), ahead.parts());
        match (&mut self.queue, file) {
            (None, _) | (_, None) if is_alone => self.read_now(job, ahead),
            _ if is_alone && parts.len() == 1 && (self.was_alone || !is_slow) => self.read_now(job, ahead),
            (Some(queue), Some(file)) if queue.has_room(parts.len()) => {
                let data = std::mem::take(&mut job.reserved.data);
                queue.push_read(file, &parts, data, (job, Own::Read(ahead)));
            }
            _ => self.shared.queue.push(job),
        }
    }

    fn begin_write(&mut self, mut job: Job, past: Past<'a>) {
        match (&mut self.queue, past.place()) {
            (Some(queue), Some((file, offset))) if queue.has_room(1) => {
                let data = std::mem::take(&mut job.reserved.data);
                queue.push_write(file, offset, data, (job, Own::Write(past)));
            }
            _ => {
                // Its pages are the worker's.
                drop(past);
                self.shared.queue.push(job);
            }
        }
    }

    /// Waits until a request has ended, or until `socket` may have something to receive: then it returns
    /// true.
    pub fn wait(&mut self, socket: Option<BorrowedFd<'_>>) -> Result<bool> {
        let Some(queue) = &mut self.queue else { return Ok(true) };
        let is_ready = queue.wait(socket)?;
        while let Some(Ended { of: (mut job, begun), buffer, result }) =
            self.queue.as_mut().and_then(FileQueue::take_ended)
        {
            job.reserved.data = buffer;
            self.end(job, begun, result.is_ok());
        }
        Ok(is_ready)
    }

    fn read_now(&mut self, mut job: Job, ahead: Ahead<'a>) {
        let result = ahead.read_now(&mut job.reserved.data);
        self.end(job, Own::Read(ahead), result.is_ok());
    }

    fn end(&mut self, mut job: Job, begun: Own<'a>, is_done: bool) {
        let (volume, data) = (&self.shared.volume, &mut job.reserved.data);
        let is_write = matches!(begun, Own::Write(_));
        let is_done = match begun {
            Own::Read(ahead) => is_done && volume.end_read(ahead, data),
            Own::Write(past) => volume.end_write(past, data, is_done),
        };
        match is_done {
            true => self.replies.push(job.into_reply()),
            false => self.shared.queue.push(job),
        }
        if is_write {
            self.shared.settle_if_due();
        }
    }

    /// The replies of those that were carried out.
    pub fn replies(&mut self) -> std::vec::Drain<'_, Reply> {
        self.replies.drain(..)
    }
}
