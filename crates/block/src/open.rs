//! Opening a volume as its configuration says. Devices are locked while they are open, so a volume
//! has one server.

use crate::config::{ConfigError, VolumeConfig};
use crate::journal;
use crate::making::is_half_made;
use crate::volume::{DevicePaths, follow_no_journal, journal_is_gone, told_of_loss};
use crate::words;
use crate::{
    CacheOptions, Condition, DeviceStatus, Loss, Lost, SECTOR_BYTES, UnderWay, Volume, VolumeError,
    VolumeStatus,
};
use entresol_core::Mode;
use entresol_device::{Device, FileOptions, open_device};
use entresol_engine::{
    DetachReport, DiskLayer, FlashTier, InPlaceDisk, Layer, TierError, TierOptions, Uuid, disk_binding,
    flash_bytes, flash_has_failed, give_up_lost, inspect, is_flash_needed, lost_on,
};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// A volume cannot be made or opened. The sentence says what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The request is not possible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device cannot be opened.
    #[error("{what} {path}: {why}")]
    Device {
        /// "disk", "flash", "label" or "journal".
        what: &'static str,
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// The engine refuses, or failed.
    #[error("{}", words::of(.0))]
    Tier(#[from] TierError),
    /// Bytes are lost, which the sentence names. Everything else is on disk.
    #[error("{0}")]
    Losing(String),
    /// As [`OpenError::Tier`].
    #[error(transparent)]
    Volume(VolumeError),
}

/// The error of a detach, in the words of a volume.
fn losing(error: TierError, page_bytes: u32) -> OpenError {
    told_of_loss(&error, page_bytes.into()).map_or(OpenError::Tier(error), OpenError::Losing)
}

impl From<VolumeError> for OpenError {
    fn from(error: VolumeError) -> Self {
        match error {
            VolumeError::Tier(error) => Self::Tier(error),
            error => Self::Volume(error),
        }
    }
}

pub(crate) fn device_error(what: &'static str, path: &Path, why: impl ToString) -> OpenError {
    OpenError::Device { what, path: path.display().to_string(), why: why.to_string() }
}

/// Refuses sizes that no volume can have.
fn check_size(what: &str, bytes: u64) -> Result<(), ConfigError> {
    if bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES) {
        return Ok(());
    }
    Err(ConfigError(format!(
        "{what} has {bytes} bytes; its size must be a multiple of {SECTOR_BYTES}, and not 0"
    )))
}

/// Opens a regular file or block device of its present size.
pub(crate) fn open(what: &'static str, path: &Path, direct: bool) -> Result<Arc<dyn Device>, OpenError> {
    // What a failed sync loses of the disk is written again; of the flash it is found by checksums.
    let options = FileOptions { is_direct_wanted: direct, outlives_syncs: true, ..FileOptions::existing() };
    open_with(what, path, options)
}

/// As [`open`], to be read only, while another program may have it open.
pub(crate) fn look(what: &'static str, path: &Path) -> Result<Arc<dyn Device>, OpenError> {
    open_with(what, path, FileOptions { is_direct_wanted: false, ..FileOptions::shared() })
}

fn open_with(what: &'static str, path: &Path, options: FileOptions) -> Result<Arc<dyn Device>, OpenError> {
    let metadata = path.metadata().map_err(|error| match what == "label" && is_half_made(path) {
        true => device_error(what, path, "its `entresol volume create` was cut off; run it again"),
        false => device_error(what, path, error),
    })?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(device_error(
            what,
            path,
            "is neither a regular file nor a block device; give one of these",
        ));
    }
    if kind.is_file() {
        check_size(&format!("{what} {}", path.display()), metadata.len())?;
    }
    let opened = open_device(path, options).map_err(|error| device_error(what, path, error))?;
    opened.notices.iter().for_each(|notice| tracing::info!("{what} {}: {notice}", path.display()));
    Ok(opened.device)
}

