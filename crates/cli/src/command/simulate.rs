//! `entresol simulate`.

use super::catalogue;
use super::prepare::{self, Outputs};
use super::source::Source;
use crate::args::{ALL_POLICIES, SimulateArgs};
use crate::failure::Failure;
use crate::progress::Share;
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_engine::DailyWrites;
use entresol_lab::replay::device::{Catalogue, DeviceSpec, MemorySpec};
use entresol_lab::replay::{self, FragmentKnobs, Replacement, RunConfig};
use entresol_lab::report;

/// DRAM where nothing is said, in per cent of the trace's pages.
const DRAM_PERCENT: f64 = 2.0;

/// Simulates and shows the results.
pub fn run(args: &SimulateArgs) -> Result<(), Failure> {
    checked(args)?;
    let inputs: Vec<_> = args.source.files()?.into_iter().chain(args.devices.clone()).collect();
    let outputs = Outputs::prepare(args.outputs.json.as_deref(), args.outputs.html.as_deref(), &inputs)?;
    let source = Source::read(&args.source)?;
    let configs = configs(args, &source)?;
    let requests = source.requests() * configs.len() as u64;
    let bar = Share::new("simulating", configs.len()).of_requests(requests);
    let results = replay::simulate(source.workload(), &configs, &|run, share| bar.show(run, share))?;
    drop(bar);
    outputs.show(&report::simulation_report(&results), &results)
}

/// What the options say without the trace.
struct Checked {
    machine: Machine,
    levels: Vec<(Option<Cache>, Replacement)>,
    knobs: FragmentKnobs,
}

/// Everything that can be refused without the trace is refused here.
fn checked(args: &SimulateArgs) -> Result<Checked, Failure> {
    prepare::distinct("--flash-percent", &args.flash_percent, f64::to_string)?;
    prepare::distinct("--flash-pages", &args.flash_pages, u32::to_string)?;
    prepare::distinct("--mode", &args.mode, |mode: &Mode| mode.name().to_owned())?;
    let machine = Machine::of(args)?;
    let levels = levels(args)?;
    let sce = levels.iter().any(|(flash_layer, _)| *flash_layer == Some(Cache::Fragments));
    let knobs = prepare::knobs(&args.fragments, sce, "--policy")?;
    let is_lc = |(layer, _): &(Option<Cache>, Replacement)| *layer == Some(Cache::Policy(PolicyKind::Lc));
    prepare::distinct("--log-bound", &args.log.log_bound, f64::to_string)?;
    let keeps = |(layer, _): &(Option<Cache>, Replacement)| {
        layer.is_some_and(|cache| modes(args, cache).iter().any(|mode| replay::may_keep_log(cache, *mode)))
    };
    if !args.log.log_bound.is_empty() && !levels.iter().any(keeps) {
        return Err(Failure::input(
            "--log-bound: none of these policies has pages in a log on flash that the disk lacks; give face, \
             face-gr, face-gsc or reuse, in write-back mode"
                .to_owned(),
        ));
    }
    prepare::lc_knobs(&args.lc, levels.iter().any(is_lc), "--policy")?;
    Ok(Checked { machine, levels, knobs })
}

/// The runs that are asked for, all of which are possible.
pub fn configs(args: &SimulateArgs, source: &Source) -> Result<Vec<RunConfig>, Failure> {
    let Checked { machine, levels, knobs } = checked(args)?;
    let configs = runs(args, &machine, &levels, knobs, source);
    for config in &configs {
        source.workload().validate(config).map_err(|error| Failure::input(error.to_string()))?;
    }
    Ok(configs)
}

/// The layers of pages.
struct Machine {
    flash: DeviceSpec,
    disk: DeviceSpec,
    memory: MemorySpec,
}

impl Machine {
    fn of(args: &SimulateArgs) -> Result<Self, Failure> {
        let catalogue = match &args.devices {
            None => Catalogue::builtin(),
            Some(path) => catalogue::read("--devices", path)?,
        };
        let input = |option: &str| {
            let option = option.to_owned();
            move |error| Failure::input(format!("{option}: {error}"))
        };
        Ok(Self {
            flash: catalogue.flash(&args.flash_device).map_err(input("--flash-device"))?.clone(),
            disk: catalogue.device(&args.disk_device).map_err(input("--disk-device"))?.clone(),
            memory: catalogue.memory(&args.memory).map_err(input("--memory"))?.clone(),
        })
    }
}

