//! What reports see of a volume's cache, and of the changes of it. They never wait for it: its lock is held
//! alone in the last step of a change.
//!
//! Invariant: the cache is the one that the lock guards, or the last one while a change is under way.

use super::{Cache, CacheOptions, Condition, UnderWay, Volume};
use entresol_engine::{PageCache, Progress};
use entresol_runtime::sync::{MutexGuard, Rank, RwLockWriteGuard, TinyMutex};
use entresol_runtime::{Time, now};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

/// See the module's header.
pub(super) struct Seen(TinyMutex<State>);

struct State {
    /// Not an owner of it: a cache that was ended is dropped by the change that ended it.
    cache: Option<(Weak<dyn PageCache>, CacheOptions)>,
    change: Option<(&'static str, Time)>,
    /// How far it is, if it copies pages.
    progress: Option<Progress>,
    /// The condition of disk and flash when they were last looked at, and since when they are in it.
    conditions: [(Condition, Time); 2],
}

fn seen(cache: Option<&Cache>) -> Option<(Weak<dyn PageCache>, CacheOptions)> {
    cache.map(|cache| (Arc::downgrade(&cache.tier), cache.options.clone()))
}

impl Seen {
    pub fn of(cache: Option<&Cache>) -> Self {
        let conditions = [(Condition::Ok, now()); 2];
        Self(TinyMutex::new(
            Rank::SeenCache,
            State { cache: seen(cache), change: None, progress: None, conditions },
        ))
    }

    /// The cache, if there is one, and its options.
    pub fn cache(&self) -> Option<(Arc<dyn PageCache>, CacheOptions)> {
        let (cache, options) = self.0.lock().cache.clone()?;
        Some((cache.upgrade()?, options))
    }

    /// The options of the cache; while a change is under way, those of before.
    pub fn options(&self) -> Option<CacheOptions> {
        self.0.lock().cache.as_ref().map(|(_, options)| options.clone())
    }

    /// The change that is under way.
    pub fn under_way(&self) -> Option<UnderWay> {
        let state = self.0.lock();
        let (what, since) = state.change?;
        let Progress { done, total } = state.progress.unwrap_or(Progress { done: 0, total: 0 });
        Some(UnderWay { what: what.to_owned(), seconds: now().since(since).as_secs(), done, total })
    }

    /// The change that is under way is so far.
    pub fn progresses(&self, progress: Progress) {
        self.0.lock().progress = Some(progress);
    }

    /// Since when disk and flash are in these conditions, as far as it was looked at.
    pub fn since(&self, conditions: [Condition; 2]) -> [Time; 2] {
        let mut state = self.0.lock();
        for (known, found) in state.conditions.iter_mut().zip(conditions) {
            if known.0 != found {
                *known = (found, now());
            }
        }
        state.conditions.map(|(_, since)| since)
    }
}

/// A change of a volume's cache is under way, until dropped.
pub(super) struct Turn<'a> {
    volume: &'a Volume,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.volume.seen.0.lock();
        (state.change, state.progress) = (None, None);
    }
}

/// The cache of a volume, held alone while it is changed.
pub(super) struct Changing<'a> {
    volume: &'a Volume,
    held: RwLockWriteGuard<'a, Option<Cache>>,
}

impl Volume {
    /// Waits for the end of other changes. `what`: the name of this one.
    pub(super) fn turn(&self, what: &'static str) -> Turn<'_> {
        self.begin_turn(what, self.turns.lock())
    }

    /// As [`Volume::turn`]. `None`: another change is under way.
    pub(super) fn try_turn(&self, what: &'static str) -> Option<Turn<'_>> {
        self.turns.try_lock().map(|turn| self.begin_turn(what, turn))
    }

    fn begin_turn<'a>(&'a self, what: &'static str, turn: MutexGuard<'a, ()>) -> Turn<'a> {
        self.seen.0.lock().change = Some((what, now()));
        Turn { volume: self, _turn: turn }
    }

    /// Waits for the requests under way, and holds the cache alone.
    pub(super) fn change(&self, _: &Turn<'_>) -> Changing<'_> {
        let held = self.cache.write();
        self.begun_writes.await_none();
        Changing { volume: self, held }
    }
}

impl Deref for Changing<'_> {
    type Target = Option<Cache>;

    fn deref(&self) -> &Self::Target {
        &self.held
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.held
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let cache = seen(self.held.as_ref());
        self.volume.seen.0.lock().cache = cache;
    }
}
