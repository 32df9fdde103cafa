//! SCE's knobs, and what they make of a flash size.
//!
//! "Our contribution is rather providing multiple knobs to control the behavior of flash cache population
//! such as the fragment size and the number of cache population threads" (SCE §6).

use super::error::SimulationError;
use entresol_core::{FragmentConfig, System};
use entresol_trace::Trace;

/// What is not set follows from the sizes ([`FragmentConfig::sized`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentKnobs {
    /// Pages of a fragment, 1 to 256; without it a MiB, halved while fewer than 64 of them fit on flash.
    pub fragment_pages: Option<u32>,
    /// Populations that may be under way at once; without it 4.
    pub workers: Option<u32>,
    /// Most populations begun in a thousand accesses; without it such that at most about four pages enter in
    /// an access.
    pub pace_permille: Option<u32>,
}

impl FragmentKnobs {
    /// A cache of `flash_pages` pages of `page_bytes` below a volume, less what does not fill a fragment.
    pub fn sized(self, volume_pages: u32, flash_pages: u32, page_bytes: u32) -> FragmentConfig {
        let sized = FragmentConfig::sized(volume_pages, flash_pages, page_bytes);
        let mut config = match self.fragment_pages {
            Some(pages) => sized.with_fragments(pages, flash_pages),
            None => sized,
        };
        config.workers = self.workers.unwrap_or(config.workers);
        config.pace_permille = self.pace_permille.unwrap_or(config.pace_permille);
        config
    }

    /// The same below all pages of `trace`.
    ///
    /// # Errors
    /// [`SimulationError`] says what is not possible and what is.
    pub fn config(self, trace: &Trace, flash_pages: u32) -> Result<FragmentConfig, SimulationError> {
        let volume_pages = u32::try_from(trace.unique_pages()).unwrap_or(u32::MAX);
        let config = self.sized(volume_pages, flash_pages, trace.page_bytes);
        if config.slots == 0 {
            let min = config.fragment_pages;
            return Err(SimulationError::FlashPages {
                policy: System::Fragments.name(),
                found: flash_pages,
                min,
            });
        }
        config.validate()?;
        Ok(config)
    }
}
