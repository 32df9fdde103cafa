//! The types of the C interface, as `doors/postgres/entresol.h` has them. A test compares the numbers.

use std::ffi::{c_char, c_int};

/// The result of a function. Negative: the cache could not answer, and `ent_error` has a sentence.
pub mod code {
    /// It is done.
    pub const DONE: i32 = 0;
    /// The newest version is on disk.
    pub const ABSENT: i32 = 1;
    /// There is no room, and the caller does not wait.
    pub const FULL: i32 = 2;
    /// Not for the cache: the caller writes the page to disk.
    pub const DISK_ONLY: i32 = 3;
    /// Nothing has happened within the time.
    pub const NOTHING: i32 = 4;
    /// Bad options, or a flash that does not belong to the cluster. Nothing was changed.
    pub const REFUSED: i32 = -1;
    /// The only newest copy of a page cannot be proved.
    pub const DAMAGED: i32 = -2;
    /// Flash or disk has failed.
    pub const FAILED: i32 = -3;
    /// The worker has ended, or a process died in the middle of a change.
    pub const GONE: i32 = -4;
    /// The caller's own check has said that it is not to wait on.
    pub const INTERRUPTED: i32 = -5;
    /// The cache is another one now, or is being changed: the process attaches anew, and repeats its call.
    pub const CHANGED: i32 = -6;
}

/// Flags of `ent_stage`: those of PostgreSQL's `storage/flashcache.h`.
pub mod flag {
    /// Newer than the copy on disk.
    pub const DIRTY: u32 = 0x01;
    /// Do not wait for room.
    pub const PULL: u32 = 0x08;
    /// A clean page that the server has just written to disk by itself (write-through).
    pub const THROUGH: u32 = 0x10;
    /// The owner keeps the relation out of the cache.
    pub const KEPT_OUT: u32 = 0x20;
    /// Dirty, and no write past the cache may tear it: no budget keeps it out.
    pub const ATOMIC: u32 = 0x40;
}

/// How the cache ends.
pub mod close {
    /// As it is: warm, and needed.
    pub const WARM: u32 = 0;
    /// All dirty pages go to disk first. The cluster does not need the flash any more, and finds it warm if
    /// nothing is changed without it.
    pub const DRAINED: u32 = 1;
    /// The same, and the flash is the cluster's no more.
    pub const RELEASED: u32 = 2;
}

/// Where blocks are, for a read that the server makes itself.
pub mod place {
    /// On disk.
    pub const DISK: i32 = 0;
    /// In the cache, to be read with `ent_read`.
    pub const AT_HAND: i32 = 1;
    /// On the flash device, next to each other.
    pub const FLASH: i32 = 2;
}

/// What `ent_locate` has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntPlace {
    /// One of [`place`].
    pub at: i32,
    /// Blocks of which that is so.
    pub blocks: u32,
    /// The device's descriptor in this process.
    pub descriptor: i32,
    /// The object of the fork.
    pub object: u32,
    /// On the device, in bytes.
    pub offset: u64,
    /// What the first block is proved with; that of the next one is one more.
    pub stamp: u64,
    /// Reads of the device go past the kernel's cache.
    pub is_direct: bool,
}

/// What a process has had of the cache since it began, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntOwn {
    /// Reads that the cache served.
    pub hits: u64,
    /// Of these, reads that the server has started, to be executed meanwhile.
    pub async_hits: u64,
    /// Reads that the cache could not serve.
    pub misses: u64,
    /// Dirty pages that it took.
    pub staged_dirty: u64,
    /// Clean pages that it took.
    pub staged_clean: u64,
}

impl EntOwn {
    /// Of a process that begins.
    pub const NONE: Self = EntOwn { hits: 0, async_hits: 0, misses: 0, staged_dirty: 0, staged_clean: 0 };
}

/// A relation's fork, as PostgreSQL names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct EntFork {
    /// OID of the tablespace.
    pub tablespace: u32,
    /// OID of the database; 0 for shared catalogs.
    pub database: u32,
    /// Number of the relation's files.
    pub relation: u32,
    /// 0 main, 1 free space map, 2 visibility map.
    pub fork: u32,
}

