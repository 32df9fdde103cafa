//! Blocks that the server reads by itself, where they were located: what is on flash is proved, in a process
//! that is not attached, too. What has left its place meanwhile is not.

mod cluster;

use cluster::{Cluster, FOLDER, PAGE, Page, ROLE, Role, error, fork, put, read, serve, stat, wait_for};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, EntPlace, close, code, place};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const RELATION: u32 = 100;
/// More than fit on flash.
const BLOCKS: u32 = 6000;
/// Written first.
const EARLY: u32 = 64;

/// Not a test by itself: what a started process does.
#[test]
fn a_role() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    if role == "worker" {
        let start = EntCluster { system_identifier: 1, redo: 7, timeline: 1, ..EntCluster::default() };
        assert_eq!(Cluster::at(&folder).open(&start), code::DONE, "{}", error());
        fs::write(folder.join("open"), "").unwrap();
        serve(|| folder.join("close").exists());
        assert_eq!(abi::ent_worker_close(close::WARM, 7), code::DONE, "{}", error());
        return;
    }
    // As an I/O worker: it has the places alone, and is attached to nothing.
    let flash = File::open(folder.join("flash")).unwrap();
    for line in fs::read_to_string(folder.join("places")).unwrap().lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [block, object, offset, stamp] = words[..] else { panic!("{line}") };
        let mut page = read_at(&flash, offset);
        assert!(proves(&mut page, object as u32, block as u32, stamp), "block {block}");
        assert_eq!(page.version(block as u32), 2);
    }
}

fn read_at(flash: &File, offset: u64) -> Page {
    let mut page = Page([0; PAGE]);
    flash.read_exact_at(&mut page.0, offset).unwrap();
    page
}

#[allow(unsafe_code)]
fn proves(page: &mut Page, object: u32, block: u32, stamp: u64) -> bool {
    // SAFETY: a page of this process.
    unsafe { abi::ent_prove(object, block, stamp, false, page.0.as_mut_ptr().cast()) }
}

#[allow(unsafe_code)]
fn locate(block: u32, n: u32, reads: bool) -> EntPlace {
    let mut found = EntPlace::default();
    // SAFETY: it is there.
    let code = unsafe { abi::ent_locate(fork(RELATION), block, n, reads, &raw mut found) };
    assert_eq!(code, code::DONE, "{}", error());
    found
}

/// The places of the early blocks, each of which is proved where it is, and nowhere else.
fn places(folder: &Path) -> Vec<(u32, EntPlace)> {
    let flash = File::open(folder.join("flash")).unwrap();
    let (mut found, mut block) = (Vec::new(), 0);
    while block < EARLY {
        let at = locate(block, EARLY - block, true);
        assert_eq!(at.at, place::FLASH, "block {block}");
        assert!(at.descriptor >= 0);
        for next in 0..at.blocks {
            let (offset, stamp) = (at.offset + u64::from(next) * PAGE as u64, at.stamp + u64::from(next));
            let mut page = read_at(&flash, offset);
            for (object, other, stamp) in [
                (at.object + 1, block + next, stamp),
                (at.object, block + next + 1, stamp),
                (at.object, block + next, stamp + 1),
            ] {
                assert!(!proves(&mut page, object, other, stamp), "block {block} and {next}");
            }
            assert!(proves(&mut page, at.object, block + next, stamp), "block {block} and {next}");
            assert_eq!(page.version(block + next), 2);
            found.push((block + next, EntPlace { offset, stamp, blocks: 1, ..at }));
        }
        block += at.blocks;
    }
    found
}

#[test]
fn what_is_read_where_it_was_located_is_proved_or_looked_up_anew() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let cluster = Cluster::at(folder);
    cluster.make(RELATION, BLOCKS);
    cluster.new_memory();
    let worker = Role::start(folder, "worker");
    wait_for(&folder.join("open"));
    assert_eq!(cluster.attach(), code::DONE, "{}", error());

    let absent = locate(0, 10, true);
    assert_eq!((absent.at, absent.blocks), (place::DISK, 10));
    assert_eq!(put(fork(RELATION), 0, 2), code::DONE, "{}", error());
    let staged = locate(0, 10, true);
    assert_eq!((staged.at, staged.blocks), (place::AT_HAND, 1), "it is in memory still");
    for block in 1..EARLY {
        assert_eq!(put(fork(RELATION), block, 2), code::DONE, "{}", error());
    }
    assert_eq!(abi::ent_checkpoint(7, 7), code::DONE, "{}", error());

    let (before, hint) = (stat(), locate(0, EARLY, false));
    assert_eq!(hint.at, place::FLASH);
    assert_eq!(stat().flash_hits, before.flash_hits, "a hint does not count");
    let early = places(folder);
    assert_eq!(stat().flash_hits, before.flash_hits + u64::from(EARLY));
    assert!(hint.blocks > EARLY / 2, "blocks that were staged in order are next to each other: {hint:?}");
    let lines = early.iter().map(|(block, at)| format!("{block} {} {} {}", at.object, at.offset, at.stamp));
    fs::write(folder.join("places"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    Role::start(folder, "reader").join();

    // What could not be proved is at hand, once.
    assert_eq!(abi::ent_reject(fork(RELATION), 3), code::DONE, "{}", error());
    assert_eq!(locate(3, 1, false).at, place::FLASH, "a hint says nothing of that");
    assert_eq!(locate(3, 2, true), EntPlace { at: place::AT_HAND, blocks: 1, ..EntPlace::default() });
    assert_eq!(locate(3, 1, true).at, place::FLASH);
    assert_eq!((stat().async_hits, stat().async_rejected), (u64::from(EARLY) + 1, 1));

    // The slots are given to other pages while they are read.
    for block in EARLY..BLOCKS {
        assert_eq!(put(fork(RELATION), block, 3), code::DONE, "{}", error());
    }
    assert_eq!(abi::ent_checkpoint(7, 7), code::DONE, "{}", error());
    let flash = File::open(folder.join("flash")).unwrap();
    let mut gone = 0;
    for (block, at) in early {
        gone += u32::from(!proves(&mut read_at(&flash, at.offset), at.object, block, at.stamp));
        let found = read(fork(RELATION), block).unwrap().unwrap_or_else(|| cluster.on_disk(RELATION, block));
        assert_eq!(found, 2, "block {block}");
    }
    assert_eq!(gone, EARLY, "the ring has turned: this is tested");
    abi::ent_detach();
    fs::write(folder.join("close"), "").unwrap();
    worker.join();
}
