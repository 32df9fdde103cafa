//! What `reuse` knows of each page, and learns from all of them.
//!
//! - [`Time`] is counted in misses of DRAM, in epochs.
//! - Of each page there is a [`Note`], in which its class is, and of each class a [`Hazard`].
//! - A page must be worth a [`Threshold`] to be written. Work is counted and multiplied by what it costs.
//! - A *share* of each group stays in the ring ([`Share`]).
//! - In the ring, each region's [`Warmth`] is evidence for its pages, as far as [`Forecasts`] prove right.
//!
//! `RING`: with log placement.
//!
//! Invariants: no page's note is older than [`AGE_MAX`](super::note::AGE_MAX) and a half, so ages are not
//! mistaken modulo 1,024: a hand passes over all notes, a few at a time, in eight times as many misses as
//! there are slots, and counts the pages that it meets as watched. Each class is refreshed about eight
//! times in as many misses as there are slots, one class at a time, so no step takes long.

mod region;
mod ring;

use super::super::ghost::{Ghosts, words_for};
use super::super::{Memory, Offer};
use super::forecast::{Forecasts, NO_SAMPLES, SAMPLES, Samples};
use super::hand::Hand;
use super::hazard::{CERTAIN, Hazard};
use super::look::Look;
use super::note::{CLASSES_OF_RING, CLASSES_OF_SLOTS, NEW, Note, number_of};
use super::rewrites::Rewrites;
use super::run::Run;
use super::share::Share;
use super::threshold::Threshold;
use super::time::{EPOCHS, HAND_MISSES, Time};
use super::warmth::{Cooling, NO_WARMTH, WARMTH, Warmth};
use super::work::{Times, Work};
use crate::PageId;
use crate::costs::{Costs, Load};
use crate::pages::Pages;
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::slot::{DIRTY, VALID};
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Of the work so far, one part of so many is forgotten whenever the threshold is adapted.
const WORK_FADES: u32 = 8;
/// In slots: pages that promise fewer uses than a threshold's part of so many do not enter.
const SLOT_PART: u32 = 2;
/// Groups, or victims, whose mean the margin is.
const MARGIN_OF: u64 = 16;
/// In slots a page enters only if it is worth at least this fraction of the margin: both are estimates, and
/// an exchange costs a write.
const WORTH: (u32, u32) = (3, 2);

/// Scalars.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    time: Time,
    /// The count of one use.
    one: u32,
    /// The class that is refreshed next.
    class: u32,
    /// The next note, and the next ghost, that a hand meets.
    note: Hand,
    ghost: Hand,
    /// Slot placement: draws so far.
    drawn: u32,
    /// Slot placement: the run of destages that was begun last.
    run: Run,
    /// Log placement: what is seen of the ring while no group is dequeued.
    look: Look,
    /// Log placement: the least weight of pages that stay.
    stays_from: u32,
    /// Log placement: the share of a group above which `stays_from` grows.
    share: Share,
    /// A running mean. Log placement: of the greatest weight of the pages of a group that left. Slot
    /// placement: of the worth of victims.
    margin: u32,
    /// The least weight of pages that are written.
    threshold: Threshold,
    /// Slots.
    slots: u32,
    /// What the use of a dirty page saves.
    rewrites: Rewrites,
    /// Times of a page.
    times: Times,
    /// Work since the threshold was adapted, and all of it, fading.
    work: Work,
    recent: Work,
    /// How the counters of warmth fade.
    cooling: Cooling,
    /// What part of a forecast follows the region.
    forecasts: Forecasts,
}

const HEAD: SectionPlan = SectionPlan::one::<Head>("evidence");
const HAZARDS_OF_RING: SectionPlan = SectionPlan::many::<Hazard>("classes", |_| CLASSES_OF_RING);
const HAZARDS_OF_SLOTS: SectionPlan = SectionPlan::many::<Hazard>("classes", |_| CLASSES_OF_SLOTS);
/// Two to a word: sections begin at multiples of 4 bytes.
const NOTES: SectionPlan = SectionPlan::many::<u16>("notes", |sizes| sizes.entries().next_multiple_of(2));
const GHOSTS: SectionPlan = SectionPlan::many::<u32>("ghosts", |sizes| words_for(sizes.slots));

