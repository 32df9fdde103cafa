//! A volume whose owner allows it goes on under another policy when the shadows of its cache advise that:
//! with all of its pages, those newer than disk among them.

use entresol_block::{Volume, VolumeConfig, create_volume, open_volume};
use entresol_nbd::Command;
use std::path::Path;

const PAGE: u64 = 4096;
/// Enough for shadows.
const SLOTS: u64 = 262_144;
/// Pages that are read round and round: `face-gsc` has dequeued each before it is read again.
const PAGES: u64 = SLOTS * 4 / 3;
/// One page of so many is written before, and is newer than disk.
const WRITTEN: u64 = 512;

fn served(folder: &Path, switch_policy: bool) -> VolumeConfig {
    let at = |name: &str| folder.join(name);
    for (name, pages) in [("disk", PAGES), ("flash", SLOTS + SLOTS / 16)] {
        std::fs::File::create(at(name)).unwrap().set_len(pages * PAGE).unwrap();
    }
    let config: VolumeConfig = serde_json::from_value(serde_json::json!({
        "name": "data", "disk": at("disk"), "flash": at("flash"), "label": at("label"), "socket": at("socket"),
        "journal": at("journal"), "journal_bytes": 16 << 20, "hits_to_disk": false,
        "cache": true, "mode": "write-back", "policy": "face-gsc", "page_bytes": PAGE, "slots": 0,
        "direct_io": false, "read_only": false, "workers": 1, "connections_max": 1, "requests_max": 1,
        "in_flight_bytes_max": 64 << 20, "handshake_seconds_max": 1, "transfer_seconds_max": 1,
        "switch_policy": switch_policy,
    }))
    .unwrap();
    create_volume(&config, false).unwrap()
}

fn content(page: u64, round: u64) -> Vec<u8> {
    [page, round].map(u64::to_le_bytes).concat().repeat(PAGE as usize / 16)
}

/// Reads all pages and checks them, of which some were written in `round`; then writes those again.
fn read_and_write(volume: &Volume, round: u64) {
    let mut data = vec![0; PAGE as usize];
    let length = PAGE as u32;
    for page in 0..PAGES {
        let offset = page * PAGE;
        volume.carry_out(Command::Read { offset, length, whole: false }, false, &mut data).unwrap();
        let is_written = page.is_multiple_of(WRITTEN);
        let expected = if is_written && round > 0 { content(page, round) } else { vec![0; PAGE as usize] };
        assert!(data == expected, "page {page} in round {round}");
        if is_written {
            let mut data = content(page, round + 1);
            volume.carry_out(Command::Write { offset, length, fua: false }, false, &mut data).unwrap();
        }
    }
}

#[test]
#[ignore = "writes ten gigabytes: cargo test --release -p entresol-block --test switching -- --ignored"]
fn the_policy_changes_when_shadows_advise_it_and_nothing_is_lost() {
    for is_allowed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let config = served(folder.path(), is_allowed);
        let (volume, _) = open_volume(&config).unwrap();
        let mut round = 0;
        // Where flash is busy, pages that are read do not enter for a while, and shadows learn nothing.
        let rounds = if is_allowed { 40 } else { 10 };
        while round < rounds && volume.status().policy.as_deref() == Some("face-gsc") {
            read_and_write(&volume, round);
            round += 1;
        }
        let status = volume.status();
        println!("after {round} rounds: {:?}, {:?}", status.switched, status.forecast);
        assert_eq!(status.policy.as_deref(), Some(if is_allowed { "reuse" } else { "face-gsc" }));
        assert_eq!((status.switches_policy, status.switched.is_some()), (is_allowed, is_allowed));
        if is_allowed {
            assert!(status.switched.unwrap().contains("to reuse: of the last"));
            assert!(status.pages > SLOTS * 8 / 10, "it is as warm as before: {} pages", status.pages);
            let before = volume.status().flash_hits;
            read_and_write(&volume, round);
            let hits = volume.status().flash_hits - before;
            assert!(hits > PAGES / 20, "it hits now: {hits}");
            round += 1;
        }
        volume.close().unwrap();
        drop(volume);
        // The next server begins with the policy of the configuration, and finds all pages.
        let (volume, _) = open_volume(&config).unwrap();
        assert_eq!(volume.status().policy.as_deref(), Some("face-gsc"));
        assert!(volume.status().pages > SLOTS * 8 / 10, "{} pages", volume.status().pages);
        read_and_write(&volume, round);
        volume.close().unwrap();
    }
}
