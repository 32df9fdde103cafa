//! A page that a process hands down.

use crate::front::{Process, call};
use crate::locator::locator_of;
use crate::types::{EntFork, code, flag};
use entresol_core::Lsn;
use entresol_engine::{Deletes, Handed, TierError, Victim};

/// Takes a page. Waits for room if it is dirty and not pulled.
pub(crate) fn stage(fork: &EntFork, block: u32, page: &[u8], lsn: u64, flags: u32) -> i32 {
    call(|process| {
        let code = match flags & flag::KEPT_OUT {
            0 if process.is_over_budget(flags) => process.go_around(fork, block, flags),
            0 => process.stage(fork, block, page, lsn, flags),
            _ => {
                process.board.kept_out.add(1);
                process.go_around(fork, block, flags)
            }
        }?;
        process.tally.refused.add((code != code::DONE).into());
        Ok(code)
    })
}

impl Process {
    fn stage(&self, fork: &EntFork, block: u32, page: &[u8], lsn: u64, flags: u32) -> Result<i32, TierError> {
        let dirty = flags & flag::DIRTY != 0;
        let waits = dirty && flags & flag::PULL == 0;
        let Process { front, board, memory, .. } = self;
        let locator = locator_of(fork);
        let Some(object) = front.define(&locator)? else {
            // The table of forks is full. No page of it was ever taken; but it may enter later.
            if dirty {
                board.disk_only.add(1);
                board.around.dirty_went();
            }
            return Ok(code::DISK_ONLY);
        };
        let victim = Victim { page: object.page(block), lsn: Lsn(lsn), dirty, fdirty: dirty };
        let handed = match waits {
            true => Some(front.evict(victim, page)?),
            false => front.try_evict(victim, page)?,
        };
        Ok(match handed {
            Some(Handed::Taken(_)) => {
                self.taken(memory.tally(object, &locator), flags);
                code::DONE
            }
            Some(Handed::DiskFirst | Handed::DiskOnly) => {
                if dirty && waits {
                    // Its write is durable with the next checkpoint only. Until then the disk must not have
                    // an older version than the cache had.
                    front.take_out(victim.page)?;
                }
                board.disk_only.add(dirty.into());
                code::DISK_ONLY
            }
            None => {
                board.refused_clean.add((!dirty).into());
                code::FULL
            }
        })
    }

    /// Whether the budget of writes to flash is too short for a page. A victim that was pulled stays where it
    /// is.
    fn is_over_budget(&self, flags: u32) -> bool {
        let around = &self.board.around;
        let is_over = match (flags & flag::DIRTY != 0, flags & flag::PULL != 0) {
            (true, false) => flags & flag::ATOMIC == 0 && around.dirty_goes(),
            (true, true) => around.takes_nothing(),
            (false, _) => around.clean_stays_out(),
        };
        self.board.over_budget.add(is_over.into());
        is_over
    }

    /// A page that stays out. It may have been in the cache before.
    fn go_around(&self, fork: &EntFork, block: u32, flags: u32) -> Result<i32, TierError> {
        let dirty = flags & flag::DIRTY != 0;
        if dirty && flags & flag::PULL != 0 {
            return Ok(code::FULL);
        }
        if dirty && let Some(object) = self.front.object(&locator_of(fork))? {
            self.front.take_out(object.page(block))?;
        }
        Ok(code::DISK_ONLY)
    }
}
