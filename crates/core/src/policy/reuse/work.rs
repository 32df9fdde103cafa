//! What `reuse` has done to its devices, and how long that takes them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What each piece of [`Work`] takes, in nanoseconds. All zero: unknown.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Times {
    pub flash_read: u32,
    pub dequeue_read: u32,
    pub flash_write: u32,
    pub disk_read: u32,
    pub disk_write: u32,
}

/// Pages, by what was done.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Work {
    /// Fetched from flash.
    pub flash_reads: u32,
    /// Read from flash to be destaged or to be enqueued again.
    pub dequeue_reads: u32,
    /// Written to flash.
    pub flash_writes: u32,
    /// Fetched from disk.
    pub disk_reads: u32,
    /// Written to disk.
    pub disk_writes: u32,
}

impl Work {
    pub const NONE: Self =
        Self { flash_reads: 0, dequeue_reads: 0, flash_writes: 0, disk_reads: 0, disk_writes: 0 };

    fn counts(&mut self) -> [&mut u32; 5] {
        let Self { flash_reads, dequeue_reads, flash_writes, disk_reads, disk_writes } = self;
        [flash_reads, dequeue_reads, flash_writes, disk_reads, disk_writes]
    }

    /// Forgets one part of so many.
    pub fn fade(&mut self, parts: u32) {
        self.counts().into_iter().for_each(|count| *count -= *count / parts);
    }

    pub fn add(&mut self, more: &Self) {
        let mut more = *more;
        let both = self.counts().into_iter().zip(more.counts());
        both.for_each(|(count, more)| *count = count.saturating_add(*more));
    }

    /// The time of flash, and of disk.
    pub fn times(&self, of: &Times) -> (u64, u64) {
        let time = |count: u32, each: u32| u64::from(count) * u64::from(each);
        let reads = time(self.flash_reads, of.flash_read) + time(self.dequeue_reads, of.dequeue_read);
        let flash = reads + time(self.flash_writes, of.flash_write);
        (flash, time(self.disk_reads, of.disk_read) + time(self.disk_writes, of.disk_write))
    }
}
