//! A partition's policy with its memory, and the dispatch to it.

use super::{Memory, Policy, PolicyKind, policies, policy_table};
use crate::sections::Carver;
use crate::sizes::Sizes;

macro_rules! policy_state {
    (() $($(#[$doc:meta])* $kind:ident: $placement:ident = $code:literal in $module:ident,)*) => {
        /// The policy of a partition, and its memory.
        pub(crate) enum PolicyState<'r> {
            $($kind(<policies::$kind as Policy>::Memory<'r>),)*
        }

        impl<'r> PolicyState<'r> {
            /// Attaches to the sections of `policy`. `None`: the region is too short.
            #[inline(always)]
            pub(crate) fn attach(policy: PolicyKind, carver: &mut Carver<'r, '_>) -> Option<Self> {
                Some(match policy {
                    $(PolicyKind::$kind => PolicyState::$kind(Memory::attach(carver)?),)*
                })
            }

            /// As [`Memory::format`].
            pub(crate) fn format(&mut self, sizes: &Sizes) {
                match self {
                    $(PolicyState::$kind(memory) => memory.format(sizes),)*
                }
            }
        }
    };
}
policy_table!([policy_state]);

/// Evaluates an expression with `P` standing for the type of the policy of `$state`, a reference to a
/// [`PolicyState`], and `memory` for its memory.
///
/// There is one state for all policies, and not one for each placement: so what both placements ask takes one
/// jump, on the path of a hit.
macro_rules! ask {
    ($state:expr, $P:ident, $memory:ident => $body:expr) => {
        $crate::policy::policy_table!([$crate::policy::match_state] $state, $P, $memory => [$body] [$body])
    };
}
pub(crate) use ask;

/// As [`ask`], by a log: `P` is a [`LogPolicy`](super::LogPolicy).
macro_rules! ask_log {
    ($state:expr, $P:ident, $memory:ident => $body:expr) => {
        $crate::policy::policy_table!([$crate::policy::match_state] $state, $P, $memory =>
            [$body] [$crate::policy::misplaced($memory)])
    };
}
pub(crate) use ask_log;

/// As [`ask`], by slots: `P` is a [`SlotPolicy`](super::SlotPolicy).
macro_rules! ask_slots {
    ($state:expr, $P:ident, $memory:ident => $body:expr) => {
        $crate::policy::policy_table!([$crate::policy::match_state] $state, $P, $memory =>
            [$crate::policy::misplaced($memory)] [$body])
    };
}
pub(crate) use ask_slots;

macro_rules! match_state {
    (($state:expr, $P:ident, $memory:ident => $log:tt $slots:tt)
        $($(#[$doc:meta])* $kind:ident: $placement:ident = $code:literal in $module:ident,)*) => {
        match $state {
            $($crate::policy::PolicyState::$kind($memory) => {
                #[allow(dead_code, reason = "not needed where the policy is of the other placement")]
                type $P = $crate::policy::policies::$kind;
                $crate::policy::of_placement!($placement $log $slots)
            })*
        }
    };
}
pub(crate) use match_state;

/// A log is attached with the state of a policy of logs, and slots with that of one of slots (`region.rs`).
#[cold]
pub(crate) fn misplaced<M>(_memory: M) -> ! {
    unreachable!("a partition's policy is of its placement")
}
