//! What SCE's claims are judged by: runs of two loads without a cache, with flashcache and with SCE.

use entresol_core::Mode;

/// The storage below the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// The disks alone.
    NoCache,
    /// flashcache in this mode.
    Flashcache(Mode),
    /// SCE.
    Sce,
}

impl System {
    pub const WRITE_THROUGH: System = System::Flashcache(Mode::WriteThrough);
    pub const WRITE_AROUND: System = System::Flashcache(Mode::WriteAround);
    pub const WRITE_BACK: System = System::Flashcache(Mode::WriteBack);

    pub const fn name(self) -> &'static str {
        match self {
            System::NoCache => "no cache",
            System::Flashcache(Mode::WriteBack) => "flashcache, write-back",
            System::Flashcache(Mode::WriteAround) => "flashcache, write-around",
            System::Flashcache(_) => "flashcache, write-through",
            System::Sce => "sce",
        }
    }
}

/// What a run gave. Rates are of virtual time; "at the end" is its last third.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub system: System,
    /// References a second at the end: transactions have the same number of them in all systems.
    pub throughput: f64,
    /// Mean response of a reference that missed DRAM, microseconds, over the whole run.
    pub response_us: f64,
    /// Flash hits of the DRAM misses at the end, 0..=1.
    pub hit_rate: f64,
    /// `(seconds, references a second)`.
    pub throughput_curve: Vec<(f64, f64)>,
    /// `(seconds, hit rate)`.
    pub hit_curve: Vec<(f64, f64)>,
    /// `(seconds, MiB read from flash and written to it since the run began)`.
    pub flash_curve: Vec<(f64, [f64; 2])>,
    /// MiB/s over the whole run: read from flash, written to flash, read from disk, written to disk.
    pub traffic_mib_s: [f64; 4],
    /// MiB written to flash in the whole run, which has the same references in all systems.
    pub flash_written_mib: f64,
}

/// All runs of the chapter.
pub(crate) struct Runs {
    /// sysbench without a cache.
    pub none: Measured,
    /// flashcache with 20, 40 and 80 GiB.
    pub flashcache: [Measured; 3],
    /// flashcache in write-around, with 20 GiB.
    pub around: Measured,
    /// flashcache with 20 GiB in blocks that are larger than a page.
    pub large_blocks: Measured,
    /// SCE with 20 and 80 GiB.
    pub sce: [Measured; 2],
    /// The OLTP load: no cache, flashcache write-through and write-back, SCE.
    pub oltp: [Measured; 4],
}

/// Throughput against that of `base`, per cent.
pub(crate) fn change(measured: &Measured, base: &Measured) -> f64 {
    (measured.throughput / base.throughput - 1.0) * 100.0
}
