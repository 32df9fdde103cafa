//! RW's claims over our runs.
//!
//! Invariant: systems are compared at the same page size and write buffer only.

use super::{Contender, MEMORY, MIB, Memory, RwRow};
use crate::paper::{Check, Claim, Statement, Tolerance};

/// Points of hit rate that "up to 10 %" may mean.
const HIT_GAIN: Tolerance = Tolerance::Between(5.0, 15.0);
/// The smallest reduction of GC counts in the tables: 8 KB, 8 MB.
const GC_REDUCTION_MIN: f64 = 0.31;
/// rwfdb's GC counts by flashtier's in the tables, on the average: 0.477, 0.480, 0.686, 0.605.
const GC_RATIO_MEAN: f64 = 0.562;
/// "from 0.9 to 0.76 in figure 5.2(a)", pages of 16 KB: 0.85 of it, more or less.
const RESPONSE_RATIO: Tolerance = Tolerance::Between(0.75, 0.95);

const NEEDS: &str = "runs of flashtier and rwfdb at equal page sizes and write buffers";

pub(crate) const CLAIMS: &[Claim<[RwRow]>] = &[
    Claim {
        statement: Statement {
            id: "rw.s4-1-3.memory",
            source: "RW §4.1.3",
            says: "memory: 7.5 MB for a 4 GB cache, 960 MB for 512 GB, 768 MB as an array, 16 KB for the write buffer",
            tolerance: Tolerance::Exact,
            reason: Some(
                "1,048,576 × 8 bytes is 8 MiB, 134,217,728 × 8 is 1 GiB and × 4 is 512 MiB: the thesis' arithmetic",
            ),
            ..Statement::BASE
        },
        judge: memory,
    },
    Claim {
        statement: Statement {
            id: "rw.figure5-1.hits-everywhere",
            source: "RW figure 5.1",
            says: "rwfdb's hit rate is above flashtier's at every page size and write buffer",
            tolerance: Tolerance::Direction,
            needs: NEEDS,
            ..Statement::BASE
        },
        judge: hits_everywhere,
    },
    Claim {
        statement: Statement {
            id: "rw.s4-2.hit-gain",
            source: "RW §4.2",
            says: "rwfdb improves the hit rate by up to about 10 points (5 to 15)",
            tolerance: HIT_GAIN,
            needs: NEEDS,
            reason: Some(
                "the gain depends on the size of the flash relative to the pages touched: see the sweep of the full run",
            ),
            ..Statement::BASE
        },
        judge: hit_gain,
    },
    Claim {
        statement: Statement {
            id: "rw.s4-2.collections",
            source: "RW §4.2",
            says: "rwfdb collects garbage at least 31 % less often (the tables: 31 to 52 %, 44 % on the average)",
            tolerance: Tolerance::AtMost(1.0 - GC_REDUCTION_MIN),
            figures: &[GC_RATIO_MEAN],
            needs: NEEDS,
            ..Statement::BASE
        },
        judge: collections,
    },
    Claim {
        statement: Statement {
            id: "rw.s4-2.twaf",
            source: "RW §4.2",
            says: "rwfdb's TWAF is below flashtier's in all cases",
            tolerance: Tolerance::Direction,
            needs: NEEDS,
            ..Statement::BASE
        },
        judge: twaf,
    },
    Claim {
        statement: Statement {
            id: "rw.table5-2.levels",
            source: "RW §4.2, table 5.2",
            says: "rwfdb reduces CLWA, while its FLWA is larger than flashtier's (8 KB; the text does not say of which \
                   pages, and in table 5.1 it is smaller)",
            tolerance: Tolerance::Direction,
            needs: NEEDS,
            ..Statement::BASE
        },
        judge: levels,
    },
    Claim {
        statement: Statement {
            id: "rw.figure5-2.response",
            source: "RW figure 5.2(a)",
            says: "rwfdb's mean response is about 0.85 of flashtier's with the same write buffer (16 KB; 0.75 to 0.95)",
            tolerance: RESPONSE_RATIO,
            needs: NEEDS,
            reason: Some(
                "the ratio depends on the latency of the storage behind, which the thesis does not give: see the \
                 sweep of the full run",
            ),
            ..Statement::BASE
        },
        judge: response,
    },
    Claim {
        statement: Statement {
            id: "rw.figure5-2.buffer",
            source: "RW figure 5.2",
            says: "a write buffer shortens flashtier's mean response",
            tolerance: Tolerance::Direction,
            needs: NEEDS,
            ..Statement::BASE
        },
        judge: buffer,
    },
    Claim {
        statement: Statement {
            id: "rw.tables.buffer-collections",
            source: "RW tables 5.1, 5.2",
            says: "a write buffer halves flashtier's garbage collections",
            tolerance: Tolerance::AtMost(0.5),
            needs: NEEDS,
            reason: Some(
                "most of FlashTier's evictions here make room for reads that miss, which a write buffer does not \
                 change; and below a buffer pool few pages are written again within 8 MB of writes",
            ),
            ..Statement::BASE
        },
        judge: buffer_collections,
    },
    Claim {
        statement: Statement {
            id: "rw.s3-4.page-level",
            source: "RW §3.4, 4.2",
            says: "allocation by request instead of by block lowers write amplification and GC count (same device)",
            tolerance: Tolerance::Direction,
            needs: "runs of flashtier with page-level caching",
            ..Statement::BASE
        },
        judge: page_level,
    },
];

