//! What a flash cache costs: the times that its devices take, and what its owner wants of it.
//!
//! A policy counts what it does to each device and multiplies by these. So its decisions depend on what
//! happened, and not on how long it took: they stay the same in every run. What is timed, [`Load`], is
//! another matter: an engine reports it, a replay has none.

/// Times of a page, in nanoseconds, of devices that have all the work they can do at once: one by their rate.
/// All zero: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A page read from flash.
    pub flash_read_ns: u32,
    /// One of many pages in a row.
    pub flash_read_in_row_ns: u32,
    /// A page written anywhere on flash.
    pub flash_write_ns: u32,
    /// One of a group of pages in a row, durable with the group.
    pub flash_write_in_row_ns: u32,
    /// A page read from disk.
    pub disk_read_ns: u32,
    /// A page written to disk.
    pub disk_write_ns: u32,
    /// Uses that a write to flash must promise at least, in thousandths: flash wears out. 0: any. A use of a
    /// dirty page counts twice.
    pub write_worth_permille: u32,
}

/// How long devices have been at work: nanoseconds up to now, since any one moment.
///
/// What a page costs does not say all: how much a drive moves its pages about, and how long its syncs take
/// meanwhile, follows from what is done to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Time that has passed.
    pub now_ns: u64,
    /// Log placement: time in which a group was written to flash and synced, or read to be dequeued. Pages
    /// that are fetched from flash do not count: a drive that has some all the time may have time for many
    /// more.
    pub ring_busy_ns: u64,
    /// Time in which the disk had at least one request.
    pub disk_busy_ns: u64,
}

impl Costs {
    /// Most that [`Self::write_worth_permille`] asks for: two uses, as no page promises more.
    pub const WRITE_WORTH_MAX: u32 = 2000;

    /// The times, in the order of the fields.
    pub const fn times_ns(&self) -> [u32; 6] {
        [
            self.flash_read_ns,
            self.flash_read_in_row_ns,
            self.flash_write_ns,
            self.flash_write_in_row_ns,
            self.disk_read_ns,
            self.disk_write_ns,
        ]
    }

    /// Of these times, in the order of the fields. Any number of writes is welcome.
    pub const fn of_times_ns(times: [u32; 6]) -> Self {
        Self {
            flash_read_ns: times[0],
            flash_read_in_row_ns: times[1],
            flash_write_ns: times[2],
            flash_write_in_row_ns: times[3],
            disk_read_ns: times[4],
            disk_write_ns: times[5],
            write_worth_permille: 0,
        }
    }

    /// Whether the times are known.
    pub const fn are_known(&self) -> bool {
        self.flash_read_ns > 0 && self.disk_read_ns > 0
    }
}