/// The meaning of each policy name: a flash layer, or a replacement of DRAM where there is no flash.
fn levels(args: &SimulateArgs) -> Result<Vec<(Option<Cache>, Replacement)>, Failure> {
    let flash = !args.flash_percent.is_empty() || !args.flash_pages.is_empty();
    let of = |name: &String| match (Cache::from_name(name), Replacement::from_name(name)) {
        _ if name == replay::NO_CACHE => Ok((None, args.dram.replacement)),
        (_, Some(replacement)) if !flash => Ok((None, replacement)),
        (Some(cache), _) if flash => Ok((Some(cache), args.dram.replacement)),
        (Some(_), _) => Err(Failure::input(format!(
            "--policy {name}: there is no flash; say how much with --flash-percent or --flash-pages"
        ))),
        (None, _) => Err(Failure::input(format!(
            "--policy {name}: is a replacement policy of DRAM only; leave the flash sizes out"
        ))),
    };
    let policies = policies(args);
    prepare::distinct("--policy", &policies, String::clone)?;
    policies.iter().map(of).collect()
}

/// The names, with those that `all` stands for.
fn policies(args: &SimulateArgs) -> Vec<String> {
    let named = |name: &String| match name == ALL_POLICIES {
        true => PolicyKind::ALL.map(|policy| policy.name().to_owned()).to_vec(),
        false => vec![name.clone()],
    };
    args.policies.iter().flat_map(named).collect()
}

/// The modes in which a cache runs.
fn modes(args: &SimulateArgs, cache: Cache) -> Vec<Mode> {
    if args.mode.is_empty() { vec![cache.usual_mode()] } else { args.mode.clone() }
}

/// A run without flash once, policies at every size in every mode, or in their usual one.
fn runs(
    args: &SimulateArgs,
    machine: &Machine,
    levels: &[(Option<Cache>, Replacement)],
    fragments: FragmentKnobs,
    source: &Source,
) -> Vec<RunConfig> {
    let pages = source.workload().pages() as f64;
    let share = |percent: f64| (pages * percent / 100.0).round().min(f64::from(u32::MAX - 1)) as u32;
    let dram = args.dram_pages.unwrap_or_else(|| share(args.dram_percent.unwrap_or(DRAM_PERCENT)).max(1));
    let mut flash = args.flash_pages.clone();
    flash.extend(args.flash_percent.iter().map(|percent| share(*percent)));
    let config =
        |flash_layer: Option<Cache>, replacement: Replacement, mode: Mode, flash_pages: u32| RunConfig {
            mode,
            replacement,
            dram_pages: dram,
            flash_pages,
            shadows: args.shadows,
            switches: args.switch,
            fragments,
            lc: args.lc.knobs(),
            arrival: args.load.arrival(),
            hit_ns: args.load.hit_ns(),
            whole_writes: args.dram.whole_writes,
            exact_devices: args.exact_devices,
            measure_from: source.measure_from,
            ..RunConfig::new(
                flash_layer,
                (&machine.flash, &machine.disk),
                &machine.memory,
                source.records.clone(),
            )
        };
    let mut configs = Vec::new();
    for (flash_layer, replacement) in levels {
        let Some(cache) = flash_layer else {
            configs.push(config(None, *replacement, Mode::WriteBack, 0));
            continue;
        };
        let no_budget = [DailyWrites::Unlimited];
        // Of the others, none would do otherwise.
        let weighs = matches!(cache, Cache::Policy(policy) if policy.facts().weighs_costs);
        let budgets = if weighs { &args.flash_writes_per_day[..] } else { &no_budget };
        for mode in modes(args, *cache) {
            let mut logs = args.log.kept();
            logs.retain(|log| log.is_none() || replay::may_keep_log(*cache, mode));
            for pages in &flash {
                let one = config(*flash_layer, *replacement, mode, *pages);
                for (budget, log) in
                    budgets.iter().flat_map(|budget| logs.iter().map(move |log| (budget, log)))
                {
                    configs.push(RunConfig { flash_writes_per_day: *budget, keep_log: *log, ..one.clone() });
                }
            }
        }
    }
    configs
}
