//! How the report on a volume is made. Nothing here waits: not for the cache's lock, and not for a device.

use super::devices::Devices;
use super::status::{Condition, DeviceStatus, JournalStatus, Lost, VolumeStatus};
use super::{CacheOptions, Volume};
use crate::steer::SteerOptions;
use crate::words;
use entresol_core::Mode;
use entresol_device::ErrorCounts;
use entresol_engine::{DiskState, MissingPages, PageCache, TierError, TierMetrics};
use entresol_runtime::now;
use std::path::Path;

/// Most ranges in a report.
const RANGES_MAX: usize = 1000;

/// The state of disk and flash, and the pages that are lost or kept for that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    pub disk: (Condition, Option<String>),
    pub flash: (Condition, Option<String>),
    pub lost: Vec<Lost>,
    pub kept: Vec<Lost>,
    /// Pages that only the failed flash has.
    pub missing_pages: u64,
    /// For how long writes are tried again, in seconds.
    pub retrying_seconds: Option<u64>,
}

/// Bytes of these ranges.
pub(crate) fn bytes_of(ranges: &[Lost]) -> u64 {
    ranges.iter().map(|range| range.bytes).sum()
}

impl Volume {
    /// The counters of the cache; `None`: there is no cache.
    pub fn metrics(&self) -> Option<TierMetrics> {
        self.seen.cache().map(|(tier, _)| tier.metrics())
    }

    /// Why no request can be served any more, in a sentence: the cache has failed, or a sync of the disk.
    /// `None`: the volume serves, or a change of its cache is under way.
    pub fn failure(&self) -> Option<String> {
        let held = self.cache.try_read()?;
        match held.as_ref().and_then(|cache| cache.tier.ended()) {
            Some(error) => Some(words::of_bytes(&error, self.page_bytes)),
            None => self.direct.failure().map(|error| self.told(&error)),
        }
    }

    /// The state of the devices.
    pub(crate) fn health(&self) -> Health {
        let Some((tier, _)) = self.seen.cache() else {
            let flash = (Condition::None, None);
            return Health { disk: self.disk_alone(), flash, ..Health::default() };
        };
        let (missing, disk) = (tier.missing().unwrap_or_default(), tier.disk_state());
        let ranges = |pages: &[(entresol_core::PageId, u32)]| {
            pages.iter().map(|range| Lost::of(range, self.page_bytes)).collect()
        };
        Health {
            flash: self.flash_state(&*tier, &missing),
            disk: match self.disk_alone() {
                (Condition::Ok, _) => {
                    let (state, error) = disk_state(&disk);
                    (state, error.map(|error| self.devices.named(error)))
                }
                failed => failed,
            },
            lost: ranges(&missing.lost),
            kept: ranges(&disk.kept),
            missing_pages: missing.pages,
            retrying_seconds: disk.retrying_for.map(|time| time.as_secs()),
        }
    }

    /// Of the disk without its cache.
    fn disk_alone(&self) -> (Condition, Option<String>) {
        match self.direct.failure() {
            Some(error) => (Condition::Failed, Some(self.told(&error))),
            None => (Condition::Ok, None),
        }
    }

    fn flash_state(&self, tier: &dyn PageCache, missing: &MissingPages) -> (Condition, Option<String>) {
        let last =
            || self.devices.flash.last().map_or(String::new(), |error| format!(" (last error: {error})"));
        let told = |notice: String| words::of_volume(&notice, self.page_bytes) + &last();
        let notice = || tier.notice().map(told);
        if let Some(error) = tier.held_up() {
            let error = self.devices.named(words::of_bytes(&error, self.page_bytes));
            let why = format!("the flash has failed, and what follows waits for the disk: {error}{}", last());
            return (Condition::Retrying, Some(why));
        }
        match tier.ended() {
            // It is ended by what is under way.
            Some(_) if self.seen.under_way().is_some() => (Condition::Ok, None),
            Some(TierError::Device { role: "disk", .. }) => (Condition::Ok, None),
            Some(error) => (Condition::Failed, Some(words::of_bytes(&error, self.page_bytes))),
            None if missing.pages > 0 => (Condition::Degraded, notice()),
            None => notice().map_or((Condition::Ok, None), |notice| (Condition::Off, Some(notice))),
        }
    }

