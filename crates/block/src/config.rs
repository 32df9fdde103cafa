//! The configuration of a volume: a TOML file with every option written out.

use crate::journal::JOURNAL_BYTES_MIN;
use crate::resize::flash_in_use;
use crate::volume::keeps_slots;
use crate::{CacheOptions, DailyWrites, SteerOptions};
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_engine::{FragmentOptions, TierOptions, bytes_of};
use entresol_format::PageFormat;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Slots of a cache that is large enough for each policy.
const ANY_SLOTS: u32 = 1 << 20;

/// A volume and its server. Sizes in bytes, times in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// The name of the export.
    pub name: String,
    /// The disk.
    pub disk: PathBuf,
    /// The flash device.
    pub flash: PathBuf,
    /// The flash device that is to take its place, while that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_next: Option<PathBuf>,
    /// The file with the disk's label.
    pub label: PathBuf,
    /// The server's Unix socket.
    pub socket: PathBuf,
    /// With `false` the disk alone serves.
    pub cache: bool,
    /// The mode's name.
    pub mode: String,
    /// The policy's name.
    pub policy: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that fit on flash.
    pub slots: u32,
    /// `sce`: pages of a fragment; 0: of 1 MiB, or less if there are few.
    #[serde(default)]
    pub sce_fragment_pages: u32,
    /// `sce`: populations that may be under way at once; 0: the usual number.
    #[serde(default)]
    pub sce_workers: u32,
    /// `sce`: most populations begun per thousand reads and writes; 0: the usual number.
    #[serde(default)]
    pub sce_pace_permille: u32,
    /// Past the page cache of the operating system.
    pub direct_io: bool,
    /// The file in memory with acknowledged writes that may not be durable; empty: none is kept.
    #[serde(default)]
    pub journal: PathBuf,
    /// Its size.
    #[serde(default = "usual_journal_bytes", deserialize_with = "read_bytes")]
    pub journal_bytes: u64,
    /// A sequential stream of this length bypasses the cache; 0: never.
    #[serde(default = "usual_bypass_bytes", deserialize_with = "read_bytes")]
    pub sequential_bypass_bytes: u64,
    /// Hits are read from disk while flash is slower.
    #[serde(default = "usual_hits_to_disk")]
    pub hits_to_disk: bool,
    /// The budget of writes to flash: "unlimited", device writes such as "0.5x", or bytes such as "200G".
    #[serde(default = "usual_writes_per_day")]
    pub flash_writes_per_day: String,
    /// Writes bypass the cache while this percentage of it is newer than disk.
    #[serde(default = "usual_dirty_percent")]
    pub dirty_percent_max: u64,
    /// Pages that are newer than disk for so many seconds are copied there; 0: when their room is needed.
    #[serde(default = "usual_dirty_age")]
    pub dirty_age_seconds: u64,
    /// The policy changes by itself when the cache's shadows advise it.
    #[serde(default)]
    pub switch_policy: bool,
    /// Trims are passed to the disk.
    #[serde(default = "usual_pass_trims")]
    pub pass_trims: bool,
    /// Clients cannot write.
    pub read_only: bool,
    /// Threads that carry out requests.
    pub workers: usize,
    /// Most connections.
    pub connections_max: usize,
    /// Most requests of one connection under way.
    pub requests_max: usize,
    /// Most bytes of requests under way.
    pub in_flight_bytes_max: usize,
    /// Longest handshake.
    pub handshake_seconds_max: u64,
    /// Longest time without progress for a reply, or for the data of a write.
    pub transfer_seconds_max: u64,
}

/// A configuration cannot be used. The sentence says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

pub(crate) fn refuse<T>(sentence: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(sentence.into()))
}

/// Bytes: a number, or text such as "4M".
fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Bytes {
        Number(u64),
        Text(String),
    }
    match Bytes::deserialize(deserializer)? {
        Bytes::Number(bytes) => Ok(bytes),
        Bytes::Text(text) => bytes_of(&text).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is no number of bytes; give one such as \"4M\""))
        }),
    }
}

