//! `entresol simulate` and `entresol mrc`: a trace through layers.

use super::replay::{DramArgs, LoadArgs};
use super::{FragmentArgs, LcArgs, LogArgs, ReadArgs, values};
use crate::failure::Failure;
use clap::Args;
use entresol_core::Mode;
use entresol_engine::DailyWrites;
use entresol_lab::replay::Replacement;
use std::path::PathBuf;

/// Which trace, and which part of it.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Trace file, compressed or not; its format is recognised from the content
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub trace: PathBuf,
    /// How to read it.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Measure from this second of the trace on; earlier references warm up
    #[arg(long, value_name = "SECONDS", value_parser = values::second, help_heading = "Trace")]
    #[arg(allow_negative_numbers = true)]
    pub measure_from: Option<f64>,
    /// Stop at this second of the trace
    #[arg(long, value_name = "SECONDS", value_parser = values::second, help_heading = "Trace")]
    #[arg(allow_negative_numbers = true)]
    pub until: Option<f64>,
    /// Replay samples of the pages, with layers as much smaller, instead of the whole trace: the share of the
    /// pages, e.g. 0.01. Memory is for the sampled pages, whatever the length of the trace
    #[arg(long, value_name = "RATE", value_parser = values::rate, help_heading = "Sampling")]
    #[arg(allow_negative_numbers = true)]
    pub sample: Option<f64>,
    /// Samples, each by a hash of its own: the more, the narrower the intervals
    #[arg(long, value_name = "N", value_parser = values::hashes, default_value = "5", requires = "sample")]
    #[arg(allow_negative_numbers = true, help_heading = "Sampling")]
    pub sample_hashes: u32,
    /// Replay one sample of a tenth of the pages: an estimate in a tenth of the time
    #[arg(long, conflicts_with_all = ["sample", "sample_hashes"], help_heading = "Sampling")]
    pub quick: bool,
}

/// What `--quick` samples: the share of the pages, and how often.
const QUICK: (f64, u32) = (0.1, 1);

impl SourceArgs {
    /// The share of the pages that is sampled, and the number of samples; `None`: all pages.
    pub fn sampled(&self) -> Option<(f64, u32)> {
        if self.quick { Some(QUICK) } else { self.sample.map(|rate| (rate, self.sample_hashes)) }
    }

    /// The option that asks for samples.
    pub fn sampling_option(&self) -> String {
        self.sample.map_or("--quick".into(), |rate| format!("--sample {rate}"))
    }

    /// The files that are read.
    pub fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        Ok(entresol_trace::files_of(&self.trace, &self.read.options()?))
    }
}

/// Destinations of results other than the terminal.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Write the results as one self-contained page with tables and plots
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub html: Option<PathBuf>,
}

/// `entresol simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATE_EXAMPLES)]
pub struct SimulateArgs {
    /// The trace.
    #[command(flatten)]
    pub source: SourceArgs,

