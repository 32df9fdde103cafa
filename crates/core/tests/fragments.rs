//! SCE against a naive model: which fragment is populated and when, and which is evicted for it. Also: no
//! stale page is ever served, with writes and populations under way in any order.

mod harness {
    pub mod choices;
}

use entresol_core::{
    FRAGMENT_BYTES, FragmentConfig, FragmentConfigError, Fragments, PageId, Population, WritePath,
    fragment_region_bytes,
};
use harness::choices::Choices;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use zerocopy::IntoBytes;

const ONE: u32 = 1 << 16;
const PRICE: u64 = 1000 * ONE as u64;

/// SCE as its module header describes it, without regard to speed.
struct Model {
    config: FragmentConfig,
    heat: Vec<u32>,
    reads: u32,
    recent: VecDeque<Option<u32>>,
    /// Slot → fragment and whether it is there already.
    slots: Vec<Option<(u32, bool)>>,
    writes: Vec<u32>,
    hand: usize,
    hit_rate: i64,
    credit: u64,
}

impl Model {
    fn new(config: FragmentConfig) -> Self {
        Self {
            config,
            heat: vec![0; config.fragments() as usize],
            reads: 0,
            recent: vec![None; config.recent as usize].into(),
            slots: vec![None; config.slots as usize],
            writes: vec![0; config.fragments() as usize],
            hand: 0,
            hit_rate: 0,
            credit: 0,
        }
    }

    fn earn(&mut self) {
        let free = self.slots.iter().filter(|slot| slot.is_none()).count() as u64;
        let room = u64::from(ONE) / 8 + (free * 65_536 / self.slots.len() as u64) * 7 / 8;
        let missing = (i64::from(ONE) - self.hit_rate) as u64;
        self.credit += u64::from(self.config.pace_permille) * ((missing * room) >> 16);
        self.credit = self.credit.min(4 * PRICE);
    }

    fn on_flash(&self, fragment: u32) -> bool {
        self.slots.iter().flatten().any(|(there, _)| *there == fragment)
    }

    fn read(&mut self, fragment: u32, found: bool) {
        self.heat[fragment as usize] += 1;
        self.reads += 1;
        if self.reads == 64 * self.heat.len() as u32 {
            self.reads = 0;
            self.heat.iter_mut().for_each(|heat| *heat /= 2);
        }
        self.hit_rate += (if found { i64::from(ONE) } else { 0 } - self.hit_rate) / 1024;
        if !self.on_flash(fragment) && !self.recent.contains(&Some(fragment)) {
            self.recent.pop_front();
            self.recent.push_back(Some(fragment));
        }
        self.earn();
    }

    /// The fragment to populate, and the one that is evicted for it.
    fn next(&mut self) -> Option<(u32, Option<u32>)> {
        let populating = self.slots.iter().flatten().filter(|(_, there)| !there).count();
        if populating >= self.config.workers as usize || self.credit < PRICE {
            return None;
        }
        let mut fragments: Vec<u32> = self.recent.iter().flatten().copied().collect();
        fragments.retain(|fragment| self.writes[*fragment as usize] == 0);
        fragments.sort_by_key(|fragment| (std::cmp::Reverse(self.heat[*fragment as usize]), *fragment));
        let hottest = *fragments.first()?;
        let heat = self.heat[hottest as usize];
        if heat < 2 {
            return None;
        }
        let mut victim = None;
        if self.slots.iter().all(Option::is_some) {
            let slots = self.slots.len();
            let looked_at: Vec<usize> = (0..slots.min(32)).map(|step| (self.hand + step) % slots).collect();
            self.hand = (self.hand + looked_at.len()) % slots;
            let mut idle: Vec<(u32, usize)> = Vec::new();
            for slot in looked_at {
                let (fragment, there) = self.slots[slot].expect("no slot is free");
                if there && self.writes[fragment as usize] == 0 {
                    idle.push((self.heat[fragment as usize], slot));
                }
            }
            let (cold, slot) = *idle.iter().min()?;
            if heat <= cold + cold / 2 {
                return None;
            }
            victim = self.slots[slot].take().map(|(fragment, _)| fragment);
        }
        self.credit -= PRICE;
        let at = self.recent.iter().position(|at| *at == Some(hottest)).expect("it is among them");
        self.recent[at] = None;
        Some((hottest, victim))
    }
}

/// A cache, its model, a disk and a flash device of version numbers, and the operations under way.
struct World<'r> {
    cache: Fragments<'r>,
    model: Model,
    /// Version of each page on disk.
    disk: Vec<u64>,
    /// Page, version and number of the population in each slot.
    flash: BTreeMap<u32, (u32, u64, u32)>,
    writes: Vec<(u32, WritePath, u64)>,
    /// With the versions that were read, after the read.
    populations: Vec<(Population, Option<Vec<u64>>)>,
    version: u64,
    hits: u64,
    populated: u64,
    evicted: u64,
    stale_kept_out: u64,
}

