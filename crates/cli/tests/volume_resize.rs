//! `entresol volume resize` and `replace-flash`: with and without a server, and after a kill in between.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use client::{Client, FLUSH};
use served::{CACHES, DISK_BYTES, ReadCounts, connect, filled, volume, volume_under};
use std::fs::{File, OpenOptions};
use support::{Folder, done, refused};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Pages that are written: more than the smallest cache has room for.
const PAGES: u64 = 2000;

fn slots(folder: &Folder) -> u64 {
    let text = std::fs::read_to_string(folder.at("data.toml")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("slots = ")).unwrap().parse().unwrap()
}

fn status(folder: &Folder) -> serde_json::Value {
    serde_json::from_str(&done(&["volume", "status", &folder.at("data.toml"), "--json"]).0).unwrap()
}

fn write(client: &mut Client, version: u64) {
    for page in 0..PAGES {
        client.write(page * PAGE, &filled(page * 1000 + version, PAGE as usize)).unwrap();
    }
    assert_eq!(client.ask(FLUSH, 0, 0, 0, &[]).unwrap(), 0);
}

fn verify(client: &mut Client, version: u64) {
    for page in 0..PAGES {
        let found = client.read(page * PAGE, PAGE as usize).unwrap();
        assert!(found == filled(page * 1000 + version, PAGE as usize), "page {page}");
    }
}

fn size(folder: &Folder, name: &str) -> u64 {
    std::fs::metadata(folder.path(name)).unwrap().len()
}

/// A volume that was detached has no cache that a resize could change, and gets one with another device.
#[test]
fn a_detached_volume_gets_a_cache_with_another_flash() {
    for (mode, policy) in CACHES {
        let folder = volume_under(mode, policy);
        let config = folder.at("data.toml");
        let server = ReadCounts::start(&folder, &[]);
        let mut client = connect(&folder);
        write(&mut client, 1);
        done(&["volume", "detach", &config]);
        let before = std::fs::read_to_string(&config).unwrap();
        refused(&["volume", "resize", &config, "--flash-size", "12M"], &["there is no cache to change"]);
        assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
        write(&mut client, 2);
        File::create(folder.path("new")).unwrap().set_len(16 * MIB).unwrap();
        done(&["volume", "replace-flash", &config, &folder.at("new")]);
        let now = slots(&folder);
        assert!(now > 0 && status(&folder)["slots"] == now, "{now} slots");
        verify(&mut client, 2);
        write(&mut client, 3);
        server.kill();
        let server = ReadCounts::start(&folder, &[]);
        verify(&mut connect(&folder), 3);
        server.stop();
    }
}

#[test]
fn the_flash_is_resized_and_exchanged_while_clients_continue() {
    for (mode, policy) in CACHES {
        let folder = volume_under(mode, policy);
        let config = folder.at("data.toml");
        let made = slots(&folder);
        let server = ReadCounts::start(&folder, &[]);
        let mut client = connect(&folder);
        write(&mut client, 1);
        done(&["volume", "resize", &config, "--flash-size", "24M"]);
        assert!(slots(&folder) > made * 3 / 2, "{} of {made}", slots(&folder));
        assert_eq!(size(&folder, "flash"), 24 * MIB);
        verify(&mut client, 1);
        write(&mut client, 2);
        done(&["volume", "resize", &config, "--flash-size", "10M"]);
        assert!(slots(&folder) < made, "{} of {made}", slots(&folder));
        assert_eq!(size(&folder, "flash"), 10 * MIB);
        verify(&mut client, 2);
        write(&mut client, 3);
        File::create(folder.path("new")).unwrap().set_len(16 * MIB).unwrap();
        done(&["volume", "replace-flash", &config, &folder.at("new")]);
        assert_eq!(status(&folder)["devices"][1]["path"], folder.at("new"));
        std::fs::remove_file(folder.path("flash")).unwrap();
        verify(&mut client, 3);
        write(&mut client, 4);
        let now = slots(&folder);
        assert_eq!(status(&folder)["slots"], now);
        server.kill();
        let server = ReadCounts::start(&folder, &[]);
        verify(&mut connect(&folder), 4);
        assert_eq!(status(&folder)["slots"], now);
        server.stop();
        let text = std::fs::read_to_string(&config).unwrap();
        assert!(text.contains(&folder.at("new")) && !text.contains("flash_next"), "{text}");
    }
}

#[test]
fn the_flash_is_resized_and_exchanged_without_a_server() {
    for (mode, policy) in CACHES {
        let folder = volume_under(mode, policy);
        let config = folder.at("data.toml");
        let made = slots(&folder);
        let serve = |from: u64, to: u64| {
            let server = ReadCounts::start(&folder, &[]);
            let mut client = connect(&folder);
            if from > 0 {
                verify(&mut client, from);
            }
            write(&mut client, to);
            server.kill();
        };
        serve(0, 1);
        done(&["volume", "resize", &config, "--flash-size", "24M"]);
        assert!(slots(&folder) > made * 3 / 2, "{} of {made}", slots(&folder));
        serve(1, 2);
        File::create(folder.path("new")).unwrap().set_len(16 * MIB).unwrap();
        done(&["volume", "replace-flash", &config, &folder.at("new"), "--flash-size", "10M"]);
        std::fs::remove_file(folder.path("flash")).unwrap();
        assert_eq!(size(&folder, "new"), 10 * MIB);
        serve(2, 3);
        serve(3, 4);
    }
}

