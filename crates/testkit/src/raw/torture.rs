//! Many caches of raw pages, on all cores, counted.

use super::{CACHES, Cache, Examined, Kind, RawLives, lives};
use entresol_core::PolicyKind;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What to torture, and for how long.
#[derive(Clone, Debug)]
pub struct RawTorture {
    /// Only caches of this kind.
    pub kind: Option<Kind>,
    /// Only caches of these policies. Empty: of all.
    pub policies: Vec<PolicyKind>,
    /// Of everything that happens by chance.
    pub seed: u64,
    /// Ends after so many crash states.
    pub states: u64,
    /// Starts no cache after this time.
    pub time: Option<Duration>,
    /// OS threads.
    pub threads: usize,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct RawReport {
    /// Caches, each with several lives.
    pub caches: u64,
    /// What they amounted to.
    pub sum: RawLives,
    /// What was wrong, with the policy and the seed of its cache ([`lives`]).
    pub violation: Option<String>,
    /// Seconds.
    pub seconds: f64,
    /// Named code points of the engine, with how often they were reached. Without the feature `coverage` none
    /// is named.
    pub points: Vec<(&'static str, u64)>,
}

impl RawTorture {
    /// Runs until something is wrong, or enough was done. `watch` is told how many crash states there were,
    /// after each cache.
    pub fn run(&self, watch: &(dyn Fn(u64) + Sync)) -> RawReport {
        let begin = Instant::now();
        let is_one = |cache: &Cache| cache.policy.is_some_and(|policy| self.policies.contains(&policy));
        let is_wanted = |cache: &Cache| {
            self.kind.is_none_or(|kind| cache.is_of(kind)) && (self.policies.is_empty() || is_one(cache))
        };
        let caches: Vec<Cache> = CACHES.into_iter().filter(is_wanted).collect();
        let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let report = Mutex::new(RawReport::default());
        let one = || {
            while !over.load(Relaxed) && self.time.is_none_or(|time| begin.elapsed() < time) {
                let number = next.fetch_add(1, Relaxed);
                let cache = caches[(number % caches.len() as u64) as usize];
                let seed = Rng::new(self.seed ^ number << 20).next_u64();
                let lived = lives(cache, seed, Examined::Moments);
                let mut report = report.lock();
                report.caches += 1;
                match lived {
                    Ok(lives) => report.sum.add(&lives),
                    Err(what) => report.violation = Some(what),
                }
                if report.violation.is_some() || report.sum.states >= self.states {
                    over.store(true, Relaxed);
                }
                watch(report.sum.states);
            }
        };
        std::thread::scope(|scope| (0..self.threads).for_each(|_| _ = scope.spawn(one)));
        let points = entresol_engine::POINTS.iter().map(|point| (point.name(), point.count())).collect();
        RawReport { seconds: begin.elapsed().as_secs_f64(), points, ..report.into_inner() }
    }
}

impl fmt::Display for RawReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RawLives { restarts, states, from_flash, shutdowns, flushes, forgotten, .. } = self.sum;
        let RawLives { retired, cut, kept_out, failing, lost, outages, refused, ahead, past, .. } = self.sum;
        writeln!(
            f,
            "{states} crash states of {} caches of raw pages, {restarts} of which went on, in {:.0} s",
            self.caches, self.seconds
        )?;
        writeln!(f, "  pages from flash after them {from_flash:>10}")?;
        writeln!(f, "  lives with a shutdown       {shutdowns:>10}")?;
        writeln!(f, "  flushes and checkpoints     {flushes:>10}")?;
        writeln!(f, "  copies forgotten            {forgotten:>10}")?;
        writeln!(f, "  objects retired             {retired:>10}")?;
        writeln!(f, "  objects cut                 {cut:>10}")?;
        writeln!(f, "  changed pages kept out      {kept_out:>10}")?;
        writeln!(f, "  reads ahead of workers      {ahead:>10}")?;
        writeln!(f, "  writes past the flash so    {past:>10}")?;
        writeln!(f, "  lives with a failing flash  {failing:>10}")?;
        writeln!(f, "  requests failed with it     {lost:>10}")?;
        writeln!(f, "  lives with an outage        {outages:>10}")?;
        writeln!(f, "  requests failed in it       {refused:>10}")?;
        let (reached, missed): (Vec<_>, Vec<_>) = self.points.iter().partition(|(_, count)| *count > 0);
        if !self.points.is_empty() {
            writeln!(f, "{} of {} code points of the engine reached", reached.len(), self.points.len())?;
            reached.iter().try_for_each(|(name, count)| writeln!(f, "  {count:>10} times: {name}"))?;
            missed.iter().try_for_each(|(name, _)| writeln!(f, "       never: {name}"))?;
        }
        match &self.violation {
            None => write!(f, "0 violations"),
            Some(what) => write!(f, "violation: {what}"),
        }
    }
}
