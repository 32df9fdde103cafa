//! What part of a page's forecast follows its region, and not its class.
//!
//! Whether neighbours are popular alike differs by load, so it is learned. Of some pages it is kept what
//! their class and their region promised, and seen whether they were used within a turn. With the outcome
//! `o`, the class's forecast `p`, and the region's `q`, the part of least squares is the sum of
//! (o - p) (q - p), divided by that of (q - p)². It is learned apart for clean and dirty pages, and for those
//! that are offered and those that the ring holds: the latter have an age, which their class knows, and
//! their region does not.
//!
//! A page's place in the table of samples follows from its hash. Even places are for pages that are offered,
//! odd ones for those in the ring, so neither keeps the others out.

use super::hazard::CERTAIN;
use super::time::EPOCHS;
use crate::PageId;
use crate::hash::bucket_of;
use crate::sections::{Carver, SectionPlan};
use crate::violation::{Violation, same};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Pages that are watched at a time. More would cost memory; with fewer the part would be a matter of chance.
const SAMPLES_MAX: u32 = 512;
/// 1 as a part.
const WHOLE: i32 = 1 << 12;
/// Probabilities are divided by this, so that sums of their products have 32 bits.
const COARSE: i32 = 128;
/// Sums lose one part in so many with each sample.
const FADES: i32 = 1024;
/// What is assumed beforehand: the part of clean pages, and of dirty ones. What was changed of late is used
/// again soon or never, whatever its neighbours do.
const BEFOREHAND: [i32; 2] = [WHOLE * 3 / 5, WHOLE / 5];
/// That counts like some 490 samples whose two forecasts differ by a quarter. With less, the part is noise in
/// small caches, where nearly all forecasts are small.
const TRUST: i32 = 8_000_000;
/// Sums of squares are less than this: each is at most 2^18.
const SPREAD_MAX: i32 = 1 << 30;

/// In the ring.
pub(super) const SAMPLES: SectionPlan =
    SectionPlan::many::<Sample>("samples", |sizes| sizes.slots.clamp(1, SAMPLES_MAX));
/// In slots there is none.
pub(super) const NO_SAMPLES: SectionPlan = SectionPlan::many::<Sample>("samples", |_| 0);

/// A page whose use is awaited. Zeroed: none.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Sample {
    /// Of its page: two pages of one place have hardly ever the same.
    tag: u32,
    /// The low bits of the epoch from which on it is watched: for a turn.
    epoch: u16,
    by_class: u16,
    by_region: u16,
    /// One more than the number of its kind; or 0.
    kind: u16,
}

impl Sample {
    /// Epochs since it is watched.
    fn age(&self, epoch: u32) -> u32 {
        (epoch as u16).wrapping_sub(self.epoch).into()
    }
}

/// The table of samples.
pub(super) struct Samples<'r>(&'r mut [Sample]);

impl<'r> Samples<'r> {
    #[inline(always)]
    pub fn attach(plan: &SectionPlan, carver: &mut Carver<'r, '_>) -> Option<Self> {
        carver.take(plan).map(Self)
    }

    pub fn places(&self) -> usize {
        self.0.len()
    }
}

/// What is promised of a page.
#[derive(Clone, Copy)]
pub(super) struct Forecast {
    pub by_class: u32,
    pub by_region: u32,
    pub dirty: bool,
    /// The page is in the ring, and not offered.
    pub held: bool,
}

impl Forecast {
    fn kind(&self) -> usize {
        usize::from(self.dirty) + 2 * usize::from(self.held)
    }
}

/// See the module's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Part {
    products: i32,
    squares: i32,
    part: i32,
}

/// Scalars.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Forecasts {
    /// By kind.
    parts: [Part; 4],
    /// Misses until the next place is looked at; from one to the next.
    left: u32,
    every: u32,
    /// The place that was looked at last.
    place: u32,
    /// Whether a page that is offered may be watched.
    wants: u32,
}

impl Forecasts {
    pub fn of_slots(slots: u32) -> Self {
        let part = |kind: usize| Part { products: 0, squares: 0, part: BEFOREHAND[kind % 2] };
        let every = (slots / SAMPLES_MAX).max(1);
        Self { parts: std::array::from_fn(part), left: every, every, place: 0, wants: 0 }
    }

    /// What both promise.
    #[inline(always)]
    pub fn of(&self, forecast: Forecast) -> u32 {
        let (class, region) = (i64::from(forecast.by_class), i64::from(forecast.by_region));
        let part = i64::from(self.parts[forecast.kind()].part);
        (class + (region - class) * part / i64::from(WHOLE)) as u32
    }

