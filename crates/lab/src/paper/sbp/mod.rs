//! SSD bufferpool recovery (Bhattacharjee et al., DaMoN 2011): the numbers in its text. Its figures have
//! no scale.

mod claims;
mod evidence;

pub(crate) use claims::{CLAIMS, STABLE};
pub(crate) use evidence::{Evidence, MEDIA, Ran, Restarted, end, mean};

use super::claim::{Statement, statements};

/// The claims of the paper, in the order of their verdicts.
pub fn claims() -> Vec<Statement> {
    statements(CLAIMS).collect()
}

/// DRAM of the database, per cent (§5.2).
pub const DRAM_PERCENT: f64 = 2.0;
/// The SSD bufferpool by the main memory bufferpool (§5.2).
pub const FLASH_BY_DRAM: f64 = 3.0;
/// The metadata file, and the SSD bufferpool (§5.3), bytes.
pub const METADATA_BYTES: f64 = 23e6;
/// See [`METADATA_BYTES`].
pub const SSD_BYTES: f64 = 3.6e9;
/// Clients (§5.2).
pub const CLIENTS: u32 = 16;
/// Warehouses (§5.2).
pub const WAREHOUSES: u32 = 500;
/// Minutes until recovery is over, with and without persistence (§5.5, figure 6).
pub const RECOVERY_MIN: [f64; 2] = [4.0, 5.0];
/// "Recovery and transaction stability is 20% faster" with persistence (§5.5).
pub const RECOVERY_SAVED: f64 = 0.20;
/// Recovery without the SSD, by that of the prototype without persistence (section 5.5: "about 20 % slower").
pub const BASE_BY_PROTOTYPE: f64 = 1.2;
/// Minutes until throughput is stable, with and without persistence (§5.5, figure 6).
pub const STABLE_MIN: [f64; 2] = [8.0, 10.0];
