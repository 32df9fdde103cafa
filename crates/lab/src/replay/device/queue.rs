//! A device as a queue in virtual time: requests are served one after the other at the device's full rate,
//! and each takes at least the time of a lone request.
//!
//! ```text
//! begin      = max(arrival, end of the service before), or earlier where the device is idle between arrival and that
//! end        = begin + service            service: 1 / rate of its kind, or its bytes at the sequential rate
//! completion = end + (time of a lone request − service)
//! ```
//!
//! So a lone client sees the latency, and many clients share the rate. What the detailed models of
//! `crates/device` have in addition (interference of reads with programs and garbage collection, write
//! caches, several heads) is not here: a mix of reads and writes runs at its harmonic rate, which flatters
//! drives that suffer under mixes (FaCE's MLC under LC).
//!
//! Invariant: work is conserved: `service` is the sum of all services, the device access time of 3LA's
//! equations 6 and 7.

use super::DeviceSpec;
use entresol_runtime::Time;

/// The size that rates of random requests are given for.
const RATED_BYTES: f64 = 4096.0;

#[derive(Clone, Copy)]
struct Cost {
    /// Nanoseconds that a random request of one page occupies the device.
    random_ns: u64,
    /// Nanoseconds for each further page, or a page that follows the last.
    page_ns: u64,
    /// What a lone random request takes longer.
    extra_ns: u64,
    /// Most pages of a gap before the next one that the device lets pass.
    gap_pages: u64,
    /// Where the last request ended.
    end: u64,
}

impl Cost {
    fn new(iops: f64, mb_s: Option<f64>, lone_us: Option<f64>, gap_kb: f64, page_bytes: u32) -> Self {
        let bytes = f64::from(page_bytes);
        let (random, page) = match mb_s {
            Some(mb_s) => {
                let random = 1e9 / iops + (bytes - RATED_BYTES).max(0.0) * 1e3 / mb_s;
                // A stream is never slower than random pages, however the rates were measured.
                (random, (bytes * 1e3 / mb_s).min(random))
            }
            None => (1e9 / iops, 1e9 / iops),
        };
        let lone = lone_us.map_or(random, |us| us * 1e3);
        Self {
            random_ns: random.round() as u64,
            page_ns: page.round() as u64,
            extra_ns: (lone - random).max(0.0).round() as u64,
            gap_pages: (gap_kb * 1e3 / bytes) as u64,
            end: u64::MAX,
        }
    }

    /// Service time and extra time of a request.
    fn of(&mut self, place: u64, pages: u32) -> (u64, u64) {
        let gap = place.checked_sub(self.end);
        self.end = place + u64::from(pages);
        let transfer = u64::from(pages) * self.page_ns;
        match gap.filter(|gap| *gap <= self.gap_pages) {
            Some(gap) => ((gap * self.page_ns + transfer).min(self.random_ns + transfer - self.page_ns), 0),
            None => (self.random_ns + transfer - self.page_ns, self.extra_ns),
        }
    }
}

/// A device as a queue.
pub struct Queue {
    read: Cost,
    write: Cost,
    free_at: u64,
    idle: Idle,
    service_ns: u64,
}

/// Spans that are kept; beyond that the first is forgotten. A power of two.
const IDLE_SPANS: usize = 64;

/// Spans before `free_at` in which nothing is served yet: requests are told of in the order of those who make
/// them, and one of a background worker may lie ahead of others' that come earlier. In order of time; none
/// overlap.
///
/// A ring; where requests come in order, each that finds the device idle adds a span, and that is all that is
/// ever done here.
struct Idle {
    spans: [(u64, u64); IDLE_SPANS],
    first: usize,
    length: usize,
}

impl Default for Idle {
    fn default() -> Self {
        Self { spans: [(0, 0); IDLE_SPANS], first: 0, length: 0 }
    }
}

impl Idle {
    fn at(&mut self, nth: usize) -> &mut (u64, u64) {
        &mut self.spans[(self.first + nth) % IDLE_SPANS]
    }

    /// A span behind all others.
    #[inline]
    fn add(&mut self, begin: u64, end: u64) {
        if self.length == IDLE_SPANS {
            self.forget_first();
        }
        *self.at(self.length) = (begin, end);
        self.length += 1;
    }

