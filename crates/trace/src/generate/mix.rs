//! References by popularity, with scans mixed in and a hot set that moves.

use super::pareto::Pareto;
use super::source::{self, Source, Take};
use super::zipf::Zipf;
use super::{check_rate, check_references, check_share, refuse, time_us, unit};
use crate::{Op, ReadOptions, Trace, TraceError};
use entresol_core::PageId;
use entresol_runtime::rng::Rng;
use std::io;

/// How popular pages are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// The k-th most popular page has a share proportional to k^-skew.
    Zipf {
        /// 0 is uniform, 1 the classic.
        skew: f64,
    },
    /// sysbench's: a share `h` of the pages gets a share 1 - h of the references.
    Pareto {
        /// 0.2 for 80–20.
        h: f64,
    },
    /// One after the other, round and round.
    Sequential,
}

/// Scans mixed in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scans {
    /// Their share of the references.
    pub share: f64,
    /// Pages of one scan; it starts anywhere.
    pub pages: u32,
}

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// How popular pages are.
    pub popularity: Popularity,
    /// Number of pages.
    pub pages: u32,
    /// Number of references.
    pub references: u64,
    /// Share of references that change the page; scans only read.
    pub write_share: f64,
    /// Scans mixed in.
    pub scans: Option<Scans>,
    /// Phases of equal length; in each, other pages are the popular ones.
    pub phases: u32,
    /// Whether popular pages are neighbours instead of anywhere.
    pub adjacent: bool,
    /// Size of a page.
    pub page_bytes: u32,
    /// A steady rate; `None`: no times.
    pub references_per_s: Option<f64>,
    /// The seed.
    pub seed: u64,
}

impl Default for Mix {
    /// A million references to 100,000 pages of 4 KiB, zipf 0.9, 30 % writes.
    fn default() -> Self {
        Self {
            popularity: Popularity::Zipf { skew: 0.9 },
            pages: 100_000,
            references: 1_000_000,
            write_share: 0.3,
            scans: None,
            phases: 1,
            adjacent: false,
            page_bytes: 4096,
            references_per_s: None,
            seed: 1,
        }
    }
}

/// Draws ranks.
enum Ranks {
    Uniform(u64),
    Zipf(Zipf),
    Pareto(Pareto),
    Sequential { pages: u32, next: u32 },
}

impl Ranks {
    fn next(&mut self, rng: &mut Rng) -> u32 {
        match self {
            Ranks::Uniform(pages) => rng.below(*pages) as u32,
            Ranks::Zipf(zipf) => zipf.sample(rng),
            Ranks::Pareto(pareto) => pareto.sample(rng),
            Ranks::Sequential { pages, next } => {
                let rank = *next;
                *next = (rank + 1) % *pages;
                rank
            }
        }
    }
}

impl Mix {
    /// Generates the trace.
    ///
    /// # Errors
    /// [`TraceError::Option`] if a parameter is out of range.
    pub fn generate(&self) -> Result<Trace, TraceError> {
        source::in_memory(self)
    }

    /// Rank → page, where popular pages are not neighbours.
    fn places(&self, rng: &mut Rng) -> Option<Vec<u32>> {
        if self.adjacent || matches!(self.popularity, Popularity::Sequential | Popularity::Uniform) {
            return None;
        }
        let mut places: Vec<u32> = (0..self.pages).collect();
        for left in (1..places.len()).rev() {
            places.swap(left, rng.below(left as u64 + 1) as usize);
        }
        Some(places)
    }
}

