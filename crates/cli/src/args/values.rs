//! Values on the command line: each parser says in one sentence what was found and what is allowed.

use super::columns::TimeUnit;
use entresol_block::VolumeConfig;
use entresol_core::{Cache, FRAGMENT_PAGES_MAX, Mode, PolicyKind, System};
use entresol_device::{Model, Profile};
use entresol_lab::config::{Redo, Warmup};
use entresol_lab::replay;
use entresol_lab::reproduce::Paper;
use entresol_store::Replacement;
use entresol_trace::{Column, Format, RATE_MIN, Sample, Separator, Stream, Unit, WRITABLE, generate};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest measured time or warm-up: a week.
pub(super) const MINUTES_MAX: f64 = 7.0 * 24.0 * 60.0;
/// Longest time between checkpoints: a day.
const INTERVAL_S_MAX: f64 = 24.0 * 3600.0;
/// Longest think time: ten minutes.
const THINK_MS_MAX: u64 = 600_000;

/// A system's name.
pub fn system(text: &str) -> Result<System, String> {
    let known = || System::ALL.map(System::name).join(", ");
    System::from_name(text).ok_or_else(|| match Cache::from_name(text) {
        None if text == replay::NO_CACHE => {
            "none: the store without a flash cache is disk-only or flash-only here".to_owned()
        }
        Some(cache) => format!(
            "{} is a flash translation layer of its own, which the store does not run on; `entresol simulate --policy {0}` and \
             `entresol reproduce rw` show it, and here are {}",
            cache.name(),
            known()
        ),
        None => {
            format!("no system is called {text:?}; known are {} (several are separated by commas)", known())
        }
    })
}

/// The name of a device to be used as flash.
pub fn flash_device(text: &str) -> Result<String, String> {
    device(text, "flash device", |model| matches!(model, Model::Ssd(_)))
}

/// The name of a device to be used as disk: any.
pub fn disk_device(text: &str) -> Result<String, String> {
    device(text, "disk device", |_| true)
}

fn device(text: &str, what: &str, fits: fn(&Model) -> bool) -> Result<String, String> {
    if Profile::all().iter().any(|profile| profile.name == text && fits(&profile.model)) {
        return Ok(text.to_owned());
    }
    let known: Vec<_> = Profile::all().iter().filter(|p| fits(&p.model)).map(|p| p.name).collect();
    Err(format!("no {what} is called {text:?}; known are {} (see `entresol devices`)", known.join(", ")))
}

/// A share of the database in per cent: more than 0, at most 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let bare = text.strip_suffix('%').unwrap_or(text);
    let value = number(bare)
        .map_err(|_| format!("{text:?} is not a number; give per cent of the database, e.g. 8"))?;
    if value > 0.0 && value <= 100.0 {
        return Ok(value);
    }
    Err(format!("{text} % of the database is not possible; more than 0 and at most 100 are"))
}

/// Minutes of measured time.
pub fn minutes(text: &str) -> Result<Duration, String> {
    let value =
        number(text).map_err(|_| format!("{text:?} is not a number of minutes; give e.g. 10 or 0.5"))?;
    // Shorter than a second, rates mean nothing.
    if (1.0 / 60.0..=MINUTES_MAX).contains(&value) {
        return Ok(Duration::from_secs_f64(value * 60.0));
    }
    Err(format!("{text} minutes are not possible; at least 0.017 (a second) and at most {MINUTES_MAX} are"))
}

/// `auto` or minutes, 0 included.
pub fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "auto" {
        return Ok(Warmup::Auto);
    }
    let value = number(text).map_err(|_| format!("{text:?} is neither `auto` nor a number of minutes"))?;
    if (0.0..=MINUTES_MAX).contains(&value) {
        return Ok(Warmup::For(Duration::from_secs_f64(value * 60.0)));
    }
    Err(format!("{text} minutes are not possible; `auto`, or 0 to {MINUTES_MAX}, are"))
}

/// Seconds between checkpoints.
pub fn interval(text: &str) -> Result<Duration, String> {
    let value = number(text).map_err(|_| format!("{text:?} is not a number of seconds; give e.g. 60"))?;
    if (1.0..=INTERVAL_S_MAX).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(format!("{text} s between checkpoints are not possible; 1 to {INTERVAL_S_MAX} are"))
}

/// Milliseconds of think time.
pub fn think(text: &str) -> Result<Duration, String> {
    whole(text, "milliseconds of think time", 0..=THINK_MS_MAX).map(Duration::from_millis)
}

/// TPC-C warehouses.
pub fn warehouses(text: &str) -> Result<u32, String> {
    count(text, "warehouses", 1..=100_000)
}