/// What makes two paths lead to the same device.
fn identity(what: &'static str, path: &Path) -> Result<(bool, u64, u64), OpenError> {
    let metadata = path.metadata().map_err(|error| device_error(what, path, error))?;
    Ok(match metadata.file_type().is_block_device() {
        true => (true, metadata.rdev(), 0),
        false => (false, metadata.dev(), metadata.ino()),
    })
}

/// Refuses a flash device that is the disk, under whatever name.
pub(crate) fn check_two_devices(config: &VolumeConfig) -> Result<(), OpenError> {
    if identity("disk", &config.disk)? == identity("flash", &config.flash)? {
        return Err(device_error("flash", &config.flash, "is the disk; give a device of its own"));
    }
    Ok(())
}

/// Opens the volume. Returns messages for the owner, too. If a change of policy ended before the
/// configuration was written, all dirty pages of that cache are copied to disk, and it is emptied.
///
/// # Errors
/// [`OpenError`].
pub fn open_volume(config: &VolumeConfig) -> Result<(Volume, Vec<String>), OpenError> {
    let (mut volume, notices) = open_as_configured(config)?;
    let notices: Vec<String> = told(config, &notices);
    volume.pass_trims(config.pass_trims);
    volume.was_told(&notices, paths(config));
    Ok((volume, notices))
}

/// The engine's notices, in the words of this volume.
fn told(config: &VolumeConfig, notices: &[String]) -> Vec<String> {
    let page_bytes = u64::from(config.page_bytes);
    notices.iter().map(|notice| words::of_volume(notice, page_bytes)).collect()
}

fn paths(config: &VolumeConfig) -> DevicePaths {
    let VolumeConfig { disk, label, flash, journal, .. } = config.clone();
    DevicePaths { disk, label, flash, journal }
}

fn open_as_configured(config: &VolumeConfig) -> Result<(Volume, Vec<String>), OpenError> {
    let options = config.cache_options()?;
    if !config.cache {
        let label = open("label", &config.label, false)?;
        let disk = open("disk", &config.disk, config.direct_io)?;
        journal::check_elsewhere(config, named_by(&*label)?)?;
        // Without a failed flash there is nothing to record.
        let is_wanted = flash_has_failed(&*label)? || config.journal.exists();
        let opened = match if is_wanted { journal_of(config)? } else { None } {
            None => Volume::open_without_cache(disk, label, options)?,
            Some(journal) => Volume::open_without_cache_with_journal(disk, label, options, journal)
                .map_err(|error| at_journal(config, error))?,
        };
        return Ok(opened);
    }
    check_two_devices(config)?;
    let (options, mut notices) = as_found(config, options)?;
    let (volume, more) = open_cache(config, options)?;
    notices.extend(more);
    Ok((volume, notices))
}

/// The journal that the label of the disk names. Nil: none.
pub(crate) fn named_by(label: &dyn Device) -> Result<Uuid, TierError> {
    Ok(disk_binding(label)?.map_or(Uuid::NIL, |binding| binding.log))
}

/// The device of a journal, and its keeper.
type KeptJournal = (Arc<dyn Device>, journal::Origin);

/// The journal of the configuration, if it has one. Made if need be.
fn journal_of(config: &VolumeConfig) -> Result<Option<KeptJournal>, OpenError> {
    if config.journal.as_os_str().is_empty() {
        return Ok(None);
    }
    Ok(Some((journal::open_file(config)?, journal::origin(config)?)))
}

/// An error of an open; one of the journal names its path.
fn at_journal(config: &VolumeConfig, error: VolumeError) -> OpenError {
    match error {
        VolumeError::NotOurs(why) => device_error("journal", &config.journal, why),
        error => error.into(),
    }
}

/// Opens the volume with the cache that has these options.
fn open_cache(config: &VolumeConfig, options: CacheOptions) -> Result<(Volume, Vec<String>), OpenError> {
    let label = open("label", &config.label, false)?;
    let disk = open("disk", &config.disk, config.direct_io)?;
    let flash = open("flash", &config.flash, config.direct_io)?;
    let steer = config.steer_options()?;
    journal::check_elsewhere(config, named_by(&*label)?)?;
    let (volume, notices) = match journal_of(config)? {
        None => Volume::open(disk, label, flash, options)?,
        Some(journal) => Volume::open_with_journal(disk, label, flash, options, journal)
            .map_err(|error| at_journal(config, error))?,
    };
    volume.steer(steer);
    volume.pass_trims(config.pass_trims);
    Ok((volume, notices))
}

