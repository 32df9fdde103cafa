//! The hunt for one mutant: trials with the same judges as for the sound program, until one of them finds a
//! defect.
//!
//! The [`Aim`] gives the trial and the caches that suit the mutant: for example a quick torture of random
//! caches ([`crate::torture()`]), a campaign of crashes of a store ([`Campaign`]) whose shape changes from
//! round to round, or crashes while a store is created ([`Birth`]). Now and then all trials are run.

use super::{Aim, alive};
use crate::birth::Birth;
use crate::leftovers::Leftovers;
use crate::raw::{self, Examined};
use crate::torture::{
    DamagedFlash, Detached, Effort, Exchanged, FlashDies, Found, Killed, Scarce, SickMedia, Tally, Target,
    TortureOptions, torture,
};
use crate::{Bank, Campaign, Subject};
use entresol_core::{Mode, Placement, PolicyKind, System};
use entresol_runtime::rng::Rng;
use entresol_store::MIN_FRAMES;
use std::fmt;
use std::time::{Duration, Instant};

/// The result of a hunt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunt {
    /// The mutant that was alive; `None`: the sound program was run.
    pub mutant: Option<String>,
    /// The number of times that the mutant's code was reached.
    pub met: u64,
    /// Number of crash states that were checked.
    pub states: u64,
    /// The failure that revealed the mutant; `None`: it survived.
    pub evidence: Option<String>,
}

/// The end of a hunt that finds no defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The hunt ends after the trial in which the number of checked states reaches this.
    pub states: u64,
    /// The hunt ends after the trial in which its time exceeds this.
    pub time: Duration,
}

/// Hunts for the mutant that is alive in this process, if one is: runs trials from `seed` on until a defect
/// is found or the limit is reached.
pub fn hunt(aim: &Aim, seed: u64, limit: Limit) -> Hunt {
    Hunt { mutant: alive::chosen(), ..Hunt::default() }.pursue(aim, seed, limit)
}

/// Systems whose flash has newer versions than the disk.
const LOGS: [Subject; 3] = [
    Subject::cached(PolicyKind::FaceGsc),
    Subject::cached(PolicyKind::FaceGr),
    Subject::cached(PolicyKind::Face),
];

/// One of this many rounds tries all aims.
const ALL_ONE_OF: u64 = 8;
const EVERYTHING: [&str; 13] = [
    "caches all",
    "store face-gsc,disk-only,lc",
    "restarts",
    "late-restarts face,face-gr",
    "leftovers",
    "damaged-flash",
    "kills",
    "birth",
    "detached",
    "exchanged",
    "media",
    "full-disk",
    "crowd",
];

fn may_do_without_images(systems: &[Subject]) -> bool {
    systems.iter().all(|system| match *system {
        Subject { system: System::Cached(policy), mode: Mode::WriteBack, keeps_slots: false, .. } => {
            policy.placement() == Placement::Log && !policy.keeps_out()
        }
        _ => false,
    })
}

/// A store for a chapter of the torture.
#[derive(Clone, Copy)]
struct Chapter {
    system: Subject,
    bank: Bank,
    seed: u64,
}

impl Chapter {
    fn scarce(self) -> Scarce {
        let Self { system, bank, seed } = self;
        Scarce { system, bank, seed, transactions: 8 }
    }
}

/// States of each torture.
const STATES: u64 = 3000;
/// Caches of raw pages of each policy in a round.
const RAW_CACHES: usize = 40;
/// Caches of raw pages that are written page by page, of each policy in a round.
const PAGE_BY_PAGE_CACHES: usize = 20;
/// Stores of each system in a round of killed programs. A trial of one is short.
const KILLED_STORES: usize = 40;

