//! The command line: what can be asked for, with the help that explains it.

mod advise;
mod bench;
mod block;
mod columns;
mod fragments;
mod lc;
mod log_kept;
mod machine;
mod replay;
mod reproduce;
mod simulate;
#[cfg(feature = "torture")]
mod torture;
mod trace;
mod values;
mod worker;

pub use advise::AdviseArgs;
pub use bench::{Bench, RestartArgs, TpccArgs};
pub use block::{CreateArgs, FlashSize, Journal, LossArgs, ServeArgs, Volume, VolumeArgs};
pub use columns::ColumnArgs;
pub use fragments::FragmentArgs;
pub use lc::LcArgs;
pub use log_kept::LogArgs;
pub use machine::MachineArgs;
pub use reproduce::ReproduceArgs;
pub use simulate::{MrcArgs, SimulateArgs, SourceArgs};
#[cfg(feature = "torture")]
pub use torture::TortureArgs;
pub use trace::{ConvertArgs, GenerateArgs, InfoArgs, Kind, ReadArgs, Trace};
pub use values::ALL_POLICIES;
pub use worker::WorkerArgs;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// A flash tier for databases: volumes, advice, experiments
///
/// Entresol is a crash-safe page cache on an SSD between a database's memory and its slow storage. This
/// command serves a disk with such a cache (volume, serve, doctor), says what to buy for a load (trace,
/// advise, simulate, mrc), and repeats the experiments of FaCE (PVLDB 2012) and other papers (bench,
/// reproduce).
#[derive(Debug, Parser)]
#[command(name = "entresol", version, max_term_width = 110, arg_required_else_help = true, after_help = EXAMPLES)]
#[command(subcommand_required = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  entresol doctor --disk D --flash F      what machine and devices are fit for
  entresol volume create V.toml --disk D --flash F
                                          a flash cache before any disk
  entresol serve V.toml                   the disk with its cache, over NBD
  entresol trace info FILE                working set and reuse of a trace
  entresol advise --trace T               what to buy: DRAM, flash, or no flash
  entresol mrc --trace T --html mrc.html  miss-ratio curves
  entresol simulate --trace T --policy lc,face-gsc --flash-percent 4,8,16
                                          hit rates and times of each policy
  entresol bench tpcc                     FaCE's tables 3 and 4, figure 4
  entresol bench restart                  kill and restart: FaCE's table 6
  entresol reproduce all --quick          the papers' figures with ours
  entresol check flash.img disk.img       is this flash cache sound?
  entresol detach flash.img disk.img      copy all dirty pages to the disk; the
                                          flash may be taken away then

