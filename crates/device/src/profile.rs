//! Named devices: the parameters from which a [`crate::ModelDevice`] is made.
//!
//! `tests/profiles.rs` asserts the figures that a profile must reach (FaCE table 1). The comment on each
//! profile derives its parameters from them.

use crate::Device;
use crate::model::{
    Disk, DiskParameters, ModelDevice, Network, NetworkParameters, Ssd, SsdParameters, Stopwatch, Timing,
};
use thiserror::Error;

/// Bytes of the real device for one byte of the modelled one, at least 1. Quantities that are absolute on the
/// real device and depend on size (the reach of an SSD's mapping cache, a controller's write cache) are
/// divided by this factor.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Scale(f64);

impl Scale {
    /// No scaling.
    pub const FULL: Self = Self(1.0);

    /// A device of `modelled_bytes` that stands for one of `real_bytes`.
    pub fn of(real_bytes: u64, modelled_bytes: u64) -> Self {
        Self((real_bytes as f64 / modelled_bytes.max(1) as f64).max(1.0))
    }
}

/// The type of a modelled device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Model {
    /// Flash SSD.
    Ssd(SsdParameters),
    /// Disk or array of disks.
    Disk(DiskParameters),
    /// Network volume.
    Network(NetworkParameters),
}

/// A named device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The name for look-ups.
    pub name: &'static str,
    /// A description of the device.
    pub description: &'static str,
    /// Dollars per gigabyte, where FaCE's table 1 gives it.
    pub dollars_per_gb: Option<f64>,
    /// Its behaviour.
    pub model: Model,
}

/// There is no profile of this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no device profile is called {name:?}; known are: {known}")]
pub struct UnknownProfile {
    /// The name asked for.
    pub name: String,
    /// All names.
    pub known: String,
}

/// Requests that a disk array or volume accepts at once; more than the queues of the paper's clients.
const DISK_QUEUE: usize = 256;
const NETWORK_QUEUE: usize = 256;

/// Samsung 470, 256 GB. From table 1: a random read takes the controller 1 / 28,495 s, a page of a large read
/// 4096 B / 251.33 MB/s; 16 dies x 16 KiB programs in 1.08 ms make 242.8 MB/s. The drive has 256 GiB of flash
/// for 256 GB of data: 7 % spare, hence a write amplification of 7.8 and 1 / (0.27 + 6.8 x 0.335 + 0.05) ms x
/// 16 = 6,200 random writes a second. Die times are those of 2010's MLC. The episode of garbage collection is
/// calibrated on LC at 4 % of the database in FaCE's table 4. The mapping cache's reach is a guess for drives
/// of this class.
const MLC: SsdParameters = SsdParameters {
    queue_depth: 32,
    dies: 16,
    program_pages: 4,
    command_ns: 18_800,
    transfer_ns: 16_300,
    read_ns: 65_000,
    program_ns: 1_070_000,
    erase_ns: 3_000_000,
    block_pages: 512,
    spare_share: 0.07,
    write_amplification: 7.8,
    gc_episode_ns: 88_000_000,
    suspend_ns: u64::MAX,
    buffer_pages: 1024,
    map_cache_bytes: 2 << 30,
    power_loss_protected: false,
    sync_ns: 100_000,
};

/// Intel X25-E, 32 GB, SLC. From table 1: 38,427 random reads, 259.2 and 195.25 MB/s; 5,057 random writes
/// require an amplification of 8.0. SLC programs in 0.4 of MLC's time, so an episode with the same work of
/// garbage collection takes 0.4 of MLC's time.
const SLC: SsdParameters = SsdParameters {
    dies: 10,
    program_pages: 2,
    command_ns: 10_200,
    transfer_ns: 15_800,
    read_ns: 35_000,
    program_ns: 415_000,
    erase_ns: 1_500_000,
    block_pages: 256,
    spare_share: 0.068,
    write_amplification: 8.0,
    gc_episode_ns: 35_000_000,
    ..MLC
};

/// Intel X25-M G2, 80 GB, MLC. From table 1: 35,601 random reads, 258.7 and 80.81 MB/s; 2,547 random writes
/// require an amplification of 6.4, i.e. 8.7 % spare.
const X25M: SsdParameters = SsdParameters {
    dies: 10,
    program_pages: 2,
    command_ns: 12_300,
    transfer_ns: 15_800,
    read_ns: 60_000,
    program_ns: 1_000_000,
    erase_ns: 3_000_000,
    block_pages: 256,
    spare_share: 0.087,
    write_amplification: 6.4,
    gc_episode_ns: 88_000_000,
    ..MLC
};

/// A data-centre NVMe drive of today: 600,000 random reads, 200,000 random writes, 3.2 and 3.0 GB/s; programs
/// and erases are suspended for reads; power-loss protected.
const NVME: SsdParameters = SsdParameters {
    queue_depth: 1024,
    dies: 64,
    program_pages: 16,
    command_ns: 390,
    transfer_ns: 1_275,
    read_ns: 50_000,
    program_ns: 1_390_000,
    erase_ns: 5_000_000,
    block_pages: 4096,
    spare_share: 0.175,
    write_amplification: 3.5,
    gc_episode_ns: 1_000_000,
    suspend_ns: 150_000,
    buffer_pages: 16_384,
    map_cache_bytes: u64::MAX,
    power_loss_protected: true,
    sync_ns: 10_000,
};

