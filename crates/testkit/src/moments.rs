//! A few moments of a store's life at which power could fail, with what it would leave.
//!
//! Invariant: of all moments that qualify each is as likely to be among them as any other; which are follows
//! from the seed.

use crate::life::{Life, prepare};
use crate::machine::{Devices, Machine, Media};
use crate::subject::Subject;
use crate::workload::Workload;
use entresol_device::FaultPlan;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// What a power failure left.
pub(crate) struct Left<O> {
    /// Operations of the devices before.
    pub at: u64,
    pub media: Media,
    /// What was known then.
    pub oracle: O,
}

/// Which life, and how many moments of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub system: Subject,
    pub seed: u64,
    /// Of each client.
    pub transactions: u64,
    pub most: u64,
}

impl Moments {
    /// Lives the life; `look` says what a power failure at an operation leaves, or that the moment is of no
    /// interest.
    pub(crate) fn of<W: Workload>(
        &self,
        workload: &W,
        look: impl Fn(&Devices, u64) -> Option<Media> + Send + Sync + 'static,
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
            let Some(media) = look(devices, at) else { return };
            *seen += 1;
            let state = Left { at, media, oracle: known.lock().clone() };
            match rng.below(*seen) {
                _ if (left.len() as u64) < most => left.push(state),
                place if place < most => left[place as usize] = state,
                _ => {}
            }
        });
        let life = Life { seed: self.seed, verify: false, transactions: self.transactions };
        life.live(workload, self.system, &machine, &oracle)?
            .ok_or_else(|| "power failed though no crash was planned".to_owned())?;
        Ok(std::mem::take(&mut left.lock().2))
    }
}
