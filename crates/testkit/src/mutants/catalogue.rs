//! The mutants, by crate. A name occurs in the sources once for each place that the bug changes:
//! `mutant!("name")`.

/// A bug that can be activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name, on the command line and in the sources.
    pub name: &'static str,
    /// Its crate.
    pub place: &'static str,
    /// The defect.
    pub bug: &'static str,
}

macro_rules! catalogue {
    ($($place:literal: { $($name:literal: $bug:literal,)+ })+) => {
        /// All mutants.
        pub const ALL: &[Mutant] = &[$($(Mutant { name: $name, place: $place, bug: $bug },)+)+];
    };
}

catalogue! {
    "core": {
        "newer-copy-not-awaited": "slots are released before the newer copies that excused them from a destage are durable",
        "release-ignores-second-chances": "a dequeued group is released while its second chances are still in staging",
        "second-chance-loses-dirty": "a page that gets a second chance is taken for clean from then on",
        "front-page-dropped-dirty": "the page at the very front, which goes when all others stay, is dropped though dirty",
        "flushed-page-not-in-segment": "a segment leaves out a flushed page that was forgotten before a record of that was durable",
        "older-version-published-last": "a version whose group completes late takes the place of a newer one",
        "superseded-version-destaged": "a superseded version is written over the newer page on disk",
        "superseded-version-restaged": "a version that was superseded while its group was read gets a second chance",
        "lc-checkpoint-skips-overtaken": "a checkpoint does not wait for what newer versions have overtaken in staging",
        "lc-busy-slot-overwritten": "a slot is overwritten while its older version is being copied to disk",
        "lc-overwrite-loses-dirty": "a dirty version written over an older one in its slot counts as clean",
        "slot-counter-not-grown": "a page looks like the one that was in its slot before",
        "newer-version-not-enqueued": "a page newer than its flash copy is taken for one that is there already",
        "older-version-restored-too": "restoring a newer version leaves the older one valid",
        "dirty-forgotten-in-restore": "all restored pages are taken for clean",
        "population-revives-written-page": "sce: a page that is written while its fragment is populated becomes valid there, in the older version",
        "populated-under-writes": "sce: a fragment is populated while writes to its pages on disk are under way",
    }
    "format": {
        "block-checksum-not-checked": "superblocks, labels and summaries are believed without their checksums",
        "superblock-in-place": "superblocks overwrite each other instead of rotating over four copies",
        "label-in-place": "disk labels overwrite each other instead of alternating",
        "segment-loses-dirty": "directory segments say that all pages are clean",
        "summary-loses-dirty": "group summaries say that all pages are clean",
        "postgres-checksum-not-checked": "PostgreSQL's pages are believed without our checksums",
        "raw-checksum-not-checked": "raw pages are believed without their checksums",
        "page-checksum-not-checked": "pages are believed without their checksums",
        "page-id-not-checked": "another page in the place of the one wanted is not noticed",
    }
    "engine": {
        "fingerprint-not-written-first": "a disk in place is written before its label file has the new checksum",
        "fingerprint-not-compared": "a disk in place that another program has written to is used as it was",
        "bypassed-page-not-written": "a changed page that a policy keeps out is not written to disk",
        "written-page-told-before-its-sync": "the log has a note of a page on disk that no sync has made durable",
        "read-past-dirty-pages": "a read past the flash takes pages from disk that are newer in the cache",
        "write-past-dirty-pages": "a dirty page is forgotten on flash before its newer version is on disk",
        "destage-after-write-around": "a page that is not taken goes to disk while an older version is on its way there",
        "disk-before-flash": "a changed raw page is written to disk before its group is durable",
        "writes-under-way-taken-for-done": "a checkpoint takes pages for durable on disk whose write is under way",
        "two-writers-of-a-page": "two writers of a raw page write to disk and flash in any order",
        "late-read-populates": "a page that was read from disk enters the flash though it was written meanwhile",
        "trimmed-page-not-kept-out": "a read that met the disk before a trim brings the page into the cache after it",
        "wanted-page-not-synced": "a page that its owner wants on disk is called clean before it is durable there",
        "flush-returns-at-once": "a flush does not wait for its writes",
        "flush-in-one-place": "each flush of a group overwrites the summary of the one before",
        "both-summaries-overwritten": "the write that fills a flushed group overwrites both of its summaries at once",
        "both-summaries-repaired-at-once": "an open repairs both summaries of a group between two syncs",
        "record-not-repeated": "a later summary of a group leaves out the forgotten pages that an earlier one names",
        "forgotten-page-in-summary": "a page that was forgotten in staging is listed in its group's summary",
        "forgotten-page-restored": "recovery does not read which pages were forgotten",
        "flushed-records-taken-for-nothing": "a group of which only records of forgotten pages were flushed counts as never written",
        "object-log-not-synced": "a change of the table of objects counts as durable before it is synced",
        "definition-after-its-pages": "a group names an object whose definition is not durable",
        "flush-leaves-objects": "a flush does not make retired and cut objects durable",
        "dead-pages-restored": "recovery serves pages that were retired or cut off",
        "dead-page-served": "a fetch does not ask whether the page is dead",
        "write-through-not-announced": "a page enters the flash from a read while a write of it to disk is under way",
        "turn-of-first-page-only": "of several pages that are written together, one is protected from other writers",
        "read-ahead-not-proved": "pages that moved on flash between their look-up and their read are served",
        "run-of-pages-misplaced": "adjacent pages that only the disk has are read to the place of the last one",
        "label-epoch-not-checked": "a flash cache that missed writes to its disk is accepted",
        "torn-group-accepted": "a group that was being written when the power failed counts as written",
        "leftover-of-older-epoch-accepted": "summaries beyond the rear that an older life left come back",
        "front-in-summaries-ignored": "recovery begins at the superblock's front though summaries record a later one",
        "segment-checksum-not-checked": "a directory segment is believed without its checksum",
        "failed-invalidation-tried-again": "tac: after an invalidation that flash refused the entry counts as invalid",
        "losses-not-recorded": "groups that an open has not found are forgotten when others take their places",
        "repair-skipped": "a torn group keeps its summary, and is trusted after the next crash",
        "unsure-pages-taken-for-clean": "write-through: pages whose disk writes were not synced come back as clean",
        "disk-not-synced-by-open": "epochs go on from a label that a killed program had written and not synced",
        "flash-not-synced-by-open": "a superblock calls groups durable that a killed program had written and not synced",
        "epoch-not-bumped": "an open does not begin a new epoch",
        "session-rear-not-recorded": "the superblock does not say where this life's writes begin",
        "one-superblock-copy-renewed": "three superblocks of an older epoch remain after an open",
        "one-label-copy-renewed": "the label of an older epoch remains beside the newest",
        "begun-not-checked": "a disk one session old passes for one whose open was cut off",
        "epoch-nonce-not-checked": "flash and disk of two branches of one copy are opened together",
        "epoch-not-begun": "superblocks never say that the disk's label is of their epoch",
        "unreadable-clean-page-stops": "a clean page that cannot be read stops the dequeue of its group",
        "reuse-before-destage": "slots are free before their destages are written",
        "destage-not-synced": "slots are free before their destages are durable",
        "damaged-dirty-page-dropped": "a dequeue drops a dirty page that it cannot read",
        "damaged-dirty-page-read-from-disk": "the older version on disk is served for a damaged dirty page",
        "second-chance-recorded-clean": "the summary says that a dirty page with a second chance is clean",
        "generation-not-checked": "another version in the place of the one wanted is not noticed",
        "reused-frame-not-noticed": "a fetch copies whatever is in the staging frame by now",
        "durable-position-runs-ahead": "superblocks call groups durable that are still in staging",
        "superblock-not-synced": "a superblock counts as recorded before it is durable",
        "front-not-recorded-before-reuse": "slots are overwritten before a durable record says that they are free",
        "valid-before-written": "pages are valid on flash before their write completes",
        "durable-told-before-written": "the log is told that pages are durable before they are written",
        "group-not-synced": "pages are valid on flash before their write is durable",
        "checkpoint-leaves-staging": "a checkpoint does not wait for what is in staging",
        "failed-flash-stops-all": "a flash that fails stops a cache without a log above",
        "missing-pages-not-recorded": "the label does not say that the flash has failed, nor which pages the disk lacks",
        "missing-page-read-from-disk": "the older version on disk is served for a page that only a failed flash has",
        "found-page-not-recorded": "a page that went to disk after the flash had failed is still on the list of missing ones",
        "switched-off-while-dirty": "a failed flash is left behind with pages newer than disk on it",
        "switched-off-without-unbinding": "the disk still names a failed flash that it goes on without",
        "fragment-valid-before-copied": "sce: pages are valid on flash before their fragment's copy is written",
        "unproved-page-populated": "sce: a page that could not be proved on disk is valid on flash",
        "population-of-what-a-sync-lost": "sce: the older version that a failed sync brought back is populated",
        "write-through-skipped": "sce: a mapped page is written to disk alone and stays valid on flash",
        "write-through-not-counted": "sce: a page written through cannot be told from its version before",
        "failed-write-through-keeps-copy": "sce: a write to flash that failed leaves the older version valid",
        "switched-off-flash-still-read": "sce: a cache that is switched off serves what it had",
        "stale-flash-believed": "sce: pages that an earlier open left on flash pass for this one's",
        "needed-flash-overwritten": "sce: a flash with pages newer than another disk's is overwritten",
    }
    "block": {
        "fua-not-flushed": "a write with FUA is answered before it is durable",
        "fua-of-zeros-not-flushed": "zeros with FUA are answered before they are durable",
        "flush-not-carried-out": "a flush is answered and not carried out",
        "flush-of-the-rest-alone": "a flush makes the bytes after the last whole page durable, and nothing else",
        "flush-without-the-rest": "a flush leaves out the bytes after the last whole page",
        "parts-not-excluded": "two writes of parts of one page do not exclude each other",
        "part-written-over-disk": "a write of a part of a page takes the rest from the disk, though the cache has newer bytes",
        "zeros-not-written": "a request to write zeros is answered and not carried out",
        "journal-not-carried-out": "writes that a killed program had acknowledged are not carried out again",
        "journal-released-beyond-flush": "a flush releases records of writes that came while it was under way",
        "write-not-recorded": "writes are acknowledged without a record in the journal",
        "trim-drops-dirty-pages": "a trim forgets pages that are newer than disk",
        "trim-uncovers-lost-pages": "a trim of a lost page lets the disk's older bytes be read",
        "trim-before-disk-is-durable": "a trim forgets a page on flash while its write to disk is not durable",
    }
    "store": {
        "wal-rule-skipped": "pages are evicted before the log is durable up to their LSN",
        "wal-rule-skipped-for-pulled": "pages are pulled before the log is durable up to their LSN",
        "fdirty-lost-in-checkpoint": "a change made while a checkpoint copies the page counts as evicted",
        "destage-of-older-version-cleans-frame": "a frame is clean when an older version of its page was destaged",
        "checkpoint-record-before-flash": "the checkpoint record is written before the layer's checkpoint",
        "redo-point-too-late": "redo begins at the checkpoint record instead of where the checkpoint began",
        "active-transactions-forgotten": "a checkpoint record names no active transactions",
        "log-not-synced": "commits are acknowledged when the log is written, not when it is durable",
        "group-commit-counts-latecomers": "what was appended during a flush counts as flushed",
        "log-epoch-not-grown": "records after a restart look like those before it",
        "log-tail-not-cleared": "half a record stays behind the end of the log",
        "log-of-older-epoch-accepted": "leftovers behind the end of the log are taken for records",
        "torn-log-record-accepted": "log records are believed without their checksums",
        "undo-without-compensation": "what a rollback has undone is logged as the system's change",
        "compensation-names-no-next": "a compensation says that nothing is left to undo",
        "commit-before-sync": "commits are acknowledged at once",
        "page-image-not-logged": "the first change after a checkpoint is logged without the page's image",
        "durable-note-believed-blindly": "redo applies changes to a page that is older than its note says",
        "lost-note-believed": "redo believes notes of groups on flash that are damaged",
        "redo-ignores-page-lsn": "redo applies changes that the page has already",
        "rollback-leaves-first-change": "a rollback leaves the transaction's first change",
        "eio-taken-for-log-end": "an unreadable sector in the middle of the log ends it silently",
        "log-hole-not-refused": "damage in the middle of the log ends it silently",
        "log-session-not-checked": "disk and log of different moments or databases are opened together",
        "session-nonce-not-checked": "disk and log of two branches of one copy are opened together",
        "begun-flag-not-written": "the log never says that a session has begun: a disk one session old is accepted",
        "note-trusted-without-survivors": "redo believes notes that name a flash which is not there any more",
        "restart-room-given-away": "clients may fill the room that is kept for rolling back",
        "create-table-without-log-room": "a new table takes room in the log that was not reserved for it",
        "disk-capacity-not-checked": "pages are allocated beyond the end of the disk",
        "bulk-load-not-durable": "a loaded table is entered before its pages are durable",
    }
}

