//! Regions: sizes, refused regions, and damage, which is noticed and never makes the check panic.

mod harness;

use entresol_core::{
    Config, ConfigError, Partition, Placement, PolicyKind, Section, SlotId, bytes_per_slot, region_bytes,
    sections,
};
use harness::{Choices, World, small};
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn formatted(config: &Config) -> Vec<u64> {
    let mut region = vec![0u64; region_bytes(config) / 8];
    Partition::format(region.as_mut_bytes(), config).expect("a valid configuration");
    region
}

#[test]
fn a_slot_costs_what_the_design_allows() {
    for policy in PolicyKind::ALL {
        let most = match (policy, policy.placement()) {
            // The ghosts are a word each.
            (PolicyKind::S3Fifo, _) => 32,
            (PolicyKind::Reuse, _) => 26,
            (PolicyKind::ReuseSlots, _) => 30,
            (_, Placement::Slots) => 28,
            (_, Placement::Log) => 16,
        };
        assert!(bytes_per_slot(policy) <= most, "{}: {} bytes a slot", policy.name(), bytes_per_slot(policy));

        // The fixed parts (header, staging, list heads) are negligible in a cache of a million pages, and a
        // slot has one reference bit, if any.
        let config = Config { history: 0, ..Config::new(policy, 1 << 20) };
        let bit = if policy.facts().hits_only_refer { 0.125 } else { 0.0 };
        let (each, slot) =
            (region_bytes(&config) as f64 / config.slots as f64, bytes_per_slot(policy) as f64);
        assert!(each >= slot + bit, "{}: {each} bytes", policy.name());
        assert!(each < slot + bit + 0.06, "{}: {each} bytes", policy.name());

        // One slot more costs exactly the difference.
        let more = Config { slots: config.slots + 128, ..config };
        let bits = (128.0 * bit) as usize;
        assert_eq!(region_bytes(&more) - region_bytes(&config), 128 * bytes_per_slot(policy) + bits);
    }
}

#[test]
fn the_sections_make_up_the_region_history_included() {
    for policy in PolicyKind::ALL {
        let config = Config::new(policy, 10_000);
        let sum: usize = sections(&config).map(|s| s.entries * s.entry_bytes).sum();
        assert_eq!(region_bytes(&config), sum.next_multiple_of(8), "{}", policy.name());
    }
    let with = Config { history: 1000, ..Config::new(PolicyKind::Lc, 10_000) };
    let without = Config { history: 0, ..with };
    assert_eq!(
        region_bytes(&with) - region_bytes(&without),
        1000 * 20,
        "16 bytes and a 4-byte bucket a page"
    );
}

#[test]
fn what_is_not_a_region_is_refused() {
    let config = Config::new(PolicyKind::FaceGsc, 4096);
    let region = formatted(&config);

    let mut short = region.clone();
    short.pop();
    let refused = Partition::attach(short.as_mut_bytes()).map(|_| ());
    let (expected, found) = (region_bytes(&config), region_bytes(&config) - 8);
    assert_eq!(refused, Err(ConfigError::RegionSize { expected, found }));
    assert!(matches!(
        Partition::attach([0u64; 2].as_mut_bytes()),
        Err(ConfigError::RegionSize { found: 16, .. })
    ));

    let mut foreign = region.clone();
    foreign[0] ^= 1;
    assert!(matches!(Partition::attach(foreign.as_mut_bytes()), Err(ConfigError::Magic { .. })));

    let mut shifted = vec![0u64; region.len() + 1];
    let shifted = &mut shifted.as_mut_bytes()[4..][..region_bytes(&config)];
    shifted.copy_from_slice(region.as_bytes());
    assert!(matches!(Partition::attach(shifted), Err(ConfigError::Alignment { expected: 8 })));
    assert!(matches!(Partition::format(shifted, &config), Err(ConfigError::Alignment { expected: 8 })));
}

