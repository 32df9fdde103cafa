//! The requests of the transmission phase.
//!
//! The payload of a write is not given to [`Requests`]: after the event the caller takes it from the stream,
//! from the bytes already received or directly from the socket, to its destination. So payloads are copied at
//! most as far as they were received together with requests.
//!
//! Invariants:
//!
//! 1. A request is reported once, in the order of the stream, and only if the handshake has agreed to it.
//! 2. The payload of a refused write is skipped, and never taken for requests.
//! 3. No allocation.

use crate::closed::Closed;
use crate::proto::*;
use crate::replies::ErrorCode;
use crate::session::Session;
use zerocopy::FromBytes;

/// Bytes of a request's head.
pub const REQUEST_HEAD_BYTES: usize = size_of::<RawRequest>();

/// The client's name for a request; its reply carries it. A client may use one several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub [u8; 8]);

/// A client's request. Offsets and lengths are in bytes, inside the export, multiples of its minimum block
/// size; no length is 0. Those of reads and writes are at most its maximum block size, the others below 4
/// GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reply with the data.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// One reply has all data: [`crate::Replies::read`], not [`crate::Replies::read_part`].
        whole: bool,
    },
    /// Write the payload of `length` bytes, which follows in the stream.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Reply after it is durable.
        fua: bool,
    },
    /// Reply after all writes are durable that were replied to.
    Flush,
    /// The content is not needed any more.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Reply after it is durable.
        fua: bool,
    },
    /// Write zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Reply after it is durable.
        fua: bool,
        /// The space stays allocated.
        no_hole: bool,
        /// Reply [`ErrorCode::NotSup`] at once if it would not be faster than writing.
        fast: bool,
    },
    /// Reads of the range will follow.
    Cache {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Reply with the extents of `base:allocation`.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Reply with one extent only.
        one: bool,
    },
}

/// A request. Requests may be carried out and replied to in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// For the reply.
    pub cookie: Cookie,
    /// What to do.
    pub command: Command,
}

/// A request that is not carried out: the caller replies with [`crate::Replies::error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// For the reply.
    pub cookie: Cookie,
    /// For the reply.
    pub error: ErrorCode,
    /// For the reply, and for people.
    pub reason: &'static str,
}

/// The next item in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Carry it out.
    Request(Request),
    /// Reply with its error.
    Refused(Refused),
    /// Nothing more is received.
    Closed(Closed),
}

/// The meaning of the next bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// At least this many bytes for the next request: give them to [`Requests::receive`].
    Request(usize),
    /// So many bytes of a write's payload: take them to where they belong, and call
    /// [`Requests::payload_taken`].
    Payload(usize),
    /// So many bytes of the payload of a refused write: give them to [`Requests::receive`].
    Skipped(usize),
    /// The stream has ended.
    Nothing,
}

/// Decodes the requests of a connection.
#[derive(Debug)]
pub struct Requests {
    session: Session,
    /// The part of a head that was received.
    head: [u8; REQUEST_HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the payload that were not received yet.
    payload: u32,
    /// The payload is that of a refused write.
    skipping: bool,
    ended: bool,
}

impl Requests {
    pub(crate) fn new(session: Session) -> Self {
        let head = [0; REQUEST_HEAD_BYTES];
        Self { session, head, head_bytes: 0, payload: 0, skipping: false, ended: false }
    }

    /// The export has so many bytes now: requests for them are admitted. The protocol tells the client
    /// nothing, but a client may know, as the driver of a kernel that was told another size. An export never
    /// shrinks.
    #[inline]
    pub fn grow(&mut self, bytes: u64) {
        self.session.bytes = self.session.bytes.max(bytes);
    }

    /// The meaning of the next bytes of the stream.
    pub fn wanted(&self) -> Wanted {
        match self.payload as usize {
            _ if self.ended => Wanted::Nothing,
            0 => Wanted::Request(REQUEST_HEAD_BYTES - self.head_bytes),
            payload if self.skipping => Wanted::Skipped(payload),
            payload => Wanted::Payload(payload),
        }
    }

    /// The caller has taken `bytes` of a payload from the stream.
    ///
    /// # Panics
    /// If the payload is shorter, or that of a refused write.
    pub fn payload_taken(&mut self, bytes: usize) {
        assert!(
            bytes <= self.payload as usize && !self.skipping,
            "{bytes} bytes of a payload taken, where {:?} is wanted",
            self.wanted()
        );
        self.payload -= bytes as u32;
    }

    /// Takes bytes from the client: says how many of `bytes` were consumed, and the next event, if they have
    /// one. Bytes after it are not consumed. After a write, the caller takes its payload before it calls
    /// again.
    ///
    /// # Panics
    /// If the payload of a write was not taken from the stream.
    #[inline]
    pub fn receive(&mut self, bytes: &[u8]) -> (usize, Option<Event>) {
        if self.ended {
            return (0, None);
        }
        let skipped = if self.payload > 0 { self.skip(bytes.len()) } else { 0 };
        let bytes = &bytes[skipped..];
        if self.head_bytes == 0
            && let Ok((raw, _)) = RawRequest::ref_from_prefix(bytes)
        {
            return (skipped + REQUEST_HEAD_BYTES, Some(self.decide(raw)));
        }
        let taken = bytes.len().min(REQUEST_HEAD_BYTES - self.head_bytes);
        self.head[self.head_bytes..][..taken].copy_from_slice(&bytes[..taken]);
        self.head_bytes += taken;
        if self.head_bytes < REQUEST_HEAD_BYTES {
            return (skipped + taken, None);
        }
        self.head_bytes = 0;
        let raw: RawRequest = zerocopy::transmute!(self.head);
        (skipped + taken, Some(self.decide(&raw)))
    }

    /// Skips up to `available` bytes of the payload of a refused write.
    fn skip(&mut self, available: usize) -> usize {
        assert!(self.skipping, "{} bytes of a payload were not taken", self.payload);
        let skipped = available.min(self.payload as usize);
        self.payload -= skipped as u32;
        self.skipping = self.payload > 0;
        skipped
    }

    #[inline]
    fn decide(&mut self, raw: &RawRequest) -> Event {
        if raw.magic.get() != NBD_REQUEST_MAGIC {
            self.ended = true;
            return Event::Closed(Closed::RequestMagic { found: raw.magic.get() });
        }
        if raw.command.get() == NBD_CMD_DISC {
            self.ended = true;
            return Event::Closed(Closed::Disconnected);
        }
        let admitted = self.session.admit(raw);
        if raw.command.get() == NBD_CMD_WRITE {
            self.payload = raw.length.get();
            self.skipping = admitted.is_err() && self.payload > 0;
        }
        match admitted {
            Ok(command) => Event::Request(Request { cookie: Cookie(raw.cookie), command }),
            Err(refused) => Event::Refused(refused),
        }
    }
}