impl Source for Mix {
    /// How it was made.
    fn name(&self) -> String {
        let mut name = match self.popularity {
            Popularity::Uniform => "uniform".to_owned(),
            Popularity::Zipf { skew } => format!("zipf {skew}"),
            Popularity::Pareto { h } => format!("pareto {h}"),
            Popularity::Sequential => "sequential".to_owned(),
        };
        if let Some(scans) = self.scans {
            name += &format!(", {} % in scans of {} pages", scans.share * 100.0, scans.pages);
        }
        if self.phases > 1 {
            name += &format!(", {} phases", self.phases);
        }
        format!("{name}, {} pages, seed {}", self.pages, self.seed)
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
        check_share("writes", self.write_share)?;
        ReadOptions { page_bytes: Some(self.page_bytes), ..ReadOptions::default() }
            .page_bytes_or(self.page_bytes)?;
        if self.pages == 0 || self.pages > 1 << 31 {
            return refuse(format!("{} pages are not possible; 1 to {} are", self.pages, 1_u32 << 31));
        }
        match self.popularity {
            Popularity::Zipf { skew } if !(0.0..=10.0).contains(&skew) => {
                return refuse(format!("a skew of {skew} is not possible; 0 to 10 are"));
            }
            Popularity::Pareto { h } if !(0.001..=0.999).contains(&h) => {
                return refuse(format!("a Pareto share of {h} is not possible; 0.001 to 0.999 are"));
            }
            _ => {}
        }
        if let Some(scans) = self.scans {
            check_share("scans", scans.share)?;
            if scans.pages == 0 || scans.pages > self.pages {
                return refuse(format!(
                    "scans of {} pages are not possible; 1 to {} are",
                    scans.pages, self.pages
                ));
            }
        }
        match self.phases {
            0 => refuse("0 phases are not possible; at least 1 is".to_owned()),
            _ => Ok(()),
        }
    }

    fn each(&self, take: &mut Take<'_>) -> io::Result<()> {
        let mut rng = Rng::new(self.seed);
        let places = self.places(&mut rng);
        let pages = u64::from(self.pages);
        let mut ranks = match self.popularity {
            Popularity::Uniform => Ranks::Uniform(pages),
            Popularity::Zipf { skew } => Ranks::Zipf(Zipf::new(self.pages, skew)),
            Popularity::Pareto { h } => Ranks::Pareto(Pareto::new(self.pages, h)),
            Popularity::Sequential => Ranks::Sequential { pages: self.pages, next: 0 },
        };
        let mut scan = Scan { next: 0, left: 0 };
        for index in 0..self.references {
            let scanned = self.scans.filter(|scans| scans.share > 0.0 && unit(&mut rng) < scans.share);
            let (page, op) = match scanned {
                Some(scans) => (scan.next(&mut rng, scans.pages, self.pages), Op::Read),
                None => {
                    let phase = index * u64::from(self.phases) / self.references;
                    let shift = phase * pages / u64::from(self.phases);
                    let rank = (u64::from(ranks.next(&mut rng)) + shift) % pages;
                    let page = places.as_ref().map_or(rank as u32, |places| places[rank as usize]);
                    let writes = self.write_share > 0.0 && unit(&mut rng) < self.write_share;
                    (page, if writes { Op::Write } else { Op::Read })
                }
            };
            take(PageId::new(0, page), op, time_us(self.references_per_s, index))?;
        }
        Ok(())
    }
}

/// The scan that runs.
struct Scan {
    next: u32,
    left: u32,
}