/// Bytes of the path of a flash, with the zero at its end.
pub const FLASH_PATH_BYTES: usize = 1024;

/// The cache as it is now.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EntNow {
    /// Bytes of the flash; 0: no cache was opened.
    pub flash_bytes: u64,
    /// The place of its policy among those of the setting.
    pub policy: u32,
    /// 0 write-back, 1 write-through.
    pub mode: u32,
    /// The path, with zeros after it.
    pub flash: [u8; FLASH_PATH_BYTES],
}

impl Default for EntNow {
    fn default() -> Self {
        Self { flash_bytes: 0, policy: 0, mode: 0, flash: [0; FLASH_PATH_BYTES] }
    }
}

/// The cache's options, the same in all processes of a server. Strings end with 0 and outlive the process.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EntOptions {
    /// File or block device.
    pub flash: *const c_char,
    /// The cluster's folder, absolute.
    pub data: *const c_char,
    /// Folder of this PostgreSQL version in tablespaces.
    pub version_folder: *const c_char,
    /// "face", "face-gr", "face-gsc" or "reuse".
    pub policy: *const c_char,
    /// "write-back" or "write-through".
    pub mode: *const c_char,
    /// What may be written to flash in a day: "unlimited", device writes as "0.5x", or bytes as "200G".
    pub writes_per_day: *const c_char,
    /// Bytes of the flash to be used. 0: all that is there; `ent_plan` puts the number in.
    pub flash_bytes: u64,
    /// Memory is reserved for a cache of so many bytes; 0: of `flash_bytes`.
    pub max_bytes: u64,
    /// Forks of relations that may have pages in the cache.
    pub objects: u32,
    /// Most processes at a time.
    pub processes: u32,
    /// Threads that dequeue and destage.
    pub workers: u32,
    /// The cluster's pages carry checksums.
    pub checksums: bool,
    /// In write-back mode the server's log is kept so that it replaces the flash, if that is lost.
    pub survives: bool,
}

/// The cluster at its start. As `FlashCacheStartup` of `storage/flashcache.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntCluster {
    /// Of the cluster, drawn by initdb.
    pub system_identifier: u64,
    /// Where redo begins: an LSN.
    pub redo: u64,
    /// The record of the checkpoint that redo begins with: an LSN. 0: redo is over, and no log was kept.
    pub checkpoint: u64,
    /// Timeline of the checkpoint.
    pub timeline: u32,
    /// Bytes of a segment of the write-ahead log. 0: there is none, and no flash is bound to it (tests).
    pub segment_bytes: u32,
    /// The files are a copy, and complete without the cache.
    pub backup: bool,
    /// pg_control says that the cache may be newer than the files.
    pub in_use: bool,
    /// Recovery is to end at a target, and may not replay all of the log.
    pub target: bool,
    /// No other process uses the cache, and the caller takes no events: nothing is pulled out of its memory.
    pub alone: bool,
}

/// A task of the worker's main thread.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntEvent {
    /// 1: push `pages` victims into the cache, then `ent_worker_pulled`. 2: a message for the log. 3: the
    /// cache has failed, or its memory was given up: the message says why, and the worker must abort. 4: the
    /// cache has switched itself off, and the files are complete without it.
    pub kind: c_int,
    /// Of a pull.
    pub pages: c_int,
    /// Of a message: 0 information, 1 warning, 2 error. Of a failure: 1 if the flash has failed, and the
    /// server's log replaces it from the next start on.
    pub level: c_int,
}

/// A checkpoint of the server, or what is wanted of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntCheckpoint {
    /// Its record: an LSN. 0: there is none.
    pub record: u64,
    /// Its REDO pointer.
    pub redo: u64,
    /// Of the record.
    pub timeline: u32,
}

/// What is wanted of the server's log.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntLogWanted {
    /// The newest complete checkpoint; with a record of 0, none is new.
    pub newest: EntCheckpoint,
    /// The log from before this LSN must not be replayed over newer files.
    pub safe: u64,
    /// Bytes of the log that are kept for the loss of the flash.
    pub bound: u64,
    /// As little of the log as possible is to be needed.
    pub all: bool,
}

