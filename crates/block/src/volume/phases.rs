//! What changes a volume's cache as a whole. Requests wait meanwhile.

use super::replay::{follow_no_journal, in_tier};
use super::{Cache, CacheOptions, Volume, VolumeError};
use entresol_core::PageId;
use entresol_engine::{PageCache, TierError, TierOptions};

/// The owner's answer to the loss of pages whose newest versions cannot be read from flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The cache continues, and the pages are named.
    Refused,
    /// The disk's versions of them count from now on.
    Accepted,
}

impl Loss {
    /// Accepted or not.
    pub fn accepted(is_accepted: bool) -> Self {
        if is_accepted { Self::Accepted } else { Self::Refused }
    }

    /// Detaches the cache, with this answer.
    fn detach(self, tier: &dyn PageCache) -> Result<(), TierError> {
        match self {
            Self::Refused => tier.detach(),
            Self::Accepted => tier.detach_with_loss(),
        }
    }
}

/// Most ranges that are named in a sentence.
const NAMED_MAX: usize = 100;

/// The loss, in words for the owner of a volume with pages of `page_bytes`; `None`: it is another error.
pub fn told_of_loss(error: &TierError, page_bytes: u64) -> Option<String> {
    let TierError::Losing(losing) = error else { return None };
    let named = |ranges: &[(PageId, u32)]| named_bytes(ranges, page_bytes);
    let lost = format!("lost: {}: their newest versions on flash cannot be read; ", named(&losing.lost));
    let refused = format!("only on flash: {}: the disk does not take them; ", named(&losing.refused));
    let told = [(losing.lost.is_empty(), lost), (losing.refused.is_empty(), refused)];
    let told: String = told.into_iter().filter(|(is_none, _)| !is_none).map(|(_, told)| told).collect();
    Some(format!(
        "{told}everything else is on the disk now, and nothing was closed: repair what fails, or write these bytes again, in whole \
         pages of {page_bytes}, or give them up with --accept-loss, and the disk's older bytes count"
    ))
}

/// These ranges of pages, in bytes.
fn named_bytes(ranges: &[(PageId, u32)], page_bytes: u64) -> String {
    let range = |(first, pages): &(PageId, u32)| {
        format!("{} bytes at {}", u64::from(*pages) * page_bytes, first.0 * page_bytes)
    };
    let mut named: Vec<String> = ranges.iter().take(NAMED_MAX).map(range).collect();
    if ranges.len() > NAMED_MAX {
        named.push(format!("{} more ranges", ranges.len() - NAMED_MAX));
    }
    named.join(", ")
}

impl Volume {
    /// Copies all dirty pages to disk, and begins an empty cache. Requests wait meanwhile.
    ///
    /// # Errors
    /// [`TierError::Losing`]: some pages cannot be read from flash, and the loss is refused; all others are
    /// on disk, and the cache continues. If the dirty pages could not be copied for another reason, the cache
    /// is closed and has to be opened again. If no new cache could be made, the disk alone serves: it has
    /// everything.
    pub fn drain(&self, loss: Loss) -> Result<(), TierError> {
        let mut held = self.change("drain");
        let Some(Cache { options, .. }) = &*held else { return Ok(()) };
        let same = options.clone();
        self.begin_empty(&mut held, same, loss)
    }

