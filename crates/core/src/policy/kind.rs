//! Generated from the rows of the table of policies: [`PolicyKind`], its order and its numbers, and the
//! dispatch to a policy's code.

use super::{
    Directory, Facts, LogPolicy, Placement, PlacementFacts, Policy, SlotPolicy, Survives, policy_table,
};
use crate::mode::Mode;

/// The first tokens for `Log`, the second ones for `Slots`.
macro_rules! of_placement {
    (Log [$($log:tt)*] [$($slots:tt)*]) => { $($log)* };
    (Slots [$($log:tt)*] [$($slots:tt)*]) => { $($slots)* };
}
pub(crate) use of_placement;

macro_rules! policy_kinds {
    (() $($(#[doc = $doc:literal])* $kind:ident: $placement:ident = $code:literal in $module:ident,)*) => {
        /// The cache policies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum PolicyKind {
            $($(#[doc = $doc])* $kind = $code,)*
        }

        impl PolicyKind {
            /// All policies, in the order of the papers' tables.
            pub const ALL: [PolicyKind; [$($code),*].len()] = [$(PolicyKind::$kind),*];

            /// What it is, for help texts: its row of the table, without the papers.
            pub fn about(self) -> &'static str {
                let row = match self {
                    $(PolicyKind::$kind => concat!($($doc),*),)*
                };
                row.split(" (").next().unwrap_or(row).trim().trim_end_matches('.')
            }
        }

        /// Their types.
        pub(crate) mod policies {
            $(pub(crate) use crate::policy::$module::$kind;)*
        }
    };
}
policy_table!([policy_kinds]);

/// Evaluates the expression of the placement of the policy `$kind`, with `P` standing for the policy's type.
macro_rules! with_policy {
    ($kind:expr, $P:ident => Log: $log:expr, Slots: $slots:expr) => {
        $crate::policy::policy_table!([$crate::policy::match_policy] $kind, $P => $log, $slots)
    };
}
pub(crate) use with_policy;

macro_rules! match_policy {
    (($kind_now:expr, $P:ident => $log:expr, $slots:expr)
        $($(#[$doc:meta])* $kind:ident: $placement:ident = $code:literal in $module:ident,)*) => {
        match $kind_now {
            $($crate::policy::PolicyKind::$kind => {
                #[allow(dead_code, reason = "an answer may be the same for all policies of a placement")]
                type $P = $crate::policy::policies::$kind;
                $crate::policy::of_placement!($placement [$log] [$slots])
            })*
        }
    };
}
pub(crate) use match_policy;

const fn facts_of<P: Policy>(placement: PlacementFacts) -> Facts {
    let (learns_from_misses, weighs_costs) = (P::LEARNS_FROM_MISSES, P::WEIGHS_COSTS);
    Facts { name: P::NAME, learns_from_misses, weighs_costs, hits_only_refer: P::HITS_ONLY_REFER, placement }
}

impl PolicyKind {
    /// The fixed properties of the policy.
    pub const fn facts(self) -> &'static Facts {
        with_policy!(self, P =>
            Log: const { &facts_of::<P>(PlacementFacts::Log(<P as LogPolicy>::FACTS)) },
            Slots: const { &facts_of::<P>(PlacementFacts::Slots(<P as SlotPolicy>::FACTS)) })
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
        with_policy!(self, P => Log: Placement::Log, Slots: Placement::Slots)
    }

    /// Whether pages are written to and read back from flash a group at a time, in one I/O.
    #[inline]
    pub const fn by_group(self) -> bool {
        with_policy!(self, P => Log: <P as LogPolicy>::FACTS.by_group, Slots: false)
    }

    /// Whether changed pages may be kept out, so that only the disk has them, though an older copy in a log
    /// cannot be removed.
    pub const fn keeps_out(self) -> bool {
        with_policy!(self, P => Log: <P as LogPolicy>::FACTS.keeps_out, Slots: false)
    }

    /// Whether pages fetched from disk may enter: the driver reports them with [`crate::Slots::arrived`].
    /// With the other policies that call changes nothing.
    pub const fn populates(self) -> bool {
        with_policy!(self, P => Log: false, Slots: <P as SlotPolicy>::FACTS.populates)
    }

    /// Whether pages that were not found are evidence: the driver reports them with
    /// [`crate::Partition::missed`]. With the other policies that call changes nothing.
    #[inline]
    pub const fn learns_from_misses(self) -> bool {
        with_policy!(self, P => Log: P::LEARNS_FROM_MISSES, Slots: P::LEARNS_FROM_MISSES)
    }

    /// Whether a fetched page moves to DRAM, so that it is in DRAM or on flash: the driver reports it with
    /// [`crate::Slots::taken`].
    pub const fn exclusive(self) -> bool {
        with_policy!(self, P => Log: false, Slots: <P as SlotPolicy>::FACTS.exclusive)
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

    /// The part of the directory that survives on flash, unless slots are kept.
    pub const fn directory(self) -> Directory {
        self.facts().directory()
    }

    /// The part of the directory that survives on flash in `mode`. With `keeps_slots`, the policy
    /// [may keep its slots](Self::may_keep_slots_in) in that mode, and does.
    pub const fn directory_in(self, mode: Mode, keeps_slots: bool) -> Directory {
        match mode {
            _ if !keeps_slots => self.directory(),
            Mode::WriteBack => Directory::Batches,
            _ => Directory::SegmentsAtShutdown,
        }
    }

    /// Whether its slots can survive a crash ([`Config::keeps_slots`](crate::Config)): it takes dirty pages,
    /// and leaves nothing else on flash.
    pub const fn may_keep_slots(self) -> bool {
        with_policy!(self, P => Log: false, Slots: {
            let facts = <P as SlotPolicy>::FACTS;
            !facts.clean_only && matches!(facts.survives, Survives::Never)
        })
    }

    /// Whether its slots can be kept over an open in `mode`: in write-back over a crash, too
    /// ([`PolicyKind::may_keep_slots`]); where flash is never newer than disk, over a shutdown, unless the
    /// policy has an order of its own for that.
    pub const fn may_keep_slots_in(self, mode: Mode) -> bool {
        match mode {
            Mode::WriteBack => self.may_keep_slots(),
            Mode::WriteThrough | Mode::WriteAround => with_policy!(self, P => Log: false, Slots: {
                !matches!(<P as SlotPolicy>::FACTS.survives, Survives::Shutdowns)
            }),
            Mode::ReadOnly => false,
        }
    }

    /// Whether a cache that is opened under this policy finds the pages of one that was closed under `other`:
    /// both place them alike, and leave the same part of the directory on flash.
    pub fn finds_pages_of(self, other: Self) -> bool {
        self.placement() == other.placement() && self.directory() == other.directory()
    }

    /// Whether it remembers evicted pages, by default as many as there are slots.
    pub(crate) const fn remembers(self) -> bool {
        with_policy!(self, P => Log: false, Slots: <P as SlotPolicy>::FACTS.remembers)
    }

    /// Evicted pages that a cache of `slots` slots remembers by default.
    pub const fn history(self, slots: u32) -> u32 {
        if self.remembers() { slots } else { 0 }
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

    #[test]
    fn every_policy_has_its_row_in_the_documentation() {
        let text = include_str!("../../../../docs/POLICIES.md");
        let first_cells = text.lines().filter(|line| line.starts_with("| `")).map(|line| {
            let end = line.find(" | ").expect("a row has cells");
            &line[..end]
        });
        let documented: Vec<&str> = first_cells.collect();
        for policy in PolicyKind::ALL {
            let name = format!("`{}`", policy.name());
            assert!(
                documented.iter().any(|cell| cell.contains(&name)),
                "docs/POLICIES.md has no row of {name}"
            );
            assert!(!policy.about().is_empty(), "{name}");
        }
    }
}
