//! The answer as it is written to JSON. Field names are part of the command's interface.

use super::avoidable::Avoidable;
use super::judge::{self, HURTS, Judged, PAYS};
use super::question::Goal;
use super::search::{Choice, Halves, Run, Search};
use super::words;
use crate::bench::digest;
use serde::{Deserialize, Serialize};

/// Whether to buy flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recommendation {
    /// Flash, as advised.
    Flash,
    /// DRAM alone.
    NoFlash,
    /// Nothing that was tried is as fast as wanted.
    Unreachable,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Flash is faster for the same money, or cheaper for the same response.
    Pays,
    /// Flash is no better than DRAM alone.
    DoesNotPay,
    /// Flash is slower than DRAM alone for the same money.
    Hurts,
    /// Flash would be worn out too soon.
    WearsOut,
    /// Neither the trace nor the money is large enough for any flash cache.
    TooSmall,
    /// The wanted response is out of reach.
    NotFastEnough,
}

/// How sure the recommendation is: whether both halves of what was measured say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sureness {
    /// Both halves do, with the same margins.
    Sure,
    /// Both halves point there, one by less than the margin.
    Likely,
    /// The halves contradict each other.
    Unsure,
    /// There is nothing to compare, or the trace is too short to be cut in two.
    Unknown,
}

/// One configuration. Responses are means over host requests, microseconds. What cannot be known is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Policy by its name on the command line; `none` is DRAM alone.
    pub policy: String,
    /// What becomes of dirty pages that leave DRAM.
    pub mode: String,
    /// Name of the flash device; empty without flash.
    pub flash_device: String,
    /// DRAM frames.
    pub dram_pages: u64,
    /// Flash slots.
    pub flash_pages: u64,
    /// DRAM in per cent of the trace's pages.
    pub dram_percent: f64,
    /// Flash in per cent of the trace's pages.
    pub flash_percent: f64,
    /// Price of DRAM and flash.
    pub money: f64,
    /// Money that there was: rounding, and DRAM for the flash's directory, is not in `money`.
    pub budget: f64,
    /// Mean response.
    pub mean_response_us: f64,
    /// Of several samples: half the width of the interval that holds it with 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_half_width_us: Option<f64>,
    /// Response that one request in a hundred exceeds.
    pub p99_response_us: f64,
    /// References a second of virtual time.
    pub throughput: f64,
    /// Energy of DRAM and flash during T_v, joules (3LA eq. 8).
    pub energy_j: Option<f64>,
    /// Years until the flash is worn out.
    pub flash_lifetime_years: Option<f64>,
    /// DRAM hits of all references.
    pub dram_hit_rate: f64,
    /// Flash hits of DRAM's misses.
    pub flash_hit_rate: f64,
    /// Pages read from disk.
    pub disk_reads: u64,
    /// Pages written to disk.
    pub disk_writes: u64,
    /// How many times as fast as DRAM alone for the same money.
    pub gain: Option<f64>,
    /// The same in the first and second half of what was measured; `null` where that was not looked at.
    pub gain_in_halves: Option<[f64; 2]>,
    /// Mean responses there.
    pub response_in_halves_us: Option<[f64; 2]>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Name of the trace.
    pub trace: String,
    /// Pages that it names.
    pub trace_pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of the database, where it is larger than the trace's pages: pages, money and energy of
    /// configurations are scaled to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<f64>,
    /// How many times as large as the trace's pages it is.
    pub scale: f64,
    /// Share of the pages that was replayed, and how often; absent for a whole trace. Then all figures are
    /// estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<(f64, u32)>,
    /// References measured.
    pub references: u64,
    /// Name of the memory.
    pub memory: String,
    /// Name of the disk device.
    pub disk_device: String,
    /// Currency of all prices.
    pub currency: String,
    /// `budget`, `target-latency` or `knee`.
    pub goal: String,
    /// The budget; `null` for other goals.
    pub budget: Option<f64>,
    /// The mean response that is fast enough, microseconds; `null` with a budget.
    pub target_us: Option<f64>,
    /// Mean response of DRAM for all pages, microseconds: first reads come from disk whatever is bought. What
    /// is beyond it is weighed.
    pub compulsory_us: f64,
    /// Whether to buy flash.
    pub verdict: Recommendation,
    /// Why.
    pub reason: Reason,
    /// How sure.
    pub sureness: Sureness,
    /// All of that in words: what to buy, what that saves, how long it lasts.
    pub sentence: String,
    /// What it rests on, a sentence each.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// What else is to be known before buying, a sentence each.
    pub warnings: Vec<String>,
    /// What is advised, then the best of each policy and mode; DRAM alone is among them.
    pub best: Vec<Candidate>,
    /// Everything that was tried, in that order.
    pub tried: Vec<Candidate>,
    /// Hash of all of the above, in hexadecimal: depends on trace and question alone.
    pub digest: String,
}

