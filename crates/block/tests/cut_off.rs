//! A change of policy of which the configuration knows nothing, since the program that asked for it was
//! killed: the volume is served again, detached, or changed again, and has everything.

use entresol_block::{Loss, VolumeConfig, change_policy, create_volume, detach_volume, open_volume};
use std::path::Path;

const PAGE: u64 = 4096;
const PAGES: u64 = 512;
const FLASH_BYTES: u64 = 10 << 20;
const CACHES: [(&str, &str); 4] = [
    ("face-gsc", "write-back"),
    ("face-gsc", "write-through"),
    ("lru", "write-through"),
    ("sce", "write-through"),
];

fn of((policy, mode): (&str, &str), config: &VolumeConfig) -> VolumeConfig {
    VolumeConfig { policy: policy.to_owned(), mode: mode.to_owned(), ..config.clone() }
}

fn content(page: u64) -> Vec<u8> {
    vec![(page % 250) as u8 + 1; PAGE as usize]
}

/// A volume with the cache `before` in its configuration, and the cache `after` on its flash. All pages have
/// been written; with a journal those since the change are not flushed.
fn cut_off(
    folder: &Path,
    before: (&str, &str),
    after: (&str, &str),
    journal: bool,
    killed: bool,
) -> VolumeConfig {
    let at = |name: &str| folder.join(name);
    for (name, bytes) in [("disk", PAGES * PAGE), ("flash", FLASH_BYTES)] {
        std::fs::File::create(at(name)).unwrap().set_len(bytes).unwrap();
    }
    let config: VolumeConfig = serde_json::from_value(serde_json::json!({
        "name": "data", "disk": at("disk"), "flash": at("flash"), "label": at("label"), "socket": at("socket"),
        "journal": if journal { at("journal") } else { "".into() }, "journal_bytes": 16 << 20,
        "cache": true, "mode": before.1, "policy": before.0, "page_bytes": PAGE, "slots": 0, "direct_io": false,
        "read_only": false, "workers": 1, "connections_max": 1, "requests_max": 1,
        "in_flight_bytes_max": 64 << 20, "handshake_seconds_max": 1, "transfer_seconds_max": 1,
    }))
    .unwrap();
    let config = create_volume(&config, false).unwrap();
    let (volume, _) = open_volume(&config).unwrap();
    let write = |pages: std::ops::Range<u64>| {
        let data: Vec<u8> = pages.clone().flat_map(content).collect();
        volume.write(pages.start * PAGE, &data, false).unwrap();
    };
    write(0..PAGES / 2);
    let (now, bytes) = volume.cache_options().unwrap();
    volume.set_cache(of(after, &config).options_after(&now, bytes).unwrap(), Loss::Refused).unwrap();
    write(PAGES / 2..PAGES);
    if !journal {
        volume.flush().unwrap();
    }
    match killed {
        true => drop(volume),
        false => volume.close().unwrap(),
    }
    config
}

fn expect_all(config: &VolumeConfig, what: &str) {
    let (volume, _) = open_volume(config).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut found = vec![0; (PAGES * PAGE) as usize];
    volume.read(0, &mut found).unwrap();
    expect_pages(&found, what);
    assert_eq!(volume.status().policy.as_ref(), Some(&config.policy), "{what}");
    assert_eq!(volume.status().mode.as_ref(), Some(&config.mode), "{what}");
    volume.close().unwrap();
}

fn expect_pages(found: &[u8], what: &str) {
    let differs = (0..).zip(found.chunks(PAGE as usize)).find(|(page, found)| **found != content(*page));
    assert_eq!(differs.map(|(page, _)| page), None, "{what}: a page");
}

#[test]
fn a_volume_outlives_a_change_that_its_configuration_does_not_know() {
    let pairs = CACHES.into_iter().flat_map(|one| CACHES.map(|other| (one, other)));
    for (before, after) in pairs.filter(|(before, after)| before.0 != after.0) {
        for (journal, killed) in [(true, true), (false, false)] {
            let what = format!("{before:?}, then {after:?}, journal {journal}, killed {killed}");
            let folder = tempfile::tempdir().unwrap();
            let made = |name: &str| {
                let path = folder.path().join(name);
                std::fs::create_dir(&path).unwrap();
                cut_off(&path, before, after, journal, killed)
            };
            let config = made("served");
            expect_all(&config, &format!("{what}, served"));
            let config = made("detached");
            detach_volume(&config, Loss::Refused).unwrap_or_else(|error| panic!("{what}, detached: {error}"));
            expect_pages(&std::fs::read(&config.disk).unwrap(), &format!("{what}, detached"));
            // It is detached already: nothing is left to do.
            detach_volume(&config, Loss::Refused)
                .unwrap_or_else(|error| panic!("{what}, detached again: {error}"));
            expect_all(&config, &format!("{what}, detached and served"));
            // The same change again.
            let config = made("changed");
            let config = change_policy(&config, &of(after, &config), Loss::Refused)
                .unwrap_or_else(|error| panic!("{what}, changed again: {error}"));
            expect_all(&config, &format!("{what}, changed again"));
        }
    }
}

/// A configuration of a cache that does not fit on the flash is refused, and the cache stays.
#[test]
fn a_cache_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let caches = (("face-gsc", "write-back"), ("face-gsc", "write-back"));
    let config = cut_off(folder.path(), caches.0, caches.1, true, false);
    let flash = std::fs::read(&config.flash).unwrap();
    let large = VolumeConfig { slots: 99_968, ..of(("lru", "write-through"), &config) };
    let error = open_volume(&large).err().expect("it does not fit").to_string();
    assert!(error.contains("99968 was asked for"), "{error}");
    assert!(std::fs::read(&config.flash).unwrap() == flash);
    expect_all(&config, "with its own configuration");
}
