//! What is told of the shadows of a cache: hit rates that other policies and sizes would have.

use crate::metrics::{Metric, MetricValue};
use entresol_core::{Forecast, NoShadows, SHADOWS_MAX};
use std::fmt::Write;

/// What the shadows of a cache tell. Empty: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecasts {
    told: [Option<Forecast>; SHADOWS_MAX],
    /// One page of so many is drawn.
    pub one_of: u64,
    /// Why there are none.
    pub none: Option<NoShadows>,
}

impl Forecasts {
    pub(crate) fn new(told: &[Forecast], one_of: u64) -> Self {
        let mut all = Self { one_of, ..Self::default() };
        all.told.iter_mut().zip(told).for_each(|(place, forecast)| *place = Some(*forecast));
        all
    }

    pub(crate) fn none(why: NoShadows) -> Self {
        Self { none: Some(why), ..Self::default() }
    }

    /// As these, with what was counted after `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (now, then) in self.told.iter_mut().flatten().zip(before.iter()) {
            now.all = now.all.since(&then.all);
        }
        self
    }

    /// One for each cache that could be; first the cache as it is.
    pub fn iter(&self) -> impl Iterator<Item = &Forecast> {
        self.told.iter().flatten()
    }

    /// In a sentence: "lc would hit 81.2 %, reuse 83.0 %; with twice the flash 87.0 %". Or why there is
    /// none.
    pub fn sentence(&self) -> String {
        let Some(own) = self.iter().next() else {
            let why = self.none.map_or("has none", |NoShadows(why)| why);
            return format!("none: the cache {why}");
        };
        if !own.is_settled {
            return "not yet: too few pages were fetched".to_owned();
        }
        let percent = |forecast: &Forecast| {
            let permille = forecast.hit_permille();
            let bound = if forecast.is_settled { "" } else { "at least " };
            format!("{bound}{}.{} %", permille / 10, permille % 10)
        };
        let mut text = format!("{} hits {}", own.candidate.policy.name(), percent(own));
        for (nth, other) in
            self.iter().filter(|other| other.candidate.policy != own.candidate.policy).enumerate()
        {
            let would = if nth == 0 { " would hit" } else { "" };
            _ = write!(text, ", {}{would} {}", other.candidate.policy.name(), percent(other));
        }
        for (size, words) in [(200, "twice"), (50, "half")] {
            let of_size = self.iter().find(|other| other.candidate.percent == size);
            of_size
                .into_iter()
                .for_each(|other| _ = write!(text, "; with {words} the flash {}", percent(other)));
        }
        text
    }

    /// The hit rates.
    pub(crate) fn each(&self) -> impl Iterator<Item = Metric> + use<> {
        let of = |forecast: &Forecast| Metric {
            name: "entresol_forecast_hit_ratio",
            meaning: "hits of fetches that a cache of this policy and size would have",
            labels: vec![
                ("policy", forecast.candidate.policy.name().to_owned()),
                ("size_percent", forecast.candidate.percent.to_string()),
            ],
            value: MetricValue::Gauge(forecast.hit_permille() as f64 / 1000.0),
        };
        let settled: Vec<Metric> = self.iter().filter(|forecast| forecast.is_settled).map(of).collect();
        settled.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::{Candidate, Counts, PolicyKind};

    fn forecast(policy: PolicyKind, percent: u32, hits: u64) -> Forecast {
        let recent = Counts { fetches: 1000, hits, ..Counts::default() };
        let candidate = Candidate { policy, percent };
        Forecast { candidate, slots: 256, all: recent, recent, is_settled: percent < 200 }
    }

    #[test]
    fn forecasts_are_told_in_a_sentence() {
        use PolicyKind::{FaceGsc, Lc, Reuse};
        let told = [
            forecast(FaceGsc, 100, 765),
            forecast(FaceGsc, 50, 640),
            forecast(FaceGsc, 200, 850),
            forecast(Reuse, 100, 830),
            forecast(Lc, 100, 812),
        ];
        let sentence = "face-gsc hits 76.5 %, reuse would hit 83.0 %, lc 81.2 %; with twice the flash at least 85.0 %; \
                        with half the flash 64.0 %";
        assert_eq!(Forecasts::new(&told, 256).sentence(), sentence);
        let none = Forecasts::none(NoShadows("is too small")).sentence();
        assert_eq!(none, "none: the cache is too small");
    }
}
