//! The machine: kernel, drivers, memory. All that is read is below a root, which is `/` but in tests.

use super::{paragraph, size};
use std::fs;
use std::path::Path;

/// Memory of a write-back volume's journal.
pub const JOURNAL_BYTES: u64 = 32 << 20;

/// What was found.
#[derive(Debug, Default)]
pub struct Machine {
    /// Version of the kernel.
    pub kernel: String,
    /// Whether programs may use io_uring; `None` if the kernel has no such switch (before 6.6).
    pub uring: Option<bool>,
    /// Whether the kernel's drivers are loaded, or built in.
    pub nbd: bool,
    pub ublk: bool,
    /// Bytes of memory that are free for programs.
    pub memory: Option<u64>,
    /// Whether the folder of journals is in memory.
    pub has_shm: bool,
}

impl Machine {
    /// Looks below `root`.
    pub fn look(root: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let available = read("proc/meminfo").lines().find_map(|line| {
            let kib = line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?;
            kib.trim().parse::<u64>().ok()?.checked_mul(1024)
        });
        let mounts = read("proc/mounts");
        let has_shm = mounts.lines().any(|line| {
            let mut words = line.split(' ').skip(1);
            words.next() == Some("/dev/shm") && words.next() == Some("tmpfs")
        });
        Self {
            kernel: read("proc/sys/kernel/osrelease").trim().to_owned(),
            uring: match read("proc/sys/kernel/io_uring_disabled").trim() {
                "" => None,
                // 1: only for members of a group, and for root.
                value => Some(value == "0"),
            },
            nbd: root.join("sys/module/nbd").exists() || root.join("dev/nbd0").exists(),
            ublk: root.join("dev/ublk-control").exists(),
            memory: available,
            has_shm,
        }
    }

    /// The same in sentences.
    pub fn told(&self) -> String {
        let has = |yes: bool, no: &str| if yes { "yes".to_owned() } else { format!("no ({no})") };
        let uring = match self.uring {
            Some(true) | None => "yes".to_owned(),
            Some(false) => {
                "limited (kernel.io_uring_disabled): plain system calls, somewhat slower".to_owned()
            }
        };
        let kernel = [
            format!("Linux {}. io_uring: {uring}.", self.kernel),
            format!(
                "Block devices: nbd {}, ublk {}.",
                has(self.nbd, "modprobe nbd"),
                has(self.ublk, "modprobe ublk_drv, Linux 6.1")
            ),
        ];
        let free = self.memory.map_or("unknown".to_owned(), size);
        let mut memory =
            vec![format!("{free} free. A write-back volume's journal takes {}.", size(JOURNAL_BYTES))];
        if !self.has_shm {
            memory.push(
                "/dev/shm is not in memory: set `journal` to a file in memory, or a kill may lose writes."
                    .to_owned(),
            );
        }
        paragraph("kernel", &kernel) + &paragraph("memory", &memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_and_told() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    2097152 kB\n");
        write("proc/sys/kernel/osrelease", "6.12.1\n");
        write("proc/sys/kernel/io_uring_disabled", "2\n");
        write("dev/ublk-control", "");
        write("proc/mounts", "x /dev/shm ext4 rw 0 0\n");
        let machine = Machine::look(root.path());
        assert_eq!(machine.memory, Some(2 << 30));
        let told = machine.told();
        for part in
            ["Linux 6.12.1", "io_uring: limited", "nbd no", "ublk yes", "2.0 GiB free", "not in memory"]
        {
            assert!(told.contains(part), "{part} in {told}");
        }
        write("proc/mounts", "x /dev/shm tmpfs rw 0 0\n");
        assert!(!Machine::look(root.path()).told().contains("not in memory"));
    }
}