    /// Copies all dirty pages to disk, and begins an empty cache with the options `new`; if that cannot be
    /// made, one with the options of before.
    fn begin_empty(&self, held: &mut Option<Cache>, new: CacheOptions, loss: Loss) -> Result<(), TierError> {
        let Some(Cache { tier, .. }) = &*held else { return Ok(()) };
        loss.detach(&**tier)?;
        // The disk has everything: no record may be carried out after it. If the journal cannot say so,
        // nothing is written: the cache has ended.
        self.end_journal().map_err(in_tier)?;
        let before = held.take();
        let Some(Cache { flash: Some(flash), options: old, .. }) = before else { return Ok(()) };
        let begin = |options: CacheOptions| -> Result<Cache, TierError> {
            let tier = options.create(&flash, &self.home)?;
            self.begin_journal(&*tier, options.mode())?;
            Ok(Cache { tier, flash: Some(flash.clone()), options })
        };
        match begin(new) {
            Ok(cache) => *held = Some(cache),
            Err(error) => {
                *held = begin(old).ok();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Copies all dirty pages to disk and releases it from the cache. From then on the disk alone serves.
    /// Requests wait meanwhile.
    ///
    /// # Errors
    /// As [`Volume::drain`].
    pub fn detach(&self, loss: Loss) -> Result<(), TierError> {
        let mut held = self.change("detach");
        if let Some(Cache { tier, .. }) = &*held {
            loss.detach(&**tier)?;
            // As in `begin_empty`. No cache will say so in the label.
            self.end_journal().map_err(in_tier)?;
            follow_no_journal(&**tier)?;
            *held = None;
        }
        Ok(())
    }

    /// Makes everything durable and ends. The next open finds a warm cache, if the policy keeps one.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub fn close(&self) -> Result<(), VolumeError> {
        let held = self.change("close");
        if let Some(Cache { tier, .. }) = &*held {
            tier.close()?;
            self.direct.flush(None)?;
            self.unname_journal(&**tier)?;
        } else {
            self.direct.flush(None)?;
        }
        self.end_journal().map_err(VolumeError::Journal)
    }

    /// The options of the cache, and the bytes of its flash device. `None`: the disk alone serves.
    pub fn cache_options(&self) -> Option<(CacheOptions, u64)> {
        let held = self.cache.read();
        let Cache { flash, options, .. } = held.as_ref()?;
        Some((options.clone(), flash.as_ref()?.geometry().capacity_bytes))
    }

    /// Gives the cache other options: another mode, or another policy. Requests wait meanwhile. If the pages
    /// stay in place ([`CacheOptions::keeps_pages_of`]) it is closed and opened again, else all dirty pages
    /// are copied to disk, and an empty cache begins.
    ///
    /// # Errors
    /// [`TierError::Config`] for options that are not possible, and [`TierError::Losing`] as of
    /// [`Volume::drain`]: nothing has changed. Else the options are the old ones if a cache could be opened
    /// or made with them again; if not, it is closed, and the volume has to be opened again.
    pub fn set_cache(&self, new: CacheOptions, loss: Loss) -> Result<(), TierError> {
        new.validate()?;
        if u64::from(new.page_bytes()) != self.page_bytes {
            return Err(TierError::Config(format!(
                "the cache has pages of {} bytes, {} were asked for; `drain` and make the volume anew for others",
                self.page_bytes,
                new.page_bytes()
            )));
        }
        self.go_on(&mut self.change("set"), new, loss)
    }

    /// If the shadows of the cache have advised it, takes another policy that finds its pages. Requests wait
    /// meanwhile. To be called at the end of a request.
    pub(super) fn follow_advice(&self) {
        let Some(advice) = self.steering.take_advice() else { return };
        let mut held = self.change("policy change");
        // The owner may have changed it since; and a cache that has failed is not changed.
        let Some(Cache { tier, options: CacheOptions::Pages(options), .. }) = &*held else { return };
        let new = CacheOptions::Pages(TierOptions { policy: advice.to, overwrite: false, ..options.clone() });
        let is_same = options.policy == advice.from && new.keeps_pages_of(&options.clone().into());
        if !is_same || tier.notice().is_some() || new.validate().is_err() {
            return;
        }
        match self.go_on(&mut held, new, Loss::Refused) {
            Ok(()) => {
                tracing::info!("the policy is {} now: {advice}", advice.to.name());
                self.steering.was_followed(advice);
            }
            Err(error) => tracing::warn!("the policy cannot be changed to {}: {error}", advice.to.name()),
        }
    }

    /// See [`Volume::set_cache`].
    fn go_on(&self, held: &mut Option<Cache>, new: CacheOptions, loss: Loss) -> Result<(), TierError> {
        let Some(Cache { tier, flash: Some(flash), options }) = held else {
            return Err(TierError::Refused("the disk alone serves; there is no cache to change".to_owned()));
        };
        if !new.keeps_pages_of(options) {
            return self.begin_empty(held, new, loss);
        }
        let open = |options: &CacheOptions| options.open(flash, &self.home).map(|(tier, _)| tier);
        tier.close()?;
        self.end_journal().map_err(in_tier)?;
        match open(&new) {
            Ok(opened) => {
                (*tier, *options) = (opened, new);
                // Without its journal it must not acknowledge anything.
                self.begin_journal(&**tier, options.mode()).inspect_err(|_| _ = tier.close())
            }
            Err(error) => {
                *tier = open(options)?;
                self.begin_journal(&**tier, options.mode()).inspect_err(|_| _ = tier.close())?;
                Err(error)
            }
        }
    }
}
