//! The processor of a simulated machine.

use std::time::Duration;

/// Processor time that transactions take in a simulation ([`Store::model_cpu`](crate::Store::model_cpu)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuModel {
    /// Of one page access.
    pub per_fix: Duration,
    /// Of one transaction beside its page accesses.
    pub per_transaction: Duration,
}

impl CpuModel {
    /// What a transaction with so many page accesses takes.
    pub(crate) fn time(self, fixes: u64) -> Duration {
        self.per_transaction + self.per_fix * u32::try_from(fixes).unwrap_or(u32::MAX)
    }
}
