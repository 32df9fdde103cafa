//! A volume in write-back that is idle: its dirty pages are on the disk soon, and its journal is empty. Then
//! a kill and a loss of the flash lose nothing. In write-through they never do.

#[path = "../../block/tests/support/client.rs"]
mod client;
#[path = "support/served.rs"]
mod served;
mod support;

use served::{ReadCounts, connect, filled, volume};
use std::time::Duration;
use support::{Folder, done};

const PAGE: u64 = 4096;
const PAGES: u64 = 300;
/// Patience with a busy machine: a minute.
const LOOKS_MAX: u32 = 1200;

fn status(folder: &Folder) -> serde_json::Value {
    serde_json::from_str(&done(&["volume", "status", &folder.at("data.toml"), "--json"]).0).unwrap()
}

#[test]
fn an_idle_volume_needs_neither_its_flash_nor_its_journal() {
    let folder = volume("write-back");
    let config = folder.at("data.toml");
    done(&["volume", "set", &config, "dirty-age-seconds", "60"]);
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    // Without a flush.
    (0..PAGES).for_each(|page| client.write(page * PAGE, &filled(page, PAGE as usize)).unwrap());
    let is_needed = |status: &serde_json::Value| {
        status["lost_without_flash_bytes"] != 0 || status["journal"]["used_bytes"] != 0
    };
    let mut looks = 0;
    while is_needed(&status(&folder)) {
        looks += 1;
        assert!(looks < LOOKS_MAX, "{}", status(&folder));
        std::thread::sleep(Duration::from_millis(50));
    }
    server.kill();
    std::fs::remove_file(folder.path("flash")).unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    folder.file("data.toml", text.replace("cache = true", "cache = false"));
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    for page in 0..PAGES {
        assert_eq!(client.read(page * PAGE, PAGE as usize).unwrap(), filled(page, PAGE as usize), "{page}");
    }
    server.stop();
}

/// The server is killed after a flush, and the flash is lost: the disk serves with `cache = false`.
#[test]
fn a_write_through_volume_needs_no_flash_of_before() {
    let folder = volume("write-through");
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    (0..PAGES).for_each(|page| client.write(page * PAGE, &filled(page, PAGE as usize)).unwrap());
    client.flush().unwrap();
    server.kill();
    std::fs::remove_file(folder.path("flash")).unwrap();
    let config = folder.at("data.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    folder.file("data.toml", text.replace("cache = true", "cache = false"));
    let server = ReadCounts::start(&folder, &[]);
    let mut client = connect(&folder);
    for page in 0..PAGES {
        assert_eq!(client.read(page * PAGE, PAGE as usize).unwrap(), filled(page, PAGE as usize), "{page}");
    }
    server.stop();
}
