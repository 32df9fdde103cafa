//! The C functions in several processes, as in a server: this program starts itself again as a worker or as a
//! client, and kills some of them.

mod cluster;

use cluster::{Cluster, FOLDER, ROLE, Role, error, fork, put, read, serve, stage, stat, wait_for};
use entresol_pg::abi;
use entresol_pg::types::{EntCluster, close, code, flag};
use entresol_runtime::rng::Rng;
use std::fs;
use std::path::{Path, PathBuf};

const BLOCKS: u32 = 3000;
const FIRST: u32 = 100;
/// Most pages of a group.
const GROUP: u32 = 128;
const CLIENTS: u32 = 3;
const ID: u64 = 0x1234_5678;

fn at_start(in_use: bool) -> EntCluster {
    EntCluster { system_identifier: ID, redo: 7, timeline: 1, in_use, ..EntCluster::default() }
}

/// Not a test by itself: what a started process does.
#[test]
fn a_role() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    let cluster = Cluster::at(&folder);
    let mut words = role.split(' ');
    match words.next().unwrap() {
        "worker" => match words.next() {
            Some("later") => worker(&folder, &cluster, &EntCluster { redo: 8, ..at_start(false) }),
            again => worker(&folder, &cluster, &at_start(again.is_some())),
        },
        "client" => client(&folder, &cluster, words.next().unwrap().parse().unwrap()),
        "dies" => {
            assert_eq!(cluster.attach(), code::DONE, "{}", error());
            fs::write(folder.join("dies"), "").unwrap();
            loop {
                put(fork(FIRST + CLIENTS), 0, 2);
            }
        }
        other => panic!("no role {other}"),
    }
}

fn worker(folder: &Path, cluster: &Cluster, start: &EntCluster) {
    assert_eq!(cluster.open(start), code::DONE, "{}", error());
    fs::write(folder.join("open"), "").unwrap();
    let mut drains = false;
    serve(|| {
        drains = folder.join("drain").exists();
        drains || folder.join("close").exists()
    });
    let how = if drains { close::DRAINED } else { close::WARM };
    assert_eq!(abi::ent_worker_close(how, 7), code::DONE, "{}", error());
}

/// Stages, reads and forgets blocks of a relation of its own, and writes down the versions at the end; 0: as
/// on disk.
fn client(folder: &Path, cluster: &Cluster, id: u32) {
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    let fork = fork(FIRST + id);
    let mut rng = Rng::new(id.into());
    let mut versions = vec![0_u64; BLOCKS as usize];
    for step in 2..20_000 {
        let block = rng.below(BLOCKS.into()) as u32;
        let newest = &mut versions[block as usize];
        match (read(fork, block).unwrap(), *newest) {
            (Some(found), 0) => panic!("block {block} is in the cache in version {found}"),
            (Some(found), newest) => assert_eq!(found, newest, "block {block}"),
            (None, 0) => {}
            (None, newest) => assert_eq!(cluster.on_disk(FIRST + id, block), newest, "block {block}"),
        }
        match rng.below(100) {
            0..60 => {
                assert_eq!(put(fork, block, step), code::DONE, "{}", error());
                *newest = step;
            }
            // What the disk has, it may have from us.
            60..64 if *newest == 0 => {
                assert!(stage(fork, block, 1, 0) >= code::DONE, "{}", error());
                *newest = 1;
            }
            64 => {
                assert_eq!(abi::ent_forget(fork, block, 1), code::DONE, "{}", error());
                cluster::rewrite(cluster, FIRST + id, block);
                *newest = 0;
            }
            65 => assert_eq!(abi::ent_flush(fork), code::DONE, "{}", error()),
            66 if step % 8 == 0 => assert_eq!(abi::ent_checkpoint(7, 7), code::DONE, "{}", error()),
            67 if step % 64 == 0 => {
                let from = BLOCKS - rng.below(100) as u32;
                assert_eq!(abi::ent_forget(fork, from, u32::MAX), code::DONE, "{}", error());
                for block in from..BLOCKS {
                    cluster::rewrite(cluster, FIRST + id, block);
                    versions[block as usize] = 0;
                }
            }
            _ => {}
        }
    }
    assert_eq!(abi::ent_checkpoint(7, 7), code::DONE, "{}", error());
    let text: Vec<String> = versions.iter().map(u64::to_string).collect();
    fs::write(folder.join(format!("versions {id}")), text.join("\n")).unwrap();
    let stat = stat();
    assert!(stat.flash_hits > 0 && stat.staging_hits > 0 && stat.destaged > 0, "{stat:?}");
    abi::ent_detach();
}

/// Every client's blocks are as it left them.
fn check_all(cluster: &Cluster, folder: &Path, from_disk: bool) {
    for id in 0..CLIENTS {
        let text = fs::read_to_string(folder.join(format!("versions {id}"))).unwrap();
        for (block, expected) in (0..).zip(text.lines()) {
            let expected: u64 = expected.parse().unwrap();
            let cached = if from_disk { None } else { read(fork(FIRST + id), block).unwrap() };
            let found = cached.unwrap_or_else(|| cluster.on_disk(FIRST + id, block));
            assert_eq!(found, expected.max(1), "relation {id}, block {block}, cached {}", cached.is_some());
        }
    }
}

