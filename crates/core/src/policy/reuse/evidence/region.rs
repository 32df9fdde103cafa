//! What pages promise in the ring, by their class and by their region.

use super::super::Offer;
use super::super::forecast::Forecast;
use super::super::note::NEW;
use super::super::time::EPOCHS;
use super::{Evidence, Kind};
use crate::PageId;
use crate::pages::Pages;

/// Of a group that is reviewed, each so many pages one may be watched.
const ONE_IN: usize = 6;

impl<const RING: bool> Evidence<'_, RING> {
    /// A page is fetched: regions and forecasts learn from it.
    #[inline(always)]
    pub(super) fn fetched(&mut self, page: PageId) {
        if RING {
            self.head.forecasts.fetched(&mut self.samples, page, self.head.time.epoch);
            self.warmth.warm(page);
        }
    }

    /// What a page promises that is offered.
    fn forecast_of(&self, offered: Kind, page: PageId) -> Forecast {
        let by_class = self.of_kind(offered).promised(offered.class >= NEW, 0, EPOCHS);
        Forecast {
            by_class,
            by_region: self.warmth.promised(&self.head.cooling, page).unwrap_or(by_class),
            dirty: offered.dirty,
            held: false,
        }
    }

    /// A page is evicted from DRAM. It may become a sample.
    #[inline(always)]
    pub(super) fn may_watch(&mut self, offered: Kind, page: PageId) {
        if RING && self.head.forecasts.wants() {
            let forecast = self.forecast_of(offered, page);
            self.head.forecasts.watch(&mut self.samples, page, forecast, self.head.time.epoch);
        }
    }
}

impl Evidence<'_, true> {
    /// What the page in `slot` promises.
    fn forecast(&self, pages: &Pages<'_>, slot: u32) -> Forecast {
        let (hazard, age, dirty) = self.of_slot(pages, slot);
        let page = pages.directory.entry(slot).page();
        let by_class = hazard.promised(self.note(slot).class() >= NEW, age, EPOCHS);
        Forecast {
            by_class,
            by_region: self.warmth.promised(&self.head.cooling, page).unwrap_or(by_class),
            dirty,
            held: true,
        }
    }

    /// Some of these slots' pages become samples.
    pub(super) fn watch_some(&mut self, pages: &Pages<'_>, slots: impl Iterator<Item = u32>) {
        let first = self.head.time.epoch as usize % ONE_IN;
        for slot in slots.skip(first).step_by(ONE_IN) {
            let (forecast, page) = (self.forecast(pages, slot), pages.directory.entry(slot).page());
            self.head.forecasts.watch(&mut self.samples, page, forecast, self.head.time.epoch);
        }
    }

    /// In the ring: the uses that a page that is offered promises, weighed.
    pub(in super::super) fn weight_of(&mut self, offer: &Offer) -> u32 {
        let offered = self.kind_of(offer);
        self.may_watch(offered, offer.page);
        let uses = self.head.forecasts.of(self.forecast_of(offered, offer.page));
        self.head.rewrites.weighed(uses, offer.dirty)
    }

    /// In the ring: the uses that the page in `slot` promises, weighed. After a restart the ring is full of
    /// pages of which nothing is known. To keep them would only cost writes, so new ones promise nothing in
    /// the first epoch.
    pub(in super::super) fn weight(&self, pages: &Pages<'_>, slot: u32) -> u32 {
        if self.head.time.epoch == 0 && self.note(slot).class() >= NEW {
            return 0;
        }
        let forecast = self.forecast(pages, slot);
        self.head.rewrites.weighed(self.head.forecasts.of(forecast), forecast.dirty)
    }
}
