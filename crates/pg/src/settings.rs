//! The engine's options, from the extension's.

use crate::locator::Folders;
use crate::memory::{ALIGNMENT, front_bytes};
use crate::now::POLICIES;
use crate::types::{EntOptions, FLASH_PATH_BYTES};
use entresol_core::{DEQUEUES_USUAL, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{DailyWrites, Mode, TierOptions, segment_bytes};
use entresol_format::PageFormat;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// Bytes of a PostgreSQL page, as it is usually compiled.
pub(crate) const PAGE_BYTES: usize = 8192;
/// Fewest pages of a cache. With fewer, groups on their way would be most of it, and the engine refuses it.
const SLOTS_MIN: u32 = 1280;

/// Least value of `entresol.objects`, as the extension defines it.
const OBJECTS_MIN: u32 = 256;

/// The least size of a flash with room for the objects of these options, in MB of 2^20 bytes.
fn least_mb(options: &TierOptions) -> u64 {
    let is_enough = |mb: &u64| options.fitted(mb << 20).slots >= SLOTS_MIN;
    (1..).find(is_enough).expect("some size is enough")
}

/// The options, as values of this language.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub flash: PathBuf,
    pub folders: Folders,
    pub tier: TierOptions,
    /// Bytes of the flash that are used.
    pub flash_bytes: u64,
    /// How much may be written to flash in a day.
    pub writes: DailyWrites,
    pub processes: u32,
    /// Threads that dequeue and destage, at most.
    pub workers: usize,
    /// In write-back mode the server's log replaces a lost flash.
    pub survives: bool,
}

/// The format of the pages of a cluster with checksums, or without.
pub(crate) fn page_format(checksums: bool) -> PageFormat {
    match checksums {
        true => PageFormat::PostgresChecksums,
        false => PageFormat::Postgres,
    }
}

impl Settings {
    /// From the C interface. `text` reads one of its strings.
    ///
    /// # Errors
    /// A sentence.
    pub fn new<'a>(
        options: &EntOptions,
        text: impl Fn(*const std::ffi::c_char) -> &'a CStr,
    ) -> Result<Self, String> {
        let string = |what: &str, at| {
            let text = text(at).to_str().map_err(|_| format!("{what} is not UTF-8"))?;
            if text.is_empty() { Err(format!("{what} is not set")) } else { Ok(text.to_owned()) }
        };
        let flash = PathBuf::from(string("entresol.flash", options.flash)?);
        let policy = string("entresol.policy", options.policy)?;
        let kind = PolicyKind::from_name(&policy).ok_or_else(|| format!("there is no policy {policy:?}"))?;
        let mode = string("entresol.mode", options.mode)?;
        let mode = Mode::from_name(&mode).ok_or_else(|| format!("there is no mode {mode:?}"))?;
        if flash.as_os_str().len() >= FLASH_PATH_BYTES {
            return Err(format!("the path of the flash has {FLASH_PATH_BYTES} bytes or more"));
        }
        let flash_bytes = match options.flash_bytes {
            0 => size_of_flash(&flash)?,
            bytes => bytes,
        };
        let page_format = page_format(options.checksums);
        let writes = daily_writes(&string("entresol.writes_per_day", options.writes_per_day)?)?;
        let wanted = TierOptions {
            page_bytes: PAGE_BYTES as u32,
            page_format,
            mode,
            objects: options.objects,
            keeps_bases: options.survives && mode == Mode::WriteBack,
            ..TierOptions::new(kind, 0)
        };
        let workers = options.workers as usize;
        let tier = fitted(&wanted, &flash, flash_bytes, workers)?;
        let folders = Folders {
            data: PathBuf::from(string("the cluster's folder", options.data)?),
            version: string("the folder of this version", options.version_folder)?,
        };
        let (processes, survives) = (options.processes, options.survives);
        Ok(Self { flash, folders, tier, flash_bytes, writes, processes, workers, survives })
    }

    /// These settings, with what changes while a server runs.
    ///
    /// # Errors
    /// A sentence.
    pub fn changed(
        self,
        flash: PathBuf,
        flash_bytes: u64,
        policy: PolicyKind,
        mode: Mode,
    ) -> Result<Self, String> {
        let TierOptions { page_bytes, page_format, objects, .. } = self.tier;
        let keeps_bases = self.survives && mode == Mode::WriteBack;
        let of_policy = TierOptions::new(policy, 0);
        let wanted = TierOptions { page_bytes, page_format, mode, objects, keeps_bases, ..of_policy };
        let tier = fitted(&wanted, &flash, flash_bytes, self.workers)?;
        Ok(Self { flash, tier, flash_bytes, ..self })
    }

    /// Bytes that may be written to flash in a day. `None`: there is no limit.
    pub fn writes_per_day(&self) -> Option<u64> {
        self.writes.bytes(self.flash_bytes)
    }

    /// Whether the cluster never needs its flash.
    pub fn is_through(&self) -> bool {
        self.tier.mode == Mode::WriteThrough
    }

    /// Bytes of shared memory, with what its alignment may cost, for caches of up to `max_bytes` bytes, and
    /// of every policy and mode.
    ///
    /// # Errors
    /// A sentence.
    pub fn memory_bytes(&self, max_bytes: u64) -> Result<usize, String> {
        let bytes = max_bytes.max(self.flash_bytes);
        let mut most = self.segment_bytes()?;
        for policy in POLICIES {
            for mode in [Mode::WriteBack, Mode::WriteThrough] {
                // A policy may need a larger flash than there will be.
                let largest = self.clone().changed(self.flash.clone(), bytes, policy, mode);
                most = most.max(largest.and_then(|largest| largest.segment_bytes()).unwrap_or(0));
            }
        }
        Ok(front_bytes(self.tier.objects, self.processes) + most + ALIGNMENT)
    }

    /// Bytes of the cache's segment.
    ///
    /// # Errors
    /// A sentence.
    pub fn segment_bytes(&self) -> Result<usize, String> {
        segment_bytes(&self.tier, self.processes).map_err(|error| error.to_string())
    }
}

