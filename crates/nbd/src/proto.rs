//! Numbers and messages of the protocol, under the specification's names. All fields are in network order.
//!
//! Source: "The NBD protocol", doc/proto.md of NetworkBlockDevice/nbd.

#![allow(missing_docs, reason = "the specification documents its names")]

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
pub const NBD_REP_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const NBD_REQUEST_MAGIC: u32 = 0x2560_9513;
pub const NBD_SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub const NBD_STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

// Handshake flags, and the client's.
pub const NBD_FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
pub const NBD_FLAG_NO_ZEROES: u16 = 1 << 1;
pub const NBD_FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
pub const NBD_FLAG_C_NO_ZEROES: u32 = 1 << 1;

// Transmission flags.
pub const NBD_FLAG_HAS_FLAGS: u16 = 1 << 0;
pub const NBD_FLAG_READ_ONLY: u16 = 1 << 1;
pub const NBD_FLAG_SEND_FLUSH: u16 = 1 << 2;
pub const NBD_FLAG_SEND_FUA: u16 = 1 << 3;
pub const NBD_FLAG_ROTATIONAL: u16 = 1 << 4;
pub const NBD_FLAG_SEND_TRIM: u16 = 1 << 5;
pub const NBD_FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
pub const NBD_FLAG_SEND_DF: u16 = 1 << 7;
pub const NBD_FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
pub const NBD_FLAG_SEND_CACHE: u16 = 1 << 10;
pub const NBD_FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

// Options.
pub const NBD_OPT_EXPORT_NAME: u32 = 1;
pub const NBD_OPT_ABORT: u32 = 2;
pub const NBD_OPT_LIST: u32 = 3;
pub const NBD_OPT_STARTTLS: u32 = 5;
pub const NBD_OPT_INFO: u32 = 6;
pub const NBD_OPT_GO: u32 = 7;
pub const NBD_OPT_STRUCTURED_REPLY: u32 = 8;
pub const NBD_OPT_LIST_META_CONTEXT: u32 = 9;
pub const NBD_OPT_SET_META_CONTEXT: u32 = 10;

// Replies to options.
pub const NBD_REP_ACK: u32 = 1;
pub const NBD_REP_SERVER: u32 = 2;
pub const NBD_REP_INFO: u32 = 3;
pub const NBD_REP_META_CONTEXT: u32 = 4;
pub const NBD_REP_ERR_UNSUP: u32 = (1 << 31) + 1;
pub const NBD_REP_ERR_POLICY: u32 = (1 << 31) + 2;
pub const NBD_REP_ERR_INVALID: u32 = (1 << 31) + 3;
pub const NBD_REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
pub const NBD_REP_ERR_SHUTDOWN: u32 = (1 << 31) + 7;
pub const NBD_REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;

// The answers to INFO and GO.
pub const NBD_INFO_EXPORT: u16 = 0;
pub const NBD_INFO_NAME: u16 = 1;
pub const NBD_INFO_DESCRIPTION: u16 = 2;
pub const NBD_INFO_BLOCK_SIZE: u16 = 3;

// Commands and their flags.
pub const NBD_CMD_READ: u16 = 0;
pub const NBD_CMD_WRITE: u16 = 1;
pub const NBD_CMD_DISC: u16 = 2;
pub const NBD_CMD_FLUSH: u16 = 3;
pub const NBD_CMD_TRIM: u16 = 4;
pub const NBD_CMD_CACHE: u16 = 5;
pub const NBD_CMD_WRITE_ZEROES: u16 = 6;
pub const NBD_CMD_BLOCK_STATUS: u16 = 7;
pub const NBD_CMD_FLAG_FUA: u16 = 1 << 0;
pub const NBD_CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub const NBD_CMD_FLAG_DF: u16 = 1 << 2;
pub const NBD_CMD_FLAG_REQ_ONE: u16 = 1 << 3;
pub const NBD_CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

// Chunks of structured replies.
pub const NBD_REPLY_FLAG_DONE: u16 = 1 << 0;
pub const NBD_REPLY_TYPE_OFFSET_DATA: u16 = 1;
pub const NBD_REPLY_TYPE_BLOCK_STATUS: u16 = 5;
pub const NBD_REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;

// Extents of base:allocation.
pub const NBD_STATE_HOLE: u32 = 1 << 0;
pub const NBD_STATE_ZERO: u32 = 1 << 1;

/// Longest string of the protocol, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Zeros after the reply to EXPORT_NAME, if the client wants them.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// The server's first message.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawGreeting {
    pub init: U64,
    pub magic: U64,
    pub flags: U16,
}

/// What every option begins with.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawOption {
    pub magic: U64,
    pub option: U32,
    pub length: U32,
}

/// What every reply to an option begins with, but that to EXPORT_NAME.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawOptionReply {
    pub magic: U64,
    pub option: U32,
    pub kind: U32,
    pub length: U32,
}

/// The reply to EXPORT_NAME, without its zeros.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawExport {
    pub bytes: U64,
    pub flags: U16,
}

/// The data of NBD_INFO_EXPORT.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInfoExport {
    pub info: U16,
    pub export: RawExport,
}

/// The data of NBD_INFO_BLOCK_SIZE.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInfoBlockSize {
    pub info: U16,
    pub minimum: U32,
    pub preferred: U32,
    pub maximum: U32,
}

/// A request, without the payload of a write.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawRequest {
    pub magic: U32,
    pub flags: U16,
    pub command: U16,
    pub cookie: [u8; 8],
    pub offset: U64,
    pub length: U32,
}

/// A simple reply, without the data of a read.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSimpleReply {
    pub magic: U32,
    pub error: U32,
    pub cookie: [u8; 8],
}

/// What every chunk of a structured reply begins with.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawChunk {
    pub magic: U32,
    pub flags: U16,
    pub kind: U16,
    pub cookie: [u8; 8],
    pub length: U32,
}

/// A chunk of NBD_REPLY_TYPE_OFFSET_DATA, without the data.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawDataChunk {
    pub chunk: RawChunk,
    pub offset: U64,
}

/// A chunk of NBD_REPLY_TYPE_ERROR, without the text.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawErrorChunk {
    pub chunk: RawChunk,
    pub error: U32,
    pub text_bytes: U16,
}

/// A chunk of NBD_REPLY_TYPE_BLOCK_STATUS, without the extents.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawStatusChunk {
    pub chunk: RawChunk,
    pub context: U32,
}

/// An extent of a block status.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawExtent {
    pub length: U32,
    pub flags: U32,
}

const _: () = assert!(size_of::<RawGreeting>() == 18);
const _: () = assert!(size_of::<RawOption>() == 16);
const _: () = assert!(size_of::<RawOptionReply>() == 20);
const _: () = assert!(size_of::<RawInfoExport>() == 12);
const _: () = assert!(size_of::<RawInfoBlockSize>() == 14);
const _: () = assert!(size_of::<RawRequest>() == 28);
const _: () = assert!(size_of::<RawSimpleReply>() == 16);
const _: () = assert!(size_of::<RawDataChunk>() == 28);
const _: () = assert!(size_of::<RawErrorChunk>() == 26);
const _: () = assert!(size_of::<RawStatusChunk>() == 24);
