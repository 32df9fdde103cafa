//! A description of a trace in numbers: operations, footprint, concentration of references, reuse distances,
//! and relations.
//!
//! Invariant: counted exactly from the requests, in one pass and memory in proportion to pages; nothing is
//! sampled.

use crate::{Op, Relations, Trace};
use serde::Serialize;

/// A trace in numbers. Its display is a text for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// The trace's name.
    pub name: String,
    /// Size of a page.
    pub page_bytes: u32,
    /// Records.
    pub requests: usize,
    /// Host requests: records but for the second and further pages of a request.
    pub host_requests: usize,
    /// Reads and writes of pages.
    pub references: usize,
    /// References that do not change the page.
    pub reads: usize,
    /// References that change the page.
    pub writes: usize,
    /// News of changes without a reference.
    pub dirty: usize,
    /// Changes (writes and news) as a share of references.
    pub change_share: f64,
    /// Different pages.
    pub unique_pages: usize,
    /// Different pages that were changed.
    pub changed_pages: usize,
    /// Bytes of all its pages.
    pub footprint_bytes: u64,
    /// Seconds from start to end; `None` without times.
    pub span_s: Option<f64>,
    /// The fewest pages that get a share of the references.
    pub working_set: Vec<WorkingSet>,
    /// Reuse of pages.
    pub reuse: Reuse,
    /// Relations with references or changes, those with most references first.
    pub relations: Vec<RelationInfo>,
}

/// The fewest pages that get a share of the references.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Share of the references.
    pub references_share: f64,
    /// The pages.
    pub pages: usize,
    /// The pages as a share of all pages.
    pub pages_share: f64,
}

/// Reuse: the number of references from one to the next of the same page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reuse {
    /// References to pages not seen before, as a share of all: no cache can hit them.
    pub first_share: f64,
    /// Half of the references to pages seen before are within so many references (rounded up to a power of
    /// two).
    pub interval_p50: u64,
    /// Nine tenths do.
    pub interval_p90: u64,
    /// Ninety-nine hundredths do.
    pub interval_p99: u64,
}

/// A relation's part in a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationInfo {
    /// Its name.
    pub name: String,
    /// Its different pages.
    pub pages: usize,
    /// References to them.
    pub references: usize,
    /// The same as a share of all references.
    pub references_share: f64,
    /// Changes of them.
    pub changes: usize,
}

/// Shares for which working sets are given.
const WORKING_SETS: [f64; 4] = [0.5, 0.8, 0.9, 0.99];

/// The counters of each page.
#[derive(Clone, Copy, Default)]
struct Page {
    references: u32,
    changes: u32,
    /// Number of references when it was last referenced.
    last: u64,
}

impl Info {
    /// Counts a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut pages = vec![Page::default(); trace.unique_pages()];
        let mut ops = [0; 3];
        // How many intervals are at most 2^n.
        let mut intervals = [0_u64; 65];
        let mut host_requests = 0;
        let mut references = 0_u64;
        for request in &trace.requests {
            let page = &mut pages[request.page() as usize];
            ops[match request.op() {
                Op::Read => 0,
                Op::Write => 1,
                Op::Dirty => 2,
            }] += 1;
            host_requests += usize::from(!request.continues());
            page.changes = page.changes.saturating_add(u32::from(request.changes()));
            if request.is_reference() {
                references += 1;
                if page.references > 0 {
                    intervals[(references - page.last).next_power_of_two().trailing_zeros() as usize] += 1;
                }
                page.last = references;
                page.references = page.references.saturating_add(1);
            }
        }
        let share = |part: usize| if references == 0 { 0.0 } else { part as f64 / references as f64 };
        let [reads, writes, dirty] = ops;
        Self {
            name: trace.name.clone(),
            page_bytes: trace.page_bytes,
            requests: trace.requests.len(),
            host_requests,
            references: reads + writes,
            reads,
            writes,
            dirty,
            change_share: share(writes + dirty),
            unique_pages: pages.len(),
            changed_pages: pages.iter().filter(|page| page.changes > 0).count(),
            footprint_bytes: trace.footprint_bytes(),
            span_s: trace.has_times().then(|| trace.seconds()),
            working_set: working_sets(&pages, references),
            reuse: Reuse {
                first_share: share(pages.iter().filter(|page| page.references > 0).count()),
                interval_p50: percentile(&intervals, 0.5),
                interval_p90: percentile(&intervals, 0.9),
                interval_p99: percentile(&intervals, 0.99),
            },
            relations: trace.relations.as_ref().map_or_else(Vec::new, |r| relations(r, &pages, references)),
        }
    }
}

fn working_sets(pages: &[Page], references: u64) -> Vec<WorkingSet> {
    let mut counts: Vec<u32> = pages.iter().map(|page| page.references).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sets = Vec::new();
    let (mut covered, mut taken) = (0_u64, 0);
    for references_share in WORKING_SETS {
        while (covered as f64) < references_share * references as f64 {
            covered += u64::from(counts[taken]);
            taken += 1;
        }
        let pages_share = taken as f64 / counts.len().max(1) as f64;
        sets.push(WorkingSet { references_share, pages: taken, pages_share });
    }
    sets
}

