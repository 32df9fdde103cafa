//! The master record: two blocks at the start of the log device, written in turn.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `ENTRSLOG` |
//! | 8 | 4 | version, 3 |
//! | 12 | 4 | CRC32C of bytes 8 .. 12, then of bytes 16 .. 136 |
//! | 16 | 8 | sequence |
//! | 24 | 8 | LSN of the newest checkpoint record |
//! | 32 | 8 | bytes of the circular area |
//! | 40 | 4 | epoch |
//! | 44 | 4 | seed of the records' checksums |
//! | 48 | 4 | page size of the store |
//! | 52 | 4 | sector: flushes begin at multiples of it; recorded when the log is created |
//! | 56 | 8 | shift: the byte with a given LSN is at (LSN + shift) mod area |
//! | 64 | 8 | an LSN: all records before it were durable when this block was written |
//! | 72 | 8 | number of the session (see [`super::session`]) |
//! | 80 | 1 | 1: the session has begun |
//! | 81 | 7 | zero |
//! | 88 | 16 | UUID of the log |
//! | 104 | 16 | UUID of the log's disk |
//! | 120 | 8 | nonce of the session |
//! | 128 | 8 | nonce of the session before |
//!
//! Invariants:
//! 1. The valid block with the higher sequence is used. The other block is written next ([`super::blocks`]).
//! 2. A checkpoint frees room only after both blocks name it. So each of the two blocks is sufficient for a
//!    restart.

use super::ring::AREA_MIN;
use super::ring::Ring;
use super::ring::{FIRST_LSN, LOG_START, LSN_MAX};
use crate::StoreError;
use crate::bytes::{set_u32, set_u64, u32_at, u64_at};
use entresol_core::Lsn;
use entresol_device::Geometry;
use entresol_engine::{Session, Uuid};
use entresol_format::checksum;

const MAGIC: &[u8; 8] = b"ENTRSLOG";
const VERSION: u32 = 3;
/// Number of used bytes of a block.
const USED: usize = 136;
/// The same for versions 1 and 2.
const USED_BEFORE: [usize; 2] = [64, 128];

/// See the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub sequence: u64,
    pub checkpoint: Lsn,
    pub area: u64,
    pub epoch: u32,
    pub id: u32,
    pub page_bytes: u32,
    pub sector: u32,
    pub shift: u64,
    pub durable: Lsn,
    pub session: Session,
    /// Nonce of the session before. The disk's label still has it if an open was cut off.
    pub previous_nonce: u64,
    pub begun: bool,
    pub log: Uuid,
    pub disk: Uuid,
}

/// The content of a block.
pub(super) enum Block {
    Master(Master),
    /// A valid master record of another version.
    OtherVersion(u32),
    /// No master record, or a damaged one.
    None,
}

impl Master {
    /// The mapping of log bytes to the device.
    pub(crate) fn ring(&self) -> Ring {
        Ring { area: self.area, shift: self.shift }
    }

    /// The sector size of a log that is created on such a device.
    pub(super) fn sector_for(geometry: Geometry) -> u32 {
        geometry.sector_bytes.max(geometry.physical_bytes).max(512)
    }

