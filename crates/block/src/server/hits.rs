//! Hits that the thread of a connection reads itself, all that it has at once: no thread is woken for them.
//!
//! Invariants:
//!
//! - A hit that cannot be served from flash after all is carried out by a worker.
//! - The thread of the connection waits for nothing but flash and its socket while a hit is under way: the
//!   hit's reservation may be the one that the thread would wait for.

use super::Shared;
use super::job::Job;
use super::outgoing::Reply;
use crate::volume::Ahead;
use entresol_device::{Ended, ReadQueue};
use std::io::Result;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// See the module's header.
pub(super) struct Hits<'a> {
    shared: &'a Arc<Shared>,
    /// `None`: the kernel does not permit it. Then workers read hits that arrive together.
    queue: Option<ReadQueue<(Job, Ahead<'a>)>>,
    /// Received and not begun yet.
    received: Vec<(Job, Ahead<'a>)>,
    /// The last ones were received one by one: the client waits for each reply.
    was_alone: bool,
    /// To be sent.
    replies: Vec<Reply>,
}

impl<'a> Hits<'a> {
    pub fn new(shared: &'a Arc<Shared>) -> Self {
        let queue = ReadQueue::new()
            .inspect_err(|error| tracing::info!("workers read the flash, for there is no io_uring: {error}"));
        Self { shared, queue: queue.ok(), received: Vec::new(), was_alone: true, replies: Vec::new() }
    }

    /// Whether none is under way.
    pub fn is_idle(&self) -> bool {
        self.received.is_empty() && self.queue.as_ref().is_none_or(ReadQueue::is_idle)
    }

    /// Takes a request that was received, if it is a hit.
    pub fn take(&mut self, job: Job) -> std::result::Result<(), Job> {
        let Some((offset, length)) = job.is_small_read() else { return Err(job) };
        match self.shared.volume.begin_read(offset, length) {
            Some(ahead) => self.received.push((job, ahead)),
            None => return Err(job),
        }
        Ok(())
    }

    /// Begins the hits that were received. The only one of a client that waits for each reply is read at
    /// once.
    pub fn begin(&mut self) {
        let is_alone = self.received.len() == 1 && self.queue.as_ref().is_none_or(ReadQueue::is_idle);
        let mut received = std::mem::take(&mut self.received);
        for (mut job, ahead) in received.drain(..) {
            let file = ahead.file();
            let (is_slow, parts) = (file.as_ref().is_none_or(|file| file.is_direct()), ahead.parts());
            match (&mut self.queue, file) {
                (None, _) | (_, None) if is_alone => self.read_now(job, ahead),
                _ if is_alone && parts.len() == 1 && (self.was_alone || !is_slow) => {
                    self.read_now(job, ahead)
                }
                (Some(queue), Some(file)) if queue.has_room(parts.len()) => {
                    let data = std::mem::take(&mut job.reserved.data);
                    queue.push(file, &parts, data, (job, ahead));
                }
                _ => self.shared.queue.push(job),
            }
        }
        self.was_alone = is_alone;
        self.received = received;
    }

    /// Waits until a hit was read, or until `socket` may have something to receive: then it returns true.
    pub fn wait(&mut self, socket: Option<BorrowedFd<'_>>) -> Result<bool> {
        let Some(queue) = &mut self.queue else { return Ok(true) };
        let is_ready = queue.wait(socket)?;
        while let Some(Ended { of: (mut job, ahead), buffer, result }) =
            self.queue.as_mut().and_then(ReadQueue::take_ended)
        {
            job.reserved.data = buffer;
            self.end(job, ahead, result.is_ok());
        }
        Ok(is_ready)
    }

    fn read_now(&mut self, mut job: Job, ahead: Ahead<'a>) {
        let result = ahead.read_now(&mut job.reserved.data);
        self.end(job, ahead, result.is_ok());
    }

    fn end(&mut self, mut job: Job, ahead: Ahead<'a>, is_read: bool) {
        if is_read && self.shared.volume.end_read(ahead, &mut job.reserved.data) {
            self.replies.push(job.into_reply());
        } else {
            self.shared.queue.push(job);
        }
    }

    /// The replies of those that were read.
    pub fn replies(&mut self) -> std::vec::Drain<'_, Reply> {
        self.replies.drain(..)
    }
}
