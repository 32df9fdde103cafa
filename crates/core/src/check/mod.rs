//! The invariants of a partition, part by part. Tests and, in debug builds, the engine assert them after
//! every step. A process that takes over a region from one that died with the latch asserts them too. So the
//! check trusts nothing in the region: any bytes give a result, never a panic or an endless loop. A part is
//! checked before the parts that rely on it.

mod directory;
mod lists;
mod ring;
mod slots;
mod staging;

use crate::contents::Contents;
use crate::partition::Partition;
use crate::placement::{Log, Slots};
use crate::policy::{Policy, ask};
use crate::violation::Violation;

impl Partition<'_> {
    /// Verifies every invariant of the directory. Takes time proportional to the number of slots.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check(&self) -> Result<(), Violation> {
        let Contents { staging, pages, policy, .. } = self.contents();
        match self {
            Partition::Log(Log { ring, .. }) => {
                ring::positions(ring, staging)?;
                staging::check(staging)?;
                ring::records(ring, staging)?;
                ring::dequeues(ring, staging)?;
                ring::cleanings(ring, staging)?;
                directory::check(&pages.directory, staging, |slot| ring.position_of(slot) + 1)?;
                ring::slots(ring, staging, &pages.directory)?;
                ring::groups(ring, staging)?;
                ask!(policy, P, memory => P::check(pages, memory))
            }
            Partition::Slots(Slots { table, .. }) => {
                staging::check(staging)?;
                // A page in a slot is older than all staged ones.
                directory::check(&pages.directory, staging, |_| 0)?;
                lists::check(pages, self.config().lists(), table.in_sets)?;
                slots::check(table, pages)?;
                ask!(policy, P, memory => P::check(pages, memory))
            }
        }
    }
}
