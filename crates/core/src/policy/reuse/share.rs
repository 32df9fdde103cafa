//! The share of each group that stays in the ring. Keeping the share s costs 1 / (1 - s) writes for each
//! page that enters, so it shrinks while flash is busy: most writes of a busy flash are of pages that stay.
//!
//! It changes once a turn of the ring, which is when an effect shows. What counts is how long the ring and
//! the disk are at work, where one of them is busy, and that is known; or else what the pages of late cost.
//! Times are those of two turns, as drives work in waves: where one turn moves many pages about, the next
//! moves few, and a share that follows each of them swings. A disk that always has a request may have time
//! for many more. So the share grows only if costs allow it, too.

use crate::Load;
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Parts of a group: the share is least, and most, so many of them.
const PARTS: u32 = 64;
const MIN: u32 = 8;
const MAX: u32 = 56;
/// What it is while costs are unknown, and where it begins when they are known: low enough that a drive
/// that moves its pages about is not kept busy with that from the beginning.
const UNKNOWN: u32 = 52;
const FIRST: u32 = 32;
/// Where it begins if a write costs less than this part of a read from disk.
const FIRST_IF_CHEAP: u32 = 44;
const CHEAP_PART: u64 = 32;

/// Bounds are in so many parts of the disk's time.
const OF: u64 = 16;
/// Flash and disk are to be busy nearly alike: where flash takes more, or less, of the disk's time, the
/// share moves by the parts beside it.
const BUSY: [(u64, u32); 2] = [(17, 4), (15, 1)];
const IDLE: [(u64, u32); 2] = [(11, 4), (13, 1)];
/// The share of a flash that is measured grows only if by its costs it takes no more than this.
const GROWS_BELOW: u64 = 9;

/// See the module's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Share {
    parts: u32,
    /// Pages of the groups dequeued in this turn of the ring.
    turned: u32,
    /// At the beginning of the turn before this one, at that of this one, and now. All zero: unknown.
    began_before: Millis,
    began: Millis,
    load: Millis,
}

/// How long flash and disk have been at work, and how much time has passed: milliseconds. Only differences
/// count, and they may overflow.
type Millis = [u32; 3];

impl Share {
    pub const OF_UNKNOWN_COSTS: Self =
        Self { parts: UNKNOWN, turned: 0, began_before: [0; 3], began: [0; 3], load: [0; 3] };

    /// Costs are known from now on: of a page that is written to the ring, and of one that is read from disk.
    pub fn begin(&mut self, write_ns: u32, disk_read_ns: u32) {
        self.parts = if Self::are_cheap(write_ns, disk_read_ns) { FIRST_IF_CHEAP } else { FIRST };
    }

    /// Whether so long a write costs less than a [`CHEAP_PART`]th of a read from disk. No, if that is
    /// unknown.
    pub fn are_cheap(write_ns: u32, disk_read_ns: u32) -> bool {
        u64::from(write_ns) * CHEAP_PART < disk_read_ns.into()
    }

    /// How long the devices have been at work.
    pub fn observe(&mut self, load: Load) {
        let Load { now_ns, ring_busy_ns, disk_busy_ns } = load;
        self.load = [ring_busy_ns, disk_busy_ns, now_ns].map(|time| (time / 1_000_000) as u32);
    }

    /// The times in the last two turns in which flash and disk were at work. `None`: unknown, or both were
    /// idle for most of them.
    fn measured(&self) -> Option<(u64, u64)> {
        let [flash, disk, all] =
            std::array::from_fn(|at| u64::from(self.load[at].wrapping_sub(self.began_before[at])));
        (self.began_before != [0; 3] && flash.max(disk) > all / 2).then_some((flash, disk))
    }

    /// So many pages more of a ring of `slots` are about to be dequeued. `counted`: what flash and disk did
    /// of late, by its costs.
    pub fn turn(&mut self, pages: u32, slots: u32, counted: (u64, u64)) {
        self.turned += pages;
        if self.turned < slots {
            return;
        }
        self.turned = 0;
        let measured = self.measured();
        self.began_before = self.began;
        self.began = self.load;
        let (flash, disk) = measured.unwrap_or(counted);
        let may_grow = measured.is_none() || counted.0 * OF <= counted.1 * GROWS_BELOW;
        if let Some((_, by)) = BUSY.iter().find(|(bound, _)| flash * OF > disk * bound) {
            self.parts = (self.parts - by.min(&self.parts)).max(MIN);
        } else if let Some((_, by)) = IDLE.iter().find(|(bound, _)| flash * OF < disk * bound)
            && may_grow
        {
            self.parts = (self.parts + by).min(MAX);
        }
    }

