//! What a policy keeps in the region, by its types. The region sizes, places and hands out the sections; the policy's file has
//! the types and their invariants.
//!
//! A policy has a [`Policy::Note`] in the node of each slot, beside the links of its lists, and a [`Policy::Memory`] for the
//! partition: scalars and tables, a section each.

use super::{Policy, PolicyKind, policies, policy_table};
use crate::config::Config;
use crate::sections::{Carver, SectionPlan};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Plain words, for which all bits are a value. What lies in the region is made of these.
pub(crate) trait Plain: FromBytes + IntoBytes + KnownLayout + Immutable {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable> Plain for T {}

/// A policy's memory, attached: references to its sections of the region.
pub(crate) trait Memory<'r>: Sized {
    /// Its sections, in order. Their entries are aligned to 4 bytes at most.
    const SECTIONS: &'static [SectionPlan];
    /// Takes the sections, in their order. `None`: the region is too short.
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self>;
    /// Turns what is all zeros into what an empty cache has.
    fn format(&mut self, _config: &Config) {}
}

/// No memory.
impl Memory<'_> for () {
    const SECTIONS: &'static [SectionPlan] = &[];
    fn attach(_carver: &mut Carver<'_, '_>) -> Option<Self> {
        Some(())
    }
}

/// Gives a policy its memory in a partition of its own kind.
pub(crate) trait Keeps: Policy {
    /// Its memory.
    fn of<'k, 'r>(kept: &'k Kept<'r>) -> &'k Self::Memory<'r>;
    /// Its memory, to be changed.
    fn of_mut<'k, 'r>(kept: &'k mut Kept<'r>) -> &'k mut Self::Memory<'r>;
}

macro_rules! kept {
    (() $($(#[$doc:meta])* $kind:ident = $code:literal in $module:ident,)*) => {
        /// The memory of the partition's policy.
        pub(crate) enum Kept<'r> {
            $($kind(<policies::$kind as Policy>::Memory<'r>),)*
        }

        impl<'r> Kept<'r> {
            /// Takes the sections of `policy`. `None`: the region is too short.
            #[inline(always)]
            pub(crate) fn attach(policy: PolicyKind, carver: &mut Carver<'r, '_>) -> Option<Self> {
                Some(match policy {
                    $(PolicyKind::$kind => Kept::$kind(Memory::attach(carver)?),)*
                })
            }

            /// As [`Memory::format`].
            pub(crate) fn format(&mut self, config: &Config) {
                match self {
                    $(Kept::$kind(memory) => memory.format(config),)*
                }
            }
        }

        $(impl Keeps for policies::$kind {
            #[inline]
            fn of<'k, 'r>(kept: &'k Kept<'r>) -> &'k Self::Memory<'r> {
                match kept {
                    Kept::$kind(memory) => memory,
                    _ => unreachable!("a policy is asked in partitions of its own kind"),
                }
            }
            #[inline]
            fn of_mut<'k, 'r>(kept: &'k mut Kept<'r>) -> &'k mut Self::Memory<'r> {
                match kept {
                    Kept::$kind(memory) => memory,
                    _ => unreachable!("a policy is asked in partitions of its own kind"),
                }
            }
        })*
    };
}
policy_table!([kept]);