impl Hunt {
    fn pursue(mut self, aim: &Aim, seed: u64, limit: Limit) -> Self {
        let started = Instant::now();
        let everything: Vec<Aim> = EVERYTHING.iter().map(|aim| aim.parse().expect("a known aim")).collect();
        for round in 0.. {
            // Now and then all aims are tried: the aim of the mutant may be wrong.
            let is_all = round % ALL_ONE_OF == ALL_ONE_OF - 1;
            for aim in if is_all { &everything[..] } else { std::slice::from_ref(aim) } {
                self.try_once(aim, seed, round);
                self.met = alive::met();
                let is_over = self.states >= limit.states || started.elapsed() >= limit.time;
                if self.evidence.is_some() || is_over {
                    return self;
                }
            }
        }
        self
    }

    fn try_once(&mut self, aim: &Aim, seed: u64, round: u64) {
        match aim {
            Aim::Caches(names) => self.torture_caches(names, Effort::QUICK, seed + round),
            Aim::Lives(names) => self.torture_caches(names, Effort::LIVES, seed + round),
            Aim::LostWrites(names) => self.torture_caches(names, Effort::LOST_WRITES, seed + round),
            Aim::Unreadable(names) => self.torture_caches(names, Effort::UNREADABLE, seed + round),
            Aim::Damage(names) => self.torture_caches(names, Effort::DAMAGE, seed + round),
            Aim::Store(systems) => self.crash_a_store(systems, seed, round),
            Aim::SlowLog(systems) => self.crash_with_a_slow_log(systems, seed, round),
            Aim::Restarts => self.crash_restarts(seed, round),
            Aim::LateRestarts(systems) => self.crash_late(systems, seed, round),
            Aim::Leftovers => self.go_over_leftovers(seed, round),
            Aim::DamagedFlash => self.damage_flash(seed, round),
            Aim::Kills => self.kill_programs(seed, round),
            Aim::Birth => self.make_a_store(seed, round),
            Aim::Detached => self.chapter(seed, round, &LOGS, |store, tally| {
                let Chapter { system, bank, seed } = store;
                let damaged =
                    DamagedFlash { system, bank, seed, transactions: 24, kinds: DamagedFlash::BITS };
                Detached { damaged }.run(tally)
            }),
            Aim::Exchanged => self.chapter(seed, round, &Subject::DRAWN, |store, tally| {
                let Chapter { system, bank, seed } = store;
                Exchanged { system, bank, seed, transactions: 8 }.run(tally)
            }),
            Aim::Media => self.chapter(seed, round, &[Subject::DISK_ONLY, LOGS[0]], |store, tally| {
                let Chapter { system, bank, seed } = store;
                SickMedia { system, bank, seed, transactions: 24 }.run(tally)
            }),
            Aim::FullDisk => self.chapter(seed, round, &[Subject::DISK_ONLY, LOGS[0]], |store, tally| {
                store.scarce().small_disk(tally)
            }),
            Aim::Crowd => {
                self.chapter(seed, round, &[Subject::DISK_ONLY], |store, tally| store.scarce().crowd(tally))
            }
            Aim::FlashDies(systems) => self.chapter(seed, round, systems, |store, tally| {
                let Chapter { system, bank, seed } = store;
                // The log wraps in every other life.
                FlashDies { system, bank, seed, transactions: [40, 400][seed as usize % 2] }.run(tally)
            }),
            Aim::Raw(kind) => self.flush_and_forget(*kind, seed, round),
            Aim::PageByPage => self.write_page_by_page(seed, round),
            Aim::Tables => {
                self.chapter(seed, round, &[Subject::DISK_ONLY], |store, tally| store.scarce().tables(tally))
            }
        }
    }

    /// Runs a chapter of the torture of stores on each of `systems`.
    fn chapter(
        &mut self,
        seed: u64,
        round: u64,
        systems: &[Subject],
        run: impl Fn(Chapter, &mut Tally) -> Result<(), Found>,
    ) {
        let mut rng = Rng::new(seed ^ round << 39);
        for system in systems {
            let sectors = [(512, 512), (4096, 4096), (512, 4096)][rng.below(3) as usize];
            let (clients, long) = (1 + rng.below(6) as u32, [0, 3][rng.below(2) as usize]);
            let bank = Bank { clients, long, sectors, frames: MIN_FRAMES, ..Bank::default() };
            let mut tally = Tally::default();
            let found = run(Chapter { system: *system, bank, seed: rng.next_u64() }, &mut tally).err();
            self.states += tally.states();
            self.evidence = found.map(|found| format!("{system}: {}", found.message));
            if self.evidence.is_some() {
                return;
            }
        }
    }