/// Seagate Cheetah 15K.6: 3.5 ms seek and 2 ms half a turn for a lone request, 409 reads and 343 writes a
/// second in a deep queue, 156 and 154 MB/s. Without a write cache: a sync costs a turn.
const CHEETAH: DiskParameters = DiskParameters {
    spindles: 1,
    stripe_bytes: 64 << 10,
    read_shallow_ns: 5_500_000.0,
    read_deep_ns: 2_325_000.0,
    write_shallow_ns: 6_000_000.0,
    write_deep_ns: 2_800_000.0,
    read_bandwidth: 156e6,
    write_bandwidth: 154e6,
    write_cache_bytes: 0,
    cache_latency_ns: 0,
    sync_ns: 4_000_000,
};

/// Cheetahs with an Intel RS2WG160 controller with 512 MB of battery-backed cache, so that syncs take no disk
/// time. Table 1 gives 2,598 reads, 2,502 writes, 848 and 843 MB/s for eight: per spindle 325, 313, 106 and
/// 105 MB/s. Arrays of other widths use the same spindles.
const fn array(spindles: u32) -> Model {
    Model::Disk(DiskParameters {
        spindles,
        read_deep_ns: 2_000_000.0,
        write_deep_ns: 3_000_000.0,
        read_bandwidth: 106e6,
        write_bandwidth: 105.4e6,
        write_cache_bytes: 512 << 20,
        cache_latency_ns: 60_000,
        sync_ns: 20_000,
        ..CHEETAH
    })
}

/// A 7,200 rpm SATA disk of today: 8.3 ms seek and 4.2 ms half a turn for a lone request.
const SATA_DISK: DiskParameters = DiskParameters {
    read_shallow_ns: 12_500_000.0,
    read_deep_ns: 8_000_000.0,
    write_shallow_ns: 13_000_000.0,
    write_deep_ns: 8_500_000.0,
    read_bandwidth: 180e6,
    write_bandwidth: 180e6,
    sync_ns: 8_300_000,
    ..CHEETAH
};

/// A general-purpose cloud volume: 3,000 requests of up to 256 KiB a second, 125 MB/s, 1 ms.
const CLOUD: NetworkParameters = NetworkParameters {
    iops_max: 3_000.0,
    bandwidth_bytes_per_s: 125e6,
    request_bytes_max: 256 << 10,
    latency_ns: 1_000_000,
    sync_ns: 500_000,
};

/// Fusion-io 80 GB SLC over PCI Express (SSD bufferpool table 1): 750 and 500 MB/s, a read in 50 µs, 89,549
/// requests a second. 32 dies of 4 KiB programs in 262 µs make 500 MB/s; a quarter of the flash is spare (as
/// sold).
const FUSION_SLC: SsdParameters = SsdParameters {
    queue_depth: 64,
    dies: 32,
    program_pages: 1,
    command_ns: 5_700,
    transfer_ns: 5_460,
    read_ns: 39_000,
    program_ns: 262_000,
    erase_ns: 1_500_000,
    block_pages: 64,
    spare_share: 0.25,
    write_amplification: 2.0,
    gc_episode_ns: 2_000_000,
    suspend_ns: u64::MAX,
    buffer_pages: 1024,
    map_cache_bytes: u64::MAX,
    power_loss_protected: true,
    sync_ns: 10_000,
};

/// Fusion-io 320 GB MLC (SSD bufferpool table 1): 700 and 490 MB/s, a read in 80 µs, 67,659 requests a
/// second.
const FUSION_MLC: SsdParameters = SsdParameters {
    dies: 54,
    program_pages: 2,
    command_ns: 8_900,
    transfer_ns: 5_850,
    read_ns: 65_000,
    program_ns: 900_000,
    erase_ns: 3_000_000,
    gc_episode_ns: 6_000_000,
    ..FUSION_SLC
};

/// IBM DS4700 with 16 SATA disks over Fibre Channel (SSD bufferpool §5.1), 2 GB of battery-backed cache.
const DS4700: DiskParameters = DiskParameters {
    spindles: 16,
    read_bandwidth: 50e6,
    write_bandwidth: 50e6,
    write_cache_bytes: 2 << 30,
    cache_latency_ns: 300_000,
    sync_ns: 100_000,
    ..SATA_DISK
};

/// Main memory as a device.
const RAMDISK: NetworkParameters = NetworkParameters {
    iops_max: 2_000_000.0,
    bandwidth_bytes_per_s: 4e9,
    request_bytes_max: 1 << 20,
    latency_ns: 2_000,
    sync_ns: 200,
};