/// What pages have in common whose uses are counted together.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    class: u32,
    dirty: bool,
}

/// See the module's header.
pub(crate) struct Evidence<'r, const RING: bool> {
    head: &'r mut Head,
    hazards: &'r mut [Hazard],
    /// By entry of the directory.
    notes: &'r mut [u16],
    ghosts: Ghosts<'r>,
    /// By region.
    warmth: Warmth<'r>,
    samples: Samples<'r>,
}

impl<'r, const RING: bool> Memory<'r> for Evidence<'r, RING> {
    const SECTIONS: &'static [SectionPlan] =
        &[HEAD, Self::HAZARDS, NOTES, GHOSTS, Self::WARMTH, Self::SAMPLES];

    #[inline(always)]
    fn attach(carver: &mut Carver<'r, '_>) -> Option<Self> {
        let (head, hazards) = (carver.take_one()?, carver.take(&Self::HAZARDS)?);
        let (notes, ghosts) = (carver.take(&NOTES)?, Ghosts::attach(&GHOSTS, carver)?);
        let (warmth, samples) =
            (Warmth::attach(&Self::WARMTH, carver)?, Samples::attach(&Self::SAMPLES, carver)?);
        Some(Self { head, hazards, notes, ghosts, warmth, samples })
    }

    fn format(&mut self, sizes: &Sizes) {
        let head = &mut *self.head;
        head.time = Time::of_slots(sizes.slots, Self::CLASSES);
        head.cooling = Cooling::of_slots(sizes.slots);
        head.forecasts = Forecasts::of_slots(sizes.slots);
        head.slots = sizes.slots;
        (head.rewrites, head.look, head.threshold) = (Rewrites::NONE, Look::NONE, Threshold::FIRST);
        (head.stays_from, head.share) = (head.threshold.least(), Share::OF_UNKNOWN_COSTS);
        // Counts fade, so that they stay below eight for each slot.
        head.one = 1 << sizes.slots.leading_zeros().saturating_sub(3).min(8);
        let (first, others) = self.hazards.split_first_mut().expect("there are classes");
        first.begin(head.one);
        first.refresh(head.one, EPOCHS);
        others.fill(*first);
    }
}

/// The margin with one more of those whose mean it is.
fn with_one_more(margin: u32, value: u32) -> u32 {
    ((u64::from(margin) * (MARGIN_OF - 1) + u64::from(value)) / MARGIN_OF) as u32
}