/// Concurrent clients.
pub fn clients(text: &str) -> Result<u32, String> {
    count(text, "clients", 1..=10_000)
}

/// Flash slots.
pub fn slots(text: &str) -> Result<u32, String> {
    count(text, "slots", 2048..=1 << 27)
}

/// Pages of a fragment.
pub fn fragment_pages(text: &str) -> Result<u32, String> {
    count(text, "pages of a fragment", 1..=FRAGMENT_PAGES_MAX)
}

/// Workers that populate a cache of fragments.
pub fn population_workers(text: &str) -> Result<u32, String> {
    count(text, "population workers", 1..=1024)
}

/// Populations in a thousand references.
pub fn population_pace(text: &str) -> Result<u32, String> {
    count(text, "populations in a thousand references", 1..=1000)
}

/// A seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a seed; give a whole number from 0 to {}", u64::MAX))
}

/// The order of eviction from DRAM.
pub fn replacement(text: &str) -> Result<Replacement, String> {
    match text {
        "lru" => Ok(Replacement::Lru),
        "clock" => Ok(Replacement::Clock),
        _ => Err(format!("no replacement is called {text:?}; known are lru, clock")),
    }
}

/// What the log tells redo.
pub fn redo(text: &str) -> Result<Redo, String> {
    Redo::from_name(text)
        .ok_or_else(|| format!("no log is called {text:?}; known are {}", listed(Redo::ALL.map(Redo::name))))
}

/// The word for all of the engine's policies for pages.
pub const ALL_POLICIES: &str = "all";

/// Names, separated by commas.
fn listed<const N: usize>(names: [&str; N]) -> String {
    names.join(", ")
}

/// The help for the policies of `simulate`.
pub fn simulated_policies() -> String {
    format!(
        "Policies of the flash cache, separated by commas: {}. `{}` is all of the engine for pages; `{}` is DRAM and disk \
         alone. Where no flash is given: policies of DRAM ({})",
        listed(Cache::ALL.map(Cache::name)),
        ALL_POLICIES,
        replay::NO_CACHE,
        listed(replay::Replacement::ALL.map(replay::Replacement::name)),
    )
}

/// The help for the policy of a volume.
pub fn volume_policies() -> String {
    let [back, through] = ["write-back", "write-through"].map(VolumeConfig::usual_policy);
    let (policies, sce) = (listed(PolicyKind::ALL.map(PolicyKind::name)), Cache::Fragments.name());
    format!("The policy: {policies}, {sce} [default: {back} in write-back, {through} else]")
}

/// A policy of the flash cache, `all`, `none`, or a replacement of DRAM.
pub fn policy(text: &str) -> Result<String, String> {
    let mut known = vec![replay::NO_CACHE, ALL_POLICIES];
    known.extend(Cache::ALL.map(Cache::name));
    known.extend(
        replay::Replacement::ALL
            .map(replay::Replacement::name)
            .iter()
            .filter(|name| Cache::from_name(name).is_none()),
    );
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "no policy is called {text:?}; known are {} (several are separated by commas)",
        known.join(", ")
    ))
}

/// A replacement of the lab's DRAM layer.
pub fn dram_replacement(text: &str) -> Result<replay::Replacement, String> {
    replay::Replacement::from_name(text).ok_or_else(|| {
        let known = replay::Replacement::ALL.map(replay::Replacement::name).join(", ");
        match Cache::from_name(text) {
            Some(_) => format!(
                "{text} is a policy of a flash cache below DRAM and no replacement of a single level (`simulate` shows it at \
                 many sizes); known replacements are {known}"
            ),
            None => format!("no replacement is called {text:?}; known are {known}"),
        }
    })
}

/// The policies, or the replacement of DRAM, that a word names.
#[derive(Clone, Debug)]
pub struct Papers(pub Vec<Paper>);

/// A paper's name, or all of them.
pub fn papers(text: &str) -> Result<Papers, String> {
    if text == "all" {
        return Ok(Papers(Paper::ALL.to_vec()));
    }
    Paper::from_name(text).map(|paper| Papers(vec![paper])).ok_or_else(|| {
        let known = Paper::ALL.map(Paper::name).join(", ");
        format!("no paper is called {text:?}; known are {known}, all")
    })
}

/// A policy of the flash cache.
pub fn flash_policy(text: &str) -> Result<Cache, String> {
    Cache::from_name(text).ok_or_else(|| {
        let known = Cache::ALL.map(Cache::name).join(", ");
        format!(
            "no policy of a flash cache is called {text:?}; known are {known} (several are separated by commas)"
        )
    })
}

/// Money.
pub fn money(text: &str) -> Result<f64, String> {
    match number(text) {
        Ok(value) if value > 0.0 => Ok(value),
        _ => Err(format!("{text:?} is no amount of money; give a number above 0, e.g. 1.5")),
    }
}