/// The cache on flash that the disk is bound to, as it was opened last; `None`: it needs none that can be
/// found there. And whether the disk lacks pages since its flash failed.
fn bound(config: &VolumeConfig) -> Result<(Option<TierOptions>, bool), OpenError> {
    let label = open("label", &config.label, false)?;
    let flash = open("flash", &config.flash, config.direct_io)?;
    Ok((FlashTier::bound_options(&*flash, &*label)?, flash_has_failed(&*label)?))
}

/// The options to open the cache with. The disk is released from a cache that is not of the `wanted` policy,
/// and one of another size keeps it. Returns messages for the owner, too.
///
/// Such a cache is found after this:
///
/// 1. A server is asked for another policy or size. Its cache has that from then on, and gets dirty pages.
/// 2. The program that asked is killed before it has written the configuration.
/// 3. The server ends, or is killed. The next one reads the configuration of before.
fn as_found(config: &VolumeConfig, wanted: CacheOptions) -> Result<(CacheOptions, Vec<String>), OpenError> {
    // What cannot be read is told by the open that follows.
    let Ok((Some(found), false)) = bound(config) else { return Ok((wanted, Vec::new())) };
    let (is_same, bytes) = match &wanted {
        CacheOptions::Pages(wanted) => {
            let is_same =
                wanted.policy.finds_pages_of(found.policy) && wanted.directory() == found.directory();
            (is_same, flash_bytes(wanted))
        }
        CacheOptions::Fragments(wanted) => (false, wanted.flash_bytes()),
    };
    if wanted.page_bytes() != found.page_bytes {
        return Ok((wanted, Vec::new()));
    }
    if is_same && wanted.slots() != found.slots {
        let told = format!(
            "the cache on flash has room for {} pages, the configuration names {}: it is used as it is; `entresol volume \
             resize` changes it",
            found.slots,
            wanted.slots()
        );
        let config = VolumeConfig { slots: found.slots, ..config.clone() };
        return Ok((config.cache_options()?, vec![told]));
    }
    let capacity = open("flash", &config.flash, config.direct_io)?.geometry().capacity_bytes;
    let fits = bytes <= capacity;
    // In another mode a cache of the same policy may have room for fewer pages.
    let is_policy_same = wanted.policy() == found.policy.name();
    if is_same || !fits && !is_policy_same {
        return Ok((wanted, Vec::new()));
    }
    let wanted = if fits { wanted } else { config.options_for(capacity)? };
    let told = match is_policy_same && wanted.mode() == found.mode {
        true => "the cache on flash was made by a release that begins with an empty one after each restart: it was made anew"
            .to_owned(),
        false => format!(
            "the cache on flash was of the policy {} in {}, the configuration names {} in {}: all dirty pages were copied to \
             disk, and the cache was emptied",
            found.policy.name(),
            found.mode.name(),
            wanted.policy(),
            wanted.mode().name()
        ),
    };
    let (volume, mut notices) = open_cache(config, found.into())?;
    volume.detach(Loss::Refused).map_err(|error| losing(error, config.page_bytes))?;
    volume.close()?;
    notices.push(told);
    Ok((wanted, notices))
}

/// Removes the journal of a volume that was closed, if nothing is in it.
pub fn remove_ended_journal(config: &VolumeConfig) {
    journal::remove_ended(config);
}

