//! The named code points of SCE's cache: each handling of a fault. It has no recovery, because its directory
//! is in memory.

entresol_runtime::coverage_points! {
    OPEN_NEEDED = "sce, open: flash refused, another disk needs what is on it";
    OPEN_OVERWRITTEN = "sce, open: another cache on flash is overwritten";
    FETCH_MOVED = "sce, fetch: the copy was replaced during the read";
    FETCH_DAMAGED = "sce, fetch: what lies on flash is not the version wanted, it comes from disk";
    FETCH_UNREADABLE = "sce, fetch: flash cannot be read, the page comes from disk";
    POPULATE_UNREADABLE = "sce, populate: disk cannot be read, the fragment stays there";
    POPULATE_UNPROVED = "sce, populate: a page that cannot be proved is passed over";
    POPULATE_LOST = "sce, populate: a failed sync may have lost what was read";
    POPULATE_FAILED = "sce, populate: flash fails, the cache switches itself off";
    WRITE_THROUGH_FAILED = "sce, write: flash fails, the cache switches itself off";
    OFF_FETCH = "sce, switched off: a page comes from disk";
    OFF_WRITE = "sce, switched off: pages go to disk alone";
}
