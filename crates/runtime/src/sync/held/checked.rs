//! The list of held locks, and the assertions.
//!
//! Invariant: `HELD` is the list of the task that runs on this OS thread: the scheduler of a simulation
//! exchanges it when it resumes a task ([`swap`]). A lock is in the list from when it was taken until it is
//! released; a mutex is not in it while its holder waits for a condition.
//!
//! Nothing here allocates: an allocator may ask [`allocation_is_forbidden`].

use crate::sync::{Nesting, Rank, Wait};
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// Locks that one task may hold.
const HELD_MAX: usize = 96;

/// The identity of a [`Hold`], which has no address.
const NO_LOCK: usize = 0;

thread_local! {
    static HELD: RefCell<List> = const { RefCell::new(List::EMPTY) };
    static ALLOWING: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Copy)]
struct Held {
    rank: Rank,
    lock: usize,
    taken_at: &'static Location<'static>,
}

/// The locks that a task holds, in the order in which it took them.
pub(crate) struct List {
    length: usize,
    held: [Option<Held>; HELD_MAX],
}

impl List {
    /// No lock.
    pub(crate) const EMPTY: List = List { length: 0, held: [None; HELD_MAX] };

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Held> {
        self.held[..self.length].iter().flatten()
    }

    /// The rank of a lock under which nothing may be taken.
    fn bare(&self) -> Option<Rank> {
        self.iter().map(|held| held.rank).find(|rank| rank.nesting() == Nesting::Bare)
    }

    fn push(&mut self, held: Held) {
        assert!(self.length < HELD_MAX, "a task holds more than {HELD_MAX} locks");
        self.held[self.length] = Some(held);
        self.length += 1;
    }

    /// False if it was not there.
    fn remove(&mut self, rank: Rank, lock: usize) -> bool {
        let is_it = |held: &Held| held.rank == rank && held.lock == lock;
        let Some(place) =
            self.held[..self.length].iter().rposition(|held| held.is_some_and(|held| is_it(&held)))
        else {
            return false;
        };
        self.held[place..self.length].rotate_left(1);
        self.length -= 1;
        true
    }
}

/// Exchanges the list of this OS thread with `list`.
pub(crate) fn swap(list: &mut List) {
    HELD.with_borrow_mut(|held| std::mem::swap(held, list));
}

/// A lock's rank; its own address is the lock's identity.
#[derive(Debug)]
pub(crate) struct Tag(Rank);

impl Tag {
    /// The tag of a lock for which tasks wait as `wait` says.
    pub(crate) const fn new(rank: Rank, wait: Wait) -> Tag {
        let fits = matches!((rank.wait(), wait), (Wait::Parks, Wait::Parks) | (Wait::Blocks, Wait::Blocks));
        assert!(fits, "the table of ranks says otherwise how tasks wait for this lock");
        Tag(rank)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The caller is about to take the lock, and waits if it is not free.
    #[track_caller]
    pub(crate) fn may_wait(&self) {
        assert_may_wait_for(self.0, self.address());
    }

    /// The caller has taken the lock.
    #[track_caller]
    pub(crate) fn taken(&self) {
        taken(self.0, self.address());
    }

    /// The caller releases the lock.
    #[track_caller]
    pub(crate) fn released(&self) {
        released(self.0, self.address());
    }

    /// As [`Tag::taken`], until the result is dropped.
    #[track_caller]
    pub(crate) fn hold(&self) -> TagHold<'_> {
        self.taken();
        TagHold(self)
    }
}

/// See [`Tag::hold`].
#[derive(Debug)]
pub(crate) struct TagHold<'a>(&'a Tag);

impl Drop for TagHold<'_> {
    fn drop(&mut self) {
        self.0.released();
    }
}

/// Something that is held and waited for as a lock is, but is none of this module's: counts as held until
/// dropped.
#[derive(Debug)]
pub struct Hold(Rank);

