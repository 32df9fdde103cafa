//! A flash has failed, and no log stands above: the tier continues without the flash. It switches itself off
//! if the disk has everything. Otherwise it becomes degraded ([`super::degrader`]).
//!
//! Either needs the disk, which may fail, too: a controller that both hang on is reset, say. Then the disk is
//! asked again until it takes what it has to, or the tier ends. Requests wait meanwhile, and have the disk's
//! error once that takes long. After [`HELD_UP_MAX`] the tier stops: its owner may open it again when it can.
//!
//! Invariants:
//!
//! - No job is under way that moves pages when it is decided what follows.
//! - The tier is in its final state only when the disk's label says durably what follows.

use super::degrader::Degrader;
use super::floor::Floor;
use super::floor::causes::Causes;
use super::floor::disk_trouble::{DiskTrouble, PATIENCE, Retry};
use super::floor::failures::{Failing, Failures};
use super::room::Room;
use crate::access::{Directory, RunState, State};
use crate::disk::DiskPages;
use crate::{TierError, events, points};
use entresol_device::DeviceError;
use entresol_runtime::{now, sleep};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How long the disk is asked again.
const HELD_UP_MAX: Duration = Duration::from_secs(10);
/// Times that pages which could not be read are tried again, and the pause before the first time. Each pause
/// is twice as long as the one before.
const RETRIES: u32 = 9;
const PAUSE: Duration = Duration::from_secs(1);
/// The task looks so often whether the tier ends.
const SLICE: Duration = Duration::from_millis(50);

/// See the module's header.
pub(crate) struct Leaver {
    directory: Arc<Directory>,
    state: Arc<RunState>,
    disk: Arc<DiskPages>,
    causes: Arc<Causes>,
    trouble: Arc<DiskTrouble>,
    failures: Arc<Failures>,
    failing: Arc<Failing>,
    room: Room,
}

impl Leaver {
    /// `None`: the task that meets a failure of the flash deals with it.
    pub(crate) fn new(floor: &Floor, room: &Room) -> Option<Self> {
        Some(Self {
            directory: floor.access.directory.clone(),
            state: floor.access.state.clone(),
            disk: floor.disk.clone(),
            causes: floor.causes.clone(),
            trouble: floor.trouble.clone(),
            failures: floor.failures.clone(),
            failing: floor.failures.failing.clone()?,
            room: room.clone(),
        })
    }

    /// Waits until the flash fails. Then brings the tier into its final state, and copies to disk what the
    /// disk lacks.
    pub(crate) fn task(&self) {
        loop {
            let seen = self.failing.epoch();
            if let Some(error) = self.failing.take_failure() {
                self.leave(&error);
                break;
            }
            if self.state.now() == State::Degraded {
                break;
            }
            // A tier in state `Leaving` enters its final state soon.
            if self.failing.ends.load(SeqCst) && self.state.now() != State::Leaving {
                return;
            }
            self.failing.wait(seen);
        }
        if let Some(degrader) = self.room.degrader().filter(|degrader| degrader.is_degraded()) {
            self.salvage(degrader);
        }
    }

    /// The flash has failed with `error`. When this returns, the tier is in its final state.
    fn leave(&self, error: &TierError) {
        self.failing.await_jobs();
        let (begun, mut retry) = (now(), None::<Retry<'_>>);
        let ends = || self.failing.ends.load(SeqCst);
        let is_over = || now().since(begun) >= HELD_UP_MAX || ends();
        loop {
            match self.try_to_leave(error) {
                Ok(()) => return self.failures.wake_all(),
                Err(refused) if self.trouble.is_tried_again(&refused) && !is_dead(&refused) && !is_over() => {
                    points::LEAVING_HELD_UP.reach();
                    if now().since(begun) >= PATIENCE {
                        self.state.is_held_up(refused.clone());
                    }
                    match &mut retry {
                        Some(retry) => retry.refused(refused),
                        None => retry = Some(self.trouble.retry(&refused)),
                    }
                    retry.as_mut().map(|retry| retry.pause_unless(ends));
                }
                Err(error) => return self.failures.stop_for_good(&error),
            }
        }
    }

    fn try_to_leave(&self, error: &TierError) -> Result<(), TierError> {
        let (unsaved, dying) = self.directory.with(|partition| {
            (partition.unsaved(), partition.log().and_then(|log| log.settle_for_slots()))
        })?;
        // A forgotten page may be the newest version of it until what makes it dead is durable.
        if let Some(dying) = dying
            && !self.causes.is_settled(&dying)?
        {
            return Err(TierError::Refused(format!("pages were about to be replaced on disk: {error}")));
        }
        // The record of lost pages is still kept.
        let is_needed = unsaved.pages > 0 || self.disk.missing.has_lost();
        let is_device = matches!(error, TierError::Device { .. });
        match self.room.degrader() {
            _ if is_device && !is_needed => self.failures.switch_off(error),
            Some(degrader) => degrader.degrade(error),
            None => Err(error.clone()),
        }
    }

    fn salvage(&self, degrader: &Degrader) {
        let mut pause = PAUSE;
        for _ in 0..=RETRIES {
            match degrader.salvage_all(&self.failing.ends) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => events::not_salvaged(&error),
            }
            let until = now() + pause;
            while now() < until {
                if self.failing.ends.load(SeqCst) {
                    return;
                }
                sleep(SLICE);
            }
            pause *= 2;
        }
    }
}

/// Whether the device never works again while the tier is open.
fn is_dead(error: &TierError) -> bool {
    matches!(error, TierError::Device { source: DeviceError::Dead { .. }, .. })
}
