//! The sending side of a connection.
//!
//! Invariants:
//!
//! - One task sends at a time; the replies of all others wait in a queue, in the order in which they came.
//! - A worker sends for [`PATIENCE`] only. If the client has not taken all by then, a thread of the
//!   connection goes on. So a client that does not read its replies keeps no worker from other clients.
//! - A reply keeps what its request has reserved until it is sent, or its connection is at an end.

use super::connection::{Connection, Stream};
use super::job::Job;
use entresol_runtime::spawn;
use entresol_runtime::sync::{Mutex, Rank};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a worker waits for a client that does not take its replies.
const PATIENCE: Duration = Duration::from_millis(20);

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

    /// Adds a reply. True: the caller has to send all that wait, by [`Outgoing::send`].
    fn add(&self, reply: Reply) -> bool {
        let mut state = self.0.lock();
        if state.is_broken {
            // Dropped after the lock is released.
            drop(state);
            drop(reply);
            return false;
        }
        state.waiting.push_back(reply);
        !std::mem::replace(&mut state.is_sent, true)
    }

    /// The next reply to send. `None`: there is none, and nobody sends any more.
    fn next(&self) -> Option<Reply> {
        let mut state = self.0.lock();
        let next = state.waiting.pop_front();
        state.is_sent = next.is_some();
        next
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
fn send_some(stream: &Stream, parts: &[&[u8]], time_max: Duration) -> Result<usize> {
    let parts = parts.iter().map(|part| IoSlice::new(part)).collect::<Vec<_>>();
    loop {
        match stream.send_now(&parts) {
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

/// Sends all of `bytes`, waiting for at most `time_max` without progress.
pub(super) fn send_all(stream: &Stream, mut bytes: &[u8], time_max: Duration) -> Result<()> {
    while !bytes.is_empty() {
        let sent = send_some(stream, &[bytes], time_max)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

impl Connection {
    /// Sends a reply, or leaves that to the task that sends. If it fails the connection is at an end.
    pub fn send(self: &Arc<Self>, reply: Reply) {
        if self.outgoing.add(reply) {
            self.send_waiting(None, Some(Instant::now() + PATIENCE));
        }
    }

    /// Sends `first` and all replies that wait, until `deadline`; then a thread goes on.
    fn send_waiting(self: &Arc<Self>, first: Option<Reply>, deadline: Option<Instant>) {
        let mut next = first;
        while let Some(mut reply) = next.or_else(|| self.outgoing.next()) {
            while reply.parts().iter().any(|part| !part.is_empty()) {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                let time_max = left.unwrap_or(self.transfer_time_max);
                match send_some(&self.stream, &reply.parts(), time_max) {
                    Ok(count) => reply.sent += count,
                    Err(error) if error.kind() == ErrorKind::TimedOut && left.is_some() => {
                        let this = self.clone();
                        drop(spawn("block sender", move || this.send_waiting(Some(reply), None)));
                        return;
                    }
                    Err(error) => return self.breaks(&error),
                }
            }
            next = None;
        }
    }

    fn breaks(&self, error: &Error) {
        tracing::info!("a connection has ended: {error}");
        self.outgoing.breaks();
        self.cut();
    }
}