/// A size in bytes: a number with its unit.
pub fn bytes(text: &str) -> Result<f64, String> {
    let units = [
        ("TiB", (1u64 << 40) as f64),
        ("GiB", (1u64 << 30) as f64),
        ("MiB", (1u64 << 20) as f64),
        ("TB", 1e12),
        ("GB", 1e9),
        ("MB", 1e6),
    ];
    let parsed = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    match parsed.map(|(digits, bytes)| (number(digits.trim_end()), bytes)) {
        Some((Ok(value), bytes)) if value > 0.0 && value * bytes <= 1e18 => Ok(value * bytes),
        _ => Err(format!(
            "{text:?} is no size; give a number above 0 with MB, GB, TB, MiB, GiB or TiB, e.g. 2TB"
        )),
    }
}

/// A number of years.
pub fn years(text: &str) -> Result<f64, String> {
    match number(text) {
        Ok(value) if (0.0..=1000.0).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is no number of years; 0 to 1000 are possible")),
    }
}

/// A response, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency(pub f64);

/// A response: a number followed by us, µs, ms or s.
pub fn latency(text: &str) -> Result<Latency, String> {
    let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    let parsed = units.iter().find_map(|(unit, us)| Some((text.strip_suffix(unit)?, us)));
    match parsed.map(|(digits, us)| (number(digits.trim_end()), us)) {
        Some((Ok(value), us)) if value > 0.0 => Ok(Latency(value * us)),
        _ => Err(format!(
            "{text:?} is no response; give a number above 0 with its unit, e.g. 500us, 2ms or 1s"
        )),
    }
}

/// A cache mode.
pub fn mode(text: &str) -> Result<Mode, String> {
    Mode::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
        let known = Mode::ALL.map(Mode::name).join(", ");
        format!("no mode is called {text:?}; known are {known}")
    })
}

/// A stream of a capture.
pub fn stream(text: &str) -> Result<Stream, String> {
    Stream::from_name(text).ok_or_else(|| format!("no stream is called {text:?}; known are above, below"))
}

/// A trace format.
pub fn trace_format(text: &str) -> Result<Format, String> {
    Format::from_name(text)
        .ok_or_else(|| format!("no trace format is called {text:?}; known are {}", Format::names()))
}

/// A trace format that can be written.
pub fn written_format(text: &str) -> Result<Format, String> {
    Format::from_name(text).filter(|format| WRITABLE.contains(format)).ok_or_else(|| {
        let known = WRITABLE.map(Format::name).join(", ");
        format!("traces cannot be written in a format {text:?}; {known} can be written")
    })
}

/// A column of a text.
pub fn column(text: &str) -> Result<Column, String> {
    Column::ALL.into_iter().find(|column| column.name() == text).ok_or_else(|| {
        let known = Column::ALL.map(Column::name).join(", ");
        format!("no column is called {text:?}; known are {known} (for a column without meaning)")
    })
}

/// The separator of columns.
pub fn separator(text: &str) -> Result<Separator, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("tab" | "\\t", ..) => Ok(Separator::Character('\t')),
        ("space" | " ", ..) => Ok(Separator::Blanks),
        (_, Some(character), None) if !character.is_alphanumeric() => Ok(Separator::Character(character)),
        _ => Err(format!("{text:?} separates no columns; give one character such as ; or |, tab, or space")),
    }
}

/// Lines at the beginning of a text.
pub fn header_lines(text: &str) -> Result<u64, String> {
    whole(text, "header lines", 0..=1_000_000)
}

/// A unit of time.
pub fn time_unit(text: &str) -> Result<TimeUnit, String> {
    match text {
        "s" => Ok(TimeUnit(1_000_000_000)),
        "ms" => Ok(TimeUnit(1_000_000)),
        "us" | "µs" => Ok(TimeUnit(1000)),
        "ns" => Ok(TimeUnit(1)),
        _ => Err(format!("{text:?} is no unit of time; s, ms, us and ns are")),
    }
}

/// A unit of offsets and sizes.
pub fn size_unit(text: &str) -> Result<Unit, String> {
    match text {
        "bytes" => Ok(Unit::Bytes(1)),
        "kib" => Ok(Unit::Bytes(1024)),
        "sectors" => Ok(Unit::Bytes(512)),
        "pages" => Ok(Unit::Pages),
        _ => whole(text, "bytes of a unit", 1..=1 << 30).map(Unit::Bytes).map_err(|_| {
            format!("{text:?} is no unit; bytes, kib, sectors (512 bytes), pages, or a number of bytes are")
        }),
    }
}

/// References of a generated trace.
pub fn references(text: &str) -> Result<u64, String> {
    whole(text, "references", 1..=generate::REFERENCES_MAX)
}

