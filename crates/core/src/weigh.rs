//! What a policy that weighs costs is told of the devices.

use crate::policy::{Policy, ask};
use crate::{Costs, Load, Partition};

impl Partition<'_> {
    /// What the devices cost, from now on. Policies that weigh costs begin without them: then flash is not
    /// what limits them.
    pub fn set_costs(&mut self, costs: &Costs) {
        ask!(&mut self.contents.policy, P, memory => P::set_costs(memory, costs));
    }

    /// How long the devices have been at work up to now. From time to time; a policy that
    /// [weighs costs](crate::Facts::weighs_costs) may go by it.
    pub fn observe(&mut self, load: Load) {
        ask!(&mut self.contents.policy, P, memory => P::observe(memory, load));
    }
}