/// Mutants of the core that its own tests hunt: `cargo test -p entresol-core --features mutants --test
/// mutants`.
pub const IN_THE_CORE: &[&str] = &[
    "bypass-before-forgetting-is-durable",
    "bypass-despite-older-copy",
    "cleaned-beside-its-cleaning",
    "cleaned-beside-its-dequeue",
    "dequeue-beside-cleanings",
    "dequeued-page-not-recorded",
    "flush-counts-writing-pages",
    "flush-takes-held-back-position",
    "flushed-page-not-named-again",
    "forget-ignores-cleanings",
    "forget-leaves-older-staged-copy",
    "ghost-taken-for-a-page",
    "held-page-leaves",
    "group-not-held-back",
    "overtaken-page-cleaned",
    "record-before-its-copies",
    "record-below-is-the-rear-now",
    "released-before-dead-is-durable",
    "second-chance-outruns-record",
    "second-chances-out-of-turn",
    "slots-forgotten-before-frames",
    "slots-walked-before-frames",
];

/// Mutants of what processes share. The test of killed fronts hunts them: `cargo test --release -p
/// entresol-testkit --features hooks,mutants --test fronts`.
pub const IN_THE_FRONTS: &[&str] = &[
    "dead-holder-not-found",
    "dead-holder-of-a-group-not-found",
    "flash-of-another-cache-attached",
    "forgetting-not-gone-on-with",
    "forgotten-before-its-write-is-durable",
    "frame-let-go-too-early",
    "frame-not-announced",
    "frame-offered-before-filled",
    "older-fronts-go-on",
    "options-not-compared",
    "seat-of-a-dead-front-kept",
    "shared-frame-not-proved",
    "unfilled-frame-not-found",
    "waiters-not-told",
    "write-around-not-announced",
];