const PROFILES: [Profile; 15] = [
    Profile {
        name: "mlc",
        description: "Samsung 470 256 GB (MLC SSD, 2010)",
        dollars_per_gb: Some(1.78),
        model: Model::Ssd(MLC),
    },
    Profile {
        name: "mlc-x25m",
        description: "Intel X25-M G2 80 GB (MLC SSD, 2009)",
        dollars_per_gb: Some(2.25),
        model: Model::Ssd(X25M),
    },
    Profile {
        name: "slc",
        description: "Intel X25-E 32 GB (SLC SSD, 2008)",
        dollars_per_gb: Some(13.75),
        model: Model::Ssd(SLC),
    },
    Profile {
        name: "nvme",
        description: "data-centre NVMe SSD of today, power-loss protected",
        dollars_per_gb: None,
        model: Model::Ssd(NVME),
    },
    Profile {
        name: "disk",
        description: "one Seagate Cheetah 15K.6 (15,000 rpm)",
        dollars_per_gb: Some(1.63),
        model: Model::Disk(CHEETAH),
    },
    Profile {
        name: "raid0-4",
        description: "RAID-0 of 4 Cheetah 15K.6, 512 MB battery-backed cache",
        dollars_per_gb: Some(1.63),
        model: array(4),
    },
    Profile {
        name: "raid0-8",
        description: "RAID-0 of 8 Cheetah 15K.6, 512 MB battery-backed cache",
        dollars_per_gb: Some(1.63),
        model: array(8),
    },
    Profile {
        name: "raid0-12",
        description: "RAID-0 of 12 Cheetah 15K.6, 512 MB battery-backed cache",
        dollars_per_gb: Some(1.63),
        model: array(12),
    },
    Profile {
        name: "raid0-16",
        description: "RAID-0 of 16 Cheetah 15K.6, 512 MB battery-backed cache",
        dollars_per_gb: Some(1.63),
        model: array(16),
    },
    Profile {
        name: "sata-disk",
        description: "one SATA disk of today (7,200 rpm)",
        dollars_per_gb: None,
        model: Model::Disk(SATA_DISK),
    },
    Profile {
        name: "cloud",
        description: "cloud network volume, 3,000 IOPS",
        dollars_per_gb: None,
        model: Model::Network(CLOUD),
    },
    Profile {
        name: "fusion-slc",
        description: "Fusion-io 80 GB (SLC, PCI Express, 2010)",
        dollars_per_gb: None,
        model: Model::Ssd(FUSION_SLC),
    },
    Profile {
        name: "fusion-mlc",
        description: "Fusion-io 320 GB (MLC, PCI Express, 2010)",
        dollars_per_gb: None,
        model: Model::Ssd(FUSION_MLC),
    },
    Profile {
        name: "ds4700",
        description: "IBM DS4700: 16 SATA disks, 2 GB battery-backed cache",
        dollars_per_gb: None,
        model: Model::Disk(DS4700),
    },
    Profile {
        name: "ramdisk",
        description: "main memory as a device",
        dollars_per_gb: None,
        model: Model::Network(RAMDISK),
    },
];

impl Profile {
    /// All profiles.
    pub fn all() -> &'static [Profile] {
        &PROFILES
    }

    /// The profile called `name`.
    pub fn named(name: &str) -> Result<Profile, UnknownProfile> {
        PROFILES.iter().find(|profile| profile.name == name).copied().ok_or_else(|| UnknownProfile {
            name: name.to_owned(),
            known: PROFILES.map(|profile| profile.name).join(", "),
        })
    }

    /// A device of this profile that keeps its data in `inner` and has its capacity. An SSD starts in the
    /// steady state of random writes (see [`crate::model`]).
    pub fn build<D: Device>(&self, inner: D, scale: Scale) -> ModelDevice<D> {
        let (depth, timing) = self.timing(inner.geometry().capacity_bytes, scale);
        ModelDevice::new(self.name, inner, depth, timing)
    }

    /// Only the timing of a device of `capacity_bytes`, as in [`Profile::build`].
    pub fn stopwatch(&self, capacity_bytes: u64, scale: Scale) -> Stopwatch {
        let (depth, timing) = self.timing(capacity_bytes, scale);
        Stopwatch::new(depth, timing)
    }

    fn timing(&self, capacity: u64, scale: Scale) -> (usize, Box<dyn Timing>) {
        match self.model {
            Model::Ssd(parameters) => {
                (parameters.queue_depth, Box::new(Ssd::new(parameters, capacity, scale.0)))
            }
            Model::Disk(parameters) => (DISK_QUEUE, Box::new(Disk::new(parameters, scale.0))),
            Model::Network(parameters) => (NETWORK_QUEUE, Box::new(Network::new(parameters))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Profile;

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Profile::named("floppy").expect_err("there is no floppy");
        assert_eq!(error.known.split(", ").count(), Profile::all().len());
        assert!(error.to_string().contains("\"floppy\"; known are: mlc, "), "{error}");
        for profile in Profile::all() {
            assert_eq!(Profile::named(profile.name).as_ref(), Ok(profile));
        }
    }
}
