//! Counters without a lock. All in pages unless said otherwise; meanings as in [`TierMetrics`].

use crate::TierMetrics;
use crate::durations::{DurationTally, Durations};
use crate::tally::{Tally, WideTally};
use entresol_shm::shared_struct;

shared_struct! {
    #[derive(Default)]
    pub(crate) struct Tallies {
        pub staging_hits: Tally,
        pub flash_hits: WideTally,
        pub disk_reads: Tally,
        pub disk_writes: Tally,
        pub dirty_evictions: Tally,
        pub clean_evictions: Tally,
        pub populated: Tally,
        pub population_dropped: Tally,
        pub bypassed: Tally,
        pub moved_up: Tally,
        pub directory_writes: Tally,
        pub already_on_flash: Tally,
        pub flash_writes: Tally,
        pub dequeue_reads: Tally,
        pub second_chances: Tally,
        pub pulled: Tally,
        pub damaged_clean: Tally,
        pub redundant_destages: Tally,
        pub cleaned: Tally,
        pub writes_took: DurationTally,
        pub background_took: DurationTally,
        pub checkpoints_took: DurationTally,
        pub syncs_took: DurationTally,
    }
}

impl Tallies {
    /// Counts an eviction with these flags.
    pub(crate) fn evicted(&self, dirty: bool, fdirty: bool) {
        if dirty && fdirty { self.dirty_evictions.add(1) } else { self.clean_evictions.add(1) }
    }

    /// Requests of users so far, for pages.
    pub(crate) fn requests(&self) -> u64 {
        let all = [&self.staging_hits, &self.disk_reads, &self.dirty_evictions, &self.clean_evictions];
        self.flash_hits.get() + all.iter().map(|tally| tally.get()).sum::<u64>()
    }

    /// All counters. The values that only the directory has are zero.
    pub(crate) fn read(&self) -> TierMetrics {
        TierMetrics {
            staging_hits: self.staging_hits.get(),
            flash_hits: self.flash_hits.get(),
            disk_reads: self.disk_reads.get(),
            disk_writes: self.disk_writes.get(),
            dirty_evictions: self.dirty_evictions.get(),
            clean_evictions: self.clean_evictions.get(),
            already_on_flash: self.already_on_flash.get(),
            populated: self.populated.get(),
            population_dropped: self.population_dropped.get(),
            bypassed: self.bypassed.get(),
            moved_up: self.moved_up.get(),
            directory_writes: self.directory_writes.get(),
            flash_writes: self.flash_writes.get(),
            dequeue_reads: self.dequeue_reads.get(),
            second_chances: self.second_chances.get(),
            pulled: self.pulled.get(),
            damaged_clean: self.damaged_clean.get(),
            redundant_destages: self.redundant_destages.get(),
            cleaned: self.cleaned.get(),
            write_durations: self.writes_took.read(),
            background_durations: self.background_took.read(),
            checkpoint_durations: self.checkpoints_took.read(),
            sync_durations: self.syncs_took.read(),
            ..TierMetrics::default()
        }
    }
}

/// A counter's name, its meaning, and its field.
type Counter = (&'static str, &'static str, fn(&TierMetrics) -> u64);

/// Counters since the tier was opened.
const COUNTERS: [Counter; 19] = [
    ("entresol_staging_hits_total", "pages fetched from staging", |tier| tier.staging_hits),
    ("entresol_flash_hits_total", "pages fetched from flash", |tier| tier.flash_hits),
    ("entresol_disk_reads_total", "pages fetched from disk", |tier| tier.disk_reads),
    ("entresol_disk_writes_total", "pages written to disk", |tier| tier.disk_writes),
    ("entresol_dirty_evictions_total", "dirty pages evicted from DRAM", |tier| tier.dirty_evictions),
    ("entresol_clean_evictions_total", "clean pages evicted from DRAM", |tier| tier.clean_evictions),
    ("entresol_already_on_flash_total", "evicted pages with an identical copy on flash", |tier| {
        tier.already_on_flash
    }),
    ("entresol_populated_total", "pages from disk that entered the flash", |tier| tier.populated),
    ("entresol_population_dropped_total", "populations left out, staging being full", |tier| {
        tier.population_dropped
    }),
    ("entresol_bypassed_total", "changed pages that went to disk only", |tier| tier.bypassed),
    ("entresol_moved_up_total", "pages that left the flash when they were fetched", |tier| tier.moved_up),
    ("entresol_directory_writes_total", "updates of the slot directory", |tier| tier.directory_writes),
    ("entresol_flash_writes_total", "pages written to flash", |tier| tier.flash_writes),
    ("entresol_dequeue_reads_total", "pages read from flash when they were dequeued", |tier| {
        tier.dequeue_reads
    }),
    ("entresol_second_chances_total", "second chances given", |tier| tier.second_chances),
    ("entresol_pulled_total", "pages pulled from the buffer pool", |tier| tier.pulled),
    ("entresol_damaged_clean_total", "damaged clean pages, read from disk", |tier| tier.damaged_clean),
    ("entresol_redundant_destages_total", "destages of versions that disk had", |tier| {
        tier.redundant_destages
    }),
    ("entresol_cleaned_total", "dirty pages copied to disk before their turn", |tier| tier.cleaned),
];

