//! The caches that a volume can have: pages under a policy, or SCE's fragments.

use super::ahead::LookedUp;
use super::phases::Loss;
use entresol_core::{Cache as Kind, Costs, Mode, PageId};
use entresol_device::Device;
use entresol_engine::{
    FlashTier, Flushed, FragmentOptions, FragmentTier, InPlaceDisk, Layer, MissingPages, Reading, Served,
    TierError, TierOptions, WholeDisk,
};
use std::sync::Arc;

/// A cache of the pages of a disk, for a caller that has no memory of its own for pages. The methods are
/// those of [`FlashTier`].
pub(crate) trait PageCache: Layer {
    /// See [`FlashTier::read_pages`].
    fn read_pages(&self, first: PageId, buffer: &mut [u8], how: Reading) -> Result<Served, TierError>;
    /// See [`FlashTier::write_pages`].
    fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError>;
    /// See [`FlashTier::write_around`].
    fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError>;
    /// See [`FlashTier::flush`].
    fn flush(&self) -> Result<(), TierError>;
    /// See [`FlashTier::sync_disk`].
    fn sync_disk(&self) -> Result<(), TierError>;
    /// See [`FlashTier::forget`].
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError>;
    /// See [`FlashTier::forget_durably`].
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError>;
    /// See [`FlashTier::keep_out`].
    fn keep_out(&self, first: PageId, last: PageId, work: &mut dyn FnMut()) -> Result<(), TierError>;
    /// See [`FlashTier::detach`] and [`FlashTier::detach_with_loss`].
    fn detach(&self, loss: Loss) -> Result<(), TierError>;
    /// See [`FlashTier::lost_among`].
    fn lost_among(&self, first: PageId, last: PageId) -> Result<Vec<PageId>, TierError>;
    /// See [`FlashTier::cached_among`].
    fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError>;
    /// See [`FlashTier::flushed`].
    fn flushed(&self) -> Option<Flushed>;
    /// See [`FlashTier::dirty_pages`].
    fn dirty_pages(&self) -> u64;
    /// See [`FlashTier::page_bytes`].
    fn page_bytes(&self) -> u64;
    /// See [`FlashTier::is_log`].
    fn is_log(&self) -> bool;
    /// See [`FlashTier::write_workers`].
    fn write_workers(&self) -> usize;
    /// See [`FlashTier::spare_writes`].
    fn spare_writes(&self, spares: bool);
    /// See [`FlashTier::set_write_worth`].
    fn set_write_worth(&self, permille: u32);
    /// See [`FlashTier::costs`].
    fn costs(&self) -> Costs;
    /// See [`FlashTier::missing`].
    fn missing(&self) -> Option<MissingPages>;
    /// See [`FlashTier::begin_read`].
    fn begin_read(self: Arc<Self>, first: PageId, pages: usize) -> Option<LookedUp>;
    /// See [`FlashTier::notice`].
    fn notice(&self) -> Option<String>;
}

impl PageCache for FlashTier {
    fn read_pages(&self, first: PageId, buffer: &mut [u8], how: Reading) -> Result<Served, TierError> {
        Self::read_pages(self, first, buffer, how)
    }
    fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        Self::write_pages(self, first, data)
    }
    fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        Self::write_around(self, first, data)
    }
    fn flush(&self) -> Result<(), TierError> {
        Self::flush(self)
    }
    fn sync_disk(&self) -> Result<(), TierError> {
        Self::sync_disk(self)
    }
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        Self::forget(self, first, last)
    }
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        Self::forget_durably(self, first, last)
    }
    fn keep_out(&self, first: PageId, last: PageId, work: &mut dyn FnMut()) -> Result<(), TierError> {
        Self::keep_out(self, first, last, work)
    }
    fn detach(&self, loss: Loss) -> Result<(), TierError> {
        match loss {
            Loss::Refused => Self::detach(self),
            Loss::Accepted => self.detach_with_loss(),
        }
    }
    fn lost_among(&self, first: PageId, last: PageId) -> Result<Vec<PageId>, TierError> {
        Self::lost_among(self, first, last)
    }
    fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError> {
        Self::cached_among(self, first, last)
    }
    fn flushed(&self) -> Option<Flushed> {
        Self::flushed(self)
    }
    fn dirty_pages(&self) -> u64 {
        Self::dirty_pages(self)
    }
    fn page_bytes(&self) -> u64 {
        Self::page_bytes(self)
    }
    fn is_log(&self) -> bool {
        Self::is_log(self)
    }
    fn write_workers(&self) -> usize {
        Self::write_workers(self)
    }
    fn spare_writes(&self, spares: bool) {
        Self::spare_writes(self, spares);
    }
    fn set_write_worth(&self, permille: u32) {
        Self::set_write_worth(self, permille);
    }
    fn costs(&self) -> Costs {
        Self::costs(self)
    }
    fn missing(&self) -> Option<MissingPages> {
        Self::missing(self)
    }
    fn begin_read(self: Arc<Self>, first: PageId, pages: usize) -> Option<LookedUp> {
        // What fails here fails again, where there is a reply for it.
        let read = Self::begin_read(&self, first, pages).ok()??;
        Some(LookedUp::Pages(self, read))
    }
    fn notice(&self) -> Option<String> {
        Self::notice(self)
    }
}

