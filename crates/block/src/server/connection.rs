//! A connection. One thread receives: the handshake, then requests. The task that carried out a request sends
//! its reply.

use super::outgoing::{Outgoing, send_all};
use super::receive::Receiver;
use super::{ServerOptions, Shared};
use entresol_device::BufferPool;
use entresol_nbd::{Handshake, Opened, REQUEST_BYTES_MAX, Step};
use entresol_runtime::sync::{Rank, Semaphore};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::io::{Error, ErrorKind, IoSlice, Read, Result};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 64 << 10;
/// Bytes of a reused buffer: enough for frequent reads and writes.
const POOLED_BYTES: usize = 16 << 10;
/// Buffers that are kept.
const POOLED_MAX: usize = 64;

/// No connection reserves more than this part of the bytes for all: so a client that does not read its
/// replies cannot take all.
const SHARES: usize = 4;

/// The socket of a client.
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

macro_rules! of_both {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
        }
    };
}

impl Stream {
    fn prepare(&self) -> Result<()> {
        if let Stream::Tcp(stream) = self {
            stream.set_nodelay(true)?;
        }
        of_both!(self, stream => stream.set_nonblocking(false))
    }

    fn set_read_timeout(&self, time_max: Duration) -> Result<()> {
        of_both!(self, stream => stream.set_read_timeout(Some(time_max)))
    }

    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        of_both!(self, stream => (&mut &*stream).read(buffer))
    }

    /// Receives the bytes that have arrived; `WouldBlock` if there are none.
    pub fn read_now(&self, buffer: &mut [u8]) -> Result<usize> {
        let (count, _) = of_both!(self, stream => recv(stream, buffer, RecvFlags::DONTWAIT))?;
        Ok(count)
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        of_both!(self, stream => stream.as_fd())
    }

    /// Sends as much as the client takes at once; `WouldBlock` if that is nothing.
    pub fn send_now(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut none = SendAncillaryBuffer::default();
        of_both!(self, stream => Ok(sendmsg(stream, parts, &mut none, flags)?))
    }

    /// Waits until the client takes something. False: `time_max` is up.
    pub fn wait_to_send(&self, time_max: Duration) -> Result<bool> {
        let time_max =
            Timespec { tv_sec: time_max.as_secs() as i64, tv_nsec: time_max.subsec_nanos().into() };
        let mut sources = of_both!(self, stream => [PollFd::new(stream, PollFlags::OUT)]);
        match poll(&mut sources, Some(&time_max)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn shutdown(&self, how: Shutdown) {
        // One that is gone needs none.
        let _ = of_both!(self, stream => stream.shutdown(how));
    }
}

/// See the module's header.
pub(super) struct Connection {
    pub stream: Stream,
    pub outgoing: Outgoing,
    pub transfer_time_max: Duration,
    /// Requests that may still begin, and their bytes.
    pub requests: Semaphore,
    pub bytes: Semaphore,
    pub buffers: BufferPool,
    over: AtomicBool,
}

/// The limits of a surplus connection: bytes and time.
const REFUSED_BYTES: usize = 4096;
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes that were received and not used.
pub(super) struct Received {
    buffer: Vec<u8>,
    pub start: usize,
    end: usize,
}

impl Received {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Receives more when all was used. False: the client will send nothing more.
    pub fn fill(&mut self, stream: &Stream) -> Result<bool> {
        let count = stream.read(&mut self.buffer)?;
        (self.start, self.end) = (0, count);
        Ok(count > 0)
    }

    /// As [`Received::fill`]; `WouldBlock` if nothing has arrived.
    pub fn fill_now(&mut self, stream: &Stream) -> Result<bool> {
        let count = stream.read_now(&mut self.buffer)?;
        (self.start, self.end) = (0, count);
        Ok(count > 0)
    }
}

pub(super) fn is_time_up(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Connection {
    pub fn new(stream: Stream, options: &ServerOptions) -> Result<Self> {
        stream.prepare()?;
        let share = options.in_flight_bytes_max / SHARES;
        Ok(Self {
            stream,
            outgoing: Outgoing::new(),
            transfer_time_max: options.transfer_time_max,
            requests: Semaphore::new(Rank::InFlight, options.requests_max),
            bytes: Semaphore::new(Rank::InFlight, share.max(REQUEST_BYTES_MAX as usize)),
            buffers: BufferPool::new(POOLED_BYTES, POOLED_MAX),
            over: AtomicBool::new(false),
        })
    }

    /// Whether its thread has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Requests under way are answered, and nothing more is received.
    pub fn receive_no_more(&self) {
        self.stream.shutdown(Shutdown::Read);
    }

    /// Ends it at once: unanswered requests stay unanswered.
    pub fn cut(&self) {
        self.stream.shutdown(Shutdown::Both);
    }

    /// The thread of a connection too many: the client is told so, if it asks for something soon.
    pub fn refuse(&self, shared: &Shared) {
        let mut handshake = Handshake::new();
        handshake.refuse_connection();
        let mut received = Received { buffer: vec![0; REFUSED_BYTES], start: 0, end: 0 };
        // A client that is gone needs no answer.
        let _ = self.shake_hands(shared, handshake, REFUSAL_TIME_MAX, &mut received);
        self.cut();
        self.over.store(true, SeqCst);
    }

    /// The thread of the connection.
    pub fn serve(self: &Arc<Self>, shared: &Arc<Shared>) {
        let mut received = Received { buffer: vec![0; RECEIVE_BYTES], start: 0, end: 0 };
        let time_max = shared.options.handshake_time_max;
        match self.shake_hands(shared, Handshake::new(), time_max, &mut received) {
            Ok(Some(opened)) => {
                if let Err(error) = self.receive(shared, opened, received) {
                    tracing::info!("a connection has ended: {error}");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::info!("a handshake has ended: {error}"),
        }
        // Requests under way hold on to the connection; all of them have been answered after this.
        drop(self.requests.acquire(shared.options.requests_max));
        self.cut();
        self.over.store(true, SeqCst);
    }

    fn shake_hands(
        &self,
        shared: &Shared,
        mut handshake: Handshake,
        time_max: Duration,
        received: &mut Received,
    ) -> Result<Option<Opened>> {
        let deadline = Instant::now() + time_max;
        let mut last = None;
        loop {
            let output = handshake.output();
            send_all(&self.stream, output, self.transfer_time_max)?;
            let count = output.len();
            handshake.sent(count);
            match last.take() {
                Some(Step::Opened(opened)) => return Ok(Some(opened)),
                Some(Step::Closed(_)) => return Ok(None),
                _ => {}
            }
            if received.bytes().is_empty() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                self.stream.set_read_timeout(left)?;
                if !received.fill(&self.stream)? {
                    return Ok(None);
                }
            }
            let (used, step) = handshake.receive(received.bytes(), &shared.exports);
            received.start += used;
            last = Some(step);
        }
    }

    /// Receives requests until the client ends, or breaks the protocol. A request that panics is the end of
    /// its connection.
    fn receive(self: &Arc<Self>, shared: &Arc<Shared>, opened: Opened, received: Received) -> Result<()> {
        self.stream.set_read_timeout(shared.options.transfer_time_max)?;
        let run = || Receiver::new(self, shared, opened, received).run();
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Error::other("a request panicked")))
    }
}
