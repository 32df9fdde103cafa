//! What cannot be simulated, and what to do about it.

use super::device::CatalogueError;
use entresol_core::{ConfigError, FragmentConfigError};
use entresol_ftl::cache::CacheError;
use thiserror::Error;

/// A simulation that is not possible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
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
    /// The core refuses.
    #[error(transparent)]
    Core(#[from] ConfigError),
}
