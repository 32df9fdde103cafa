//! A volume in write-through or write-around whose cache is warm after a shutdown: policies with slots.

#[path = "support/parts.rs"]
mod parts;
mod support;

use entresol_block::{
    CacheOptions, Loss, Volume, VolumeConfig, check_volume, create_volume, inspect_volume, open_volume,
};
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_engine::{TierOptions, detach, flash_bytes};
use parts::{Parts, WRITTEN, expect_all, options, simulate, write_all};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: usize = 4096;

fn policies() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots_in(Mode::WriteThrough))
}

#[test]
fn a_volume_is_warm_after_a_shutdown_and_cold_after_a_kill() {
    for policy in policies() {
        for mode in [Mode::WriteThrough, Mode::WriteAround] {
            simulate(1, move || {
                let parts = Parts::new((Cache::Policy(PolicyKind::Lc), Mode::WriteBack));
                let parts = Parts { options: options((Cache::Policy(policy), mode)), ..parts };
                let volume = parts.create();
                write_all(&volume, 1);
                (0..2).for_each(|_| expect_all(&volume, 1));
                let pages = volume.status().pages;
                volume.close().unwrap();
                drop(volume);
                let volume = parts.open();
                let name = format!("{} {}", policy.name(), mode.name());
                assert!(volume.status().pages >= pages && pages > 0, "{name}: {pages}");
                expect_all(&volume, 1);
                assert!(volume.status().disk_reads < WRITTEN, "{name}");
                write_all(&volume, 2);
                // The program ends without a word.
                drop(volume);
                let [disk, label, flash] = parts.devices();
                let (volume, notices) = Volume::open(disk, label, flash, parts.options.clone()).unwrap();
                assert!(notices.concat().contains("was not closed"), "{name}: {notices:?}");
                assert_eq!(volume.status().pages, 0, "{name}");
                expect_all(&volume, 2);
                volume.close().unwrap();
            });
        }
    }
}

/// The change of a policy or of the mode keeps the pages where they are found alike, and else empties the
/// cache.
#[test]
fn a_change_keeps_the_pages_or_empties_the_cache() {
    simulate(2, || {
        let parts = Parts::new((Cache::Policy(PolicyKind::Lc), Mode::WriteBack));
        let through = |policy| options((Cache::Policy(policy), Mode::WriteThrough));
        let parts = Parts { options: through(PolicyKind::ReuseSlots), ..parts };
        let volume = parts.create();
        write_all(&volume, 1);
        let change = |new: CacheOptions, keeps: bool| {
            volume.set_cache(new, Loss::Refused).unwrap();
            assert_eq!(volume.status().pages > 0, keeps, "{:?}", volume.status().policy);
            expect_all(&volume, 1);
        };
        change(through(PolicyKind::Lru), true);
        change(through(PolicyKind::Lru).in_mode(Mode::WriteAround).unwrap(), true);
        change(through(PolicyKind::Lru), true);
        change(through(PolicyKind::Tac), false);
        change(through(PolicyKind::Lru), false);
        change(through(PolicyKind::Lru).in_mode(Mode::WriteBack).unwrap(), false);
        change(through(PolicyKind::Lru), false);
        volume.close().unwrap();
    });
}

fn config(folder: &Path, policy: &str) -> VolumeConfig {
    for (name, bytes) in [("disk", 8 << 20), ("flash", 16 << 20)] {
        File::create(folder.join(name)).unwrap().set_len(bytes).unwrap();
    }
    VolumeConfig {
        name: "data".to_owned(),
        disk: folder.join("disk"),
        flash: folder.join("flash"),
        label: folder.join("label"),
        policy: policy.to_owned(),
        direct_io: false,
        ..VolumeConfig::usual("write-through")
    }
}

/// What is told without a server; and what another program has written to the disk meanwhile is served.
#[test]
fn what_is_told_of_a_volume_without_a_server() {
    for policy in ["reuse-slots", "tac"] {
        let folder = tempfile::tempdir().unwrap();
        let config = create_volume(&config(folder.path(), policy), false).unwrap();
        let (volume, _) = open_volume(&config).unwrap();
        write_all(&volume, 7);
        expect_all(&volume, 7);
        volume.close().unwrap();
        drop(volume);
        let report = check_volume(&config).unwrap();
        assert!(report.is_sound() && report.pages > 0, "{policy}: {report}");
        assert!(inspect_volume(&config).unwrap().pages > 0, "{policy}");
        // In the fingerprint.
        let disk = File::options().write(true).open(&config.disk).unwrap();
        disk.write_all_at(&[5; PAGE], 3 * PAGE as u64).unwrap();
        let (volume, notices) = open_volume(&config).unwrap();
        assert!(notices.concat().contains("another program"), "{policy}: {notices:?}");
        assert_eq!(volume.status().pages, 0, "{policy}");
        let mut found = vec![0; PAGE];
        volume.read(3 * PAGE as u64, &mut found).unwrap();
        assert_eq!(found, [5; PAGE], "{policy}");
        volume.close().unwrap();
        drop(volume);
        // A start without the cache writes, too.
        let alone = VolumeConfig { cache: false, ..config.clone() };
        let (volume, _) = open_volume(&alone).unwrap();
        write_all(&volume, 9);
        volume.close().unwrap();
        drop(volume);
        let (volume, notices) = open_volume(&config).unwrap();
        assert!(notices.concat().contains("emptied"), "{policy}: {notices:?}");
        expect_all(&volume, 9);
        volume.close().unwrap();
    }
}

/// A cache of a release whose slots did not survive a shutdown is made anew, with the room that there is.
#[test]
fn a_cache_of_an_older_release_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let config = create_volume(&config(folder.path(), "reuse-slots"), false).unwrap();
    let CacheOptions::Pages(now) = config.cache_options().unwrap() else { unreachable!("it has a policy") };
    let then = TierOptions { keeps_slots: false, ..now.clone() };
    let open = |name: &str| {
        let path = folder.path().join(name);
        entresol_device::open_device(&path, entresol_device::FileOptions::existing()).unwrap().device
    };
    let then = then.fitted(open("flash").geometry().capacity_bytes);
    assert!(then.slots >= now.slots && flash_bytes(&then) <= 16 << 20);
    {
        let (home, _) = entresol_engine::InPlaceDisk::open(open("disk"), open("label")).unwrap();
        detach(open("flash"), home).unwrap();
    }
    let volume = Volume::create(open("disk"), open("label"), open("flash"), then.clone());
    drop(volume.unwrap_or_else(|_| {
        Volume::open(open("disk"), open("label"), open("flash"), then.clone()).unwrap().0
    }));
    let (volume, _) = Volume::open(open("disk"), open("label"), open("flash"), then.clone()).unwrap();
    write_all(&volume, 3);
    volume.close().unwrap();
    drop(volume);
    let (volume, notices) = open_volume(&VolumeConfig { slots: then.slots, ..config.clone() }).unwrap();
    assert!(notices.concat().contains("made by a release"), "{notices:?}");
    (0..3).for_each(|_| expect_all(&volume, 3));
    volume.close().unwrap();
    drop(volume);
    let (volume, notices) = open_volume(&config).unwrap();
    assert!(volume.status().pages > 0, "{notices:?}");
    volume.close().unwrap();
}