    /// See [`VolumeStatus`].
    pub fn status(&self) -> VolumeStatus {
        let health = self.health();
        let none = VolumeStatus {
            running: true,
            uptime_seconds: now().since(self.at_start.opened).as_secs(),
            under_way: self.seen.under_way(),
            volume_bytes: self.bytes(),
            page_bytes: self.page_bytes,
            devices: self.devices(&health),
            journal: self.journal.as_ref().map(|journal| {
                let (bytes, used_bytes) = journal.room();
                JournalStatus { bytes, used_bytes }
            }),
            missing_pages: health.missing_pages,
            lost_bytes: bytes_of(&health.lost),
            lost: first(health.lost),
            kept_bytes: bytes_of(&health.kept),
            kept: first(health.kept),
            start_notices: self.at_start.notices.clone(),
            journal_missing: self.at_start.journal_missing,
            ..VolumeStatus::default()
        };
        let (options, cache) = (self.seen.options(), self.seen.cache());
        let Some(options) = options else { return none };
        let named = VolumeStatus {
            policy: Some(options.policy().to_owned()),
            mode: Some(options.mode().name().to_owned()),
            ..none
        };
        match cache {
            Some((tier, _)) => self.status_of(&*tier, &options, named),
            None => named,
        }
    }

    fn status_of(&self, tier: &dyn PageCache, options: &CacheOptions, none: VolumeStatus) -> VolumeStatus {
        let (steer, hits_to_disk_permille, flash_budget_left) = self.steering.state();
        let (metrics, dirty_pages) = (tier.metrics(), tier.dirty_pages());
        let SteerOptions { dirty_percent_max, switch_policy, .. } = steer;
        let is_lost = none.missing_pages > 0 || options.mode() == Mode::WriteBack;
        VolumeStatus {
            slots: metrics.slots,
            pages: metrics.slots_valid,
            dirty_pages,
            dirty_pages_max: metrics.slots * dirty_percent_max / 100,
            dirty_permille: dirty_pages * 1000 / metrics.slots.max(1),
            lost_without_flash_bytes: if is_lost { dirty_pages * self.page_bytes } else { 0 },
            staging_hits: metrics.staging_hits,
            flash_hits: metrics.flash_hits,
            disk_reads: metrics.disk_reads,
            disk_writes: metrics.disk_writes,
            flash_writes: metrics.flash_writes,
            populated: metrics.populated,
            bypassed: self.steering.counts.by_reason(),
            hits_to_disk_permille,
            flash_budget_left,
            latencies: self.steering.counts.latencies(),
            forecast: Some(metrics.forecasts.sentence()),
            switches_policy: switch_policy,
            switched: self.steering.followed().map(|advice| format!("to {}: {advice}", advice.to.name())),
            notice: tier.notice().map(|notice| words::of_volume(&notice, self.page_bytes)),
            ..none
        }
    }

    fn devices(&self, health: &Health) -> Vec<DeviceStatus> {
        let paths = self.devices.paths();
        let [disk_since, flash_since] = self.seen.since([health.disk.0, health.flash.0]);
        let errors = self.errors();
        let of = |device: &str, path: &Path, (state, why): (Condition, Option<String>), since| {
            let is_usual = matches!(state, Condition::Ok | Condition::None | Condition::Missing);
            let found = now().since(since).as_secs();
            let seconds = health.retrying_seconds.filter(|_| state == Condition::Retrying).unwrap_or(found);
            DeviceStatus {
                device: device.to_owned(),
                path: path.display().to_string(),
                state,
                seconds: (!is_usual).then_some(seconds),
                why,
                errors: errors.iter().filter(|(name, _)| *name == device).flat_map(counted).collect(),
            }
        };
        let opened = self.at_start.opened;
        let journal = match &self.journal {
            _ if self.at_start.journal_missing => Condition::Missing,
            Some(_) => Condition::Ok,
            None => Condition::None,
        };
        vec![
            of("disk", &paths.disk, health.disk.clone(), disk_since),
            of("flash", &paths.flash, health.flash.clone(), flash_since),
            of("label", &paths.label, (Condition::Ok, None), opened),
            of("journal", &paths.journal, (journal, None), opened),
        ]
    }

    /// The errors of the devices, by their names.
    pub(super) fn errors(&self) -> [(&'static str, &ErrorCounts); 4] {
        let Devices { disk, label, flash, none, .. } = &self.devices;
        let journal = self.journal.as_ref().map_or(none, |journal| &journal.errors);
        [("disk", &**disk), ("flash", &**flash), ("label", &**label), ("journal", &**journal)]
    }
}

fn disk_state(disk: &DiskState) -> (Condition, Option<String>) {
    let state = match (disk.retrying_for, disk.kept.is_empty()) {
        (Some(_), _) => Condition::Retrying,
        (None, false) => Condition::Refusing,
        (None, true) => return (Condition::Ok, None),
    };
    (state, disk.error.clone())
}

/// The errors of a device, but for kinds that it has none of.
fn counted((_, errors): &(&str, &ErrorCounts)) -> impl Iterator<Item = (String, u64)> + use<> {
    let some: Vec<_> = errors.each().filter(|(_, count)| *count > 0).collect();
    some.into_iter().map(|(kind, count)| (kind.name().to_owned(), count))
}

fn first(mut ranges: Vec<Lost>) -> Vec<Lost> {
    ranges.truncate(RANGES_MAX);
    ranges
}
