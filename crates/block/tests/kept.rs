//! A volume whose slots survive a crash: policies with slot placement in write-back.

#[path = "support/parts.rs"]
mod parts;
mod support;

use entresol_block::{CacheOptions, Loss, VolumeConfig, create_volume, open_volume};
use entresol_core::{Cache, Mode, PolicyKind};
use parts::{Parts, WRITTEN, expect_all, options, simulate, write_all};
use std::path::Path;

fn mode_of(options: &CacheOptions, mode: Mode) -> CacheOptions {
    options.in_mode(mode).unwrap()
}

/// Write-through has slots that survive no crash, and other places on flash: a change of the mode makes the
/// cache anew, and what only the flash had is on disk by then.
#[test]
fn a_volume_changes_to_slots_that_survive_and_back() {
    for policy in [PolicyKind::ReuseSlots, PolicyKind::Lru, PolicyKind::S3Fifo] {
        simulate(1, move || {
            let through = (Cache::Policy(policy), Mode::WriteThrough);
            let parts = Parts::new((Cache::Policy(PolicyKind::Lc), Mode::WriteBack));
            let parts = Parts { options: options(through), ..parts };
            let volume = parts.create();
            write_all(&volume, 1);
            let back = mode_of(&parts.options, Mode::WriteBack);
            volume.set_cache(back.clone(), Loss::Refused).unwrap();
            write_all(&volume, 2);
            let status = volume.status();
            assert_eq!(status.mode.as_deref(), Some("write-back"), "{}", policy.name());
            assert!(status.dirty_pages > 0, "{}", policy.name());
            // The program ends without a word.
            drop(volume);
            let parts = Parts { options: back, ..parts };
            let volume = parts.open();
            assert!(volume.status().pages > WRITTEN / 2, "{}: it is warm", policy.name());
            expect_all(&volume, 2);
            // Another policy of the same kind keeps the pages, dirty ones, too.
            let CacheOptions::Pages(other) = &parts.options else { unreachable!("it has a policy") };
            let mut other = other.clone();
            (other.policy, other.history) = (PolicyKind::Lc, PolicyKind::Lc.history(other.slots));
            let dirty = volume.status().dirty_pages;
            volume.set_cache(other.into(), Loss::Refused).unwrap();
            assert_eq!(volume.status().dirty_pages, dirty, "{}", policy.name());
            expect_all(&volume, 2);
            volume.set_cache(options(through), Loss::Refused).unwrap();
            assert_eq!(volume.status().dirty_pages, 0, "{}", policy.name());
            expect_all(&volume, 2);
            volume.close().unwrap();
        });
    }
}

fn config(folder: &Path, mode: &str) -> VolumeConfig {
    for (name, bytes) in [("disk", 8 << 20), ("flash", 16 << 20)] {
        std::fs::File::create(folder.join(name)).unwrap().set_len(bytes).unwrap();
    }
    VolumeConfig {
        name: "data".to_owned(),
        disk: folder.join("disk"),
        flash: folder.join("flash"),
        label: folder.join("label"),
        policy: "lc".to_owned(),
        direct_io: false,
        ..VolumeConfig::usual(mode)
    }
}

/// The mode in the file was changed while a server had the cache, or by hand: the next start copies dirty
/// pages to disk, and makes the cache anew.
#[test]
fn a_cache_of_another_mode_than_the_configuration_names_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let config = create_volume(&config(folder.path(), "write-back"), false).unwrap();
    let (volume, _) = open_volume(&config).unwrap();
    write_all(&volume, 7);
    assert!(volume.status().dirty_pages > 0);
    volume.close().unwrap();
    drop(volume);
    let reopen = |mode: &str, found: &str| {
        let config = VolumeConfig { mode: mode.to_owned(), ..config.clone() };
        let (volume, notices) = open_volume(&config).unwrap();
        let is_told = |notice: &String| notice.contains(found) && notice.contains("emptied");
        assert!(notices.iter().any(is_told), "{notices:?}");
        expect_all(&volume, 7);
        assert_eq!(volume.status().dirty_pages, 0);
        volume.close().unwrap();
    };
    reopen("write-through", "policy lc in write-back");
    // There is room for fewer pages then.
    reopen("write-back", "policy lc in write-through");
}
