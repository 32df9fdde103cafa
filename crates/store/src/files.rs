//! A store on files or block devices: opens a store from paths.

use crate::blank::refuse_unless_free;
use crate::wal::{blocks, log_area, session};
use crate::{FlashLoss, Options, Parts, RestartReport, Store, StoreError};
use entresol_core::PolicyKind;
use entresol_device::{Contents, Device, FileOptions, OpenDevice, held, open_device};
use entresol_engine::{
    DailyWrites, DiskLayer, FlashTier, Layer, TierError, TierOptions, WriteBudget, disk_binding,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The paths of a store, and the number of bytes used of each file or block device. Files are created and
/// grown to that size.
///
/// An existing store is opened with the sizes and the policy it was created with. Only the log may be larger:
/// the store then uses all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    disk: (PathBuf, u64),
    log: (PathBuf, u64),
    flash: Option<(PathBuf, u64, PolicyKind)>,
    flash_writes_per_day: Option<u64>,
    keeps_slots: bool,
    is_flash_lost: bool,
}

/// An open store, and notices for its owner.
pub struct OpenFiles {
    /// The store.
    pub store: Store,
    /// The report of the restart; empty for a new store.
    pub restart: RestartReport,
    /// For example, that a file system refuses direct I/O, or that a flash cache was unusable and was
    /// emptied.
    pub notices: Vec<String>,
}

impl Files {
    /// A database and its log without a flash cache.
    pub fn new(disk: impl Into<PathBuf>, disk_bytes: u64, log: impl Into<PathBuf>, log_bytes: u64) -> Self {
        let (disk, log) = ((disk.into(), disk_bytes), (log.into(), log_bytes));
        Self { disk, log, flash: None, flash_writes_per_day: None, keeps_slots: false, is_flash_lost: false }
    }

    /// With a flash cache between memory and the disk.
    pub fn with_flash(self, flash: impl Into<PathBuf>, bytes: u64, policy: PolicyKind) -> Self {
        Self { flash: Some((flash.into(), bytes, policy)), ..self }
    }

    /// Limits the writes to flash in a day, as long as the store is open: flash wears out. Only with a policy
    /// that weighs what a write is worth: `reuse`, `reuse-slots`. A device write is one write of all bytes
    /// used of the flash.
    pub fn with_flash_writes_per_day(self, writes: DailyWrites) -> Self {
        let bytes = self.flash.as_ref().map_or(0, |(_, bytes, _)| *bytes);
        Self { flash_writes_per_day: writes.bytes(bytes), ..self }
    }

    /// A new flash cache keeps what is in its slots over a crash, dirty pages too: with `lc`, `reuse-slots`,
    /// `s3-fifo`, `lru`, `fifo`, `clock` and `sieve`. One that exists stays as it was made.
    pub fn with_kept_slots(self) -> Self {
        Self { keeps_slots: true, ..self }
    }

    /// The flash is lost. [`Files::open`] repeats the log from the oldest change that the disk lacks, if the
    /// log was kept for that ([`Options::flash_loss`]), and opens the store without a cache. The flash is
    /// refused if it returns. A new, empty one may be given when the store is opened next.
    pub fn without_flash(self) -> Self {
        Self { flash: None, is_flash_lost: true, ..self }
    }

    /// Creates an empty store. Files with valuable content are refused, unless [`Options::overwrite`] is set.
    /// A refusal does not change any file, except that empty files may have been created, and blank ones
    /// grown.
    ///
    /// # Errors
    /// If a file has valuable content; if a file cannot be opened, is in use or cannot grow; if a flash cache
    /// has the only copy of a page; if options are out of range.
    pub fn create(&self, options: Options) -> Result<OpenFiles, StoreError> {
        options.check()?;
        if !options.overwrite {
            self.refuse_growth()?;
        }
        let Devices { disk, log, flash, notices } = self.devices(&options)?;
        let overwrite = options.overwrite;
        // The creation of the layer writes the disk's label and the flash. So a case that `Store::create`
        // refuses must be refused before.
        options.check_log(log_area(&*log))?;
        if !overwrite {
            refuse_unless_free(&*log, disk_binding(&*disk)?.as_ref())?;
        }
        let layer: Arc<dyn Layer> = match flash {
            Some((flash, tier)) => {
                let tier = TierOptions { overwrite, ..tier };
                FlashTier::create(flash, disk, tier)?
            }
            None => DiskLayer::create_on(disk, options.page_bytes, overwrite)?,
        };
        let store = Store::create(Parts { layer, log }, options)?;
        Ok(OpenFiles { store, restart: RestartReport::default(), notices })
    }

