//! What RW's experiments run on: reads and writes as they reach a cache below a database's buffer pool.
//!
//! The capture of a real PostgreSQL has that stream itself (its misses and its writes); without it, the model
//! of TPC-C is sent through an LRU pool. Larger database pages are neighbours taken as one.
//!
//! Invariant: every request is a read of a page, or a write of all of it.

use super::super::{Context, Effort};
use crate::replay::pool::{DIRTY, FDIRTY, Lru, Pool};
use entresol_core::PageId;
use entresol_trace::generate::TpccModel;
use entresol_trace::{Misfit, Op, ReadOptions, Stream, Trace, TraceBuilder, read};
use std::ops::Range;

/// The capture, and when its load generator's own checks begin.
const CAPTURE: &str = "pg15_tpcc_w8.bin.zst";
const CAPTURE_UNTIL_S: f64 = 240.0;
/// DRAM above the cache where the stream is generated: 64 MB of shared buffers for 770 MB, as in the capture.
const DRAM_SHARE: f64 = 0.083;

/// Requests below a buffer pool.
pub(super) struct Workload {
    /// With pages of 8 KB.
    pub trace: Trace,
    /// Where they come from.
    pub described: String,
}

/// The capture if it is there, else the model.
pub(super) fn workload(context: &Context<'_>) -> anyhow::Result<Workload> {
    let capture = context.traces.as_ref().map(|folder| folder.join(CAPTURE));
    if let Some(path) = capture.filter(|path| path.is_file()) {
        let options = ReadOptions { stream: Stream::Below, ..ReadOptions::default() };
        let all = read(&path, &options)?;
        let trace = rebuilt(&all, all.between(0.0, CAPTURE_UNTIL_S)?, all.page_bytes, |page| page)?;
        let described =
            "The stream below a real PostgreSQL 15's 64 MB of shared buffers under TPC-C with 8 warehouses \
                         (0.8 GB): its misses and its writes, captured."
                .into();
        return Ok(Workload { trace, described });
    }
    let (warehouses, references) = match context.effort {
        Effort::Quick => (2, 1_500_000),
        Effort::Full => (8, 8_000_000),
    };
    let model = TpccModel { warehouses, references, seed: context.seed, ..TpccModel::default() };
    let trace = below(&model.generate()?)?;
    let described = format!(
        "A model of TPC-C with {warehouses} warehouses, {references} page references, sent through an LRU pool of {:.1} % of \
         its pages (the captured trace is not at hand: --traces).",
        DRAM_SHARE * 100.0
    );
    Ok(Workload { trace, described })
}

/// What a pool lets through: its misses, and its dirty pages as they leave.
fn below(trace: &Trace) -> anyhow::Result<Trace> {
    let frames = ((trace.unique_pages() as f64 * DRAM_SHARE) as u32).max(1);
    let mut pool = Pool::<Lru>::new(trace.unique_pages(), frames);
    let mut builder = TraceBuilder::new(format!("below {}", trace.name), trace.page_bytes);
    let mut tell =
        |page: u32, op| builder.page(PageId(trace.pages[page as usize]), op, None).map_err(refused);
    for request in &trace.requests {
        let page = request.page();
        let frame = if request.is_reference() { pool.reference(page) } else { pool.peek(page) };
        match frame {
            Some(frame) if request.changes() => pool.soil(frame),
            Some(_) => {}
            None => {
                if pool.free_frames() == 0 {
                    let departed = pool.take_coldest().expect("a pool without free frames is full");
                    if departed.dirty() {
                        tell(departed.page, Op::Write)?;
                    }
                }
                tell(page, Op::Read)?;
                pool.enter(page, if request.changes() { DIRTY | FDIRTY } else { 0 });
            }
        }
    }
    Ok(builder.finish(str::to_owned))
}

/// The same requests with pages of twice the size: neighbours are one page.
pub(super) fn doubled(trace: &Trace) -> anyhow::Result<Trace> {
    let half = |page: u64| {
        let id = PageId(page);
        PageId::new(id.object(), id.number() / 2).0
    };
    rebuilt(trace, 0..trace.requests.len(), trace.page_bytes * 2, half)
}

fn rebuilt(
    trace: &Trace,
    records: Range<usize>,
    page_bytes: u32,
    renumber: impl Fn(u64) -> u64,
) -> anyhow::Result<Trace> {
    let mut builder = TraceBuilder::new(trace.name.clone(), page_bytes);
    for request in &trace.requests[records] {
        let page = PageId(renumber(trace.pages[request.page() as usize]));
        builder.page(page, request.op(), None).map_err(refused)?;
    }
    Ok(builder.finish(str::to_owned))
}

fn refused(misfit: Misfit) -> anyhow::Error {
    anyhow::anyhow!("a page cannot be numbered: {misfit:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above() -> Trace {
        TpccModel { warehouses: 1, references: 60_000, ..TpccModel::default() }.generate().expect("a model")
    }

    #[test]
    fn a_page_is_written_only_after_it_was_read_and_changed() {
        let below = below(&above()).expect("requests");
        let mut resident = vec![false; below.unique_pages()];
        for request in &below.requests {
            let page = &mut resident[request.page() as usize];
            match request.op() {
                Op::Read => *page = true,
                Op::Write => assert!(std::mem::take(page), "written and not read before"),
                Op::Dirty => panic!("no news of changes below a pool"),
            }
        }
        let writes = below.requests.iter().filter(|request| request.changes()).count();
        let share = writes as f64 / below.requests.len() as f64;
        assert!((0.1..0.5).contains(&share), "{share}");
    }

    #[test]
    fn neighbours_become_one_page() {
        let below = below(&above()).expect("requests");
        let doubled = doubled(&below).expect("requests");
        assert_eq!((doubled.page_bytes, doubled.requests.len()), (16_384, below.requests.len()));
        let (small, large) = (below.unique_pages() as f64, doubled.unique_pages() as f64);
        assert!((0.5..0.75).contains(&(large / small)), "{large} of {small}");
        for (one, two) in below.requests.iter().zip(&doubled.requests) {
            let [one, two] =
                [(one, &below), (two, &doubled)].map(|(r, t)| PageId(t.pages[r.page() as usize]));
            assert_eq!((one.object(), one.number() / 2), (two.object(), two.number()));
        }
    }
}