/// Copies all dirty pages of a volume without a server to disk, and releases the disk from its flash. The
/// cache on flash may be another one than the configuration says.
///
/// # Errors
/// [`OpenError`]; [`OpenError::Losing`] with the bytes that are lost, unless the `loss` is accepted.
pub fn detach_volume(config: &VolumeConfig, loss: Loss) -> Result<DetachReport, OpenError> {
    let (found, has_failed) = bound(config)?;
    let is_journal_named = named_by(&*look("label", &config.label)?)? != Uuid::NIL;
    if found.is_none() && !has_failed && !is_journal_named {
        // No cache has anything that the disk lacks. If the disk needs one, this is refused.
        let label = open("label", &config.label, false)?;
        if loss == Loss::Accepted {
            give_up_lost(&*label)?;
        }
        let disk = open("disk", &config.disk, config.direct_io)?;
        let (volume, notices) = Volume::open_without_cache(disk, label, config.cache_options()?)?;
        volume.close()?;
        remove_ended_journal(config);
        return Ok(DetachReport { cache: Uuid::NIL, pages_written: 0, notices });
    }
    let mut notices = Vec::new();
    if is_journal_named {
        // First the acknowledged writes of a killed server.
        let options = found.map_or_else(|| config.cache_options(), |found| Ok(found.into()))?;
        let (volume, told) = open_cache(config, options)?;
        volume.close()?;
        remove_ended_journal(config);
        notices = told;
    }
    let label = open("label", &config.label, false)?;
    let disk = open("disk", &config.disk, config.direct_io)?;
    let flash = open("flash", &config.flash, config.direct_io)?;
    let (home, _) = InPlaceDisk::open(disk, label)?;
    let detached = match loss {
        Loss::Refused => entresol_engine::detach(flash, home.clone()),
        Loss::Accepted => entresol_engine::detach_with_loss(flash, home.clone()),
    };
    let report = detached.map_err(|error| losing(error, config.page_bytes))?;
    let layer = DiskLayer::open(home, config.page_bytes)?;
    follow_no_journal(&*layer)?;
    layer.close()?;
    notices.extend(report.notices);
    let notices = told(config, &notices);
    Ok(DetachReport { notices, ..report })
}

/// Begins an empty cache with the configuration `after` on the flash of a volume without a server; all dirty
/// pages are copied to disk first. Returns the outcome of the detach, and `after` with the number of slots.
///
/// # Errors
/// [`OpenError`].
pub fn empty_volume(
    before: &VolumeConfig,
    after: &VolumeConfig,
    loss: Loss,
) -> Result<(DetachReport, VolumeConfig), OpenError> {
    let capacity = open("flash", &before.flash, before.direct_io)?.geometry().capacity_bytes;
    let options = after.options_after(&before.cache_options()?, capacity)?;
    let report = detach_volume(before, loss)?;
    // It is bound to the disk again.
    let after = VolumeConfig { slots: options.slots(), ..after.clone() };
    let (volume, _) = open_volume(&after)?;
    volume.close()?;
    remove_ended_journal(&after);
    Ok((report, after))
}

/// A volume without a server takes policy and mode of the configuration `after`: its cache keeps its pages if
/// the policy finds them in that mode, or is emptied as by [`empty_volume`]. Returns `after` with the number
/// of slots.
///
/// # Errors
/// [`OpenError`].
pub fn change_policy(
    before: &VolumeConfig,
    after: &VolumeConfig,
    loss: Loss,
) -> Result<VolumeConfig, OpenError> {
    let old = before.cache_options()?;
    if after.cache_options().is_ok_and(|new| new.keeps_pages_of(&old)) {
        return Ok(after.clone());
    }
    Ok(empty_volume(before, after, loss)?.1)
}

/// What is under way while another program has a volume open that does not answer.
const OPEN_ELSEWHERE: &str = "open in another program: a server that starts or ends, or a command";

