//! The numbers of RW (Jinpyo Kim: *Efficient Flash Cache Management in Online Transaction Processing Server*,
//! master's thesis, Sogang University, 2015).
//!
//! Set-up (§4): block traces of TPC-C on MySQL with an 8 GB database, four hours, InnoDB pages of 16 KB and
//! of 8 KB; a simulator on FlashSim's SSC; write-through. Not said: the cache's size in the experiments,
//! thresholds, latency of the storage behind. Responses are normalised to FlashTier without a write buffer.

mod claims;

pub(crate) use claims::CLAIMS;

use super::claim::{Statement, statements};
use serde::Serialize;

/// What the thesis claims, in the order in which it is judged.
pub fn claims() -> Vec<Statement> {
    statements(CLAIMS).collect()
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// FlashTier with block-level caching.
    Flashtier,
    /// FlashTier's device with page-level caching (§3.4).
    FlashtierPages,
    /// The proposed method: RFDB/WFDB.
    Rwfdb,
}

impl Contender {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Contender::Flashtier => "flashtier",
            Contender::FlashtierPages => "flashtier, page-level",
            Contender::Rwfdb => "rwfdb",
        }
    }
}

/// One row of table 5.1 or 5.2, the thesis' or ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RwRow {
    /// Database page, KB.
    pub page_kb: u32,
    /// What ran.
    pub contender: Contender,
    /// Write buffer, MB.
    pub buffer_mb: u32,
    /// Hits, per cent.
    pub hit_rate: f64,
    /// Garbage collections.
    pub gc_count: f64,
    /// Cache-level write amplification.
    pub clwa: f64,
    /// Flash-level write amplification.
    pub flwa: f64,
    /// Mean response, normalised to FlashTier without a write buffer.
    pub response: f64,
}

impl RwRow {
    /// Total write amplification.
    pub fn twaf(&self) -> f64 {
        self.clwa + self.flwa
    }

    /// TWAF for each write request instead of each flash page that the workload writes: a request writes a
    /// database page. The thesis does not say which of them its tables have.
    pub fn twaf_of_requests(&self) -> f64 {
        self.twaf() * f64::from(self.page_kb * 1024) / FLASH_PAGE as f64
    }

    /// Of the same page size, contender and write buffer.
    fn is_of(&self, other: &RwRow) -> bool {
        (self.page_kb, self.contender, self.buffer_mb) == (other.page_kb, other.contender, other.buffer_mb)
    }

    fn what(&self) -> String {
        format!("{} KB, {} MB", self.page_kb, self.buffer_mb)
    }
}

const fn row(page_kb: u32, contender: Contender, buffer_mb: u32, rates: [f64; 5]) -> RwRow {
    let [hit_rate, gc_count, clwa, flwa, response] = rates;
    RwRow { page_kb, contender, buffer_mb, hit_rate, gc_count, clwa, flwa, response }
}

use Contender::{Flashtier, Rwfdb};

/// Tables 5.1 (16 KB) and 5.2 (8 KB). The second contradicts itself: with a write buffer FlashTier's FLWA
/// falls from 24.34 to 0.0003 and its CLWA rises threefold.
pub const TABLES: [RwRow; 10] = [
    row(16, Flashtier, 0, [85.0, 199_975.0, 35.00, 13.33, 1.0]),
    row(16, Flashtier, 8, [84.7, 89_225.0, 28.91, 5.42, 0.904]),
    row(16, Flashtier, 16, [84.93, 87_750.0, 28.53, 4.70, 0.896]),
    row(16, Rwfdb, 8, [94.6, 42_587.0, 25.46, 2.55, 0.765]),
    row(16, Rwfdb, 16, [94.58, 42_125.0, 25.34, 2.53, 0.764]),
    row(8, Flashtier, 0, [81.10, 316_888.0, 4.94, 24.34, 1.0]),
    row(8, Flashtier, 8, [85.79, 113_240.0, 15.65, 0.0003, 0.84]),
    row(8, Flashtier, 16, [85.69, 116_833.0, 15.76, 0.0003, 0.84]),
    row(8, Rwfdb, 8, [91.25, 77_677.0, 2.16, 9.67, 0.80]),
    row(8, Rwfdb, 16, [96.27, 70_725.0, 2.16, 10.55, 0.77]),
];

/// TWAF as the tables print it, which differs from the sum of their CLWA and FLWA by up to 0.01.
const TWAF: [f64; 10] = [48.34, 34.34, 33.24, 28.01, 27.88, 29.29, 15.65, 15.76, 11.83, 12.72];

/// The thesis' TWAF for our row, as it is printed.
pub fn twaf_of(ours: &RwRow) -> Option<f64> {
    let at = TABLES.iter().position(|row| row.is_of(ours))?;
    Some(TWAF[at])
}

/// The table with rows of that page size.
pub const fn table(page_kb: u32) -> &'static str {
    if page_kb == 16 { "RW table 5.1" } else { "RW table 5.2" }
}

/// The thesis' row for ours, if it has one.
pub fn of(ours: &RwRow) -> Option<&'static RwRow> {
    TABLES.iter().find(|row| row.is_of(ours))
}

/// A figure of §4.1.3: bytes of entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// What it is the memory of.
    pub what: &'static str,
    /// Entries.
    pub entries: u64,
    /// Bytes of each.
    pub entry_bytes: u64,
    /// What the thesis says, bytes.
    pub paper_bytes: u64,
}

impl Memory {
    /// What the arithmetic gives.
    pub const fn bytes(&self) -> u64 {
        self.entries * self.entry_bytes
    }
}

const MIB: u64 = 1 << 20;
const FLASH_PAGE: u64 = 4096;

/// Section 4.1.3. Of the four, the arithmetic confirms the last.
pub const MEMORY: [Memory; 4] = [
    Memory {
        what: "map of a 4 GB cache, 8 bytes a page",
        entries: (4 << 30) / FLASH_PAGE,
        entry_bytes: 8,
        paper_bytes: 7 * MIB + MIB / 2,
    },
    Memory {
        what: "map of a 512 GB cache, 8 bytes a page",
        entries: (512 << 30) / FLASH_PAGE,
        entry_bytes: 8,
        paper_bytes: 960 * MIB,
    },
    Memory {
        what: "map of a 512 GB cache, an array of 4 bytes a page",
        entries: (512 << 30) / FLASH_PAGE,
        entry_bytes: 4,
        paper_bytes: 768 * MIB,
    },
    Memory {
        what: "list of an 8 MB write buffer, 8 bytes a page",
        entries: 8 * MIB / FLASH_PAGE,
        entry_bytes: 8,
        paper_bytes: 16 << 10,
    },
];