/// Present values.
const GAUGES: [Counter; 4] = [
    ("entresol_slots", "slots of the flash cache", |tier| tier.slots),
    ("entresol_slots_valid", "slots with the newest version of a page", |tier| tier.slots_valid),
    ("entresol_slots_dirty", "valid slots that are newer than disk", |tier| tier.slots_dirty),
    ("entresol_slots_superseded", "slots with a superseded version", |tier| tier.slots_superseded),
];

/// A histogram's name, its meaning, and where it is.
type Histogram = (&'static str, &'static str, fn(&TierMetrics) -> &Durations);

/// What takes its time in the background.
const HISTOGRAMS: [Histogram; 3] = [
    ("entresol_write_seconds", "writes from staging to flash", |tier| &tier.write_durations),
    ("entresol_background_seconds", "dequeues, cleaning and pulls", |tier| &tier.background_durations),
    ("entresol_checkpoint_seconds", "checkpoints", |tier| &tier.checkpoint_durations),
];

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A count since the tier was opened.
    Counter(u64),
    /// A present value.
    Gauge(f64),
    /// How long work took.
    Histogram(Box<Durations>),
}

/// A metric for a monitoring system, with the names of Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// What distinguishes it from others of its name.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: MetricValue,
}

impl TierMetrics {
    /// All values.
    pub fn each(&self) -> impl Iterator<Item = Metric> + use<> {
        let of = |name, meaning, value| Metric { name, meaning, labels: Vec::new(), value };
        let counters =
            COUNTERS.map(|(name, meaning, count)| of(name, meaning, MetricValue::Counter(count(self))));
        let gauges =
            GAUGES.map(|(name, meaning, now)| of(name, meaning, MetricValue::Gauge(now(self) as f64)));
        let histograms = HISTOGRAMS
            .map(|(name, meaning, took)| of(name, meaning, MetricValue::Histogram(Box::new(*took(self)))));
        counters.into_iter().chain(gauges).chain(histograms).chain(self.forecasts.each())
    }

    /// Records all values with the crate `metrics`, with the label `cache`. To be called when metrics are
    /// collected: the tier itself records nothing. A histogram is recorded as counters
    /// ([`Durations::export`]).
    pub fn export(&self, cache: &str) {
        for Metric { name, meaning, labels, value } in self.each() {
            let labels: Vec<metrics::Label> = std::iter::once(("cache", cache.to_owned()))
                .chain(labels)
                .map(|(key, value)| metrics::Label::new(key, value))
                .collect();
            match value {
                MetricValue::Counter(count) => {
                    metrics::describe_counter!(name, meaning);
                    metrics::counter!(name, labels).absolute(count);
                }
                MetricValue::Gauge(now) => {
                    metrics::describe_gauge!(name, meaning);
                    metrics::gauge!(name, labels).set(now);
                }
                MetricValue::Histogram(durations) => durations.export(name, meaning, cache),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durations::DURATION_BUCKETS;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    #[test]
    fn every_metric_is_exported_once_with_the_name_of_its_cache() {
        let recorder = DebuggingRecorder::new();
        let tier = TierMetrics { flash_hits: 7, slots_dirty: 3, ..TierMetrics::default() };
        metrics::with_local_recorder(&recorder, || tier.export("data"));
        let exported = recorder.snapshotter().snapshot().into_vec();
        let histograms = HISTOGRAMS.len() * (DURATION_BUCKETS + 2);
        assert_eq!(exported.len(), COUNTERS.len() + GAUGES.len() + histograms);
        let value = |wanted: &str| {
            let found = exported.iter().find(|(key, ..)| key.key().name() == wanted).expect(wanted);
            assert!(found.0.key().labels().any(|label| (label.key(), label.value()) == ("cache", "data")));
            format!("{:?}", found.3)
        };
        assert_eq!(value("entresol_flash_hits_total"), format!("{:?}", DebugValue::Counter(7)));
        assert_eq!(value("entresol_slots_dirty"), format!("{:?}", DebugValue::Gauge(3.0.into())));
    }
}