/// The power of two within which `share` of the intervals are.
fn percentile(intervals: &[u64; 65], share: f64) -> u64 {
    let all: u64 = intervals.iter().sum();
    let mut within = 0;
    for (bits, count) in intervals.iter().enumerate() {
        within += count;
        if all > 0 && within as f64 >= share * all as f64 {
            return 1_u64.checked_shl(bits as u32).unwrap_or(u64::MAX);
        }
    }
    0
}

fn relations(relations: &Relations, pages: &[Page], all: u64) -> Vec<RelationInfo> {
    let named = |name: &String| RelationInfo {
        name: name.clone(),
        pages: 0,
        references: 0,
        references_share: 0.0,
        changes: 0,
    };
    let mut infos: Vec<RelationInfo> = relations.names().iter().map(named).collect();
    for (page, &relation) in pages.iter().zip(relations.of_pages()) {
        let info = &mut infos[usize::from(relation)];
        info.pages += 1;
        info.references += page.references as usize;
        info.changes += page.changes as usize;
    }
    for info in &mut infos {
        info.references_share = if all == 0 { 0.0 } else { info.references as f64 / all as f64 };
    }
    infos.retain(|info| info.pages > 0);
    infos.sort_by(|a, b| b.references.cmp(&a.references).then_with(|| a.name.cmp(&b.name)));
    infos
}

/// Relations that the text lists.
const RELATIONS_SHOWN: usize = 25;

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| share * 100.0;
        writeln!(f, "{}", self.name)?;
        writeln!(f, "  references     {} ({} reads, {} writes)", self.references, self.reads, self.writes)?;
        writeln!(f, "  host requests  {}", self.host_requests - self.dirty)?;
        if self.dirty > 0 {
            writeln!(f, "  changes        {} of pages referenced before", self.dirty)?;
        }
        writeln!(f, "  change share   {:.1} % of references", percent(self.change_share))?;
        let mib = self.footprint_bytes as f64 / f64::from(1 << 20);
        writeln!(f, "  pages          {} of {} bytes = {mib:.1} MiB", self.unique_pages, self.page_bytes)?;
        writeln!(f, "  changed pages  {}", self.changed_pages)?;
        match self.span_s {
            Some(span_s) => writeln!(f, "  span           {span_s:.3} s")?,
            None => writeln!(f, "  span           no times")?,
        }
        for set in &self.working_set {
            let (of, pages) = (percent(set.references_share), percent(set.pages_share));
            writeln!(f, "  working set    {of:.0} % of references go to {} pages ({pages:.2} %)", set.pages)?;
        }
        let reuse = &self.reuse;
        writeln!(f, "  first          {:.2} % of references are a page's first", percent(reuse.first_share))?;
        writeln!(
            f,
            "  reuse          within {} references for 50 %, {} for 90 %, {} for 99 % of the others",
            reuse.interval_p50, reuse.interval_p90, reuse.interval_p99
        )?;
        if self.relations.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "\n  {:24} {:>10} {:>12} {:>7} {:>12}",
            "relation", "pages", "references", "%", "changes"
        )?;
        for relation in self.relations.iter().take(RELATIONS_SHOWN) {
            let RelationInfo { name, pages, references, changes, .. } = relation;
            let share = percent(relation.references_share);
            writeln!(f, "  {name:24} {pages:>10} {references:>12} {share:>7.2} {changes:>12}")?;
        }
        match self.relations.len().saturating_sub(RELATIONS_SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceBuilder;
    use entresol_core::PageId;

    #[test]
    fn everything_is_counted() {
        let mut builder = TraceBuilder::new("t", 4096);
        let [a, b] = ["a", "b"].map(|label| builder.object(label).expect("few"));
        for (object, page, op) in [
            (a, 1, Op::Read),
            (a, 1, Op::Dirty),
            (b, 1, Op::Write),
            (a, 1, Op::Read),
            (a, 1, Op::Read),
            (b, 2, Op::Read),
        ] {
            builder.page(PageId::new(object, page), op, None).expect("fits");
        }
        builder.extent(b, 8192, 8192, Op::Read, None).expect("fits");
        let info = Info::of(&builder.finish(str::to_owned));
        assert_eq!([info.requests, info.references, info.reads, info.writes, info.dirty], [8, 7, 6, 1, 1]);
        assert_eq!([info.unique_pages, info.changed_pages, info.host_requests], [4, 2, 7]);
        assert_eq!((info.change_share, info.reuse.first_share), (2.0 / 7.0, 4.0 / 7.0));
        // Page a1 after 2 and 1 references, page b2 after 1.
        let reuse = info.reuse;
        assert_eq!([reuse.interval_p50, reuse.interval_p90, reuse.interval_p99], [1, 2, 2]);
        let sets: Vec<usize> = info.working_set.iter().map(|set| set.pages).collect();
        assert_eq!(sets, [2, 3, 4, 4], "pages with 3, 2, 1, 1 references");
        let relation = |name: &str, pages, references: usize, changes| RelationInfo {
            name: name.into(),
            pages,
            references,
            references_share: references as f64 / 7.0,
            changes,
        };
        assert_eq!(info.relations, [relation("b", 3, 4, 1), relation("a", 1, 3, 1)]);
    }
}
