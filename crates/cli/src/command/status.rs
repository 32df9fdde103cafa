//! `entresol volume status`.

use super::volume::{asked, opening, read};
use crate::args::VolumeArgs;
use crate::failure::Failure;
use crate::output;
use entresol_block::{
    Bypassed, Condition, ControlRequest, DeviceStatus, JournalStatus, Latency, Lost, UnderWay, VolumeStatus,
    inspect_volume,
};
use entresol_lab::report::{size_of, time_of, whole};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The lines of a report.
#[derive(Default)]
struct Report(String);

impl Report {
    fn line(&mut self, name: &str, value: impl AsRef<str>) {
        _ = writeln!(self.0, "{name:<22}{}", value.as_ref());
    }
}

/// Shows the state of a volume.
pub fn run(args: &VolumeArgs, json: bool) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let status = match asked(args, &config, ControlRequest::Status)? {
        Some(status) => status,
        None => inspect_volume(&config).map_err(opening)?,
    };
    if json {
        let text = serde_json::to_string_pretty(&status).map_err(anyhow::Error::from)?;
        return output::print(&format!("{text}\n"));
    }
    let mut report = Report::default();
    report.line("volume", format!("{}, {}", config.name, size(status.volume_bytes)));
    report.state(&status);
    report.pages(&status);
    if status.running {
        report.work(&status);
    }
    report.rest(status);
    output::print(&report.0)
}

impl Report {
    /// The server and the devices.
    fn state(&mut self, status: &VolumeStatus) {
        match status.running {
            true => self.line("server", format!("running for {}", time(status.uptime_seconds))),
            false => self.line("server", "none"),
        }
        if let Some(UnderWay { what, seconds, done, total }) = &status.under_way {
            let mut for_long = format!("{what} for {}", time(*seconds));
            if *total > 0 {
                _ = write!(for_long, ", {} of {} pages are on disk", count(*done), count(*total));
            }
            self.line("under way", if status.running { &for_long } else { what });
        }
        for device in &status.devices {
            self.line(&device.device, state_of(device, status.journal.as_ref()));
        }
        if status.running || status.under_way.is_none() {
            self.line("cache", cache_of(status));
        }
    }

    /// The pages of the cache, and those that would be lost.
    fn pages(&mut self, status: &VolumeStatus) {
        let VolumeStatus { pages, slots, page_bytes, dirty_pages, .. } = status;
        let is_known = status.running || status.under_way.is_none();
        if !status.detached && is_known {
            let share = share(*pages, *slots);
            let (pages, slots) = (count(*pages), count(*slots));
            self.line("pages", format!("{pages} of {slots} ({share}), each {}", size(*page_bytes)));
            let mut dirty = count(*dirty_pages);
            if status.running {
                let (most, percent) = (count(status.dirty_pages_max), percent(status.dirty_permille));
                _ = write!(dirty, " pages, {percent} % of the cache; the limit is {most}");
            }
            self.line("newer than disk", dirty);
        }
        if status.policy.is_some() {
            let lost = match status.lost_without_flash_bytes {
                0 => "nothing".to_owned(),
                bytes => size(bytes),
            };
            self.line("lost without flash", lost);
        }
        if status.missing_pages > 0 {
            self.line("only on failed flash", format!("{} pages", count(status.missing_pages)));
        }
        if status.journal_writes > 0 {
            let writes = count(status.journal_writes);
            let what = format!("{writes} acknowledged writes of a killed server, for the next start");
            self.line("journal has", what);
        }
        for (name, ranges, all) in
            [("lost", &status.lost, status.lost_bytes), ("refused by disk", &status.kept, status.kept_bytes)]
        {
            for Lost { offset, bytes } in ranges {
                self.line(name, format!("{bytes} bytes at {offset}"));
            }
            let named: u64 = ranges.iter().map(|range| range.bytes).sum();
            if named < all {
                self.line(name, format!("{} in more ranges", size(all - named)));
            }
        }
    }

