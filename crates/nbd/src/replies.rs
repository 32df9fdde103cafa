//! The replies of the transmission phase.
//!
//! The data of a read is not given to [`Replies`]: the caller sends it after the head, with one `writev`.
//! Invariant: no allocation but in [`Replies::block_status`].

use crate::proto::*;
use crate::requests::Cookie;
use arrayvec::ArrayVec;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

/// The number of `base:allocation` in block status replies.
pub(crate) const ALLOCATION_CONTEXT: u32 = 1;

/// Longest text of an error, in bytes. The rest is cut off.
pub const ERROR_TEXT_MAX: usize = 230;
/// Most extents of a block status.
pub const EXTENTS_MAX: usize = 1024;

/// A reply's head, to be sent before the data.
pub type ReplyHead = ArrayVec<u8, 28>;
/// An error, whole.
pub type ErrorReply = ArrayVec<u8, 256>;

/// Errors of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// `NBD_EPERM`: the export is read-only.
    Perm = 1,
    /// `NBD_EIO`: a device has failed.
    Io = 5,
    /// `NBD_ENOMEM`: there is no memory for the request.
    NoMem = 12,
    /// `NBD_EINVAL`: the client may not ask for this.
    Inval = 22,
    /// `NBD_ENOSPC`: the write does not fit.
    NoSpc = 28,
    /// `NBD_EOVERFLOW`: the reply does not fit in one piece.
    Overflow = 75,
    /// `NBD_ENOTSUP`: zeros cannot be written fast.
    NotSup = 95,
    /// `NBD_ESHUTDOWN`: the server shuts down.
    Shutdown = 108,
}

/// A range with one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length in bytes.
    pub bytes: u64,
    /// It is not allocated (`NBD_STATE_HOLE`).
    pub hole: bool,
    /// It reads as zeros (`NBD_STATE_ZERO`).
    pub zero: bool,
}

impl Extent {
    fn flags(&self) -> u32 {
        (if self.hole { NBD_STATE_HOLE } else { 0 }) | (if self.zero { NBD_STATE_ZERO } else { 0 })
    }
}

/// Encodes the replies of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    structured: bool,
}

impl Replies {
    pub(crate) fn new(structured: bool) -> Self {
        Self { structured }
    }

    /// Whether the client has negotiated structured replies.
    pub fn is_structured(&self) -> bool {
        self.structured
    }

    /// A success without data: of all commands but reads and block status.
    pub fn done(&self, cookie: Cookie) -> ReplyHead {
        head(&simple(cookie, 0))
    }

    /// The head of a whole read: `length` bytes of data follow. Once it was sent, an error can only be told
    /// by closing the connection.
    #[inline]
    pub fn read(&self, cookie: Cookie, offset: u64, length: u32) -> ReplyHead {
        if self.structured { self.read_part(cookie, offset, length, true) } else { head(&simple(cookie, 0)) }
    }

    /// The head of a part of a read that is not [`whole`](crate::Command::Read::whole): `length` bytes of
    /// data follow. Parts do not overlap, and may be sent in any order. Instead of the last one, an error may
    /// be sent.
    ///
    /// # Panics
    /// If structured replies were not negotiated: all reads are whole then.
    #[inline]
    pub fn read_part(&self, cookie: Cookie, offset: u64, length: u32, last: bool) -> ReplyHead {
        assert!(self.structured, "a part of a read was sent to a client that cannot take it");
        let data_bytes = length as usize + size_of::<U64>();
        let chunk = chunk(cookie, NBD_REPLY_TYPE_OFFSET_DATA, data_bytes, last);
        head(&RawDataChunk { chunk, offset: U64::new(offset) })
    }

    /// An error. Only clients with structured replies get the text.
    pub fn error(&self, cookie: Cookie, error: ErrorCode, text: &str) -> ErrorReply {
        let mut reply = ErrorReply::new();
        if !self.structured {
            append(&mut reply, simple(cookie, error as u32).as_bytes());
            return reply;
        }
        let text = &text[..text.floor_char_boundary(ERROR_TEXT_MAX)];
        let fixed_bytes = size_of::<RawErrorChunk>() - size_of::<RawChunk>();
        let raw = RawErrorChunk {
            chunk: chunk(cookie, NBD_REPLY_TYPE_ERROR, fixed_bytes + text.len(), true),
            error: U32::new(error as u32),
            text_bytes: U16::new(text.len() as u16),
        };
        append(&mut reply, raw.as_bytes());
        append(&mut reply, text.as_bytes());
        reply
    }

    /// Appends a whole block status to `out`. The extents follow each other from the offset of the request,
    /// which had `length` and `one`. Neighbours with the same state are merged, and the last one is cut at
    /// the end of the request. Without extents, the range is data, which is always true.
    ///
    /// # Panics
    /// If structured replies were not negotiated: no request has asked for the status then.
    pub fn block_status(
        &self,
        cookie: Cookie,
        (length, one): (u32, bool),
        extents: impl IntoIterator<Item = Extent>,
        out: &mut Vec<u8>,
    ) {
        assert!(self.structured, "a block status was sent to a client that cannot take it");
        let extents_max = if one { 1 } else { EXTENTS_MAX };
        let begin = out.len();
        out.resize(begin + size_of::<RawStatusChunk>(), 0);
        let mut left = length;
        let mut open = RawExtent { length: U32::ZERO, flags: U32::ZERO };
        let mut count = 0;
        for extent in extents {
            let bytes = u32::try_from(extent.bytes).map_or(left, |bytes| bytes.min(left));
            if left == 0 {
                break;
            }
            if bytes == 0 {
                continue;
            }
            if open.length.get() == 0 || open.flags.get() != extent.flags() {
                if count == extents_max {
                    break;
                }
                if open.length.get() > 0 {
                    out.extend_from_slice(open.as_bytes());
                }
                count += 1;
                open = RawExtent { length: U32::ZERO, flags: U32::new(extent.flags()) };
            }
            open.length += bytes;
            left -= bytes;
        }
        if open.length.get() == 0 {
            open.length.set(length);
        }
        out.extend_from_slice(open.as_bytes());
        let data_bytes = out.len() - begin - size_of::<RawChunk>();
        let raw = RawStatusChunk {
            chunk: chunk(cookie, NBD_REPLY_TYPE_BLOCK_STATUS, data_bytes, true),
            context: U32::new(ALLOCATION_CONTEXT),
        };
        out[begin..][..size_of::<RawStatusChunk>()].copy_from_slice(raw.as_bytes());
    }
}

fn simple(cookie: Cookie, error: u32) -> RawSimpleReply {
    RawSimpleReply { magic: U32::new(NBD_SIMPLE_REPLY_MAGIC), error: U32::new(error), cookie: cookie.0 }
}

/// A chunk of `data_bytes` after its head.
fn chunk(cookie: Cookie, kind: u16, data_bytes: usize, last: bool) -> RawChunk {
    RawChunk {
        magic: U32::new(NBD_STRUCTURED_REPLY_MAGIC),
        flags: U16::new(if last { NBD_REPLY_FLAG_DONE } else { 0 }),
        kind: U16::new(kind),
        cookie: cookie.0,
        length: U32::new(u32::try_from(data_bytes).expect("replies are shorter than 4 GiB")),
    }
}

fn head<T: IntoBytes + Immutable>(raw: &T) -> ReplyHead {
    let mut head = ReplyHead::new();
    append(&mut head, raw.as_bytes());
    head
}

fn append<const N: usize>(reply: &mut ArrayVec<u8, N>, bytes: &[u8]) {
    reply.try_extend_from_slice(bytes).expect("the longest reply has room");
}
