//! The named code points of SCE's cache: each handling of a fault. It has no recovery, because its directory
//! is in memory.

entresol_runtime::coverage_points! {
    OPEN_NEEDED = "sce, open: flash refused, another disk needs what is on it";
    OPEN_OVERWRITTEN = "sce, open: another cache on flash is overwritten";
    FETCH_MOVED = "sce, fetch: the copy was replaced during the read";
    FETCH_DAMAGED = "sce, fetch: what lies on flash is not the version wanted, it comes from disk";
    FETCH_UNREADABLE = "sce, fetch: flash cannot be read, the page comes from disk";
    PROOFS_DAMAGED = "sce, fetch: the proofs on flash are damaged or not those wanted";
    PROOFS_READ = "sce, fetch: the proofs are read from flash with the page";
    PROOFS_WRITTEN = "sce, write: changed proofs go to flash before their place in memory is used again";
    PROOFS_MISSING = "sce, write: the proofs of the fragment are not to be had, the page stays invalid";
    POPULATE_UNREADABLE = "sce, populate: disk cannot be read, the fragment stays there";
    POPULATE_UNPROVED = "sce, populate: a page that cannot be proved is passed over";
    POPULATE_LOST = "sce, populate: a failed sync may have lost what was read";
    POPULATE_FAILED = "sce, populate: flash fails, the cache switches itself off";
    WRITE_THROUGH_FAILED = "sce, write: flash fails, the cache switches itself off";
    OFF_FETCH = "sce, switched off: a page comes from disk";
    OFF_WRITE = "sce, switched off: pages go to disk alone";
}