    /// What a server has done.
    fn work(&mut self, status: &VolumeStatus) {
        let requests = &status.requests;
        let (reads, writes, flushes) =
            (count(requests.reads), count(requests.writes), count(requests.flushes));
        let others = count(requests.others);
        let text = format!("{reads} reads, {writes} writes, {flushes} flushes, {others} others");
        self.line("requests", format!("{text}; {} failed", count(requests.failed)));
        let hits = status.staging_hits + status.flash_hits;
        let reads = hits + status.disk_reads;
        let share = share(hits, reads);
        self.line(
            "pages read",
            format!("{}, of which {} from the cache ({share})", count(reads), count(hits)),
        );
        self.line("entered after reads", count(status.populated));
        let (flash, disk) = (count(status.flash_writes), count(status.disk_writes));
        self.line("pages to flash, disk", format!("{flash} and {disk}"));
        if status.hits_to_disk_permille > 0 {
            let percent = percent(status.hits_to_disk_permille);
            self.line("hits sent to disk", format!("{percent} %, because flash is slower"));
        }
        if let Some(left) = status.flash_budget_left {
            self.line("flash budget", format!("{} left", size(left)));
        }
        for Bypassed { why, reads, stayed_out, writes } in &status.bypassed {
            if reads + stayed_out + writes > 0 {
                let [reads, writes, out] = [reads, writes, stayed_out].map(|pages| count(*pages));
                let pages = format!("{reads} pages read, {writes} written past flash; {out} not taken in");
                self.line(&format!("bypass: {why}"), pages);
            }
        }
        for Latency { place, count, mean_us, median_us, p99_us } in &status.latencies {
            let [mean, median, p99] = [mean_us, median_us, p99_us].map(|us| time_of(*us as f64));
            let times = format!("{}, mean {mean}, half < {median}, 99 % < {p99}", self::count(*count));
            self.line(place, times);
        }
    }

    /// Sentences.
    fn rest(&mut self, status: VolumeStatus) {
        if let Some(forecast) = status.forecast {
            self.line("forecast", forecast);
        }
        if status.switches_policy {
            let switched = status.switched.unwrap_or_else(|| "not since the start; it may".to_owned());
            self.line("policy changed", switched);
        }
        if let Some(notice) = status.notice {
            self.line("notice", notice);
        }
        let when = if status.running { "told at the start" } else { "notice" };
        status.start_notices.iter().for_each(|notice| self.line(when, notice));
    }
}

fn count(things: u64) -> String {
    whole(things as f64)
}

fn size(bytes: u64) -> String {
    size_of(bytes as f64)
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / all.max(1) as f64)
}

