//! The report on a volume: `volume status --json` prints it. docs/BLOCK.md explains the fields.

use crate::steer::{Bypassed, Latency};
use entresol_core::PageId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// In use.
    #[default]
    Ok,
    /// The disk refuses writes, which are tried again.
    Retrying,
    /// The disk takes writes, but for some ranges.
    Refusing,
    /// The flash has failed and is only read: it has pages that the disk lacks.
    Degraded,
    /// The flash has failed, and is not used.
    Off,
    /// Nothing is served any more for its sake.
    Failed,
    /// The journal that the disk's label names was gone when the volume was opened.
    Missing,
    /// There is none, or it is not used.
    None,
}

impl Condition {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::Retrying,
        Self::Refusing,
        Self::Degraded,
        Self::Off,
        Self::Failed,
        Self::Missing,
        Self::None,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Retrying => "retrying",
            Self::Refusing => "refusing",
            Self::Degraded => "degraded",
            Self::Off => "off",
            Self::Failed => "failed",
            Self::Missing => "missing",
            Self::None => "none",
        }
    }
}

/// A device of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// "disk", "flash", "label" or "journal".
    pub device: String,
    /// Its path, as the configuration has it. Empty: none.
    pub path: String,
    /// How it is.
    pub state: Condition,
    /// For how long, if it is not in use as usual.
    pub seconds: Option<u64>,
    /// Why.
    pub why: Option<String>,
    /// Its errors since the volume was opened, by kind: "read", "write", "sync", "no-space", "other".
    pub errors: BTreeMap<String, u64>,
}

/// The journal, and how full it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalStatus {
    /// Room for records, in bytes.
    pub bytes: u64,
    /// Of these, bytes of records of writes that may not be durable.
    pub used_bytes: u64,
}

/// A change of the whole cache that is under way. Requests wait for its last step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// "drain", "detach", "set", "policy change" or "close". Without a server: another program has the volume
    /// open, and nothing else is known.
    pub what: String,
    /// For how long.
    pub seconds: u64,
    /// Pages that were copied to disk.
    #[serde(default)]
    pub done: u64,
    /// Of so many.
    #[serde(default)]
    pub total: u64,
}

/// Requests of clients since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims, writes of zeros, and all others.
    pub others: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
}

/// A volume's state and counters since it was opened. Counters are in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// A server has it open. If not, the counters are 0.
    pub running: bool,
    /// Seconds since it was opened.
    #[serde(default)]
    pub uptime_seconds: u64,
    /// The devices: disk, flash, label and journal.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
    /// The change of the whole cache that is under way.
    #[serde(default)]
    pub under_way: Option<UnderWay>,
    /// Requests of clients.
    #[serde(default)]
    pub requests: RequestCounts,
    /// Size of the volume, in bytes.
    pub volume_bytes: u64,
    /// Size of a page of the cache, in bytes.
    pub page_bytes: u64,
    /// The policy; `None`: there is no cache.
    pub policy: Option<String>,
    /// The mode; `None`: there is no cache.
    pub mode: Option<String>,
    /// Pages that fit into the cache.
    pub slots: u64,
    /// Pages in it.
    pub pages: u64,
    /// Pages in it that are newer than disk.
    pub dirty_pages: u64,
    /// Most pages that `dirty_percent_max` admits.
    #[serde(default)]
    pub dirty_pages_max: u64,
    /// The part of the cache that is newer than disk, in thousandths.
    #[serde(default)]
    pub dirty_permille: u64,
    /// Bytes of acknowledged writes that would be lost if the flash were taken away now. In write-through and
    /// write-around: 0.
    #[serde(default)]
    pub lost_without_flash_bytes: u64,
    /// Pages that the disk lacks since the flash failed; they are copied there while they can be read.
    #[serde(default)]
    pub missing_pages: u64,
    /// Pages whose newest versions cannot be read from flash, failed or in use: requests for them fail until
    /// they are written again as a whole. The first thousand ranges.
    #[serde(default)]
    pub lost: Vec<Lost>,
    /// Bytes of all of these.
    #[serde(default)]
    pub lost_bytes: u64,
    /// Pages that the disk refuses though it takes others: they stay on flash, newer than disk. The first
    /// thousand ranges, as of `lost`.
    #[serde(default)]
    pub kept: Vec<Lost>,
    /// Bytes of all of these.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Pages read from memory (staging).
    pub staging_hits: u64,
    /// Pages read from flash.
    pub flash_hits: u64,
    /// Pages read from disk.
    pub disk_reads: u64,
    /// Pages written to disk.
    pub disk_writes: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Pages that entered the cache after they were read from disk.
    pub populated: u64,
    /// What went around the cache, and why.
    #[serde(default)]
    pub bypassed: Vec<Bypassed>,
    /// The part of the hits that is read from disk now, because flash is slower, in thousandths.
    #[serde(default)]
    pub hits_to_disk_permille: u64,
    /// Bytes that may be written to flash at once, if there is a budget.
    #[serde(default)]
    pub flash_budget_left: Option<u64>,
    /// How long requests took, by where they were served.
    #[serde(default)]
    pub latencies: Vec<Latency>,
    /// The forecast for other policies and sizes, in a sentence.
    #[serde(default)]
    pub forecast: Option<String>,
    /// Whether the policy may change by itself.
    #[serde(default)]
    pub switches_policy: bool,
    /// Its last change, and why.
    #[serde(default)]
    pub switched: Option<String>,
    /// Why the cache switched itself off, if it did.
    pub notice: Option<String>,
    /// Without a server: the disk has everything and is bound to no cache. The flash device may be taken
    /// away.
    #[serde(default)]
    pub detached: bool,
    /// The owner's notices of the open.
    #[serde(default)]
    pub start_notices: Vec<String>,
    /// The journal that the disk's label names was gone when the volume was opened, or is: acknowledged
    /// writes that were not flushed may be missing.
    #[serde(default)]
    pub journal_missing: bool,
    /// The journal, if one is kept.
    #[serde(default)]
    pub journal: Option<JournalStatus>,
    /// Without a server: acknowledged writes of a killed one, which the next start carries out.
    #[serde(default)]
    pub journal_writes: u64,
}

/// A range of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl Lost {
    /// These pages, of so many bytes each.
    pub(crate) fn of((first, pages): &(PageId, u32), page_bytes: u64) -> Self {
        Self { offset: first.0 * page_bytes, bytes: u64::from(*pages) * page_bytes }
    }
}
