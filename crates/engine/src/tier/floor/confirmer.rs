//! Confirms the newest flush of an idle cache within a second: from then on damage of it is known to be
//! damage, and not taken for a flush that power has cut off. How, the placement says ([`Confirms`]).

use crate::TierError;
use crate::access::RunState;
use crate::tier::floor::Floor;
use crate::tier::floor::failures::Failures;
use entresol_runtime::sleep;
use entresol_shm::Gone;
use std::sync::Arc;
use std::time::Duration;

/// A flush is confirmed when there was none after it for so long.
const IDLE: Duration = Duration::from_millis(500);
/// The task looks so often whether the tier stops.
const SLICES: u32 = 20;

/// How a placement confirms flushes.
pub(crate) trait Confirms {
    /// What was flushed.
    type What: Copy + PartialEq;

    /// What is durable, and no durable block on flash says so yet.
    fn unconfirmed(&self) -> Result<Option<Self::What>, Gone>;

    /// Confirms that.
    fn confirm(&self, unconfirmed: Self::What) -> Result<(), TierError>;
}

/// See the module's header.
pub(crate) struct Confirmer<C> {
    state: Arc<RunState>,
    failures: Arc<Failures>,
    placement: C,
}

impl<C: Confirms> Confirmer<C> {
    pub(crate) fn new(floor: &Floor, placement: C) -> Self {
        Self { state: floor.access.state.clone(), failures: floor.failures.clone(), placement }
    }

    /// Confirms flushes until the tier stops. Sleeps until there is one.
    pub(crate) fn task(&self) {
        loop {
            let seen = self.failures.flushes.epoch();
            if self.state.is_stopped() {
                return;
            }
            let Ok(unconfirmed) = self.placement.unconfirmed() else { return };
            let Some(unconfirmed) = unconfirmed else {
                self.failures.flushes.wait(seen);
                continue;
            };
            for _ in 0..SLICES {
                sleep(IDLE / SLICES);
                if self.state.is_stopped() {
                    return;
                }
            }
            match self.confirm(unconfirmed) {
                // The next flush tells this task again.
                Ok(true) => self.failures.flushes.wait(seen),
                Ok(false) => {}
                Err(error) => return self.failures.fail(error),
            }
        }
    }

    /// Confirms what was `unconfirmed` some time ago. False: there was a flush meanwhile.
    fn confirm(&self, unconfirmed: C::What) -> Result<bool, TierError> {
        if self.placement.unconfirmed()? != Some(unconfirmed) {
            return Ok(false);
        }
        self.placement.confirm(unconfirmed).map(|()| true)
    }
}
