use super::*;
use crate::locator::locator_of;
use entresol_device::FileOptions;
use entresol_objects::Locator;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const OBJECT: ObjectId = ObjectId(7);
const FORK: EntFork = EntFork { tablespace: 1663, database: 5, relation: 100, fork: 0 };

/// The name of the one object, until it is dropped.
struct Name(AtomicBool, EntFork);

impl Names for Name {
    fn locator(&self, object: ObjectId) -> Option<Locator> {
        (object == OBJECT && !self.0.load(SeqCst)).then(|| locator_of(&self.1))
    }
}

fn named(fork: EntFork) -> Name {
    Name(AtomicBool::new(false), fork)
}

struct Cluster {
    folder: tempfile::TempDir,
    files: RelationFiles,
    board: &'static Board,
}

/// A cluster with a relation of two pages.
fn cluster() -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("base/5")).unwrap();
    fs::write(folder.path().join("base/5/100"), [1; 2 * PAGE_BYTES]).unwrap();
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::create(65_536) };
    let label = FileDevice::open(folder.path().join("label"), options).unwrap();
    let board: &'static Board = Box::leak(Box::default());
    let folders = Folders { data: folder.path().to_owned(), version: "PG_17".into() };
    Cluster { files: RelationFiles::new(folders, label, board), board, folder }
}

impl Cluster {
    fn write(&self, blocks: &[u32], name: &Name) {
        let data = [2; PAGE_BYTES];
        let pages: Vec<(PageId, &[u8])> =
            blocks.iter().map(|block| (OBJECT.page(*block), &data[..])).collect();
        self.files.write(&pages, name).unwrap();
    }

    fn firsts(&self) -> Vec<u8> {
        let bytes = fs::read(self.folder.path().join("base/5/100")).unwrap();
        bytes.chunks(PAGE_BYTES).map(|page| page[0]).collect()
    }
}

#[test]
fn pages_are_written_in_place_and_synced_once() {
    let cluster = cluster();
    cluster.write(&[0], &named(FORK));
    cluster.write(&[1], &named(FORK));
    assert_eq!(cluster.firsts(), [2, 2]);
    assert_eq!(cluster.files.unsynced.len(), 1, "one file, whatever the number of writes");
    cluster.files.sync().unwrap();
    assert_eq!((cluster.board.file_syncs.get(), cluster.files.unsynced.len()), (1, 0));
    let mut page = [0; PAGE_BYTES];
    cluster.files.read(OBJECT.page(1), &mut page, &named(FORK)).unwrap();
    assert_eq!(page, [2; PAGE_BYTES]);
}

#[test]
fn a_file_never_grows_and_a_removed_one_is_not_made() {
    let cluster = cluster();
    cluster.write(&[1, 2], &named(FORK));
    assert_eq!(cluster.firsts(), [1, 2]);
    assert_eq!(cluster.board.past_end.get(), 1);
    let gone = EntFork { relation: 101, ..FORK };
    cluster.write(&[0], &named(gone));
    assert!(!cluster.folder.path().join("base/5/101").exists());
    assert_eq!(cluster.board.no_file.get(), 1);
    // The second segment of the fork.
    cluster.write(&[SEGMENT_BLOCKS], &named(FORK));
    assert_eq!(cluster.board.no_file.get(), 2);
}

#[test]
fn a_dropped_relation_is_not_written() {
    let cluster = cluster();
    let name = named(FORK);
    name.0.store(true, SeqCst);
    cluster.write(&[0, 1], &name);
    assert_eq!(cluster.firsts(), [1, 1]);
}

#[test]
fn a_new_file_of_the_same_name_is_not_taken_for_the_old_one() {
    let cluster = cluster();
    cluster.write(&[0], &named(FORK));
    let path = cluster.folder.path().join("base/5/100");
    fs::remove_file(&path).unwrap();
    fs::write(&path, [3; PAGE_BYTES]).unwrap();
    cluster.write(&[0], &named(FORK));
    assert_eq!(cluster.firsts(), [2]);
    assert_eq!(cluster.files.unsynced.len(), 2);
}

#[test]
fn a_write_waits_for_its_tablespace_until_the_relation_is_dropped() {
    let cluster = cluster();
    let name = named(EntFork { tablespace: 16_400, ..FORK });
    std::thread::scope(|scope| {
        scope.spawn(|| cluster.write(&[0], &name));
        while cluster.board.space_waits.get() == 0 {
            std::thread::yield_now();
        }
        name.0.store(true, SeqCst);
    });
    assert_eq!(cluster.board.no_file.get(), 0);
    // And of one that is mounted meanwhile.
    let name = named(EntFork { tablespace: 16_401, ..FORK });
    let folder = cluster.folder.path().join("pg_tblspc/16401/PG_17/5");
    std::thread::scope(|scope| {
        let waits = cluster.board.space_waits.get();
        scope.spawn(|| cluster.write(&[0], &name));
        while cluster.board.space_waits.get() == waits {
            std::thread::yield_now();
        }
        let elsewhere = cluster.folder.path().join("mounted");
        fs::create_dir_all(elsewhere.join("PG_17/5")).unwrap();
        fs::write(elsewhere.join("PG_17/5/100"), [1; PAGE_BYTES]).unwrap();
        fs::create_dir_all(cluster.folder.path().join("pg_tblspc")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, cluster.folder.path().join("pg_tblspc/16401")).unwrap();
    });
    assert_eq!(fs::read(folder.join("100")).unwrap()[0], 2);
}

#[test]
fn many_files_are_synced_before_too_many_are_open() {
    let cluster = cluster();
    let options = |relation: u32| named(EntFork { relation, ..FORK });
    for relation in 1000..1000 + UNSYNCED_MAX as u32 + 1 {
        fs::write(cluster.folder.path().join(format!("base/5/{relation}")), [1; PAGE_BYTES]).unwrap();
        cluster.write(&[0], &options(relation));
    }
    assert_eq!(cluster.files.unsynced.len(), 0);
    assert_eq!(cluster.board.file_syncs.get(), UNSYNCED_MAX as u64 + 1);
}