/// A share in per cent, 0 and 100 included.
pub fn share(text: &str) -> Result<f64, String> {
    match number(text) {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is not a share in per cent; 0 to 100 are possible")),
    }
}

/// The share of the pages that a sample has.
pub fn rate(text: &str) -> Result<f64, String> {
    let sample = number(text).and_then(|rate| Sample::new(rate, 0).map_err(|_| ()));
    match sample {
        Ok(sample) => Ok(sample.rate()),
        Err(()) => {
            Err(format!("{text:?} is not a share of the pages; {RATE_MIN} to 1 are possible, e.g. 0.01"))
        }
    }
}

/// Samples of a trace.
pub fn hashes(text: &str) -> Result<u32, String> {
    count(text, "samples", 1..=64)
}

/// A page size; the trace's reader knows which are possible.
pub fn page_bytes(text: &str) -> Result<u32, String> {
    count(text, "bytes of a page", 512..=1 << 20)
}

/// Frames of DRAM, or none.
pub fn dram_pages(text: &str) -> Result<u32, String> {
    count(text, "pages of DRAM", 0..=u32::MAX - 1)
}

/// Slots of flash; the least depends on the policy.
pub fn flash_pages(text: &str) -> Result<u32, String> {
    count(text, "pages of flash", 1..=1 << 27)
}

/// Pages of a single level.
pub fn level_pages(text: &str) -> Result<u32, String> {
    count(text, "pages", 1..=u32::MAX - 1)
}

/// A second of a trace.
pub fn second(text: &str) -> Result<f64, String> {
    match number(text) {
        Ok(value) if value >= 0.0 => Ok(value),
        _ => Err(format!("{text:?} is not a second of a trace; give a number of 0 or more")),
    }
}

/// Microseconds of a DRAM hit.
pub fn hit_us(text: &str) -> Result<f64, String> {
    match number(text) {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is not possible for a DRAM hit; 0 to 1000000 microseconds are")),
    }
}

pub(super) fn count(text: &str, what: &str, allowed: RangeInclusive<u32>) -> Result<u32, String> {
    let (low, high) = allowed.into_inner();
    let value = whole(text, what, u64::from(low)..=u64::from(high))?;
    Ok(u32::try_from(value).expect("the range ends within 32 bits"))
}

pub(super) fn whole(text: &str, what: &str, allowed: RangeInclusive<u64>) -> Result<u64, String> {
    let (low, high) = (allowed.start(), allowed.end());
    // Far too large and negative whole numbers are out of range rather than no numbers.
    match text.parse::<i128>() {
        Ok(value) => match u64::try_from(value) {
            Ok(value) if allowed.contains(&value) => Ok(value),
            _ => Err(format!("{text} {what} are not possible; {low} to {high} are")),
        },
        Err(_) => Err(format!("{text:?} is not a whole number of {what}; {low} to {high} are possible")),
    }
}

/// A finite number.
pub(super) fn number(text: &str) -> Result<f64, ()> {
    text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_possible_is_taken() {
        assert_eq!(percent("8"), Ok(8.0));
        assert_eq!(percent("0.4%"), Ok(0.4));
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        assert_eq!(warmup("auto"), Ok(Warmup::Auto));
        assert_eq!(warmup("0"), Ok(Warmup::For(Duration::ZERO)));
        assert_eq!(interval("60"), Ok(Duration::from_secs(60)));
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(flash_device("slc"), Ok("slc".into()));
        assert_eq!(disk_device("cloud"), Ok("cloud".into()));
    }

    #[test]
    fn what_is_not_possible_is_refused_with_what_is() {
        for text in ["0", "-1", "101", "NaN", "inf", "1e999", "eight", ""] {
            assert!(percent(text).is_err(), "{text}");
            assert!(
                percent(text)
                    .is_err_and(|sentence| sentence.contains("per cent") || sentence.contains("at most"))
            );
        }
        for text in ["0", "-3", "nan", "0.001", "10081", "1e30"] {
            assert!(minutes(text).is_err(), "{text}");
            assert!(interval(text).is_err() || text == "10081", "{text}");
        }
        for text in ["0", "-1", "1.5", "100001", "99999999999999999999", "many"] {
            let sentence = warehouses(text).expect_err("not a possible number of warehouses");
            assert!(sentence.contains("1 to 100000"), "{sentence}");
        }
        assert!(
            warmup("-1").is_err() && warmup("warm").is_err() && think("-1").is_err() && seed("-1").is_err()
        );
        assert!(
            flash_device("raid0-8").is_err_and(|s| s.contains("known are mlc, ") && !s.contains("raid0-8,"))
        );
    }
}
