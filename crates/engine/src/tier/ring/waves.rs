//! Dequeues sync the disk in waves: those whose pages are written wait for each other, and then sync together
//! and share a renewal of the label.
//!
//! Each sync of a disk is a flush for each file that was written, and each renewal is two more with two
//! writes. A disk that does so many requests a second has no time for pages meanwhile. Nothing waits for a
//! dequeue while enough groups are free, so a wave begins late:
//!
//! 1. not before the files of the wave before are synced;
//! 2. when free groups get scarce, or half of the dequeues that may be under way wait, or the first of them
//!    has waited for [`PATIENCE`].
//!
//! Invariant: a wave ends only when each of its dequeues has made its own sync, or has given up. So a renewal
//! that is asked for by each of them after its sync, and made when the wave has ended, is one for all.
//! Nothing else is decided here: a dequeue that did not wait would be as safe.

use crate::access::{Directory, RunState};
use crate::signal::Signal;
use crate::tier::floor::Floor;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a wave to begin while none is under way.
const PATIENCE: Duration = Duration::from_millis(100);

/// See the module's header.
pub(crate) struct Waves {
    directory: Arc<Directory>,
    state: Arc<RunState>,
    /// With so many dequeues a wave begins. `None`: nothing is shared by a wave, and dequeues do not wait.
    enough: Option<u32>,
    wave: TinyMutex<Wave>,
    /// A wave has begun, or has ended.
    turns: Signal,
}

#[derive(Default)]
struct Wave {
    /// Waves that have begun.
    begun: u64,
    /// Dequeues of the last of them that have not made their sync.
    to_sync: u32,
    /// Dequeues that wait for the next one, and since when the first of them does.
    waiting: u32,
    since: Option<Time>,
}

/// A dequeue's part in a wave that has begun, until dropped.
pub(crate) struct Part<'a> {
    waves: &'a Waves,
    /// The wave's number. `None`: there are no waves.
    number: Option<u64>,
}

impl Waves {
    pub(crate) fn new(floor: &Floor) -> Self {
        let options = &floor.access.options;
        let at_once = options.groups_ahead().min(options.background_workers as u32);
        Self {
            directory: floor.access.directory.clone(),
            state: floor.access.state.clone(),
            enough: floor.disk.log().map(|_| (at_once / 2).max(1)),
            wave: TinyMutex::new(Rank::Waves, Wave::default()),
            turns: Signal::default(),
        }
    }

    /// Waits for a wave to begin, with the dequeue of the caller in it.
    pub(crate) fn join(&self) -> Part<'_> {
        let Some(enough) = self.enough else { return Part { waves: self, number: None } };
        let number = {
            let mut wave = self.wave.lock();
            wave.waiting += 1;
            wave.since.get_or_insert_with(now);
            wave.begun + 1
        };
        loop {
            let seen = self.turns.epoch();
            // A partition that is gone: the next step says so.
            let is_urgent = self.state.is_stopped()
                || self.directory.in_log(|log| log.are_groups_scarce()).unwrap_or(true);
            let patience = {
                let mut wave = self.wave.lock();
                if wave.begun >= number {
                    break;
                }
                let waited = wave.since.map_or(Duration::ZERO, |since| now().since(since));
                let is_due = is_urgent || wave.waiting >= enough || waited >= PATIENCE;
                if wave.to_sync == 0 && is_due {
                    wave.begun += 1;
                    (wave.to_sync, wave.waiting, wave.since) = (wave.waiting, 0, None);
                    drop(wave);
                    self.turns.notify_all();
                    break;
                }
                if wave.to_sync == 0 { PATIENCE - waited } else { PATIENCE }
            };
            self.turns.wait_for(seen, patience);
        }
        Part { waves: self, number: Some(number) }
    }

    /// A dequeue of the wave that is under way needs it no more.
    fn leave(&self) {
        let has_ended = {
            let mut wave = self.wave.lock();
            wave.to_sync -= 1;
            wave.to_sync == 0
        };
        if has_ended {
            self.turns.notify_all();
        }
    }
}

impl Part<'_> {
    /// The dequeue has made its sync: waits for the others of its wave.
    pub(crate) fn end(mut self) {
        let Some(number) = self.number.take() else { return };
        self.waves.leave();
        loop {
            let seen = self.waves.turns.epoch();
            {
                let wave = self.waves.wave.lock();
                if wave.begun > number || wave.to_sync == 0 {
                    return;
                }
            }
            self.waves.turns.wait(seen);
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if self.number.is_some() {
            self.waves.leave();
        }
    }
}