struct World {
    _folder: tempfile::TempDir,
    folder: PathBuf,
    cluster: Cluster,
}

fn world() -> World {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().to_owned();
    let cluster = Cluster::at(&folder);
    (0..=CLIENTS).for_each(|id| cluster.make(FIRST + id, BLOCKS));
    World { _folder: temporary, folder, cluster }
}

impl World {
    fn start_worker(&self, role: &str) -> Role {
        for name in ["open", "close", "drain"] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        self.cluster.new_memory();
        let worker = Role::start(&self.folder, role);
        wait_for(&self.folder.join("open"));
        worker
    }
}

/// A cluster with a worker, to which this process is attached.
fn serving() -> (Role, World) {
    let world = world();
    let worker = world.start_worker("worker");
    assert_eq!(world.cluster.attach(), code::DONE, "{}", error());
    (worker, world)
}

#[test]
fn what_processes_leave_in_the_cache_survives_the_worker() {
    let world = world();
    let World { folder, cluster, .. } = &world;
    let worker = world.start_worker("worker");
    let clients: Vec<_> = (0..CLIENTS).map(|id| Role::start(folder, &format!("client {id}"))).collect();
    clients.into_iter().for_each(Role::join);
    // As the postmaster does after a crash: all end, and there is new memory.
    worker.kill();
    let worker = world.start_worker("worker again");
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    check_all(cluster, folder, false);
    let before = stat();
    assert!(before.slots_dirty > 0, "{before:?}");
    abi::ent_detach();
    // A drain brings everything to disk.
    fs::write(folder.join("drain"), "").unwrap();
    worker.join();
    check_all(cluster, folder, true);
    // The next open is warm, unless a checkpoint was made without the cache.
    for (role, is_warm) in [("worker", true), ("worker later", false)] {
        let worker = world.start_worker(role);
        assert_eq!(cluster.attach(), code::DONE, "{}", error());
        let stat = stat();
        assert_eq!((stat.slots_valid > 500, stat.slots_dirty), (is_warm, 0), "{stat:?}");
        check_all(cluster, folder, false);
        abi::ent_detach();
        fs::write(folder.join("drain"), "").unwrap();
        worker.join();
    }
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_change_ends_the_worker_or_changes_nothing() {
    let world = world();
    let World { folder, cluster, .. } = &world;
    let worker = world.start_worker("worker");
    let victim = Role::start(folder, "dies");
    wait_for(&folder.join("dies"));
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    victim.kill();
    // Either it held something, and everything ends, or all goes on.
    let goes_on = (2..200).all(|version| put(fork(FIRST), 1, version) == code::DONE);
    let is_gone = !goes_on || abi::ent_checkpoint(7, 7) == code::GONE;
    abi::ent_detach();
    if is_gone {
        assert!(worker.aborts());
    } else {
        fs::write(folder.join("close"), "").unwrap();
        worker.join();
    }
    let worker = world.start_worker("worker again");
    assert_eq!(cluster.attach(), code::DONE, "{}", error());
    let found = read(fork(FIRST), 1).unwrap();
    assert!(is_gone || found == Some(199), "{found:?}");
    abi::ent_detach();
    drop(worker);
}

#[test]
fn a_page_is_newer_until_it_is_destaged() {
    let _serving = serving();
    let (one, two) = (fork(FIRST), fork(FIRST + 1));
    assert_eq!((put(one, 0, 2), stage(one, 1, 1, 0)), (code::DONE, code::DONE));
    let newer = |fork, block| {
        let mut newer = true;
        // SAFETY: it is there.
        #[allow(unsafe_code)]
        let asked = unsafe { abi::ent_is_newer(fork, block, &raw mut newer) };
        assert_eq!(asked, code::DONE);
        newer
    };
    let lsn = |fork, block| {
        let mut lsn = 1;
        // SAFETY: it is there.
        #[allow(unsafe_code)]
        let asked = unsafe { abi::ent_durable_lsn(fork, block, &raw mut lsn) };
        assert_eq!(asked, code::DONE);
        lsn
    };
    assert!(newer(one, 0), "a dirty page");
    // A group that is not full is in memory, even if it was flushed.
    (3..3 + 2 * GROUP).for_each(|block| assert_eq!(put(one, block, 2), code::DONE));
    assert_eq!(abi::ent_flush(one), code::DONE, "{}", error());
    assert_eq!([lsn(one, 0), lsn(one, 1), lsn(two, 0)], [2, 0, 0], "of a dirty page on flash alone");
    assert!(!newer(one, 1), "a clean page");
    assert!(!newer(one, 2) && !newer(two, 0), "neither the page nor its relation is in the cache");
    assert_eq!(abi::ent_destage_all(), code::DONE);
    assert!(!newer(one, 0), "the file has it, too");
    assert_eq!(lsn(one, 0), 0, "it is clean");
    assert_eq!((put(one, 0, 3), abi::ent_forget(one, 0, 1)), (code::DONE, code::DONE));
    assert!(!newer(one, 0), "it is dead");
}

#[test]
fn clean_pages_stay_out_until_what_the_full_table_of_forks_turned_away_is_durable() {
    let _serving = serving();
    let (one, two) = (fork(FIRST), fork(FIRST + 1));
    assert_eq!((put(one, 0, 2), stage(two, 0, 1, 0)), (code::DONE, code::DONE));
    let turned_away = (1000..2000).find(|relation| stage(fork(*relation), 0, 2, flag::DIRTY) != code::DONE);
    assert!(turned_away.is_some(), "the table is never full");
    let mut block = 0;
    let mut clean_enters = || {
        block += 1;
        stage(two, block, 1, 0) == code::DONE
    };
    assert!(!clean_enters());
    for redo in 8..10 {
        assert_eq!(abi::ent_checkpoint(redo - 1, redo), code::DONE, "{}", error());
        assert!(!clean_enters(), "its file may not be synced");
    }
    assert_eq!(abi::ent_checkpoint(9, 10), code::DONE, "{}", error());
    assert!(clean_enters());
    abi::ent_detach();
}

#[test]
fn objects_die_as_a_whole() {
    let (_worker, World { cluster, .. }) = &serving();
    let (one, two) = (fork(FIRST), fork(FIRST + 1));
    for block in 0..20 {
        assert_eq!((put(one, block, 2), put(two, block, 2)), (code::DONE, code::DONE));
    }
    let resident = |fork| {
        let (mut same, mut here) = (0, false);
        // SAFETY: both are there.
        #[allow(unsafe_code)]
        let found = unsafe { abi::ent_residency(fork, 0, 100, false, &raw mut same, &raw mut here) };
        assert_eq!(found, code::DONE);
        (here, same)
    };
    assert_eq!((resident(one), resident(two)), ((true, 20), (true, 20)));
    assert_eq!(abi::ent_forget(one, 5, u32::MAX), code::DONE);
    assert_eq!(resident(one), (true, 5));
    assert_eq!(abi::ent_forget(one, 2, 2), code::DONE);
    assert_eq!((resident(one), read(one, 4).unwrap(), read(one, 3).unwrap()), ((true, 2), Some(2), None));
    assert_eq!(abi::ent_forget_relation(one), code::DONE);
    assert_eq!((resident(one), resident(two)), ((false, 100), (true, 20)));
    let (code, rows) = cluster::relations();
    assert_eq!((code, rows.len()), (code::DONE, 1));
    assert_eq!((rows[0].fork, rows[0].cached, rows[0].dirty, rows[0].staged_dirty), (two, 20, 20, 20));
    // The name may be given again.
    assert_eq!((put(one, 1, 3), read(one, 1).unwrap(), read(one, 4).unwrap()), (code::DONE, Some(3), None));
    let (_, rows) = cluster::relations();
    let row = rows.iter().find(|row| row.fork == one).unwrap();
    assert_eq!((row.cached, row.hits, row.staged_dirty), (1, 1, 1), "a number of its own, or new counts");
    assert_eq!(abi::ent_forget_database(6, 0), code::DONE);
    assert_eq!(abi::ent_forget_database(5, 1664), code::DONE);
    assert_eq!(resident(two), (true, 20));
    assert_eq!(abi::ent_forget_database(5, 1663), code::DONE);
    assert_eq!((resident(one), resident(two)), ((false, 100), (false, 100)));
    assert_eq!(put(two, 1, 4), code::DONE);
    assert_eq!(abi::ent_forget_database(5, 0), code::DONE);
    assert_eq!(resident(two), (false, 100));
    // On request dirty pages go to disk, and stay as clean ones.
    assert_eq!((put(two, 1, 4), put(two, 2, 5)), (code::DONE, code::DONE));
    assert_eq!(abi::ent_destage_database(6), code::DONE);
    let on_disk = || [1, 2].map(|block| cluster.on_disk(FIRST + 1, block));
    assert_eq!(on_disk(), [1, 1]);
    assert_eq!(abi::ent_destage_database(5), code::DONE);
    assert_eq!(on_disk(), [4, 5]);
    let (_, rows) = cluster::relations();
    assert_eq!((rows.len(), rows[0].cached, rows[0].dirty), (1, 2, 0));
    assert_eq!((put(two, 1, 6), abi::ent_destage_all(), on_disk()), (code::DONE, code::DONE, [6, 5]));
    // A page that PostgreSQL has not set up yet is not for the cache: what was there is on disk first.
    assert_eq!(put(two, 1, 7), code::DONE);
    let zeros = cluster::Page([0; cluster::PAGE]);
    // SAFETY: a page.
    #[allow(unsafe_code)]
    let told = unsafe { abi::ent_stage(two, 1, zeros.0.as_ptr().cast(), 0, flag::DIRTY) };
    assert_eq!((told, on_disk(), read(two, 1).unwrap()), (code::DISK_ONLY, [7, 5], None));
    abi::ent_detach();
    assert_eq!(read(two, 1), Err(code::GONE), "not attached");
}
