//! The server's side of the NBD protocol as a sans-I/O state machine: no socket, no clock, no thread.
//!
//! Source: "The NBD protocol", doc/proto.md of NetworkBlockDevice/nbd; names of constants are the
//! specification's.
//!
//! A connection begins as a [`Handshake`]. When the client has chosen one of the [`Exports`], the handshake
//! is over and gives two parts: [`Requests`], which decodes the client's bytes and belongs to the thread that
//! receives, and [`Replies`], which encodes and may be copied to every thread that replies.
//!
//! ```text
//!  Handshake ── receive, output ──► Opened ──┬─► Requests: bytes of the client ──► Request, Refused, Closed
//!                                            └─► Replies:  head of a reply (the data of a read follows it)
//! ```
//!
//! The payload of a write and the data of a read are not given to this crate. The caller receives a payload
//! to where it belongs, and sends data from where it is, with the head before it.
//!
//! The supported protocol:
//!
//! - Fixed newstyle, with NO_ZEROES. Options EXPORT_NAME, ABORT, LIST, INFO, GO, STRUCTURED_REPLY,
//!   LIST_META_CONTEXT and SET_META_CONTEXT (`base:allocation`). All others are refused, STARTTLS too.
//! - Commands READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS and DISC, with FUA on each.
//! - Simple replies. After STRUCTURED_REPLY: structured replies to reads and block status, and for errors.
//! - Requests in units of the export's minimum block size. Others get EINVAL, also from clients that have not
//!   asked for the block sizes.
//!
//! Memory: a handshake has at most [`OPTION_BYTES_MAX`] for the option, 4 KiB for a name, and the replies to
//! one option. The transmission has none on the heap. The caller limits the requests under way: it stops
//! receiving, and may count before it takes a payload.
#![forbid(unsafe_code)]

mod closed;
mod export;
mod handshake;
mod options;
pub mod proto;
mod replies;
mod requests;
mod session;

pub use closed::Closed;
pub use export::{BlockSizes, Export, ExportError, ExportFault, Exports, REQUEST_BYTES_MAX};
pub use handshake::{Handshake, OPTION_BYTES_MAX, OPTIONS_MAX, Opened, Step};
pub use options::META_QUERIES_MAX;
pub use replies::{ERROR_TEXT_MAX, EXTENTS_MAX, ErrorCode, ErrorReply, Extent, Replies, ReplyHead};
pub use requests::{Command, Cookie, Event, REQUEST_HEAD_BYTES, Refused, Request, Requests, Wanted};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
