//! The owner's wishes on writes to flash.

use super::FlashTier;
use crate::budget::{Allowed, Budget};

impl FlashTier {
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
}
