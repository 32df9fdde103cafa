//! Metrics in the types and the text format of Prometheus, collected anew for each scrape.
//!
//! Nothing is counted here: the counters are elsewhere.

use entresol_engine::{Durations, Metric, MetricValue};
use prometheus::proto::{self, Bucket, LabelPair, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use std::collections::BTreeMap;

/// Labels of a metric, besides that of its volume.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// See the module's header.
#[derive(Default)]
pub(crate) struct Exposition {
    families: BTreeMap<String, MetricFamily>,
}

/// The metrics of one volume.
pub(crate) struct OfVolume<'a> {
    exposition: &'a mut Exposition,
    volume: &'a str,
}

impl Exposition {
    /// Metrics with the label `cache` of this volume.
    pub fn of<'a>(&'a mut self, volume: &'a str) -> OfVolume<'a> {
        OfVolume { exposition: self, volume }
    }

    /// The text.
    pub fn text(self) -> String {
        let families: Vec<MetricFamily> = self.families.into_values().collect();
        let mut text = Vec::new();
        // It fails for a family without a name, or without a metric: there is none.
        let _ = TextEncoder::new().encode(&families, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl OfVolume<'_> {
    fn add(
        &mut self,
        name: &str,
        meaning: &str,
        kind: MetricType,
        labels: Labels<'_>,
        mut metric: proto::Metric,
    ) {
        let pair = |(key, value): &(&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*key).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        metric.set_label(std::iter::once(&("cache", self.volume)).chain(labels).map(pair).collect());
        let family = self.exposition.families.entry(name.to_owned()).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(meaning.to_owned());
            family.set_field_type(kind);
            family
        });
        family.mut_metric().push(metric);
    }

    /// A count that only grows.
    pub fn counter(&mut self, name: &str, meaning: &str, labels: Labels<'_>, count: u64) {
        let (mut counter, mut metric) = (proto::Counter::default(), proto::Metric::default());
        counter.set_value(count as f64);
        metric.set_counter(counter);
        self.add(name, meaning, MetricType::COUNTER, labels, metric);
    }

    /// A present value.
    pub fn gauge(&mut self, name: &str, meaning: &str, labels: Labels<'_>, value: f64) {
        let (mut gauge, mut metric) = (proto::Gauge::default(), proto::Metric::default());
        gauge.set_value(value);
        metric.set_gauge(gauge);
        self.add(name, meaning, MetricType::GAUGE, labels, metric);
    }

    /// How long work took, in seconds.
    pub fn histogram(&mut self, name: &str, meaning: &str, labels: Labels<'_>, durations: &Durations) {
        let (mut histogram, mut metric) = (proto::Histogram::default(), proto::Metric::default());
        let bucket = |(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        histogram.set_bucket(durations.cumulative().map(bucket).collect());
        histogram.set_sample_count(durations.count());
        histogram.set_sample_sum(durations.total_us as f64 / 1e6);
        metric.set_histogram(histogram);
        self.add(name, meaning, MetricType::HISTOGRAM, labels, metric);
    }

    /// A metric of the engine.
    pub fn metric(&mut self, metric: &Metric) {
        let Metric { name, meaning, labels, value } = metric;
        let labels: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (*key, &**value)).collect();
        match value {
            MetricValue::Counter(count) => self.counter(name, meaning, &labels, *count),
            MetricValue::Gauge(now) => self.gauge(name, meaning, &labels, *now),
            MetricValue::Histogram(durations) => self.histogram(name, meaning, &labels, durations),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_engine::DURATION_BUCKETS;

    #[test]
    fn a_histogram_is_in_the_text_format() {
        let mut durations = Durations { total_us: 3_000_003, ..Durations::default() };
        // Three of less than 2 us, and one of more than all bounds.
        (durations.buckets[1], durations.buckets[DURATION_BUCKETS - 1]) = (3, 1);
        let mut exposition = Exposition::default();
        exposition.of("data").histogram("x_seconds", "what", &[("of", "a\"b")], &durations);
        exposition.of("other").histogram("x_seconds", "what", &[], &durations);
        let text = exposition.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["# HELP x_seconds what", "# TYPE x_seconds histogram"]);
        let labels = "cache=\"data\",of=\"a\\\"b\"";
        assert_eq!(lines[2], format!("x_seconds_bucket{{{labels},le=\"0.000001\"}} 0"));
        assert_eq!(lines[3], format!("x_seconds_bucket{{{labels},le=\"0.000002\"}} 3"));
        let end = 2 + DURATION_BUCKETS;
        assert_eq!(lines[end - 1], format!("x_seconds_bucket{{{labels},le=\"+Inf\"}} 4"));
        assert_eq!(lines[end], format!("x_seconds_sum{{{labels}}} 3.000003"));
        assert_eq!(lines[end + 1], format!("x_seconds_count{{{labels}}} 4"));
        assert_eq!(text.matches("# TYPE").count(), 1, "one family for all volumes: {text}");
    }
}
