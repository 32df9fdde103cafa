//! The sending side of a connection.
//!
//! Invariants:
//!
//! - One task sends at a time; the replies of all others wait in a queue, in the order of their arrival.
//! - A worker sends for [`PATIENCE`] only. If the client has not taken all by then, a thread of the
//!   connection continues. So a client that does not read its replies occupies no worker.
//! - A reply keeps its request's reservation until it is sent, or its connection is at an end.

use super::connection::{Connection, Stream};
use super::job::Job;
use arrayvec::ArrayVec;
use entresol_runtime::spawn;
use entresol_runtime::sync::{Mutex, Rank};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a worker waits for a client that does not take its replies.
const PATIENCE: Duration = Duration::from_millis(20);
/// Most replies that are sent together.
const BATCH_MAX: usize = 32;

/// A reply on its way.
pub(super) struct Reply {
    pub head: Vec<u8>,
    /// Whose data follows the head, if it is the reply of a read; and what its request has reserved.
    pub of: Option<Job>,
    pub has_data: bool,
    /// Bytes sent so far.
    sent: usize,
}

impl Reply {
    pub fn new(head: Vec<u8>, of: Option<Job>, has_data: bool) -> Self {
        Self { head, of, has_data, sent: 0 }
    }

    fn parts(&self) -> [&[u8]; 2] {
        let data = self.of.as_ref().filter(|_| self.has_data).map_or(&[][..], |job| &job.data);
        let of_head = self.sent.min(self.head.len());
        [&self.head[of_head..], &data[self.sent - of_head..]]
    }
}

/// Replies of a connection that wait to be sent.
pub(super) struct Outgoing(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Reply>,
    /// A task sends.
    is_sent: bool,
    /// Nothing can be sent any more.
    is_broken: bool,
}

impl Outgoing {
    pub fn new() -> Self {
        Self(Mutex::new(Rank::Reply, State::default()))
    }

    /// Adds replies. True: the caller has to send all that wait, by [`Connection::send_waiting`].
    fn add(&self, replies: impl Iterator<Item = Reply>) -> bool {
        let mut state = self.0.lock();
        if state.is_broken {
            // Dropped after the lock is released.
            drop(state);
            replies.for_each(drop);
            return false;
        }
        state.waiting.extend(replies);
        !state.waiting.is_empty() && !std::mem::replace(&mut state.is_sent, true)
    }

    /// The next replies to send, after the rest of `batch`. If there are none, no task sends any more.
    fn next(&self, batch: &mut VecDeque<Reply>) {
        let mut state = self.0.lock();
        let count = state.waiting.len().min(BATCH_MAX - batch.len());
        batch.extend(state.waiting.drain(..count));
        state.is_sent = !batch.is_empty();
    }

    /// Nothing can be sent any more.
    fn breaks(&self) {
        let mut state = self.0.lock();
        (state.is_broken, state.is_sent) = (true, false);
        let unsent = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unsent);
    }
}

/// Sends `parts`, at least one byte of them, if the client takes any within `time_max`.
fn send_some(stream: &Stream, parts: &[IoSlice<'_>], time_max: Duration) -> Result<usize> {
    loop {
        match stream.send_now(parts) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !stream.wait_to_send(time_max)? {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

/// Sends some of the replies, as [`send_some`].
fn send_batch(stream: &Stream, batch: &VecDeque<Reply>, time_max: Duration) -> Result<usize> {
    let parts = batch.iter().flat_map(Reply::parts).map(IoSlice::new);
    send_some(stream, &parts.collect::<ArrayVec<_, { 2 * BATCH_MAX }>>(), time_max)
}

/// `count` bytes of the replies were sent: those that were sent whole are at an end.
fn were_sent(batch: &mut VecDeque<Reply>, mut count: usize) {
    while let Some(reply) = batch.front_mut() {
        let left = reply.parts().iter().map(|part| part.len()).sum::<usize>();
        if count < left {
            reply.sent += count;
            return;
        }
        count -= left;
        batch.pop_front();
    }
}

/// Sends all of `bytes`, waiting for at most `time_max` without progress.
pub(super) fn send_all(stream: &Stream, mut bytes: &[u8], time_max: Duration) -> Result<()> {
    while !bytes.is_empty() {
        let sent = send_some(stream, &[IoSlice::new(bytes)], time_max)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

impl Connection {
    /// Sends replies, or queues them for the task that sends. If it fails the connection is at an end.
    pub fn send(self: &Arc<Self>, replies: impl IntoIterator<Item = Reply>) {
        if self.outgoing.add(replies.into_iter()) {
            self.send_waiting(VecDeque::new(), Some(Instant::now() + PATIENCE));
        }
    }

    /// Sends the rest of `batch` and all waiting replies, until `deadline`; then a thread continues.
    fn send_waiting(self: &Arc<Self>, mut batch: VecDeque<Reply>, deadline: Option<Instant>) {
        loop {
            self.outgoing.next(&mut batch);
            if batch.is_empty() {
                return;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let time_max = left.unwrap_or(self.transfer_time_max);
            match send_batch(&self.stream, &batch, time_max) {
                Ok(count) => were_sent(&mut batch, count),
                Err(error) if error.kind() == ErrorKind::TimedOut && left.is_some() => {
                    let this = self.clone();
                    drop(spawn("block sender", move || this.send_waiting(batch, None)));
                    return;
                }
                Err(error) => return self.breaks(&error),
            }
        }
    }

    fn breaks(&self, error: &Error) {
        tracing::info!("a connection has ended: {error}");
        self.outgoing.breaks();
        self.cut();
    }
}
