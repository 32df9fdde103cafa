//! Which configurations are replayed: coarse first, then around the best.
//!
//! Invariant: every configuration is replayed once; each is compared with DRAM alone for the same money.

use super::avoidable::Avoidable;
use super::judge::{self, Judged};
use super::question::{AdviceError, Goal, Question};
use super::split::Market;
use crate::cost::Layers;
use crate::replay::{Progress, RunConfig, SimulationResult, Workload, simulate};
use entresol_core::{Cache, Mode};

/// Money that is tried where none is given, as DRAM in per cent of the trace's pages.
const LADDER_PERCENTS: [f64; 8] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Steps between two rungs of the ladder, to find the cheapest.
const STEPS: [f64; 2] = [0.63, 0.79];
/// Policies that are tried at every size: one with its pages in a log and one with its pages in place. They
/// differ where flash has nearly all pages, where the cheapest often is: a log holds old versions
/// as well.
const PROBES: usize = 2;
/// Splits at which all policies are tried.
const SPLITS_KEPT: usize = 2;
/// Policies of which all modes are tried.
const MODES_OF: usize = 2;
/// How many of the best are looked at closer and shown.
pub(super) const BEST: usize = 5;

/// A configuration to be tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub flash_layer: Option<Cache>,
    pub mode: Mode,
    /// Index of the flash device in the question.
    pub device: usize,
    pub layers: Layers,
    /// The money, in pages of DRAM.
    pub b: f64,
}

/// A configuration that was tried.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub choice: Choice,
    pub money: f64,
    pub result: SimulationResult,
}

impl Run {
    pub fn has_flash(&self) -> bool {
        self.choice.flash_layer.is_some()
    }
    pub fn response_us(&self) -> f64 {
        self.result.mean_response_us
    }
}

/// Mean responses of a configuration in the first and second half of what is measured, microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halves {
    pub choice: Choice,
    pub responses_us: [f64; 2],
}

/// A search under way.
pub(super) struct Search<'a> {
    pub trace: Workload<'a>,
    pub question: &'a Question,
    pub market: Market,
    /// How many times as large as the trace's pages the database is.
    pub scale: f64,
    pub runs: Vec<Run>,
    /// Takes first reads out of responses; known once the search is under way.
    pub avoidable: Avoidable,
    progress: Progress<'a>,
    /// Which stage is under way, of [`STAGES`].
    stage: usize,
}

/// Stages of a search, for the bar that shows how far it is.
const STAGES: usize = 6;

impl<'a> Search<'a> {
    pub fn new(
        trace: Workload<'a>,
        question: &'a Question,
        progress: Progress<'a>,
    ) -> Result<Self, AdviceError> {
        question.check(trace.footprint_bytes())?;
        let scale = question.scale(trace.footprint_bytes());
        let market = Market::of(trace, question);
        if let Goal::Budget(money) = question.goal {
            let least = market.dram_min() * market.dram_page;
            if money < least * scale {
                return Err(AdviceError::Budget {
                    found: money,
                    currency: question.base.memory.currency.clone(),
                    least: least * scale,
                    all: market.pages * market.dram_page * scale,
                });
            }
        }
        let avoidable = Avoidable { compulsory_us: 0.0, hit_us: question.base.hit_ns as f64 / 1e3 };
        let search = Self { trace, question, market, scale, runs: Vec::new(), avoidable, progress, stage: 0 };
        trace.validate(&search.config(&search.alone(search.budgets()[0])))?;
        Ok(search)
    }

    /// Replays what may be best.
    pub fn explore(&mut self) -> anyhow::Result<()> {
        let everything = self.config(&self.everything());
        self.avoidable.compulsory_us = self.simulate(&[everything])?[0].mean_response_us;
        let budgets = self.budgets();
        let mut choices = Vec::new();
        for b in &budgets {
            choices.push(self.alone(*b));
            for cache in self.question.caches.iter().take(PROBES) {
                choices.extend(self.splits(*b, *cache));
            }
        }
        self.run(choices)?;
        self.run(self.other_policies())?;
        self.run(self.other_modes())?;
        self.run(self.between(&budgets))
    }

