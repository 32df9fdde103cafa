//! What tells the parts of a volume from copies of them.
//!
//! A copy has the same bytes: the same label, which names the same journal. So the journal of a volume whose
//! server was killed names the parts themselves: files by device, inode and time of birth, block devices by
//! the kernel's identity of them. Numbers of devices may change while the machine runs (a device that is
//! attached anew). So parts that differ are a reason to ask the owner, and never to discard anything.

use entresol_format::checksum;
use serde::{Deserialize, Serialize};
use std::io::Result;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

const FILE: u64 = 1;
const MAPPED: u64 = 2;
const DEVICE: u64 = 3;

/// A file or block device. All zeros: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity(pub [u64; 4]);

impl Identity {
    /// The part at `path`.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub fn of(path: &Path) -> Result<Self> {
        let metadata = path.metadata()?;
        if metadata.file_type().is_block_device() {
            return Ok(Self::of_block_device(metadata.rdev()));
        }
        // An inode's number is given out again: a backup that was copied back may have the one of before.
        let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |time| time.as_nanos() as u64);
        Ok(Self([FILE, metadata.dev(), metadata.ino(), born]))
    }

    fn of_block_device(rdev: u64) -> Self {
        let place = format!("/sys/dev/block/{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
        // A partition is below its device.
        let told = |name: &str| {
            let paths = [format!("{place}/{name}"), format!("{place}/../{name}")];
            let text = paths.iter().find_map(|path| std::fs::read_to_string(path).ok())?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let number = |name: &str| told(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let sum = |text: String| u64::from(checksum::of(text.as_bytes()));
        // A volume of LVM, say: its number may change when it is activated again, and its size.
        if let Some(mapped) = told("dm/uuid") {
            return Self([MAPPED, sum(mapped), number("partition"), 0]);
        }
        // The kernel counts on whenever a device appears (Linux 5.15).
        Self([DEVICE, rdev, number("diskseq"), told("wwid").map_or(0, sum)])
    }
}

/// The devices of a volume, and its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The disk.
    pub disk: Identity,
    /// The flash device.
    pub flash: Identity,
    /// The file with the label.
    pub label: Identity,
}

impl Parts {
    pub(super) fn all(&self) -> [Identity; 3] {
        [self.disk, self.flash, self.label]
    }

    /// The parts that are not those of `other`, for a sentence.
    pub(super) fn differing(&self, other: &Self) -> String {
        let names = ["disk", "flash", "label"];
        let pairs = self.all().into_iter().zip(other.all()).zip(names);
        pairs.filter(|((one, other), _)| one != other).map(|(_, name)| name).collect::<Vec<_>>().join(", ")
    }
}

/// A volume by its name and paths: for people, and to find its label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The name.
    pub name: String,
    /// The disk.
    pub disk: PathBuf,
    /// The flash device.
    pub flash: PathBuf,
    /// The label.
    pub label: PathBuf,
}

/// The keeper of a journal, and the time.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The machine's start. Nil: not known.
    pub boot: entresol_engine::Uuid,
    /// The volume.
    pub parts: Parts,
    /// Its paths, if it has any.
    pub names: Option<Names>,
}

impl From<entresol_engine::Uuid> for Origin {
    fn from(boot: entresol_engine::Uuid) -> Self {
        Self { boot, ..Self::default() }
    }
}

impl Origin {
    /// The machine's start in 64 bits, for the disk's label. 0: not known.
    pub(crate) fn boot_number(&self) -> u64 {
        let (high, low) = self.boot.0.split_at(8);
        high.iter().zip(low).fold(0, |number, (a, b)| number << 8 | u64::from(a ^ b))
    }
}
