//! The extension in its two modes, as suites run over it.

/// The title of the worker's process.
pub(super) const WORKER: &str = "entresol worker";

/// After a configuration of [`Cache`]: the oracles of hooktrace over the extension's hooks.
pub(super) const ORACLES: &str = "shared_preload_libraries = 'entresol, hooktrace'\n";

/// Steps that hooktrace can leave out of a cache for one relation, and that must be missed (`leave_out.c`).
pub(super) const FAULTS: &[&str] = &["forget", "cut", "drop", "clean", "stale"];

/// What hooktrace counts if its oracles have looked: none may be zero after a suite over [`ORACLES`].
pub(super) const ORACLES_MUST_HAPPEN: &[&str] = &["attached", "shadows checked", "clean compared"];

/// A mode, and what a suite has to know of it.
#[derive(Debug)]
pub(super) struct Cache {
    /// The beginning of the suites' names.
    pub name: &'static str,
    /// Less cache, and less DRAM, than any table needs. Checkpoints leave dirty pages in it.
    pub tiny: &'static str,
    /// For processes that are killed: a cache that holds what is written between two kills.
    pub kill: &'static str,
    /// For the model of one relation: a cache that is soon full, so that pages are destaged all the time.
    pub model: &'static str,
    /// Counters that must not be zero after the model's runs: what they count has happened.
    pub model_must_happen: &'static [&'static str],
    /// Counters that must not be zero after PostgreSQL's regression tests: what they count has happened.
    pub must_happen: &'static [&'static str],
    /// Counters that must be zero while no process was killed.
    pub must_not_happen: &'static [&'static str],
}

impl Cache {
    /// Whether a cluster needs the pages in it after a crash.
    pub fn is_needed(&self) -> bool {
        !self.must_not_happen.contains(&"slots_dirty")
    }
}

// Configurations of the extension. `FOLDER` stands for the folder of the test.

macro_rules! tiny {
    () => {
        "
shared_preload_libraries = 'entresol'
shared_buffers = 2MB
entresol.flash = 'FOLDER/flash'
entresol.size = 32MB
entresol.objects = 8192
entresol.drain_at_shutdown = on
"
    };
}

macro_rules! kill {
    () => {
        "
shared_preload_libraries = 'entresol'
shared_buffers = 1MB
max_connections = 30
checkpoint_timeout = 30
entresol.flash = 'FOLDER/flash'
entresol.size = 24MB
entresol.objects = 2048
entresol.drain_at_shutdown = on
"
    };
}

macro_rules! model {
    () => {
        "
shared_preload_libraries = 'entresol'
shared_buffers = 1MB
max_connections = 20
autovacuum = off
entresol.flash = 'FOLDER/flash'
entresol.size = 16MB
entresol.objects = 256
entresol.drain_at_shutdown = on
"
    };
}

/// The extension in write-back mode.
pub(super) const ENTRESOL: Cache = Cache {
    name: "entresol",
    tiny: tiny!(),
    kill: kill!(),
    model: model!(),
    model_must_happen: &[
        "flash_hits",
        "staging_hits",
        "misses",
        "staged_dirty",
        "staged_clean",
        "destaged",
        "second_chances",
        "pulled",
        "forgets",
        "cuts",
        "retired",
    ],
    must_happen: &[
        "staging_hits",
        "flash_hits",
        "destaged",
        "second_chances",
        "pulled",
        "forgets",
        "cuts",
        "retired",
        "checkpoints",
    ],
    must_not_happen: &["damaged_clean", "no_file", "past_end", "space_waits", "written_through"],
};

macro_rules! through {
    ($configuration:expr) => {
        concat!($configuration, "entresol.mode = 'write-through'\n")
    };
}

/// The extension in write-through mode. Nothing in it is ever newer than disk.
pub(super) const THROUGH: Cache = Cache {
    name: "through",
    tiny: through!(tiny!()),
    kill: through!(kill!()),
    // The model uses the file of a removed relation again, which the server does after a checkpoint only. A
    // process that has the old one open would write there.
    model: through!(concat!(model!(), "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n")),
    model_must_happen: &[
        "flash_hits",
        "staging_hits",
        "misses",
        "written_through",
        "staged_clean",
        "second_chances",
        "forgets",
        "cuts",
        "retired",
    ],
    must_happen: &[
        "staging_hits",
        "flash_hits",
        "written_through",
        "second_chances",
        "pulled",
        "forgets",
        "cuts",
        "retired",
        "checkpoints",
    ],
    must_not_happen: &[
        "damaged_clean",
        "no_file",
        "past_end",
        "space_waits",
        "staged_dirty",
        "destaged",
        "slots_dirty",
    ],
};