    /// Whether so many pages of a group are more than the share.
    pub fn is_exceeded(&self, staying: u32, group_pages: u32) -> bool {
        staying * PARTS > group_pages * self.parts
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self, slots: u32) -> Result<(), Violation> {
        same(|| "a possible share of staying", true, (MIN..=MAX).contains(&self.parts))?;
        same(|| "a turn of the ring has not ended", true, self.turned < slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 1000;

    /// What is observed after so many seconds, in which ring and disk were busy for so many milliseconds.
    fn after_seconds(seconds: u64, ring_ms: u64, disk_ms: u64) -> Load {
        Load {
            // Overflows in the first second.
            now_ns: (u64::from(u32::MAX) + 1000 * seconds) * 1_000_000,
            ring_busy_ns: ring_ms * 1_000_000,
            disk_busy_ns: disk_ms * 1_000_000,
        }
    }

    /// The share after turns of a second, in each of which ring and disk were busy for so many milliseconds.
    fn after(ring_ms: u64, disk_ms: u64, counted: (u64, u64)) -> u32 {
        let mut share = Share::OF_UNKNOWN_COSTS;
        share.begin(1, 1);
        for turns in 0..2 {
            share.observe(after_seconds(turns, ring_ms * turns, disk_ms * turns));
            share.turn(SLOTS, SLOTS, (1, 2));
        }
        let before = share.parts;
        share.observe(after_seconds(2, ring_ms * 2, disk_ms * 2));
        share.turn(SLOTS / 2, SLOTS, counted);
        assert_eq!(share.parts, before, "the turn has not ended");
        share.turn(SLOTS / 2, SLOTS, counted);
        share.check(SLOTS).unwrap();
        FIRST + share.parts - before
    }

    #[test]
    fn a_drive_that_works_in_waves_does_not_move_the_share() {
        let mut share = Share::OF_UNKNOWN_COSTS;
        share.begin(1, 1);
        let mut parts = Vec::new();
        for turns in 0..10 {
            // In turn 1000, 400, 1000 and so on; with the disk's 800, each two are 14/16.
            let ring_ms = turns / 2 * 1400 + turns % 2 * 1000;
            share.observe(after_seconds(turns, ring_ms, 800 * turns));
            share.turn(SLOTS, SLOTS, (14, 16));
            parts.push(share.parts);
        }
        assert_eq!(parts, [FIRST; 10]);
    }

    #[test]
    fn the_share_follows_who_is_busy() {
        let (cheap, dear) = ((0, 1), (1, 1));
        assert_eq!(after(990, 500, cheap), FIRST - 4, "the ring limits, whatever it costs");
        assert_eq!(after(890, 900, cheap), FIRST - 1);
        assert_eq!(after(800, 900, cheap), FIRST, "both nearly alike");
        assert_eq!(after(700, 900, cheap), FIRST + 1);
        assert_eq!(after(100, 900, cheap), FIRST + 4, "the disk limits");
        assert_eq!(after(100, 900, dear), FIRST, "it has requests, but writes to flash cost as much");
    }

    #[test]
    fn more_stay_at_first_where_writes_are_cheap() {
        let first = |write_ns, disk_read_ns| {
            let mut share = Share::OF_UNKNOWN_COSTS;
            share.begin(write_ns, disk_read_ns);
            share.parts
        };
        assert_eq!([first(35_000, 340_000), first(2_000, 333_000)], [FIRST, FIRST_IF_CHEAP]);
    }

    #[test]
    fn of_idle_devices_the_costs_count() {
        assert_eq!(after(400, 100, (0, 1)), FIRST + 4);
        assert_eq!(after(400, 100, (1, 1)), FIRST - 1);
        assert_eq!(after(0, 0, (2, 1)), FIRST - 4);
        assert_eq!(after(0, 0, (14, 16)), FIRST);
    }
}
