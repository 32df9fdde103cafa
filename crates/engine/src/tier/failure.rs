//! Device failures: the first failed write or sync decides (docs/DESIGN.md §4).
//!
//! - Without a dirty page on flash and in staging, and without lost pages, the tier switches itself off: it
//!   durably unbinds the flash from the disk, and then continues with the disk alone.
//! - Otherwise, if no log stands above, the tier becomes degraded ([`super::degrade`]).
//! - Otherwise every later call returns [`TierError::Poisoned`].

use super::back::Back;
use crate::disk::binding::begin_epoch;
use crate::{TierError, events, points};
use entresol_core::{Lsn, Unsaved, mutant};
use entresol_format::Uuid;
use entresol_runtime::is_simulated;
use entresol_shm::Gone;

impl Back {
    /// A background job failed for good.
    pub(crate) fn fail(&self, error: TierError) {
        let is_gone = matches!(error, TierError::Gone(_));
        let first = match is_gone {
            true => Err(Gone),
            false => self.front.with(|partition| {
                let leaves = self.front.state.begin_to_leave();
                leaves.then(|| (partition.unsaved(), partition.awaits_dead()))
            }),
        };
        let Ok(first) = first else { return self.give_up() };
        if let Some((unsaved, dying)) = first {
            let flash_failed = matches!(error, TierError::Device { role: "flash", .. });
            // A forgotten page may be the newest version of it until what makes it dead is durable.
            let is_settled = |after| self.settle(after).is_ok() && after <= self.front.board.causes.durable();
            let is_dead = dying.is_none_or(is_settled);
            // The record of lost pages goes on to be kept.
            let is_kept = self.disk.has_lost() && self.degradable.is_some();
            let nothing_lost =
                unsaved.pages == 0 && is_dead && !is_kept || mutant!("switched-off-while-dirty");
            match () {
                () if flash_failed && nothing_lost => self.switch_off(&error, unsaved),
                () if is_dead && self.can_degrade(&error) => self.begin_to_degrade(&error),
                () => self.front.state.poison(poison(&error, unsaved)),
            }
        }
        self.wake_all();
    }

    /// Processes share the memory, and it cannot be trusted any more: all fronts stop, and the cache's owner
    /// opens it again, as after a crash.
    pub(crate) fn give_up(&self) {
        self.front.state.give_up();
        self.give_up_memory();
    }

    /// The flash has failed and nothing on it is needed: goes on from the disk alone.
    fn switch_off(&self, error: &TierError, unsaved: Unsaved) {
        // The flash has whole pages whose writes to disk a power failure could tear.
        let unbound = self.disk.sync().and_then(|()| self.unbind(self.superblocks.cache));
        match unbound {
            Ok(()) => {
                points::SWITCHED_OFF.reach();
                let notice = format!("the flash tier is switched off, all goes on from disk: {error}");
                events::switched_off(&notice);
                self.front.state.switch_off(notice);
            }
            Err(unbound) => {
                points::UNBIND_FAILED.reach();
                self.front.state.poison(poison(&unbound, unsaved));
            }
        }
    }

    /// A task panics: poisons the tier and wakes all waiters. Does no I/O and never waits: a destructor calls
    /// it.
    fn panicked(&self) {
        let unsaved = self
            .front
            .try_step(|partition| partition.unsaved())
            .unwrap_or(Unsaved { pages: 0, oldest: None });
        let error = TierError::Refused("a task panicked, which is a bug of this program".into());
        self.front.state.poison(poison(&error, unsaved));
        self.wake_all();
    }

    /// Wakes all waiters: each looks again at what it waits for.
    pub(crate) fn wake_all(&self) {
        self.front.writes.notify_all();
        self.front.background.notify_all();
        if let Some(log) = self.log() {
            log.segments.notify_all();
            log.flushes.notify_all();
        }
        self.front.progress.notify_all();
        if let Some(degradable) = &self.degradable {
            degradable.wake(false);
        }
        if let Some(served) = &self.served {
            served.service.notify_all();
        }
    }

    /// Makes the disk independent of the flash: from here on what lies there is history. With `remembered`
    /// the label goes on naming the cache: should its flash come back as it is, it is known to hold nothing
    /// that anybody needs.
    pub(crate) fn unbind(&self, remembered: Uuid) -> Result<(), TierError> {
        if mutant!("switched-off-without-unbinding") {
            return Ok(());
        }
        self.disk.change_label(|label| {
            begin_epoch(label);
            label.cache = remembered;
            label.dirty_possible = false;
            (label.failed_epoch, label.failed_nonce) = (0, 0);
        })
    }
}

/// Poisons the tier if the task that holds it panics: in the background, or a client's that evicts a
/// page. It may leave behind what others wait for. (In a simulation a panic ends everything.)
pub(crate) struct PanicGuard<'a>(pub &'a Back);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_simulated() {
            self.0.panicked();
        }
    }
}

pub(super) fn poison(error: &TierError, unsaved: Unsaved) -> TierError {
    points::POISONED.reach();
    TierError::Poisoned {
        reason: error.to_string(),
        dirty_pages: unsaved.pages.into(),
        oldest_lsn: unsaved.oldest.unwrap_or(Lsn(0)),
    }
}