/// Mutants that directed tests of the engine notice: `cargo test --release -p entresol-engine --features
/// mutants --test shared_lsns --test kept_out --test forget_for --test objects --test second_chances --test
/// copies_that_differ --test causes --test damage_shared --test owners_log
/// --test lost --test held --test in_place --test flushed --test torn`.
pub const IN_THE_ENGINE: &[&str] = &[
    "absent-page-read-beside-its-write",
    "bypass-before-the-cut-is-durable",
    "cause-begins-before-its-record",
    "clean-page-before-its-disk-write",
    "clean-page-leaves-unsynced",
    "contradicted-lsn-believed",
    "damage-looked-after-too-late",
    "damaged-directory-left",
    "dead-pages-await-their-cause",
    "destaged-page-written-again",
    "durable-told-though-forgotten",
    "flush-leaves-forgotten-pages",
    "flushed-position-not-used",
    "full-group-not-confirmed",
    "full-records-left",
    "label-not-renewed",
    "left-is-not-told",
    "loss-accepted-unasked",
    "lost-page-found-too-early",
    "lost-page-not-recorded",
    "lsn-of-a-clean-page",
    "lsn-of-an-older-round",
    "object-log-goes-on-after-a-failure",
    "objects-in-one-copy",
    "own-sync-not-counted",
    "record-left-in-one-copy",
    "records-written-in-vain",
    "removal-without-log-position",
    "renewal-not-checked",
    "second-summary-not-synced",
    "settled-is-not-told",
    "summaries-left-different",
    "torn-page-left-with-a-damaged-one",
    "turns-shared-by-pages",
];

