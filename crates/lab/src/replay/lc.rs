//! LC's knobs. Its paper calls the dirty share tunable, and neither it nor FaCE says how many departed pages
//! are remembered.

use entresol_core::PolicyKind;

/// What is not set is as the policy has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LcKnobs {
    /// Evicted pages whose last reference is remembered, per cent of the slots; without it 100.
    pub history_percent: Option<u32>,
    /// The cleaner works while more than so many per mille of the slots are dirty; without it 900.
    pub dirty_permille: Option<u32>,
}

impl LcKnobs {
    /// LC without memory of what has left.
    pub const FORGETS: Self = Self { history_percent: Some(0), dirty_permille: None };

    /// Sets the history and the dirty share of a cache under `policy`, if that is LC.
    pub fn set(self, policy: PolicyKind, slots: u32, history: &mut u32, dirty_permille: &mut u32) {
        if policy != PolicyKind::Lc {
            return;
        }
        if let Some(percent) = self.history_percent {
            *history = (u64::from(slots) * u64::from(percent) / 100) as u32;
        }
        *dirty_permille = self.dirty_permille.unwrap_or(*dirty_permille);
    }
}