    /// Money to be tried, in pages of DRAM.
    fn budgets(&self) -> Vec<f64> {
        let least = self.market.dram_min();
        match self.question.goal {
            Goal::Budget(money) => vec![money / self.scale / self.market.dram_page],
            Goal::Response(_) | Goal::Knee => {
                let mut budgets: Vec<f64> =
                    LADDER_PERCENTS.iter().map(|p| (self.market.pages * p / 100.0).max(least)).collect();
                budgets.dedup();
                budgets
            }
        }
    }

    /// DRAM alone for the money of `b` pages.
    pub fn alone(&self, b: f64) -> Choice {
        let layers = self.market.dram_alone(b);
        Choice { flash_layer: None, mode: Mode::WriteBack, device: 0, layers, b }
    }

    /// DRAM for all pages: only first reads come from disk.
    pub fn everything(&self) -> Choice {
        self.alone(self.market.pages)
    }

    fn splits(&self, b: f64, cache: Cache) -> Vec<Choice> {
        let on = |device: usize| {
            let spec = &self.question.flash_devices[device];
            let choice =
                move |layers| Choice { flash_layer: Some(cache), mode: Mode::WriteBack, device, layers, b };
            self.market.splits(b, cache, spec).into_iter().map(choice)
        };
        let all = (0..self.question.flash_devices.len()).flat_map(on);
        all.filter_map(|choice| self.modes(&choice).into_iter().next()).collect()
    }

