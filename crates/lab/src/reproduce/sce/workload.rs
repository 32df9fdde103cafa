//! The two workloads of SCE's chapter, generated.
//!
//! Invariant: pages of one MiB of the database are neighbours, hot or cold together, as in both of the
//! paper's.

use entresol_core::PageId;
use entresol_runtime::rng::Rng;
use entresol_trace::generate::{Mix, Popularity};
use entresol_trace::{Op, Trace, TraceBuilder};

/// Bytes of a fragment (SCE §3.1).
pub(super) const FRAGMENT_BYTES: u32 = 1 << 20;
/// MySQL's pages.
pub(super) const MYSQL_PAGE_BYTES: u32 = 16 << 10;
/// DB2's pages, here.
const DB2_PAGE_BYTES: u32 = 8 << 10;
/// sysbench's Pareto share: 20 % of the rows get 80 % of the references (§2).
const SYSBENCH_H: f64 = 0.2;
/// Share of sysbench's references that change their page, such that below the buffer pool about as much is
/// written as read (figure 1b).
const SYSBENCH_WRITES: f64 = 0.85;
/// OLTP: so many references in a hundred change their page. (Nine tenths of TPC-E's I/O are reads.)
const WRITES_OF_HUNDRED: u64 = 5;

/// What of the OLTP load is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// One fragment in so many, scattered over the database.
    pub every: u32,
    /// So many references in ten are to these, all alike.
    pub of_ten: u64,
}

impl Shape {
    /// Chosen with figure 6 in view.
    pub const CHOSEN: Self = Self { every: 8, of_ten: 9 };
}

/// A workload with the shape of its machine, in pages.
pub(super) struct Workload {
    pub trace: Trace,
    /// DRAM frames.
    pub dram_pages: u32,
    /// Pages of the database.
    pub pages: u32,
}

impl Workload {
    /// Pages of a fragment.
    pub fn fragment_pages(&self) -> u32 {
        FRAGMENT_BYTES / self.trace.page_bytes
    }
}

/// sysbench's OLTP test: rows by the Pareto rule, the hot ones next to each other.
pub(super) fn sysbench(
    fragments: u32,
    references: u64,
    dram_share: f64,
    seed: u64,
) -> anyhow::Result<Workload> {
    let pages = fragments * (FRAGMENT_BYTES / MYSQL_PAGE_BYTES);
    let mix = Mix {
        popularity: Popularity::Pareto { h: SYSBENCH_H },
        pages,
        references,
        write_share: SYSBENCH_WRITES,
        adjacent: true,
        page_bytes: MYSQL_PAGE_BYTES,
        seed,
        ..Mix::default()
    };
    let dram_pages = (f64::from(pages) * dram_share) as u32;
    Ok(Workload { trace: mix.generate()?, dram_pages, pages })
}

/// Skewed OLTP with spatial locality: hot fragments scattered over the database, more than DRAM holds; within
/// a fragment all pages alike.
pub(super) fn oltp(
    fragments: u32,
    references: u64,
    dram_share: f64,
    shape: Shape,
    seed: u64,
) -> anyhow::Result<Workload> {
    let fragment_pages = FRAGMENT_BYTES / DB2_PAGE_BYTES;
    let pages = fragments * fragment_pages;
    let mut rng = Rng::new(seed);
    let mut builder = TraceBuilder::new("skewed OLTP by fragments", DB2_PAGE_BYTES);
    for _ in 0..references {
        let fragment = if rng.below(10) < shape.of_ten {
            rng.below(u64::from(fragments / shape.every)) as u32 * shape.every
        } else {
            rng.below(fragments.into()) as u32
        };
        let page = fragment * fragment_pages + rng.below(fragment_pages.into()) as u32;
        let op = if rng.below(100) < WRITES_OF_HUNDRED { Op::Write } else { Op::Read };
        builder
            .page(PageId::new(0, page), op, None)
            .map_err(|misfit| anyhow::anyhow!("the workload does not fit a trace: {misfit:?}"))?;
    }
    let dram_pages = (f64::from(pages) * dram_share) as u32;
    Ok(Workload { trace: builder.finish(str::to_owned), dram_pages, pages })
}
