//! The configuration of a table, and why one is refused.

use crate::blocks::OBJECTS_IN_BLOCK;
use entresol_format::Uuid;
pub use entresol_format::superblock::OBJECTS_MAX;
use thiserror::Error;

// An object's number shares a word with the state of the object.
const _: () = assert!(OBJECTS_MAX < 1 << 28);
/// Fewest blocks of a log: one block is written while another one is still needed.
pub const LOG_BLOCKS_MIN: u32 = 2;
/// Copies of the areas on flash: one damaged or unreadable block never loses a change.
pub const COPIES: usize = 2;

/// The configuration of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectsConfig {
    /// The cache that the table belongs to. Blocks of another cache are not read.
    pub cache: Uuid,
    /// Objects that the table can hold, retired ones included; at most [`OBJECTS_MAX`].
    pub objects_max: u32,
    /// Blocks of the log area on flash, at least [`LOG_BLOCKS_MIN`].
    pub log_blocks: u32,
}

impl ObjectsConfig {
    /// Blocks of each of the two snapshot areas on flash.
    pub const fn snapshot_blocks(&self) -> u32 {
        1 + self.objects_max.div_ceil(OBJECTS_IN_BLOCK as u32)
    }

    /// Blocks of one copy of the areas on flash: two snapshot areas, even and odd, and the log.
    pub const fn copy_blocks(&self) -> u32 {
        2 * self.snapshot_blocks() + self.log_blocks
    }

    /// Blocks of the whole table on flash.
    pub const fn blocks(&self) -> u32 {
        COPIES as u32 * self.copy_blocks()
    }

    /// Checks that a table can have this configuration.
    pub(crate) const fn validate(&self) -> Result<(), ConfigError> {
        if self.objects_max == 0 || self.objects_max > OBJECTS_MAX {
            return Err(ConfigError::Objects { found: self.objects_max });
        }
        if self.log_blocks < LOG_BLOCKS_MIN {
            return Err(ConfigError::LogBlocks { found: self.log_blocks });
        }
        Ok(())
    }
}

/// Why a configuration or a region was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The number of objects is impossible.
    #[error("a table of {found} objects, expected 1 to {OBJECTS_MAX}")]
    Objects {
        /// The number found.
        found: u32,
    },
    /// The log is too short.
    #[error("a log of {found} blocks, expected at least {LOG_BLOCKS_MIN}")]
    LogBlocks {
        /// Its blocks.
        found: u32,
    },
    /// The region has another length.
    #[error("the table's region has {found} bytes, expected {expected}")]
    RegionSize {
        /// Bytes needed.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
    /// The region is not aligned.
    #[error("the table's region is not aligned to {expected} bytes")]
    Alignment {
        /// The alignment needed, in bytes.
        expected: usize,
    },
    /// The region holds something else, or a table of another version.
    #[error("the region begins with {found:#018x}, expected {expected:#018x}")]
    Magic {
        /// The magic of this version.
        expected: u64,
        /// The word found.
        found: u64,
    },
}
