//! `entresol trace …`: traces of page references.

use super::{ColumnArgs, values};
use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use entresol_trace::{Format, ReadOptions, Stream};
use std::path::PathBuf;

/// What to do with traces.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Describe a trace: operations, footprint, working set, reuse, relations
    #[command(after_help = FORMATS)]
    Info(InfoArgs),
    /// Write a trace in another format
    ///
    /// An output whose name ends in .zst or .gz is compressed. Losses of the format are reported on stderr.
    #[command(after_help = FORMATS)]
    Convert(ConvertArgs),
    /// Make a trace: uniform, zipf, pareto (80–20 as sysbench's), sequential, loops, or TPC-C
    ///
    /// Scans and phases (the hot set moves) can be mixed into the first four. The same arguments make the
    /// same trace.
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(Box<GenerateArgs>),
}

const FORMATS: &str = "\
Formats (recognised from the content, also in zstd or gzip; * written, too):
  entresol *           Entresol's own: compact, versioned, checksummed
  oraclegeneral *      libCacheSim, 24-byte records
  oraclegeneralopns *  libCacheSim with operations, 27-byte records
  plain *              one page number a line; * marks a phase (lirs)
  postgresql           capture of PostgreSQL's buffer pool, 9-byte records; the
                       file FILE.pages names the relations
  parquet              a table: columns page, or offset and size; op, time_us,
                       object
  cloudphysics         CSV: version,time,op,size,lbn
  msr                  MSR Cambridge CSV: time,host,disk,Read|Write,offset,size,
                       response
  vscsi                libCacheSim's vscsi, version 1 or 2
  spc                  Storage Performance Council's: unit,sector,bytes,
                       r|w,seconds
  mqsim                lines: nanoseconds device sector sectors op
  blkparse             the text that blkparse prints
  fio                  fio iolog, version 2 or 3
Any other text with a request a line is read with --columns.

Examples:
  entresol trace info pg.bin.zst --stream below --relations names.toml
  entresol trace info io.txt --columns time,-,op,offset,size \\
      --separator space --time-unit us --offset-unit 512
  entresol trace convert msr.csv.gz msr.etr --to entresol --page-bytes 8192";

const GENERATE_EXAMPLES: &str = "\
Examples:
  entresol trace generate zipf --pages 2000000 --references 20000000 \\
      --skew 0.9 --out zipf.etr
  entresol trace generate pareto --scan-percent 10 --scan-pages 5000 \\
      --phases 4 --out mixed.etr
  entresol trace generate loops --loop-pages 3000,12000,35000 \
      --out loops.etr
  entresol trace generate tpcc --warehouses 8 --references 4000000 \\
      --out tpcc.etr";

/// How to read a trace.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The trace's format, where it is not recognised (see `entresol trace info --help`)
    #[arg(long, value_name = "NAME", value_parser = values::trace_format, help_heading = "Trace")]
    #[arg(conflicts_with = "columns")]
    pub format: Option<Format>,
    /// Which stream of a capture that holds two: above or below the buffer pool
    #[arg(long, value_name = "above|below", value_parser = values::stream, default_value = "above")]
    #[arg(help_heading = "Trace")]
    pub stream: Stream,
    /// Split requests into pages of so many bytes [default: 8192 for postgresql, else 4096]
    #[arg(long, value_name = "BYTES", value_parser = values::page_bytes, help_heading = "Trace")]
    pub page_bytes: Option<u32>,
    /// TOML file that names relations (table `relations`: 16424 = "stock") [default: FILE.relations.toml or
    /// relations.toml next to the trace, if there is one]
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub relations: Option<PathBuf>,
    /// A text of any shape.
    #[command(flatten)]
    pub shape: ColumnArgs,
}

impl ReadArgs {
    /// The same, for the library; refuses columns that make no sense.
    pub fn options(&self) -> Result<ReadOptions, Failure> {
        Ok(ReadOptions {
            format: self.format,
            columns: self.shape.columns()?,
            stream: self.stream,
            page_bytes: self.page_bytes,
            relations: self.relations.clone(),
            samples: Vec::new(),
            watch: None,
        })
    }
}

