//! Whether a hit is read from flash or from disk: from where all reads together will be done sooner.
//!
//! Of each of the two, the number of reads under way is known, and how long a read took lately for each read
//! that was under way when it began, itself included. Their product is the delay to expect (shortest expected
//! delay; Banawan and Zahorjan, 1989). That is the hit's own delay. A hit also delays all later reads, and on
//! disk those are misses, which have no other place. In a queue with `n` reads under way and `c` for each,
//! one more read costs all of them together `c (n + 1)^2`: the derivative of the number of reads under way by
//! their rate (Bell and Stidham, Individual versus Social Optimization in the Allocation of Customers to
//! Alternative Servers, 1983). That is compared. By its own delay alone, a hit would take the place of a miss
//! as soon as the two delays are equal.
//!
//! A cloud volume is quick as long as it serves few reads, and serves so many a second at most. It has no
//! queue until its reads are used up, and hits would use up those that misses need. So hits are kept from a
//! disk whose reads take longer than those of flash, in the mean of a second.
//!
//! Reads that miss count, too: they are in the disk's queue. The pages of a request are adjacent on disk, and
//! are one read there; on flash each is one.
//!
//! Deciding each hit by the queues of its moment keeps both queues even without any share that would have to
//! be found. A controller that adjusted a share by how long reads took was tried before: a queue takes longer
//! to move than the share, and the share swung by up to a fifth.

use std::time::Duration;

/// Time between two looks at how long reads took.
pub const TICK: Duration = Duration::from_millis(250);
/// The disk must cost so much less. A difference that small is not worth the disk's time.
const MARGIN: f64 = 0.8;
/// A disk whose reads take so many times as long as those of flash is much slower.
const SLOW: f64 = 3.0;
/// Ticks without a read after which a hit is sent to find out how long one takes.
const SILENT_MAX: u32 = 4;
/// So many reads are as much as all that was known before.
const TELLING: f64 = 4.0;
/// A tick counts so much at most, however many reads it has: the device may have stood still in it.
const TELLS_MAX: f64 = 0.7;
/// How much a tick counts in how long reads took: they follow in a second.
const TOOK_FOLLOWS: f64 = 0.25;
/// How much of the hits before a tick counts in the share that is told: it follows in a few seconds.
const SHARE_KEEPS: f64 = 0.92;
/// A tick counts as so many hits at most: a slow device has fewer, which tell as much.
const SHARE_HITS_MAX: f64 = 64.0;

/// Reads of one device since the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// How many.
    pub count: u64,
    /// How long they took, in sum.
    pub time: Duration,
    /// The reads under way when they began, themselves included, in sum; of flash, each as often as it had
    /// pages.
    pub queued: u64,
}

/// The delay for each read under way, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Of flash, for each page. 0: it is not known.
    pub flash: u64,
    /// Of disk. 0: hits are kept from it.
    pub disk: u64,
}

impl Costs {
    /// Whether a hit of so many pages is read from disk while so many reads of flash and disk are under way.
    pub fn prefer_disk(self, pages: u64, flash_under_way: u64, disk_under_way: u64) -> bool {
        let for_all = |cost: u64, under_way: u64| cost as f64 * ((under_way + 1) as f64).powi(2);
        let is_known = self.flash > 0 && self.disk > 0;
        let from_flash = for_all(self.flash, flash_under_way) * pages as f64;
        is_known && for_all(self.disk, disk_under_way) < MARGIN * from_flash
    }
}

/// A hit is read there as a probe: there was no read for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// To disk.
    Disk,
    /// To flash.
    Flash,
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    /// Seconds for each read under way; 0: it is not known.
    seconds: f64,
    /// Seconds that a read took in the last ticks; 0: there was none but those sent to find out.
    took: f64,
    /// Ticks without a read.
    silent: u32,
}

impl Estimate {
    fn add(&mut self, reads: &Reads) {
        if reads.queued == 0 {
            self.silent = self.silent.saturating_add(1);
            return;
        }
        let found = reads.time.as_secs_f64() / reads.queued as f64;
        let count = reads.count as f64;
        let weight = if self.seconds == 0.0 { 1.0 } else { (count / (count + TELLING)).min(TELLS_MAX) };
        self.seconds += (found - self.seconds) * weight;
        let took = reads.time.as_secs_f64() / count;
        match self.silent {
            // One that was sent to find out tells nothing of many.
            SILENT_MAX.. => self.took = 0.0,
            _ => self.took += (took - self.took) * if self.took == 0.0 { 1.0 } else { TOOK_FOLLOWS },
        }
        self.silent = 0;
    }

    /// A read is to tell again.
    fn is_due(&self) -> bool {
        self.silent > 0 && self.silent.is_multiple_of(SILENT_MAX)
    }
}

/// See the module's header.
#[derive(Debug, Default)]
pub struct Router {
    flash: Estimate,
    disk: Estimate,
    /// The last hits, and those of them that went to disk.
    hits: f64,
    from_disk: f64,
}

impl Router {
    /// [`TICK`] after the last time; so many hits were read from flash and from disk since then.
    pub fn tick(&mut self, flash: &Reads, disk: &Reads, hits: (u64, u64)) -> Option<Probe> {
        self.flash.add(flash);
        self.disk.add(disk);
        let (from_flash, from_disk) = hits;
        let all = (from_flash + from_disk) as f64;
        let counts = all.min(SHARE_HITS_MAX);
        if all > 0.0 {
            self.hits = self.hits * SHARE_KEEPS + counts;
            self.from_disk = self.from_disk * SHARE_KEEPS + counts * from_disk as f64 / all;
        }
        match () {
            () if self.flash.is_due() && from_disk > 0 => Some(Probe::Flash),
            () if self.disk.is_due() && from_flash > 0 => Some(Probe::Disk),
            () => None,
        }
    }

    /// By what hits are to be decided until the next tick. A disk whose reads took longer than those of flash
    /// in the last second is kept from hits.
    pub fn costs(&self) -> Costs {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let is_late = self.flash.took > 0.0 && self.disk.took > self.flash.took;
        Costs { flash: nanos(self.flash.seconds), disk: if is_late { 0 } else { nanos(self.disk.seconds) } }
    }

    /// Whether reads of the disk took much longer than those of flash lately, as far as is known.
    pub fn is_disk_slow(&self) -> bool {
        self.flash.took > 0.0 && self.disk.took > SLOW * self.flash.took
    }

    /// The part of the hits that went to disk lately, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.hits > 0.0 { self.from_disk / self.hits } else { 0.0 }
    }
}
