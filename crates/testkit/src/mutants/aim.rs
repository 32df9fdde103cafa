//! Where to look for each mutant: the caches, or the store, in which it can show itself at all. Not what to
//! look for.

use super::Mutant;
use crate::Subject;
use entresol_core::PolicyKind;

/// What a hunt tries first and most often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Quick tortures of caches of these names.
    Caches(&'static [&'static str]),
    /// Lives of such caches, hardly any crashes.
    Lives(&'static [&'static str]),
    /// Silent damage to such caches.
    Damage(&'static [&'static str]),
    /// Writes that such caches lose.
    LostWrites(&'static [&'static str]),
    /// Sectors of such caches' devices that cannot be read.
    Unreadable(&'static [&'static str]),
    /// Crashes of a store in the middle of its work, on these systems in turn.
    Store(&'static [Subject]),
    /// The same with a slow log device.
    SlowLog(&'static [Subject]),
    /// Crashes of a store, each followed by crashes of the lives after it, on the disk alone.
    Restarts,
    /// Crashes of a store that has worked for long, each followed by crashes of the restarts, on these
    /// systems in turn.
    LateRestarts(&'static [Subject]),
    /// A log that grows over what is left of a torn flush.
    Leftovers,
    /// A store whose flash is damaged while the machine is off, and restarts that are cut off after that.
    DamagedFlash,
    /// Programs that are killed one after the other before power fails.
    Kills,
    /// Crashes while a store is made and loaded.
    Birth,
    /// Caches that are detached after a crash and damage.
    Detached,
    /// Disk, log and flash of different moments.
    Exchanged,
    /// Disk, log or flash with damaged or unreadable sectors.
    Media,
    /// A disk that runs full.
    FullDisk,
    /// Hundreds of clients on the smallest log.
    Crowd,
    /// More tables than the log has room for.
    Tables,
}

const LOG_BACK: Aim = Aim::Caches(&["face/write-back", "face-gr/write-back", "face-gsc/write-back"]);
const LOG_THROUGH: Aim =
    Aim::Caches(&["face/write-through", "face-gr/write-through", "face-gsc/write-through"]);
const LOG: Aim = Aim::Caches(&["face", "face-gr", "face-gsc"]);
const GROUPS: Aim = Aim::Caches(&["face-gr", "face-gsc"]);
const GSC: Aim = Aim::Caches(&["face-gsc/write-back"]);
const LC: Aim = Aim::Caches(&["lc/write-back"]);
const SCE: Aim = Aim::Caches(&["sce"]);
const STORE: Aim = Aim::Store(&[
    Subject::Cached(PolicyKind::FaceGsc),
    Subject::DiskOnly,
    Subject::Cached(PolicyKind::Lc),
    Subject::Cached(PolicyKind::Face),
    Subject::WriteThrough(PolicyKind::FaceGsc),
    Subject::Cached(PolicyKind::FaceGr),
]);
pub(super) const LATE_RESTARTS: Aim =
    Aim::LateRestarts(&[Subject::Cached(PolicyKind::Face), Subject::Cached(PolicyKind::FaceGr)]);
const STORE_ON_DISK: Aim = Aim::Store(&[Subject::DiskOnly]);
/// What survives on flash is newer than disk.
pub(super) const LOGS: [Subject; 3] = [
    Subject::Cached(PolicyKind::FaceGsc),
    Subject::Cached(PolicyKind::FaceGr),
    Subject::Cached(PolicyKind::Face),
];
const STORE_ON_LOG: Aim = Aim::Store(&LOGS);

impl Aim {
    pub(super) fn of(mutant: Option<&Mutant>) -> Aim {
        let Some(mutant) = mutant else { return LOG };
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
            | "second-chance-recorded-clean"
            | "detach-beside-older-destages" => GSC,
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
            "reused-frame-not-noticed" => Aim::Lives(&["face", "face-gr", "face-gsc"]),
            "page-id-not-checked" => Aim::Caches(&["all"]),
            "superblock-in-place" | "label-in-place" | "page-checksum-not-checked" => LOG,
            "wal-rule-skipped-for-pulled" => Aim::SlowLog(&[Subject::Cached(PolicyKind::FaceGsc)]),
            "wal-rule-skipped" => {
                Aim::SlowLog(&[Subject::WriteThrough(PolicyKind::FaceGsc), Subject::DiskOnly])
            }
            "log-tail-not-cleared" | "undo-without-compensation" | "compensation-names-no-next" => {
                Aim::Restarts
            }
            "failed-invalidation-tried-again" => Aim::Lives(&["tac/write-around"]),
            "lost-note-believed" | "losses-not-recorded" => Aim::DamagedFlash,
            "log-epoch-not-grown" | "log-of-older-epoch-accepted" => Aim::Leftovers,
            // A page that is rebuilt from its image, though it has a note, is on flash in an older version
            // when power fails.
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
