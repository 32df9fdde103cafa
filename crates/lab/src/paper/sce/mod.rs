//! SCE (Kim et al., INFLOW 2014): what the text says in numbers. Its figures are drawn, not printed.

mod claims;
mod evidence;

pub(crate) use claims::CLAIMS;
pub(crate) use evidence::{Measured, Runs, System, change};

use super::claim::{Statement, statements};

/// What the paper claims, in the order in which it is judged.
pub fn claims() -> Vec<Statement> {
    statements(CLAIMS).collect()
}

/// Sysbench's database (§2).
pub const DATABASE_GIB: f64 = 77.0;
/// Flash sizes of figures 1, 4 and 5.
pub const SMALL_GIB: f64 = 20.0;
/// See [`SMALL_GIB`].
pub const HALF_GIB: f64 = 40.0;
/// See [`SMALL_GIB`].
pub const LARGE_GIB: f64 = 80.0;
/// Memory of the virtual machine (§2).
pub const MEMORY_GIB: f64 = 15.0;

/// Transactions a second against those without a cache, per cent: flashcache (write-through) with 20 and 40
/// GiB (§2).
pub const FIGURE_1_FLASHCACHE: [f64; 2] = [-22.6, -9.5];
/// The same for SCE with 20 GiB (figure 4).
pub const FIGURE_4_SCE: f64 = 32.0;
/// The same for flashcache and SCE with 80 GiB, after four hours (figure 5).
pub const FIGURE_5: [f64; 2] = [39.0, 89.0];
/// The same under TPC-E with 40 GiB: flashcache write-through and SCE (§4.2).
pub const FIGURE_6: [f64; 2] = [-79.1, 301.7];
/// Response under TPC-E against that without a cache: flashcache write-through and SCE (§4.2, figure 6b).
pub const FIGURE_6_RESPONSE: [f64; 2] = [14.0, 0.45];
/// Throughput of SCE by that of flashcache, per cent, with 20 and 80 GiB (abstract).
pub const OVER_FLASHCACHE: [f64; 2] = [70.4, 36.1];
/// Read hits of flashcache with 20 and 40 GiB, per cent (§2: "about").
pub const FLASHCACHE_HITS: [f64; 2] = [20.0, 50.0];
/// What flashcache with 20 GiB wrote to flash, by what it read there (§4.1.1: "roughly 9 times").
pub const FLASHCACHE_WRITES_PER_READ: f64 = 9.0;
/// MiB/s that reach the disks without a cache: read and written (§2, figure 1b).
pub const DISK_MIB_S: [f64; 2] = [14.0, 17.0];
/// MiB/s that flashcache writes to flash, with 20 and with 40 GiB (§2, figures 1c and d).
pub const FLASHCACHE_FLASH_WRITE_MIB_S: f64 = 22.0;
/// MiB/s that flashcache reads from flash, with 20 and with 40 GiB (§2, figures 1c and d).
pub const FLASHCACHE_FLASH_READ_MIB_S: [f64; 2] = [2.5, 6.5];
/// Bytes of metadata in memory for each cached fragment of 1 MiB (§3.3: "roughly 76").
pub const FRAGMENT_METADATA_BYTES: f64 = 76.0;
