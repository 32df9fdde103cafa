//! The master record: two blocks at the start of the log device, written in turn.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `ENTRSLOG` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | CRC32C of bytes 16 .. 64 |
//! | 16 | 8 | sequence |
//! | 24 | 8 | LSN of the newest checkpoint record |
//! | 32 | 8 | bytes of the circular area |
//! | 40 | 4 | epoch |
//! | 44 | 4 | id of the log |
//! | 48 | 4 | page size of the store |
//! | 52 | 12 | zero |
//!
//! Invariant: the block with the higher sequence that is whole is the truth; the other one is written next.

use super::log::AREA_MIN;
use super::{FIRST_LSN, LOG_START, LSN_MAX};
use crate::StoreError;
use crate::page::bytes::{set_u32, set_u64, u32_at, u64_at};
use entresol_core::Lsn;
use entresol_device::{Device, Io};

const MAGIC: &[u8; 8] = b"ENTRSLOG";
const VERSION: u32 = 1;
const BLOCK_STEP: u64 = 4096;
const USED: usize = 64;

/// See the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Master {
    pub sequence: u64,
    pub checkpoint: Lsn,
    pub area: u64,
    pub epoch: u32,
    pub id: u32,
    pub page_bytes: u32,
}

impl Master {
    /// The newest master record of a log device; `None` if there is none.
    pub(crate) fn read(device: &dyn Device) -> Result<Option<Master>, StoreError> {
        let block = block_bytes(device);
        let (mut first, mut second) = (vec![0; block], vec![0; block]);
        device.run(&mut [
            Io::Read { offset: 0, buffer: &mut first },
            Io::Read { offset: BLOCK_STEP, buffer: &mut second },
        ])?;
        let found = [Self::decode(&first)?, Self::decode(&second)?];
        Ok(found.into_iter().flatten().max_by_key(|master| master.sequence))
    }

    /// As [`Master::read`]; an error if there is none, or if it says what cannot be.
    pub(crate) fn find(device: &dyn Device) -> Result<Master, StoreError> {
        let master = Self::read(device)?.ok_or_else(|| {
            StoreError::Config("the log device holds no log of a store; create the store first".into())
        })?;
        let geometry = device.geometry();
        let impossible = |expected: String, found: u64| StoreError::Corrupt {
            place: "master record of the log".into(),
            expected,
            found: found.to_string(),
        };
        let room = geometry.capacity_bytes.saturating_sub(LOG_START);
        let sector = u64::from(geometry.sector_bytes.max(512));
        if !(AREA_MIN..=room).contains(&master.area) || !master.area.is_multiple_of(sector) {
            let expected = format!("an area of {AREA_MIN} to {room} bytes, in sectors of {sector}");
            return Err(impossible(expected, master.area));
        }
        if !(FIRST_LSN..LSN_MAX).contains(&master.checkpoint.0) {
            return Err(impossible(format!("an LSN from {FIRST_LSN} to {LSN_MAX}"), master.checkpoint.0));
        }
        Ok(master)
    }

    /// Makes a device that may hold the log of another store one without a master record.
    pub(crate) fn erase(device: &dyn Device) -> Result<(), StoreError> {
        let block = vec![0; block_bytes(device)];
        device.run(&mut [
            Io::Write { offset: 0, data: &block },
            Io::Write { offset: BLOCK_STEP, data: &block },
        ])?;
        device.sync()?;
        Ok(())
    }

    /// Writes it over the older block and makes it durable.
    pub(crate) fn write(&self, device: &dyn Device) -> Result<(), StoreError> {
        let mut block = vec![0; block_bytes(device)];
        block[..8].copy_from_slice(MAGIC);
        set_u32(&mut block, 8, VERSION);
        set_u64(&mut block, 16, self.sequence);
        set_u64(&mut block, 24, self.checkpoint.0);
        set_u64(&mut block, 32, self.area);
        set_u32(&mut block, 40, self.epoch);
        set_u32(&mut block, 44, self.id);
        set_u32(&mut block, 48, self.page_bytes);
        let sum = crc32c::crc32c(&block[16..USED]);
        set_u32(&mut block, 12, sum);
        device.write(self.sequence % 2 * BLOCK_STEP, &block)?;
        device.sync()?;
        Ok(())
    }

    fn decode(block: &[u8]) -> Result<Option<Master>, StoreError> {
        if &block[..8] != MAGIC || u32_at(block, 12) != crc32c::crc32c(&block[16..USED]) {
            return Ok(None);
        }
        if u32_at(block, 8) != VERSION {
            return Err(StoreError::Config(format!(
                "the log has format version {}; this program knows version {VERSION}: use the program that wrote it",
                u32_at(block, 8)
            )));
        }
        Ok(Some(Master {
            sequence: u64_at(block, 16),
            checkpoint: Lsn(u64_at(block, 24)),
            area: u64_at(block, 32),
            epoch: u32_at(block, 40),
            id: u32_at(block, 44),
            page_bytes: u32_at(block, 48),
        }))
    }
}

fn block_bytes(device: &dyn Device) -> usize {
    device.geometry().sector_bytes.max(512) as usize
}