/// Mutants that directed tests of the block door notice: `cargo test --release -p entresol-block --features
/// mutants --test journals`.
pub const IN_THE_BLOCK_DOOR: &[&str] = &["journal-of-a-copy-carried-out", "missing-journal-not-told"];

/// Mutants that the hunt does not notice within its limit: holes, each to be closed.
pub const OPEN: &[&str] = &[];

/// The mutant of that name.
pub fn find(name: &str) -> Option<&'static Mutant> {
    ALL.iter().find(|mutant| mutant.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.file_name().is_some_and(|name| name != "mutant.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let found = text.split("mutant!(\"").skip(1).filter_map(|rest| rest.split('"').next());
                names.extend(found.map(str::to_owned));
            }
        }
    }

    #[test]
    fn the_catalogue_and_the_sources_name_the_same_mutants() {
        assert!(ALL.len() >= 30);
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for place in ["core", "format", "engine", "store", "block"] {
            let mut sources = BTreeSet::new();
            collect(&crates.join(place).join("src"), &mut sources);
            let listed = ALL.iter().filter(|mutant| mutant.place == place).map(|mutant| mutant.name);
            let listed = listed.chain(IN_THE_CORE.iter().copied().filter(|_| place == "core"));
            let shared = IN_THE_FRONTS.iter().chain(IN_THE_ENGINE).copied();
            let listed = listed.chain(shared.filter(|_| place == "engine"));
            let listed = listed.chain(IN_THE_BLOCK_DOOR.iter().copied().filter(|_| place == "block"));
            assert_eq!(sources, listed.map(str::to_owned).collect(), "in crate {place}");
        }
    }

    #[test]
    fn no_name_comes_twice() {
        let hunted = ALL.iter().map(|mutant| mutant.name);
        let all: Vec<_> = hunted.chain([IN_THE_CORE, IN_THE_FRONTS, IN_THE_ENGINE].concat()).collect();
        let names: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(names.len(), all.len());
        assert!(OPEN.iter().all(|name| names.contains(name)));
        assert!(ALL.len() - OPEN.len() >= 60, "mutants that must be noticed");
    }
}