/// How the server's log is kept.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntLogKept {
    /// With the log from this checkpoint on, the files need no flash. A record of 0: they do.
    pub horizon: EntCheckpoint,
    /// The log is kept from this LSN on. 0: for no flash.
    pub from: u64,
    /// Dirty pages that need more of the log than redo does after a crash.
    pub pages: u64,
}

/// A redo that replaces the flash.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct EntRedo {
    /// Where it begins.
    pub from: EntCheckpoint,
    /// The record that it must reach: an LSN.
    pub upto: u64,
    /// The timeline of that record.
    pub upto_timeline: u32,
}

/// How long a redo took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntRedoTook {
    /// Of the log.
    pub bytes: u64,
    /// Pages that it has handed down.
    pub pages: u64,
    /// Microseconds.
    pub micros: u64,
    /// It has replaced a lost flash.
    pub replaced: bool,
}

/// What a replay in place of the flash has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntReplay {
    /// Of the log.
    pub bytes: u64,
    /// Pages that were handed down in the time of that log. 0: it is not known.
    pub pages: u64,
}

/// Kinds of events.
pub mod event {
    /// See [`super::EntEvent::kind`].
    pub const PULL: i32 = 1;
    /// See [`super::EntEvent::kind`].
    pub const MESSAGE: i32 = 2;
    /// See [`super::EntEvent::kind`].
    pub const FAILED: i32 = 3;
    /// See [`super::EntEvent::kind`].
    pub const OFF: i32 = 4;
}

/// The pages of one fork in the cache, and its counters while it had pages there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntRelation {
    /// Which fork.
    pub fork: EntFork,
    /// Pages in the cache.
    pub cached: u64,
    /// Of these, newer than disk.
    pub dirty: u64,
    /// Reads that the cache has served.
    pub hits: u64,
    /// Blocks that were read from disk.
    pub misses: u64,
    /// Dirty pages taken.
    pub staged_dirty: u64,
    /// Clean pages taken.
    pub staged_clean: u64,
}

/// How long something took. Durations are counted in buckets of powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntLatency {
    /// How often.
    pub count: u64,
    /// The sum, microseconds.
    pub total_us: u64,
    /// Half of them took less than so many microseconds, rounded up to a power of two.
    pub p50_us: u64,
    /// As `p50_us`, 95 of 100.
    pub p95_us: u64,
    /// As `p50_us`, 99 of 100.
    pub p99_us: u64,
}

/// What takes its time: the rows of [`EntLatency`].
pub mod latency {
    /// Reads from the cache, by the server's processes. Only while they measure.
    pub const READ: u32 = 0;
    /// Pages handed to the cache, with waits for room. Only while the processes measure.
    pub const STAGE: u32 = 1;
    /// Writes to flash.
    pub const FLASH_WRITE: u32 = 2;
    /// Dequeues with their destages, and pulls.
    pub const BACKGROUND: u32 = 3;
    /// Checkpoints of the cache.
    pub const CHECKPOINT: u32 = 4;
    /// Syncs of the flash.
    pub const FLASH_SYNC: u32 = 5;
    /// Rows.
    pub const ROWS: usize = 6;
    /// Rows that processes measure.
    pub const MEASURED: usize = 2;
}

/// What processes of one kind did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntBackend {
    /// Reads that the cache has served.
    pub hits: u64,
    /// Blocks that were read from disk.
    pub misses: u64,
    /// Dirty pages taken.
    pub staged_dirty: u64,
    /// Clean pages taken, or offered with an equal copy in the cache.
    pub staged_clean: u64,
    /// Pages offered that were not taken.
    pub refused: u64,
}

/// I/O of the flash, by a kind of process, or by the cache's own threads. In pages, and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EntIo {
    /// Pages read from flash.
    pub reads: u64,
    /// What reads took, of those that are measured.
    pub read_us: u64,
    /// Pages written to flash.
    pub writes: u64,
    /// What writes took.
    pub write_us: u64,
    /// Pages read from memory between DRAM and flash.
    pub hits: u64,
    /// Pages written to their files, to make room or because that was asked for.
    pub evictions: u64,
    /// Second chances.
    pub reuses: u64,
    /// Syncs of the flash.
    pub syncs: u64,
    /// What they took.
    pub sync_us: u64,
}