impl Hold {
    /// The caller is about to take something of `rank`, and waits if it is not free.
    #[track_caller]
    pub fn may_wait(rank: Rank) {
        assert_may_wait_for(rank, NO_LOCK);
    }

    /// The caller has taken something of `rank`.
    #[track_caller]
    pub fn taken(rank: Rank) -> Hold {
        taken(rank, NO_LOCK);
        Hold(rank)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        released(self.0, NO_LOCK);
    }
}

/// Whether assertions are pointless: the task is being unwound already.
fn is_dying() -> bool {
    std::thread::panicking() || crate::sim::is_halted()
}

#[track_caller]
fn assert_may_wait_for(rank: Rank, lock: usize) {
    if is_dying() {
        return;
    }
    HELD.with_borrow(|list| {
        for held in list.iter() {
            let Held { rank: other, taken_at, .. } = held;
            assert!(
                lock == NO_LOCK || held.lock != lock,
                "lock order: a task takes the lock {rank}, which it has held since {taken_at}"
            );
            let allowed = match other.nesting() {
                Nesting::One => rank > *other,
                Nesting::Several => rank >= *other,
                Nesting::Bare => false,
            };
            assert!(
                allowed,
                "lock order: {rank} is taken while {other} is held, which was taken at {taken_at}; {}",
                match other.nesting() {
                    Nesting::Bare => format!("nothing may be taken under {other}"),
                    _ if rank == *other => "only one of this rank may be held at a time".to_owned(),
                    _ => format!("the order is {rank} before {other} (docs/LOCKING.md)"),
                }
            );
        }
    });
}

#[track_caller]
fn taken(rank: Rank, lock: usize) {
    let taken_at = Location::caller();
    HELD.with_borrow_mut(|list| {
        if let Some(held) = list.bare() {
            assert!(
                is_dying(),
                "lock order: {rank} is taken while {held} is held; nothing may be taken under {held}"
            );
        }
        list.push(Held { rank, lock, taken_at });
    });
}

#[track_caller]
fn released(rank: Rank, lock: usize) {
    let was_held = HELD.with_borrow_mut(|list| list.remove(rank, lock));
    assert!(was_held || is_dying(), "lock order: a task releases {rank}, which another one has taken");
}

/// The caller may be made to wait from here on: it holds nothing for which others do not park.
#[track_caller]
pub(crate) fn assert_may_park() {
    if is_dying() {
        return;
    }
    HELD.with_borrow(|list| {
        if let Some(held) = list.iter().find(|held| held.rank.wait() == Wait::Blocks) {
            panic!("lock order: a task may park while it holds {}, taken at {}", held.rank, held.taken_at);
        }
    });
}

/// Asserts that the caller holds no lock of a rank other than [`Rank::Test`]; `what` names its next step.
#[track_caller]
pub fn assert_nothing_held(what: &str) {
    if is_dying() {
        return;
    }
    HELD.with_borrow(|list| {
        if let Some(held) = list.iter().find(|held| held.rank != Rank::Test) {
            panic!("lock order: {what} while {} is held, taken at {}", held.rank, held.taken_at);
        }
    });
}

/// The lock that the caller holds and under which nothing may be allocated, if there is one. An allocator may
/// call this.
pub fn allocation_is_forbidden() -> Option<Rank> {
    let allowing = ALLOWING.try_with(Cell::get).unwrap_or(true);
    if allowing || std::thread::panicking() {
        return None;
    }
    let bare = HELD.try_with(|list| {
        let list = list.try_borrow().ok()?;
        list.bare()
    });
    bare.ok().flatten()
}

/// Runs `check`, which only debug builds do, and which may allocate under any lock. It does not park.
pub fn allowing_allocation<T>(check: impl FnOnce() -> T) -> T {
    let before = ALLOWING.replace(true);
    let result = check();
    ALLOWING.set(before);
    result
}
