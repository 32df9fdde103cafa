//! The result of a handshake, and the requests that it admits.

use crate::export::BlockSizes;
use crate::proto::*;
use crate::replies::ErrorCode;
use crate::requests::{Command, Cookie, Refused};

/// The result of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub bytes: u64,
    pub blocks: BlockSizes,
    pub read_only: bool,
    pub fast_zero: bool,
    pub structured: bool,
    /// `base:allocation` is selected.
    pub allocation: bool,
}

type Reason = (ErrorCode, &'static str);

const UNKNOWN: Reason = (ErrorCode::Inval, "the command is unknown");
const FLAGS: Reason = (ErrorCode::Inval, "a flag does not belong to the command");

impl Session {
    /// What `raw`, which is no DISC, asks for, if the client may ask for it.
    pub fn admit(&self, raw: &RawRequest) -> Result<Command, Refused> {
        let cookie = Cookie(raw.cookie);
        self.command(raw).map_err(|(error, reason)| Refused { cookie, error, reason })
    }

    fn command(&self, raw: &RawRequest) -> Result<Command, Reason> {
        let (command, flags, offset, length) =
            (raw.command.get(), raw.flags.get(), raw.offset.get(), raw.length.get());
        let has = |flag| flags & flag != 0;
        let fua = has(NBD_CMD_FLAG_FUA);
        if flags & !self.flags_of(command)? != 0 {
            return Err(FLAGS);
        }
        let writes = matches!(command, NBD_CMD_WRITE | NBD_CMD_TRIM | NBD_CMD_WRITE_ZEROES);
        if writes && self.read_only {
            return Err((ErrorCode::Perm, "the export is read-only"));
        }
        if command == NBD_CMD_FLUSH {
            return if offset == 0 && length == 0 {
                Ok(Command::Flush)
            } else {
                Err((ErrorCode::Inval, "a flush has an offset or a length"))
            };
        }
        if command == NBD_CMD_BLOCK_STATUS && !self.allocation {
            return Err((ErrorCode::Inval, "no metadata context is selected"));
        }
        self.range(command, has(NBD_CMD_FLAG_DF), offset, length)?;
        Ok(match command {
            NBD_CMD_READ => Command::Read { offset, length, whole: has(NBD_CMD_FLAG_DF) || !self.structured },
            NBD_CMD_WRITE => Command::Write { offset, length, fua },
            NBD_CMD_TRIM => Command::Trim { offset, length, fua },
            NBD_CMD_WRITE_ZEROES => Command::WriteZeroes {
                offset,
                length,
                fua,
                no_hole: has(NBD_CMD_FLAG_NO_HOLE),
                fast: has(NBD_CMD_FLAG_FAST_ZERO),
            },
            NBD_CMD_CACHE => Command::Cache { offset, length },
            _ => Command::BlockStatus { offset, length, one: has(NBD_CMD_FLAG_REQ_ONE) },
        })
    }

    /// Flags that a command may have. FUA is accepted on each of them, as the specification demands it.
    fn flags_of(&self, command: u16) -> Result<u16, Reason> {
        let own = match command {
            NBD_CMD_READ if self.structured => NBD_CMD_FLAG_DF,
            NBD_CMD_WRITE_ZEROES if self.fast_zero => NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
            NBD_CMD_WRITE_ZEROES => NBD_CMD_FLAG_NO_HOLE,
            NBD_CMD_BLOCK_STATUS => NBD_CMD_FLAG_REQ_ONE,
            NBD_CMD_READ | NBD_CMD_WRITE | NBD_CMD_FLUSH | NBD_CMD_TRIM | NBD_CMD_CACHE => 0,
            _ => return Err(UNKNOWN),
        };
        Ok(own | NBD_CMD_FLAG_FUA)
    }

    fn range(&self, command: u16, unfragmented: bool, offset: u64, length: u32) -> Result<(), Reason> {
        if length == 0 {
            return Err((ErrorCode::Inval, "the length is 0"));
        }
        let minimum = self.blocks.minimum;
        if !offset.is_multiple_of(minimum.into()) || !length.is_multiple_of(minimum) {
            return Err((ErrorCode::Inval, "offset or length are not multiples of the minimum block size"));
        }
        let too_long = length > self.blocks.maximum;
        if too_long && matches!(command, NBD_CMD_READ | NBD_CMD_WRITE) {
            let error = if unfragmented { ErrorCode::Overflow } else { ErrorCode::Inval };
            return Err((error, "the length is above the maximum block size"));
        }
        if offset.checked_add(length.into()).is_none_or(|end| end > self.bytes) {
            let grows = matches!(command, NBD_CMD_WRITE | NBD_CMD_WRITE_ZEROES);
            let error = if grows { ErrorCode::NoSpc } else { ErrorCode::Inval };
            return Err((error, "the range ends after the export"));
        }
        Ok(())
    }
}