impl World<'_> {
    fn fragment(&self, page: u32) -> u32 {
        page / self.model.config.fragment_pages
    }

    fn read(&mut self, page: u32) {
        let seen = self.cache.peek(PageId::new(0, page));
        let found = self.cache.fetch(PageId::new(0, page));
        assert_eq!(seen, found);
        if let Some(copy) = found {
            self.hits += 1;
            let under_way = self.writes.iter().any(|(written, ..)| *written == page);
            assert!(!under_way, "page {page} is being written and was served from flash");
            let expected = (page, self.disk[page as usize], copy.population);
            assert_eq!(self.flash.get(&copy.slot.0), Some(&expected), "page {page}");
        }
        let fragment = self.fragment(page);
        self.model.read(fragment, found.is_some());
    }

    fn begin_write(&mut self, page: u32) {
        if self.writes.iter().any(|(written, ..)| *written == page) {
            return;
        }
        let fragment = self.fragment(page);
        let path = self.cache.write(PageId::new(0, page));
        let mapped = self.model.slots.iter().flatten().any(|(there, whole)| *there == fragment && *whole);
        assert_eq!(matches!(path, WritePath::Through(_)), mapped, "through if mapped, around if not");
        self.model.writes[fragment as usize] += 1;
        self.model.earn();
        self.version += 1;
        self.writes.push((page, path, self.version));
    }

    fn end_write(&mut self, at: usize, ok: bool) {
        let (page, path, version) = self.writes.swap_remove(at);
        self.disk[page as usize] = version;
        if let (WritePath::Through(copy), true) = (path, ok) {
            self.flash.insert(copy.slot.0, (page, version, copy.population));
        }
        let fragment = self.fragment(page);
        self.model.writes[fragment as usize] -= 1;
        self.cache.write_done(PageId::new(0, page), path, ok);
    }

    fn populate(&mut self) {
        let expected = self.model.next();
        let found = self.cache.next_population();
        let fragment = found.map(|population| self.fragment(population.first.number()));
        assert_eq!(fragment, expected.map(|(fragment, _)| fragment));
        let (Some(population), Some((fragment, victim))) = (found, expected) else { return };
        self.evicted += u64::from(victim.is_some());
        let slot = (population.copy.slot.0 / self.model.config.fragment_pages) as usize;
        assert_eq!(self.model.slots[slot], None, "its place was free, or its victim's");
        self.model.slots[slot] = Some((fragment, false));
        self.populations.push((population, None));
    }

    /// A worker makes a step: it reads from disk, then writes to flash.
    fn work(&mut self, at: usize, ok: bool) {
        let (population, read) = &mut self.populations[at];
        let first = population.first.number();
        let Some(versions) = read.take() else {
            let pages = first..first + population.pages;
            *read = Some(pages.map(|page| self.disk[page as usize]).collect());
            return;
        };
        let (population, _) = self.populations.swap_remove(at);
        for (offset, version) in (0..).zip(versions) {
            let page = first + offset;
            self.stale_kept_out += u64::from(ok && version != self.disk[page as usize]);
            let copy = population.copy;
            self.flash.insert(copy.slot.0 + offset, (page, version, copy.population));
        }
        self.cache.populated(population.ticket, ok);
        let slot = (population.copy.slot.0 / self.model.config.fragment_pages) as usize;
        self.populated += u64::from(ok);
        self.model.slots[slot] = self.model.slots[slot].map(|(fragment, _)| (fragment, true)).filter(|_| ok);
    }

    fn step(&mut self, choices: &mut Choices, hot: u32) {
        let pages = self.model.config.volume_pages as usize;
        let page =
            if choices.below(4) > 0 { choices.below(hot as usize) } else { choices.below(pages) } as u32;
        match choices.below(10) {
            0..4 => self.read(page),
            4 => self.begin_write(page),
            5 if !self.populations.is_empty() => {
                let (population, _) = &self.populations[choices.below(self.populations.len())];
                let offset = choices.below(population.pages as usize) as u32;
                self.begin_write(population.first.number() + offset);
            }
            6 if !self.writes.is_empty() => {
                let at = choices.below(self.writes.len());
                self.end_write(at, !choices.once_in(20));
            }
            7 => self.populate(),
            8 | 9 if !self.populations.is_empty() => {
                let at = choices.below(self.populations.len());
                self.work(at, !choices.once_in(20));
            }
            _ => {}
        }
        self.cache.check().expect("the invariants hold");
        let occupancy = self.cache.occupancy();
        let mapped = self.model.slots.iter().flatten().filter(|(_, there)| *there).count();
        assert_eq!(occupancy.mapped as usize, mapped);
    }
}

