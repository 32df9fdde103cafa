//! `entresol volume`, `entresol serve`: disks with a flash cache, as block devices.

use super::values;
use clap::{Args, Subcommand};
use entresol_engine::bytes_of;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// `entresol volume`.
#[derive(Debug, Subcommand)]
pub enum Volume {
    /// Put a flash cache before a disk; nothing on the disk is moved or changed
    ///
    /// Writes CONFIG, a TOML file with every option and a comment on each; the disk's label, a small file
    /// without which disk and flash are not opened again; and an empty cache on the flash device.
    ///
    /// Refused, with exit status 2: a disk that is mounted or in use, a flash device that is the disk, is too
    /// small or has something on it, and files that exist already.
    #[command(
        after_help = "Example:\n  entresol volume create data.toml --disk /dev/sdb --flash /dev/nvme0n1p3"
    )]
    Create(Box<CreateArgs>),
    /// Show the state of a volume: its devices and their errors, dirty and lost bytes, and counters
    ///
    /// Without a server: the contents of its flash. A server answers at once, whatever it does.
    #[command(
        after_help = "Examples:\n  entresol volume status data.toml\n  entresol volume status data.toml --watch 5"
    )]
    Status {
        /// The volume's configuration, a TOML file
        #[arg(required_unless_present = "all")]
        config: Option<PathBuf>,
        /// The server's socket, if it was started with another one than CONFIG says
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Show all journals of this user under /dev/shm, with their volumes, and which are needed
        #[arg(long, conflicts_with_all = ["config", "socket", "watch"])]
        all: bool,
        /// Print JSON; with --watch, one line each time
        #[arg(long)]
        json: bool,
        /// Print a running server's rates every so many seconds, until it ends or Ctrl-C: requests and bytes
        /// a second, the share of hits, pages to flash and disk, pages newer than disk
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
        watch: Option<u64>,
    },
    /// Verify every invariant of a volume without a server (exit status 1 if one is broken)
    ///
    /// As `entresol check`, with the disk and its label. Changes nothing.
    Check {
        /// The volume's configuration
        config: PathBuf,
    },
    /// Change an option of a volume, in its configuration and in a running server
    ///
    /// Another mode or policy: requests wait while the cache is closed and opened again. From one log policy
    /// to another it keeps its pages; else every page that is newer than disk is copied there, and it is
    /// empty. If the policy is the usual one of the old mode and lacks the new mode, that mode's usual policy
    /// takes its place.
    #[command(
        after_help = "Examples:\n  entresol volume set data.toml mode write-back\n  entresol volume set data.toml flash-writes-per-day 0.5x"
    )]
    Set {
        /// The volume
        #[command(flatten)]
        volume: VolumeArgs,
        /// What to change
        #[arg(value_parser = entresol_block::VolumeConfig::ONLINE)]
        name: String,
        /// mode: write-through, write-back or write-around; policy: its name; sequential-bypass-bytes: bytes,
        /// 0 for never; hits-to-disk: true or false; flash-writes-per-day: unlimited, 0.5x (device writes) or
        /// 200G; dirty-percent-max: 1 to 100; dirty-age-seconds: 0 to 86400; switch-policy: true or false
        value: String,
        #[command(flatten)]
        loss: LossArgs,
    },
    /// Give the cache another size of its flash, and the volume the size that its disk has now
    ///
    /// A running server continues meanwhile. The volume grows with its disk; clients see that when they
    /// connect anew. With --flash-size, every page that is newer than disk is copied there, and the cache
    /// begins empty. Ctrl-C ends the copying early, and nothing has changed.
    Resize {
        #[command(flatten)]
        volume: VolumeArgs,
        /// Bytes of the flash that the cache uses, such as 200G, or max; a regular file gets that size
        #[arg(long, value_name = "BYTES")]
        flash_size: Option<FlashSize>,
        #[command(flatten)]
        loss: LossArgs,
    },
    /// Give the volume another flash device: every page that is newer than disk is copied there, and the
    /// cache begins empty on the new one
    ///
    /// A running server continues meanwhile. CONFIG names both devices until it is done; after a kill of
    /// this command or the server, the label decides which one is in use, and the command may be given again.
    #[command(after_help = "Example:\n  entresol volume replace-flash data.toml /dev/nvme1n1p3")]
    ReplaceFlash {
        #[command(flatten)]
        volume: VolumeArgs,
        /// The new flash device: a block device or a file, with nothing on it
        flash: PathBuf,
        /// Bytes of it that the cache uses, such as 200G; a regular file gets that size
        #[arg(long, value_name = "BYTES")]
        flash_size: Option<FlashSize>,
        #[command(flatten)]
        loss: LossArgs,
    },
    /// Say whose a journal is, or remove one that no volume needs
    ///
    /// The journal of a write-back volume is a file in memory with acknowledged writes. `volume status --all`
    /// lists journals.
    Journal {
        /// What to do
        #[command(subcommand)]
        what: Journal,
    },
    /// Copy every page that is newer than disk there: it stays in the cache, as a clean one
    ///
    /// With a running server, clients continue meanwhile, and Ctrl-C ends it early. Without one the cache is
    /// empty afterwards. If pages cannot be read from flash, all others are copied, these are named, the
    /// cache continues, and the exit status is 1.
    Drain {
        #[command(flatten)]
        volume: VolumeArgs,
        #[command(flatten)]
        loss: LossArgs,
    },
    /// Copy every page that is newer than disk there, and release the disk from its flash
    ///
    /// Then the flash device may be taken away. A running server continues from the disk alone; before it is
    /// started again, set `cache = false` in CONFIG, or it begins with an empty cache. If pages cannot be
    /// read from flash, all others are copied, these are named, nothing is released, and the exit status
    /// is 1.
    Detach {
        #[command(flatten)]
        volume: VolumeArgs,
        #[command(flatten)]
        loss: LossArgs,
    },
}

