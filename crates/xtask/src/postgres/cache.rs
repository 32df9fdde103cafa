//! The caches that suites are run over: the model of one, and the real one.

/// A module, and what a suite has to know of it.
#[derive(Debug)]
pub(super) struct Cache {
    /// The beginning of the suites' names.
    pub name: &'static str,
    /// Of the module.
    pub module: &'static str,
    /// The title of the worker's process.
    pub worker: &'static str,
    /// Less cache, and less DRAM, than any table needs. Checkpoints leave dirty pages in it.
    pub tiny: &'static str,
    /// For processes that are killed: a cache that holds what is written between two kills.
    pub kill: &'static str,
    /// For the clusters of PostgreSQL's test framework. They have the file in common, so no path is in it.
    pub tap: &'static str,
    /// For the model of one relation: a cache that is soon full, so that pages are destaged all the time.
    pub model: &'static str,
    /// Steps of the cache that can be left out, and must be missed (hooktrace's `model.c`, `leave_out.c`).
    pub faults: &'static [&'static str],
    /// Counters that must not be zero after the model's runs: what they count has happened.
    pub model_must_happen: &'static [&'static str],
    /// A query of names and counters.
    pub counters: &'static str,
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

/// The model: hooktrace. It loses its memory with the server, so what its checkpoints leave out is lost in a
/// crash.
pub(super) const MODEL: Cache = Cache {
    name: "hooktrace",
    module: "hooktrace",
    worker: "hooktrace worker",
    tiny: "
shared_preload_libraries = 'hooktrace'
shared_buffers = 2MB
hooktrace.frames = 2048
hooktrace.destage_delay = 100
hooktrace.pull = 4
hooktrace.keep_dirty = on
",
    kill: "
shared_preload_libraries = 'hooktrace'
shared_buffers = 1MB
max_connections = 30
checkpoint_timeout = 30
hooktrace.frames = 4096
hooktrace.pull = 4
",
    tap: "
shared_preload_libraries = 'hooktrace'
hooktrace.frames = 1024
hooktrace.destage_delay = 100
hooktrace.pull = 4
",
    model: "
shared_preload_libraries = 'hooktrace'
shared_buffers = 1MB
max_connections = 20
autovacuum = off
hooktrace.frames = 128
hooktrace.destage_delay = 500
hooktrace.pull = 4
",
    faults: &["forget", "cut", "drop", "wait", "early", "clean", "stale"],
    model_must_happen: &[
        "hits",
        "misses",
        "staged dirty",
        "staged clean",
        "waits for room",
        "pulled",
        "destaged",
        "superseded in flight",
        "forgotten dirty",
        "waits for destage",
        "relations dropped",
        "clean compared",
    ],
    counters: "SELECT name, count FROM hooktrace_stat()",
    must_happen: &["hits", "destaged", "pulled", "relations dropped"],
    must_not_happen: &[],
};

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
    module: "entresol",
    worker: "entresol worker",
    tiny: tiny!(),
    kill: kill!(),
    tap: "",
    model: model!(),
    faults: &["forget", "cut", "drop", "clean"],
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
    counters: "SELECT key, value FROM entresol_stat s, json_each_text(row_to_json(s))",
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
    ..ENTRESOL
};
