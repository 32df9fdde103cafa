//! A partition's policy with its memory, and the dispatch to it.

use super::{Memory, Policy, PolicyKind, policies, policy_table};
use crate::sections::Carver;
use crate::sizes::Sizes;

macro_rules! policy_state {
    (() $($(#[$doc:meta])* $kind:ident = $code:literal in $module:ident,)*) => {
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
macro_rules! ask {
    ($state:expr, $P:ident, $memory:ident => $body:expr) => {
        $crate::policy::policy_table!([$crate::policy::match_state] $state, $P, $memory => $body)
    };
}
pub(crate) use ask;

macro_rules! match_state {
    (($state:expr, $P:ident, $memory:ident => $body:expr)
        $($(#[$doc:meta])* $kind:ident = $code:literal in $module:ident,)*) => {
        match $state {
            $($crate::policy::PolicyState::$kind($memory) => {
                type $P = $crate::policy::policies::$kind;
                $body
            })*
        }
    };
}
pub(crate) use match_state;