fn usual_journal_bytes() -> u64 {
    32 << 20
}
fn usual_bypass_bytes() -> u64 {
    SteerOptions::default().sequential_bypass_bytes
}
fn usual_hits_to_disk() -> bool {
    SteerOptions::default().hits_to_disk
}
fn usual_writes_per_day() -> String {
    "unlimited".to_owned()
}
fn usual_pass_trims() -> bool {
    true
}
fn usual_dirty_age() -> u64 {
    SteerOptions::default().dirty_age_seconds
}
fn usual_dirty_percent() -> u64 {
    SteerOptions::default().dirty_percent_max
}

impl VolumeConfig {
    /// The usual settings in the mode of this name; paths are to be set.
    pub fn usual(mode: &str) -> Self {
        Self {
            name: String::new(),
            disk: PathBuf::new(),
            flash: PathBuf::new(),
            flash_next: None,
            label: PathBuf::new(),
            socket: PathBuf::new(),
            cache: true,
            mode: mode.to_owned(),
            policy: Self::usual_policy(mode).to_owned(),
            page_bytes: 4096,
            slots: 0,
            sce_fragment_pages: 0,
            sce_workers: 0,
            sce_pace_permille: 0,
            direct_io: true,
            journal: PathBuf::new(),
            journal_bytes: usual_journal_bytes(),
            sequential_bypass_bytes: usual_bypass_bytes(),
            hits_to_disk: usual_hits_to_disk(),
            flash_writes_per_day: usual_writes_per_day(),
            dirty_percent_max: usual_dirty_percent(),
            dirty_age_seconds: usual_dirty_age(),
            switch_policy: SteerOptions::default().switch_policy,
            pass_trims: usual_pass_trims(),
            read_only: false,
            workers: 16,
            connections_max: 64,
            requests_max: 128,
            in_flight_bytes_max: 256 << 20,
            handshake_seconds_max: 10,
            transfer_seconds_max: 30,
        }
    }

