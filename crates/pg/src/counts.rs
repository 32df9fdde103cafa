//! What a process counts of its reads, and of pages that it hands down.

use crate::benefit::time_read;
use crate::front::{Process, with};
use crate::memory::{ObjectTally, Tally};
use crate::types::{EntFork, EntOwn, flag, latency};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Blocks that the server is about to read from disk, if that is to be timed.
    static TIMED: Cell<Option<(EntFork, u32, u32)>> = const { Cell::new(None) };
    /// Of this process, attached or not.
    static OWN: Cell<EntOwn> = const { Cell::new(EntOwn::NONE) };
}

fn own(count: impl FnOnce(&mut EntOwn)) {
    let mut own = OWN.get();
    count(&mut own);
    OWN.set(own);
}

/// What this process has had of the cache.
pub(crate) fn own_counts() -> EntOwn {
    OWN.get()
}

/// The server is about to read the disk: does so before and times it, if this read was drawn for that.
/// `direct`: the server reads past the kernel's cache. Allocates.
pub(crate) fn time_disk(direct: bool) {
    if let Some(blocks) = TIMED.take() {
        with(|process| time_read(process.board, &process.folders, blocks, direct));
    }
}

impl Process {
    /// Counts blocks that this process reads from the cache.
    pub fn count_hits(&self, blocks: u32, object: Option<&ObjectTally>) {
        self.tally.hits.add(blocks.into());
        object.inspect(|tally| tally.hits.add(blocks.into()));
        own(|own| own.hits += u64::from(blocks));
    }

    /// Of the hits of this process, so many were served from memory.
    pub fn count_staging_hits(&self, blocks: u32) {
        self.tally.staging_hits.add(blocks.into());
    }

    /// This process has measured something: a row of [`latency`].
    pub fn took(&self, row: u32, time: Duration) {
        if row == latency::READ {
            self.tally.read_us.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// As [`count_hits`](Self::count_hits), of blocks that the server has started to read.
    pub fn count_async_hits(&self, blocks: u32, object: Option<&ObjectTally>) {
        self.board.async_hits.add(blocks.into());
        own(|own| own.async_hits += u64::from(blocks));
        self.count_hits(blocks, object);
    }

    /// Counts blocks that the server reads from disk, as the cache lacks them.
    pub fn count_misses(&self, fork: &EntFork, block: u32, blocks: u32, object: Option<&ObjectTally>) {
        if self.board.hour.read_is_timed() {
            TIMED.set(Some((*fork, block, blocks)));
        }
        self.board.misses.add(blocks.into());
        self.tally.misses.add(blocks.into());
        object.inspect(|tally| tally.misses.add(blocks.into()));
        own(|own| own.misses += u64::from(blocks));
    }

    /// Counts a page that was taken.
    pub fn taken(&self, object: Option<&ObjectTally>, flags: u32) {
        let Process { board, tally, .. } = self;
        board.pulled.add((flags & flag::PULL != 0).into());
        board.written_through.add((flags & flag::THROUGH != 0).into());
        let (all, of_kind, of_object): (_, _, fn(&ObjectTally) -> &Tally) = match flags & flag::DIRTY {
            0 => (&board.staged_clean, &tally.staged_clean, |tally| &tally.staged_clean),
            _ => (&board.staged_dirty, &tally.staged_dirty, |tally| &tally.staged_dirty),
        };
        all.add(1);
        of_kind.add(1);
        object.inspect(|tally| of_object(tally).add(1));
        own(|own| match flags & flag::DIRTY {
            0 => own.staged_clean += 1,
            _ => own.staged_dirty += 1,
        });
    }
}
