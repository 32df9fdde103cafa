//! Generated from the rows of the table of policies: [`PolicyKind`], its order and its numbers, and the
//! dispatch to a policy's code.

use super::{Directory, Facts, Placement, Policy, policy_table};
use crate::mode::Mode;

macro_rules! policy_kinds {
    (() $($(#[$doc:meta])* $kind:ident = $code:literal in $module:ident,)*) => {
        /// The cache policies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum PolicyKind {
            $($(#[$doc])* $kind = $code,)*
        }

        impl PolicyKind {
            /// All policies, in the order of the papers' tables.
            pub const ALL: [PolicyKind; [$($code),*].len()] = [$(PolicyKind::$kind),*];
        }

        /// Their types.
        pub(crate) mod policies {
            $(pub(crate) use crate::policy::$module::$kind;)*
        }

        $(const _: () = assert!(
            <policies::$kind as Policy>::FACTS.agree(),
            concat!("the facts of ", stringify!($kind), " contradict each other")
        );)*
    };
}
policy_table!([policy_kinds]);

/// Evaluates an expression with `P` standing for the type of the policy `$kind`.
macro_rules! with_policy {
    ($kind:expr, $P:ident => $body:expr) => {
        $crate::policy::policy_table!([$crate::policy::match_policy] $kind, $P => $body)
    };
}
pub(crate) use with_policy;

macro_rules! match_policy {
    (($kind_now:expr, $P:ident => $body:expr)
        $($(#[$doc:meta])* $kind:ident = $code:literal in $module:ident,)*) => {
        match $kind_now {
            $($crate::policy::PolicyKind::$kind => {
                type $P = $crate::policy::policies::$kind;
                $body
            })*
        }
    };
}
pub(crate) use match_policy;

impl PolicyKind {
    /// The fixed properties of the policy.
    pub const fn facts(self) -> &'static Facts {
        with_policy!(self, P => &<P as Policy>::FACTS)
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The policy with that number in a header or superblock.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| *policy as u32 == code)
    }

    /// Its placement.
    #[inline]
    pub const fn placement(self) -> Placement {
        with_policy!(self, P => <P as Policy>::FACTS.placement)
    }

    /// Whether pages are written to and read back from flash a group at a time, in one I/O.
    #[inline]
    pub const fn by_group(self) -> bool {
        with_policy!(self, P => <P as Policy>::FACTS.by_group)
    }

    /// Whether pages fetched from disk may enter: the driver reports them with [`crate::Slots::arrived`].
    /// With the other policies that call changes nothing.
    pub const fn populates(self) -> bool {
        self.facts().populates
    }

    /// Whether pages that were not found are evidence: the driver reports them with
    /// [`crate::Partition::missed`]. With the other policies that call changes nothing.
    #[inline]
    pub const fn learns_from_misses(self) -> bool {
        with_policy!(self, P => <P as Policy>::FACTS.learns_from_misses)
    }

    /// Whether a fetched page moves to DRAM, so that it is in DRAM or on flash: the driver reports it with
    /// [`crate::Slots::taken`].
    pub const fn exclusive(self) -> bool {
        self.facts().exclusive
    }

    /// Whether flash may hold dirty pages. If not, the driver writes a dirty page to disk first and evicts it
    /// clean (write-through).
    pub const fn write_back(self) -> bool {
        self.facts().refusal(Mode::WriteBack).is_none()
    }

    /// Why it cannot run in `mode`, if it cannot: the end of a sentence that begins with the policy.
    pub const fn refusal(self, mode: Mode) -> Option<&'static str> {
        self.facts().refusal(mode)
    }

    /// The mode in which the papers run it.
    pub const fn usual_mode(self) -> Mode {
        if self.write_back() { Mode::WriteBack } else { Mode::WriteThrough }
    }

    /// The part of the directory that survives on flash.
    pub const fn directory(self) -> Directory {
        self.facts().directory
    }

    /// Whether a cache that is opened under this policy finds the pages of one that was closed under `other`:
    /// both place them alike, and leave the same part of the directory on flash.
    pub fn finds_pages_of(self, other: Self) -> bool {
        self.placement() == other.placement() && self.directory() == other.directory()
    }

    /// Evicted pages that a cache of `slots` slots remembers by default.
    pub const fn history(self, slots: u32) -> u32 {
        if self.facts().remembers { slots } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_found_by_name_and_by_number() {
        for policy in PolicyKind::ALL {
            assert_eq!(PolicyKind::from_name(policy.name()), Some(policy));
            assert_eq!(PolicyKind::from_code(policy as u32), Some(policy));
        }
    }
}
