//! From options to an experiment: everything is validated here, before any work.

use crate::args::{FragmentArgs, LcArgs, MachineArgs};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use entresol_core::{Config, PolicyKind, System};
use entresol_device::held;
use entresol_engine::DailyWrites;
use entresol_lab::bench;
use entresol_lab::config::{BenchConfig, RealPaths, Redo, Run, Warmup};
use entresol_lab::replay::{FragmentKnobs, LcKnobs};
use entresol_lab::report::{self, Report, html, terminal};
use entresol_store::{FlashLoss, Replacement};
use serde::Serialize;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most pages of 4 KiB that a warehouse takes when loaded, items included.
const WAREHOUSE_PAGES_MAX: f64 = 24_000.0;
/// Bytes of memory of a simulated experiment for each warehouse: the loaded database and the changes of two
/// runs.
const WAREHOUSE_MEMORY: u64 = 150 << 20;

/// Refuses a list that names the same thing twice.
pub fn distinct<T: PartialEq>(
    option: &str,
    values: &[T],
    show: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    for (index, value) in values.iter().enumerate() {
        if values[..index].contains(value) {
            return Err(Failure::input(format!("{option}: {} is named twice; name it once", show(value))));
        }
    }
    Ok(())
}

/// Whether the log is kept so that the flash may be lost, in a simulation.
fn flash_loss(args: &MachineArgs) -> Result<FlashLoss, Failure> {
    let Some(bytes) = args.keep_log else { return Ok(FlashLoss::Fatal) };
    let (least, most) = bench::kept_log_bytes();
    let log_bytes = bytes as u64;
    match (least..=most).contains(&log_bytes) {
        true => Ok(FlashLoss::Survive { log_bytes }),
        false => Err(Failure::input(format!(
            "--keep-log: {log_bytes} bytes of log cannot be kept; the simulated log keeps {least} to {most}"
        ))),
    }
}

/// The experiment's configuration.
pub fn config(
    args: &MachineArgs,
    systems: &[System],
    measured: Duration,
    checkpoint_interval: Duration,
) -> Result<BenchConfig, Failure> {
    Ok(BenchConfig {
        warehouses: args.warehouses,
        clients: args.clients,
        dram_percent: args.dram_percent,
        replacement: args.replacement,
        flash_device: args.flash_device.clone(),
        disk_device: args.disk_device.clone(),
        fragments: knobs(&args.fragments, systems.contains(&System::Fragments), "--system")?,
        lc: lc_knobs(&args.lc, systems.contains(&System::Cached(PolicyKind::Lc)) && !args.real, "--system")?,
        keeps_slots: args.keep_slots,
        flash_loss: flash_loss(args)?,
        pulls: true,
        flash_writes_per_day: DailyWrites::Unlimited,
        measured,
        warmup: args.warmup,
        checkpoint_interval,
        redo: Redo::Usual,
        think: args.think_ms,
        seed: args.seed,
        real: real(args)?,
    })
}

/// SCE's knobs, which have no meaning where it is not named with `option`.
pub fn knobs(args: &FragmentArgs, named: bool, option: &str) -> Result<FragmentKnobs, Failure> {
    match args.given() {
        Some(knob) if !named => {
            let known = System::Fragments.name();
            Err(Failure::input(format!("{knob}: only {known} has fragments; name it with {option}")))
        }
        _ => Ok(args.knobs()),
    }
}

/// LC's knobs, which have no meaning where it is not named with `option`, and which real devices do not have.
pub fn lc_knobs(args: &LcArgs, possible: bool, option: &str) -> Result<LcKnobs, Failure> {
    match args.given() {
        Some(knob) if !possible => Err(Failure::input(format!(
            "{knob}: only lc has it, on modelled devices; name lc with {option}, without --real"
        ))),
        _ => Ok(args.knobs()),
    }
}

fn real(args: &MachineArgs) -> Result<Option<RealPaths>, Failure> {
    let (true, Some(flash), Some(disk), Some(log)) = (args.real, &args.flash, &args.disk, &args.log) else {
        return Ok(None);
    };
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in [("--flash", flash), ("--disk", disk), ("--log", log)] {
        let place = usable(option, path, args.overwrite)?;
        if let Some((other, _)) = seen.iter().find(|(_, taken)| *taken == place) {
            let shown = path.display();
            return Err(Failure::input(format!(
                "{option} {shown}: is the same as {other}; give three different paths"
            )));
        }
        seen.push((option, place));
    }
    Ok(Some(RealPaths { flash: flash.clone(), disk: disk.clone(), log: log.clone() }))
}