/// Bytes of a forecast in words, with the 0 at its end.
pub const FORECAST_BYTES: usize = 512;

/// What the cache has saved since an hour ago, or since it was opened.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EntBenefit {
    /// Since when, seconds since 1970.
    pub since_s: u64,
    /// How long that is.
    pub seconds: u64,
    /// Pages that the cache has served.
    pub disk_reads_saved: u64,
    /// Pages that the server has handed down instead of writing them to disk, less those that the cache has
    /// written there. Negative: it has written more, of before.
    pub disk_writes_saved: i64,
    /// What a page read from disk takes, as measured, in nanoseconds. 0: none was.
    pub disk_read_ns: u64,
    /// The same of a page written to disk, with its sync.
    pub disk_write_ns: u64,
    /// Written to flash.
    pub flash_write_bytes: u64,
    /// Hits of a thousand reads of a cache of this size, half of it and twice, as its shadows forecast. -1:
    /// it is not known.
    pub hit_permille: [i32; 3],
    /// What the shadows forecast, or why they do not. Ends with 0.
    pub forecast: [u8; FORECAST_BYTES],
}

/// Kinds of processes that are told apart: numbers below this one.
pub const BACKEND_KINDS: usize = 32;

macro_rules! stats {
    ($($field:ident: $meaning:literal;)+) => {
        /// Counters of all processes since the cache was opened, and present values. In pages unless said
        /// otherwise.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct EntStat {
            $(#[doc = $meaning] pub $field: u64,)+
        }

        impl EntStat {
            /// Names of the fields, in their order.
            pub const FIELDS: &[&str] = &[$(stringify!($field)),+];

            /// The values, in the order of [`EntStat::FIELDS`].
            pub fn values_mut(&mut self) -> [&mut u64; Self::FIELDS.len()] {
                [$(&mut self.$field),+]
            }
        }
    };
}

stats! {
    staging_hits: "Reads served from memory between DRAM and flash.";
    flash_hits: "Reads served from flash.";
    async_hits: "Of flash_hits, reads that the server has started, to be executed meanwhile.";
    async_rejected: "Such reads that found another page in its place, and were repeated.";
    misses: "Reads that the cache could not serve.";
    staged_dirty: "Dirty pages taken.";
    staged_clean: "Clean pages taken.";
    already_cached: "Clean pages offered with an equal copy in the cache.";
    refused_clean: "Clean pages not taken, for there was no room.";
    disk_only: "Dirty pages written to disk past the cache.";
    written_through: "Changed pages written to their files by the server itself, and taken as clean ones.";
    kept_out: "Pages offered of relations that are kept out of the cache.";
    over_budget: "Pages offered while the budget of writes to flash is short.";
    pulled: "Pages pulled out of shared buffers to fill a group.";
    destaged: "Pages written from flash to relation files.";
    flash_writes: "Pages written to flash, second chances included.";
    second_chances: "Second chances given.";
    dequeue_reads: "Pages read from flash to be destaged or staged again.";
    damaged_clean: "Clean pages found damaged on flash.";
    forgets: "Requests to forget blocks.";
    cuts: "Forks truncated.";
    retired: "Forks removed.";
    flushes: "Requests to make a relation durable.";
    checkpoints: "Checkpoints.";
    destages_asked: "Requests to bring pages to disk: drains, backups, copies of databases.";
    no_file: "Pages not destaged, since their file is gone.";
    past_end: "Pages not destaged, since their file is shorter.";
    space_waits: "Waits of a destage for space on a file system.";
    file_syncs: "Syncs of relation files.";
    flash_write_bytes: "Bytes of pages written to flash.";
    slots: "Slots on flash.";
    slots_valid: "Slots with the newest version of a page.";
    slots_dirty: "Valid slots that are newer than disk.";
    slots_superseded: "Slots with a superseded version.";
    objects: "Forks with pages in the cache.";
    objects_retired: "Removed forks whose numbers are not free yet.";
    objects_refused: "Times that the table of forks was full.";
}

/// The fields of [`EntStat`] that are present values; the others count.
pub const PRESENT: &[&str] =
    &["slots", "slots_valid", "slots_dirty", "slots_superseded", "objects", "objects_retired"];