/// `entresol trace info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The trace
    pub file: PathBuf,
    /// How to read it.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Write the numbers as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
}

/// `entresol trace convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The trace
    pub input: PathBuf,
    /// The file to write
    pub output: PathBuf,
    /// The format to write: entresol, oraclegeneral, oraclegeneralopns, plain
    #[arg(long, value_name = "NAME", value_parser = values::written_format)]
    pub to: Format,
    /// How to read it.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// All pages alike
    Uniform,
    /// The k-th most popular page has a share proportional to k^-skew
    Zipf,
    /// A share h of the pages gets a share 1 - h of the references, as in sysbench
    Pareto,
    /// One page after the other, round and round
    Sequential,
    /// Loops of several lengths that take turns
    Loops,
    /// A model of TPC-C on PostgreSQL: nine tables and their indexes, keys by NURand
    Tpcc,
}

/// `entresol trace generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// How references are distributed
    #[arg(value_enum)]
    pub kind: Kind,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The format to write: entresol, oraclegeneral, oraclegeneralopns, plain
    #[arg(long, value_name = "NAME", value_parser = values::written_format, default_value = "entresol")]
    pub to: Format,
    /// Number of references
    #[arg(long, visible_alias = "requests", value_name = "N", value_parser = values::references, default_value = "1000000")]
    pub references: u64,
    /// References a second [default: the trace has no times]
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Seed: the same arguments and seed make the same trace
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1")]
    pub seed: u64,

    /// Number of pages
    #[arg(long, value_name = "N", value_parser = values::level_pages, default_value = "100000", help_heading = "Not for loops or tpcc")]
    pub pages: u32,
    /// Skew of zipf: 0 is uniform
    #[arg(long, value_name = "S", default_value = "0.9", help_heading = "Not for loops or tpcc")]
    pub skew: f64,
    /// Pareto's share of the pages: 0.2 for 80–20
    #[arg(long, value_name = "H", default_value = "0.2", help_heading = "Not for loops or tpcc")]
    pub pareto: f64,
    /// References that change their page, per cent
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "30")]
    #[arg(help_heading = "Not for loops or tpcc")]
    pub write_percent: f64,
    /// References that belong to scans, per cent
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "0")]
    #[arg(help_heading = "Not for loops or tpcc")]
    pub scan_percent: f64,
    /// Pages of a scan [default: a hundredth of the pages]
    #[arg(long, value_name = "N", value_parser = values::level_pages, help_heading = "Not for loops or tpcc")]
    pub scan_pages: Option<u32>,
    /// Phases of equal length; in each, other pages are popular
    #[arg(long, value_name = "N", value_parser = values::level_pages, default_value = "1", help_heading = "Not for loops or tpcc")]
    pub phases: u32,
    /// Popular pages are neighbours
    #[arg(long, help_heading = "Not for loops or tpcc")]
    pub adjacent: bool,
    /// Bytes of a page; 8192 with tpcc
    #[arg(long, value_name = "BYTES", value_parser = values::page_bytes, default_value = "4096")]
    pub page_bytes: u32,

    /// Pages of each loop
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::level_pages)]
    #[arg(default_value = "8000,42000", help_heading = "For loops")]
    pub loop_pages: Vec<u32>,
    /// Pages of the longest run of a loop before another may go on
    #[arg(long, value_name = "N", value_parser = values::level_pages, default_value = "2000", help_heading = "For loops")]
    pub run_pages: u32,

    /// Warehouses (about 75 MB of pages each)
    #[arg(long, value_name = "N", value_parser = values::warehouses, default_value = "8", help_heading = "For tpcc")]
    pub warehouses: u32,
    /// Clients side by side
    #[arg(long, value_name = "N", value_parser = values::clients, default_value = "4", help_heading = "For tpcc")]
    pub clients: u32,
}
