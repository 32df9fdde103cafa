//! Loops that take turns: each repeats pages of its own, one after the other, in runs.
//!
//! The time between two uses of a page is a round of its loop, so a short loop's pages are used more often.
//! Which loops a cache should hold follows from its size. Policies by recency alone hit nothing in a loop
//! that is longer than the cache.

use super::source::{self, Source, Take};
use super::{check_rate, check_references, refuse, time_us};
use crate::{Op, ReadOptions, Trace, TraceError};
use entresol_core::PageId;
use entresol_runtime::rng::Rng;
use std::io;

/// What to generate: references that read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loops {
    /// Pages of each loop.
    pub pages: Vec<u32>,
    /// Pages of the longest run: a run has 1 to so many, all alike, and each loop is as likely as the others.
    pub run_pages: u32,
    /// Number of references.
    pub references: u64,
    /// Size of a page.
    pub page_bytes: u32,
    /// A steady rate; `None`: no times.
    pub references_per_s: Option<f64>,
    /// The seed.
    pub seed: u64,
}

impl Default for Loops {
    /// A million references to loops of 8,000 and 42,000 pages of 4 KiB, in runs of up to 2,000.
    fn default() -> Self {
        Self {
            pages: vec![8000, 42_000],
            run_pages: 2000,
            references: 1_000_000,
            page_bytes: 4096,
            references_per_s: None,
            seed: 1,
        }
    }
}

impl Loops {
    /// Generates the trace.
    ///
    /// # Errors
    /// [`TraceError::Option`] if a parameter is out of range.
    pub fn generate(&self) -> Result<Trace, TraceError> {
        source::in_memory(self)
    }
}

impl Source for Loops {
    fn name(&self) -> String {
        let pages: Vec<String> = self.pages.iter().map(u32::to_string).collect();
        format!("loops of {} pages, runs of up to {}, seed {}", pages.join(", "), self.run_pages, self.seed)
    }

    fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    fn objects(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn check(&self) -> Result<(), TraceError> {
        check_references(self.references)?;
        check_rate(self.references_per_s)?;
        ReadOptions { page_bytes: Some(self.page_bytes), ..ReadOptions::default() }
            .page_bytes_or(self.page_bytes)?;
        let all: u64 = self.pages.iter().map(|pages| u64::from(*pages)).sum();
        if self.pages.contains(&0) || all == 0 || all > 1 << 31 {
            return refuse(format!(
                "loops of {all} pages together are not possible; 1 to {} are, each at least 1",
                1_u32 << 31
            ));
        }
        match self.run_pages {
            0 => refuse("runs of 0 pages are not possible; at least 1 is".to_owned()),
            _ => Ok(()),
        }
    }

    fn each(&self, take: &mut Take<'_>) -> io::Result<()> {
        let mut rng = Rng::new(self.seed);
        let mut first = 0;
        let mut loops = Vec::new();
        for &pages in &self.pages {
            loops.push(Loop { first, pages, next: 0 });
            first += pages;
        }
        let (mut running, mut left) = (0, 0);
        for index in 0..self.references {
            if left == 0 {
                running = rng.below(loops.len() as u64) as usize;
                left = 1 + rng.below(u64::from(self.run_pages));
            }
            left -= 1;
            let page = PageId::new(0, loops[running].next());
            take(page, Op::Read, time_us(self.references_per_s, index))?;
        }
        Ok(())
    }
}

/// A loop, where it is.
struct Loop {
    first: u32,
    pages: u32,
    next: u32,
}

impl Loop {
    fn next(&mut self) -> u32 {
        let page = self.first + self.next;
        self.next = (self.next + 1) % self.pages;
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Info;

    fn original(loops: &Loops) -> Vec<u64> {
        let trace = loops.generate().expect("possible");
        trace.requests.iter().map(|request| trace.pages[request.page() as usize]).collect()
    }

    #[test]
    fn each_loop_goes_round_in_its_own_pages() {
        let loops = Loops { pages: vec![3, 500], run_pages: 20, references: 20_000, ..Loops::default() };
        let pages = original(&loops);
        assert_eq!(pages, original(&loops), "a seed makes a trace");
        assert_ne!(pages, original(&Loops { seed: 2, ..loops.clone() }));
        let (short, long): (Vec<u64>, Vec<u64>) = pages.iter().partition(|page| **page < 3);
        assert!(short.iter().enumerate().all(|(at, page)| *page == at as u64 % 3), "{short:?}");
        assert!(long.iter().enumerate().all(|(at, page)| *page == 3 + at as u64 % 500), "{long:?}");
        // Runs are some 10 long, so there are some 2,000, and a loop's share has a deviation of .013.
        assert!((8900..11_100).contains(&short.len()), "{}", short.len());
        let turns = pages.windows(2).filter(|pair| (pair[0] < 3) != (pair[1] < 3)).count();
        assert!((800..1200).contains(&turns), "every other run is of another loop: {turns}");
    }

    #[test]
    fn loops_only_read() {
        let info = Info::of(&Loops { references: 1000, ..Loops::default() }.generate().expect("possible"));
        assert_eq!((info.reads, info.writes), (1000, 0));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let good = Loops::default();
        let bad = [
            Loops { pages: Vec::new(), ..good.clone() },
            Loops { pages: vec![5, 0], ..good.clone() },
            Loops { pages: vec![1 << 31, 1], ..good.clone() },
            Loops { run_pages: 0, ..good.clone() },
            Loops { references: 0, ..good.clone() },
            Loops { page_bytes: 1000, ..good.clone() },
            Loops { references_per_s: Some(f64::NAN), ..good },
        ];
        for loops in bad {
            assert!(matches!(loops.generate(), Err(TraceError::Option(_))), "{loops:?}");
        }
    }
}