/// How much of a flash device a cache uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashSize {
    /// All of it.
    Max,
    /// So many bytes.
    Bytes(u64),
}

impl FromStr for FlashSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            _ => bytes_of(text).filter(|bytes| *bytes > 0).map(Self::Bytes).ok_or_else(|| {
                "give a number of bytes such as 200G, or max for all of the device".to_owned()
            }),
        }
    }
}

impl FlashSize {
    /// Bytes; `None`: all.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// What may be lost.
#[derive(Debug, Args)]
pub struct LossArgs {
    /// Give up pages whose newest versions on flash cannot be read: the disk's older versions count then
    #[arg(long)]
    pub accept_loss: bool,
}

/// `entresol volume journal`.
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// Accept the journal that CONFIG names: the volume was moved, or its device attached anew
    ///
    /// The disk's label must name it. Then the next start carries its writes out. Do not say so of a copy:
    /// it would take the writes of the original.
    Accept {
        /// The volume's configuration
        config: PathBuf,
    },
    /// Continue without the journal that the disk's label names: acknowledged writes that were not flushed
    /// may be missing
    ///
    /// For a copy of a volume, or if the journal is lost. The file stays: it may be the original's. Refused
    /// if the journal of CONFIG is this volume's: the next start carries its writes out.
    Without {
        /// The volume's configuration
        config: PathBuf,
    },
    /// Remove a journal that no volume needs
    Remove {
        /// The file, as `volume status --all` lists it
        path: PathBuf,
        /// Also if a volume needs it, or may: acknowledged writes are lost
        #[arg(long)]
        force: bool,
    },
}

/// Which volume.
#[derive(Debug, Args)]
pub struct VolumeArgs {
    /// The volume's configuration, a TOML file
    pub config: PathBuf,
    /// The server's socket, if it was started with another one than CONFIG says
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `entresol volume create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The TOML file to write
    pub config: PathBuf,
    /// The slow disk: a block device or a file
    #[arg(long)]
    pub disk: PathBuf,
    /// The flash device: a block device or a file
    #[arg(long)]
    pub flash: PathBuf,
    /// The file for the disk's label [default: CONFIG with .label]
    #[arg(long, value_name = "FILE")]
    pub label: Option<PathBuf>,
    /// The server's socket [default: CONFIG with .sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// write-through: a lost flash device loses nothing. write-back is faster, and loses the last writes with
    /// it
    #[arg(long, default_value = "write-through")]
    pub mode: String,
    #[arg(long, help = values::volume_policies())]
    pub policy: Option<String>,
    /// Bytes of a page of the cache: 4096, 8192, 16384 or 32768
    #[arg(long, default_value_t = 4096, value_name = "BYTES")]
    pub page_bytes: u32,
    /// Most that is written to flash: unlimited, device writes such as 0.5x, or bytes such as 200G
    #[arg(long, default_value = "unlimited", value_name = "WRITES")]
    pub flash_writes_per_day: String,
    /// Use a flash device that has something on it, which is lost
    #[arg(long)]
    pub overwrite: bool,
    /// Leave a flash that is a sparse file as it is. Otherwise zeros are written where it has no blocks:
    /// until it has them, flushed writes take several times as long
    #[arg(long)]
    pub sparse: bool,
}

/// `entresol serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "ENTRESOL_LOG (error, warn, info or off; by default warn) says what is told on stderr.\n\nExit status: 0 after SIGTERM or SIGINT; 2 if a volume cannot be served, or has failed while it was served.\n\nExamples:\n  entresol serve data.toml\n  nbd-client -unix data.sock /dev/nbd0\n  qemu-img info nbd+unix:///data?socket=data.sock"
)]
pub struct ServeArgs {
    /// The configurations of the volumes, TOML files
    #[arg(required = true)]
    pub configs: Vec<PathBuf>,
    /// Listen here, not where CONFIG says; for one volume
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen on a port of the loopback interface, too; for one volume
    #[arg(long, value_name = "127.0.0.1:PORT")]
    pub tcp: Option<SocketAddr>,
    /// Make a block device, too, with the kernel's driver ublk_drv; its path is in the line that begins with
    /// `ready`
    ///
    /// Root only; a build with the feature `ublk`. A device that is in use when the server ends, or is
    /// killed, stays, and its requests wait: the next `serve --ublk` of the volume takes it over.
    #[arg(long)]
    pub ublk: bool,
    /// Clients cannot write
    #[arg(long)]
    pub read_only: bool,
    /// Answer `GET /metrics` in Prometheus' format on a port of the loopback interface
    #[arg(long, value_name = "127.0.0.1:PORT")]
    pub metrics: Option<SocketAddr>,
}
