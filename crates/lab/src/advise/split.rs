//! The purchases for a budget: DRAM alone, or less of it with flash (3LA §4, formulas 2 and 3).
//!
//! Invariant: whatever is bought for one budget costs at most that; directory entries of the flash are in the
//! DRAM that is bought, and are paid for.

use super::question::Question;
use crate::cost::{EquiCost, Layers};
use crate::replay::Workload;
use crate::replay::device::DeviceSpec;
use entresol_core::{Cache, bytes_per_slot};

/// Flash sizes that are tried, in per cent of the trace's pages. More than all: log placement keeps old
/// versions for a while.
const FLASH_PERCENTS: [f64; 7] = [2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 115.0];
/// DRAM is never made smaller than this share of the trace's pages …
const DRAM_SHARE_MIN: f64 = 0.001;
/// … nor than so many pages: a database does not run on less ("extreme cases should be avoided", 3LA §4.2).
const DRAM_PAGES_MIN: f64 = 16.0;
/// Bytes of DRAM for a fragment of 1 MiB (SCE §3.3).
const FRAGMENT_ENTRY_BYTES: f64 = 76.0;
/// Bytes of DRAM that caches which are their own translation layer are taken to need for a page of flash: as
/// FaCE's.
const DIRECTORY_BYTES: f64 = 16.0;
/// Most slots of a cache.
const FLASH_PAGES_MAX: f64 = (1u32 << 27) as f64;

/// Prices and sizes of one trace on one machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Market {
    /// Price of a page of DRAM.
    pub dram_page: f64,
    /// Pages of the trace.
    pub pages: f64,
    page_bytes: f64,
}

impl Market {
    pub fn of(trace: Workload<'_>, question: &Question) -> Self {
        let page_bytes = f64::from(trace.page_bytes());
        Self {
            dram_page: question.base.memory.price_per_gb * page_bytes / 1e9,
            pages: trace.pages() as f64,
            page_bytes,
        }
    }

    /// Price of a page of `device`.
    pub fn flash_page(&self, device: &DeviceSpec) -> f64 {
        device.price_per_gb.expect("questions without prices are refused") * self.page_bytes / 1e9
    }

    /// Least DRAM that makes sense, pages.
    pub fn dram_min(&self) -> f64 {
        (self.pages * DRAM_SHARE_MIN).max(DRAM_PAGES_MIN).min(self.pages).ceil()
    }

    fn equi_cost(&self, cache: Cache, device: &DeviceSpec) -> EquiCost {
        let directory = match cache {
            Cache::Policy(policy) => bytes_per_slot(policy) as f64,
            Cache::Fragments => FRAGMENT_ENTRY_BYTES * self.page_bytes / f64::from(1 << 20),
            Cache::Blocks(_) => DIRECTORY_BYTES,
        };
        EquiCost {
            price_ratio: self.flash_page(device) / self.dram_page,
            directory_bytes: directory,
            page_bytes: self.page_bytes,
        }
    }

    /// DRAM alone for the money of `b` pages of DRAM: never more than the trace has pages.
    pub fn dram_alone(&self, b: f64) -> Layers {
        Layers { dram_pages: b.min(self.pages).floor() as u32, flash_pages: 0 }
    }

    /// DRAM with `flash_pages` for the money of `b` pages of DRAM, if enough of it is left.
    pub fn beside(&self, b: f64, flash_pages: u32, cache: Cache, device: &DeviceSpec) -> Option<Layers> {
        let left = self.equi_cost(cache, device).dram_left(b, f64::from(flash_pages)).floor();
        (left >= self.dram_min() && flash_pages > 0)
            .then(|| Layers { dram_pages: left.min(self.pages) as u32, flash_pages })
    }

    /// The splits of `b` that are tried.
    pub fn splits(&self, b: f64, cache: Cache, device: &DeviceSpec) -> Vec<Layers> {
        let size = |percent: &f64| (self.pages * percent / 100.0).min(FLASH_PAGES_MAX).round() as u32;
        FLASH_PERCENTS.iter().filter_map(|percent| self.beside(b, size(percent), cache, device)).collect()
    }

    /// What layers cost.
    pub fn money(&self, layers: Layers, device: &DeviceSpec) -> f64 {
        f64::from(layers.dram_pages) * self.dram_page
            + f64::from(layers.flash_pages) * self.flash_page(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::device::Catalogue;
    use entresol_core::PolicyKind;

    #[test]
    fn no_split_costs_more_than_its_budget() {
        let market = Market { dram_page: 19.11 * 8192.0 / 1e9, pages: 50_000.0, page_bytes: 8192.0 };
        let device = Catalogue::builtin().flash("3la-flash").expect("built in").clone();
        let cache = Cache::Policy(PolicyKind::FaceGsc);
        let mut seen = 0;
        for b in [20.0, 500.0, 1000.0, 4000.0, 49_000.0] {
            for layers in market.splits(b, cache, &device) {
                let directory = f64::from(layers.flash_pages) * 16.0 / 8192.0 * market.dram_page;
                let paid = market.money(layers, &device) + directory;
                assert!(paid <= b * market.dram_page * (1.0 + 1e-12), "{b} {layers:?}");
                assert!(paid > (b - 1.0001) * market.dram_page, "{b} {layers:?}: money is left");
                assert!(f64::from(layers.dram_pages) >= market.dram_min());
                seen += 1;
            }
        }
        assert!(seen > 10, "{seen}");
        assert_eq!(market.dram_alone(1e9).dram_pages, 50_000);
    }
}