/// Puts the answer together.
pub(super) fn assemble(search: &Search<'_>, judged: &Judged, halves: &[Halves]) -> Advice {
    let find = |choice: &Choice| search.runs.iter().find(|run| run.choice == *choice);
    let show = |run: &Run| candidate(search, run, halves);
    let question = search.question;
    let pair = judged.pair.as_ref().and_then(|choice| avoidable_gains(search, choice, halves));
    let mut advice = Advice {
        trace: search.trace.name().to_owned(),
        trace_pages: search.trace.pages(),
        page_bytes: search.trace.page_bytes(),
        database_bytes: question.database_bytes,
        scale: search.scale,
        sample: search.trace.drawn(),
        references: search.runs.first().map_or(0, |run| run.result.references),
        memory: question.base.memory.name.clone(),
        disk_device: question.base.disk_device.name.clone(),
        currency: question.base.memory.currency.clone(),
        goal: match question.goal {
            Goal::Budget(_) => "budget",
            Goal::Response(_) => "target-latency",
            Goal::Knee => "knee",
        }
        .into(),
        budget: match question.goal {
            Goal::Budget(money) => Some(money),
            _ => None,
        },
        target_us: judged.target_us,
        compulsory_us: search.avoidable.compulsory_us,
        verdict: judged.verdict,
        reason: judged.reason,
        sureness: sureness(judged.verdict, pair),
        sentence: String::new(),
        reasons: Vec::new(),
        warnings: Vec::new(),
        best: judged.best.iter().filter_map(find).map(show).collect(),
        tried: search.runs.iter().map(show).collect(),
        digest: String::new(),
    };
    let shown = |choice: &Option<Choice>| choice.as_ref().and_then(find).map(show);
    let topics = words::Topics {
        advised: shown(&judged.advised),
        pair: shown(&judged.pair),
        alone: shown(&judged.alone),
        years_min: question.years_min,
    };
    advice.sentence = words::sentence(&advice, &topics);
    advice.reasons = words::reasons(&advice, &topics);
    advice.warnings = words::warnings(&advice, &topics);
    advice.digest = digest::of(&advice, 0);
    advice
}

fn of(choice: &Choice, halves: &[Halves]) -> Option<[f64; 2]> {
    halves.iter().find(|half| half.choice == *choice).map(|half| half.responses_us)
}

/// How many times as fast as DRAM alone for the same money, in each half.
fn gains(choice: &Choice, halves: &[Halves]) -> Option<[f64; 2]> {
    let alone = halves.iter().find(|half| half.choice.flash_layer.is_none() && half.choice.b == choice.b)?;
    let ours = of(choice, halves)?;
    Some([alone.responses_us[0] / ours[0], alone.responses_us[1] / ours[1]])
}

/// The same of what is avoidable there.
fn avoidable_gains(search: &Search<'_>, choice: &Choice, halves: &[Halves]) -> Option<[f64; 2]> {
    let (alone, ours) = (of(&search.alone(choice.b), halves)?, of(choice, halves)?);
    let compulsory = of(&search.everything(), halves)?;
    let gain = |half: usize| {
        let avoidable = Avoidable { compulsory_us: compulsory[half], ..search.avoidable };
        avoidable.weight(alone[half]) / avoidable.weight(ours[half])
    };
    Some([gain(0), gain(1)])
}

fn sureness(verdict: Recommendation, gains: Option<[f64; 2]>) -> Sureness {
    let Some(gains) = gains else { return Sureness::Unknown };
    let all = |fits: fn(f64) -> bool| gains.into_iter().all(fits);
    let (sure, likely) = match verdict {
        Recommendation::Flash => (all(|gain| gain >= PAYS), all(|gain| gain >= HURTS)),
        Recommendation::NoFlash => (all(|gain| gain < PAYS), gains.iter().product::<f64>() < PAYS * PAYS),
        Recommendation::Unreachable => return Sureness::Unknown,
    };
    match (sure, likely) {
        (true, _) => Sureness::Sure,
        (_, true) => Sureness::Likely,
        _ => Sureness::Unsure,
    }
}

fn candidate(search: &Search<'_>, run: &Run, halves: &[Halves]) -> Candidate {
    let result = &run.result;
    let scaled = |pages: u32| (f64::from(pages) * search.scale).round() as u64;
    Candidate {
        policy: result.policy.clone(),
        mode: if run.has_flash() { result.mode.clone() } else { String::new() },
        flash_device: result.flash_device.clone(),
        dram_pages: scaled(result.dram_pages),
        flash_pages: scaled(result.flash_pages),
        dram_percent: result.dram_percent,
        flash_percent: result.flash_percent,
        money: run.money * search.scale,
        budget: run.choice.b * search.market.dram_page * search.scale,
        mean_response_us: result.mean_response_us,
        response_half_width_us: result.half_widths().map(|half| half.mean_response_us),
        p99_response_us: result.p99_response_us,
        throughput: result.throughput,
        energy_j: result.energy_j.map(|joules| joules * search.scale),
        flash_lifetime_years: result.flash_lifetime_years,
        dram_hit_rate: result.dram_hit_rate,
        flash_hit_rate: result.flash_hit_rate,
        disk_reads: result.disk_reads,
        disk_writes: result.disk_writes,
        gain: judge::gain(&search.runs, run),
        gain_in_halves: gains(&run.choice, halves),
        response_in_halves_us: of(&run.choice, halves),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_must_say_the_same_to_be_sure() {
        let of = |verdict, gains| sureness(verdict, Some(gains));
        assert_eq!(of(Recommendation::Flash, [1.5, 1.06]), Sureness::Sure);
        assert_eq!(of(Recommendation::Flash, [1.5, 1.0]), Sureness::Likely);
        assert_eq!(of(Recommendation::Flash, [1.5, 0.8]), Sureness::Unsure);
        assert_eq!(of(Recommendation::NoFlash, [0.5, 1.0]), Sureness::Sure);
        assert_eq!(of(Recommendation::NoFlash, [0.9, 1.1]), Sureness::Likely);
        assert_eq!(of(Recommendation::NoFlash, [0.9, 2.0]), Sureness::Unsure);
        assert_eq!(sureness(Recommendation::Flash, None), Sureness::Unknown);
    }
}