/// Where a path leads, if it can be used as a device and nothing of value is lost.
fn usable(option: &str, path: &Path, overwrite: bool) -> Result<PathBuf, Failure> {
    let refuse = |why: String| Failure::input(format!("{option} {}: {why}", path.display()));
    let Ok(place) = path.canonicalize() else {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(|_| {
            refuse(format!("the folder {} does not exist; create it first", folder.display()))
        })?;
        let name = path.file_name().ok_or_else(|| refuse("does not name a file".into()))?;
        return Ok(folder.join(name));
    };
    let kind = place.metadata().map_err(|error| refuse(format!("cannot be examined ({error})")))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(refuse("is neither a regular file nor a block device".into()));
    }
    let held = if overwrite { None } else { held(&place).map_err(|error| refuse(error.to_string()))? };
    match held {
        None => Ok(place),
        Some(what) => Err(refuse(format!("holds {what}; give another path, or --overwrite to lose it"))),
    }
}

/// Refuses what cannot work or would not fit: flash caches of too few pages, and databases larger than
/// memory.
pub fn sizes(config: &BenchConfig, runs: &[Run]) -> Result<(), Failure> {
    let pages_max = f64::from(config.warehouses) * WAREHOUSE_PAGES_MAX;
    for run in runs {
        let slots = (pages_max * run.flash_percent / 100.0).min(f64::from(u32::MAX)) as u32;
        let System::Cached(policy) = run.system else {
            fragments(run, config, slots)?;
            continue;
        };
        let cache = Config::new(policy, slots);
        let share = format!(
            "--flash-percent {}: of {} warehouses that is about",
            run.flash_percent, config.warehouses
        );
        if cache.slots < cache.slots_min() {
            return Err(Failure::input(format!(
                "{share} {slots} pages, and a flash cache has at least {}; choose a larger share or more --warehouses",
                cache.slots_min()
            )));
        }
        if let Err(error) = cache.validate() {
            return Err(Failure::input(format!(
                "{share} {slots} pages ({error}); choose another share or other --warehouses"
            )));
        }
    }
    let needed = u64::from(config.warehouses) * WAREHOUSE_MEMORY;
    match memory_available() {
        Some(available) if config.real.is_none() && needed > available => Err(Failure::input(format!(
            "--warehouses {}: a simulated run takes about {} MiB of memory, and {} MiB are available; at most {} warehouses fit",
            config.warehouses,
            needed >> 20,
            available >> 20,
            available / WAREHOUSE_MEMORY
        ))),
        _ => Ok(()),
    }
}

/// Refuses a cache of fragments that cannot be.
fn fragments(run: &Run, config: &BenchConfig, pages: u32) -> Result<(), Failure> {
    if run.system != System::Fragments {
        return Ok(());
    }
    bench::fragment_options(config.fragments, pages).validate().map_err(|error| {
        Failure::input(format!(
            "--flash-percent {}: of {} warehouses that is about {pages} pages ({error}); choose another share or other \
             --warehouses",
            run.flash_percent, config.warehouses
        ))
    })
}

/// Bytes of memory that the system could give now, where it tells.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The part of the configuration that results do not carry, for the report.
pub fn shown(config: &BenchConfig) -> Vec<(String, String)> {
    let replacement = match config.replacement {
        Replacement::Lru => "lru",
        Replacement::Clock => "clock",
    };
    let mut rows = vec![
        ("DRAM replacement".to_owned(), replacement.to_owned()),
        ("think time".to_owned(), format!("{} ms", config.think.as_millis())),
    ];
    if config.warmup == Warmup::Auto {
        let when = "when the flash cache has been filled three times over, sce's when it is full and its hit rate stands \
                    still";
        rows.push(("warm-up ends".into(), when.into()));
    }
    let knobs = config.fragments;
    for (knob, value) in [
        ("pages of a fragment", knobs.fragment_pages),
        ("population workers", knobs.workers),
        ("populations in a thousand accesses, at most", knobs.pace_permille),
        ("history of lc, % of the slots", config.lc.history_percent),
        ("dirty slots of lc, per mille", config.lc.dirty_permille),
    ] {
        rows.extend(value.map(|value| (knob.to_owned(), value.to_string())));
    }
    if config.keeps_slots {
        rows.push(("slots survive a crash".to_owned(), "where the policy can do so".to_owned()));
    }
    if let FlashLoss::Survive { log_bytes } = config.flash_loss {
        rows.push(("log kept for a lost flash".to_owned(), format!("{log_bytes} bytes")));
    }
    if let Some(real) = &config.real {
        rows.push(("log".into(), real.log.display().to_string()));
    }
    rows
}