    fn forget_first(&mut self) {
        self.first = (self.first + 1) % IDLE_SPANS;
        self.length -= 1;
    }

    /// Serves a request that arrives at `now` in the first span that has room for it; returns the end of the
    /// service.
    #[inline]
    fn serve(&mut self, now: u64, service: u64) -> Option<u64> {
        if self.length == 0 || now + service > self.at(self.length - 1).1 {
            return None;
        }
        self.serve_before(now, service)
    }

    #[inline(never)]
    fn serve_before(&mut self, now: u64, service: u64) -> Option<u64> {
        let mut nth = 0;
        let begin = loop {
            if nth == self.length {
                return None;
            }
            let span = self.at(nth);
            let begin = span.0.max(now);
            if begin + service <= span.1 {
                span.0 = begin + service;
                break begin;
            }
            nth += 1;
        };
        // What ends before this request comes is of no use to those after it.
        while self.length > 0 && self.at(0).1 <= now {
            self.forget_first();
        }
        Some(begin + service)
    }
}

impl Queue {
    /// An idle device for pages of `page_bytes`.
    pub fn new(spec: &DeviceSpec, page_bytes: u32) -> Self {
        Self {
            read: Cost::new(
                spec.random_read_iops,
                spec.sequential_read_mb_s,
                spec.read_us,
                spec.gap_kb,
                page_bytes,
            ),
            write: Cost::new(
                spec.random_write_iops,
                spec.sequential_write_mb_s,
                spec.write_us,
                spec.gap_kb,
                page_bytes,
            ),
            free_at: 0,
            idle: Idle::default(),
            service_ns: 0,
        }
    }

    #[inline]
    fn serve(&mut self, now: Time, (service, extra): (u64, u64)) -> Time {
        self.service_ns += service;
        if let Some(end) = self.idle.serve(now.0, service) {
            return Time(end + extra);
        }
        if now.0 > self.free_at {
            self.idle.add(self.free_at, now.0);
        }
        self.free_at = self.free_at.max(now.0) + service;
        Time(self.free_at + extra)
    }

    /// A read of `pages` adjacent pages from `place` (a page number on the device) arrives at `now`: when is
    /// it done?
    pub fn read(&mut self, now: Time, place: u64, pages: u32) -> Time {
        let cost = self.read.of(place, pages);
        self.serve(now, cost)
    }

    /// As [`Queue::read`], for a write.
    pub fn write(&mut self, now: Time, place: u64, pages: u32) -> Time {
        let cost = self.write.of(place, pages);
        self.serve(now, cost)
    }

    /// Nanoseconds of service so far.
    pub fn service_ns(&self) -> u64 {
        self.service_ns
    }

