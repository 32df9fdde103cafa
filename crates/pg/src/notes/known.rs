//! What redo knows of pages that are durable in their files.

use super::Files;
use super::record::{self, Note};
use crate::locator::locator_of;
use crate::types::EntFork;
use entresol_objects::Locator;
use std::collections::HashMap;
use std::path::PathBuf;
use std::{fs, io};

/// In the process that redoes: the LSNs of durable pages, by fork and block. Empty in all others.
#[derive(Debug, Default)]
pub(crate) struct Known {
    forks: HashMap<Locator, HashMap<u32, u64>>,
}

impl Known {
    /// Reads the notes in `folder`, and removes them durably: redo is about to begin, at `redo`. `None`:
    /// they say nothing of this cluster's files, and are only removed.
    ///
    /// # Errors
    /// They cannot be removed: redo may not begin.
    pub fn take(folder: PathBuf, redo: Option<u64>) -> io::Result<Self> {
        let mut known = Self::default();
        if !folder.exists() {
            return Ok(known);
        }
        let files = Files { folder };
        let lock = files.lock()?;
        if let Some(redo) = redo {
            for file in [files.before(), files.now()] {
                // What cannot be read is not known.
                if let Ok(bytes) = fs::read(file) {
                    record::decode(&bytes, |note| known.add(note, redo));
                }
            }
        }
        files.remove(&lock)?;
        Ok(known)
    }

    /// Redo begins at `redo`, so that older versions need no note.
    fn add(&mut self, note: Note, redo: u64) {
        if note.lsn >= redo {
            let lsn = self.forks.entry(locator_of(&note.fork)).or_default().entry(note.block).or_default();
            *lsn = note.lsn.max(*lsn);
        }
    }

    /// How many pages are known.
    pub fn len(&self) -> usize {
        self.forks.values().map(HashMap::len).sum()
    }

    /// The LSN of a block's durable version; 0: nothing is known.
    pub fn lsn(&self, fork: &EntFork, block: u32) -> u64 {
        if self.forks.is_empty() {
            return 0;
        }
        self.forks.get(&locator_of(fork)).and_then(|blocks| blocks.get(&block)).map_or(0, |lsn| *lsn)
    }

    /// Redo changes the block, maybe in an older version. Once that is evicted from shared buffers, nothing
    /// would show that it needs later changes.
    pub fn change(&mut self, fork: &EntFork, block: u32) {
        if !self.forks.is_empty()
            && let Some(blocks) = self.forks.get_mut(&locator_of(fork))
        {
            blocks.remove(&block);
        }
    }

    /// The blocks from `first` to `last` of a fork are dead: the file loses its versions of them.
    pub fn drop_blocks(&mut self, fork: &EntFork, first: u32, last: u32) {
        if !self.forks.is_empty()
            && let Some(blocks) = self.forks.get_mut(&locator_of(fork))
        {
            match (last - first) as usize >= blocks.len() {
                true => blocks.retain(|block, _| !(first..=last).contains(block)),
                false => (first..=last).for_each(|block| _ = blocks.remove(&block)),
            }
        }
    }

    /// Forks whose names `is_dead` says so of are dead.
    pub fn drop_forks(&mut self, is_dead: impl Fn(&Locator) -> bool) {
        self.forks.retain(|locator, _| !is_dead(locator));
    }
}