impl Scan {
    fn next(&mut self, rng: &mut Rng, scan_pages: u32, pages: u32) -> u32 {
        if self.left == 0 {
            self.left = scan_pages;
            self.next = rng.below(u64::from(pages)) as u32;
        }
        let page = self.next;
        self.next = (page + 1) % pages;
        self.left -= 1;
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Info;

    fn original(trace: &Trace) -> Vec<u64> {
        trace.requests.iter().map(|request| trace.pages[request.page() as usize]).collect()
    }

    #[test]
    fn a_seed_makes_a_trace() {
        let mix = Mix { references: 5000, ..Mix::default() };
        let trace = mix.generate().expect("possible");
        assert_eq!(trace, mix.generate().expect("possible"));
        assert_ne!(trace.requests, Mix { seed: 2, ..mix }.generate().expect("possible").requests);
        assert_eq!((trace.requests.len(), trace.has_times()), (5000, false));
        let timed = Mix { references_per_s: Some(1000.0), ..mix }.generate().expect("possible");
        assert_eq!(timed.times_us[..3], [0, 1000, 2000]);
    }

    #[test]
    fn writes_have_their_share() {
        let mix = Mix { references: 40_000, write_share: 0.25, ..Mix::default() };
        let info = Info::of(&mix.generate().expect("possible"));
        // Four standard errors.
        assert!((info.change_share - 0.25).abs() < 0.009, "{}", info.change_share);
        let none = Mix { write_share: 0.0, ..mix };
        assert_eq!(Info::of(&none.generate().expect("possible")).writes, 0);
    }

    #[test]
    fn scans_go_from_neighbour_to_neighbour() {
        let scans = Some(Scans { share: 1.0, pages: 50 });
        let pages = original(
            &Mix { references: 500, pages: 1000, scans, ..Mix::default() }.generate().expect("possible"),
        );
        for scan in pages.chunks(50) {
            assert!(scan.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 1000), "{scan:?}");
        }
        let starts: std::collections::BTreeSet<u64> = pages.iter().step_by(50).copied().collect();
        assert!(starts.len() > 8, "scans start anywhere: {starts:?}");
        let scans = Some(Scans { share: 0.5, pages: 50 });
        let mixed = Mix { references: 20_000, scans, write_share: 1.0, ..Mix::default() };
        let reads = Info::of(&mixed.generate().expect("possible")).reads;
        assert!((9700..10_300).contains(&reads), "half of the references are the scans': {reads}");
    }

    #[test]
    fn the_hot_set_moves_from_phase_to_phase() {
        let mix = Mix { references: 40_000, pages: 10_000, phases: 4, ..Mix::default() };
        let pages = original(&mix.generate().expect("possible"));
        let hottest = |phase: usize| {
            let mut counts = std::collections::BTreeMap::new();
            for page in &pages[phase * 10_000..][..10_000] {
                *counts.entry(page).or_insert(0) += 1;
            }
            *counts.into_iter().max_by_key(|(_, count)| *count).expect("pages").0
        };
        let hot: std::collections::BTreeSet<u64> = (0..4).map(hottest).collect();
        assert_eq!(hot.len(), 4, "{hot:?}");
    }

    #[test]
    fn adjacent_pages_are_popular_together() {
        let pareto = Popularity::Pareto { h: 0.2 };
        let mix =
            Mix { references: 20_000, pages: 1000, popularity: pareto, adjacent: true, ..Mix::default() };
        let first_fifth = |mix: Mix| {
            original(&mix.generate().expect("possible")).iter().filter(|&&page| page < 200).count()
        };
        assert!((15_700..16_300).contains(&first_fifth(mix)), "{}", first_fifth(mix));
        assert!(first_fifth(Mix { adjacent: false, ..mix }) < 12_000, "anywhere");
        let sequential = Mix { references: 7, pages: 3, popularity: Popularity::Sequential, ..mix };
        assert_eq!(original(&sequential.generate().expect("possible")), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let good = Mix::default();
        let bad = [
            Mix { pages: 0, ..good },
            Mix { references: 0, ..good },
            Mix { references: REFERENCES_BEYOND, ..good },
            Mix { write_share: 1.1, ..good },
            Mix { write_share: f64::NAN, ..good },
            Mix { popularity: Popularity::Zipf { skew: -0.1 }, ..good },
            Mix { popularity: Popularity::Pareto { h: 0.0 }, ..good },
            Mix { scans: Some(Scans { share: 2.0, pages: 1 }), ..good },
            Mix { scans: Some(Scans { share: 0.5, pages: 0 }), ..good },
            Mix { phases: 0, ..good },
            Mix { page_bytes: 1000, ..good },
            Mix { references_per_s: Some(0.0), ..good },
        ];
        for mix in bad {
            assert!(matches!(mix.generate(), Err(TraceError::Option(_))), "{mix:?}");
        }
    }

    const REFERENCES_BEYOND: u64 = super::super::REFERENCES_MAX + 1;
}