    /// Opens the store on these files, after a shutdown or a crash.
    ///
    /// # Errors
    /// As [`Files::create`]; if there is no store, or the files do not belong together; if a needed page is
    /// damaged. A log that does not belong to the disk is refused before anything is written.
    pub fn open(&self, options: Options) -> Result<OpenFiles, StoreError> {
        options.check()?;
        let Devices { disk, log, flash, mut notices } = self.devices(&options)?;
        // The open of the layer writes the disk's label, and formats a blank flash. So a wrong log must be
        // refused before.
        if let Some(disk) = disk_binding(&*disk)? {
            let master = blocks::find(&*log)?;
            session::check_binding(&master, &disk)?;
            options.check_log(log_area(&*log).max(master.area))?;
        }
        let layer: Arc<dyn Layer> = match flash {
            Some((flash, tier)) => {
                let (tier, report) = FlashTier::open(flash, disk, tier)?;
                notices.extend(report.notices);
                tier
            }
            None if self.is_flash_lost => DiskLayer::open_without_flash(disk, options.page_bytes)?,
            None => DiskLayer::open(disk, options.page_bytes)?,
        };
        let (store, restart) = Store::open(Parts { layer, log }, options)?;
        notices.extend(restart.notices());
        Ok(OpenFiles { store, restart, notices })
    }

    /// Refuses files with content that would have to grow: a file that is too short does not belong to a
    /// store, and growth would change it.
    fn refuse_growth(&self) -> Result<(), StoreError> {
        let flash = self.flash.iter().map(|(path, bytes, _)| ("flash device", path, *bytes));
        let files = [("disk", &self.disk.0, self.disk.1), ("log device", &self.log.0, self.log.1)];
        for (role, path, bytes) in files.into_iter().chain(flash) {
            if !path.is_file() || path.metadata().is_ok_and(|metadata| metadata.len() >= bytes) {
                continue;
            }
            if let Some(value) = held(path)? {
                return Err(StoreError::Config(format!(
                    "{}: {}",
                    path.display(),
                    Contents::refusal(role, &value)
                )));
            }
        }
        Ok(())
    }

    fn devices(&self, options: &Options) -> Result<Devices, StoreError> {
        let (page_bytes, mut notices) = (options.page_bytes, Vec::new());
        let keeps_bases = options.flash_loss != FlashLoss::Fatal;
        let mut device = |path: &Path, bytes| {
            let OpenDevice { device, notices: told } = open_device(path, FileOptions::create(bytes))?;
            notices.extend(told);
            Ok(device)
        };
        let layer = |role| move |source| StoreError::Layer(TierError::Device { role, source });
        let disk = device(&self.disk.0, self.disk.1).map_err(layer("disk"))?;
        let log = device(&self.log.0, self.log.1)?;
        let flash = match &self.flash {
            None => None,
            Some((path, bytes, policy)) => {
                let device = device(path, *bytes).map_err(layer("flash"))?;
                let budget =
                    WriteBudget { bytes_per_day: self.flash_writes_per_day, ..WriteBudget::UNLIMITED };
                let bound = FlashTier::bound_options(&*device, &*disk)?;
                let keeps_slots = bound.map_or(self.keeps_slots, |options| options.keeps_slots);
                let asked = TierOptions { page_bytes, keeps_slots, ..TierOptions::new(*policy, 0) };
                let asked = asked.fitted(*bytes);
                Some((device, TierOptions { write_budget: budget, keeps_bases, ..asked }))
            }
        };
        Ok(Devices { disk, log, flash, notices })
    }
}

struct Devices {
    disk: Arc<dyn Device>,
    log: Arc<dyn Device>,
    flash: Option<(Arc<dyn Device>, TierOptions)>,
    notices: Vec<String>,
}
