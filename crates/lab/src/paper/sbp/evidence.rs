//! What SBP's claims are judged by: restarts with the slot directory and without it, and the directory on
//! other media.

/// Media of the slot directory, as in figure 4: profile and name.
pub(crate) const MEDIA: [(&str, &str); 3] =
    [("ramdisk", "DRAM"), ("fusion-slc", "SLC"), ("fusion-mlc", "MLC")];
/// The part of a curve that counts as its end.
const END: usize = 5;
/// The part of a curve that counts as its beginning.
const BEGINNING: usize = 3;

/// A run of a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// tpmC.
    pub tpmc: f64,
    /// Pages of 4 KiB written to the log, warm-up included.
    pub log_pages: u64,
}

/// All runs of the chapter. A pair of restarts is with the slot directory and without it.
pub(crate) struct Evidence {
    /// tpmC with the directory on each of [`MEDIA`].
    pub metadata: Vec<f64>,
    /// The system without flash, and the prototype with its directory on the first of [`MEDIA`] (as good as
    /// none) and on the second, for the same time.
    pub logged: [Ran; 3],
    /// The restart of the system without flash after a crash.
    pub base: Restarted,
    /// Restarts after a crash.
    pub crash: [Restarted; 2],
    /// Restarts after a shutdown.
    pub shutdown: [Restarted; 2],
}

/// What a restart gave. Curves are `(seconds since the restart began, value)`.
#[derive(Clone, Debug)]
pub(crate) struct Restarted {
    /// The slot directory was used.
    pub warm: bool,
    /// Until the first transaction is accepted, seconds.
    pub restart_s: f64,
    /// Pages that redo fetched.
    pub redo_pages: u64,
    /// Of these, from flash.
    pub redo_from_flash: u64,
    /// tpmC.
    pub tpmc: Vec<(f64, f64)>,
    /// Pages read from flash a second: in steps of half a second while the restart is under way, then in
    /// longer ones.
    pub flash_reads: Vec<(f64, f64)>,
    /// The share of the processor that is in use, as modelled, 0..=1; 0 during the restart, where it is not
    /// modelled.
    pub cpu: Vec<(f64, f64)>,
    /// Flash hits, per cent of DRAM's misses.
    pub flash_hits: Vec<(f64, f64)>,
    /// Writes of the slot directory for each page written to flash, after the restart.
    pub directory_writes: f64,
    /// The consistency conditions held afterwards.
    pub consistent: bool,
}

impl Restarted {
    /// The share of redo's pages that came from flash.
    pub fn redo_share_from_flash(&self) -> f64 {
        self.redo_from_flash as f64 / self.redo_pages.max(1) as f64
    }

    /// Pages read from flash in the first second of the restart.
    pub fn first_flash_reads(&self) -> f64 {
        self.flash_reads.iter().filter(|(seconds, _)| *seconds < 1.0).map(|(_, rate)| rate / 2.0).sum()
    }

    /// When throughput reaches `level`, seconds.
    pub fn stable_after(&self, level: f64) -> Option<f64> {
        self.tpmc.iter().find(|(_, tpmc)| *tpmc >= level).map(|(seconds, _)| *seconds)
    }

    /// tpmC after the restart (the first two points stand for the restart itself).
    pub fn tpmc_after(&self) -> f64 {
        mean(&self.tpmc[2.min(self.tpmc.len())..])
    }
}

impl Evidence {
    /// The tpmC that both restarts after a crash end with.
    pub fn level(&self) -> f64 {
        mean(end(&self.crash[0].tpmc)).min(mean(end(&self.crash[1].tpmc)))
    }
}

/// The mean of a curve's points until `seconds`.
pub(crate) fn mean_until(points: &[(f64, f64)], seconds: f64) -> f64 {
    mean(&points[..points.partition_point(|(at, _)| *at <= seconds)])
}

/// The mean of a curve.
pub(crate) fn mean(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(_, value)| value).sum::<f64>() / points.len().max(1) as f64
}

/// The last points of a curve.
pub(crate) fn end(points: &[(f64, f64)]) -> &[(f64, f64)] {
    &points[points.len().saturating_sub(END)..]
}

/// The first points after the restart (two points stand for the restart itself).
pub(crate) fn beginning(points: &[(f64, f64)]) -> &[(f64, f64)] {
    &points[2.min(points.len())..(2 + BEGINNING).min(points.len())]
}
