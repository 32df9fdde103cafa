//! FaCE's numbers (Kang, Lee, Moon: *Flash-based Extended Cache for Higher Throughput and Faster Recovery*,
//! PVLDB 5(11), 2012), table by table.
//!
//! Set-up (§5.2): PostgreSQL, TPC-C with 500 warehouses (50 GB), 50 clients, 200 MB of DRAM, a flash cache of
//! 2 to 10 GB on a Samsung 470 (MLC) unless said otherwise, eight 15k-rpm disks as RAID-0. Sizes are compared
//! by their share of the database: 200 MB is 0.4 %, 2 GB is 4 %.
//!
//! Not here: figures 4 to 6, which the text gives as ratios only (constants below), and the first row of
//! table 5 ("More DRAM"), which the text at hand has lost.

mod flash;
mod grid;
mod hits;
pub(crate) mod lc;
pub(crate) mod machines;
pub mod restart;
mod throughput;

use super::claim::{Claim, Judged, Statement, judged, statements};
use crate::result::TpccResult;
use entresol_core::{PolicyKind, System};

/// The claims about `bench tpcc`, in the order of the paper.
const TPCC: [&[Claim<[TpccResult]>]; 3] = [hits::CLAIMS, flash::CLAIMS, throughput::CLAIMS];

/// What the paper claims, in the order in which it is judged.
pub fn claims() -> Vec<Statement> {
    let tpcc = statements(TPCC.into_iter().flatten());
    let machines = statements(machines::CLAIMS.iter().chain(lc::CLAIMS));
    let restarts = restart::CLAIMS.iter().chain(restart::SCALED);
    tpcc.chain(machines).chain(statements(restarts)).collect()
}

/// Judges the claims about `bench tpcc`, each on the first of the evidence that has its numbers. One piece of
/// evidence is of one configuration: one pair of devices, any systems and sizes.
pub fn judged_tpcc(evidence: &[&[TpccResult]]) -> Vec<Judged> {
    judged(TPCC.into_iter().flatten(), evidence)
}

/// The flash sizes of tables 3 and 4, in per cent of the database (50 GB).
pub const FLASH_PERCENTS: [f64; 5] = [4.0, 8.0, 12.0, 16.0, 20.0];

/// Gigabytes of the paper's flash cache of that share of its database.
pub const fn gigabytes(flash_percent: f64) -> f64 {
    flash_percent / 2.0
}

/// A table with a row for each cache policy and a column for each of [`FLASH_PERCENTS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeTable {
    /// E.g. "FaCE table 3a".
    pub source: &'static str,
    /// What is measured, with its unit.
    pub title: &'static str,
    /// Rows in the paper's order.
    pub rows: [(PolicyKind, [f64; 5]); 4],
}

impl SizeTable {
    /// The paper's number for a system at a flash size, if the paper has it.
    pub fn at(&self, system: System, flash_percent: f64) -> Option<f64> {
        let column = FLASH_PERCENTS.iter().position(|percent| (percent - flash_percent).abs() < 1e-9)?;
        let (_, row) = self.rows.iter().find(|(policy, _)| System::Cached(*policy) == system)?;
        Some(row[column])
    }
}

/// Table 3a: flash hits of all DRAM misses, per cent.
pub const FLASH_HITS: SizeTable = SizeTable {
    source: "FaCE table 3a",
    title: "flash hits of all DRAM misses, %",
    rows: [
        (PolicyKind::Lc, [72.9, 80.0, 83.7, 87.0, 89.3]),
        (PolicyKind::Face, [65.5, 72.6, 76.4, 78.6, 80.5]),
        (PolicyKind::FaceGr, [65.5, 72.6, 76.2, 78.6, 80.4]),
        (PolicyKind::FaceGsc, [69.7, 76.6, 79.8, 82.1, 83.7]),
    ],
};

/// Table 3b: dirty evictions that did not become disk writes, per cent. (The paper's caption says "flash
/// cache writes to all dirty evictions"; its text calls it write reduction.)
pub const WRITE_REDUCTION: SizeTable = SizeTable {
    source: "FaCE table 3b",
    title: "write reduction, % of dirty evictions",
    rows: [
        (PolicyKind::Lc, [51.8, 62.1, 68.8, 74.0, 78.6]),
        (PolicyKind::Face, [46.3, 54.8, 60.1, 62.8, 65.0]),
        (PolicyKind::FaceGr, [46.3, 55.3, 59.7, 62.7, 65.4]),
        (PolicyKind::FaceGsc, [50.2, 59.9, 65.9, 70.4, 73.9]),
    ],
};

