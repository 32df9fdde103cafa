//! Results as they are written to JSON. Field names are part of the command's interface.

use serde::{Deserialize, Serialize};

/// One run of `bench tpcc`. Rates and shares are 0..=1 unless named per cent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(non_snake_case)]
pub struct TpccResult {
    /// disk-only, flash-only, lc, face, face-gr or face-gsc.
    pub system: String,
    /// Flash slots in per cent of the database's pages; 0 without a flash cache.
    pub flash_percent: f64,
    /// Profile of the flash device, or its path.
    pub flash_device: String,
    /// Profile of the disk device, or its path.
    pub disk_device: String,
    /// TPC-C warehouses.
    pub warehouses: u32,
    /// Concurrent clients.
    pub clients: u32,
    /// DRAM frames in per cent of the database's pages.
    pub dram_percent: f64,
    /// Seed of everything.
    pub seed: u64,
    /// Measured time, minutes of the runtime's clock.
    pub virtual_minutes: f64,
    /// Time before measuring, minutes of the runtime's clock.
    pub warmup_minutes: f64,
    /// Pages of the database after the load.
    pub database_pages: u64,
    /// Flash slots.
    pub flash_pages: u64,
    /// DRAM frames.
    pub dram_pages: u64,
    /// Bytes that may be written to flash in a day, where a budget holds; otherwise left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_writes_per_day: Option<u64>,
    /// Committed new-orders a minute.
    pub tpmC: f64,
    /// All committed transactions a second.
    pub transactions_per_second: f64,
    /// DRAM hits of all page accesses.
    pub dram_hit_rate: f64,
    /// Flash (and staging) hits of all DRAM misses (table 3a); null without a flash cache.
    pub flash_hit_rate: Option<f64>,
    /// 1 − pages written to disk / dirty evictions (table 3b).
    pub write_reduction: f64,
    /// Superseded versions of all occupied slots.
    pub duplicate_share: f64,
    /// Share of time with at least one request outstanding (table 4a).
    pub flash_utilisation: f64,
    /// 4 KiB page I/Os a second on flash, reads and writes (table 4b).
    pub flash_iops: f64,
    /// Share of time with at least one request outstanding.
    pub disk_utilisation: f64,
    /// Page I/Os a second on disk.
    pub disk_iops: f64,
    /// Bytes programmed in flash by bytes written to it.
    pub flash_write_amplification: f64,
    /// Pages written to flash in the measured time; left out without a flash cache; not part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_writes: Option<u64>,
    /// Median and 99th percentile of new-order latency in milliseconds.
    pub new_order_ms_p50: f64,
    /// See above.
    pub new_order_ms_p99: f64,
    /// Transactions aborted and run again because of a deadlock.
    pub deadlocks: u64,
    /// The consistency conditions 1–4 of clause 3.3.2 held after the run.
    pub consistency_ok: bool,
    /// Virtual time by wall-clock time, from the open of the store to the end of the measurement (warm-up
    /// included, the check of consistency, during which the clock stands still, not); not part of the digest.
    pub speedup: f64,
    /// Wall-clock seconds of the run, all included; not part of the digest.
    pub wall_seconds: f64,
    /// Largest resident memory of the process so far in MiB; not part of the digest.
    pub resident_mib: u64,
    /// Hash of all results that depend on seed and arguments alone, and of every cache decision.
    pub digest: String,
}

impl TpccResult {
    /// The flash hit rate; 0 without a flash cache.
    pub fn flash_hits(&self) -> f64 {
        self.flash_hit_rate.unwrap_or(0.0)
    }
}

/// One run of `bench restart`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(non_snake_case)]
pub struct RestartResult {
    /// As in [`TpccResult`].
    pub system: String,
    /// Seconds between checkpoints; the kill is in the middle of an interval.
    pub checkpoint_interval_s: f64,
    /// As in [`TpccResult`].
    pub flash_percent: f64,
    /// As in [`TpccResult`].
    pub flash_device: String,
    /// As in [`TpccResult`].
    pub disk_device: String,
    /// As in [`TpccResult`].
    pub warehouses: u32,
    /// As in [`TpccResult`].
    pub clients: u32,
    /// As in [`TpccResult`].
    pub seed: u64,
    /// From the start of the restart to the first transaction accepted, seconds.
    pub restart_s: f64,
    /// Of these, restoring the flash directory.
    pub directory_restore_s: f64,
    /// Log bytes read.
    pub log_bytes: u64,
    /// What the log told, by its name on the command line.
    #[serde(default)]
    pub redo: String,
    /// Pages that redo fetched from the layers below DRAM; a page that DRAM evicts meanwhile is fetched
    /// again.
    pub redo_pages: u64,
    /// Of these, from flash.
    pub redo_from_flash_share: f64,
    /// Different pages that the restart touched, fetched or rebuilt.
    #[serde(default)]
    pub pages_touched: u64,
    /// Pages of flash and of disk that the restart read and wrote: flash reads, flash writes, disk reads,
    /// disk writes. The directory is among the flash reads.
    #[serde(default)]
    pub restart_io: [u64; 4],
    /// Pages written to flash from the last checkpoint until the kill, by the slots: how often the cache was
    /// turned over. 0 where it is not known.
    #[serde(default)]
    pub turnover: f64,
    /// `[second, tpmC]` from the moment of the kill.
    pub tpmC_after: Vec<[f64; 2]>,
    /// tpmC just before the kill.
    pub tpmC_before: f64,
    /// The consistency conditions held after the restart and after the run that followed.
    pub consistency_ok: bool,
    /// Hash of all results that depend on seed and arguments alone.
    pub digest: String,
}
