//! The invariants of a partition, part by part. Asserted after every step by tests and, in debug builds, by
//! the engine; and by whoever inherits a region from a process that died while it held the latch. So nothing
//! in the region is taken on trust here: any bytes give a verdict, never a panic or a search without end. A
//! part is checked before those that rely on it.

mod directory;
mod lists;
mod ring;
mod slots;
mod staging;

use crate::contents::Contents;
use crate::partition::{Partition, Place};
use crate::policy::{Policy, ask};
use crate::violation::Violation;

impl Partition<'_> {
    /// Verifies every invariant of the directory. Takes time proportional to the number of slots.
    ///
    /// # Errors
    /// The first invariant that is found broken.
    pub fn check(&self) -> Result<(), Violation> {
        let Contents { staging, pages, policy, .. } = &self.contents;
        match &self.place {
            Place::Ring(ring) => {
                ring::positions(ring, staging)?;
                staging::check(staging)?;
                ring::dequeues(ring, staging)?;
                directory::check(&pages.directory, staging, |slot| ring.position_of(slot) + 1)?;
                ring::slots(ring, staging, &pages.directory)?;
                ring::groups(ring, staging)
            }
            Place::Slots(slots) => {
                staging::check(staging)?;
                // A slot is older than anything staged.
                directory::check(&pages.directory, staging, |_| 0)?;
                lists::check(pages, self.config().lists(), slots.in_sets)?;
                slots::check(slots, pages)?;
                ask!(policy, P, memory => P::check(pages, memory))
            }
        }
    }
}
