//! Devices below a volume that fail for a while, and come back.
//!
//! Invariants: an error reaches the requests during which the device has refused one, or at most [`LATE`]
//! before, and a client's next flush. In write-through an outage of the flash reaches none. After it, and
//! twice the longest pause of a retry, each page can be read, and the second flush succeeds.

use super::opened::Opened;
use super::oracle::Shared;
use super::{PAGES, read};
use entresol_core::Mode;
use entresol_device::{Fault, FaultPlan, Outage};
use entresol_runtime::rng::Rng;
use entresol_runtime::sleep;
use std::time::Duration;

/// One life in so many has an outage.
const ONE_OF: u64 = 2;
/// From less than a request to more than each limit of the engine but the one at which flash is given up.
const LONGEST: [Duration; 4] = [
    Duration::from_micros(200),
    Duration::from_millis(5),
    Duration::from_millis(300),
    Duration::from_secs(3),
];
/// A request that began so long after the last failure of a device has not met it.
pub(super) const LATE: Duration = Duration::from_millis(8);
/// After an outage, until all is as before.
const CALM: Duration = Duration::from_secs(2);

const DISK: [&[Fault]; 7] = [
    &[Fault::WriteError],
    &[Fault::NoSpace],
    &[Fault::ReadError],
    &[Fault::SyncError],
    &[Fault::SyncErrorLosingWrites],
    &[Fault::SyncErrorKeepingPages],
    &[Fault::ReadError, Fault::WriteError, Fault::SyncError],
];
const FLASH: [&[Fault]; 5] = [
    &[Fault::WriteError],
    &[Fault::SyncError],
    &[Fault::ReadError],
    &[Fault::NoSpace],
    &[Fault::ReadError, Fault::WriteError, Fault::SyncError],
];

/// An outage in a life.
pub(super) struct Planned {
    outage: Outage,
    /// It may strike the open, and is over then. Else it begins when the cache was read through.
    pub in_open: bool,
    /// The flash's.
    pub of_flash: bool,
    /// Errors of it may reach a client.
    pub is_noticed: bool,
    /// Syncs that fail lose what the disk had taken.
    pub loses_writes: bool,
    /// Flash cannot be read meanwhile.
    pub breaks_reads: bool,
}

impl Planned {
    /// An outage in a life that ends at the operation `cut_off`, or none.
    pub fn draw(mode: Mode, cut_off: u64, is_new: bool, seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed);
        if rng.below(ONE_OF) > 0 {
            return None;
        }
        let of_flash = rng.below(2) == 0;
        let faults = if of_flash { FLASH[rng.below(5) as usize] } else { DISK[rng.below(7) as usize] };
        let longest = LONGEST[rng.below(4) as usize];
        let lasts = Duration::from_nanos(1 + rng.below(longest.as_nanos() as u64));
        let in_open = !is_new && rng.below(4) == 0;
        // An open has few operations.
        let at = 1 + rng.below(if in_open { 60 } else { cut_off / 2 });
        let device = if of_flash { "flash" } else { "disk" }.to_owned();
        let has = |fault| faults.contains(&fault);
        Some(Self {
            in_open,
            of_flash,
            is_noticed: !of_flash || mode == Mode::WriteBack,
            loses_writes: has(Fault::SyncErrorLosingWrites) || has(Fault::SyncErrorKeepingPages),
            breaks_reads: of_flash && has(Fault::ReadError),
            outage: Outage { at, lasts, device, faults: faults.to_vec() },
        })
    }

    /// How long it lasts.
    pub fn lasts(&self) -> Duration {
        self.outage.lasts
    }

    /// Plans it from here on, if it is one in the open, or not, as `in_open` says.
    pub fn begins(&self, in_open: bool, plan: &FaultPlan) {
        if self.in_open == in_open {
            plan.plan_outage(Outage { at: plan.operations() + self.outage.at, ..self.outage.clone() });
        }
    }
}

/// All is as before, after an outage that lasts no longer than `lasts`.
pub(super) fn is_calm(
    opened: &Opened,
    oracles: &[Shared],
    plan: &FaultPlan,
    lasts: Duration,
) -> Result<(), String> {
    sleep(lasts);
    plan.end_outage();
    sleep(CALM);
    for oracle in oracles {
        let pages = oracle.lock().some(0, PAGES);
        let mut buffer = oracle.lock().buffer();
        for page in pages {
            read(opened, oracle, page, &mut buffer)?;
        }
    }
    // The first flush tells its client of a loss that there was.
    _ = opened.flush();
    opened.flush().map_err(|error| format!("two seconds after an outage: {error}"))
}