/// The devices of a volume without a server.
fn devices(config: &VolumeConfig, is_journal_missing: bool) -> Vec<DeviceStatus> {
    let in_use = |is_used: bool| if is_used { Condition::Ok } else { Condition::None };
    let has_failed =
        look("label", &config.label).is_ok_and(|label| matches!(flash_has_failed(&*label), Ok(true)));
    let flash = if has_failed { Condition::Degraded } else { in_use(config.cache) };
    let is_kept = !config.journal.as_os_str().is_empty();
    let journal = if is_journal_missing { Condition::Missing } else { in_use(is_kept) };
    let devices = [
        ("disk", &config.disk, Condition::Ok),
        ("flash", &config.flash, flash),
        ("label", &config.label, Condition::Ok),
        ("journal", &config.journal, journal),
    ];
    let of = |(device, path, state): (&str, &std::path::PathBuf, _)| DeviceStatus {
        device: device.to_owned(),
        path: path.display().to_string(),
        state,
        ..DeviceStatus::default()
    };
    devices.map(of).into()
}

/// The state of a volume without a server, read from its flash.
///
/// # Errors
/// [`OpenError`].
pub fn inspect_volume(config: &VolumeConfig) -> Result<VolumeStatus, OpenError> {
    if journal::held(&config.label) {
        // It is not waited for.
        let disk = look("disk", &config.disk)?;
        return Ok(VolumeStatus {
            volume_bytes: disk.geometry().capacity_bytes,
            page_bytes: config.page_bytes.into(),
            devices: devices(config, false),
            under_way: Some(UnderWay { what: OPEN_ELSEWHERE.to_owned(), ..UnderWay::default() }),
            ..VolumeStatus::default()
        });
    }
    let disk = open("disk", &config.disk, config.direct_io)?;
    let page_bytes = u64::from(config.page_bytes);
    let lost = lost_on(&*open("label", &config.label, false)?)?;
    let log = look("label", &config.label).ok().and_then(|label| named_by(&*label).ok()).unwrap_or(Uuid::NIL);
    let writes = journal::waiting(config, log);
    let none = VolumeStatus {
        volume_bytes: disk.geometry().capacity_bytes,
        page_bytes,
        devices: devices(config, writes.is_none()),
        lost_bytes: lost.iter().map(|range| Lost::of(range, page_bytes).bytes).sum(),
        lost: lost.iter().map(|range| Lost::of(range, page_bytes)).collect(),
        journal_writes: writes.unwrap_or(0),
        journal_missing: writes.is_none(),
        start_notices: if writes.is_none() { vec![journal_is_gone(None)] } else { Vec::new() },
        ..VolumeStatus::default()
    };
    if !config.cache {
        return Ok(none);
    }
    let options = config.cache_options()?;
    if let CacheOptions::Fragments(_) = options {
        // Its directory is in the server's memory.
        let (policy, mode) = (Some(options.policy().to_owned()), Some(options.mode().name().to_owned()));
        return Ok(VolumeStatus { policy, mode, slots: options.slots().into(), ..none });
    }
    let flash = open("flash", &config.flash, config.direct_io)?;
    // Without its label, the contents of the flash are reported.
    let is_free = |label: Arc<dyn Device>| -> Result<bool, TierError> {
        Ok(FlashTier::bound_options(&*flash, &*label)?.is_none() && !is_flash_needed(&*label)?)
    };
    if look("label", &config.label).ok().map(is_free).transpose()? == Some(true) {
        let (policy, mode) = (Some(options.policy().to_owned()), Some(options.mode().name().to_owned()));
        return Ok(VolumeStatus { policy, mode, slots: options.slots().into(), detached: true, ..none });
    }
    let report = inspect(&*flash)?;
    let occupancy = report.directory.map(|directory| directory.occupancy);
    let dirty_pages = occupancy.as_ref().map_or(0, |occupancy| occupancy.dirty.into());
    let (slots, mode) = (u64::from(report.superblock.slots), report.superblock.mode);
    Ok(VolumeStatus {
        policy: Some(report.superblock.policy.name().to_owned()),
        mode: Some(mode.name().to_owned()),
        slots,
        pages: occupancy.as_ref().map_or(0, |occupancy| occupancy.valid.into()),
        dirty_pages,
        dirty_pages_max: slots * config.dirty_percent_max / 100,
        dirty_permille: dirty_pages * 1000 / slots.max(1),
        lost_without_flash_bytes: if mode == Mode::WriteBack { dirty_pages * page_bytes } else { 0 },
        ..none
    })
}