    fn flush_and_forget(&mut self, kind: raw::Kind, seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 39);
        for cache in raw::order::CACHES.into_iter().filter(|_| kind == raw::Kind::Raw) {
            let seed = rng.next_u64();
            let both = raw::order::run(cache, seed).and_then(|()| raw::order::writers(cache, seed));
            self.evidence = both.err();
            if self.evidence.is_some() {
                return;
            }
        }
        for cache in raw::wanted::CACHES.into_iter().filter(|_| kind == raw::Kind::Raw) {
            self.evidence = raw::wanted::run(cache, rng.next_u64()).err();
            if self.evidence.is_some() {
                return;
            }
        }
        let caches = raw::CACHES.repeat(RAW_CACHES);
        for cache in caches.into_iter().filter(|cache| cache.is_of(kind)) {
            // Half of the time each: some are noticed only after several lives, others only at rare moments.
            let examined = if rng.below(16) == 0 { Examined::Moments } else { Examined::Ends };
            self.live(cache, rng.next_u64(), examined);
            if self.evidence.is_some() {
                return;
            }
        }
    }

    fn write_page_by_page(&mut self, seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 40);
        let is_it =
            |cache: &raw::Cache| cache.policy == Some(PolicyKind::Face) && cache.is_of(raw::Kind::Raw);
        for cache in raw::CACHES.repeat(PAGE_BY_PAGE_CACHES).into_iter().filter(is_it) {
            self.live(cache, rng.next_u64(), Examined::Moments);
            if self.evidence.is_some() {
                return;
            }
        }
    }

    fn live(&mut self, cache: raw::Cache, seed: u64, examined: Examined) {
        match raw::lives(cache, seed, examined) {
            Ok(lives) => self.states += lives.states,
            Err(found) => self.evidence = Some(found),
        }
    }

    fn torture_caches(&mut self, names: &[String], effort: Effort, seed: u64) {
        let options = TortureOptions {
            targets: names.iter().flat_map(|name| Target::named(name)).collect(),
            effort,
            stores: false,
            threads: 1,
            shrink: false,
            ..TortureOptions::new(seed, STATES)
        };
        let report = torture(&options, &|_| ());
        self.states += report.tally.states();
        self.evidence = report.violations.first().map(|violation| violation.to_string());
    }

    fn crash_a_store(&mut self, systems: &[Subject], seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 32);
        let slow = [Some("log"), None, Some("flash"), Some("disk")][(round + round / 6) as usize % 4];
        let bank = Bank {
            clients: 2 + 2 * rng.below(4) as u32,
            long: [0, 6][round as usize % 2],
            // A cache that destages through a log of its own on flash works without images. Without them
            // fewer errors are masked.
            full_page_writes: !round.is_multiple_of(3) || !may_do_without_images(systems),
            ..Bank::default()
        };
        let campaign = Campaign {
            stride: 12,
            again: 2,
            slow,
            threads: 1,
            ..Campaign::new(systems[round as usize % systems.len()], rng.next_u64(), 24)
        };
        self.campaign(&campaign, &bank);
    }

    fn crash_with_a_slow_log(&mut self, systems: &[Subject], seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 35);
        let bank = Bank { clients: 4 + 2 * rng.below(3) as u32, ..Bank::default() };
        let system = systems[round as usize % systems.len()];
        let campaign = Campaign {
            stride: 6,
            again: 0,
            slow: Some("log"),
            threads: 1,
            ..Campaign::new(system, rng.next_u64(), 24)
        };
        self.campaign(&campaign, &bank);
    }

    /// Long transactions cause long writes of the log, of which parts survive.
    fn crash_restarts(&mut self, seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 33);
        let bank = Bank { clients: 4 + rng.below(8) as u32, long: 3, ..Bank::default() };
        let campaign = Campaign {
            stride: 5,
            again: 1,
            busy: true,
            slow: [Some("log"), None][round as usize % 2],
            threads: 1,
            ..Campaign::new(Subject::DISK_ONLY, rng.next_u64(), 12)
        };
        self.campaign(&campaign, &bank);
    }

    /// Long lives with few crashes, and restarts with less DRAM, so redo evicts pages.
    fn crash_late(&mut self, systems: &[Subject], seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 34);
        let bank = Bank { clients: 2, accounts: 1200, long: 2, frames: 192, ..Bank::default() };
        let system = systems[round as usize % systems.len()];
        let campaign =
            Campaign { stride: 61, again: 1, threads: 1, ..Campaign::new(system, rng.next_u64(), 60) };
        self.restart_campaign(&campaign, &bank, &Bank { frames: MIN_FRAMES, ..bank });
    }

    /// Stores without full-page images: their records are short, so one flush has many of them.
    fn go_over_leftovers(&mut self, seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 36);
        let bank = Leftovers::bank(&Bank { full_page_writes: false, ..Bank::default() });
        let system = LOGS[round as usize % LOGS.len()];
        match (Leftovers { system, seed: rng.next_u64(), transactions: 12 }).run(&bank) {
            Ok(states) => self.states += states,
            Err(why) => self.evidence = Some(format!("leftovers in the log on {system}: {why}")),
        }
    }

    fn damage_flash(&mut self, seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 37);
        let accounts = 200 + rng.below(300) as u32;
        let bank = Bank { clients: 1 + rng.below(4) as u32, accounts, frames: MIN_FRAMES, ..Bank::default() };
        let system = LOGS[round as usize % LOGS.len()];
        let mut tally = Tally::default();
        let (seed, kinds) = (rng.next_u64(), DamagedFlash::BITS);
        let damaged = DamagedFlash { system, bank, seed, transactions: 24, kinds };
        self.evidence = damaged.run(&mut tally).err().map(|found| format!("{system}: {}", found.message));
        self.states += tally.states();
    }

    fn kill_programs(&mut self, seed: u64, round: u64) {
        let mut rng = Rng::new(seed ^ round << 38);
        for system in LOGS.repeat(KILLED_STORES) {
            let bank = Bank { clients: 1 + rng.below(8) as u32, frames: MIN_FRAMES, ..Bank::default() };
            let killed = Killed { system, bank, seed: rng.next_u64(), transactions: 8 };
            let mut tally = Tally::default();
            let found = killed.run(&mut tally).err();
            self.states += tally.states();
            self.evidence = found.map(|found| format!("{system}: {}", found.message));
            if self.evidence.is_some() {
                return;
            }
        }
    }

    fn campaign(&mut self, campaign: &Campaign, bank: &Bank) {
        self.restart_campaign(campaign, bank, bank);
    }

    fn restart_campaign(&mut self, campaign: &Campaign, bank: &Bank, restarted: &Bank) {
        let report = campaign.run_and_restart(bank, restarted);
        self.states += report.crashes + report.crashes_again;
        let told = |failure| format!("with a slow {:?}: {failure}", campaign.slow);
        self.evidence = report.failures.first().map(told);
    }

    fn make_a_store(&mut self, seed: u64, round: u64) {
        let system = Subject::DRAWN[round as usize % Subject::DRAWN.len()];
        let bank = Bank::default();
        let mut crash = || -> Result<(), String> {
            let birth = Birth::new(&bank, system, seed + round)?;
            // A few rounds together cover every operation.
            for at in (1 + round % 8..=birth.operations()).step_by(8) {
                self.states += 1;
                birth.crash_at(at).map_err(|why| format!("power failed at operation {at}: {why}"))?;
            }
            Ok(())
        };
        self.evidence = crash().err().map(|why| format!("making a store on {system}: {why}"));
    }
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.mutant.as_deref().unwrap_or("(none)");
        write!(f, "{name}: {} crash states, met {} times: ", self.states, self.met)?;
        match &self.evidence {
            Some(evidence) => write!(f, "{evidence}"),
            None => f.write_str("nothing was noticed"),
        }
    }
}
