//! A disk or a flash device, as the kernel and its first sectors tell of it.

use super::size;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What was found. `None`: it is not told.
#[derive(Debug, Default)]
pub struct Drive {
    pub path: PathBuf,
    /// Its model, as the drive says.
    pub model: Option<String>,
    pub bytes: u64,
    pub rotates: Option<bool>,
    /// Bytes of a sector: the unit of requests, and the unit that the medium writes at once.
    pub sectors: Option<(u32, u32)>,
    /// Whether it has a cache that loses acknowledged writes without a flush.
    pub volatile: Option<bool>,
    /// Whether trims reach it.
    pub trims: Option<bool>,
    /// What is on it; `None`: nothing.
    pub held: Option<String>,
    /// Why it cannot be used now.
    pub busy: Option<String>,
    /// A file, for a trial.
    pub is_file: bool,
}

impl Drive {
    /// Looks at `path`; the kernel's files are below `root`. An error says why it is no device.
    pub fn look(root: &Path, path: &Path) -> Result<Self, String> {
        let found = fs::metadata(path).map_err(|error| format!("{error}"))?;
        let kind = found.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err("is neither a block device nor a file; give a device such as /dev/sdb".to_owned());
        }
        let mut drive =
            Self { path: path.to_owned(), bytes: found.len(), is_file: kind.is_file(), ..Self::default() };
        // The number of a device, or of the one on which a file's system is.
        let number = if kind.is_block_device() { found.rdev() } else { found.dev() };
        drive.read_queue(root, number);
        match entresol_device::held(path) {
            Ok(held) => drive.held = held,
            Err(error) => drive.busy = Some(error.to_string()),
        }
        Ok(drive)
    }

    /// Fills in what the kernel says of the device with this number.
    fn read_queue(&mut self, root: &Path, number: u64) {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let place = root.join(format!("sys/dev/block/{major}:{minor}"));
        let read = |name: String| Some(fs::read_to_string(place.join(name)).ok()?.trim().to_owned());
        // A partition uses the queue of its device.
        let queue = |name: &str| read(format!("queue/{name}")).or_else(|| read(format!("../queue/{name}")));
        let number = |name: &str| queue(name)?.parse::<u64>().ok();
        if !self.is_file
            && let Some(sectors) = read("size".to_owned()).and_then(|text| text.parse::<u64>().ok())
        {
            // The kernel counts in 512 bytes, whatever the device's sectors are.
            self.bytes = sectors * 512;
        }
        self.model = read("device/model".to_owned()).or_else(|| read("../device/model".to_owned()));
        self.rotates = number("rotational").map(|is| is == 1);
        let sectors = number("logical_block_size").zip(number("physical_block_size"));
        self.sectors = sectors.map(|(logical, physical)| (logical as u32, physical as u32));
        self.volatile = queue("write_cache").map(|kind| kind == "write back");
        self.trims = number("discard_max_bytes").map(|bytes| bytes > 0);
    }

    /// The same in sentences.
    pub fn told(&self, is_flash: bool) -> Vec<String> {
        let model = self.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
        let kind = match self.rotates {
            _ if self.is_file => ", a file: fit for a trial",
            Some(true) => ", rotating",
            Some(false) => ", not rotating",
            None => "",
        };
        let mut told = vec![format!("{}{model}: {}{kind}.", self.path.display(), size(self.bytes))];
        if let Some((logical, physical)) = self.sectors {
            told.push(format!("Sectors of {logical} bytes, written by {physical}."));
        }
        match self.volatile {
            Some(true) => told.push("Its write cache is volatile: each flush is passed to it.".to_owned()),
            Some(false) => told.push(
                "It says that its write cache is not volatile (power-loss protection, or no cache): flushes are cheap.".to_owned(),
            ),
            None => {}
        }
        if is_flash && self.trims == Some(false) {
            told.push("It takes no trims.".to_owned());
        }
        match (&self.busy, &self.held) {
            (Some(busy), _) => told.push(format!("It cannot be used now: {busy}.")),
            (None, Some(held)) => told.push(format!("It holds {held}.")),
            (None, None) => told.push("It is blank.".to_owned()),
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition of an NVMe drive, as the kernel shows it.
    #[test]
    fn a_partition_has_the_queue_of_its_drive() {
        let root = tempfile::tempdir().unwrap();
        let drive = root.path().join("sys/devices/nvme0n1");
        fs::create_dir_all(drive.join("queue")).unwrap();
        fs::create_dir_all(drive.join("device")).unwrap();
        fs::create_dir_all(drive.join("nvme0n1p3")).unwrap();
        fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        for (name, text) in [
            ("queue/rotational", "0\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "4096\n"),
            ("queue/write_cache", "write through\n"),
            ("queue/discard_max_bytes", "0\n"),
            ("device/model", "A drive\n"),
            ("nvme0n1p3/size", "2048\n"),
        ] {
            fs::write(drive.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(drive.join("nvme0n1p3"), root.path().join("sys/dev/block/259:3")).unwrap();
        let mut found = Drive { path: PathBuf::from("/dev/nvme0n1p3"), ..Drive::default() };
        found.read_queue(root.path(), rustix::fs::makedev(259, 3));
        assert_eq!((found.bytes, found.rotates, found.sectors), (1 << 20, Some(false), Some((512, 4096))));
        let told = found.told(true).join(" ");
        for part in
            ["A drive", "1.0 MiB, not rotating", "written by 4096", "not volatile", "no trims", "blank"]
        {
            assert!(told.contains(part), "{part} in {told}");
        }
    }
}
