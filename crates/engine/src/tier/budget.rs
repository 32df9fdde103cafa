//! The owner's wishes on writes to flash.

use super::FlashTier;
use crate::budget::{Allowed, Budget};
use entresol_core::Costs;

impl FlashTier {
    /// Turns second chances off (`true`) or on, for an owner who wants fewer writes to flash.
    pub fn spare_writes(&self, spares: bool) {
        self.parts.floor.budget.spare_writes(spares);
    }

    /// From now on a write to flash must promise so many uses, in thousandths, where the policy weighs that
    /// ([`entresol_core::Facts::weighs_costs`]): for an owner who wants fewer writes. 0: as the devices'
    /// times have it.
    pub fn set_write_worth(&self, permille: u32) {
        self.parts.floor.budget.set_write_worth(permille);
    }

    /// From now on at most so many bytes are written to flash in a day ([`Budget`]). `None`: as many as there
    /// are.
    pub fn limit_writes(&self, bytes_per_day: Option<u64>) {
        self.parts.floor.budget.limit(Budget::new(bytes_per_day));
    }

    /// What may be written to flash now. A policy that weighs what a write is worth keeps to that by itself;
    /// with another one, its owner keeps pages out.
    pub fn allowed_writes(&self) -> Allowed {
        self.parts.floor.budget.allowed()
    }

    /// How many writes to flash may be under way at once.
    pub fn write_workers(&self) -> usize {
        self.parts.floor.front.options.write_workers
    }

    /// What the devices cost: as the owner said, or as the superblock has it. Unknown, if nothing was said or
    /// measured.
    pub fn costs(&self) -> Costs {
        self.parts.floor.front.options.costs
    }
}
