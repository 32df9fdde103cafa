//! A tier whose fronts are in other processes, too ([`super::serve`]).

use super::FlashTier;
use super::life::assembly::Base;
use super::life::open;
use crate::disk::Home;
use crate::{OpenReport, Sharing, TierError, TierOptions, access, events};
use entresol_device::Device;
use std::sync::Arc;

impl FlashTier {
    /// As [`FlashTier::create_at`], a cache that other processes attach with [`crate::SharedFront`]. Only
    /// with log placement, and not of raw pages.
    ///
    /// # Errors
    /// As [`FlashTier::create_at`]; [`TierError::Config`] for a cache that cannot be shared;
    /// [`TierError::Refused`] if the segment cannot be made, or is of another cache.
    pub fn create_shared(
        flash: Arc<dyn Device>,
        home: Arc<dyn Home>,
        options: TierOptions,
        sharing: &Sharing,
    ) -> Result<Arc<Self>, TierError> {
        let create = || {
            access::check_shareable(&options)?;
            access::supersede(&options, sharing)?;
            let base = Base { flash, home, options: options.clone(), sharing: Some(sharing) };
            let mut parts = open::create(base)?;
            parts.publish()?;
            Ok(parts)
        };
        let parts = create().inspect_err(events::refused)?;
        Ok(Self::begin(parts, &OpenReport::default()))
    }

    /// As [`FlashTier::open_at`], a cache that other processes attach with [`crate::SharedFront`]. Fronts of
    /// an earlier back with the same segment's path stop first, whether it ended or was killed.
    ///
    /// # Errors
    /// As [`FlashTier::open_at`] and [`FlashTier::create_shared`].
    pub fn open_shared(
        flash: Arc<dyn Device>,
        home: Arc<dyn Home>,
        options: TierOptions,
        sharing: &Sharing,
    ) -> Result<(Arc<Self>, OpenReport), TierError> {
        let open = || {
            access::check_shareable(&options)?;
            access::supersede(&options, sharing)?;
            let base = Base { flash, home, options: options.clone(), sharing: Some(sharing) };
            let (mut parts, report) = open::open(base)?;
            parts.publish()?;
            Ok((parts, report))
        };
        let (parts, report) = open().inspect_err(events::refused)?;
        Ok((Self::begin(parts, &report), report))
    }

    /// Whether the shared memory was given up, since a front died in the middle of a change. The owner then
    /// calls [`FlashTier::abandon`], drops the tier and opens the cache again.
    pub fn is_given_up(&self) -> bool {
        self.parts.floor.access.state.is_gone()
    }

    /// Ends the tasks. Nothing more is written: the flash is left as after a crash.
    pub fn abandon(&self) {
        self.end();
        self.parts.floor.failures.give_up_memory();
    }

    /// Fronts in other processes that are attached now.
    pub fn fronts(&self) -> usize {
        self.parts.server.as_ref().map_or(0, |server| server.fronts())
    }
}
