//! What is asked, and what cannot be.

use crate::replay::device::DeviceSpec;
use crate::replay::{RunConfig, SimulationError};
use entresol_core::Cache;
use thiserror::Error;

/// What the best configuration is best at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The shortest mean response for so much money, in the currency of the prices.
    Budget(f64),
    /// The cheapest whose mean response is at most so many microseconds.
    Response(f64),
    /// The cheapest whose mean response is within 10 % of the shortest that was found, without what first
    /// reads take.
    Knee,
}

/// A question.
#[derive(Clone, Debug)]
pub struct Question {
    /// Everything that is not searched: disk, memory, clients, the part of the trace. What lies between, its
    /// mode and the sizes are replaced.
    pub base: RunConfig,
    /// Flash devices to choose from.
    pub flash_devices: Vec<DeviceSpec>,
    /// Policies to choose from; no flash at all is always considered.
    pub caches: Vec<Cache>,
    /// What is wanted.
    pub goal: Goal,
    /// A flash device that is worn out sooner, in years, is not advised.
    pub years_min: f64,
    /// Bytes of the database that is to be bought for, at least the trace's pages; `None`: as large as these.
    /// Sizes and money, asked and answered, are the database's. The replay is the trace's: layers have the
    /// same share of the pages, and as many references come.
    pub database_bytes: Option<f64>,
}

/// A question that has no answer.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum AdviceError {
    /// A device without a price.
    #[error("{device} has no price; give it price_per_gb in the file of prices")]
    NoPrice {
        /// The device.
        device: String,
    },
    /// Prices that cannot be compared.
    #[error(
        "{device} is priced in {found} and the memory in {expected}; give both in one currency in the file of prices"
    )]
    Currencies {
        /// The device.
        device: String,
        /// Its currency.
        found: String,
        /// The memory's.
        expected: String,
    },
    /// Too little money.
    #[error(
        "{found} {currency} buy less than the least DRAM that makes sense for this trace; from {least:.6} {currency} on there \
         is something to choose, and all of the trace's pages in DRAM cost {all:.6} {currency}"
    )]
    Budget {
        /// The money.
        found: f64,
        /// Its currency.
        currency: String,
        /// The least that makes sense.
        least: f64,
        /// What DRAM for all pages costs.
        all: f64,
    },
    /// Nothing to choose from.
    #[error("there is no {what} to choose from; name at least one")]
    Nothing {
        /// Flash device, or policy.
        what: &'static str,
    },
    /// A database that is smaller than what the trace touches.
    #[error(
        "a database of {found:.0} bytes is smaller than the pages of the trace, which have {pages:.0} bytes"
    )]
    Database {
        /// The database's size.
        found: f64,
        /// That of the trace's pages.
        pages: f64,
    },
    /// It cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

impl Question {
    /// How many times as large as `pages_bytes`, the trace's pages, the database is.
    pub(super) fn scale(&self, pages_bytes: u64) -> f64 {
        self.database_bytes.map_or(1.0, |bytes| bytes / pages_bytes as f64)
    }

    /// Says whether the question can be answered for a trace with pages of so many bytes.
    pub(super) fn check(&self, pages_bytes: u64) -> Result<(), AdviceError> {
        if let Some(found) = self.database_bytes.filter(|_| self.scale(pages_bytes) < 1.0) {
            return Err(AdviceError::Database { found, pages: pages_bytes as f64 });
        }
        if self.flash_devices.is_empty() {
            return Err(AdviceError::Nothing { what: "flash device" });
        }
        if self.caches.is_empty() {
            return Err(AdviceError::Nothing { what: "policy" });
        }
        for device in &self.flash_devices {
            if device.price_per_gb.is_none() {
                return Err(AdviceError::NoPrice { device: device.name.clone() });
            }
            if device.currency != self.base.memory.currency {
                return Err(AdviceError::Currencies {
                    device: device.name.clone(),
                    found: device.currency.clone(),
                    expected: self.base.memory.currency.clone(),
                });
            }
        }
        Ok(())
    }
}
