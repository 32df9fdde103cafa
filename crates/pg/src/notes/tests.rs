use super::*;
use crate::types::EntFork;
use std::sync::atomic::AtomicBool;

const FORK: EntFork = EntFork { tablespace: 1663, database: 5, relation: 100, fork: 0 };
const OTHER: EntFork = EntFork { relation: 101, ..FORK };

struct World {
    folder: tempfile::TempDir,
    board: &'static NotesBoard,
    notes: Notes,
    noted: Noted,
}

/// Notes that are taken since redo was over; the last checkpoint began at 10.
fn new_world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let board: &'static NotesBoard = Box::leak(Box::default());
    board.checkpoint(0, 10);
    let notes = Notes::new(folder.path().to_owned(), board);
    notes.begin();
    World { folder, board, notes, noted: Noted::default() }
}

impl World {
    /// A page of [`FORK`] is written.
    fn write(&self, block: u32, lsn: u64) {
        let number = self.notes.number(Some(&self.noted));
        self.notes.written(vec![Note { fork: FORK, block, lsn }], number);
    }

    fn sync(&self) {
        self.notes.synced(|| Ok::<_, ()>(())).unwrap();
    }

    fn overwrite(&self) {
        make_void(self.folder.path(), self.board, &self.noted).unwrap();
    }

