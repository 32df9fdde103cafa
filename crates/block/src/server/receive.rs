//! The receiving side of a connection after its handshake: requests, and the data of writes, which is
//! received into the buffer that it is written from.
//!
//! Invariant: the thread may wait for devices and its socket at a time. Before any other wait, it has ended
//! the hits that it reads itself, and the writes that it makes, and has sent their replies.
//!
//! A client that waits for each reply gets its short writes and its flushes carried out here: a worker would
//! have to be woken for each. Where it sends more meanwhile, workers do it.

use super::Shared;
use super::connection::Connection;
use super::hits::Hits;
use super::job::Job;
use super::limits::Reserved;
use super::outgoing::{Head, Reply};
use super::stream::{Received, is_time_up};
use crate::Streams;
use entresol_nbd::{Command, Event, Opened, Replies, Request, Requests, Wanted};
use std::io::{ErrorKind, Result};
use std::sync::Arc;

/// After so many requests that came one by one, the client waits for each reply.
const ONE_BY_ONE: u32 = 8;

/// Of so many requests that this thread carries out, one looks whether the client waits for its reply: a look
/// is a system call.
const LOOKS_ONE_OF: u32 = 16;

/// See the module's header.
pub(super) struct Receiver<'a> {
    connection: &'a Arc<Connection>,
    shared: &'a Arc<Shared>,
    requests: Requests,
    replies: Replies,
    received: Received,
    streams: Streams,
    hits: Hits<'a>,
    /// Requests in a row that came when all before them were answered.
    alone: u32,
}

impl<'a> Receiver<'a> {
    pub fn new(
        connection: &'a Arc<Connection>,
        shared: &'a Arc<Shared>,
        opened: Opened,
        received: Received,
    ) -> Self {
        let Opened { requests, replies, .. } = opened;
        let (streams, hits) = (Streams::default(), Hits::new(shared));
        Self { connection, shared, requests, replies, received, streams, hits, alone: 0 }
    }

    /// Receives requests until the client ends, or breaks the protocol. All are answered, or with a worker.
    pub fn run(mut self) -> Result<()> {
        let result = self.receive();
        self.settle()?;
        result
    }

    fn receive(&mut self) -> Result<()> {
        while self.requests.wanted() != Wanted::Nothing {
            if self.received.bytes().is_empty() && !self.fill()? {
                return Ok(());
            }
            self.requests.grow(self.shared.volume.bytes());
            let (used, event) = self.requests.receive(self.received.bytes());
            self.received.start += used;
            match event {
                None => {}
                Some(Event::Closed(why)) => tracing::info!("a connection ends: {why}"),
                Some(Event::Refused(refused)) => {
                    self.shared.tell_impossible(refused.reason);
                    let head = self.replies.error(refused.cookie, refused.error, refused.reason);
                    self.connection.send([Reply::new(Head::Long(head.to_vec()), None, false)]);
                }
                Some(Event::Request(request)) => {
                    let job = self.take(request)?;
                    self.dispatch(job);
                }
            }
        }
        Ok(())
    }

    /// Receives more, and carries out hits and writes meanwhile. False: the client will send nothing more.
    fn fill(&mut self) -> Result<bool> {
        loop {
            self.hits.begin();
            self.reply();
            let filled = if self.hits.is_idle() {
                self.received.fill(&self.connection.stream)
            } else {
                let may_receive = self.hits.wait(Some(self.connection.stream.descriptor()))?;
                self.reply();
                if !may_receive {
                    continue;
                }
                self.received.fill_now(&self.connection.stream)
            };
            match filled {
                // A client may be silent between requests.
                Err(error) if is_time_up(&error) || error.kind() == ErrorKind::Interrupted => {}
                filled => return filled,
            }
        }
    }

    /// Sends the replies of requests that this thread has carried out.
    fn reply(&mut self) {
        self.connection.send(self.hits.replies());
    }

    /// Ends all requests under way that this thread carries out.
    fn settle(&mut self) -> Result<()> {
        self.hits.begin();
        while !self.hits.is_idle() {
            self.hits.wait(None)?;
        }
        self.reply();
        Ok(())
    }

    /// Makes the request's reservation, and receives its data.
    fn take(&mut self, request: Request) -> Result<Job> {
        let bytes = match request.command {
            Command::Read { length, .. } | Command::Write { length, .. } => length as usize,
            _ => 0,
        };
        let reserved = match Reserved::try_new(self.shared, &self.connection.limits, bytes) {
            Some(reserved) => reserved,
            None => {
                self.settle()?;
                Reserved::new(self.shared, &self.connection.limits, bytes)
            }
        };
        let mut job = Job::new(request, self.replies, reserved, self.connection);
        if let Command::Write { .. } = request.command {
            self.take_data(&mut job.reserved.data)?;
            self.requests.payload_taken(bytes);
        }
        job.is_sequential = self.shared.volume.follow(&mut self.streams, &request.command);
        Ok(job)
    }

    /// Receives the data of a write.
    fn take_data(&mut self, data: &mut [u8]) -> Result<()> {
        let here = self.received.bytes().len().min(data.len());
        data[..here].copy_from_slice(&self.received.bytes()[..here]);
        self.received.start += here;
        let mut at = here;
        while at < data.len() {
            let is_idle = self.hits.is_idle();
            if is_idle {
                // The client may wait for them before it sends the rest.
                self.reply();
            }
            let stream = &self.connection.stream;
            let received = match is_idle {
                true => stream.read(&mut data[at..]),
                false => stream.read_now(&mut data[at..]),
            };
            match received {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !self.hits.is_idle() => {
                    self.hits.begin();
                    self.hits.wait(Some(self.connection.stream.descriptor()))?;
                    self.reply();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives it to a worker. A read that needs no disk is not worth another thread if no request follows it,
    /// nor is a short change of a client that waits for each reply.
    fn dispatch(&mut self, job: Job) {
        let is_last = self.received.bytes().is_empty() && self.hits.is_idle();
        let is_alone = is_last && self.connection.limits.under_way() == 1;
        self.alone = if is_alone { self.alone.saturating_add(1) } else { 0 };
        let Err(job) = self.hits.take(job, is_alone) else { return };
        let is_cached = |(offset, length)| self.shared.volume.is_cached(offset, length);
        if is_last && job.is_small_read().is_some_and(is_cached) {
            self.reply();
            job.run();
        } else if self.alone > ONE_BY_ONE && job.is_small_change() {
            if !self.alone.is_multiple_of(LOOKS_ONE_OF) {
                job.run();
            } else if job.run_alone() {
                self.alone = 0;
            }
        } else {
            self.shared.queue.push(job);
        }
    }
}
