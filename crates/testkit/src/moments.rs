//! A few moments of a store's life at which power could fail, with their crash states.
//!
//! Invariant: all moments that qualify are selected with the same probability. The seed determines the
//! selection.

use crate::life::{Life, prepare};
use crate::machine::{Devices, Machine, Media};
use crate::subject::Subject;
use crate::workload::Workload;
use entresol_device::FaultPlan;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// The state after a power failure.
pub(crate) struct Left<O> {
    /// Device operations before the moment.
    pub at: u64,
    pub media: Media,
    /// The oracle at the moment.
    pub oracle: O,
}

/// A life, and the number of moments to select.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub system: Subject,
    pub seed: u64,
    /// Transactions of each client.
    pub transactions: u64,
    pub most: u64,
}

impl Moments {
    /// Runs the life. `look` returns the crash state of an operation, or `None` if the moment does not
    /// qualify. It asks `is_wanted` of a moment that does, before it makes the state.
    pub(crate) fn of<W: Workload>(
        &self,
        workload: &W,
        look: impl Fn(&Devices, u64, &mut dyn FnMut() -> bool) -> Option<Media> + Send + Sync + 'static,
    ) -> Result<Vec<Left<W::Oracle>>, String> {
        let (media, oracle) = prepare(workload, self.system, self.seed)?;
        let groups = workload.flash_groups();
        let plan = FaultPlan::new(self.seed, Vec::new());
        let plan = if self.seed.is_multiple_of(4) { plan.in_any_order() } else { plan };
        let mut machine = Machine::new(media.freeze().thaw(), plan, groups);
        let oracle = Arc::new(Mutex::new(oracle));
        let left = Arc::new(Mutex::new((Rng::new(self.seed ^ 0x7ea2), 0, Vec::new())));
        let (known, found, most) = (oracle.clone(), left.clone(), self.most);
        machine.observe(move |devices: &Devices, at| {
            let (rng, seen, left) = &mut *found.lock();
            let mut place = u64::MAX;
            let mut is_wanted = || {
                *seen += 1;
                let drawn = rng.below(*seen);
                place = if (left.len() as u64) < most { left.len() as u64 } else { drawn };
                place < most
            };
            let Some(media) = look(devices, at, &mut is_wanted) else { return };
            let state = Left { at, media, oracle: known.lock().clone() };
            match left.get_mut(place as usize) {
                Some(before) => *before = state,
                None => left.push(state),
            }
        });
        let life = Life { seed: self.seed, verify: false, transactions: self.transactions };
        life.live(workload, self.system, &machine, &oracle)?
            .ok_or_else(|| "power failed though no crash was planned".to_owned())?;
        Ok(std::mem::take(&mut left.lock().2))
    }
}