    /// A page is fetched, the next miss of DRAM.
    #[inline(always)]
    pub fn fetched(&mut self, samples: &mut Samples<'_>, page: PageId, epoch: u32) {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            self.left = self.every;
            self.look(samples, epoch);
        }
        let place = bucket_of(page.0, samples.places());
        let sample = samples.0[place];
        if sample.tag == tag_of(page) && sample.kind > 0 {
            samples.0[place].kind = 0;
            self.learn(&sample, sample.age(epoch) < EPOCHS);
        }
    }

    /// Looks whether a page at the next place was not used for a turn.
    #[inline(never)]
    fn look(&mut self, samples: &mut Samples<'_>, epoch: u32) {
        self.place = if self.place as usize + 1 < samples.places() { self.place + 1 } else { 0 };
        self.wants = 1;
        let sample = samples.0[self.place as usize];
        if sample.kind > 0 && sample.age(epoch) >= EPOCHS {
            samples.0[self.place as usize].kind = 0;
            self.learn(&sample, false);
        }
    }

    /// Whether a page that is offered may be watched.
    #[inline(always)]
    pub fn wants(&self) -> bool {
        self.wants > 0
    }

    /// Watches the page from now on, if its place is for pages like it, and empty.
    pub fn watch(&mut self, samples: &mut Samples<'_>, page: PageId, forecast: Forecast, epoch: u32) {
        let place = bucket_of(page.0, samples.places());
        let sample = &mut samples.0[place];
        if sample.kind > 0 || (place % 2 == 1) != forecast.held {
            return;
        }
        let [by_class, by_region] =
            [forecast.by_class, forecast.by_region].map(|uses| uses.min(CERTAIN - 1) as u16);
        let (tag, epoch, kind) = (tag_of(page), epoch as u16, 1 + forecast.kind() as u16);
        *sample = Sample { tag, epoch, by_class, by_region, kind };
        if !forecast.held {
            self.wants = 0;
        }
    }

    fn learn(&mut self, sample: &Sample, is_used: bool) {
        let [by_class, by_region] = [sample.by_class, sample.by_region].map(i32::from);
        let outcome = if is_used { CERTAIN as i32 - 1 } else { 0 };
        let (error, apart) = ((outcome - by_class) / COARSE, (by_region - by_class) / COARSE);
        let kind = (sample.kind as usize - 1) % self.parts.len();
        let part = &mut self.parts[kind];
        part.products += error * apart - part.products / FADES;
        part.squares += apart * apart - part.squares / FADES;
        let beforehand = i64::from(TRUST) * i64::from(BEFOREHAND[kind % 2]);
        let products = i64::from(part.products) * i64::from(WHOLE) + beforehand;
        let learned = products / (i64::from(part.squares) + i64::from(TRUST));
        part.part = learned.clamp(0, WHOLE.into()) as i32;
    }

    /// Takes nothing in the region for granted.
    pub fn check(&self, places: usize) -> Result<(), Violation> {
        let possible = |part: &Part| {
            (0..=WHOLE).contains(&part.part)
                && (0..=SPREAD_MAX).contains(&part.squares)
                && part.products.unsigned_abs() <= SPREAD_MAX as u32
        };
        same(|| "possible parts of regions", true, self.parts.iter().all(possible))?;
        same(|| "a place is looked at in time", true, (1..=self.every).contains(&self.left))?;
        same(
            || "the place that was looked at exists",
            true,
            self.place == 0 || (self.place as usize) < places,
        )
    }
}

fn tag_of(page: PageId) -> u32 {
    (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    const SLOTS: u32 = 1024;

    /// What is promised of a page of each kind, clean ones first, after 200 turns in which such pages were
    /// used, or not. By its class it is used with the probability of a quarter, by its region with none.
    fn after(is_used: bool) -> [u32; 4] {
        let mut table = vec![Sample::new_zeroed(); SAMPLES_MAX as usize];
        let (mut samples, mut forecasts) = (Samples(&mut table), Forecasts::of_slots(SLOTS));
        let kinds = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(dirty, held)| Forecast { by_class: CERTAIN / 4, by_region: 0, dirty, held });
        let mut page = 0;
        for miss in 0..200 * SLOTS {
            let epoch = miss / (SLOTS / EPOCHS);
            page += 1;
            let of = kinds[page as usize % 4];
            if of.held || forecasts.wants() {
                forecasts.watch(&mut samples, PageId::new(0, page), of, epoch);
            }
            let used = if is_used { page } else { u32::MAX };
            forecasts.fetched(&mut samples, PageId::new(0, used), epoch);
            forecasts.check(samples.places()).unwrap();
        }
        kinds.map(|of| forecasts.of(of))
    }

    #[test]
    fn a_forecast_follows_whichever_was_right() {
        let beforehand = Forecasts::of_slots(SLOTS);
        let of = |dirty| beforehand.of(Forecast { by_class: CERTAIN, by_region: 0, dirty, held: false });
        assert_eq!([of(false), of(true)].map(|uses| (uses * 5 + CERTAIN / 2) / CERTAIN), [2, 4]);
        let (unused, used) = (after(false), after(true));
        for kind in 0..4 {
            assert!(unused[kind] < CERTAIN / 14, "kind {kind}: {unused:?}");
            assert!(used[kind] > CERTAIN / 5, "kind {kind}: {used:?}");
        }
    }

    #[test]
    fn a_use_after_more_than_a_turn_is_none() {
        let mut table = [Sample::new_zeroed(); 2];
        let page = (0..).map(|page| PageId::new(0, page)).find(|page| bucket_of(page.0, 2) == 0).unwrap();
        let forecast = Forecast { by_class: CERTAIN / 2, by_region: 0, dirty: false, held: false };
        let products = [EPOCHS - 1, EPOCHS].map(|epoch| {
            let (mut samples, mut forecasts) = (Samples(&mut table), Forecasts::of_slots(SLOTS));
            forecasts.watch(&mut samples, page, forecast, 0);
            forecasts.fetched(&mut samples, page, epoch);
            forecasts.parts[0].products
        });
        assert!(products[0] < 0 && products[1] > 0, "{products:?}");
    }
}
