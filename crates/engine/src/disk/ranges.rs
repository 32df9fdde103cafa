//! A set of pages, kept as ranges.

use entresol_core::PageId;
use entresol_format::missing::PageRange;
use std::collections::BTreeMap;

/// Ranges that neither overlap nor touch: the first page of each, and the one after its last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageRanges(BTreeMap<u64, u64>);

impl PageRanges {
    /// The pages of a list that a record has.
    pub fn of_list(list: &[PageRange]) -> Self {
        let mut set = Self::default();
        list.iter().for_each(|(first, pages)| set.add(first.0, first.0 + u64::from(*pages)));
        set
    }

    /// As a record has it.
    pub fn list(&self) -> Vec<PageRange> {
        let mut list = Vec::with_capacity(self.0.len());
        for (first, end) in &self.0 {
            let mut at = *first;
            while at < *end {
                let pages = (end - at).min(u32::MAX.into()) as u32;
                list.push((PageId(at), pages));
                at += u64::from(pages);
            }
        }
        list
    }

    /// Number of ranges.
    pub fn ranges(&self) -> usize {
        self.0.len()
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.0.iter().map(|(first, end)| end - first).sum()
    }

    pub fn contains(&self, page: PageId) -> bool {
        self.0.range(..=page.0).next_back().is_some_and(|(_, end)| page.0 < *end)
    }

    pub fn insert(&mut self, page: PageId) {
        self.add(page.0, page.0 + 1);
    }

    /// All pages of `others`, too.
    pub fn add_all(&mut self, others: &Self) {
        others.0.iter().for_each(|(first, end)| self.add(*first, *end));
    }

    fn add(&mut self, mut first: u64, mut end: u64) {
        while let Some((from, to)) = self.0.range(..=end).next_back().map(|(from, to)| (*from, *to)) {
            if to < first {
                break;
            }
            (first, end) = (first.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(first, end);
    }

    pub fn remove(&mut self, page: PageId) {
        let Some((first, end)) = self.0.range(..=page.0).next_back().map(|(first, end)| (*first, *end))
        else {
            return;
        };
        if page.0 >= end {
            return;
        }
        self.0.remove(&first);
        if first < page.0 {
            self.0.insert(first, page.0);
        }
        if page.0 + 1 < end {
            self.0.insert(page.0 + 1, end);
        }
    }

    /// All pages of `others`.
    pub fn remove_all(&mut self, others: &Self) {
        others.0.iter().for_each(|(first, end)| self.remove_range(PageId(*first), PageId(end - 1)));
    }

    /// Removes the pages from `first` to `last`.
    pub fn remove_range(&mut self, first: PageId, last: PageId) {
        let (first, end) = (first.0, last.0 + 1);
        let met: Vec<(u64, u64)> =
            self.0.range(..end).filter(|(_, to)| **to > first).map(|(a, b)| (*a, *b)).collect();
        for (from, to) in met {
            self.0.remove(&from);
            if from < first {
                self.0.insert(from, first);
            }
            if to > end {
                self.0.insert(end, to);
            }
        }
    }

    /// The first pages from `from` on, at most `count`.
    pub fn next(&self, from: PageId, count: usize) -> Vec<PageId> {
        self.from(from).take(count).collect()
    }

    /// The pages from `from` on, in order.
    pub fn from(&self, from: PageId) -> impl Iterator<Item = PageId> + '_ {
        let before = self.0.range(..from.0).next_back().map(|(first, end)| (*first, *end));
        let after = self.0.range(from.0..).map(|(first, end)| (*first, *end));
        let all = before.into_iter().chain(after);
        all.flat_map(move |(first, end)| first.max(from.0)..end).map(PageId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_are_a_set() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let (mut ranges, mut set) = (PageRanges::default(), BTreeSet::new());
            for _ in 0..200 {
                let page = PageId(rng.below(40));
                match rng.below(3) {
                    2 => {
                        let last = PageId(page.0 + rng.below(6));
                        ranges.remove_range(page, last);
                        set.retain(|one| *one < page || *one > last);
                    }
                    0 => {
                        ranges.insert(page);
                        set.insert(page);
                    }
                    _ => {
                        ranges.remove(page);
                        set.remove(&page);
                    }
                }
                assert_eq!(ranges.pages(), set.len() as u64);
                assert!((0..42).map(PageId).all(|page| ranges.contains(page) == set.contains(&page)));
                let from = PageId(rng.below(42));
                assert!(set.range(from..).take(5).copied().eq(ranges.next(from, 5)));
                let list = ranges.list();
                assert!(list.windows(2).all(|pair| pair[0].0.0 + u64::from(pair[0].1) < pair[1].0.0));
                assert_eq!(PageRanges::of_list(&list), ranges);
            }
        }
    }
}
