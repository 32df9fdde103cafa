//! A store on real files or devices: how large they are, how they are opened, wiped and loaded.

use crate::bench::Progress;
use crate::bench::cache::CacheOptions;
use crate::bench::image::{self, PAGE_BYTES, store_options};
use crate::bench::rig::Rig;
use crate::config::{RealPaths, knows_what_is_durable};
use anyhow::Context;
use entresol_core::System;
use entresol_device::{BLANK_HEAD_BYTES, BLANK_TAIL_BYTES, Device, FileOptions, OpenDevice, open_device};
use entresol_runtime::say;
use entresol_store::{Options, Replacement};
use entresol_tpcc::LoadConfig;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a store on real files is made of. A worker process and its parent describe the same store with it.
#[derive(Clone, Debug, PartialEq)]
pub struct RealStore {
    /// Which system.
    pub system: System,
    /// Its place. Flash-only has its database on `flash`; disk-only does not touch `flash`, nor
    /// flash-only `disk`.
    pub paths: RealPaths,
    /// Bytes of the database's file or device that are used.
    pub database_bytes: u64,
    /// Bytes of the log's file or device that are used.
    pub log_bytes: u64,
    /// The flash cache, where the system has one.
    pub tier: Option<CacheOptions>,
    /// DRAM frames.
    pub frames: usize,
    /// Which of them is run first.
    pub replacement: Replacement,
    /// Time between database checkpoints.
    pub checkpoint_interval: Duration,
}

impl RealStore {
    fn database_path(&self) -> &Path {
        if self.system == System::FlashOnly { &self.paths.flash } else { &self.paths.disk }
    }

    fn open_database(&self) -> anyhow::Result<Arc<dyn Device>> {
        open("database", self.database_path(), self.database_bytes)
    }

    fn open_log(&self) -> anyhow::Result<Arc<dyn Device>> {
        open("log", &self.paths.log, self.log_bytes)
    }

    fn open_flash(&self) -> anyhow::Result<Option<Arc<dyn Device>>> {
        let Some(tier) = &self.tier else { return Ok(None) };
        open("flash cache", &self.paths.flash, tier.flash_bytes()).map(Some)
    }

    fn keeps_slots(&self) -> bool {
        matches!(&self.tier, Some(CacheOptions::Slots(tier)) if tier.keeps_slots)
    }

    /// Opens the devices, creating or growing files. While the machine lives, no other process can.
    ///
    /// # Errors
    /// If a path cannot be created or opened, is in use, is a block device that is too small, or a file for
    /// which there is not enough space.
    pub fn machine(&self) -> anyhow::Result<Rig> {
        Ok(Rig {
            disk: self.open_database()?,
            log: self.open_log()?,
            flash: self.open_flash()?,
            tier: self.tier.clone(),
            pulls: true,
            options: Options {
                replacement: self.replacement,
                durable_notes: knows_what_is_durable(self.system, self.keeps_slots()),
                ..store_options(self.frames, Some(self.checkpoint_interval))
            },
            modelled: Vec::new(),
            log_media: None,
        })
    }

    /// Makes the flash blank where the cache will be. An earlier run may have left one of another size there.
    ///
    /// # Errors
    /// As [`RealStore::machine`], or if the device fails.
    pub fn wipe_flash(&self) -> anyhow::Result<()> {
        self.open_flash()?.iter().try_for_each(|device| wipe(&**device))
    }

    /// Loads a database where nothing of value is, and shuts it down; the flash cache, if any, becomes empty.
    /// Returns the database's pages.
    ///
    /// # Errors
    /// As [`RealStore::machine`], or if the devices fail.
    pub fn load(&self, load: &LoadConfig, progress: Progress<'_>) -> anyhow::Result<u64> {
        let (disk, log) = (self.open_database()?, self.open_log()?);
        // Flash first: an old cache of an old disk is nothing, an old disk without its cache would be
        // refused.
        for device in self.open_flash()?.iter().chain([&disk, &log]) {
            wipe(&**device)?;
        }
        image::fill(disk, log, load, progress)
    }
}

/// Makes a device blank.
fn wipe(device: &dyn Device) -> anyhow::Result<()> {
    let capacity = device.geometry().capacity_bytes;
    let zeros = vec![0; BLANK_HEAD_BYTES.min(capacity) as usize];
    let end = &zeros[..BLANK_TAIL_BYTES.min(capacity) as usize];
    let wiped = device.write(0, &zeros).and_then(|()| device.write(capacity - end.len() as u64, end));
    wiped.and_then(|()| device.sync()).context("wiping a device")
}

/// Opens one device; says once for each path, on stderr, what should be known about it.
fn open(role: &str, path: &Path, bytes: u64) -> anyhow::Result<Arc<dyn Device>> {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let bytes = bytes.next_multiple_of(PAGE_BYTES.into());
    let OpenDevice { device, notices } = open_device(path, FileOptions::create(bytes)).with_context(|| {
        format!("opening the {role} of {} MiB; give a path on a file system with enough space, or a large enough block device", bytes >> 20)
    })?;
    for notice in notices {
        if TOLD.lock().insert(notice.clone()) {
            say::tell(&format!("entresol: {notice}"));
        }
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PolicyKind;
    use entresol_engine::{DiskLayer, Layer, TierOptions};

    fn refusal(path: &str, bytes: u64) -> String {
        let Err(error) = open("log", Path::new(path), bytes) else {
            panic!("{path} cannot hold {bytes} bytes")
        };
        format!("{error:#}")
    }

    #[test]
    fn what_cannot_be_opened_is_refused_with_the_reason() {
        assert!(refusal("/nonexistent/log.img", 1 << 20).contains("/nonexistent/log.img"));
        let folder = std::env::temp_dir().join(format!("entresol-real-store-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a writable folder");
        let path = folder.join("log.img");
        let refused = refusal(path.to_str().expect("a path in UTF-8"), 1 << 60);
        std::fs::remove_dir_all(&folder).expect("removable");
        assert!(refused.contains("no space") && refused.contains("block device"), "{refused}");
    }

    #[test]
    fn a_cache_takes_the_place_of_one_of_another_size() {
        let folder = std::env::temp_dir().join(format!("entresol-wiped-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a writable folder");
        let tier = CacheOptions::Slots(TierOptions::new(PolicyKind::Lc, 2048));
        let path = |name: &str| folder.join(name);
        let store = RealStore {
            system: System::Cached(PolicyKind::Lc),
            paths: RealPaths { flash: path("flash"), disk: path("disk"), log: path("log") },
            database_bytes: 1 << 20,
            log_bytes: 1 << 20,
            tier: Some(tier.clone()),
            frames: 1,
            replacement: Replacement::Lru,
            checkpoint_interval: Duration::MAX,
        };
        std::fs::write(path("flash"), vec![7; 2 * tier.flash_bytes() as usize]).expect("written");
        let create = || {
            let disk = store.open_database().expect("a file");
            wipe(&*disk).expect("written");
            DiskLayer::create(disk.clone(), PAGE_BYTES).expect("blank").close().expect("no failure");
            tier.create(store.open_flash().expect("a file").expect("a cache"), disk)
        };
        assert!(create().is_err_and(|error| format!("{error:#}").contains("not blank")));
        store.wipe_flash().expect("written");
        create().expect("the flash is blank").close().expect("no failure");
        std::fs::remove_dir_all(&folder).expect("removable");
    }
}