fn run(choices: &mut Choices, steps: usize) -> [u64; 4] {
    let fragment_pages = [1, 3, 8, 64, 256][choices.below(5)];
    let slots = 1 + choices.below(40) as u32;
    let config = FragmentConfig {
        fragment_pages,
        workers: 1 + choices.below(4) as u32,
        pace_permille: [16, 300, 1000][choices.below(3)],
        recent: 1 + choices.below(20) as u32,
        ..FragmentConfig::new(fragment_pages * slots * 3 + 1, slots)
    };
    let mut region = vec![0u64; fragment_region_bytes(&config) / 8];
    let cache = Fragments::format(region.as_mut_bytes(), &config).expect("the configuration is possible");
    let mut world = World {
        cache,
        model: Model::new(config),
        disk: vec![0; config.volume_pages as usize],
        flash: BTreeMap::new(),
        writes: Vec::new(),
        populations: Vec::new(),
        version: 0,
        hits: 0,
        populated: 0,
        evicted: 0,
        stale_kept_out: 0,
    };
    for _ in 0..steps {
        if choices.is_over() {
            break;
        }
        world.step(choices, (fragment_pages * slots).div_ceil(2));
    }
    [world.hits, world.populated, world.evicted, world.stale_kept_out]
}

#[test]
fn sce_agrees_with_its_model() {
    let counts: Vec<[u64; 4]> = (0..24).map(|seed| run(&mut Choices::from_seed(seed), 4000)).collect();
    let sum = |at: usize| counts.iter().map(|counts| counts[at]).sum::<u64>();
    // Without hits the test would test nothing.
    assert!(sum(0) > 5000, "hits: {}", sum(0));
    assert!(sum(1) > 500, "populations: {}", sum(1));
    assert!(sum(2) > 50, "evictions: {}", sum(2));
    assert!(sum(3) > 20, "pages written during their population: {}", sum(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sce_agrees_with_its_model_whatever_happens(list in proptest::collection::vec(any::<u32>(), 200..2000)) {
        run(&mut Choices::from_list(list), 2000);
    }
}

/// A region of words, and a cache in it.
fn cache<R>(config: &FragmentConfig, body: impl FnOnce(&mut Fragments<'_>) -> R) -> R {
    let mut region = vec![0u64; fragment_region_bytes(config) / 8];
    body(&mut Fragments::format(region.as_mut_bytes(), config).expect("possible"))
}

/// Reads the whole volume repeatedly, two pages of each fragment, as fast as workers populate it.
fn warm(cache: &mut Fragments<'_>, reads: u32) {
    let config = cache.config();
    for read in 0..reads {
        let fragment = read / 2 % config.fragments();
        cache.fetch(PageId::new(0, fragment * config.fragment_pages + read % 2));
        if let Some(population) = cache.next_population() {
            cache.populated(population.ticket, true);
        }
    }
}

/// A fragment with a write under way, or held, is not evicted; one that cannot be proved leaves the flash.
#[test]
fn what_is_held_stays_and_what_cannot_be_proved_leaves() {
    let config = FragmentConfig { pace_permille: 1000, ..FragmentConfig::new(64, 2).with_fragments(4, 8) };
    cache(&config, |cache| {
        let page = |fragment: u32| PageId((4 * fragment).into());
        let populate = |cache: &mut Fragments<'_>, fragment, reads| {
            (0..reads).for_each(|_| _ = cache.fetch(page(fragment)));
            let population = cache.next_population();
            if let Some(Population { ticket, .. }) = population {
                cache.populated(ticket, true);
            }
            population
        };
        let slots = [0, 1].map(|at| populate(cache, at, 8).expect("there is room").copy.slot);
        slots.iter().for_each(|slot| cache.hold(*slot));
        assert_eq!(populate(cache, 2, 400), None, "both are held");
        cache.let_go(slots[1]);
        assert_eq!(populate(cache, 2, 400).map(|population| population.copy.slot), Some(slots[1]));
        assert!(cache.peek(page(0)).is_some() && cache.peek(page(1)).is_none());
        cache.discard_fragment(page(0));
        assert_eq!(
            (cache.peek(page(0)), cache.occupancy().mapped),
            (None, 2),
            "held, it stays without pages"
        );
        cache.check().unwrap();
        cache.let_go(slots[0]);
        cache.discard_fragment(page(2));
        assert_eq!((cache.peek(page(2)), cache.occupancy().mapped), (None, 1));
        cache.discard_fragment(page(2));
        cache.check().unwrap();
        assert!(populate(cache, 2, 1).is_some(), "it comes back");
    });
}

#[test]
fn the_pace_falls_with_hits_and_with_free_space() {
    let begun = |config: FragmentConfig, reads| {
        cache(&config, |cache| {
            warm(cache, reads);
            cache.occupancy()
        })
    };
    let large = FragmentConfig::new(256 * 4000, 4000);
    let early = begun(large, 10_000);
    // 16 in a thousand accesses at most; with a tenth of the flash taken and few hits, not much less.
    assert!((100..=160).contains(&early.populations), "{early:?}");
    let full = begun(FragmentConfig::new(256 * 4000, 20), 10_000);
    assert!(full.populations < early.populations / 2, "with no free space: {full:?}");
    let all = begun(FragmentConfig::new(256 * 40, 40), 80_000);
    assert_eq!((all.mapped, all.populations), (40, 40), "all of the volume, each fragment once");
    assert!(all.hit_rate > 0.9, "{all:?}");
}

#[test]
fn equal_events_give_equal_decisions_in_a_region_that_moves() {
    let config = FragmentConfig::new(256 * 100, 10);
    let hash = cache(&config, |cache| {
        warm(cache, 9000);
        cache.decision_hash()
    });
    let mut region = vec![0u64; fragment_region_bytes(&config) / 8];
    Fragments::format(region.as_mut_bytes(), &config).expect("possible");
    for part in 0..9 {
        let mut elsewhere = region.clone();
        let mut moved = Fragments::attach(elsewhere.as_mut_bytes()).expect("it holds a cache");
        assert_eq!(moved.config(), config);
        // `warm` counts from 0: a thousand reads are ten rounds of the volume.
        assert_eq!(part * 1000 % 200, 0);
        warm(&mut moved, 1000);
        region = elsewhere;
    }
    let last = Fragments::attach(region.as_mut_bytes()).expect("it holds a cache").decision_hash();
    assert_eq!(last, hash);
}

#[test]
fn a_fragment_costs_no_more_than_the_papers() {
    let (on_flash, of_the_volume) = FRAGMENT_BYTES;
    // SCE §3.3: 76 bytes for each fragment on flash; figure 4 has a volume of eight times the flash, figure 6
    // more.
    assert_eq!((on_flash, of_the_volume), (40, 8));
    let config = FragmentConfig::new(256 * 4096, 1024);
    assert!(fragment_region_bytes(&config) <= 76 * 1024 + 4 * 256 + 256);
}

#[test]
fn a_small_cache_has_small_fragments_that_are_populated_as_fast() {
    let sized = |flash_pages, page_bytes| {
        let config = FragmentConfig::sized(1 << 20, flash_pages, page_bytes);
        assert!(config.validate().is_ok(), "{config:?}");
        (config.fragment_pages, config.slots, config.pace_permille)
    };
    assert_eq!(sized(64 * 256, 4096), (256, 64, 16), "1 MiB");
    assert_eq!(sized(64 * 256, 16384), (64, 256, 64), "1 MiB of larger pages");
    assert_eq!(sized(64 * 256 - 1, 4096), (128, 127, 32));
    assert_eq!(sized(500, 8192), (4, 125, 1000));
    assert_eq!(sized(3, 4096), (1, 3, 1000));
    assert_eq!(sized(1 << 18, 512).0, 256, "as many pages as the bitmap has bits for");
}

#[test]
fn what_is_not_possible_is_refused() {
    let good = FragmentConfig::new(1000, 2);
    let bad = [
        FragmentConfig { fragment_pages: 0, ..good },
        FragmentConfig { fragment_pages: 257, ..good },
        FragmentConfig { volume_pages: 0, ..good },
        FragmentConfig { slots: 0, ..good },
        FragmentConfig { slots: u32::MAX, ..good },
        FragmentConfig { workers: 0, ..good },
        FragmentConfig { pace_permille: 1001, ..good },
        FragmentConfig { recent: 0, ..good },
    ];
    for config in bad {
        assert!(matches!(config.validate(), Err(FragmentConfigError::Range { .. })), "{config:?}");
    }
    let mut region = vec![0u64; fragment_region_bytes(&good) / 8];
    let not_yet = Fragments::attach(region.as_mut_bytes()).err();
    assert!(matches!(not_yet, Some(FragmentConfigError::Magic { found: 0, .. })), "{not_yet:?}");
    let short = Fragments::format(region[1..].as_mut_bytes(), &good).err();
    assert!(matches!(short, Some(FragmentConfigError::RegionSize { .. })), "{short:?}");
    let crooked = Fragments::attach(&mut region.as_mut_bytes()[1..]).err();
    assert!(matches!(crooked, Some(FragmentConfigError::Alignment)), "{crooked:?}");
}
