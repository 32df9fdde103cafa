//! A connection: its socket, what its requests may take, and its replies. The task that carried out a request
//! sends its reply.
//!
//! Invariant: a worker sends for [`PATIENCE`] only. If the client has not taken all by then, a thread of the
//! connection continues. So a client that does not read its replies occupies no worker.

use super::ServerOptions;
use super::limits::Limits;
use super::outgoing::{Outgoing, Reply, send_batch, were_sent};
use super::stream::Stream;
use entresol_runtime::spawn;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long a worker waits for a client that does not take its replies.
const PATIENCE: Duration = Duration::from_millis(20);

/// See the module's header.
pub(super) struct Connection {
    pub stream: Stream,
    outgoing: Outgoing,
    pub transfer_time_max: Duration,
    pub limits: Arc<Limits>,
    over: AtomicBool,
}

impl Connection {
    pub fn new(stream: Stream, options: &ServerOptions) -> Result<Self> {
        stream.prepare()?;
        Ok(Self {
            stream,
            outgoing: Outgoing::new(),
            transfer_time_max: options.transfer_time_max,
            limits: Arc::new(Limits::new(options)),
            over: AtomicBool::new(false),
        })
    }

    /// Whether its thread has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Its thread ends.
    pub fn ends(&self) {
        self.cut();
        self.over.store(true, SeqCst);
    }

    /// Requests under way are answered, and nothing more is received.
    pub fn receive_no_more(&self) {
        self.stream.shutdown(Shutdown::Read);
    }

    /// Ends it at once: unanswered requests stay unanswered.
    pub fn cut(&self) {
        self.stream.shutdown(Shutdown::Both);
    }

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
