//! SCE, Scalable Cache Engine (Kim et al.: How could a flash cache degrade database performance rather than
//! improve it?, INFLOW 2014, §3): selective population by whole fragments, in the background.
//!
//! ```text
//! heat of a fragment:           its reads, halved from time to time
//! on a read of p:               p's fragment gets warmer; if it is not on flash, it is among the recently read ones
//! on a write of p:              through if p's fragment is mapped, around if not (in `crate::fragments`)
//! a worker is free:             if there is credit: populate the hottest of the recently read fragments,
//!                               into a free place, or in place of a fragment that is clearly colder
//! credit:                       grows with each access, faster while the hit rate is low and much of the flash is free
//! ```
//!
//! Deviations: the paper says "access recency and frequency", "hottest of the most recently accessed", "more
//! aggressively when the cache hit-rate is low and there is a lot of free space", and gives no numbers. Ours:
//!
//! - The candidate is the hottest of the last 256 different fragments that were read and not found, with at
//!   least [`HEAT_MIN`] reads.
//! - Heats are halved when each fragment of the volume has been read [`COOLING`] times on average.
//! - Pace = most × (1 − hit rate) × (1/8 + 7/8 × free share).
//! - Writes give no heat: with write-around, flash would save nothing.
//! - The victim is the coldest of the next [`LOOKED_AT`] fragments after a circulating hand. It is evicted
//!   only if the candidate is half as hot again. (The paper does not say how fragments are evicted.)
//! - Time is counted in accesses, so there is no clock.

use crate::PageId;
use crate::fragments::{FragmentId, Fragments, MAPPED, NONE, RECENT, UNMAPPED};

/// What a population costs, in credit.
pub(crate) const PRICE: u32 = 1000 << 16;
/// Most credit saved up, in populations: workers that were busy may catch up by no more.
const SAVED_MAX: u32 = 4;
/// Remembered reads that make a fragment worth a population.
const HEAT_MIN: u32 = 2;
/// Reads of each fragment of the volume, on average, after which heats are halved.
const COOLING: u32 = 64;
/// Fragments on flash that are searched for a victim.
const LOOKED_AT: u32 = 32;
/// A hit rate of 1.
const ONE: u32 = 1 << 16;
/// Reads covered by the running hit rate: 2 to the power of this.
const MEMORY_SHIFT: u32 = 10;

impl Fragments<'_> {
    fn coolings(&self) -> u8 {
        self.head.coolings as u8
    }

    fn heat_of(&self, fragment: FragmentId) -> u32 {
        self.map[fragment.0 as usize].heat(self.coolings())
    }

    /// A page of `fragment` is read, and found on flash or not.
    pub(crate) fn on_read(&mut self, fragment: FragmentId, found: bool) {
        let coolings = self.coolings();
        let warmer = self.heat_of(fragment) + 1;
        self.map[fragment.0 as usize].set_heat(warmer, coolings);
        self.cool();
        let towards = if found { ONE } else { 0 };
        let step = (i64::from(towards) - i64::from(self.head.hit_rate)) / (1 << MEMORY_SHIFT);
        self.head.hit_rate = (i64::from(self.head.hit_rate) + step) as u32;
        if self.map[fragment.0 as usize].slot == UNMAPPED {
            self.remember(fragment);
        }
        self.earn();
    }

    /// A page is written, through or around.
    pub(crate) fn on_write(&mut self, page: PageId, through: bool) {
        self.note_decision(!(page.0 << 1 | u64::from(through)));
        self.earn();
    }

    pub(crate) fn hit_rate(&self) -> f64 {
        f64::from(self.head.hit_rate) / f64::from(ONE)
    }

    /// Halves all heats when it is time, and updates one entry per read, before its byte could no longer
    /// count the halvings.
    fn cool(&mut self) {
        let (fragments, coolings) = (self.map.len() as u32, self.coolings());
        let at = (self.head.reads % fragments) as usize;
        let heat = self.map[at].heat(coolings);
        self.map[at].set_heat(heat, coolings);
        self.head.reads += 1;
        if self.head.reads >= COOLING.saturating_mul(fragments) {
            self.head.reads = 0;
            self.head.coolings = self.head.coolings.wrapping_add(1);
        }
    }

    /// Puts `fragment` among the recently read ones, in the place of the oldest.
    fn remember(&mut self, fragment: FragmentId) {
        let at = self.head.recent_next as usize;
        let oldest = std::mem::replace(&mut self.recent[at], fragment.0);
        if oldest != NONE {
            self.map[oldest as usize].slot = UNMAPPED;
        }
        self.map[fragment.0 as usize].slot = RECENT;
        self.head.recent_next = if at + 1 == self.recent.len() { 0 } else { at as u32 + 1 };
    }

    /// An access earns credit.
    fn earn(&mut self) {
        let free = self.head.slots - self.head.mapped - self.head.populating;
        let free = (u64::from(free) << 16) / u64::from(self.head.slots);
        let room = u64::from(ONE / 8) + free * 7 / 8;
        let missing = u64::from(ONE - self.head.hit_rate);
        let earned = u64::from(self.head.pace_permille) * ((missing * room) >> 16);
        self.head.credit = (self.head.credit + earned as u32).min(SAVED_MAX * PRICE);
    }

    /// A population is begun.
    pub(crate) fn charge(&mut self) {
        self.head.credit -= PRICE;
    }

    /// The hottest of the recently read fragments, if there is credit for a population.
    pub(crate) fn candidate(&self) -> Option<FragmentId> {
        if self.head.credit < PRICE {
            return None;
        }
        let recent = self.recent.iter().filter(|at| **at != NONE).map(|at| FragmentId(*at));
        let busy = |fragment: &FragmentId| self.map[fragment.0 as usize].writes() > 0;
        let still = recent.filter(|fragment| !busy(fragment));
        let hottest = still.max_by_key(|fragment| (self.heat_of(*fragment), std::cmp::Reverse(*fragment)))?;
        (self.heat_of(hottest) >= HEAT_MIN).then_some(hottest)
    }

    /// A free place for `fragment`, which is removed from the recent ones if it gets one.
    pub(crate) fn room_for(&mut self, fragment: FragmentId) -> Option<u32> {
        if self.head.free_first == NONE {
            let victim = self.colder_than(self.heat_of(fragment))?;
            self.note_decision(!u64::from(victim));
            self.evict(victim);
        }
        let at = self.recent.iter().position(|at| *at == fragment.0)?;
        self.recent[at] = NONE;
        Some(self.head.free_first)
    }

    /// The coldest of the next fragments on flash, if it is clearly colder than `heat`.
    fn colder_than(&mut self, heat: u32) -> Option<u32> {
        let looked_at = LOOKED_AT.min(self.head.slots);
        let slots = (0..looked_at).map(|step| (self.head.hand + step) % self.head.slots);
        let heat_at = |slot: &u32| self.heat_of(FragmentId(self.descriptors[*slot as usize].fragment));
        let idle = |slot: &u32| {
            let descriptor = &self.descriptors[*slot as usize];
            descriptor.state() == MAPPED && self.map[descriptor.fragment as usize].writes() == 0
        };
        let coldest = slots.filter(idle).min_by_key(|slot| (heat_at(slot), *slot));
        let coldest = coldest.map(|slot| (slot, heat_at(&slot)));
        self.head.hand = (self.head.hand + looked_at) % self.head.slots;
        coldest.filter(|(_, cold)| heat > cold + cold / 2).map(|(slot, _)| slot)
    }
}
