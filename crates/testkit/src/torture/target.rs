//! The targets of torture: a policy in a mode, or SCE.

use super::script::smallest;
use crate::Subject;
use entresol_core::{PolicyKind, System};
use entresol_engine::Mode;
use std::fmt;

/// A policy and a mode that supports it; or SCE, which has one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The policy's index in [`PolicyKind::ALL`], and the mode's index in [`Mode::ALL`], because these types
    /// have no order of their own. SCE is no policy of the flash tier: its index is after all of them.
    places: (usize, usize),
    /// Slots survive a crash.
    keeps_slots: bool,
}

impl Target {
    /// SCE, a cache of fragments.
    pub const FRAGMENTS: Target = Target { places: (usize::MAX, 0), keeps_slots: false };

    /// The target of this policy and mode.
    pub fn new(policy: PolicyKind, mode: Mode) -> Self {
        let policy = PolicyKind::ALL.iter().position(|one| *one == policy);
        let mode = Mode::ALL.iter().position(|one| *one == mode);
        let places = (policy.expect("ALL has all policies"), mode.expect("ALL has all modes"));
        Self { places, keeps_slots: false }
    }

    /// The target of this policy with slots that survive a crash.
    pub fn with_kept_slots(policy: PolicyKind) -> Self {
        Self { keeps_slots: true, ..Self::new(policy, Mode::WriteBack) }
    }

    /// Whether slots survive a crash.
    pub fn keeps_slots(self) -> bool {
        self.keeps_slots
    }

    /// The policy; `None`: SCE.
    pub fn policy(self) -> Option<PolicyKind> {
        PolicyKind::ALL.get(self.places.0).copied()
    }

    /// The mode. SCE writes through for cached pages, and around the cache for others.
    pub fn mode(self) -> Mode {
        if self == Self::FRAGMENTS { System::Fragments.usual_mode() } else { Mode::ALL[self.places.1] }
    }

    /// Those of stores whose log may be kept for the loss of the flash.
    pub fn of_surviving_stores() -> Vec<Self> {
        let of = |subject: &Subject| match subject.system {
            System::Cached(policy) => Some(Self::new(policy, subject.mode)),
            _ => None,
        };
        Subject::SURVIVING.iter().filter_map(of).collect()
    }

    /// All targets that the engine supports.
    pub fn all() -> Vec<Target> {
        let possible = |(policy, mode): &(PolicyKind, Mode)| smallest(*policy, *mode, 2, 2).is_some();
        let targets = PolicyKind::ALL.into_iter().flat_map(|policy| Mode::ALL.map(|mode| (policy, mode)));
        let kept = |target: Target| {
            let policy = target.policy().filter(|policy| policy.may_keep_slots());
            policy.filter(|_| target.mode() == Mode::WriteBack).map(Target::with_kept_slots)
        };
        let targets = targets.filter(possible).map(|(policy, mode)| Target::new(policy, mode));
        let targets = targets.flat_map(|target| std::iter::once(target).chain(kept(target)));
        targets.chain([Target::FRAGMENTS]).collect()
    }

    /// The targets of a `name`: `all`, `kept` (slots that survive a crash), a policy, or a policy and a mode
    /// (`face-gsc/write-through`), with slots that survive a crash or without (`lc/write-back/kept`). Empty
    /// if the name is unknown.
    pub fn named(name: &str) -> Vec<Target> {
        let means = |target: &Target| match target.keeps_slots {
            true => name == "all" || name == "kept" || name == target.to_string(),
            false => name == "all" || name == target.name() || name == target.to_string(),
        };
        Self::all().into_iter().filter(means).collect()
    }

    /// The names of `targets`, separated by commas.
    pub(super) fn names(targets: &[Target]) -> String {
        if targets == Self::all() {
            return "all".to_owned();
        }
        targets.iter().map(Target::to_string).collect::<Vec<_>>().join(",")
    }

    fn name(self) -> &'static str {
        self.policy().map_or(System::Fragments, System::Cached).name()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = if self.keeps_slots { "/kept" } else { "" };
        write!(f, "{}/{}{kept}", self.name(), self.mode().name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_found_by_its_names() {
        for target in Target::all() {
            assert_eq!(Target::named(&target.to_string()), [target]);
            let group = if target.keeps_slots { "kept" } else { target.name() };
            assert!(Target::named(group).contains(&target));
        }
        assert_eq!(Target::named("sce"), [Target::FRAGMENTS]);
        assert_eq!(Target::FRAGMENTS.to_string(), "sce/write-through");
        assert!(Target::named("sce/write-back").is_empty() && Target::named("").is_empty());
    }
}
