//! Carrying out a request, and its reply.

use super::Shared;
use super::connection::Connection;
use super::limits::Reserved;
use super::outgoing::{Head, Reply};
use super::ublk;
use entresol_nbd::{Command, ErrorCode, Replies, Request};
use entresol_runtime::sync::{Condvar, Mutex, Rank};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Longest read, and write, that the thread may carry out that receives.
const SMALL_BYTES_MAX: u32 = 64 << 10;

/// A request that was received whole.
pub(super) struct Job {
    pub request: Request,
    /// It is of a long sequential stream.
    pub is_sequential: bool,
    pub replies: Replies,
    /// With its data.
    pub reserved: Reserved,
    connection: Arc<Connection>,
}

impl Job {
    pub fn new(request: Request, replies: Replies, reserved: Reserved, connection: &Arc<Connection>) -> Self {
        Self { request, is_sequential: false, replies, reserved, connection: connection.clone() }
    }

    /// The connection that it came over.
    pub fn connection(&self) -> Arc<Connection> {
        self.connection.clone()
    }

    /// Whether both came over the same connection.
    pub fn is_of_connection_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.connection, &other.connection)
    }

    /// The range that it reads, if that is short and not of a long sequential stream.
    pub fn is_small_read(&self) -> Option<(u64, u64)> {
        match self.request.command {
            Command::Read { offset, length, .. } if length <= SMALL_BYTES_MAX && !self.is_sequential => {
                Some((offset, length.into()))
            }
            _ => None,
        }
    }

    /// The range that it writes, if that is short and need not be durable.
    pub fn is_small_write(&self) -> Option<(u64, u64)> {
        match self.request.command {
            Command::Write { offset, length, fua: false, .. } if length <= SMALL_BYTES_MAX => {
                Some((offset, length.into()))
            }
            _ => None,
        }
    }

    /// A flush or a short write.
    pub fn is_small_change(&self) -> bool {
        match self.request.command {
            Command::Write { length, .. } => length <= SMALL_BYTES_MAX,
            Command::Flush => true,
            _ => false,
        }
    }

    /// The reply of a read whose data is there, or of a write that was made, which was not carried out by
    /// [`Job::run`].
    pub fn into_reply(self) -> Reply {
        self.reserved.shared.counts.count(self.request.command);
        let (head, has_data) = (self.done(), self.has_data());
        Reply::new(head, Some(self.reserved), has_data)
    }

    /// Whether the data follows the head of its reply.
    fn has_data(&self) -> bool {
        matches!(self.request.command, Command::Read { .. })
    }

    /// Carries it out and replies. The reply of a request that panics is the end of its connection.
    pub fn run(self) {
        self.run_before(|_| ());
    }

    /// As [`Job::run`]. Whether the client had sent more before it was answered.
    pub fn run_alone(self) -> bool {
        let mut has_more = false;
        self.run_before(|connection| has_more = connection.stream.has_arrived());
        has_more
    }

    fn run_before(mut self, reply: impl FnOnce(&Connection)) {
        let done = catch_unwind(AssertUnwindSafe(|| self.carry_out()));
        let Self { reserved, connection, .. } = self;
        reply(&connection);
        match done {
            Ok((head, has_data)) => connection.send([Reply::new(head, Some(reserved), has_data)]),
            Err(_) => connection.cut(),
        }
    }

    /// The head of the reply, and whether the data follows.
    fn carry_out(&mut self) -> (Head, bool) {
        let (cookie, replies) = (self.request.cookie, self.replies);
        let Reserved { shared, data, .. } = &mut self.reserved;
        match shared.carry_out(self.request.command, self.is_sequential, data) {
            Err(error) => {
                let code = match () {
                    () if error.is_of_the_request() => ErrorCode::Inval,
                    () if error.is_no_space() => ErrorCode::NoSpc,
                    () => ErrorCode::Io,
                };
                (Head::Long(replies.error(cookie, code, &shared.volume.told(&error)).to_vec()), false)
            }
            Ok(()) => (self.done(), self.has_data()),
        }
    }

    /// The head of the reply when it is carried out.
    fn done(&self) -> Head {
        let (cookie, replies) = (self.request.cookie, self.replies);
        match self.request.command {
            Command::Read { offset, length, .. } => Head::Short(replies.read(cookie, offset, length)),
            Command::BlockStatus { length, one, .. } => {
                let mut status = Vec::new();
                // Everything may be data, which is always true.
                replies.block_status(cookie, (length, one), [], &mut status);
                Head::Long(status)
            }
            _ => Head::Short(replies.done(cookie)),
        }
    }
}

/// A unit of work for a worker: a request of an NBD client, or of the kernel's driver, what makes room for
/// more, or what writes past the flash wait for.
pub(super) enum Work {
    Nbd(Job),
    Ublk(ublk::Job),
    Settle,
    Voids,
}

impl From<Job> for Work {
    fn from(job: Job) -> Self {
        Self::Nbd(job)
    }
}

impl From<ublk::Job> for Work {
    fn from(job: ublk::Job) -> Self {
        Self::Ublk(job)
    }
}

/// Requests that wait for a worker.
pub(super) struct Queue {
    state: Mutex<(VecDeque<Work>, bool)>,
    changed: Condvar,
}

impl Queue {
    pub fn new() -> Self {
        Self { state: Mutex::new(Rank::RequestQueue, (VecDeque::new(), false)), changed: Condvar::new() }
    }

    pub fn push(&self, work: impl Into<Work>) {
        self.state.lock().0.push_back(work.into());
        self.changed.notify_one();
    }

    /// The workers end when all requests are done.
    pub fn close(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }

    /// A worker.
    pub fn work(&self, shared: &Arc<Shared>) {
        let mut own = None;
        loop {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |(jobs, closed)| jobs.is_empty() && !*closed);
            let Some(work) = state.0.pop_front() else { return };
            drop(state);
            match work {
                Work::Nbd(job) => job.run(),
                Work::Ublk(job) => job.run(),
                Work::Settle => shared.settle(),
                Work::Voids => shared.carry_out_voids(&mut own),
            }
        }
    }
}