    /// The notes for a redo from `redo` on. The files stay.
    fn known(&self, redo: u64) -> Known {
        let copy = tempfile::tempdir().unwrap();
        for file in fs::read_dir(self.folder.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        Known::take(copy.path().to_owned(), Some(redo)).unwrap()
    }

    fn lsns(&self, blocks: u32) -> Vec<u64> {
        let known = self.known(0);
        (0..blocks).map(|block| known.lsn(&FORK, block)).collect()
    }
}

#[test]
fn a_page_is_noted_when_it_was_written_before_a_sync_that_succeeds() {
    let world = new_world();
    world.write(0, 20);
    assert!(world.notes.synced(|| Err(())).is_err());
    world.sync();
    assert_eq!(world.lsns(1), [0], "its sync has failed");
    world.write(0, 21);
    let written_meanwhile = || {
        world.write(1, 30);
        Ok::<_, ()>(())
    };
    world.notes.synced(written_meanwhile).unwrap();
    assert_eq!(world.lsns(2), [21, 0], "the other one was written meanwhile");
    world.sync();
    world.write(0, 40);
    world.sync();
    assert_eq!(world.lsns(3), [40, 30, 0]);
    assert_eq!(world.known(31).len(), 1, "redo begins later than the other one");
    assert_eq!(world.known(0).lsn(&OTHER, 0), 0);
}

#[test]
fn notes_are_read_once() {
    let world = new_world();
    world.write(0, 20);
    world.sync();
    let folder = || world.folder.path().to_owned();
    assert_eq!(Known::take(folder(), Some(10)).unwrap().lsn(&FORK, 0), 20);
    assert_eq!(Known::take(folder(), Some(10)).unwrap().len(), 0);
    let world = new_world();
    world.write(0, 20);
    world.sync();
    assert_eq!(Known::take(world.folder.path().to_owned(), None).unwrap().len(), 0, "of other files");
    assert_eq!(fs::read_dir(world.folder.path()).unwrap().count(), 0);
}

#[test]
fn an_overwritten_fork_makes_notes_void_until_the_next_checkpoint() {
    let world = new_world();
    world.write(0, 20);
    world.sync();
    let other = Noted::default();
    make_void(world.folder.path(), world.board, &other).unwrap();
    assert_eq!(world.lsns(1), [20], "a fork without notes");
    world.write(1, 25);
    world.overwrite();
    world.sync();
    world.write(1, 26);
    world.sync();
    world.notes.tick();
    assert_eq!(world.lsns(2), [0, 0], "not even of a page that was written before, and synced after it");
    world.write(1, 27);
    world.board.checkpoint(10, 30);
    world.notes.tick();
    world.sync();
    assert_eq!(world.lsns(2), [0, 0], "what was written before that checkpoint");
    world.write(1, 35);
    world.sync();
    assert_eq!(world.lsns(2), [0, 35]);
}

#[test]
fn notes_last_for_two_checkpoints() {
    let world = new_world();
    let checkpoint = |done, redo| {
        world.board.checkpoint(done, redo);
        world.notes.tick();
    };
    world.write(0, 20);
    world.sync();
    checkpoint(10, 30);
    world.write(1, 25);
    world.write(2, 35);
    world.sync();
    assert_eq!(world.lsns(3), [20, 25, 35]);
    // It was not completed; the redo of the one before is still needed.
    checkpoint(10, 40);
    world.write(0, 41);
    world.sync();
    assert_eq!(world.lsns(3), [41, 25, 35]);
    checkpoint(40, 50);
    world.write(1, 39);
    world.sync();
    assert_eq!(world.lsns(3), [41, 25, 35], "no redo needs a version before the last checkpoint");
    checkpoint(50, 60);
    assert_eq!(world.lsns(3), [0, 0, 0]);
    checkpoint(60, 70);
    world.overwrite();
    assert!(world.notes.number(Some(&world.noted)) != 0, "nothing was noted since: nothing is void");
}

#[test]
fn a_task_that_is_late_takes_no_fork_back_to_the_file_before() {
    let noted = Noted::default();
    noted.enters(7);
    noted.enters(6);
    assert!(noted.is_in(8));
    assert!(!noted.is_in(9));
}

#[test]
fn notes_of_the_time_before_are_void_too() {
    let world = new_world();
    world.write(0, 20);
    world.sync();
    world.board.checkpoint(10, 30);
    world.notes.tick();
    world.overwrite();
    assert_eq!(world.lsns(1), [0]);
    assert_eq!(world.notes.number(Some(&world.noted)), 0);
}

#[test]
fn no_notes_are_left_when_the_cache_is_off() {
    let world = new_world();
    world.write(0, 20);
    world.sync();
    world.notes.end();
    assert_eq!(fs::read_dir(world.folder.path()).unwrap().count(), 0);
    world.board.checkpoint(10, 30);
    world.notes.tick();
    world.write(0, 35);
    world.sync();
    assert_eq!(world.lsns(1), [0]);
}

#[test]
fn redo_forgets_what_it_changes_and_drops() {
    let world = new_world();
    (0..10).for_each(|block| world.write(block, 20));
    let number = world.notes.number(Some(&Noted::default()));
    world.notes.written(vec![Note { fork: OTHER, block: 3, lsn: 20 }], number);
    world.sync();
    let mut known = world.known(10);
    let blocks = |known: &Known| (0..10).filter(|block| known.lsn(&FORK, *block) > 0).collect::<Vec<_>>();
    known.change(&FORK, 3);
    assert_eq!(blocks(&known), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    known.drop_blocks(&FORK, 8, u32::MAX);
    known.drop_blocks(&FORK, 1, 2);
    assert_eq!(blocks(&known), [0, 4, 5, 6, 7]);
    assert_eq!(known.lsn(&OTHER, 3), 20);
    known.drop_forks(|locator| *locator == crate::locator::locator_of(&FORK));
    assert_eq!((blocks(&known), known.len()), (vec![], 1));
}

#[test]
fn a_record_that_a_crash_has_damaged_is_left_out() {
    let mut bytes = begin(9).to_vec();
    let note = |block| Note { fork: FORK, block, lsn: 7 };
    let long: Vec<Note> = (0..RECORD_NOTES as u32).map(note).collect();
    for notes in [&[note(1000)][..], &long, &[note(2000), note(2001)]] {
        encode(9, notes, &mut bytes);
    }
    let read = |bytes: &[u8]| {
        let mut notes = Vec::new();
        record::decode(bytes, |note| notes.push(note.block));
        notes
    };
    assert_eq!(read(&bytes).len(), RECORD_NOTES + 3);
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(read(&damaged).iter().all(|block| *block < RECORD_NOTES as u32 || *block % 1000 < 2));
    }
    let mut lost = bytes.clone();
    lost[1024..8704].fill(0);
    assert_eq!(read(&lost), [1000, 2000, 2001]);
    let mut older = begin(8).to_vec();
    encode(8, &long, &mut older);
    lost[1024..8704].copy_from_slice(&older[512..8192]);
    assert_eq!(read(&lost), [1000, 2000, 2001], "a record of another file");
    for length in 0..bytes.len() {
        read(&bytes[..length]);
    }
}

#[test]
fn no_file_takes_notes_while_another_process_makes_them_void() {
    let world = new_world();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for redo in 0..200 {
                world.board.checkpoint(10 + redo, 11 + redo);
                world.notes.tick();
                world.write(0, 1000 + redo);
                world.sync();
            }
            stop.store(true, SeqCst);
        });
        while !stop.load(SeqCst) {
            world.overwrite();
        }
    });
    world.overwrite();
    assert_eq!(world.lsns(1), [0]);
}