    /// The policy of a volume in the mode of that name, unless its owner says otherwise: the one that was
    /// best over all loads (docs/BLOCK.md, "Which one").
    pub fn usual_policy(mode: &str) -> &'static str {
        match Mode::from_name(mode) {
            Some(Mode::WriteBack) => PolicyKind::FaceGsc.name(),
            _ => PolicyKind::ReuseSlots.name(),
        }
    }

    /// Reads the file at `path`. If an exchange of the flash is under way, `flash` is the one in use.
    ///
    /// # Errors
    /// If it cannot be read, or says what cannot be.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError(format!(
                "{shown}: cannot be read ({error}); name a file that `entresol volume create` made"
            ))
        })?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            ConfigError(format!("{shown}, line {line}: {}", error.message()))
        })?;
        config
            .cache_options()
            .and_then(|_| config.steer_options())
            .map_err(|error| ConfigError(format!("{shown}: {error}")))?;
        Ok(Self { flash: flash_in_use(&config), ..config })
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        let ranges = [
            ("workers", self.workers as u64, 1, 256),
            ("connections_max", self.connections_max as u64, 1, 4096),
            ("requests_max", self.requests_max as u64, 1, 4096),
            ("in_flight_bytes_max", self.in_flight_bytes_max as u64, 64 << 20, 1 << 40),
            ("handshake_seconds_max", self.handshake_seconds_max, 1, 3600),
            ("transfer_seconds_max", self.transfer_seconds_max, 1, 3600),
            ("journal_bytes", self.journal_bytes, JOURNAL_BYTES_MIN, 1 << 36),
            ("dirty_percent_max", self.dirty_percent_max, 1, 100),
            ("dirty_age_seconds", self.dirty_age_seconds, 0, 86_400),
            ("sequential_bypass_bytes", self.sequential_bypass_bytes, 0, 1 << 50),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return refuse(format!("{name} = {value} is not possible; choose {least} to {most}"));
            }
        }
        Ok(())
    }

    /// The options of the bypass.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn steer_options(&self) -> Result<SteerOptions, ConfigError> {
        self.check_limits()?;
        Ok(SteerOptions {
            sequential_bypass_bytes: self.sequential_bypass_bytes,
            hits_to_disk: self.hits_to_disk,
            flash_writes_per_day: DailyWrites::read(&self.flash_writes_per_day)
                .map_err(|error| ConfigError(error.to_string()))?,
            dirty_percent_max: self.dirty_percent_max,
            dirty_age_seconds: self.dirty_age_seconds,
            switch_policy: self.switch_policy,
        })
    }

    /// Changes the option `name`, one of [`VolumeConfig::ONLINE`], to what `value` says.
    ///
    /// # Errors
    /// If there is no such option, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let policy = self.policy.clone();
        let wrong = |wanted: &str| ConfigError(format!("{name} = {value:?} is not possible; give {wanted}"));
        match name {
            "mode" => self.mode = value.to_owned(),
            "policy" => self.policy = value.to_owned(),
            "sequential-bypass-bytes" => {
                self.sequential_bypass_bytes =
                    bytes_of(value).ok_or_else(|| wrong("a number of bytes such as 4M, or 0 for never"))?;
            }
            "hits-to-disk" => self.hits_to_disk = value.parse().map_err(|_| wrong("true or false"))?,
            "flash-writes-per-day" => self.flash_writes_per_day = value.to_owned(),
            "dirty-percent-max" => {
                self.dirty_percent_max = value.parse().map_err(|_| wrong("a number from 1 to 100"))?;
            }
            "dirty-age-seconds" => {
                self.dirty_age_seconds = value.parse().map_err(|_| wrong("a number from 0 to 86400"))?;
            }
            "switch-policy" => self.switch_policy = value.parse().map_err(|_| wrong("true or false"))?,
            _ => return refuse(format!("{name} cannot be set; choose one of {}", Self::ONLINE.join(", "))),
        }
        if self.policy != policy && !self.cache {
            return refuse(format!(
                "policy {} needs another cache, and this volume is without one (cache = false); set `cache = true` first",
                self.policy
            ));
        }
        // Another policy has other numbers of slots.
        let options = self.cache_options_of(self.slots)?;
        if let CacheOptions::Pages(options) = options {
            let slots = options.slots / options.group_pages * options.group_pages;
            TierOptions { slots, ..options }.validate().map_err(|error| ConfigError(error.to_string()))?;
        }
        self.steer_options().map(drop)
    }

    /// The options of a cache in the place of one with the options `old`, on a flash device of `capacity`
    /// bytes: it keeps its pages if it can, or has as many as fit.
    ///
    /// # Errors
    /// As [`VolumeConfig::cache_options`].
    pub fn options_after(&self, old: &CacheOptions, capacity: u64) -> Result<CacheOptions, ConfigError> {
        let same = self.cache_options_of(old.slots())?;
        if same == *old || same.keeps_pages_of(old) {
            return same.validate().map(|()| same).map_err(|error| ConfigError(error.to_string()));
        }
        self.options_for(capacity)
    }

    /// What can be changed while a server runs.
    pub const ONLINE: [&str; 8] = [
        "mode",
        "policy",
        "sequential-bypass-bytes",
        "hits-to-disk",
        "flash-writes-per-day",
        "dirty-percent-max",
        "dirty-age-seconds",
        "switch-policy",
    ];

    /// Where the journal of a volume with this label is, unless its owner says otherwise.
    pub fn usual_journal(name: &str, label: &Path) -> PathBuf {
        // The name alone may be that of another volume.
        let number = entresol_format::checksum::of(label.as_os_str().as_encoded_bytes());
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).take(32).collect();
        PathBuf::from(format!("/dev/shm/entresol-{name}-{number:08x}.journal"))
    }

    /// The options of the cache.
    ///
    /// # Errors
    /// If policy, mode or sizes do not exist, or do not fit each other.
    pub fn cache_options(&self) -> Result<CacheOptions, ConfigError> {
        let options = self.cache_options_of(self.slots)?;
        options.validate().map_err(|error| ConfigError(error.to_string()))?;
        Ok(options)
    }

    /// The options of the largest cache on a flash device of `capacity` bytes.
    ///
    /// # Errors
    /// As [`VolumeConfig::cache_options`].
    pub fn options_for(&self, capacity: u64) -> Result<CacheOptions, ConfigError> {
        // What no device could have is refused in its own words.
        self.cache_options_of(ANY_SLOTS)?.validate().map_err(|error| ConfigError(error.to_string()))?;
        let options: CacheOptions = match self.cache_options_of(0)? {
            CacheOptions::Pages(options) => options.fitted(capacity).into(),
            CacheOptions::Fragments(_) => {
                let pages = FragmentOptions::pages_on(capacity, self.page_bytes);
                self.fragment_options(pages).fitted(capacity).into()
            }
        };
        options.validate().map_err(|error| {
            ConfigError(format!(
                "flash {} of {capacity} bytes: {error}; give a larger device",
                self.flash.display()
            ))
        })?;
        Ok(options)
    }

    fn cache_options_of(&self, slots: u32) -> Result<CacheOptions, ConfigError> {
        let names = |all: Vec<&str>| all.join(", ");
        let Some(mode) = Mode::from_name(&self.mode) else {
            let known = names(Mode::ALL.iter().map(|mode| mode.name()).collect());
            return refuse(format!("mode {:?} is unknown; choose one of {known}", self.mode));
        };
        match Cache::from_name(&self.policy) {
            Some(Cache::Policy(policy)) => {
                let usual = TierOptions::new(policy, slots);
                let (page_bytes, page_format) = (self.page_bytes, PageFormat::Raw);
                let keeps_slots = keeps_slots(policy, mode);
                let measures_costs = true;
                Ok(TierOptions { page_bytes, page_format, mode, keeps_slots, measures_costs, ..usual }.into())
            }
            Some(Cache::Fragments) => {
                let options = CacheOptions::from(self.fragment_options(slots));
                options.in_mode(mode).map_err(|error| ConfigError(error.to_string()))
            }
            Some(Cache::Blocks(_)) | None => {
                let caches = Cache::ALL.iter().filter(|cache| !matches!(cache, Cache::Blocks(_)));
                let known = names(caches.map(|cache| cache.name()).collect());
                refuse(format!("policy {:?} is unknown; choose one of {known}", self.policy))
            }
        }
    }

    /// SCE's cache, for so many pages on flash.
    fn fragment_options(&self, pages: u32) -> FragmentOptions {
        let mut options = FragmentOptions::of_pages(pages, self.page_bytes, PageFormat::Raw);
        if self.sce_fragment_pages > 0 {
            options = options.with_fragments(self.sce_fragment_pages, pages / self.sce_fragment_pages);
        }
        if self.sce_workers > 0 {
            options.workers = self.sce_workers;
        }
        if self.sce_pace_permille > 0 {
            options.pace_permille = self.sce_pace_permille;
        }
        options
    }

    /// The control socket that belongs to a data socket.
    pub fn control_socket(socket: &Path) -> PathBuf {
        let mut name = socket.as_os_str().to_owned();
        name.push(".control");
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_as_it_was_written() {
        let config = VolumeConfig {
            name: "da\"ta".to_owned(),
            disk: "/dev/with space\\and\ttab".into(),
            slots: 100_000 / 64 * 64,
            journal: VolumeConfig::usual_journal("da\"ta", Path::new("/a/label")),
            flash_writes_per_day: "0.5x".to_owned(),
            ..VolumeConfig::usual("write-through")
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.toml");
        std::fs::write(&path, config.to_toml().unwrap()).unwrap();
        assert_eq!(VolumeConfig::read(&path).unwrap(), config);
        for (line, part) in [
            ("mode = \"write-trough\"", "write-through"),
            ("mode = \"read-only\"", "choose another mode"),
            ("workers = 0", "1 to 256"),
            ("page_bytes = 5000", "8192"),
            ("dirty_percent_max = 0", "1 to 100"),
            ("flash_writes_per_day = \"lots\"", "unlimited"),
            ("wrokers = 3", "line 2: unknown field"),
            ("slots = \"all\"", "line"),
            ("journal_bytes = \"4Q\"", "such as \"4M\""),
        ] {
            let name = line.split(' ').next().unwrap();
            let text = config.to_toml().unwrap();
            let others = text.lines().skip(1).filter(|old| !old.starts_with(&format!("{name} =")));
            let changed: Vec<&str> = ["#", line].into_iter().chain(others).collect();
            std::fs::write(&path, changed.join("\n")).unwrap();
            let told = VolumeConfig::read(&path).unwrap_err().0;
            assert!(told.contains(part), "{line}: {told}");
        }
    }
}
