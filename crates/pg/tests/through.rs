//! Write-through: what power failures leave between files, which the server syncs when a checkpoint ends, and
//! the flash, which is durable when it begins.

mod cluster;

use cluster::{Cluster, FOLDER, ROLE, Role, error, fork, read, rewrite, serve, stage, stat, wait_for, write};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, close, code, flag};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const RELATION: u32 = 100;
const BLOCKS: u32 = 100;

fn at_start(redo: u64) -> EntCluster {
    EntCluster { system_identifier: 1, redo, timeline: 1, ..EntCluster::default() }
}

/// Not a test by itself: the worker, of a cluster that begins redo at the place that the role names.
#[test]
fn a_role() {
    let (Ok(redo), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    let opened = Cluster::through(&folder).open(&at_start(redo.parse().unwrap()));
    assert_eq!(opened, code::DONE, "{}", error());
    fs::write(folder.join("open"), "").unwrap();
    serve(|| folder.join("close").exists());
    let redo = fs::read_to_string(folder.join("close")).unwrap().parse().unwrap();
    assert_eq!(abi::ent_worker_close(close::WARM, redo), code::DONE, "{}", error());
}

/// A server that has begun redo there.
fn start(folder: &Path, cluster: &Cluster, redo: u64) -> Role {
    for name in ["open", "close"] {
        let _ = fs::remove_file(folder.join(name));
    }
    cluster.new_memory();
    let worker = Role::start(folder, &redo.to_string());
    wait_for(&folder.join("open"));
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    worker
}

/// Writes blocks as the server does.
fn write_through(cluster: &Cluster, blocks: Range<u32>, version: u64) {
    for block in blocks {
        assert_eq!(abi::ent_forget(fork(RELATION), block, 1), code::DONE, "{}", error());
        write(cluster, RELATION, block, version);
        assert_eq!(stage(fork(RELATION), block, version, flag::THROUGH), code::DONE, "{}", error());
    }
}

/// Power fails: the cache is left as it is, and the files lose everything.
fn power_fails(cluster: &Cluster, worker: Role) {
    abi::ent_detach();
    worker.kill();
    (0..BLOCKS).for_each(|block| rewrite(cluster, RELATION, block));
}

fn on_disk(cluster: &Cluster, blocks: Range<u32>) -> Vec<u64> {
    let mut versions: Vec<_> = blocks.map(|block| cluster.on_disk(RELATION, block)).collect();
    versions.dedup();
    versions
}

fn cached(blocks: Range<u32>) -> Vec<Option<u64>> {
    let mut versions: Vec<_> = blocks.map(|block| read(fork(RELATION), block).unwrap()).collect();
    versions.dedup();
    versions
}

#[test]
fn what_the_files_may_lack_is_written_to_them_when_the_cache_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cluster = Cluster::through(folder);
    cluster.make(RELATION, BLOCKS);

    // In the middle of checkpoint 8: what it began with is durable on flash, and no file is synced.
    let worker = start(folder, &cluster, 7);
    write_through(&cluster, 0..10, 2);
    assert_eq!(abi::ent_checkpoint(7, 8), code::DONE, "{}", error());
    power_fails(&cluster, worker);
    let worker = start(folder, &cluster, 7);
    assert_eq!(on_disk(&cluster, 0..10), [2], "redo will find these pages up to date");
    assert_eq!((cached(0..10), cached(10..20)), (vec![Some(2)], vec![None]));

    // In the middle of checkpoint 9. What was there when 8 began is in the files: 8 is complete.
    write_through(&cluster, 10..20, 3);
    assert_eq!(abi::ent_checkpoint(7, 8), code::DONE, "{}", error());
    write_through(&cluster, 20..30, 4);
    assert_eq!(abi::ent_checkpoint(8, 9), code::DONE, "{}", error());
    power_fails(&cluster, worker);
    let worker = start(folder, &cluster, 8);
    assert_eq!(on_disk(&cluster, 20..30), [4]);
    assert_eq!(on_disk(&cluster, 10..20), [1], "nothing is written that is known to be there");
    assert_eq!(cached(10..30), [Some(3), Some(4)]);
    assert_eq!(stat().slots_dirty, 0);

    // After a shutdown everything is in the files, and warm.
    (0..30).for_each(|block| write(&cluster, RELATION, block, 5));
    assert_eq!(abi::ent_forget(fork(RELATION), 0, 30), code::DONE);
    write_through(&cluster, 30..40, 6);
    assert_eq!(abi::ent_checkpoint(8, 10), code::DONE, "{}", error());
    abi::ent_detach();
    fs::write(folder.join("close.new"), "10").unwrap();
    fs::rename(folder.join("close.new"), folder.join("close")).unwrap();
    worker.join();
    (30..40).for_each(|block| rewrite(&cluster, RELATION, block));
    let worker = start(folder, &cluster, 10);
    assert_eq!((on_disk(&cluster, 30..40), cached(0..40)), (vec![1], vec![None, Some(6)]));

    // Files that went on without the flash, and a flash that is lost.
    power_fails(&cluster, worker);
    let worker = start(folder, &cluster, 11);
    assert_eq!((stat().slots_valid, cached(0..BLOCKS)), (0, vec![None]));
    write_through(&cluster, 0..10, 7);
    power_fails(&cluster, worker);
    fs::remove_file(folder.join("flash")).unwrap();
    let worker = start(folder, &cluster, 11);
    assert_eq!((stat().slots_valid, cached(0..BLOCKS)), (0, vec![None]));
    abi::ent_detach();
    drop(worker);
}