fn percent(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

/// "3 d 4 h", "5 min 6 s".
fn time(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let mut left = seconds;
    let some = units[first..].iter().take(2).map(|(unit, name)| {
        let count = left / unit;
        left %= unit;
        format!("{count} {name}")
    });
    some.collect::<Vec<_>>().join(" ")
}

/// "/dev/sdb: retrying for 12 s (why); errors: 3 write".
fn state_of(device: &DeviceStatus, journal: Option<&JournalStatus>) -> String {
    let DeviceStatus { path, state, seconds, why, errors, .. } = device;
    let mut text = match (path.is_empty(), state) {
        (true, _) | (_, Condition::None) => state.name().to_owned(),
        _ => format!("{path}: {}", state.name()),
    };
    if let Some(seconds) = seconds {
        _ = write!(text, " for {}", time(*seconds));
    }
    if let Some(why) = why {
        _ = write!(text, " ({why})");
    }
    if let Some(JournalStatus { bytes, used_bytes }) = journal.filter(|_| device.device == "journal") {
        _ = write!(text, ", {} of {} used ({})", size(*used_bytes), size(*bytes), share(*used_bytes, *bytes));
    }
    let errors: Vec<String> = errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if !errors.is_empty() {
        _ = write!(text, "; errors: {}", errors.join(", "));
    }
    text
}

fn cache_of(status: &VolumeStatus) -> String {
    match (&status.policy, &status.mode) {
        _ if status.detached => {
            "none: the disk has everything, and the flash device may be taken away (set `cache = false`; else the next start \
             begins with an empty cache)"
                .to_owned()
        }
        (Some(policy), Some(mode)) => format!("{policy}, {mode}"),
        _ => "none: the disk alone serves".to_owned(),
    }
}

/// The work of a server in a while. `--watch --json` prints it.
#[derive(Serialize)]
struct Rates {
    /// The length of the while.
    seconds: f64,
    requests_per_second: f64,
    failed: u64,
    read_bytes_per_second: f64,
    written_bytes_per_second: f64,
    /// Of the pages that were read. 0 if there were none.
    hit_percent: f64,
    flash_writes_per_second: f64,
    disk_writes_per_second: f64,
    /// At the end.
    dirty_pages: u64,
    dirty_percent: f64,
    under_way: Option<String>,
}

impl Rates {
    fn between(before: &VolumeStatus, now: &VolumeStatus, took: Duration) -> Self {
        // A drain or a new mode begins the counters of the cache anew.
        let since = |count: fn(&VolumeStatus) -> u64| {
            let (now, then) = (count(now), count(before));
            now.checked_sub(then).unwrap_or(now)
        };
        let seconds = took.as_secs_f64();
        let rate = |count: fn(&VolumeStatus) -> u64| since(count) as f64 / seconds;
        let hits = since(|of| of.staging_hits + of.flash_hits) as f64;
        let pages = hits + since(|of| of.disk_reads) as f64;
        Self {
            seconds,
            requests_per_second: rate(|VolumeStatus { requests, .. }| {
                requests.reads + requests.writes + requests.flushes + requests.others
            }),
            failed: since(|of| of.requests.failed),
            read_bytes_per_second: rate(|of| of.requests.read_bytes),
            written_bytes_per_second: rate(|of| of.requests.written_bytes),
            hit_percent: hits * 100.0 / pages.max(1.0),
            flash_writes_per_second: rate(|of| of.flash_writes),
            disk_writes_per_second: rate(|of| of.disk_writes),
            dirty_pages: now.dirty_pages,
            dirty_percent: now.dirty_permille as f64 / 10.0,
            under_way: now.under_way.as_ref().map(|change| change.what.clone()),
        }
    }

    /// The line for people, below [`HEAD`].
    fn line(&self) -> String {
        let mega = |bytes: f64| bytes / 1e6;
        let under_way = self.under_way.as_ref().map(|what| format!("  {what}")).unwrap_or_default();
        format!(
            "{:>10.0} {:>9.1} {:>9.1} {:>8.1} {:>10.0} {:>10.0} {:>10} {:>7.1}{under_way}\n",
            self.requests_per_second,
            mega(self.read_bytes_per_second),
            mega(self.written_bytes_per_second),
            self.hit_percent,
            self.flash_writes_per_second,
            self.disk_writes_per_second,
            self.dirty_pages,
            self.dirty_percent,
        )
    }
}

/// The columns: a second, unless they are a share or a state.
const HEAD: &str = "requests/s read MB/s  wr. MB/s   hits %  to flash/s  to disk/s      dirty dirty %\n";

/// Prints a running server's rates every so often, until it ends.
pub fn watch(args: &VolumeArgs, every: Duration, json: bool) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let now = || asked(args, &config, ControlRequest::Status);
    let Some(mut before) = now()? else {
        return Err(Failure::input(format!(
            "{}: no server runs; `entresol serve` starts one",
            args.config.display()
        )));
    };
    let mut then = Instant::now();
    if !json && !output::print_to_reader(HEAD)? {
        return Ok(());
    }
    loop {
        std::thread::sleep((then + every).saturating_duration_since(Instant::now()));
        let Some(status) = now()? else { return Ok(()) };
        let rates = Rates::between(&before, &status, then.elapsed());
        then = Instant::now();
        let line = match json {
            true => format!("{}\n", serde_json::to_string(&rates).map_err(anyhow::Error::from)?),
            false => rates.line(),
        };
        if !output::print_to_reader(&line)? {
            return Ok(());
        }
        before = status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_two_units() {
        let told = [0, 59, 61, 3600, 90_061].map(time);
        assert_eq!(told, ["0 s", "59 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]);
    }

    #[test]
    fn a_device_is_told_with_its_errors() {
        let mut device = DeviceStatus { path: "/dev/x".to_owned(), ..DeviceStatus::default() };
        assert_eq!(state_of(&device, None), "/dev/x: ok");
        device.state = Condition::Retrying;
        (device.seconds, device.why) = (Some(3), Some("full".to_owned()));
        device.errors.insert("no-space".to_owned(), 2);
        assert_eq!(state_of(&device, None), "/dev/x: retrying for 3 s (full); errors: 2 no-space");
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let mut before = VolumeStatus { flash_hits: 10, flash_writes: 100, ..VolumeStatus::default() };
        before.requests.reads = 5;
        let mut now = VolumeStatus { flash_hits: 13, disk_reads: 1, flash_writes: 40, ..before.clone() };
        (now.requests.reads, now.requests.read_bytes) = (9, 8192);
        let rates = Rates::between(&before, &now, Duration::from_secs(2));
        assert_eq!((rates.requests_per_second, rates.read_bytes_per_second), (2.0, 4096.0));
        assert_eq!((rates.hit_percent, rates.flash_writes_per_second), (75.0, 20.0));
    }
}