impl<const RING: bool> Evidence<'_, RING> {
    const CLASSES: u32 = if RING { CLASSES_OF_RING } else { CLASSES_OF_SLOTS };
    const HAZARDS: SectionPlan = if RING { HAZARDS_OF_RING } else { HAZARDS_OF_SLOTS };
    const SAMPLES: SectionPlan = if RING { SAMPLES } else { NO_SAMPLES };
    const WARMTH: SectionPlan = if RING { WARMTH } else { NO_WARMTH };

    fn note(&self, entry: u32) -> Note {
        Note(self.notes[entry as usize])
    }

    /// Time advances by one miss.
    #[inline(always)]
    fn tick(&mut self, pages: &Pages<'_>) {
        if self.head.time.pass() {
            self.do_what_is_due(pages);
        }
    }

    #[inline(never)]
    fn do_what_is_due(&mut self, pages: &Pages<'_>) {
        let due = self.head.time.due();
        if due.hands {
            self.move_hands(pages);
            self.warmth.cool(&mut self.head.cooling, HAND_MISSES);
        }
        if due.refresh {
            self.refresh_one();
        }
    }

    /// Limits the ages of the notes, and of the ghosts, that are next, and counts their pages as watched.
    fn move_hands(&mut self, pages: &Pages<'_>) {
        let Head { time, one, slots, .. } = *self.head;
        let part = self.head.note.pass(self.notes.len());
        for (at, note) in (part.start as u32..).zip(&mut self.notes[part]) {
            let limited = Note(*note).refreshed(time.epoch);
            *note = limited.0;
            let entry = (at < slots).then(|| pages.directory.entry(at));
            if let Some(entry) = entry.filter(|entry| entry.has(VALID)) {
                let number = number_of(limited.class(), entry.has(DIRTY));
                self.hazards[number].watched(limited.age(time.epoch), one);
            }
        }
        let part = self.head.ghost.pass(self.ghosts.words());
        self.ghosts.update(part, |note| {
            let limited = Note(note).refreshed(time.epoch);
            let number = number_of(limited.class(), limited.is_dirty());
            self.hazards[number].watched(limited.age(time.epoch), one);
            limited.0
        });
    }

    #[cold]
    fn refresh_one(&mut self) {
        let head = &mut *self.head;
        let hazard = &mut self.hazards[head.class as usize];
        hazard.fade();
        hazard.refresh(head.one, EPOCHS);
        head.class = if head.class + 1 == Self::CLASSES { 0 } else { head.class + 1 };
        if head.class == 0 {
            self.adapt();
        }
    }

    /// What the devices cost; `write_ns`: a page written to flash as the placement does.
    pub(super) fn set_costs(&mut self, costs: &Costs, write_ns: u32, dequeue_read_ns: u32) {
        let head = &mut *self.head;
        let known = if costs.are_known() { u32::MAX } else { 0 };
        if costs.are_known() && head.times.flash_read == 0 {
            head.share.begin(write_ns, costs.disk_read_ns);
        }
        head.times = Times {
            flash_read: costs.flash_read_ns & known,
            dequeue_read: dequeue_read_ns & known,
            flash_write: write_ns & known,
            disk_read: costs.disk_read_ns & known,
            disk_write: costs.disk_write_ns & known,
        };
        head.threshold.set_owners(costs.write_worth_permille);
        head.stays_from = head.stays_from.max(head.threshold.of_owner);
    }

    /// Whether a page is written to flash in much less time than one is read from disk.
    pub(super) fn writes_are_cheap(&self) -> bool {
        let Times { flash_write, disk_read, .. } = self.head.times;
        Share::are_cheap(flash_write, disk_read)
    }

    /// How long the devices have been at work.
    pub(super) fn observe(&mut self, load: Load) {
        self.head.share.observe(load);
    }

    /// Adapts the threshold, and what dirty pages are worth, to what was done since the last time.
    fn adapt(&mut self) {
        let head = &mut *self.head;
        head.rewrites.refresh();
        let work = std::mem::replace(&mut head.work, Work::NONE);
        head.recent.fade(WORK_FADES);
        head.recent.add(&work);
        let (flash, disk) = work.times(&head.times);
        head.threshold.adapt(flash, disk);
        head.stays_from = head.stays_from.max(head.threshold.by_times);
    }

    /// Whether a group of the ring was ever dequeued.
    pub(super) fn has_dequeued(&self) -> bool {
        self.head.look.has_dequeued()
    }

    /// The page of `entry` is fetched.
    #[inline(never)]
    pub(super) fn hit(&mut self, pages: &Pages<'_>, entry: u32) {
        if self.head.time.pass() {
            return self.due_at_hit(pages, entry);
        }
        self.count_hit(pages, entry);
    }

    /// A function of its own, so that a hit at which nothing is due calls nothing.
    #[inline(never)]
    fn due_at_hit(&mut self, pages: &Pages<'_>, entry: u32) {
        self.do_what_is_due(pages);
        self.count_hit(pages, entry);
    }

    #[inline(always)]
    fn count_hit(&mut self, pages: &Pages<'_>, entry: u32) {
        if entry < self.head.slots {
            self.head.work.flash_reads += 1;
        }
        self.fetched(pages.directory.entry(entry).page());
        let dirty = pages.directory.entry(entry).has(DIRTY);
        let note = &mut self.notes[entry as usize];
        *note = Note(*note).used(self.hazards, dirty, self.head.time.epoch, self.head.one).0;
    }

    /// A page that is not in the cache is fetched.
    pub(super) fn miss(&mut self, pages: &Pages<'_>, page: PageId) {
        self.tick(pages);
        self.head.work.disk_reads += 1;
        self.fetched(page);
        let (epoch, one) = (self.head.time.epoch, self.head.one);
        let (place, hazards) = (self.ghosts.place_of(page), &mut *self.hazards);
        self.ghosts.change(place, |note, is_remembered| {
            let note = Note(note);
            note.used(hazards, note.is_dirty(), epoch, one * u32::from(is_remembered)).0
        });
    }

    /// The page of `entry` is evicted from DRAM, which has served its uses up to now.
    pub(super) fn given_up(&mut self, pages: &Pages<'_>, entry: u32, has_changed: bool) {
        // One that has changed is counted when it is staged: it may be offered several times before.
        if pages.directory.entry(entry).has(DIRTY) && !has_changed {
            self.head.rewrites.returned(false);
        }
        let class = self.note(entry).class();
        self.notes[entry as usize] = Note::of(class, self.head.time.epoch, false).0;
        let entry = pages.directory.entry(entry);
        self.may_watch(Kind { class, dirty: has_changed || entry.has(DIRTY) }, entry.page());
    }

    /// A page was staged as `entry`. With an older version in the cache, the note on that is the page's. A
    /// write is no use: it belongs to the fetch before it.
    pub(super) fn staged(&mut self, pages: &Pages<'_>, entry: u32) {
        self.head.work.flash_writes += 1;
        self.notes[entry as usize] = match pages.directory.find_older(entry) {
            Some(older) => {
                if pages.directory.entry(older).has(DIRTY) {
                    self.head.rewrites.returned(true);
                }
                self.notes[older as usize]
            }
            None => {
                let page = pages.directory.entry(entry).page();
                let note = self.ghosts.take(self.ghosts.place_of(page));
                let class = self.class_of(note, page);
                Note::of(class, self.head.time.epoch, false).0
            }
        };
    }

    /// The page of entry `from` is in entry `to`, too.
    pub(super) fn carry(&mut self, from: u32, to: u32) {
        self.notes[to as usize] = self.notes[from as usize];
        if to >= self.head.slots {
            // A second chance: the page is read from its slot, and will be written to another one.
            self.head.work.dequeue_reads += 1;
            self.head.work.flash_writes += 1;
        }
    }

    /// A page is evicted from DRAM, and does not enter.
    pub(super) fn keep_out(&mut self, offer: &Offer) {
        self.head.work.disk_writes += u32::from(offer.dirty);
        let (epoch, dirty) = (self.head.time.epoch, offer.dirty);
        let class = self.class_of(self.ghosts.note(self.ghosts.place_of(offer.page)), offer.page);
        self.remember(offer.page, |_| Note::of(class, epoch, dirty));
    }

    /// The class of a page with this note on its ghost. If it was not used, it is that of its region now.
    fn class_of(&self, ghost: Option<u16>, page: PageId) -> u32 {
        let used = ghost.map(|note| Note(note).class()).filter(|class| *class < NEW);
        used.unwrap_or_else(|| NEW + self.warmth.level(&self.head.cooling, page))
    }

    /// The page in `slot` leaves the flash. If a newer version is staged, it stays in the cache.
    pub(super) fn leave(&mut self, pages: &Pages<'_>, slot: u32) {
        let entry = pages.directory.entry(slot);
        let note = self.note(slot).of_ghost(entry.has(DIRTY));
        if pages.directory.find(entry.page()) == Some(slot) {
            let destaged = u32::from(entry.has(DIRTY));
            self.head.work.dequeue_reads += destaged;
            self.head.work.disk_writes += destaged;
            self.remember(entry.page(), |_| note);
        }
    }

    /// A page becomes a ghost, with a note made from that on its ghost so far. The page whose ghost is given
    /// up for another one was watched up to now.
    #[inline(always)]
    fn remember(&mut self, page: PageId, make: impl FnOnce(Option<Note>) -> Note) {
        let place = self.ghosts.place_of(page);
        if let Some(lost) = self.ghosts.remember(place, |known| make(known.map(Note)).0).map(Note) {
            let age = lost.age(self.head.time.epoch);
            self.hazards[number_of(lost.class(), lost.is_dirty())].lost(age, self.head.one);
        }
    }

    /// Of what kind a page is that is offered and not in the cache.
    pub(super) fn kind_of(&self, offer: &Offer) -> Kind {
        let note = self.ghosts.note(self.ghosts.place_of(offer.page));
        Kind { class: self.class_of(note, offer.page), dirty: offer.dirty }
    }

    /// What is known of pages of a kind.
    fn of_kind(&self, kind: Kind) -> &Hazard {
        &self.hazards[number_of(kind.class, kind.dirty)]
    }

    /// In slots: whether a page that is offered promises too few uses within the horizon. For one that was
    /// used before its rate counts, as it may stay for longer: in a loop longer than the horizon no use comes
    /// in time, but many come later.
    pub(super) fn is_unlikely(&self, offered: Kind) -> bool {
        let hazard = self.of_kind(offered);
        let by_rate = if offered.class == NEW { 0 } else { hazard.value(0) * EPOCHS };
        hazard.chance(0).max(by_rate) < self.head.threshold.by_times / SLOT_PART
    }

    /// The least weight of pages that are written.
    pub(super) fn threshold(&self) -> &Threshold {
        &self.head.threshold
    }

    /// In slots: whether a page that is offered promises fewer uses in time than the owner asks for.
    pub(super) fn is_too_dear(&self, offered: Kind) -> bool {
        self.of_kind(offered).chance(0) < self.head.threshold.of_owner / SLOT_PART
    }

    /// The worth of a page that is offered: its rate of uses, weighed.
    pub(super) fn value_of(&self, offered: Kind) -> u32 {
        self.head.rewrites.weighed(self.of_kind(offered).value(0), offered.dirty)
    }

    /// What is known of the page in `slot`: its class, its age, and whether it is dirty.
    fn of_slot(&self, pages: &Pages<'_>, slot: u32) -> (&Hazard, u32, bool) {
        let (note, dirty) = (self.note(slot), pages.directory.entry(slot).has(DIRTY));
        (&self.hazards[number_of(note.class(), dirty)], note.age(self.head.time.epoch), dirty)
    }

    /// The worth of the page in `slot`: its rate of uses, weighed.
    pub(super) fn value(&self, pages: &Pages<'_>, slot: u32) -> u32 {
        let (hazard, age, dirty) = self.of_slot(pages, slot);
        self.head.rewrites.weighed(hazard.value(age), dirty)
    }

    /// In slots: a victim is worth this.
    pub(super) fn victim_is_worth(&mut self, value: u32) {
        self.head.margin = with_one_more(self.head.margin, value);
    }

    /// In slots: whether a page of this worth is not worth the write that an exchange costs.
    pub(super) fn is_worth_little(&self, value: u32) -> bool {
        value / WORTH.0 * WORTH.1 < self.head.margin
    }

    /// In slots: the number of the next draw.
    pub(super) fn next_draw(&mut self) -> u32 {
        let next = self.head.drawn;
        self.head.drawn = next.wrapping_add(1);
        next
    }

    /// The run of destages that was begun last.
    pub(super) fn run(&mut self) -> &mut Run {
        &mut self.head.run
    }

    /// Takes nothing in the region for granted.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let Head { class, note, ghost, one, stays_from, .. } = *self.head;
        same(|| "the class to be refreshed exists", true, class < Self::CLASSES)?;
        note.check("note", self.notes.len())?;
        ghost.check("ghost", self.ghosts.words())?;
        self.head.time.check()?;
        same(|| "a use counts", true, (1..=256).contains(&one))?;
        same(|| "a possible threshold of staying", true, (1..=2 * CERTAIN).contains(&stays_from))?;
        self.head.threshold.check()?;
        self.head.rewrites.check()?;
        self.head.share.check(self.head.slots)?;
        self.head.look.check(self.head.slots)?;
        self.head.cooling.check(self.warmth.counters())?;
        if RING {
            self.head.forecasts.check(self.samples.places())?;
        }
        self.ghosts.check()
    }
}
