//! What changes a volume's cache as a whole. Dirty pages get to disk while requests continue; requests wait
//! for the last step only ([`Volume::change`]). One change at a time ([`Volume::turn`]).

use super::replay::{follow_no_journal, in_tier};
use super::seen::Turn;
use super::size::Place;
use super::{Cache, CacheOptions, Volume, VolumeError};
use crate::journal::Origin;
use entresol_core::{Mode, PageId, WritebackOptions};
use entresol_device::Device;
use entresol_engine::{PageCache, Progress, TierError, TierOptions};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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

/// Pages that are copied while requests wait, and how often it is tried to have no more.
const FEW_PAGES: u64 = 256;
const PASSES_MAX: usize = 5;

/// Is told how far a change is, and may end it.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

fn to_the_end(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
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
    /// Copies all pages to disk that are newer in the cache now. They stay there, as clean ones. Requests
    /// continue meanwhile. A cache that has failed, or of which the loss of pages is accepted, begins anew,
    /// empty: requests wait for that.
    ///
    /// # Errors
    /// [`TierError::Losing`]: some pages cannot be read from flash, or the disk does not take them, and the
    /// loss is refused; all others are on disk, and the cache continues. If no new cache could be made, the
    /// disk alone serves: it has everything.
    pub fn drain(&self, loss: Loss) -> Result<(), TierError> {
        self.drain_watched(loss, &mut to_the_end).map(drop)
    }

    /// As [`Volume::drain`]; `watch` is told how far it is, and may end it early. Returns whether it came to
    /// its end: if not, the cache is as before, with fewer dirty pages.
    ///
    /// # Errors
    /// As [`Volume::drain`].
    pub fn drain_watched(&self, loss: Loss, watch: Watch<'_>) -> Result<bool, TierError> {
        let turn = self.turn("drain");
        let Some(tier) = self.tier() else { return Ok(true) };
        match (self.bring_to_disk(&*tier, watch), loss) {
            (Err(TierError::Losing(_)), Loss::Accepted) => {}
            // Also of a cache whose flash has failed: the disk serves, and `status` says why.
            (done, _) => return done,
        }
        let mut held = self.change(&turn);
        let Some(Cache { options, .. }) = &*held else { return Ok(true) };
        let same = options.clone();
        self.begin_empty(&mut held, same, loss).map(|()| true)
    }

    /// The cache, if there is one. It may end at any time.
    fn tier(&self) -> Option<Arc<dyn PageCache>> {
        self.cache.read().as_ref().map(|cache| cache.tier.clone())
    }

    /// Copies all pages to disk that are newer in the cache now. False: `watch` has ended it.
    fn bring_to_disk(&self, tier: &dyn PageCache, watch: Watch<'_>) -> Result<bool, TierError> {
        let mut is_all = true;
        tier.bring_to_disk(&mut |progress| {
            self.seen.progresses(progress);
            let next = match self.is_closing.load(Relaxed) {
                true => ControlFlow::Break(()),
                false => watch(progress),
            };
            is_all = next.is_continue();
            next
        })?;
        Ok(is_all)
    }

    /// Before a step for which requests wait, and which copies all dirty pages: leaves few of them. False:
    /// `watch` has ended it.
    pub(super) fn prepare(&self, watch: Watch<'_>) -> Result<bool, TierError> {
        let Some(tier) = self.tier() else { return Ok(true) };
        let Some(usual) = tier.writeback() else { return Ok(true) };
        // Pages that are not dirty are written past the flash: there are fewer from pass to pass.
        tier.set_writeback(WritebackOptions { dirty_max: 1, ..usual.options });
        let brought = (0..PASSES_MAX).try_fold(true, |is_all, _| match tier.dirty_pages() {
            dirty if !is_all || dirty <= FEW_PAGES => Ok(is_all),
            _ => self.bring_to_disk(&*tier, watch),
        });
        if !matches!(brought, Ok(true)) {
            tier.set_writeback(usual.options);
        }
        match brought {
            // The step itself names them, and asks for the owner's answer.
            Err(TierError::Losing(_)) => Ok(true),
            brought => brought,
        }
    }

    fn begin_empty(&self, held: &mut Option<Cache>, new: CacheOptions, loss: Loss) -> Result<(), TierError> {
        self.begin_empty_on(held, new, None, loss)
    }

    /// Copies all dirty pages to disk, and begins an empty cache with the options `new`, on another flash
    /// device if one is given; if that cannot be made, one with the options of before. A volume that has no
    /// cache any more gets one on that device.
    pub(super) fn begin_empty_on(
        &self,
        held: &mut Option<Cache>,
        new: CacheOptions,
        place: Option<Place>,
        loss: Loss,
    ) -> Result<(), TierError> {
        if let Some(Cache { tier, .. }) = &*held {
            loss.detach(&**tier)?;
        } else if place.is_some() {
            self.direct.flush(None).map_err(|error| TierError::Refused(error.to_string()))?;
        } else {
            return Ok(());
        }
        // The disk has everything: no record may be carried out after it. If the journal cannot say so,
        // nothing is written: the cache has ended.
        self.end_journal().map_err(in_tier)?;
        let before = held.take();
        let begin = |options: CacheOptions, flash: &Arc<dyn Device>| -> Result<Cache, TierError> {
            let tier = options.create(flash, &self.home)?;
            self.begin_journal(&*tier, options.mode())?;
            self.limit_dirt(&*tier);
            Ok(Cache { tier, flash: Some(flash.clone()), options })
        };
        // A failed flash is not used again, unless another device is in its place.
        let (other, origin) = place.map(|place| (place.flash, place.origin)).unzip();
        let old = before.and_then(|cache| Some((cache.flash?, cache.options)));
        let Some(on) = other.as_ref().or(old.as_ref().map(|(flash, _)| flash)) else { return Ok(()) };
        let keeper = |origin: Option<Origin>| Some(self.journal.as_ref()?.exchange_origin(origin?));
        let before = keeper(origin.flatten());
        match begin(new, on) {
            Ok(cache) => *held = Some(cache),
            Err(error) => {
                keeper(before);
                *held = old.and_then(|(flash, options)| begin(options, &flash).ok());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Copies all dirty pages to disk and releases it from the cache. From then on the disk alone serves.
    /// Requests wait for the last step.
    ///
    /// # Errors
    /// As [`Volume::drain`].
    pub fn detach(&self, loss: Loss) -> Result<(), TierError> {
        self.detach_watched(loss, &mut to_the_end).map(drop)
    }

    /// As [`Volume::detach`], with `watch` as of [`Volume::drain_watched`].
    ///
    /// # Errors
    /// As [`Volume::drain`].
    pub fn detach_watched(&self, loss: Loss, watch: Watch<'_>) -> Result<bool, TierError> {
        let turn = self.turn("detach");
        if !self.prepare(watch)? {
            return Ok(false);
        }
        self.end_cache(&turn, loss).map(|()| true).inspect_err(|_| self.restore_limits())
    }

    fn end_cache(&self, turn: &Turn<'_>, loss: Loss) -> Result<(), TierError> {
        let mut held = self.change(turn);
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
        // A change that copies pages ends early.
        self.is_closing.store(true, Relaxed);
        let turn = self.turn("close");
        let held = self.change(&turn);
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

    /// Gives the cache other options: another mode, or another policy. Requests wait for the last step. If
    /// the pages stay in place ([`CacheOptions::keeps_pages_of`]) it is closed and opened again, else all
    /// dirty pages are copied to disk, and an empty cache begins.
    ///
    /// # Errors
    /// [`TierError::Config`] for options that are not possible, and [`TierError::Losing`] as of
    /// [`Volume::drain`]: nothing has changed. Else the options are the old ones if a cache could be opened
    /// or made with them again; if not, it is closed, and the volume has to be opened again.
    pub fn set_cache(&self, new: CacheOptions, loss: Loss) -> Result<(), TierError> {
        self.set_cache_watched(new, loss, &mut to_the_end).map(drop)
    }

    /// As [`Volume::set_cache`], with `watch` as of [`Volume::drain_watched`].
    ///
    /// # Errors
    /// As [`Volume::set_cache`].
    pub fn set_cache_watched(
        &self,
        new: CacheOptions,
        loss: Loss,
        watch: Watch<'_>,
    ) -> Result<bool, TierError> {
        new.validate()?;
        if u64::from(new.page_bytes()) != self.page_bytes {
            return Err(TierError::Config(format!(
                "the cache has pages of {} bytes, {} were asked for; `drain` and make the volume anew for others",
                self.page_bytes,
                new.page_bytes()
            )));
        }
        let turn = self.turn("set");
        let keeps_dirty = match &*self.cache.read() {
            Some(Cache { options, .. }) => new.mode() == Mode::WriteBack && new.keeps_pages_of(options),
            None => true,
        };
        if !keeps_dirty && !self.prepare(watch)? {
            return Ok(false);
        }
        let changed = {
            let mut held = self.change(&turn);
            self.go_on(&mut held, new, loss)
        };
        changed.inspect_err(|_| self.restore_limits())?;
        Ok(true)
    }

    /// The owner's limits of dirty pages hold again.
    fn restore_limits(&self) {
        self.tier().iter().for_each(|tier| self.limit_dirt(&**tier));
    }

    /// If the shadows of the cache have advised it, takes another policy that finds its pages. Requests wait
    /// meanwhile. To be called at the end of a request.
    pub(super) fn follow_advice(&self) {
        if !self.steering.has_advice() {
            return;
        }
        // Another change may be under way, and takes long.
        let Some(turn) = self.try_turn("policy change") else { return };
        let Some(advice) = self.steering.take_advice() else { return };
        let mut held = self.change(&turn);
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
        if new.mode() != Mode::WriteBack {
            // What the last moment has left. The label says then that nothing is dirty, and the open is
            // quick.
            self.bring_to_disk(&**tier, &mut to_the_end)?;
        }
        let open = |options: &CacheOptions| {
            options.open(flash, &self.home).map(|(tier, _)| {
                self.limit_dirt(&*tier);
                tier
            })
        };
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