/// Flash is never newer than disk here: nothing is dirty, and the disk is bound to no cache.
impl PageCache for FragmentTier {
    fn read_pages(&self, first: PageId, buffer: &mut [u8], how: Reading) -> Result<Served, TierError> {
        Self::read_pages(self, first, buffer, how)
    }
    fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        Self::write_pages(self, first, data)
    }
    /// Writes of pages whose fragments are not on flash always bypass it. The others must not become stale.
    fn write_around(&self, first: PageId, data: &[u8]) -> Result<u64, TierError> {
        let pages = data.len() as u64 / Self::page_bytes(self);
        let cached = (first.0..first.0 + pages).filter(|page| self.is_on_flash(PageId(*page))).count();
        Self::write_pages(self, first, data).map(|()| pages - cached as u64)
    }
    fn flush(&self) -> Result<(), TierError> {
        self.checkpoint()
    }
    fn sync_disk(&self) -> Result<(), TierError> {
        Self::sync_disk(self)
    }
    fn forget(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        Self::forget(self, first, last);
        Ok(0)
    }
    /// A crash finds nothing in this cache.
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<u64, TierError> {
        PageCache::forget(self, first, last)
    }
    fn keep_out(&self, first: PageId, last: PageId, work: &mut dyn FnMut()) -> Result<(), TierError> {
        Self::keep_out(self, first, last, work);
        Ok(())
    }
    fn detach(&self, _: Loss) -> Result<(), TierError> {
        self.close()
    }
    fn lost_among(&self, _: PageId, _: PageId) -> Result<Vec<PageId>, TierError> {
        Ok(Vec::new())
    }
    fn cached_among(&self, first: PageId, last: PageId) -> Result<Vec<(PageId, bool)>, TierError> {
        let pages = (first.0..=last.0).map(PageId);
        Ok(pages.filter(|page| self.is_on_flash(*page)).map(|page| (page, false)).collect())
    }
    fn flushed(&self) -> Option<Flushed> {
        None
    }
    fn dirty_pages(&self) -> u64 {
        0
    }
    fn page_bytes(&self) -> u64 {
        Self::page_bytes(self)
    }
    fn is_log(&self) -> bool {
        false
    }
    /// Its writes to flash are not counted so.
    fn write_workers(&self) -> usize {
        1
    }
    fn spare_writes(&self, _: bool) {}
    fn set_write_worth(&self, _: u32) {}
    fn costs(&self) -> Costs {
        Costs::default()
    }
    fn missing(&self) -> Option<MissingPages> {
        None
    }
    fn begin_read(self: Arc<Self>, first: PageId, pages: usize) -> Option<LookedUp> {
        let read = Self::begin_read(&self, first, pages)?;
        Some(LookedUp::Fragments(self, read))
    }
    fn notice(&self) -> Option<String> {
        Self::notice(self)
    }
}

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

    /// The policy's name.
    pub fn policy(&self) -> &'static str {
        match self {
            Self::Pages(options) => options.policy.name(),
            Self::Fragments(_) => Kind::Fragments.name(),
        }
    }

    /// The same, without the notes of an earlier program.
    #[must_use]
    pub(crate) fn for_a_new_life(mut self) -> Self {
        if let Self::Pages(options) = &mut self {
            options.flushed = None;
        }
        self
    }

    /// The same, on a flash device with any content or not.
    #[must_use]
    pub fn overwriting(mut self, overwrite: bool) -> Self {
        match &mut self {
            Self::Pages(options) => options.overwrite = overwrite,
            Self::Fragments(options) => options.overwrite = overwrite,
        }
        self
    }

    /// Whether a cache with these options, opened where one with the options `old` was closed, finds its
    /// pages.
    pub fn keeps_pages_of(&self, old: &Self) -> bool {
        let sizes = |options: &TierOptions| (options.page_bytes, options.page_format, options.slots);
        match (self, old) {
            (Self::Pages(new), Self::Pages(old)) => {
                new.policy.finds_pages_of(old.policy) && sizes(new) == sizes(old)
            }
            (Self::Fragments(_), _) | (_, Self::Fragments(_)) => false,
        }
    }

    /// The same in another mode.
    ///
    /// # Errors
    /// If the policy does not have it.
    pub fn in_mode(&self, mode: Mode) -> Result<Self, TierError> {
        match self {
            Self::Pages(options) => {
                let new = TierOptions { mode, overwrite: false, ..options.clone() };
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
                Ok(FlashTier::create_at(flash.clone(), whole(home, options), options.clone())?)
            }
            Self::Fragments(options) => Ok(FragmentTier::open(flash.clone(), home.clone(), *options)?),
        }
    }

    /// Opens the cache. Returns messages for the owner, too.
    pub(crate) fn open(
        &self,
        flash: &Arc<dyn Device>,
        home: &Arc<InPlaceDisk>,
    ) -> Result<(Arc<dyn PageCache>, Vec<String>), TierError> {
        match self {
            Self::Pages(options) => {
                let (tier, report) =
                    FlashTier::open_at(flash.clone(), whole(home, options), options.clone())?;
                Ok((tier, report.notices))
            }
            // It begins empty each time.
            Self::Fragments(_) => Ok((self.create(flash, home)?, Vec::new())),
        }
    }

    /// Opens a disk that lacks pages since its flash failed, without that flash. Returns messages for the
    /// owner, too.
    pub(crate) fn open_without_flash(
        &self,
        home: &Arc<InPlaceDisk>,
    ) -> Result<(Arc<dyn PageCache>, Vec<String>), TierError> {
        match self {
            Self::Pages(options) => {
                let (tier, report) = FlashTier::open_without_flash(whole(home, options), options.clone())?;
                Ok((tier, report.notices))
            }
            Self::Fragments(_) => Err(TierError::Refused(
                "the disk lacks pages since its flash failed; open it with the policy that it had".to_owned(),
            )),
        }
    }
}

/// The pages of a disk, side by side.
fn whole(home: &Arc<InPlaceDisk>, options: &TierOptions) -> Arc<WholeDisk> {
    WholeDisk::new(home.clone(), options.page_bytes)
}