fn at(rows: &[RwRow], contender: Contender, page_kb: u32, buffer_mb: u32) -> Option<&RwRow> {
    let wanted = (page_kb, contender, buffer_mb);
    rows.iter().find(|row| (row.page_kb, row.contender, row.buffer_mb) == wanted)
}

/// Rows of `contender` with those of flashtier at the same page size and write buffer.
fn against_flashtier(rows: &[RwRow], contender: Contender) -> Vec<(&RwRow, &RwRow)> {
    let of_contender = rows.iter().filter(|row| row.contender == contender);
    let base = |row: &RwRow| at(rows, Contender::Flashtier, row.page_kb, row.buffer_mb);
    of_contender.filter_map(|row| Some((row, base(row)?))).collect()
}

/// Pairs of that page size: what the text says of one.
fn of_size<'r>(pairs: Vec<(&'r RwRow, &'r RwRow)>, page_kb: u32) -> Vec<(&'r RwRow, &'r RwRow)> {
    pairs.into_iter().filter(|(ours, _)| ours.page_kb == page_kb).collect()
}

/// Flashtier with a write buffer, compared with flashtier without.
fn buffered(rows: &[RwRow]) -> Vec<(&RwRow, &RwRow)> {
    let with = rows.iter().filter(|row| row.contender == Contender::Flashtier && row.buffer_mb > 0);
    with.filter_map(|row| Some((row, at(rows, Contender::Flashtier, row.page_kb, 0)?))).collect()
}

/// Judges each pair.
fn compare(
    pairs: Vec<(&RwRow, &RwRow)>,
    agrees: impl Fn(&RwRow, &RwRow) -> bool,
    number: impl Fn(&RwRow) -> String,
) -> Vec<Check> {
    let check = |(ours, base): (&RwRow, &RwRow)| Check {
        agrees: agrees(ours, base),
        numbers: format!("{}: {} against {}", ours.what(), number(ours), number(base)),
    };
    pairs.into_iter().map(check).collect()
}

fn memory(_: &[RwRow], _: Tolerance) -> Vec<Check> {
    let mib = |bytes: u64| bytes as f64 / MIB as f64;
    let check = |memory: &Memory| Check {
        agrees: memory.bytes() == memory.paper_bytes,
        numbers: format!("{}: {} MiB (thesis {})", memory.what, mib(memory.bytes()), mib(memory.paper_bytes)),
    };
    MEMORY.iter().map(check).collect()
}

fn hits_everywhere(rows: &[RwRow], _: Tolerance) -> Vec<Check> {
    let pairs = against_flashtier(rows, Contender::Rwfdb);
    compare(pairs, |ours, base| ours.hit_rate > base.hit_rate, |row| format!("{:.1} %", row.hit_rate))
}

fn hit_gain(rows: &[RwRow], tolerance: Tolerance) -> Vec<Check> {
    let pairs = against_flashtier(rows, Contender::Rwfdb);
    let gains = pairs.iter().map(|(ours, base)| (ours.hit_rate - base.hit_rate, ours.what()));
    let most = gains.max_by(|a, b| a.0.total_cmp(&b.0));
    let check = |(gain, what): (f64, String)| Check {
        agrees: tolerance.allows(gain),
        numbers: format!("{gain:.1} points at {what}"),
    };
    most.map(check).into_iter().collect()
}

fn collections(rows: &[RwRow], tolerance: Tolerance) -> Vec<Check> {
    compare(
        against_flashtier(rows, Contender::Rwfdb),
        |ours, base| tolerance.allows_of(ours.gc_count, base.gc_count),
        |row| format!("{:.0}", row.gc_count),
    )
}

fn twaf(rows: &[RwRow], _: Tolerance) -> Vec<Check> {
    let pairs = against_flashtier(rows, Contender::Rwfdb);
    compare(pairs, |ours, base| ours.twaf() < base.twaf(), |row| format!("{:.2}", row.twaf()))
}

fn levels(rows: &[RwRow], _: Tolerance) -> Vec<Check> {
    compare(
        of_size(against_flashtier(rows, Contender::Rwfdb), 8),
        |ours, base| ours.clwa < base.clwa && ours.flwa > base.flwa,
        |row| format!("{:.2} + {:.2}", row.clwa, row.flwa),
    )
}

fn response(rows: &[RwRow], tolerance: Tolerance) -> Vec<Check> {
    compare(
        of_size(against_flashtier(rows, Contender::Rwfdb), 16),
        |ours, base| tolerance.allows(ours.response / base.response),
        |row| format!("{:.3}", row.response),
    )
}

fn buffer(rows: &[RwRow], _: Tolerance) -> Vec<Check> {
    compare(
        buffered(rows),
        |with, without| with.response < without.response,
        |row| format!("{:.3}", row.response),
    )
}

fn buffer_collections(rows: &[RwRow], tolerance: Tolerance) -> Vec<Check> {
    compare(
        buffered(rows),
        |with, without| tolerance.allows_of(with.gc_count, without.gc_count),
        |row| format!("{:.0}", row.gc_count),
    )
}

fn page_level(rows: &[RwRow], _: Tolerance) -> Vec<Check> {
    let check = |(pages, blocks): (&RwRow, &RwRow)| Check {
        agrees: pages.twaf() < blocks.twaf() && pages.gc_count < blocks.gc_count,
        numbers: format!(
            "{}: TWAF {:.2} against {:.2}, GC {:.0} against {:.0}",
            pages.what(),
            pages.twaf(),
            blocks.twaf(),
            pages.gc_count,
            blocks.gc_count
        ),
    };
    against_flashtier(rows, Contender::FlashtierPages).into_iter().map(check).collect()
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