    /// The choice in every mode that works, the usual one first. A cache that is only read is no choice:
    /// nothing enters it.
    fn modes(&self, choice: &Choice) -> Vec<Choice> {
        let modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::ReadOnly);
        let with = modes.map(|mode| Choice { mode, ..*choice });
        with.filter(|choice| self.trace.validate(&self.config(choice)).is_ok()).collect()
    }

    /// The same money and flash under another policy.
    fn with(&self, choice: &Choice, cache: Cache) -> Option<Choice> {
        let device = &self.question.flash_devices[choice.device];
        let layers = self.market.beside(choice.b, choice.layers.flash_pages, cache, device)?;
        self.modes(&Choice { flash_layer: Some(cache), layers, ..*choice }).into_iter().next()
    }

    /// The best splits with flash so far, each once.
    fn best_splits(&self) -> Vec<Choice> {
        let mut kept: Vec<Choice> = Vec::new();
        for run in
            judge::ranked(&self.runs, self.question, self.avoidable).into_iter().filter(|run| run.has_flash())
        {
            let choice = run.choice;
            let same = |other: &Choice| {
                (other.b, other.layers.flash_pages, other.device)
                    == (choice.b, choice.layers.flash_pages, choice.device)
            };
            if !kept.iter().any(same) {
                kept.push(choice);
            }
            if kept.len() == SPLITS_KEPT {
                break;
            }
        }
        kept
    }

    /// The best splits under every policy.
    fn other_policies(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for choice in self.best_splits() {
            choices.extend(self.question.caches.iter().filter_map(|cache| self.with(&choice, *cache)));
        }
        choices
    }

    fn other_modes(&self) -> Vec<Choice> {
        let ranked = judge::ranked(&self.runs, self.question, self.avoidable);
        let best: Vec<&Choice> =
            ranked.into_iter().filter(|run| run.has_flash()).map(|run| &run.choice).collect();
        let mut policies: Vec<Option<Cache>> = Vec::new();
        let mut choices = Vec::new();
        for choice in best {
            if !policies.contains(&choice.flash_layer) && policies.len() < MODES_OF {
                policies.push(choice.flash_layer);
                choices.extend(self.modes(choice));
            }
        }
        choices
    }

    /// Where money is free: a little less than the best of both kinds cost.
    fn between(&self, budgets: &[f64]) -> Vec<Choice> {
        if budgets.len() == 1 {
            return Vec::new();
        }
        let ranked = judge::ranked(&self.runs, self.question, self.avoidable);
        let flash = ranked.iter().find(|run| run.has_flash());
        let alone = ranked.iter().find(|run| !run.has_flash());
        let mut choices = Vec::new();
        for (run, step) in flash.into_iter().chain(alone).flat_map(|run| STEPS.map(|step| (run, step))) {
            let b = (run.choice.b * step).max(self.market.dram_min());
            choices.push(self.alone(b));
            if let Some(cache) = run.choice.flash_layer {
                choices.extend(self.splits(b, cache));
            }
        }
        choices
    }

    fn config(&self, choice: &Choice) -> RunConfig {
        RunConfig {
            flash_layer: choice.flash_layer,
            mode: choice.mode,
            dram_pages: choice.layers.dram_pages,
            flash_pages: choice.layers.flash_pages,
            flash_device: self.question.flash_devices[choice.device].clone(),
            ..self.question.base.clone()
        }
    }

    /// Replays what was not replayed yet. What is not possible (a cache too small for its policy) is left
    /// out.
    fn run(&mut self, choices: Vec<Choice>) -> anyhow::Result<()> {
        let mut new: Vec<Choice> = Vec::new();
        for choice in choices {
            let known = self.runs.iter().any(|run| run.choice == choice) || new.contains(&choice);
            if !known && self.trace.validate(&self.config(&choice)).is_ok() {
                new.push(choice);
            }
        }
        let configs: Vec<RunConfig> = new.iter().map(|choice| self.config(choice)).collect();
        let results = self.simulate(&configs)?;
        for (choice, mut result) in new.into_iter().zip(results) {
            let device = &self.question.flash_devices[choice.device];
            let devices = self.devices(&result, device.capacity_gb);
            result.flash_lifetime_years = result.flash_lifetime_years.map(|years| years * devices);
            let money = self.market.money(choice.layers, device);
            self.runs.push(Run { choice, money, result });
        }
        Ok(())
    }

    /// Devices of `capacity_gb` that the database's flash takes: the trace's writes are spread over them.
    fn devices(&self, result: &SimulationResult, capacity_gb: f64) -> f64 {
        let gigabytes = f64::from(result.flash_pages) * f64::from(result.page_bytes) * self.scale / 1e9;
        (gigabytes / capacity_gb).ceil().max(1.0)
    }

    /// Replays one stage and tells how far it is.
    fn simulate(&mut self, configs: &[RunConfig]) -> anyhow::Result<Vec<SimulationResult>> {
        let (stage, count, progress) = (self.stage, configs.len().max(1), self.progress);
        let done = |run: usize, share: f64| {
            progress(0, (stage as f64 + (run as f64 + share) / count as f64) / STAGES as f64);
        };
        self.stage += 1;
        simulate(self.trace, configs, &done)
    }

    /// The best few and DRAM alone for the same money, in both halves of what is measured. The second half
    /// goes on where the first ends.
    pub fn halves(&mut self, judged: &Judged) -> anyhow::Result<Vec<Halves>> {
        let (from, end) = (self.question.base.measure_from, self.question.base.records.end);
        let middle = from + (end - from) / 2;
        let mut choices: Vec<Choice> = vec![self.everything()];
        for choice in judged.best.iter().chain(&judged.pair) {
            for choice in [*choice, self.alone(choice.b)] {
                if !choices.contains(&choice) {
                    choices.push(choice);
                }
            }
        }
        let of = |choice: &Choice| {
            let config = self.config(choice);
            let first = RunConfig { records: config.records.start..middle, ..config.clone() };
            [first, RunConfig { measure_from: middle, ..config }]
        };
        let configs: Vec<RunConfig> = choices.iter().flat_map(of).collect();
        // A half may be without references: the trace is too short to be cut.
        if configs.iter().any(|config| self.trace.validate(config).is_err()) {
            return Ok(Vec::new());
        }
        let results = self.simulate(&configs)?;
        let halves = |(choice, pair): (&Choice, &[SimulationResult])| Halves {
            choice: *choice,
            responses_us: [pair[0].mean_response_us, pair[1].mean_response_us],
        };
        Ok(choices.iter().zip(results.chunks(2)).map(halves).collect())
    }
}
