//! A budget of writes to flash that is spent: clean pages stay out, and dirty pages go to their files, the
//! older versions in the cache first.

mod cluster;

use cluster::{Cluster, FOLDER, ROLE, Role, error, fork, put, read, serve, stage, stat, wait_for};
use entresol_pg::types::{EntCluster, code};
use std::fs;
use std::path::PathBuf;

const RELATION: u32 = 100;
const BLOCKS: u32 = 3000;
/// The bucket holds an hour's worth of it: 341 pages.
const WRITES_PER_DAY: &str = "64M";

/// Not a test by itself: the worker.
#[test]
fn a_role() {
    let (Ok(_), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    let cluster = EntCluster { system_identifier: 1, redo: 7, timeline: 1, ..EntCluster::default() };
    assert_eq!(Cluster::thrifty(&folder, WRITES_PER_DAY).open(&cluster), code::DONE, "{}", error());
    fs::write(folder.join("open"), "").unwrap();
    serve(|| false);
}

#[test]
fn a_spent_budget_sends_pages_to_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::thrifty(folder.path(), WRITES_PER_DAY);
    cluster.make(RELATION, BLOCKS);
    cluster.new_memory();
    let _worker = Role::start(folder.path(), "worker");
    wait_for(&folder.path().join("open"));
    assert_eq!(cluster.attach(), code::DONE, "{}", error());

    let one = fork(RELATION);
    let (mut last, mut rounds) = (0, 0);
    while rounds < 100 * BLOCKS && put(one, last, 2) == code::DONE {
        last = (last + 1) % BLOCKS;
        rounds += 1;
    }
    assert!(rounds > 341 && rounds < 100 * BLOCKS, "what the bucket holds may be written: {rounds}");
    let before = stat();
    assert_eq!(stage(one, (last + 1) % BLOCKS, 1, 0), code::DISK_ONLY, "a clean page stays out");
    let some = (0..BLOCKS).find(|block| read(one, *block).unwrap() == Some(2)).expect("some are there");
    assert_eq!(put(one, some, 3), code::DISK_ONLY);
    assert_eq!(read(one, some).unwrap(), None, "the older version has left the cache");
    assert_eq!(cluster.on_disk(RELATION, some), 2, "and is on disk, durably, before it is overwritten");
    let after = stat();
    assert_eq!(after.over_budget - before.over_budget, 2);
    assert!(after.disk_only >= before.disk_only);
    assert!(after.flash_write_bytes > 341 * 8192, "{after:?}");
}