/// Table 4a: utilisation of the flash device (MLC), per cent.
pub const FLASH_UTILISATION: SizeTable = SizeTable {
    source: "FaCE table 4a",
    title: "flash utilisation, %",
    rows: [
        (PolicyKind::Lc, [92.6, 96.4, 97.7, 98.2, 98.1]),
        (PolicyKind::Face, [65.6, 73.7, 78.9, 82.7, 84.9]),
        (PolicyKind::FaceGr, [51.6, 62.5, 67.7, 70.0, 69.6]),
        (PolicyKind::FaceGsc, [60.9, 68.0, 70.9, 74.7, 75.9]),
    ],
};

/// Table 4b: 4 KiB page I/Os a second of the flash device (MLC).
pub const FLASH_IOPS: SizeTable = SizeTable {
    source: "FaCE table 4b",
    title: "flash page I/Os a second",
    rows: [
        (PolicyKind::Lc, [4534.0, 4226.0, 3849.0, 3362.0, 3370.0]),
        (PolicyKind::Face, [4973.0, 5870.0, 6479.0, 7019.0, 7415.0]),
        (PolicyKind::FaceGr, [7213.0, 8474.0, 9390.0, 9848.0, 10693.0]),
        (PolicyKind::FaceGsc, [11098.0, 12208.0, 13031.0, 13871.0, 14678.0]),
    ],
};

/// Table 5, row "More Flash": tpmC with 1 to 5 times 2 GB of flash (MLC) under FaCE + GSC, 200 MB of DRAM.
/// The same set-up as figure 4a's line for GSC, so these are the only tpmC of figure 4 that the paper prints.
pub const GSC_TPMC: [f64; 5] = [3681.0, 4310.0, 4830.0, 5161.0, 5570.0];

/// The paper's tpmC of a system at a flash size on MLC, where it prints one (table 5).
pub fn tpmc(system: System, flash_percent: f64) -> Option<f64> {
    let column = FLASH_PERCENTS.iter().position(|percent| (percent - flash_percent).abs() < 1e-9)?;
    (system == System::Cached(PolicyKind::FaceGsc)).then(|| GSC_TPMC[column])
}

/// The checkpoint intervals of table 6, seconds.
pub const CHECKPOINT_INTERVALS_S: [f64; 3] = [60.0, 120.0, 180.0];

/// Table 6: seconds to restart, at a flash cache of 8 % (4 GB), for each of [`CHECKPOINT_INTERVALS_S`].
pub const RESTART_S: [(System, [f64; 3]); 2] =
    [(System::Cached(PolicyKind::FaceGsc), [93.0, 118.0, 188.0]), (System::DiskOnly, [604.0, 786.0, 823.0])];

/// The paper's restart time of a system at a checkpoint interval, seconds.
pub fn restart_s(system: System, checkpoint_interval_s: f64) -> Option<f64> {
    let column = CHECKPOINT_INTERVALS_S.iter().position(|s| (s - checkpoint_interval_s).abs() < 1e-9)?;
    RESTART_S.iter().find(|(of, _)| *of == system).map(|(_, row)| row[column])
}

/// A storage medium of table 1, measured with Orion in steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Medium {
    /// Name of our profile.
    pub profile: &'static str,
    /// What it is.
    pub model: &'static str,
    /// 4 KiB random reads a second.
    pub random_read_iops: f64,
    /// 4 KiB random writes a second.
    pub random_write_iops: f64,
    /// Sequential reads, MB/s.
    pub sequential_read_mb_s: f64,
    /// Sequential writes, MB/s.
    pub sequential_write_mb_s: f64,
    /// Capacity, GB.
    pub capacity_gb: f64,
    /// Price, US dollars per GB.
    pub dollars_per_gb: f64,
}

