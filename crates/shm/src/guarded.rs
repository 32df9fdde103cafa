//! Plain memory that a latch guards: only the holder of the latch may read or write it.
#![allow(unsafe_code)] // hands out memory; every block says why it is sound

use crate::fronts::Fronts;
use crate::latch::{Gone, Holder, Latch, LatchGuard};
use crate::mapping::{Mapping, Shared};
use crate::plan::{GuardedPart, PART_ALIGNMENT};
use crate::shared_struct;
use entresol_runtime::sync::{Hold, Rank};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

shared_struct! {
    /// A latch with a cache line of its own.
    #[derive(Debug)]
    #[repr(align(64))]
    pub(crate) struct LatchLine {
        latch: Latch,
    }
}

const _: () = assert!(size_of::<LatchLine>() == PART_ALIGNMENT);

/// Areas of words, each with a latch.
///
/// Invariant: an area is accessed only through the guard of its latch.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// Keeps the memory mapped, which the areas are in.
    latches: Shared<[LatchLine]>,
    areas: NonNull<u64>,
    words: usize,
    stride: usize,
    rank: Rank,
    /// Who looks for holders that have ended. `None`: the process itself does.
    back: Option<Fronts>,
}

// SAFETY: the areas are accessed by the holders of their latches only, whatever thread they are on.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    pub(crate) fn new(memory: &Arc<Mapping>, part: &GuardedPart) -> Self {
        let latches = Shared::many(memory, &part.latches, part.count);
        let bytes = part.stride.checked_mul(size_of::<u64>()).and_then(|area| area.checked_mul(part.count));
        let areas: NonNull<u64> = memory.address(&part.areas, bytes).cast();
        assert!(areas.is_aligned() && part.words <= part.stride, "areas lie as their plan says");
        Self { latches, areas, words: part.words, stride: part.stride, rank: part.rank, back: None }
    }

    /// For a front. A holder may end together with the back, which looks for such holders. So when the back
    /// has ended, a latch that is held counts as gone.
    pub fn of_front(self, fronts: &Fronts) -> Self {
        Self { back: Some(fronts.clone()), ..self }
    }

    /// How many areas.
    pub fn count(&self) -> usize {
        self.latches.len()
    }

    /// Takes the latch of the first area; waits while another task holds it.
    ///
    /// # Errors
    /// [`Gone`]: the latch was poisoned.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self, me: Holder) -> Result<Guard<'_>, Gone> {
        self.lock_area(0, me)
    }

    /// Takes the latch of area `at`; waits while another task holds it.
    ///
    /// # Errors
    /// [`Gone`]: the latch was poisoned.
    ///
    /// # Panics
    /// If there is no such area.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock_area(&self, at: usize, me: Holder) -> Result<Guard<'_>, Gone> {
        let line = &self.latches[at];
        Hold::may_wait(self.rank);
        let latch = line.latch.lock_while(me, || self.back.as_ref().is_none_or(Fronts::has_back))?;
        Ok(self.guard(at, latch))
    }

    /// Takes the latch of area `at` if it is free. `None`: it is held. Never waits.
    ///
    /// # Errors
    /// [`Gone`]: the latch was poisoned.
    ///
    /// # Panics
    /// If there is no such area.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock_area(&self, at: usize, me: Holder) -> Result<Option<Guard<'_>>, Gone> {
        let latch = self.latches[at].latch.try_lock(me)?;
        Ok(latch.map(|latch| self.guard(at, latch)))
    }

    /// The holder of the latch of area `at`.
    ///
    /// # Panics
    /// If there is no such area.
    pub fn holder(&self, at: usize) -> Option<Holder> {
        self.latches[at].latch.holder()
    }

    /// Whether `holder` holds any of the latches.
    pub fn is_held_by(&self, holder: Holder) -> bool {
        self.latches.iter().any(|line| line.latch.holder() == Some(holder))
    }

    /// Poisons all latches.
    pub fn poison(&self) {
        self.latches.iter().for_each(|line| line.latch.poison());
    }

    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    fn guard<'a>(&'a self, at: usize, latch: LatchGuard<'a>) -> Guard<'a> {
        // SAFETY: `at` is one of the areas, for it has a latch; all areas are in the memory (`new`).
        let area = unsafe { self.areas.add(at * self.stride) };
        let area = NonNull::slice_from_raw_parts(area, self.words);
        Guard { area, _latch: latch, _held: Hold::taken(self.rank) }
    }
}

/// The words of an area, as long as its latch is held. If the holder panics, the latch is poisoned.
#[derive(Debug)]
#[must_use = "the latch is released when the guard is dropped"]
pub struct Guard<'a> {
    area: NonNull<[u64]>,
    _latch: LatchGuard<'a>,
    _held: Hold,
}

impl Deref for Guard<'_> {
    type Target = [u64];
    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: the words are in the memory, which the guard's `Guarded` keeps mapped, aligned and
        // initialized. No other code accesses them: parts do not overlap, areas are accessed through guards
        // only, and the latch, in the same memory, excludes the guards of all threads and processes. A
        // poisoned latch is given to no other task.
        unsafe { self.area.as_ref() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above; and `&mut self` borrows the only guard.
        unsafe { self.area.as_mut() }
    }
}