    #[arg(help = values::simulated_policies())]
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',', value_parser = values::policy)]
    #[arg(default_value = "none,lc,face,face-gr,face-gsc", help_heading = "Layers")]
    pub policies: Vec<String>,
    /// DRAM in per cent of the trace's pages
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, conflicts_with = "dram_pages")]
    #[arg(allow_negative_numbers = true, help_heading = "Layers")]
    pub dram_percent: Option<f64>,
    /// DRAM in pages; 0: the trace was taken below DRAM, references are to flash directly
    #[arg(long, value_name = "PAGES", value_parser = values::dram_pages, help_heading = "Layers")]
    #[arg(allow_negative_numbers = true)]
    pub dram_pages: Option<u32>,
    /// Flash sizes in per cent of the trace's pages, separated by commas
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', value_parser = values::percent)]
    #[arg(allow_negative_numbers = true, conflicts_with = "flash_pages", help_heading = "Layers")]
    pub flash_percent: Vec<f64>,
    /// Flash sizes in pages, separated by commas
    #[arg(long, value_name = "PAGES", value_delimiter = ',', value_parser = values::flash_pages)]
    #[arg(allow_negative_numbers = true, help_heading = "Layers")]
    pub flash_pages: Vec<u32>,
    /// Where dirty pages that DRAM evicts are written: write-back (to flash), write-through (to both),
    /// write-around (to the disk); several separated by commas [default: write-back, and write-through with
    /// policies that keep clean pages only; sce's is through if mapped, around if not]
    #[arg(long, value_name = "MODES", value_delimiter = ',', value_parser = values::mode)]
    #[arg(help_heading = "Layers")]
    pub mode: Vec<Mode>,
    /// DRAM.
    #[command(flatten)]
    pub dram: DramArgs,

    /// Shadows run with each cache, as in the engine: print their forecasts of other policies and sizes
    #[arg(long, help_heading = "Layers", conflicts_with_all = ["sample", "quick"])]
    pub shadows: bool,

    /// Each cache takes another policy, of the same placement, when its shadows say that this would be
    /// better: the pages stay in place
    #[arg(long, help_heading = "Layers", conflicts_with_all = ["sample", "quick", "flash_writes_per_day"])]
    pub switch: bool,

    /// Budgets of writes to flash, several separated by commas, for policies that weigh what a write is worth
    /// (reuse, reuse-slots): device writes such as `1x`, or bytes such as `200G`; the bucket holds ten
    /// seconds' worth
    #[arg(long, value_name = "BUDGETS", value_delimiter = ',', value_parser = DailyWrites::read)]
    #[arg(default_value = "unlimited", help_heading = "Layers")]
    #[arg(conflicts_with_all = ["sample", "quick"])]
    pub flash_writes_per_day: Vec<DailyWrites>,

    /// SCE's knobs.
    #[command(flatten)]
    pub fragments: FragmentArgs,
    /// LC's knobs.
    #[command(flatten)]
    pub lc: LcArgs,

    /// A log above.
    #[command(flatten)]
    pub log: LogArgs,

    /// Device of the flash cache
    #[arg(long, value_name = "DEVICE", default_value = "nvme", help_heading = "Machine")]
    pub flash_device: String,
    /// Device under the database
    #[arg(long, value_name = "DEVICE", default_value = "sata-disk", help_heading = "Machine")]
    pub disk_device: String,
    /// Kind of memory, for price and energy
    #[arg(long, value_name = "MEMORY", default_value = "dram", help_heading = "Machine")]
    pub memory: String,
    /// TOML file with devices and memories of your own, in addition to the built-in ones (see docs/LAB.md)
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub devices: Option<PathBuf>,
    /// Time devices by their detailed models (dies, garbage collection, write caches; see `entresol devices`)
    /// instead of by their rates: slower, and truer where reads and writes mix
    #[arg(long, help_heading = "Machine")]
    pub exact_devices: bool,
    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,

    /// Destinations of results.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  # a capture of PostgreSQL: two policies, five sizes, a page with plots
  entresol simulate --trace pg.bin.zst --policy lc,face-gsc \\
      --dram-percent 2 --flash-percent 1,2,4,8,16 --html out.html
  # its stream below the buffer pool, with and without flash
  entresol simulate --trace pg.bin.zst --stream below --dram-pages 0 \\
      --policy none,face-gsc --flash-pages 8192
  # a trace of a block device, with SCE's fragments of 64 KiB
  entresol simulate --trace disk.csv.zst --policy flashcache,sce \\
      --dram-pages 0 --flash-percent 5,20 --fragment-pages 16
  # one level: DRAM alone
  entresol simulate --trace disk.csv.zst --policy lru,fifo,clock \\
      --dram-pages 8000
  # a thousandth of the pages of a long trace
  entresol simulate --trace huge.etr --sample 0.001 --policy lc,reuse \\
      --dram-percent 1 --flash-percent 4,8,16
  # what it costs if the flash may be lost: disk writes by the log that is kept
  entresol simulate --trace pg.bin.zst --policy face-gsc,reuse \\
      --dram-percent 2 --flash-percent 8 --log-bound 64MB,256MB,1GB
  # references at their times, from the 80th second on
  entresol simulate --trace pg.bin.zst --policy face-gsc --flash-percent 8 \\
      --timed --measure-from 80 --until 240";

/// `entresol mrc`.
#[derive(Debug, Args)]
#[command(after_help = MRC_EXAMPLES)]
pub struct MrcArgs {
    /// The trace.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Policies, separated by commas: lru, fifo, clock
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',', value_parser = values::dram_replacement)]
    #[arg(default_value = "lru,fifo,clock", help_heading = "Curves")]
    pub policies: Vec<Replacement>,
    /// Sizes in pages, separated by commas; without it, sizes from a thousandth of the trace's pages to all
    /// of them
    #[arg(long, value_name = "PAGES", value_delimiter = ',', value_parser = values::level_pages)]
    #[arg(allow_negative_numbers = true, help_heading = "Curves")]
    pub sizes: Vec<u32>,
    /// Destinations of results.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

const MRC_EXAMPLES: &str = "\
Examples:
  entresol mrc --trace pg.bin.zst --html curves.html
  entresol mrc --trace pg.bin.zst --policy lru --sizes 1000,2000,4000,8000";