#[test]
fn impossible_configurations_are_refused() {
    let good = Config::new(PolicyKind::Lc, 100_000);
    let refused = |config: Config| config.validate().expect_err("out of range");
    assert_eq!(good.validate(), Ok(()));
    assert!(matches!(refused(Config { group_pages: 1, ..good }), ConfigError::GroupPages { found: 1 }));
    assert!(matches!(refused(Config { group_pages: u32::MAX, ..good }), ConfigError::GroupPages { .. }));
    assert!(matches!(refused(Config { staging_groups: 1, ..good }), ConfigError::StagingGroups { found: 1 }));
    assert!(matches!(
        refused(Config { staging_groups: u32::MAX, ..good }),
        ConfigError::StagingGroups { .. }
    ));
    assert!(matches!(refused(Config { slots: good.slots_min() - 1, ..good }), ConfigError::Slots { .. }));
    assert!(matches!(refused(Config { slots: u32::MAX, ..good }), ConfigError::Slots { .. }));
    assert!(matches!(refused(Config { dirty_permille_max: 1001, ..good }), ConfigError::DirtyShare { .. }));
    assert!(matches!(refused(Config { history: u32::MAX, ..good }), ConfigError::History { .. }));
    let face = Config { policy: PolicyKind::Face, ..good };
    assert!(matches!(refused(Config { slots: face.slots + 1, ..face }), ConfigError::PartialGroup { .. }));
    // Links have 28 bits; LC has list heads after the slots.
    let ConfigError::Slots { max, .. } = refused(Config { slots: u32::MAX, ..good }) else { unreachable!() };
    assert!(max + 1026 < 1 << 28);
}

/// A used region of each policy.
fn used(policy: PolicyKind, seed: u64) -> Vec<u64> {
    let mut world = World::new(small(policy, 4, 2, 2), 90, 8);
    let mut choices = Choices::from_seed(seed);
    for _ in 0..600 {
        world.step(&mut choices);
        world.verify();
    }
    world.region
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// On a damaged region, attachment and check end without a panic, whatever the damage.
    #[test]
    fn damage_is_judged_without_a_panic(
        policy in prop::sample::select(PolicyKind::ALL.to_vec()),
        seed in 0u64..8,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>(), any::<bool>()), 1..8),
    ) {
        let mut region = used(policy, seed);
        let words = region.as_mut_slice().as_mut_bytes();
        for (at, value, in_header) in damage {
            let end = if in_header { 256 } else { words.len() };
            let at = at.index(end / 4) * 4;
            // Small numbers look like indices, which is worse than noise.
            let value = if value & 1 == 0 { value >> 24 } else { value };
            words[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        if let Ok(partition) = Partition::attach(words) {
            let _ = partition.check();
        }
    }
}

/// The check notices most single flipped bits in the directory proper.
#[test]
fn damage_is_noticed() {
    for policy in PolicyKind::ALL {
        let mut region = used(policy, 3);
        let config = Partition::attach(region.as_mut_bytes()).expect("intact").config();
        Partition::attach(region.as_mut_bytes()).expect("intact").check().expect("intact");
        let used: Vec<bool> = {
            let partition = Partition::attach(region.as_mut_bytes()).expect("intact");
            (0..config.slots).map(|slot| partition.slot(SlotId(slot)).is_some()).collect()
        };
        let sections: Vec<_> = sections(&config).collect();
        let slots = sections.iter().position(|section| section.name == "slots").expect("a directory");
        let bytes = |sections: &[Section]| sections.iter().map(|s| s.entries * s.entry_bytes).sum::<usize>();
        // The slots, and the index after them.
        let (begin, length) = (bytes(&sections[..slots]), bytes(&sections[slots..slots + 2]));
        let (mut noticed, mut flipped) = (0, 0);
        for at in (begin..begin + length).step_by(5) {
            // The old content of a free slot is not used.
            if used.get((at - begin) / sections[slots].entry_bytes) == Some(&false) {
                continue;
            }
            let mut damaged = region.clone();
            damaged.as_mut_bytes()[at] ^= 1 << (at % 8);
            let mut partition = Partition::attach(damaged.as_mut_bytes());
            flipped += 1;
            noticed += usize::from(partition.as_mut().map_or(true, |p| p.check().is_err()));
        }
        assert!(noticed * 10 > flipped * 6, "{}: {noticed} of {flipped}", policy.name());
    }
}