Exit status: 0 all well; 1 a check failed; 2 bad input or a failure (one sentence on stderr says which).";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run FaCE's experiments: TPC-C on six systems, and restarts after a kill
    #[command(arg_required_else_help = true)]
    Bench {
        /// Which experiment.
        #[command(subcommand)]
        bench: Bench,
    },
    /// Replay a trace through DRAM, flash and disk: hit rates, traffic, times, wear, energy, money
    ///
    /// Decisions are those of the policies themselves, the same that the store makes; times are of a queueing
    /// model of the devices. Runs are parallel, one a core.
    Simulate(Box<SimulateArgs>),
    /// Compare the papers' figures with ours: every number, and every claim with a verdict
    #[command(arg_required_else_help = true)]
    Reproduce(ReproduceArgs),
    /// Draw miss-ratio curves of a trace: one level of many sizes
    Mrc(Box<MrcArgs>),
    /// Say what to buy for a trace: how much DRAM and flash, which policy and mode, or no flash at all
    ///
    /// Replays the trace under every sensible split of the money between DRAM and flash (3LA's equi-cost
    /// constraint), policies and modes, and compares each with DRAM alone for the same money, in both halves
    /// of the trace.
    Advise(Box<AdviseArgs>),
    /// Show the contents of a flash cache or of a store's log, or how a directory is laid out in memory
    Inspect(InspectArgs),
    /// Verify every invariant of a flash cache (exit status 1 if one is broken)
    ///
    /// Reads the whole flash cache: superblocks, directory segments, group summaries, and every valid page's
    /// checksum, page id and generation. With the disk, also that the two belong together. Changes nothing.
    /// The cache must not be in use.
    #[command(after_help = "Examples:\n  entresol check /dev/nvme0n1\n  entresol check flash.img disk.img")]
    Check {
        /// The flash cache: a file or block device
        flash: PathBuf,
        /// The disk that it belongs to
        disk: Option<PathBuf>,
    },
    /// Release a disk from its flash cache, so that the flash device may be taken away
    ///
    /// Opens the cache as it was opened last (its size, policy and mode are recorded on it), after a shutdown
    /// or a crash of the database; copies every page that is newer on flash than on disk to the disk; empties
    /// the cache; and only then changes the disk's label. From then on the database opens on the disk alone,
    /// or with another cache, and this flash device is known to be out of date. After a crash meanwhile the
    /// two are still bound to each other: run it again. The database must be shut down, or have crashed; its
    /// log is not touched and its restart finds all pages on the disk.
    ///
    /// Refused, with exit status 2, and nothing written: a flash device without a cache, with another disk's
    /// cache, or one that this disk has been detached from or has been written without. Also refused: files
    /// in use. If pages that only flash has are damaged, all others are copied, the sentence names the
    /// damaged ones, the disk stays bound to the cache, and the exit status is 1.
    #[command(
        after_help = "Examples:\n  entresol detach /dev/nvme0n1 /dev/sdb\n  entresol detach flash.img disk.img"
    )]
    Detach {
        /// The flash cache: a file or block device
        flash: PathBuf,
        /// The disk that it belongs to
        disk: PathBuf,
        #[command(flatten)]
        loss: LossArgs,
    },
    /// Crash flash caches at every operation, under every fault, and count (exit status 1 if anything is
    /// lost)
    ///
    /// Draws small configurations and workloads from the seed, runs the real engine on simulated devices, and
    /// looks at every state that a power failure at any operation could produce: all subsets of the unsynced
    /// writes, torn writes, crashes of the recovery; failing and lying devices; flash exchanged, lost,
    /// brought back too late, damaged. Each state is recovered and compared with the legal versions. A
    /// violation is printed with its seed and a shortened script.
    #[cfg(feature = "torture")]
    Torture(TortureArgs),
    /// Say how to get the command that crashes flash caches
    #[cfg(not(feature = "torture"))]
    #[command(hide = true, disable_help_flag = true)]
    Torture {
        /// The work asked of it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        asked: Vec<String>,
    },
    /// Look into traces of page references, convert and generate them
    #[command(arg_required_else_help = true)]
    Trace {
        /// What to do with them.
        #[command(subcommand)]
        trace: Trace,
    },
    /// Put a flash cache before a disk that any program uses, and look after it (docs/BLOCK.md)
    #[command(arg_required_else_help = true)]
    Volume {
        /// What to do with it.
        #[command(subcommand)]
        volume: Volume,
    },
    /// Serve a volume as a block device over NBD, until SIGTERM
    ///
    /// Prints a line that begins with `ready` when clients can connect, and tells the service manager. On
    /// SIGTERM or SIGINT it ends requests under way and closes the cache, so that the next start is warm.
    Serve(ServeArgs),
    /// Look at this machine and its devices, and say what they are fit for
    ///
    /// Kernel and drivers, free memory, sectors, write caches, contents. Reads only, and changes nothing.
    #[command(
        after_help = "Examples:\n  entresol doctor\n  entresol doctor --disk /dev/sdb --flash /dev/nvme0n1p3"
    )]
    Doctor(DoctorArgs),
    /// List the modelled devices with their parameters
    Devices,
    /// Print the completions of this command for a shell
    ///
    /// Packages install them. Without a package: `source <(entresol completions bash)` in the shell's start
    /// file.
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages (for packages)
    #[command(hide = true)]
    Manual {
        /// An existing folder
        folder: PathBuf,
    },
    /// Run TPC-C on real files until killed (for crash experiments)
    #[command(hide = true)]
    Worker(Box<WorkerArgs>),
}

/// `entresol doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// The disk: a block device, or a file for a trial
    #[arg(long, value_name = "DEVICE")]
    pub disk: Option<PathBuf>,
    /// The flash device: a block device or partition, or a file for a trial
    #[arg(long, value_name = "DEVICE")]
    pub flash: Option<PathBuf>,
}

/// `entresol inspect`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  entresol inspect flash.img\n  entresol inspect log.img\n  entresol inspect layout"
)]
pub struct InspectArgs {
    /// The flash cache, or the log of a store: a file or block device
    pub flash: Option<PathBuf>,
    /// Something other than a flash cache.
    #[command(subcommand)]
    pub what: Option<InspectWhat>,
}

/// What can be inspected other than a flash cache.
#[derive(Debug, Subcommand)]
pub enum InspectWhat {
    /// Show how many bytes of DRAM a flash slot costs under each policy, from the types themselves
    Layout {
        /// Flash slots (4 KiB pages) to compute the region's size for
        #[arg(long, default_value = "1048576", value_name = "PAGES", value_parser = values::slots)]
        slots: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Commands and tables after the options have line breaks of their own: they fit into 80 columns. Clap
    /// wraps paragraphs, which are one line each.
    #[test]
    fn examples_fit_into_80_columns() {
        fn look(command: &clap::Command, seen: &mut usize) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines() {
                let (fits, whole) =
                    (line.chars().count() <= 80, line.ends_with(['.', ':']) || line.is_empty());
                let is_row = line.starts_with("  ");
                assert!(if is_row { fits } else { whole }, "{}: {line}", command.get_name());
                *seen += usize::from(is_row);
            }
            command.get_subcommands().for_each(|command| look(command, seen));
        }
        let mut seen = 0;
        look(&Cli::command(), &mut seen);
        assert!(seen > 50, "{seen} lines");
    }
}
