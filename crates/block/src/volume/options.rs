//! The caches that a volume can have: pages under a policy, or SCE's fragments.

use entresol_core::{Cache as Kind, Mode, PolicyKind, WritebackOptions};
use entresol_device::Device;
use entresol_engine::{
    DiskErrors, FlashTier, FragmentOptions, FragmentTier, InPlaceDisk, PageCache, TierError, TierOptions,
    WholeDisk,
};
use std::sync::Arc;

/// A description of a volume's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOptions {
    /// Pages under a policy.
    Pages(TierOptions),
    /// SCE's cache of fragments.
    Fragments(FragmentOptions),
}

impl From<TierOptions> for CacheOptions {
    fn from(options: TierOptions) -> Self {
        Self::Pages(options)
    }
}

impl From<FragmentOptions> for CacheOptions {
    fn from(options: FragmentOptions) -> Self {
        Self::Fragments(options)
    }
}

/// Whether what is in the slots of a volume's cache survives, of each policy with slots that can: in
/// write-back a crash, since no log above has what that would lose, and in the other modes a shutdown.
pub(crate) fn keeps_slots(policy: PolicyKind, mode: Mode) -> bool {
    policy.may_keep_slots_in(mode)
}

impl CacheOptions {
    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        match self {
            Self::Pages(options) => options.page_bytes,
            Self::Fragments(options) => options.page_bytes,
        }
    }

    /// Pages that fit on flash.
    pub fn slots(&self) -> u32 {
        match self {
            Self::Pages(options) => options.slots,
            Self::Fragments(options) => u32::try_from(options.flash_pages()).unwrap_or(u32::MAX),
        }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Pages(options) => options.mode,
            Self::Fragments(_) => Kind::Fragments.usual_mode(),
        }
    }

    /// Whether a new volume's policy changes by itself, unless its owner says otherwise: in write-back, where
    /// no policy is nearly the best one for all loads (docs/results/BLOCK.md), if the cache is large enough.
    pub(crate) fn changes_by_itself(&self) -> bool {
        match self {
            Self::Pages(options) => options.mode == Mode::WriteBack && options.can_change_policy(),
            Self::Fragments(_) => false,
        }
    }

    /// The policy's name.
    pub fn policy(&self) -> &'static str {
        match self {
            Self::Pages(options) => options.policy.name(),
            Self::Fragments(_) => Kind::Fragments.name(),
        }
    }

    /// The same options, without the notes of an earlier program.
    #[must_use]
    pub(crate) fn for_a_new_life(mut self) -> Self {
        if let Self::Pages(options) = &mut self {
            options.flushed = None;
        }
        self
    }

    /// The same options. `overwrite`: a flash device with any content is accepted.
    #[must_use]
    pub fn overwriting(mut self, overwrite: bool) -> Self {
        match &mut self {
            Self::Pages(options) => options.overwrite = overwrite,
            Self::Fragments(options) => options.overwrite = overwrite,
        }
        self
    }

    /// Whether a cache that was closed with the options `old` keeps its pages if it is opened with these.
    pub fn keeps_pages_of(&self, old: &Self) -> bool {
        let sizes = |options: &TierOptions| {
            (options.page_bytes, options.page_format, options.slots, options.directory())
        };
        match (self, old) {
            (Self::Pages(new), Self::Pages(old)) => {
                new.policy.finds_pages_of(old.policy) && sizes(new) == sizes(old)
            }
            (Self::Fragments(_), _) | (_, Self::Fragments(_)) => false,
        }
    }

    /// The same options in another mode.
    ///
    /// # Errors
    /// If the policy does not have that mode.
    pub fn in_mode(&self, mode: Mode) -> Result<Self, TierError> {
        match self {
            Self::Pages(options) => {
                let keeps_slots = keeps_slots(options.policy, mode);
                let new = TierOptions { mode, keeps_slots, overwrite: false, ..options.clone() };
                new.validate().map(|()| Self::Pages(new))
            }
            Self::Fragments(_) if Kind::Fragments.runs_in(mode) => Ok(self.clone()),
            Self::Fragments(_) => Err(TierError::Config(format!(
                "{} writes through what it has on flash, and around it; choose {}",
                self.policy(),
                self.mode().name()
            ))),
        }
    }

    /// Checks that a cache can be made from these options.
    ///
    /// # Errors
    /// [`TierError::Config`].
    pub fn validate(&self) -> Result<(), TierError> {
        match self {
            Self::Pages(options) => options.validate(),
            Self::Fragments(options) => options.validate(),
        }
    }

    /// Makes a new, empty cache.
    pub(crate) fn create(
        &self,
        flash: &Arc<dyn Device>,
        home: &Arc<InPlaceDisk>,
    ) -> Result<Arc<dyn PageCache>, TierError> {
        match self {
            Self::Pages(options) => {
                Ok(FlashTier::create_at(flash.clone(), whole(home, options), of_a_volume(options))?)
            }
            Self::Fragments(options) => Ok(FragmentTier::open(flash.clone(), home.clone(), *options)?),
        }
    }

    /// Opens the cache. Returns it with messages for the owner.
    pub(crate) fn open(
        &self,
        flash: &Arc<dyn Device>,
        home: &Arc<InPlaceDisk>,
    ) -> Result<(Arc<dyn PageCache>, Vec<String>), TierError> {
        match self {
            Self::Pages(options) => {
                let (tier, report) =
                    FlashTier::open_at(flash.clone(), whole(home, options), of_a_volume(options))?;
                Ok((tier, report.notices))
            }
            // It begins empty each time.
            Self::Fragments(_) => Ok((self.create(flash, home)?, Vec::new())),
        }
    }

    /// Opens a disk without its failed flash, though it lacks pages that only the flash had. Returns the
    /// cache with messages for the owner.
    pub(crate) fn open_without_flash(
        &self,
        home: &Arc<InPlaceDisk>,
    ) -> Result<(Arc<dyn PageCache>, Vec<String>), TierError> {
        match self {
            Self::Pages(options) => {
                let (tier, report) =
                    FlashTier::open_without_flash(whole(home, options), of_a_volume(options))?;
                Ok((tier, report.notices))
            }
            Self::Fragments(_) => Err(TierError::Refused(
                "the disk lacks pages since its flash failed; open it with the policy that it had".to_owned(),
            )),
        }
    }
}

/// The options of a volume's cache: no log stands above it.
fn of_a_volume(options: &TierOptions) -> TierOptions {
    let writeback = options.writeback.or(Some(WritebackOptions::USUAL));
    TierOptions { disk_errors: DiskErrors::TryAgain, writeback, ..options.clone() }
}

/// The disk as an array of pages, without gaps between them.
fn whole(home: &Arc<InPlaceDisk>, options: &TierOptions) -> Arc<WholeDisk> {
    WholeDisk::new(home.clone(), options.page_bytes)
}
