//! The answer in a sentence, and what else is to be known before buying.

use super::advice::{Advice, Candidate, Reason, Recommendation, Sureness};
use crate::report::{amount, size_of, time_of, whole};

/// A flash device that lasts less is worth a warning.
const YEARS_SHORT: f64 = 5.0;
/// DRAM alone whose hit rate is so high has hardly anything for flash to do.
const HITS_HIGH: f64 = 0.995;

/// First reads that are less of the response, in per cent, are not worth a word.
const FIRST_READS_PERCENT: f64 = 5.0;

/// What is spoken of.
pub(super) struct Topics {
    pub advised: Option<Candidate>,
    /// Flash that is compared with DRAM alone for the same money.
    pub pair: Option<Candidate>,
    pub alone: Option<Candidate>,
    pub years_min: f64,
}

/// The recommendation in three sentences at most: what to buy, what that saves, how long it lasts.
pub(super) fn sentence(advice: &Advice, topics: &Topics) -> String {
    match (advice.verdict, &topics.advised) {
        (_, None) => "Nothing could be tried.".into(),
        (Recommendation::Flash, Some(flash)) => {
            let alone = flash.gain.map_or(String::new(), |gain| {
                format!(", and DRAM alone for the same money in {}", time_of(flash.mean_response_us * gain))
            });
            format!("Buy flash: {}{alone}.{}", described(advice, flash), lasts(flash))
        }
        (Recommendation::Unreachable, Some(nearest)) => format!(
            "Out of reach: nothing that was tried answers in {} on average. The nearest is {}.",
            time_of(advice.target_us.unwrap_or(f64::NAN)),
            described(advice, nearest)
        ),
        (Recommendation::NoFlash, Some(alone)) => {
            format!("No flash: {}. {}", described(advice, alone), why_not(advice, alone, topics))
        }
    }
}

/// How long the flash lasts.
fn lasts(flash: &Candidate) -> String {
    let years = flash.flash_lifetime_years.filter(|years| years.is_finite());
    years.map_or(String::new(), |years| format!(" At this pace the flash lasts {years:.1} years."))
}

/// What the recommendation rests on, a sentence each.
pub(super) fn reasons(advice: &Advice, topics: &Topics) -> Vec<String> {
    let mut reasons = Vec::new();
    if advice.verdict == Recommendation::Flash {
        reasons.extend(as_fast(advice, topics));
    }
    if advice.verdict != Recommendation::Unreachable {
        reasons.extend(sure(advice.sureness).map(str::to_owned));
    }
    reasons.extend(compulsory(advice, topics));
    reasons
}

/// How much of the response nothing could avoid.
fn compulsory(advice: &Advice, topics: &Topics) -> Option<String> {
    let response = topics.advised.as_ref()?.mean_response_us;
    let share = (advice.compulsory_us / response).min(1.0) * 100.0;
    (share >= FIRST_READS_PERCENT).then(|| {
        format!(
            "Of that response {share:.0} % is what DRAM for every page would take too, for pages are read for the first time \
             ({}); only the rest was weighed.",
            time_of(advice.compulsory_us)
        )
    })
}

/// What DRAM alone costs that is as fast.
fn as_fast(advice: &Advice, topics: &Topics) -> Option<String> {
    let target = advice.target_us?;
    Some(match topics.alone.as_ref().filter(|alone| alone.mean_response_us <= target) {
        Some(alone) => format!("DRAM alone that is as fast costs {}.", money(advice, alone.money)),
        None => "No DRAM that was tried is as fast alone.".into(),
    })
}

fn why_not(advice: &Advice, alone: &Candidate, topics: &Topics) -> String {
    let rival = topics.pair.as_ref().map(|pair| {
        format!("the best with flash, {}, takes {}", layers(advice, pair), time_of(pair.mean_response_us))
    });
    match (advice.reason, rival) {
        (Reason::Hurts, Some(rival)) => {
            format!("Flash would make it slower: for the same money {rival}.")
        }
        (Reason::WearsOut, _) => {
            format!("Every flash cache that was tried would be worn out within {} years.", topics.years_min)
        }
        (Reason::TooSmall, _) => "For this trace and money no flash cache is large enough to work.".into(),
        (_, Some(rival)) if alone.dram_hit_rate >= HITS_HIGH => {
            format!("Flash would not pay: DRAM answers nearly everything, and for the same money {rival}.")
        }
        (_, Some(rival)) => format!("Flash would not pay: for the same money {rival}."),
        (_, None) => "Flash would not pay: nothing with flash costs less.".into(),
    }
}

fn sure(sureness: Sureness) -> Option<&'static str> {
    match sureness {
        Sureness::Sure => Some("Both halves of the trace say so."),
        Sureness::Likely => Some("Both halves of the trace point there, one of them weakly."),
        Sureness::Unsure => Some("The halves of the trace disagree: capture a longer one before buying."),
        Sureness::Unknown => None,
    }
}

/// What else is to be known.
pub(super) fn warnings(advice: &Advice, topics: &Topics) -> Vec<String> {
    let mut warnings = Vec::new();
    let years = topics.advised.as_ref().and_then(|advised| advised.flash_lifetime_years);
    if let Some(years) = years.filter(|years| *years < YEARS_SHORT) {
        warnings.push(format!("At this pace the flash device is worn out after {years:.1} years."));
    }
    let mut slower: Vec<&str> = Vec::new();
    for candidate in &advice.tried {
        let hurts = candidate.gain.is_some_and(|gain| gain < super::judge::HURTS);
        let name = candidate.policy.as_str();
        if hurts && candidate.policy != "none" && !slower.contains(&name) {
            slower.push(name);
        }
    }
    if advice.verdict == Recommendation::Flash && !slower.is_empty() {
        warnings.push(format!(
            "Flash can hurt here too: {} {} slower than DRAM alone for the same money in at least one of the sizes and modes \
             that were tried.",
            slower.join(", "),
            if slower.len() == 1 { "was" } else { "were" }
        ));
    }
    let cold = advice.references < 10 * advice.trace_pages;
    if cold {
        warnings.push(
            "The trace is short for its pages (fewer than ten references a page measured): much of what is seen is caches \
             filling up."
                .into(),
        );
    }
    warnings
}

/// A configuration with what it costs and gives.
fn described(advice: &Advice, candidate: &Candidate) -> String {
    format!(
        "{}, for {}. It answers in {} on average",
        layers(advice, candidate),
        money(advice, candidate.money),
        time_of(candidate.mean_response_us)
    )
}

/// A configuration.
pub(super) fn layers(advice: &Advice, candidate: &Candidate) -> String {
    let size = |pages: u64| {
        let bytes = pages as f64 * f64::from(advice.page_bytes);
        format!("{} pages ({})", whole(pages as f64), size_of(bytes))
    };
    if candidate.flash_pages == 0 {
        return format!("{} of DRAM", size(candidate.dram_pages));
    }
    format!(
        "{} of {} under {} ({}) with {} of DRAM",
        size(candidate.flash_pages),
        candidate.flash_device,
        candidate.policy,
        candidate.mode,
        size(candidate.dram_pages)
    )
}

fn money(advice: &Advice, money: f64) -> String {
    format!("{} {}", amount(money), advice.currency)
}
