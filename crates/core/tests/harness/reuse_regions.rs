//! The naive form of what `reuse` learns of regions of 32 pages in the ring, and of how far they are right.

use super::orders::place;
use super::reuse_evidence::CERTAIN;
use entresol_core::PageId;

/// What a sample was promised.
#[derive(Clone, Copy)]
pub struct Forecast {
    pub by_class: u64,
    pub by_region: u64,
    pub dirty: bool,
    pub held: bool,
}

impl Forecast {
    fn kind(&self) -> usize {
        usize::from(self.dirty) + 2 * usize::from(self.held)
    }
}

/// A page whose use is awaited, since this epoch.
#[derive(Clone, Copy)]
struct Sample {
    page: PageId,
    epoch: u64,
    forecast: Forecast,
}

/// The sums of least squares, and what follows: in 4096ths.
struct Part {
    beforehand: i64,
    products: i64,
    squares: i64,
}

impl Part {
    fn part(&self) -> i64 {
        let trust = 8_000_000;
        let part = (self.products * 4096 + trust * self.beforehand) / (self.squares + trust);
        part.clamp(0, 4096)
    }
}

pub struct Regions {
    slots: u64,
    /// Fetches of the regions with this place, eight for each, fading.
    counts: Vec<u64>,
    fades_next: usize,
    /// All misses, fading.
    seen: u64,
    /// By place.
    samples: Vec<Option<Sample>>,
    looked_at: usize,
    until_look: u64,
    wants: bool,
    /// Clean and dirty pages that are offered, and those in the ring.
    parts: [Part; 4],
}

impl Regions {
    pub fn new(slots: u64) -> Self {
        let part = |beforehand| Part { beforehand, products: 0, squares: 0 };
        Self {
            slots,
            counts: vec![0; 2 * slots as usize],
            fades_next: 0,
            seen: 0,
            samples: vec![None; slots.clamp(1, 512) as usize],
            looked_at: 0,
            until_look: Self::every(slots),
            wants: false,
            parts: [part(2457), part(819), part(2457), part(819)],
        }
    }

    fn every(slots: u64) -> u64 {
        (slots / 512).max(1)
    }

    /// Uses of a page of the region in a turn, in units of 2^-14.
    fn rate(&self, page: PageId) -> u64 {
        let count = self.counts[place(page.0 >> 5, 2 * self.slots) as usize];
        count * self.slots * 512 / (8 * self.seen.max(self.slots / 4).max(1))
    }

    /// Octaves of the rate above a 128th of a use in a turn.
    pub fn level(&self, page: PageId) -> usize {
        (self.rate(page) / 128).max(1).ilog2().min(11) as usize
    }

    /// `None`: in the first turn.
    pub fn promised(&self, page: PageId) -> Option<u64> {
        let rate = self.rate(page);
        (self.seen >= self.slots).then(|| rate * CERTAIN / (rate + (1 << 14)))
    }

    /// 64 misses have passed.
    pub fn cool(&mut self) {
        self.seen += 64;
        for _ in 0..64 {
            let count = &mut self.counts[self.fades_next];
            *count -= (*count + 32) / 64;
            self.fades_next = (self.fades_next + 1) % self.counts.len();
            if self.fades_next == 0 {
                self.seen -= self.seen / 64;
            }
        }
    }

    pub fn fetched(&mut self, page: PageId, now: u64) {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = Self::every(self.slots);
            self.looked_at = (self.looked_at + 1) % self.samples.len();
            self.wants = true;
            if let Some(sample) = self.samples[self.looked_at].take_if(|sample| now - sample.epoch >= 32) {
                self.learn(&sample.forecast, false);
            }
        }
        let at = place(page.0, self.samples.len() as u64) as usize;
        if let Some(sample) = self.samples[at].take_if(|sample| sample.page == page) {
            self.learn(&sample.forecast, now - sample.epoch < 32);
        }
        let count = &mut self.counts[place(page.0 >> 5, 2 * self.slots) as usize];
        *count = (*count + 8).min(u16::MAX.into());
    }

    /// Whether a page that is offered may become a sample.
    pub fn wants(&self) -> bool {
        self.wants
    }

    pub fn watch(&mut self, page: PageId, forecast: Forecast, now: u64) {
        let at = place(page.0, self.samples.len() as u64) as usize;
        if self.samples[at].is_some() || (at % 2 == 1) != forecast.held {
            return;
        }
        let [by_class, by_region] = [forecast.by_class, forecast.by_region].map(|uses| uses.min(CERTAIN - 1));
        self.samples[at] =
            Some(Sample { page, epoch: now, forecast: Forecast { by_class, by_region, ..forecast } });
        self.wants &= forecast.held;
    }

    fn learn(&mut self, forecast: &Forecast, is_used: bool) {
        let outcome = if is_used { CERTAIN as i64 - 1 } else { 0 };
        let (by_class, by_region) = (forecast.by_class as i64, forecast.by_region as i64);
        let (error, apart) = ((outcome - by_class) / 128, (by_region - by_class) / 128);
        let part = &mut self.parts[forecast.kind()];
        part.products += error * apart - part.products / 1024;
        part.squares += apart * apart - part.squares / 1024;
    }

    /// What both promise.
    pub fn mixed(&self, forecast: &Forecast) -> u64 {
        let (by_class, by_region) = (forecast.by_class as i64, forecast.by_region as i64);
        (by_class + (by_region - by_class) * self.parts[forecast.kind()].part() / 4096) as u64
    }
}
