//! The kinds of faults, with the names under which states are counted.

use entresol_device::Fault;
use std::fmt;

/// The fault before a state was recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// Power failed. Each unsynced write survived as a whole or not at all.
    Crash,
    /// Power failed. Each sector of unsynced writes survived or not.
    TornWrite,
    /// Power failed during a recovery.
    CrashInRecovery,
    /// Power failed during the recovery from a crash in a recovery.
    CrashInRecoveryAgain,
    /// The program was killed, without a power failure.
    Kill,
    /// Power failed while a cache was created, or a database loaded.
    Create,
    /// Reads failed before.
    ReadError,
    /// Writes failed before.
    WriteError,
    /// Writes failed because the device was full.
    NoSpace,
    /// A sync failed.
    SyncError,
    /// A sync failed, and the writes that it should have made durable were lost.
    SyncErrorLosingWrites,
    /// A write was acknowledged and was never carried out.
    LostWrite,
    /// A write was carried out at another place.
    MisdirectedWrite,
    /// A write was carried out at another place, too.
    DuplicatedWrite,
    /// A bit flipped.
    BitFlip,
    /// The flash device died while it was in use.
    FlashDeath,
    /// The flash device was replaced by a blank one.
    FlashGone,
    /// The flash device is in an older state, or the database has run without it.
    StaleFlash,
    /// The flash device of another database.
    ForeignFlash,
    /// Three of the four superblocks are damaged.
    Superblocks,
    /// Sectors are unreadable: latent errors.
    Unreadable,
    /// Power failed. Each sector of unsynced writes survived, did not survive, or is unreadable.
    TornUnreadable,
    /// A sync failed. The writes that it should have made durable can be read, but never become durable
    /// (ext4).
    SyncErrorKeepingPages,
    /// Disk, log and flash are from different moments, or from different databases.
    Exchanged,
    /// The cache was detached from its disk after a fault.
    Detached,
    /// The disk is full.
    DiskFull,
    /// The log is full.
    LogFull,
}

/// Faults that the device reports.
pub(super) const LOUD: [Fault; 6] = [
    Fault::ReadError,
    Fault::WriteError,
    Fault::NoSpace,
    Fault::SyncError,
    Fault::SyncErrorLosingWrites,
    Fault::SyncErrorKeepingPages,
];

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 27] = [
        FaultKind::Crash,
        FaultKind::TornWrite,
        FaultKind::CrashInRecovery,
        FaultKind::CrashInRecoveryAgain,
        FaultKind::Kill,
        FaultKind::Create,
        FaultKind::ReadError,
        FaultKind::WriteError,
        FaultKind::NoSpace,
        FaultKind::SyncError,
        FaultKind::SyncErrorLosingWrites,
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::DuplicatedWrite,
        FaultKind::BitFlip,
        FaultKind::FlashDeath,
        FaultKind::FlashGone,
        FaultKind::StaleFlash,
        FaultKind::ForeignFlash,
        FaultKind::Superblocks,
        FaultKind::Unreadable,
        FaultKind::TornUnreadable,
        FaultKind::SyncErrorKeepingPages,
        FaultKind::Exchanged,
        FaultKind::Detached,
        FaultKind::DiskFull,
        FaultKind::LogFull,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::TornWrite => "torn-write",
            FaultKind::CrashInRecovery => "crash-in-recovery",
            FaultKind::CrashInRecoveryAgain => "crash-in-recovery-again",
            FaultKind::Kill => "kill",
            FaultKind::Create => "create",
            FaultKind::ReadError => "read-error",
            FaultKind::WriteError => "write-error",
            FaultKind::NoSpace => "no-space",
            FaultKind::SyncError => "sync-error",
            FaultKind::SyncErrorLosingWrites => "sync-error-losing-writes",
            FaultKind::LostWrite => "lost-write",
            FaultKind::MisdirectedWrite => "misdirected-write",
            FaultKind::DuplicatedWrite => "duplicated-write",
            FaultKind::BitFlip => "bit-flip",
            FaultKind::FlashDeath => "flash-death",
            FaultKind::FlashGone => "flash-gone",
            FaultKind::StaleFlash => "stale-flash",
            FaultKind::ForeignFlash => "foreign-flash",
            FaultKind::Superblocks => "superblocks",
            FaultKind::Unreadable => "unreadable",
            FaultKind::TornUnreadable => "torn-unreadable",
            FaultKind::SyncErrorKeepingPages => "sync-error-keeping-pages",
            FaultKind::Exchanged => "exchanged",
            FaultKind::Detached => "detached",
            FaultKind::DiskFull => "disk-full",
            FaultKind::LogFull => "log-full",
        }
    }

    /// The kind under which states are counted after this fault of a device.
    pub(super) fn of(fault: Fault) -> Self {
        match fault {
            Fault::Crash => FaultKind::Crash,
            Fault::ReadError => FaultKind::ReadError,
            Fault::WriteError => FaultKind::WriteError,
            Fault::NoSpace => FaultKind::NoSpace,
            Fault::SyncError => FaultKind::SyncError,
            Fault::SyncErrorLosingWrites | Fault::SyncLies => FaultKind::SyncErrorLosingWrites,
            Fault::SyncErrorKeepingPages => FaultKind::SyncErrorKeepingPages,
            Fault::LostWrite => FaultKind::LostWrite,
            Fault::MisdirectedWrite => FaultKind::MisdirectedWrite,
            Fault::DuplicatedWrite => FaultKind::DuplicatedWrite,
            Fault::BitRot => FaultKind::BitFlip,
            Fault::Death | Fault::Panic => FaultKind::FlashDeath,
        }
    }

    /// The device did not report the fault. Data promised before may be lost, and the loss must be detected.
    pub(super) fn is_silent(self) -> bool {
        matches!(
            self,
            FaultKind::LostWrite
                | FaultKind::MisdirectedWrite
                | FaultKind::DuplicatedWrite
                | FaultKind::BitFlip
        )
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
