//! Where the hunt looks for each mutant: the caches, or the store, in which the mutant can have an effect.
//! Not which symptom to look for.

use super::Mutant;
use crate::Subject;
use crate::raw::Kind;
use entresol_core::PolicyKind;

/// The trials that a hunt tries first and most often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Quick tortures of caches of these names.
    Caches(&'static [&'static str]),
    /// Lives of such caches, with very few crashes.
    Lives(&'static [&'static str]),
    /// Silent damage to such caches.
    Damage(&'static [&'static str]),
    /// Lost writes of such caches.
    LostWrites(&'static [&'static str]),
    /// Unreadable sectors on the devices of such caches.
    Unreadable(&'static [&'static str]),
    /// Crashes of a store during transactions, on these systems in turn.
    Store(&'static [Subject]),
    /// As `Store`, with a slow log device.
    SlowLog(&'static [Subject]),
    /// Crashes of a store, each followed by crashes of the lives after it, on the disk alone.
    Restarts,
    /// Crashes of a store after a long life, each followed by crashes of the restarts, on these systems in
    /// turn.
    LateRestarts(&'static [Subject]),
    /// A log that grows over the leftovers of a torn flush.
    Leftovers,
    /// A store whose flash is damaged while the machine is off, with crashes of the restarts after that.
    DamagedFlash,
    /// Programs that are killed one after another, before power fails.
    Kills,
    /// Crashes while a store is created and loaded.
    Birth,
    /// Caches that are detached after a crash and damage.
    Detached,
    /// Disk, log and flash from different moments.
    Exchanged,
    /// Disk, log or flash with damaged or unreadable sectors.
    Media,
    /// A disk that becomes full.
    FullDisk,
    /// Hundreds of clients on the smallest log.
    Crowd,
    /// More tables than fit into the log.
    Tables,
    /// Caches of pages of others that are flushed and forgotten: those of one kind.
    Raw(Kind),
    /// As `Raw`, of the policy that writes page by page, at many moments of each life.
    PageByPage,
}

const LOG_BACK: Aim = Aim::Caches(&["face/write-back", "face-gr/write-back", "face-gsc/write-back"]);
const LOG_THROUGH: Aim =
    Aim::Caches(&["face/write-through", "face-gr/write-through", "face-gsc/write-through"]);
const LOG: Aim = Aim::Caches(&["face", "face-gr", "face-gsc"]);
const GROUPS: Aim = Aim::Caches(&["face-gr", "face-gsc"]);
const REUSE: Aim = Aim::Caches(&["reuse/write-back"]);
const GSC: Aim = Aim::Caches(&["face-gsc/write-back"]);
const LC: Aim = Aim::Caches(&["lc/write-back"]);
const SCE: Aim = Aim::Caches(&["sce"]);
const STORE: Aim = Aim::Store(&[
    Subject::cached(PolicyKind::FaceGsc),
    Subject::DISK_ONLY,
    Subject::cached(PolicyKind::Lc),
    Subject::cached(PolicyKind::Face),
    Subject::write_through(PolicyKind::FaceGsc),
    Subject::cached(PolicyKind::FaceGr),
]);
pub(super) const LATE_RESTARTS: Aim =
    Aim::LateRestarts(&[Subject::cached(PolicyKind::Face), Subject::cached(PolicyKind::FaceGr)]);
const STORE_ON_DISK: Aim = Aim::Store(&[Subject::DISK_ONLY]);
/// Systems whose flash has newer versions than the disk.
pub(super) const LOGS: [Subject; 3] = [
    Subject::cached(PolicyKind::FaceGsc),
    Subject::cached(PolicyKind::FaceGr),
    Subject::cached(PolicyKind::Face),
];
const STORE_ON_LOG: Aim = Aim::Store(&LOGS);

/// Those of flushing and forgetting.
const RAW: &[&str] = &[
    "flush-returns-at-once",
    "late-read-populates",
    "wanted-page-not-synced",
    "disk-before-flash",
    "writes-under-way-taken-for-done",
    "two-writers-of-a-page",
    "turn-of-first-page-only",
    "fingerprint-not-written-first",
    "fingerprint-not-compared",
    "forgotten-page-restored",
    "forgotten-page-in-summary",
    "raw-checksum-not-checked",
    "record-not-repeated",
    "both-summaries-overwritten",
    "flush-in-one-place",
    "both-summaries-repaired-at-once",
];
/// Those of pages that go around the flash.
const POSTGRES: &[&str] =
    &["postgres-checksum-not-checked", "destage-after-write-around", "flushed-page-not-in-segment"];
const OBJECTS: &[&str] = &[
    "disk-not-synced-by-open",
    "object-log-not-synced",
    "definition-after-its-pages",
    "flush-leaves-objects",
    "dead-pages-restored",
    "dead-page-served",
];
/// Those of pages that a policy keeps out.
const KEPT_OUT: &[&str] = &["bypassed-page-not-written", "written-page-told-before-its-sync"];

/// Those of engine and block door that show behind it.
const DOOR: &[&str] = &[
    "write-through-not-announced",
    "read-ahead-not-proved",
    "run-of-pages-misplaced",
    "read-past-dirty-pages",
    "write-past-dirty-pages",
    "failed-flash-stops-all",
    "missing-pages-not-recorded",
    "missing-page-read-from-disk",
    "found-page-not-recorded",
    "trimmed-page-not-kept-out",
];

/// The caches of raw pages in which the mutant shows, if it does in such.
fn of_raw_pages(mutant: &Mutant) -> Option<Aim> {
    if mutant.name == "flushed-records-taken-for-nothing" {
        // A group of which only a record was flushed, with a torn page after it.
        return Some(Aim::PageByPage);
    }
    let kinds = [(RAW, Kind::Raw), (POSTGRES, Kind::Postgres), (OBJECTS, Kind::Objects), (DOOR, Kind::Door)];
    let of_name = kinds.into_iter().find(|(names, _)| names.contains(&mutant.name)).map(|(_, kind)| kind);
    of_name.or((mutant.place == "block").then_some(Kind::Door)).map(Aim::Raw)
}

impl Aim {
    pub(super) fn of(mutant: Option<&Mutant>) -> Aim {
        let Some(mutant) = mutant else { return LOG };
        if let Some(aim) = of_raw_pages(mutant) {
            return aim;
        }
        match mutant.name {
            "needed-flash-overwritten" => SCE,
            "write-through-not-counted" | "stale-flash-believed" => Aim::Damage(&["sce"]),
            "population-revives-written-page"
            | "populated-under-writes"
            | "fragment-valid-before-copied"
            | "unproved-page-populated"
            | "population-of-what-a-sync-lost"
            | "write-through-skipped"
            | "failed-write-through-keeps-copy"
            | "switched-off-flash-still-read" => Aim::Lives(&["sce"]),
            "lc-checkpoint-skips-overtaken" | "lc-busy-slot-overwritten" | "lc-overwrite-loses-dirty" => LC,
            "second-chance-loses-dirty"
            | "front-page-dropped-dirty"
            | "release-ignores-second-chances"
            | "superseded-version-restaged"
            | "second-chance-recorded-clean" => GSC,
            "unsure-pages-taken-for-clean" | "switched-off-without-unbinding" => LOG_THROUGH,
            "torn-group-accepted" => GROUPS,
            "newer-copy-not-awaited" => Aim::Lives(&["face-gr/write-back", "face-gsc/write-back"]),
            "front-in-summaries-ignored" => STORE_ON_LOG,
            "front-not-recorded-before-reuse" => Aim::Lives(&["face/write-back", "face-gsc/write-back"]),
            "leftover-of-older-epoch-accepted" => {
                Aim::LostWrites(&["face/write-back", "face-gr/write-back", "face-gsc/write-back"])
            }
            "block-checksum-not-checked" | "segment-checksum-not-checked" => {
                Aim::Damage(&["face/write-back", "face-gr/write-back", "face-gsc/write-back"])
            }
            "slot-counter-not-grown" => Aim::Lives(&["lc/write-back", "loc", "glb", "lru"]),
            name if KEPT_OUT.contains(&name) => REUSE,
            "reused-frame-not-noticed" => Aim::Lives(&["face", "face-gr", "face-gsc"]),
            "page-id-not-checked" => Aim::Caches(&["all"]),
            "superblock-in-place" | "label-in-place" | "page-checksum-not-checked" => LOG,
            "wal-rule-skipped-for-pulled" => Aim::SlowLog(const { &[Subject::cached(PolicyKind::FaceGsc)] }),
            "wal-rule-skipped" => {
                Aim::SlowLog(const { &[Subject::write_through(PolicyKind::FaceGsc), Subject::DISK_ONLY] })
            }
            "log-tail-not-cleared" | "undo-without-compensation" | "compensation-names-no-next" => {
                Aim::Restarts
            }
            "failed-invalidation-tried-again" => Aim::Lives(&["tac/write-around"]),
            "lost-note-believed" | "losses-not-recorded" => Aim::DamagedFlash,
            "log-epoch-not-grown" | "log-of-older-epoch-accepted" => Aim::Leftovers,
            // At the power failure, a page that is rebuilt from its image, although it has a note, is on
            // flash in an older version.
            "durable-note-believed-blindly" => LATE_RESTARTS,
            "torn-log-record-accepted" | "log-not-synced" | "page-image-not-logged" => STORE_ON_DISK,
            "flash-not-synced-by-open" => Aim::Kills,
            "bulk-load-not-durable" => Aim::Birth,
            "note-trusted-without-survivors" => Aim::Detached,
            "log-session-not-checked"
            | "begun-flag-not-written"
            | "one-label-copy-renewed"
            | "begun-not-checked"
            | "session-nonce-not-checked"
            | "epoch-nonce-not-checked"
            | "epoch-not-begun" => Aim::Exchanged,
            "eio-taken-for-log-end" | "log-hole-not-refused" => Aim::Media,
            "unreadable-clean-page-stops" => Aim::Unreadable(&["face-gsc/write-back"]),
            "disk-capacity-not-checked" => Aim::FullDisk,
            "restart-room-given-away" => Aim::Crowd,
            "create-table-without-log-room" => Aim::Tables,
            _ => match mutant.place {
                "store" => STORE,
                _ => LOG_BACK,
            },
        }
    }
}
