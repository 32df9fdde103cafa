//! The cache as it is now: those of its settings that change while the server runs.
//!
//! In shared memory. The worker writes it before the first process attaches, and while the gate is closed.
//! Processes read it inside the gate, or only to show it.

use crate::settings::Settings;
use crate::types::{EntNow, FLASH_PATH_BYTES};
use entresol_core::PolicyKind;
use entresol_engine::Mode;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const WORDS: usize = FLASH_PATH_BYTES / 8;

/// See the module's header. Zeros: no cache was opened.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Now {
    /// Of the flash; 0: no cache was opened.
    flash_bytes: AtomicU64,
    /// Places in [`POLICIES`] and [`MODES`].
    policy: AtomicU64,
    mode: AtomicU64,
    /// The path, with zeros after it.
    flash: [AtomicU64; WORDS],
}

impl Default for Now {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self { flash_bytes: zero(), policy: zero(), mode: zero(), flash: std::array::from_fn(|_| zero()) }
    }
}

/// In the order of the extension's settings.
pub(crate) const POLICIES: [PolicyKind; 4] =
    [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc, PolicyKind::Reuse];
const MODES: [Mode; 2] = [Mode::WriteBack, Mode::WriteThrough];

impl Now {
    /// The cache has these settings.
    pub fn set(&self, settings: &Settings) {
        let place = |found: Option<usize>| found.expect("settings have one of them") as u64;
        let policy = POLICIES.iter().position(|policy| *policy == settings.tier.policy);
        let mode = MODES.iter().position(|mode| *mode == settings.tier.mode);
        self.policy.store(place(policy), SeqCst);
        self.mode.store(place(mode), SeqCst);
        let mut path = [0; FLASH_PATH_BYTES];
        let bytes = settings.flash.as_os_str().as_bytes();
        path[..bytes.len()].copy_from_slice(bytes);
        for (word, bytes) in self.flash.iter().zip(path.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), SeqCst);
        }
        self.flash_bytes.store(settings.flash_bytes, SeqCst);
    }

    /// `settings`, with those of the cache that was opened.
    ///
    /// # Errors
    /// A sentence.
    pub fn of(&self, settings: Settings) -> Result<Settings, String> {
        let now = self.read();
        if now.flash_bytes == 0 {
            return Ok(settings);
        }
        let (policy, mode) = (POLICIES[now.policy as usize], MODES[now.mode as usize]);
        settings.changed(now.flash_path(), now.flash_bytes, policy, mode)
    }

    /// For the extension.
    pub fn read(&self) -> EntNow {
        let mut now = EntNow {
            flash_bytes: self.flash_bytes.load(SeqCst),
            policy: self.policy.load(SeqCst) as u32,
            mode: self.mode.load(SeqCst) as u32,
            ..EntNow::default()
        };
        for (word, bytes) in self.flash.iter().zip(now.flash.as_chunks_mut().0) {
            *bytes = word.load(SeqCst).to_le_bytes();
        }
        now
    }
}

impl EntNow {
    fn flash_path(&self) -> PathBuf {
        let path = self.flash.split(|byte| *byte == 0).next().unwrap_or_default();
        std::ffi::OsStr::from_bytes(path).into()
    }
}
