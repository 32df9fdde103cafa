//! Clients with many requests under way, over real sockets and files, while the ring of the flash turns:
//! slots are overwritten while reads of them are under way.

#[path = "support/client.rs"]
mod client;

use client::{Client, READ, WRITE};
use entresol_block::{CacheOptions, Server, ServerOptions, Volume, VolumeConfig};
use entresol_core::{Mode, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{FragmentOptions, TierOptions, flash_bytes};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::rng::Rng;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 4096;
const PAGES: u64 = 384;
const SLOTS: u32 = 256;
const CLIENTS: u64 = 3;
const DEPTH: usize = 32;
const REQUESTS: u64 = 2500;

/// Two pages, in a version of theirs: no two versions of a page share bytes.
fn filled(first: u64, version: u32) -> Vec<u8> {
    let words = (0..2 * PAGE / 8).map(|at| (u64::from(version) << 32 | first << 16 | at).to_le_bytes());
    if version == 0 { vec![0; 2 * PAGE as usize] } else { words.flatten().collect() }
}

/// A ring that turns. It takes what is written.
fn ring() -> CacheOptions {
    let options = TierOptions {
        page_format: PageFormat::Raw,
        mode: Mode::WriteBack,
        group_pages: 8,
        staging_groups: 4,
        ..TierOptions::new(PolicyKind::FaceGsc, SLOTS)
    };
    options.into()
}

/// Fragments that come and go. Reads bring them in. The proofs of a quarter are in memory.
fn fragments() -> CacheOptions {
    let usual = FragmentOptions::of_pages(SLOTS, PAGE as u32, PageFormat::Raw);
    FragmentOptions { pace_permille: 1000, proofs_kept: SLOTS / 8 / 4, ..usual.with_fragments(8, SLOTS / 8) }
        .into()
}

fn serve(folder: &Path, direct: bool, options: CacheOptions) -> Server {
    let device = |name: &str, bytes: u64| -> Arc<dyn Device> {
        let options = FileOptions { is_direct_wanted: direct, ..FileOptions::create(bytes) };
        Arc::new(FileDevice::open(folder.join(name), options).unwrap())
    };
    let bytes = match &options {
        CacheOptions::Pages(options) => flash_bytes(options),
        CacheOptions::Fragments(options) => options.flash_bytes(),
    };
    let flash = device("flash", bytes);
    let label = device("label", LABEL_FILE_BYTES);
    let volume = Volume::create(device("disk", PAGES * PAGE), label, flash, options).unwrap();
    let config = VolumeConfig { socket: folder.join("socket"), ..VolumeConfig::usual("write-through") };
    Server::start(volume, ServerOptions { name: String::new(), ..ServerOptions::of(&config) }).unwrap()
}

/// Reads and writes pairs of pages of its own, with one request of a pair under way at a time.
fn client(socket: &Path, me: u64) {
    let mut client = Client::connect(socket).unwrap();
    let mut rng = Rng::new(me);
    let mut versions = vec![0u32; (PAGES / 2) as usize];
    let mut under_way: HashMap<u64, (u64, bool)> = HashMap::new();
    let mut sent = 0;
    while sent < REQUESTS || !under_way.is_empty() {
        while sent < REQUESTS && under_way.len() < DEPTH {
            let pair = rng.below(PAGES / 2 / CLIENTS) * CLIENTS + me;
            if under_way.values().any(|(other, _)| *other == pair) {
                break;
            }
            let (offset, length) = (pair * 2 * PAGE, 2 * PAGE as u32);
            let writes = rng.below(4) == 0;
            let cookie = if writes {
                versions[pair as usize] += 1;
                client.send(WRITE, 0, offset, length, &filled(pair, versions[pair as usize]))
            } else {
                client.send(READ, 0, offset, length, &[])
            };
            under_way.insert(cookie.unwrap(), (pair, writes));
            sent += 1;
        }
        let (error, cookie) = client.reply().unwrap();
        let (pair, writes) = under_way.remove(&cookie).expect("one of those that were sent");
        assert_eq!(error, 0);
        if !writes {
            let mut found = vec![0; 2 * PAGE as usize];
            client.stream.read_exact(&mut found).unwrap();
            let expected = filled(pair, versions[pair as usize]);
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(found == expected, "pair {pair}: {:#x}, expected {:#x}", word(&found), word(&expected));
        }
    }
}

#[test]
fn hits_under_way_are_the_newest_versions() {
    for (direct, options) in [(false, ring()), (true, ring()), (false, fragments()), (true, fragments())] {
        let folder = tempfile::tempdir().unwrap();
        let is_ring = matches!(options, CacheOptions::Pages(_));
        let server = serve(folder.path(), direct, options);
        let socket = folder.path().join("socket");
        std::thread::scope(|scope| {
            for me in 0..CLIENTS {
                let socket = &socket;
                scope.spawn(move || client(socket, me));
            }
        });
        let status = server.volume().status();
        let least = if is_ring { REQUESTS / 2 } else { REQUESTS / 4 };
        assert!(status.flash_hits > least, "many are read from flash: {status:?}");
        server.stop().unwrap();
    }
}

/// A client that sends half of a write, and reads before it, has the reply of the read.
#[test]
fn a_read_is_answered_while_the_data_of_a_write_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), true, ring());
    let socket = folder.path().join("socket");
    let mut client = Client::connect(&socket).unwrap();
    (0..8).for_each(|pair| client.write(pair * 2 * PAGE, &filled(pair, 1)).unwrap());
    client.flush().unwrap();
    for round in 0..50 {
        let reads: Vec<_> =
            (0..4).map(|pair| client.send(READ, 0, pair * 2 * PAGE, 8192, &[]).unwrap()).collect();
        let data = filled(7, round + 2);
        let write = client.send(WRITE, 0, 14 * PAGE, 8192, &data[..100]).unwrap();
        for _ in &reads {
            let (error, cookie) = client.reply().unwrap();
            let pair = reads.iter().position(|read| *read == cookie).expect("a read") as u64;
            let mut found = vec![0; 8192];
            client.stream.read_exact(&mut found).unwrap();
            assert!(error == 0 && found == filled(pair, 1));
        }
        std::io::Write::write_all(&mut client.stream, &data[100..]).unwrap();
        assert_eq!(client.reply().unwrap(), (0, write));
    }
    drop(client);
    server.stop().unwrap();
}