/// The devices of an experiment on real ones, which no result may be written over.
pub fn devices(machine: &MachineArgs) -> Vec<PathBuf> {
    [&machine.flash, &machine.disk, &machine.log].into_iter().flatten().cloned().collect()
}

/// Destinations of results other than the terminal.
pub struct Outputs {
    json: Option<OutputFile>,
    html: Option<OutputFile>,
}

impl Outputs {
    /// Makes sure that the files can be written, and that the command reads none of them (`inputs`).
    pub fn prepare(json: Option<&Path>, html: Option<&Path>, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let file = |option, path: Option<&Path>| {
            path.map(|path| OutputFile::prepare(option, path, inputs)).transpose()
        };
        let outputs = Self { json: file("--json", json)?, html: file("--html", html)? };
        match (&outputs.json, &outputs.html) {
            (Some(json), Some(html)) if json.is(html) => {
                Err(Failure::input("--html: is the same file as --json; give two different paths"))
            }
            _ => Ok(outputs),
        }
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &OutputFile> {
        self.json.iter().chain(&self.html)
    }

    /// Prints the report and writes the files.
    pub fn show<T: Serialize>(&self, report: &Report, results: &[T]) -> Result<(), Failure> {
        self.show_as(report, &report::json(results).map_err(anyhow::Error::from)?)
    }

    /// As [`Outputs::show`], with one object instead of an array.
    pub fn show_one<T: Serialize>(&self, report: &Report, result: &T) -> Result<(), Failure> {
        self.show_as(report, &report::json_object(result).map_err(anyhow::Error::from)?)
    }

    fn show_as(&self, report: &Report, json: &[u8]) -> Result<(), Failure> {
        if let Some(file) = &self.json {
            file.write(json)?;
        }
        if let Some(file) = &self.html {
            file.write(html::render(report).as_bytes())?;
        }
        output::print(&terminal::render(report, output::colour(), output::widths()))
    }
}

/// Exit status 1 where TPC-C's consistency conditions do not hold.
pub fn consistent(broken: &[String]) -> Result<(), Failure> {
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "TPC-C's consistency conditions do not hold after: {}; the database was damaged, do not trust these results and report the seed",
        broken.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_things_once() {
        assert!(distinct("--flash-percent", &[4, 8], i32::to_string).is_ok());
        let twice = distinct("--flash-percent", &[4, 8, 4], i32::to_string);
        assert!(
            matches!(twice, Err(Failure::Input(s)) if s == "--flash-percent: 4 is named twice; name it once")
        );
    }

    #[test]
    fn what_is_not_ours_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("precious");
        std::fs::write(&path, "letters to a friend").expect("a writable folder");
        assert!(
            matches!(usable("--disk", &path, false), Err(Failure::Input(s)) if s.contains("--overwrite"))
        );
        assert!(usable("--disk", &path, true).is_ok());
        for worthless in [&b""[..], &[0; 4096]] {
            std::fs::write(&path, worthless).expect("a writable folder");
            assert!(usable("--disk", &path, false).is_ok());
        }
        let mut database = [0; 4096];
        database[..8].copy_from_slice(b"ENTRDISK");
        std::fs::write(&path, database).expect("a writable folder");
        let refused = usable("--flash", &path, false);
        assert!(
            matches!(refused, Err(Failure::Input(s)) if s.contains("the disk of a database of Entresol"))
        );
        assert!(matches!(usable("--disk", folder.path(), true), Err(Failure::Input(_))));
        assert!(matches!(usable("--disk", &folder.path().join("no/disk"), true), Err(Failure::Input(_))));
    }
}
