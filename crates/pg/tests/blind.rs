//! A process that cannot open the flash, neither by the worker's descriptor nor by its path, though the
//! worker can: what is clean is read from its file, what is dirty is an error, and nothing is asked for again
//! and again.

mod cluster;

use cluster::{Cluster, FOLDER, ROLE, Role, error, fork, put, read, serve, stage, wait_for};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, EntFork, close, code};
use std::fs;
use std::path::PathBuf;

const CLEAN: u32 = 100;
const DIRTY: u32 = 101;
const BLOCKS: u32 = 300;

/// Not a test by itself: what a started process does.
#[test]
fn a_role() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    let cluster = Cluster::at(&folder);
    if role == "worker" {
        let start = EntCluster { system_identifier: 1, redo: 7, timeline: 1, ..EntCluster::default() };
        assert_eq!(cluster.open(&start), code::DONE, "{}", error());
        fs::write(folder.join("open"), "").unwrap();
        serve(|| folder.join("close").exists());
        assert_eq!(abi::ent_worker_close(close::WARM, 7), code::DONE, "{}", error());
        return;
    }
    let nothing = folder.join("nothing");
    fs::create_dir(&nothing).unwrap();
    let attached = cluster.attach_after(|| rustix::process::chroot(&nothing).unwrap());
    assert_eq!(attached, code::DONE, "{}", error());
    for block in 0..BLOCKS {
        // As the server does: a block that is not read is asked for, and then read from its file.
        assert_eq!(read(fork(CLEAN), block), Ok(None), "block {block}");
        assert!(!is_here(fork(CLEAN), block), "block {block}: the server would ask again");
        assert!(is_here(fork(DIRTY), block), "block {block}");
        assert_eq!(read(fork(DIRTY), block), Err(code::DAMAGED), "block {block}");
    }
    abi::ent_detach();
}

fn is_here(fork: EntFork, block: u32) -> bool {
    let (mut same, mut here) = (0, false);
    // SAFETY: both are there.
    #[allow(unsafe_code)]
    let code = unsafe { abi::ent_residency(fork, block, 1, true, &raw mut same, &raw mut here) };
    assert_eq!((code, same), (code::DONE, 1), "{}", error());
    here
}

#[test]
fn a_process_without_the_flash_reads_files_and_does_not_ask_for_ever() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can hide the flash from a process");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let cluster = Cluster::at(folder);
    [CLEAN, DIRTY].iter().for_each(|relation| cluster.make(*relation, BLOCKS));
    cluster.new_memory();
    let worker = Role::start(folder, "worker");
    wait_for(&folder.join("open"));
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    for block in 0..BLOCKS {
        while stage(fork(CLEAN), block, 1, 0) != code::DONE {}
        assert_eq!(put(fork(DIRTY), block, 2), code::DONE, "{}", error());
    }
    // From memory to flash.
    assert_eq!(abi::ent_checkpoint(7, 7), code::DONE, "{}", error());
    Role::start(folder, "blind").join();
    // The others read the flash as before, and its path is not needed for that.
    abi::ent_detach();
    fs::remove_file(folder.join("flash")).unwrap();
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    for block in 0..BLOCKS {
        assert_eq!((read(fork(CLEAN), block), read(fork(DIRTY), block)), (Ok(Some(1)), Ok(Some(2))));
    }
    abi::ent_detach();
    fs::write(folder.join("close"), "").unwrap();
    worker.join();
}
