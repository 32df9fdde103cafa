//! The order of all locks of the program, in one table: docs/LOCKING.md shows it, and debug builds assert it.
//!
//! The order is one property of the whole program. So its table is here, where every crate that has a lock
//! sees it, though the runtime takes none of these locks itself.

use std::fmt;

/// How a task waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The task parks: it may hold the lock across an I/O or another wait.
    Parks,
    /// The thread spins, or the operating system stops it: nothing may park while the lock is held.
    Blocks,
}

/// What a task may take while it holds a lock, besides the locks below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// No second lock of the same rank.
    One,
    /// More locks of the same rank, in an order that the lock's users see to.
    Several,
    /// Nothing: no lock of any rank, and no memory is allocated.
    Bare,
}

macro_rules! ranks {
    ($($Rank:ident: $wait:ident, $nesting:ident, $name:literal, $guards:literal;)+) => {
        /// A lock's place in the order. A task that holds locks waits only for locks of later ranks.
        ///
        /// A lock that is taken without waiting (`try_lock`) cannot cause a deadlock: it may be of any rank.
        /// Then it counts as held like any other.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rank {
            $(#[doc = $guards] $Rank,)+
        }

        impl Rank {
            /// All ranks, in their order.
            pub const ALL: &[Rank] = &[$(Rank::$Rank),+];

            const fn row(self) -> Row {
                match self {
                    $(Rank::$Rank => Row {
                        name: $name, wait: Wait::$wait, nesting: Nesting::$nesting, guards: $guards,
                    },)+
                }
            }
        }
    };
}

struct Row {
    name: &'static str,
    wait: Wait,
    nesting: Nesting,
    guards: &'static str,
}

