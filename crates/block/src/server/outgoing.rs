//! Replies that wait to be sent, in the order of their arrival.
//!
//! Invariants:
//!
//! - One task sends at a time; the replies of all others wait.
//! - A reply keeps its request's reservation until it is sent, or its connection is at an end.

use super::limits::Reserved;
use super::stream::{Stream, send_some};
use arrayvec::ArrayVec;
use entresol_nbd::ReplyHead;
use entresol_runtime::sync::{Mutex, Rank};
use std::collections::VecDeque;
use std::io::{IoSlice, Result};
use std::time::Duration;

/// Most replies that are sent together.
const BATCH_MAX: usize = 32;

/// What a reply begins with.
pub(super) enum Head {
    /// Of most replies.
    Short(ReplyHead),
    /// An error, or the status of blocks.
    Long(Vec<u8>),
}

impl Head {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(head) => head,
            Self::Long(head) => head,
        }
    }
}

/// A reply on its way.
pub(super) struct Reply {
    head: Head,
    /// What its request has reserved. Its data follows the head, if it is the reply of a read.
    of: Option<Reserved>,
    has_data: bool,
    /// Bytes sent so far.
    sent: usize,
}

impl Reply {
    pub fn new(head: Head, of: Option<Reserved>, has_data: bool) -> Self {
        Self { head, of, has_data, sent: 0 }
    }

    fn parts(&self) -> [&[u8]; 2] {
        let data = self.of.as_ref().filter(|_| self.has_data).map_or(&[][..], |reserved| &reserved.data);
        let head = self.head.bytes();
        let of_head = self.sent.min(head.len());
        [&head[of_head..], &data[self.sent - of_head..]]
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

    /// Adds replies. True: the caller has to send all that wait, by [`super::connection::Connection`].
    pub fn add(&self, replies: impl Iterator<Item = Reply>) -> bool {
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
    pub fn next(&self, batch: &mut VecDeque<Reply>) {
        let mut state = self.0.lock();
        let count = state.waiting.len().min(BATCH_MAX - batch.len());
        batch.extend(state.waiting.drain(..count));
        state.is_sent = !batch.is_empty();
    }

    /// Nothing can be sent any more.
    pub fn breaks(&self) {
        let mut state = self.0.lock();
        (state.is_broken, state.is_sent) = (true, false);
        let unsent = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unsent);
    }
}

/// Sends some of the replies, as [`send_some`].
pub(super) fn send_batch(stream: &Stream, batch: &VecDeque<Reply>, time_max: Duration) -> Result<usize> {
    let parts = batch.iter().flat_map(Reply::parts).map(IoSlice::new);
    send_some(stream, &parts.collect::<ArrayVec<_, { 2 * BATCH_MAX }>>(), time_max)
}

/// `count` bytes of the replies were sent: those that were sent whole are at an end.
pub(super) fn were_sent(batch: &mut VecDeque<Reply>, mut count: usize) {
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
