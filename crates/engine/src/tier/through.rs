//! Writing changed pages to disk when no log stands above: nothing settles afterwards what a power failure
//! leaves between disk and flash. (A database's redo does.)
//!
//! Invariants:
//!
//! - Flash is never older than disk, not even after a crash: a changed page is written to disk when the
//!   group with its new version is durable, or the record by which all older copies on flash are forgotten.
//! - What flash has and the disk may lack is *unsure* (`Superblock::unsure_from`): positions from the oldest
//!   write under way on, and all since the last checkpoint. An open copies these pages to disk before it
//!   serves any. A checkpoint is made before they are a sixteenth of the slots.
//! - Writes of one page are made one after the other, on flash and on disk.

use super::back::Back;
use crate::TierError;
use crate::api::{Evicted, Victim};
use crate::front::Offered;
use entresol_core::{PageId, Position, mutant};
use entresol_runtime::sync::{Mutex, MutexGuard, Rank, TinyMutex};
use entresol_shm::Gone;

/// Groups of pages, of which each has one writer at a time.
const TURNS: usize = 1024;
/// Checkpoints are made when this part of the slots is unsure, in sixteenths: half of what is promised, since
/// pages enter while one is made.
const UNSURE_PART: u64 = 32;

/// What writes of this kind share.
pub(crate) struct Through {
    turns: Box<[Mutex<()>]>,
    /// The rears when the writes under way began.
    under_way: TinyMutex<Vec<Position>>,
}

impl Default for Through {
    fn default() -> Self {
        Self {
            turns: (0..TURNS).map(|_| Mutex::new(Rank::PageTurn, ())).collect(),
            under_way: TinyMutex::new(Rank::WritesThrough, Vec::new()),
        }
    }
}

impl Through {
    fn turn(&self, page: PageId) -> MutexGuard<'_, ()> {
        let place = page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        self.turns[place as usize].lock()
    }

    /// The oldest position at which a page may be whose disk write is under way, if one is.
    fn oldest(&self) -> Option<Position> {
        self.under_way.lock().iter().min().copied()
    }
}

/// A write under way, until dropped.
struct UnderWay<'a>(&'a Through, Position);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = self.0.under_way.lock();
        if let Some(at) = all.iter().position(|from| *from == self.1) {
            all.swap_remove(at);
        }
    }
}

impl Back {
    /// A changed page goes to disk, and to flash unless `around`; then its copies there are forgotten.
    pub(super) fn write_through(
        &self,
        victim: Victim,
        around: bool,
        data: &[u8],
    ) -> Result<Evicted, TierError> {
        let Some(through) = &self.through else { unreachable!("a log stands above a native cache") };
        let _turn = (!mutant!("two-writers-of-a-page")).then(|| through.turn(victim.page));
        if !self.is_log() {
            return self.write_through_slots(victim, around, data);
        }
        let from = self.front.with(|partition| partition.window().1)?;
        through.under_way.lock().push(from);
        let _under_way = UnderWay(through, from);
        if mutant!("disk-before-flash") {
            self.write_to_disk(victim, data)?;
        }
        let offered = match around {
            true => Offered::Bypass,
            false => self.front.take(Victim { dirty: false, ..victim }, data)?,
        };
        if offered == Offered::Taken {
            self.flush_flash()?;
            return match self.write_to_disk(victim, data) {
                Ok(()) => Ok(Evicted { dirty: false }),
                Err(error) => {
                    // Nobody knows what the disk has: what it gives is what counts.
                    self.front.forget_range((victim.page, victim.page), 0)?;
                    self.flush_flash()?;
                    Err(error)
                }
            };
        }
        if offered == Offered::Bypass {
            self.front.tallies().bypassed.add(1);
        }
        self.front.with(|_| self.front.order.write_begins(victim.page))?;
        let written = self.forget_durably(victim.page).and_then(|()| self.write_to_disk(victim, data));
        self.front.with(|_| self.front.order.write_ends(victim.page))?;
        written.map(|()| Evicted { dirty: false })
    }

    /// No copy of `page` is on flash any more, nor is found there after a crash.
    fn forget_durably(&self, page: PageId) -> Result<(), TierError> {
        let records = || self.front.with(|partition| (partition.records_made(), partition.records_durable()));
        self.front.forget_range((page, page), 0)?;
        let (made, durable) = records()?;
        if made > durable {
            self.flush_flash()?;
        }
        Ok(())
    }

    /// Slot placement, whose directory a crash leaves empty.
    fn write_through_slots(&self, victim: Victim, around: bool, data: &[u8]) -> Result<Evicted, TierError> {
        self.front.with(|_| self.front.order.write_begins(victim.page))?;
        let forgotten = self.front.forget_range((victim.page, victim.page), 0);
        let written = forgotten.and_then(|_| self.write_to_disk(victim, data));
        self.front.with(|_| self.front.order.write_ends(victim.page))?;
        written?;
        match around {
            true => self.front.tallies().bypassed.add(1),
            false => drop(self.take(Victim { dirty: false, ..victim }, data)?),
        }
        Ok(Evicted { dirty: false })
    }

    /// All that is below may be taken as being on disk, once the disk is synced: to be asked before.
    pub(super) fn sure_below(&self, rear: Position) -> Position {
        let oldest = self.through.as_ref().and_then(Through::oldest);
        if mutant!("writes-under-way-taken-for-done") { rear } else { rear.min(oldest.unwrap_or(rear)) }
    }

    /// Whether so much is unsure that a checkpoint is due.
    pub(super) fn unsure_is_long(&self) -> Result<bool, Gone> {
        let is_kept = self.through.is_some() && self.is_log();
        if !is_kept || !self.front.options.disk_may_lack() {
            return Ok(false);
        }
        let unsure =
            self.front.with(|partition| partition.window().1)?.0.saturating_sub(self.superblocks.sure().0);
        Ok(unsure > u64::from(self.front.config.slots) / UNSURE_PART)
    }
}