    /// Counts service from here.
    pub fn begin_measurement(&mut self) {
        self.service_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;
    use super::*;
    use entresol_runtime::rng::Rng;

    #[test]
    fn a_lone_request_takes_its_latency_and_many_share_the_rate() {
        let catalogue = Catalogue::builtin();
        let mut device = Queue::new(catalogue.device("raid0-8").expect("there"), 4096);
        assert_eq!(device.read(Time(0), 10, 1), Time(5_500_000));
        assert_eq!(device.read(Time(10_000_000), 400, 1), Time(15_500_000));
        let mut device = Queue::new(catalogue.device("raid0-8").expect("there"), 4096);
        let last = (0..2598).map(|at| device.read(Time(0), at * 700, 1)).max().expect("some");
        assert!((last.0 as f64 / 1e9 - 1.005).abs() < 0.01, "2,598 reads take about a second: {last:?}");
        assert!(device.service_ns().abs_diff(1_000_000_000) < 1_000_000, "{}", device.service_ns());
    }

    #[test]
    fn what_follows_runs_at_the_sequential_rate() {
        let catalogue = Catalogue::builtin();
        let mut device = Queue::new(catalogue.flash("mlc").expect("there"), 4096);
        let mut done = Time(0);
        for at in 0..1000 {
            done = device.write(Time(0), at * 64, 64);
        }
        let mb_s = 64_000.0 * 4096.0 / 1e6 / (done.0 as f64 / 1e9);
        assert!((mb_s - 242.8).abs() < 1.0, "{mb_s}");
    }

    #[test]
    fn a_disk_waits_for_a_gap_to_pass_if_that_is_sooner() {
        let catalogue = Catalogue::builtin();
        let mut disk = Queue::new(catalogue.device("sata-disk").expect("there"), 4096);
        let page = 4096.0 * 1e3 / 180.0;
        let mut took = |place| {
            let before = disk.service_ns();
            disk.read(Time(0), place, 1);
            ((disk.service_ns() - before) as f64 / page).round()
        };
        let random = took(1000);
        assert!(random > 350.0);
        assert_eq!(took(1001), 1.0);
        assert_eq!(took(1012), 11.0, "ten pages pass");
        assert_eq!(took(1012), random, "a turn");
        assert_eq!(took(1112), 100.0, "and so do 99");
        assert_eq!(took(1600), random, "it is sooner to seek");
        let mut volume = Queue::new(catalogue.device("cloud").expect("there"), 4096);
        volume.read(Time(0), 1, 1);
        let alone = volume.service_ns();
        volume.read(Time(0), 3, 1);
        assert_eq!(volume.service_ns(), 2 * alone, "nothing turns there");
    }

    #[test]
    fn a_request_of_later_does_not_hold_up_one_of_now() {
        let catalogue = Catalogue::builtin();
        let mut device = Queue::new(catalogue.flash("3la-flash").expect("there"), 8192);
        assert_eq!(device.write(Time(1_000_000), 1, 1), Time(1_120_000), "told of early");
        assert_eq!(device.read(Time(100_000), 2, 1), Time(130_000));
        assert_eq!(device.read(Time(100_000), 2, 1), Time(160_000), "behind the one before");
        assert_eq!(device.write(Time(900_000), 3, 1), Time(1_240_000), "too long for what is left before");
        assert_eq!(device.read(Time(900_000), 3, 1), Time(930_000), "but not this one");
    }

    /// Idle spans, in a few lines.
    fn naive(spans: &mut Vec<(u64, u64)>, now: u64, service: u64) -> Option<u64> {
        if spans.last().is_none_or(|last| now + service > last.1) {
            return None;
        }
        let span = spans.iter_mut().find(|span| span.0.max(now) + service <= span.1)?;
        span.0 = span.0.max(now) + service;
        let end = span.0;
        let past = spans.iter().take_while(|span| span.1 <= now).count();
        spans.drain(..past);
        Some(end)
    }

    #[test]
    fn idle_spans_are_used_as_by_the_naive_model() {
        let (mut idle, mut spans, mut rng) = (Idle::default(), Vec::new(), Rng::new(5));
        let (mut free_at, mut used, mut most) = (0, 0, 0);
        for _ in 0..20_000 {
            if rng.below(3) < 2 {
                let begin = free_at + rng.below(5);
                free_at = begin + 1 + rng.below(30);
                idle.add(begin, free_at);
                spans.push((begin, free_at));
                most = most.max(spans.len());
                spans.drain(..spans.len().saturating_sub(IDLE_SPANS));
            } else {
                let (now, service) = (free_at.saturating_sub(rng.below(2500)), 1 + rng.below(12));
                let end = idle.serve(now, service);
                assert_eq!(end, naive(&mut spans, now, service));
                used += u32::from(end.is_some());
            }
            assert_eq!((0..idle.length).map(|nth| *idle.at(nth)).collect::<Vec<_>>(), spans);
        }
        assert!(used > 1000 && most > IDLE_SPANS, "{used} used, {most} at most: the oldest was forgotten");
    }

    #[test]
    fn three_las_devices_know_one_time() {
        let catalogue = Catalogue::builtin();
        let mut flash = Queue::new(catalogue.flash("3la-flash").expect("there"), 8192);
        assert_eq!(flash.read(Time(0), 1, 1), Time(30_000));
        assert_eq!(flash.read(Time(0), 2, 1), Time(60_000), "the next page is no cheaper");
        assert_eq!(flash.write(Time(60_000), 9, 1), Time(180_000));
        assert_eq!(flash.service_ns(), 180_000);
    }
}
