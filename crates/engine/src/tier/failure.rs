//! When a device fails: the first failed write or sync decides (DESIGN §4).
//!
//! With nothing newer than disk on flash and in staging, the tier switches itself off: it unbinds the flash from the disk,
//! durably, and only then goes on from the disk alone. Otherwise every further call gets [`TierError::Poisoned`].

use super::shared::Shared;
use crate::{TierError, points};
use entresol_core::{Lsn, mutant};
use entresol_format::Uuid;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

const RUNNING: u8 = 0;
/// Nothing is dirty; the flash is being unbound.
const LEAVING: u8 = 1;
/// The disk alone.
const OFF: u8 = 2;
const POISONED: u8 = 3;
/// Ended by its owner.
const CLOSED: u8 = 4;

/// How a tier is.
#[derive(Default)]
pub(crate) struct State {
    code: AtomicU8,
    failure: Mutex<Option<TierError>>,
    notice: Mutex<Option<String>>,
}

impl State {
    pub(crate) fn is_running(&self) -> bool {
        self.code.load(SeqCst) == RUNNING
    }

    /// Whether background tasks are to end.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.is_running()
    }

    /// Ends a running tier.
    pub(crate) fn stop(&self) {
        // A failed one stays what it is.
        let _ = self.code.compare_exchange(RUNNING, CLOSED, SeqCst, SeqCst);
    }

    /// What the tier failed with, if it did and cannot go on.
    pub(crate) fn failure(&self) -> Option<TierError> {
        self.failure.lock().clone()
    }

    /// Why the tier switched itself off, if it did.
    pub(crate) fn notice(&self) -> Option<String> {
        self.notice.lock().clone()
    }
}

impl Shared {
    /// True if the tier runs, false if it is switched off and the disk alone serves.
    pub(crate) fn check_running(&self) -> Result<bool, TierError> {
        loop {
            let seen = self.progress.epoch();
            match self.state.code.load(SeqCst) {
                RUNNING => return Ok(true),
                OFF => return Ok(false),
                LEAVING => self.progress.wait(seen),
                POISONED => return Err(self.state.failure().expect("a poisoned tier has failed")),
                _ => return Err(TierError::Refused("the flash tier is closed; open it again".to_owned())),
            }
        }
    }

    /// A background job failed for good.
    pub(crate) fn fail(&self, error: TierError) {
        let flash_failed = matches!(error, TierError::Device { role: "flash", .. });
        let unsaved = self.with(|partition| {
            let unsaved = partition.unsaved();
            if self.state.is_running() {
                let leave = flash_failed && (unsaved.pages == 0 || mutant!("switched-off-while-dirty"));
                self.state.code.store(if leave { LEAVING } else { POISONED }, SeqCst);
                if !leave {
                    *self.state.failure.lock() = Some(poison(&error, unsaved));
                }
            }
            unsaved
        });
        let nothing_lost = unsaved.pages == 0 || mutant!("switched-off-while-dirty");
        if self.state.code.load(SeqCst) == LEAVING && flash_failed && nothing_lost {
            match self.unbind(self.superblocks.cache) {
                Ok(()) => {
                    points::SWITCHED_OFF.reach();
                    let notice =
                        format!("the flash tier is switched off, the database goes on from disk: {error}");
                    *self.state.notice.lock() = Some(notice);
                    self.state.code.store(OFF, SeqCst);
                }
                Err(unbound) => {
                    points::UNBIND_FAILED.reach();
                    *self.state.failure.lock() = Some(poison(&unbound, unsaved));
                    self.state.code.store(POISONED, SeqCst);
                }
            }
        }
        self.writes.notify_all();
        self.chores.notify_all();
        self.segments.notify_all();
        self.progress.notify_all();
    }

    /// Makes the disk independent of the flash: from here on what lies there is history. With `remembered` the label goes on
    /// naming the cache: should its flash come back as it is, it is known to hold nothing that anybody needs.
    pub(crate) fn unbind(&self, remembered: Uuid) -> Result<(), TierError> {
        if mutant!("switched-off-without-unbinding") {
            return Ok(());
        }
        self.disk.change_label(|label| {
            label.epoch += 1;
            label.cache = remembered;
            label.dirty_possible = false;
        })
    }
}

fn poison(error: &TierError, unsaved: entresol_core::Unsaved) -> TierError {
    points::POISONED.reach();
    TierError::Poisoned {
        reason: error.to_string(),
        dirty_pages: unsaved.pages.into(),
        oldest_lsn: unsaved.oldest.unwrap_or(Lsn(0)),
    }
}
