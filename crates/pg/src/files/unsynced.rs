//! Relation files that were written and not synced.
//!
//! Tasks that want files synced do it together: each takes one file at a time from the common list, and syncs
//! it while others sync others. So the disk writes the pages of one file during the flush of another.
//!
//! Invariants:
//!
//! 1. [`Unsynced::sync`] succeeds only if each file that was in the list at its beginning was synced since,
//!    by whichever task.
//! 2. A file that is written while it is being synced enters the list again.
//! 3. A failed sync is final: after it no sync succeeds. The kernel may have dropped the writes.

use entresol_device::DeviceError;
use entresol_runtime::sync::{Condvar, Mutex, Rank};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;

/// Device and inode of a file.
pub(super) type Inode = (u64, u64);

/// See the module's header.
pub(super) struct Unsynced {
    list: Mutex<List>,
    /// A file was synced.
    synced: Condvar,
}

#[derive(Default)]
struct List {
    /// By the number of the first write since the file's last sync.
    files: BTreeMap<u64, (Inode, File)>,
    numbers: HashMap<Inode, u64>,
    /// The number of the last file that entered.
    last: u64,
    /// Numbers of files that are being synced.
    under_way: Vec<u64>,
    failed: Option<DeviceError>,
}

impl List {
    /// Takes the first file out, if its number is at most `last`: it is being synced from now on.
    fn take(&mut self, last: u64) -> Option<(u64, File)> {
        let first = self.files.first_entry().filter(|first| *first.key() <= last)?;
        let (number, (inode, file)) = first.remove_entry();
        self.numbers.remove(&inode);
        self.under_way.push(number);
        Some((number, file))
    }
}

impl Unsynced {
    pub(super) fn new() -> Self {
        Self { list: Mutex::new(Rank::FileSyncs, List::default()), synced: Condvar::new() }
    }

    /// `file` was written. Returns how many files are to be synced.
    pub(super) fn add(&self, inode: Inode, file: File) -> usize {
        let mut list = self.list.lock();
        if !list.numbers.contains_key(&inode) {
            list.last += 1;
            let number = list.last;
            list.numbers.insert(inode, number);
            list.files.insert(number, (inode, file));
        }
        list.files.len()
    }

    /// Syncs the files that were added before by `sync`, together with other tasks.
    pub(super) fn sync(&self, sync: impl Fn(&File) -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        let mut list = self.list.lock();
        let last = list.last;
        loop {
            if let Some(failed) = &list.failed {
                return Err(failed.clone());
            }
            if let Some((number, file)) = list.take(last) {
                drop(list);
                let result = sync(&file);
                drop(file);
                list = self.list.lock();
                list.under_way.retain(|one| *one != number);
                if let Err(error) = result {
                    list.failed.get_or_insert(error);
                }
                self.synced.notify_all();
            } else if list.under_way.iter().all(|number| *number > last) {
                return Ok(());
            } else {
                self.synced.wait(&mut list);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.list.lock().files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

    fn file() -> (Inode, File) {
        let file = tempfile::tempfile().unwrap();
        let about = file.metadata().unwrap();
        ((about.dev(), about.ino()), file)
    }

    #[test]
    fn two_tasks_sync_two_files_at_once() {
        let unsynced = Unsynced::new();
        for _ in 0..2 {
            let (inode, file) = file();
            unsynced.add(inode, file);
        }
        // Neither sync ends before both have begun.
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    unsynced.sync(|_| {
                        both.wait();
                        Ok(())
                    })
                });
            }
        });
        assert_eq!(unsynced.len(), 0);
    }

    #[test]
    fn a_sync_waits_for_the_file_that_another_task_has_taken() {
        let unsynced = Unsynced::new();
        let (inode, file) = file();
        unsynced.add(inode, file);
        let (begun, done) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unsynced.sync(|_| {
                    begun.wait();
                    // The other one has time to return too early.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    done.store(true, SeqCst);
                    Ok(())
                })
            });
            begun.wait();
            unsynced.sync(|_| unreachable!("the list is empty")).unwrap();
            assert!(done.load(SeqCst));
        });
    }

    #[test]
    fn a_file_that_is_written_while_it_is_synced_is_synced_again() {
        let unsynced = Unsynced::new();
        let (inode, file) = file();
        unsynced.add(inode, file.try_clone().unwrap());
        unsynced
            .sync(|_| {
                if unsynced.len() == 0 {
                    unsynced.add(inode, file.try_clone().unwrap());
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(unsynced.len(), 1, "what came after the beginning is the next one's");
        let syncs = AtomicU32::new(0);
        unsynced
            .sync(|_| {
                syncs.fetch_add(1, SeqCst);
                Ok(())
            })
            .unwrap();
        assert_eq!((syncs.load(SeqCst), unsynced.len()), (1, 0));
    }

    #[test]
    fn a_failed_sync_is_final() {
        let unsynced = Unsynced::new();
        let (inode, file) = file();
        unsynced.add(inode, file);
        let dead = || DeviceError::Dead { device: "a file".to_owned(), reason: "it is gone".to_owned() };
        assert!(unsynced.sync(|_| Err(dead())).is_err());
        assert!(unsynced.sync(|_| Ok(())).is_err());
    }
}