const fn medium(
    profile: &'static str,
    model: &'static str,
    iops: [f64; 2],
    mb_s: [f64; 2],
    price: [f64; 2],
) -> Medium {
    Medium {
        profile,
        model,
        random_read_iops: iops[0],
        random_write_iops: iops[1],
        sequential_read_mb_s: mb_s[0],
        sequential_write_mb_s: mb_s[1],
        capacity_gb: price[0],
        dollars_per_gb: price[1],
    }
}

/// Table 1: price and performance of the storage media.
pub const MEDIA: [Medium; 5] = [
    medium("mlc", "Samsung 470 256GB (MLC)", [28495.0, 6314.0], [251.33, 242.80], [256.0, 1.78]),
    medium("mlc-x25m", "Intel X25-M G2 80GB (MLC)", [35601.0, 2547.0], [258.70, 80.81], [80.0, 2.25]),
    medium("slc", "Intel X25-E 32GB (SLC)", [38427.0, 5057.0], [259.2, 195.25], [32.0, 13.75]),
    medium("disk", "Seagate Cheetah 15K.6 146.8GB", [409.0, 343.0], [156.0, 154.0], [146.8, 1.63]),
    medium("raid0-8", "8 × Seagate Cheetah 15K.6, RAID-0", [2598.0, 2502.0], [848.0, 843.0], [1170.0, 1.63]),
];

/// Superseded versions of all slots of mvFIFO at 8 GB, i.e. 16 % (§5.3: "as high as 30 to 40 percent").
pub const DUPLICATES_AT_16: (f64, f64) = (0.30, 0.40);
/// GSC's hit rate (§1: "from low 60 to mid 80 percent").
pub const GSC_HITS: (f64, f64) = (0.60, 0.87);
/// GSC's write reduction (§1: "50 to 70 percent"; table 3b has 50.2 to 73.9).
pub const GSC_WRITE_REDUCTION: (f64, f64) = (0.50, 0.75);
/// Most utilisation of the flash device under FaCE (§5.3: "below 85 percent consistently").
pub const FACE_UTILISATION_MAX: f64 = 0.85;
/// Most utilisation of the flash device under GSC (§5.3: "never saturated more than 76 percent").
pub const GSC_UTILISATION_MAX: f64 = 0.76;
/// Least utilisation of the flash device under LC (§5.3: 93 to 98 per cent; table 4a: 92.6 and more).
pub const LC_UTILISATION_MIN: f64 = 0.90;
/// GSC's flash IOPS by LC's at 10 GB, i.e. 20 % (§5.3: "by more than a factor of four").
pub const GSC_OVER_LC_IOPS_AT_20: f64 = 4.0;
/// GSC's tpmC by LC's on SLC (§5.3: "outperformed LC at least 25 percent").
pub const GSC_OVER_LC_ON_SLC: f64 = 1.25;
/// GSC's tpmC by flash-only's on MLC (§5.3: "almost by three folds").
pub const GSC_OVER_FLASH_ONLY_ON_MLC: f64 = 3.0;
/// FaCE's tpmC by flash-only's with a cache of about 10 % of the database (§2.3: "almost twice").
pub const FACE_OVER_FLASH_ONLY_AT_10: f64 = 2.0;
/// Disk-only's restart time by FaCE's, at least (§1: "more than a factor of four consistently").
pub const RESTART_FACTOR_MIN: f64 = 4.0;
/// MB read to restore the directory of 4 GB: its persistent part, and the pages of two segments (§5.5).
pub const RESTORE_MB: [f64; 2] = [21.0, 512.0];
/// Seconds that the restore takes (§5.5).
pub const RESTORE_S: f64 = 2.5;
/// What GSC saves of disk-only's restart time (§5.5: "from 77 to 85 percent").
pub const RESTART_SAVED: (f64, f64) = (0.77, 0.85);
/// Pages needed by recovery that came from flash, at least (§5.5: "more than 98 percent").
pub const REDO_FROM_FLASH_MIN: f64 = 0.98;
/// Seconds to restore the directory of a 4 GB cache (§5.5: "approximately 2.5 seconds on average regardless
/// of the checkpoint interval").
pub const DIRECTORY_RESTORE_S: f64 = 2.5;
/// §2.2: the exponent of the break-even between DRAM and flash, for a read-only and a write-only load.
pub const BREAK_EVEN: [f64; 2] = [1.006, 1.025];

#[cfg(test)]
mod tpcc_tests;