    /// Refuses impossible values.
    pub(super) fn check(&self, geometry: Geometry) -> Result<(), StoreError> {
        let impossible = |expected: String, found: u64| StoreError::Corrupt {
            place: "master record of the log".into(),
            expected,
            found: found.to_string(),
        };
        let sector = u64::from(self.sector);
        if !sector.is_power_of_two() || !(512..=FIRST_LSN).contains(&sector) {
            return Err(impossible(format!("a sector size, 512 to {FIRST_LSN}"), sector));
        }
        let room = geometry.capacity_bytes.saturating_sub(LOG_START);
        if self.area > room && self.area.is_multiple_of(sector) {
            return Err(StoreError::Config(format!(
                "the log takes {} bytes, and the log device has {}: a log may grow, and never shrinks; open the store with a log \
                 of at least {} bytes (if the file was cut off, restore it)",
                self.area + LOG_START,
                geometry.capacity_bytes,
                self.area + LOG_START,
            )));
        }
        if !(AREA_MIN..=room).contains(&self.area) || !self.area.is_multiple_of(sector) {
            let expected = format!("an area of {AREA_MIN} to {room} bytes, in sectors of {sector}");
            return Err(impossible(expected, self.area));
        }
        if self.shift >= self.area || !self.shift.is_multiple_of(sector) {
            return Err(impossible(
                format!("a shift below {}, in sectors of {sector}", self.area),
                self.shift,
            ));
        }
        if !(FIRST_LSN..LSN_MAX).contains(&self.checkpoint.0) {
            return Err(impossible(format!("an LSN from {FIRST_LSN} to {LSN_MAX}"), self.checkpoint.0));
        }
        if !(self.checkpoint.0 + 1..=LSN_MAX).contains(&self.durable.0) {
            let expected = format!("a durable LSN beyond the checkpoint at {}", self.checkpoint.0);
            return Err(impossible(expected, self.durable.0));
        }
        if !(1..u64::MAX).contains(&self.session.number) {
            return Err(impossible("a session, counted from 1".into(), self.session.number));
        }
        Ok(())
    }

    /// Writes the record to the first bytes of `block`.
    pub(super) fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(MAGIC);
        set_u32(block, 8, VERSION);
        set_u64(block, 16, self.sequence);
        set_u64(block, 24, self.checkpoint.0);
        set_u64(block, 32, self.area);
        set_u32(block, 40, self.epoch);
        set_u32(block, 44, self.id);
        set_u32(block, 48, self.page_bytes);
        set_u32(block, 52, self.sector);
        set_u64(block, 56, self.shift);
        set_u64(block, 64, self.durable.0);
        set_u64(block, 72, self.session.number);
        block[80] = u8::from(self.begun);
        block[88..104].copy_from_slice(&self.log.0);
        block[104..120].copy_from_slice(&self.disk.0);
        set_u64(block, 120, self.session.nonce);
        set_u64(block, 128, self.previous_nonce);
        let sum = checksum(block, USED);
        set_u32(block, 12, sum);
    }

    /// Decodes the bytes of a block.
    pub(super) fn decode(block: &[u8]) -> Block {
        if &block[..8] != MAGIC {
            return Block::None;
        }
        let (version, sum) = (u32_at(block, 8), u32_at(block, 12));
        if version != VERSION {
            let by_1 = checksum::of(&block[16..USED_BEFORE[0]]);
            let whole = [checksum(block, USED), checksum(block, USED_BEFORE[1]), by_1].contains(&sum);
            return if whole { Block::OtherVersion(version) } else { Block::None };
        }
        if sum != checksum(block, USED) {
            return Block::None;
        }
        Block::Master(Master {
            sequence: u64_at(block, 16),
            checkpoint: Lsn(u64_at(block, 24)),
            area: u64_at(block, 32),
            epoch: u32_at(block, 40),
            id: u32_at(block, 44),
            page_bytes: u32_at(block, 48),
            sector: u32_at(block, 52),
            shift: u64_at(block, 56),
            durable: Lsn(u64_at(block, 64)),
            session: Session { number: u64_at(block, 72), nonce: u64_at(block, 120) },
            previous_nonce: u64_at(block, 128),
            begun: block[80] != 0,
            log: uuid_at(block, 88),
            disk: uuid_at(block, 104),
        })
    }
}

/// The error for a log of another version.
pub(super) fn other_version(version: u32) -> StoreError {
    StoreError::Config(format!(
        "the log has format version {version}; this program knows version {VERSION}: use the program that wrote it"
    ))
}

fn checksum(block: &[u8], used: usize) -> u32 {
    checksum::append(checksum::of(&block[8..12]), &block[16..used])
}

fn uuid_at(block: &[u8], at: usize) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&block[at..at + 16]);
    Uuid(bytes)
}