/// The options of a cache like `wanted` on `flash_bytes` bytes of the flash.
fn fitted(
    wanted: &TierOptions,
    flash: &Path,
    flash_bytes: u64,
    workers: usize,
) -> Result<TierOptions, String> {
    let fitted = wanted.fitted(flash_bytes);
    if fitted.slots < SLOTS_MIN {
        return Err(format!(
            "\"{}\" with {flash_bytes} bytes is too small for a cache with room for {} forks of relations \
             (entresol.objects), which takes at least {} MB; with the fewest of them, {OBJECTS_MIN}, it takes {} MB",
            flash.display(),
            wanted.objects,
            least_mb(wanted),
            least_mb(&TierOptions { objects: OBJECTS_MIN, ..wanted.clone() }),
        ));
    }
    // PostgreSQL syncs its own writes with the next checkpoint.
    let takes_changes = wanted.mode == Mode::WriteBack;
    let tier = TierOptions { background_workers: workers, takes_changes, ..fitted };
    // Each has memory for a group.
    let needed = tier.groups_ahead().max(DEQUEUES_USUAL) as usize;
    let tier = TierOptions { background_workers: workers.min(needed), ..tier };
    tier.validate().map_err(|error| error.to_string())?;
    Ok(tier)
}

/// The largest number of a block that PostgreSQL has, as a page of object 0.
pub(crate) const LAST_BLOCK: PageId = PageId::new(0, u32::MAX - 1);

/// Reads what may be written to flash in a day.
///
/// # Errors
/// A sentence.
pub(crate) fn daily_writes(text: &str) -> Result<DailyWrites, String> {
    DailyWrites::read(text).map_err(|_| {
        format!(
            "{text:?} is no amount of writes; write \"unlimited\", device writes such as \"0.5x\", or bytes such as \
             \"200G\" (K, M, G, T are powers of 1024)"
        )
    })
}

fn size_of_flash(flash: &std::path::Path) -> Result<u64, String> {
    let options = FileOptions { is_direct_wanted: false, ..FileOptions::shared() };
    let device = FileDevice::open(flash, options)
        .map_err(|error| format!("{error}; set entresol.size to make a file of this size"))?;
    Ok(device.geometry().capacity_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_names_the_least_sizes() {
        let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let extension =
            std::fs::read_to_string(repository.join("doors/postgres/entresol/entresol.c")).unwrap();
        // With every policy and mode.
        let least = |objects| {
            let kinds =
                ["face", "face-gr", "face-gsc", "reuse"].map(|name| PolicyKind::from_name(name).unwrap());
            let modes = [Mode::WriteBack, Mode::WriteThrough];
            let formats = [PageFormat::Postgres, PageFormat::PostgresChecksums];
            let mut least = Vec::new();
            for (kind, mode, page_format) in kinds
                .into_iter()
                .flat_map(|kind| modes.map(|mode| (kind, mode)))
                .flat_map(|(kind, mode)| formats.map(|format| (kind, mode, format)))
            {
                let page_bytes = PAGE_BYTES as u32;
                least.push(least_mb(&TierOptions {
                    page_bytes,
                    page_format,
                    mode,
                    objects,
                    ..TierOptions::new(kind, 0)
                }));
            }
            println!("{objects}: {least:?}");
            *least.iter().max().unwrap()
        };
        for line in [
            format!("#define SIZE_MIN_MB {}\n", least(OBJECTS_MIN)),
            format!("#define SIZE_MIN_USUAL_MB {}\n", least(65_536)),
            "&objects, OBJECTS_USUAL, OBJECTS_MIN, 1 << 22".to_owned(),
            format!("#define OBJECTS_MIN {OBJECTS_MIN}\n"),
            "#define OBJECTS_USUAL 65536\n".to_owned(),
        ] {
            assert!(extension.contains(&line), "{line:?}");
        }
    }
}