/// The configuration names both devices, or the size of before: the label and the flash decide.
#[test]
fn a_kill_in_between_is_no_refusal() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let server = ReadCounts::start(&folder, &[]);
    write(&mut connect(&folder), 1);
    File::create(folder.path("new")).unwrap().set_len(16 * MIB).unwrap();
    let both = format!("{before}\nflash_next = {:?}\n", folder.at("new"));
    // Before the server has done anything.
    folder.file("data.toml", &both);
    server.kill();
    let server = ReadCounts::start(&folder, &[]);
    verify(&mut connect(&folder), 1);
    assert_eq!(status(&folder)["devices"][1]["path"], folder.at("flash"));
    done(&["volume", "replace-flash", &config, &folder.at("new"), "--flash-size", "10M"]);
    let slots_now = slots(&folder);
    write(&mut connect(&folder), 2);
    // When the server has made the new cache, and the configuration is as before.
    folder.file("data.toml", &both);
    server.kill();
    let server = ReadCounts::start(&folder, &[]);
    verify(&mut connect(&folder), 2);
    assert_eq!(status(&folder)["devices"][1]["path"], folder.at("new"));
    assert_eq!(status(&folder)["slots"], slots_now);
    done(&["volume", "replace-flash", &config, &folder.at("new")]);
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(!text.contains("flash_next") && text.contains(&format!("slots = {slots_now}\n")), "{text}");
    verify(&mut connect(&folder), 2);
    server.stop();
}

#[test]
fn a_volume_grows_with_its_disk() {
    for (mode, policy) in CACHES {
        let folder = volume_under(mode, policy);
        let config = folder.at("data.toml");
        let server = ReadCounts::start(&folder, &[]);
        let mut client = connect(&folder);
        write(&mut client, 1);
        // The bytes behind the last whole page are of a whole page afterwards.
        client.write(DISK_BYTES - 512, &filled(7, 512)).unwrap();
        let disk = OpenOptions::new().write(true).open(folder.path("disk")).unwrap();
        let grown = 32 * MIB + 512;
        disk.set_len(grown).unwrap();
        let told = done(&["volume", "resize", &config]).0;
        assert!(told.contains(&format!("{grown} bytes")), "{told}");
        let mut new = connect(&folder);
        assert_eq!((client.bytes, new.bytes), (DISK_BYTES, grown));
        new.write(grown - 8192, &filled(8, 8192)).unwrap();
        client.write(0, &filled(1, 4096)).unwrap();
        // A connection of before has the new range, too: the kernel's driver is told the size by other means.
        client.write(grown - 16384, &filled(9, 4096)).unwrap();
        assert_eq!(new.ask(FLUSH, 0, 0, 0, &[]).unwrap(), 0);
        assert_eq!(new.read(grown - 16384, 4096).unwrap(), filled(9, 4096));
        assert_eq!(new.read(DISK_BYTES - 512, 512).unwrap(), filled(7, 512));
        server.kill();
        let server = ReadCounts::start(&folder, &[]);
        let mut client = connect(&folder);
        assert_eq!(client.read(grown - 8192, 8192).unwrap(), filled(8, 8192));
        assert_eq!(client.read(DISK_BYTES - 512, 512).unwrap(), filled(7, 512));
        assert_eq!(client.read(0, 4096).unwrap(), filled(1, 4096));
        disk.set_len(16 * MIB).unwrap();
        refused(&["volume", "resize", &config], &["has shrunk", "restore its size"]);
        disk.set_len(grown).unwrap();
        drop(client);
        drop(server);
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    folder.file("used", vec![7; 16 << 20]);
    File::create(folder.path("small")).unwrap().set_len(64 << 10).unwrap();
    let check = || {
        let replace = |flash: &str, words: &[&str]| {
            refused(&["volume", "replace-flash", &config, &folder.at(flash)], words);
            assert_eq!(std::fs::read_to_string(&config).unwrap(), before, "{flash}");
        };
        replace("disk", &["is the disk"]);
        replace("missing", &["No such file"]);
        replace("small", &["larger device"]);
        replace("used", &["flash"]);
        refused(&["volume", "resize", &config, "--flash-size", "lots"], &["200G"]);
        refused(&["volume", "resize", &config, "--flash-size", "64K"], &["larger device"]);
        assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
    };
    check();
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    write(&mut client, 1);
    check();
    verify(&mut client, 1);
    server.stop();
}
