//! The processor of a simulated machine.

use std::time::Duration;

/// Processor time that transactions take in a simulation ([`Store::model_cpu`](crate::Store::model_cpu)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuModel {
    /// Time of one page access.
    pub per_fix: Duration,
    /// Time of one transaction without its page accesses.
    pub per_transaction: Duration,
}

impl CpuModel {
    /// Time of a transaction with this many page accesses.
    pub(crate) fn time(self, fixes: u64) -> Duration {
        self.per_transaction + self.per_fix * u32::try_from(fixes).unwrap_or(u32::MAX)
    }
}