ranks! {
    Test: Parks, Several, "test", "What a test, a test kit or an example has of its own.";
    VolumeChange: Parks, One, "change of a volume", "A change of a volume's cache as a whole: one at a time.";
    Volume: Parks, One, "volume", "The cache of a volume: shared by requests, held alone in the last step of a change.";
    RequestQueue: Parks, One, "request queue", "Requests of the block door that wait for a worker.";
    InFlight: Parks, One, "requests in flight", "How many requests, and bytes of them, may be under way.";
    Reply: Parks, One, "reply", "Replies of a connection that wait to be sent.";
    BlockRanges: Blocks, One, "block ranges", "Which pages of a volume are being written, and the tasks that wait for them.";
    Journal: Parks, One, "journal", "The end of a volume's journal, while a record is written or released.";
    Steering: Blocks, One, "steering", "The bypass of the cache of a volume.";
    BlockLog: Blocks, One, "block log", "What the block door's server has told in its log.";
    SeenCache: Blocks, One, "seen cache", "What reports see of a volume's cache.";
    DevicePaths: Blocks, One, "device paths", "Where the devices of a volume are.";
    Modification: Parks, One, "structure modification", "One split, unlink or new table at a time.";
    Checkpoint: Parks, One, "checkpoint", "One database checkpoint at a time.";
    LogRoom: Parks, One, "log room", "A reservation of bytes that an operation may append.";
    PoolPermit: Parks, One, "pool permit", "The pins that an operation may hold.";
    PageLatch: Parks, Several, "page latch", "A frame's page. From a tree's root down, within a level from left to right, then the meta page, then bitmap pages in ascending order.";
    Replacer: Blocks, One, "replacer", "The order in which frames are evicted.";
    PageTable: Blocks, One, "page-table shard", "Which page is in which frame.";
    FreeFrames: Blocks, One, "free frames", "Frames without a page.";
    Starved: Blocks, One, "starved tasks", "Tasks that wait for a frame.";
    SpaceHints: Blocks, One, "space hints", "Where free pages may be.";
    TransactionBuffers: Blocks, One, "transaction buffers", "Buffers for the next transaction.";
    RowLocks: Blocks, One, "row-lock shard", "Holders and waiters of row locks.";
    WaitsFor: Blocks, One, "waits-for graph", "Which transaction waits for which.";
    ActiveTable: Blocks, One, "active transactions", "Transactions that have logged something and have not ended.";
    LogLedger: Blocks, One, "log ledger", "How many bytes of the log are reserved.";
    LogTurn: Parks, One, "log turn", "Whose turn it is to write the log.";
    LogFlusher: Parks, One, "log flusher", "Whether the turn is free, and whether the log has failed.";
    LogTail: Blocks, One, "log tail", "Records that are not on the device yet.";
    PageTurn: Parks, Several, "page turn", "Writes of SCE to disk past staging: how many are under way.";
    EvictionTurn: Parks, One, "eviction turn", "Whose turn it is to wait for room in staging.";
    MissingTurn: Parks, One, "turn of missing pages", "Writing pages that the disk lacks since its flash failed, and the record of them.";
    DirtyMark: Parks, One, "dirty mark", "The disk's label, while it is changed to say whether the cache may have dirty pages.";
    Renewal: Parks, One, "renewal", "The disk's label and the superblock, while the label is renewed within an epoch.";
    ObjectLog: Parks, One, "object log", "The table of objects on flash: one task writes its log or a snapshot at a time.";
    DiskLabel: Parks, One, "disk label", "The disk's label, while it is changed.";
    Superblock: Parks, One, "superblock", "The flash's superblock, while it is written.";
    SlotDirectory: Parks, One, "slot-directory block", "A block of the slot directory, while it is written to flash.";
    NewestBatch: Blocks, One, "newest batch", "What the newest batch of slots changes.";
    StagingBuffer: Parks, Several, "staging buffer", "A group's pages (flash tier) or one page (disk layer).";
    SharedGroup: Blocks, Bare, "shared staging group", "A group's pages, where processes share them: each latch is in their memory.";
    FingerprintSectors: Parks, One, "sectors of the fingerprint", "Which sectors of a disk in place are in its fingerprint: held shared by writes, and alone while the disk grows.";
    Fingerprint: Parks, One, "disk fingerprint", "The checksums in the label file of a disk that is used in place, while a sector of them is written.";
    RedoSync: Parks, Several, "sync of a device that redoes", "The sync of a device that remembers what is not durable: one at a time.";
    RedoTurn: Parks, Several, "turn of a device that redoes", "Held shared by writes, and alone while bytes are written again after a failed sync.";
    RedoLog: Parks, One, "redo log", "Writes that are kept in the label file while the disk cannot be synced.";
    FileSyncs: Parks, One, "relation file syncs", "PostgreSQL's relation files: which were written, and which are being synced.";
    OwnersLog: Parks, One, "owner's log", "How far the owner's log was read.";
    RelationNotes: Parks, One, "notes of relation files", "The file with notes of pages that are durable in PostgreSQL's relation files.";
    Motion: Blocks, One, "pages in motion", "Slots that are being written, with their old and new pages.";
    CachePartition: Blocks, Bare, "cache partition", "The region of the flash tier's directory and policy.";
    Shadows: Blocks, Bare, "shadows", "The region of the shadows of a flash tier.";
    WritesThrough: Blocks, One, "writes through", "Which pages are being written through to disk.";
    StagingFrames: Blocks, One, "staging frames", "Which page is in which buffer of the disk layer.";
    DurableNotes: Blocks, One, "durable notes", "Pages written, of which the buffer pool is not told yet.";
    ForgottenRecords: Blocks, One, "forgotten records", "Records of forgotten pages, for the next directory segments.";
    MissingPages: Blocks, One, "missing pages", "Which pages the disk lacks since its flash failed.";
    DiskTrouble: Blocks, One, "disk trouble", "Since when the disk refuses writes, and which pages stay on flash for that.";
    WantedPages: Blocks, One, "wanted pages", "What became of pages that several tasks copy to disk.";
    Writeback: Blocks, One, "writeback", "When dirty pages are copied to disk before their turn.";
    Waves: Blocks, One, "waves", "Dequeues that wait to sync the disk together.";
    Destaged: Blocks, One, "destaged versions", "Which versions were destaged lately.";
    WriteBudget: Blocks, One, "write budget", "What may still be written to flash.";
    Syncs: Blocks, One, "syncs", "Syncs of a device that are under way.";
    Signal: Blocks, One, "signal", "Tasks that wait for a notification.";
    Buffers: Blocks, One, "page buffers", "Unused buffers of one page.";
    Tasks: Blocks, One, "background tasks", "The tasks that a layer has started.";
    Upstream: Blocks, One, "upstream", "The buffer pool above a layer.";
    Failure: Blocks, One, "failure", "The first failure, or why something was switched off.";
    Trace: Blocks, One, "recorded trace", "Requests recorded so far.";
    FlushBuffer: Blocks, One, "flush buffer", "Memory for the write that a flush carries out itself.";
    RedoBlocks: Blocks, One, "blocks to redo", "Bytes that were written since the last good sync.";
    DeviceModel: Blocks, One, "modelled device", "When a modelled device becomes idle.";
    FaultyDevice: Blocks, One, "faulty device", "Writes that a power failure may lose.";
    FaultPlan: Blocks, One, "fault plan", "Faults that are to happen.";
    DeviceMemory: Blocks, One, "device memory", "A piece of a device in memory.";
    Measurement: Blocks, One, "measurement", "What a benchmark's driver counts and records.";
}

impl Rank {
    /// What the lock is called in docs/LOCKING.md.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// How a task waits for it.
    pub const fn wait(self) -> Wait {
        self.row().wait
    }

    /// What may be taken while it is held.
    pub const fn nesting(self) -> Nesting {
        self.row().nesting
    }

    /// Its place in the order, from 1.
    pub const fn place(self) -> usize {
        self as usize + 1
    }

    /// The table of docs/LOCKING.md.
    pub fn table() -> String {
        let mut table =
            "| | lock | its waiters | under it | what it guards |\n|---|---|---|---|---|\n".to_owned();
        for rank in Rank::ALL {
            let Row { name, wait, nesting, guards } = rank.row();
            let wait = match wait {
                Wait::Parks => "park",
                Wait::Blocks => "block",
            };
            let below = match nesting {
                Nesting::One => "later ranks",
                Nesting::Several => "same and later ranks",
                Nesting::Bare => "nothing",
            };
            table.push_str(&format!("| {} | {name} | {wait} | {below} | {guards} |\n", rank.place()));
        }
        table
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (rank {})", self.name(), self.place())
    }
}
