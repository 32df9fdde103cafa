//! What cannot be simulated, and what to do about it.

use super::device::CatalogueError;
use entresol_core::{ConfigError, FragmentConfigError};
use entresol_ftl::cache::CacheError;
use entresol_trace::TraceError;
use thiserror::Error;

/// A simulation that is not possible.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SimulationError {
    /// There is nothing to replay.
    #[error("{trace}: the span to be measured has no page references; choose another one")]
    Nothing {
        /// The trace.
        trace: String,
    },
    /// References are to come at times that the trace does not have.
    #[error(
        "{trace} has no times, so references cannot come at them; say how many clients there are instead"
    )]
    NoTimes {
        /// The trace.
        trace: String,
    },
    /// Too few flash slots.
    #[error("a flash cache of {found} pages is not possible; {policy} takes at least {min}")]
    FlashPages {
        /// The policy.
        policy: &'static str,
        /// Slots asked for.
        found: u32,
        /// Fewest possible.
        min: u32,
    },
    /// More frames than can be numbered.
    #[error("{found} pages of DRAM are not possible; at most {max} are")]
    DramPages {
        /// Frames asked for.
        found: u32,
        /// Most possible.
        max: u32,
    },
    /// A policy that does not work in this mode.
    #[error("{policy} does not work in {mode} mode; possible are {possible}")]
    Mode {
        /// The policy.
        policy: &'static str,
        /// The mode asked for.
        mode: &'static str,
        /// The modes that work.
        possible: String,
    },
    /// A log above replaces only a log on flash that takes dirty pages.
    #[error(
        "a log is kept for policies with a log on flash, in write-back; {policy} in {mode} mode is not one"
    )]
    NoLog {
        /// The policy.
        policy: &'static str,
        /// The mode.
        mode: &'static str,
    },
    /// There are no clients.
    #[error("a closed loop needs at least one client")]
    NoClients,
    /// A device cannot be had as it is asked for.
    #[error(transparent)]
    Device(#[from] CatalogueError),
    /// A cache that is its own translation layer refuses.
    #[error(transparent)]
    Blocks(#[from] CacheError),
    /// SCE's cache refuses.
    #[error("sce: {0}")]
    Fragments(#[from] FragmentConfigError),
    /// What a sample cannot answer.
    #[error("{what} cannot be replayed with a sample of the pages: {why}; leave one of them out")]
    NotSampled {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A layer of which the sample's share is too small.
    #[error(
        "a sample of {rate} of the pages leaves {scaled} of {pages} pages of {what}, too few to stand for all of them; \
         sample {rate_min:.4} of the pages or more, or replay the whole trace"
    )]
    SampleTooSmall {
        /// DRAM or flash.
        what: &'static str,
        /// Pages of the layer.
        pages: u32,
        /// The rate asked for.
        rate: f64,
        /// Pages of it in the sample.
        scaled: u32,
        /// The smallest rate that would do.
        rate_min: f64,
    },
    /// A sample's records cannot be read.
    #[error("{0}")]
    Trace(String),
    /// The core refuses.
    #[error(transparent)]
    Core(#[from] ConfigError),
}

impl From<TraceError> for SimulationError {
    fn from(error: TraceError) -> Self {
        SimulationError::Trace(error.to_string())
    }
}
