//! `entresol advise`.

use super::catalogue;
use super::prepare::{self, Outputs};
use super::source::Source;
use crate::args::AdviseArgs;
use crate::failure::Failure;
use crate::progress::Share;
use entresol_core::Cache;
use entresol_lab::advise::{self, Advice, AdviceError, Goal, Question};
use entresol_lab::replay::RunConfig;
use entresol_lab::replay::device::{Catalogue, CatalogueError, MachineSpec};
use entresol_lab::report;
use std::path::PathBuf;

/// Share of the trace that warms up where nothing is said.
const WARM_UP: usize = 4;

/// Advises.
pub fn run(args: &AdviseArgs) -> Result<(), Failure> {
    distinct(args)?;
    catalogue::prices(&args.prices)?;
    let prices_file = PathBuf::from(&args.prices);
    let inputs: Vec<_> = args.source.files()?.into_iter().chain([prices_file]).collect();
    let outputs = Outputs::prepare(args.outputs.json.as_deref(), args.outputs.html.as_deref(), &inputs)?;
    let source = Source::read(&args.source)?;
    let bar = Share::new("advising", 1);
    let advice = advice(args, &source, &|share| bar.show(0, share));
    drop(bar);
    let advice = advice?;
    outputs.show_one(&report::advice_report(&advice), &advice)
}

fn distinct(args: &AdviseArgs) -> Result<(), Failure> {
    prepare::distinct("--policy", &args.policies, |cache: &Cache| cache.name().to_owned())?;
    prepare::distinct("--flash-device", &args.flash_devices, String::clone)
}

/// The advice.
pub fn advice(
    args: &AdviseArgs,
    source: &Source,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Advice, Failure> {
    distinct(args)?;
    let (prices, machine) = catalogue::prices(&args.prices)?;
    let question = question(args, &prices, &machine, source)?;
    let advice = advise::advise(source.workload(), &question, &|_, share| progress(share));
    advice.map_err(|error| match error.downcast::<AdviceError>() {
        Ok(refused) => Failure::input(named(args, &refused)),
        Err(error) => Failure::Run(error),
    })
}

/// The sentence, with the option that it is about.
fn named(args: &AdviseArgs, refused: &AdviceError) -> String {
    match refused {
        AdviceError::Budget { .. } => format!("--budget: {refused}"),
        AdviceError::Database { .. } => format!("--database-size: {refused}"),
        AdviceError::NoPrice { .. } | AdviceError::Currencies { .. } => {
            format!("--prices {}: {refused}", args.prices)
        }
        _ => refused.to_string(),
    }
}

fn question(
    args: &AdviseArgs,
    prices: &Catalogue,
    machine: &MachineSpec,
    source: &Source,
) -> Result<Question, Failure> {
    // The prices name all devices that the command line does not.
    let input = |option: &str, named: bool| {
        let option = if named { option.to_owned() } else { format!("--prices {}", args.prices) };
        move |error: CatalogueError| Failure::input(format!("{option}: {error}"))
    };
    let own_flash = !args.flash_devices.is_empty();
    let names = if own_flash { &args.flash_devices } else { &machine.flash };
    let flash =
        names.iter().map(|name| prices.flash(name).cloned().map_err(input("--flash-device", own_flash)));
    let flash_devices: Vec<_> = flash.collect::<Result<_, _>>()?;
    let disk = args.disk_device.as_deref().unwrap_or(&machine.disk);
    let memory = args.memory.as_deref().unwrap_or(&machine.memory);
    let whole = args.source.measure_from.is_none();
    let first = flash_devices
        .first()
        .ok_or_else(|| Failure::input(format!("--prices {}: names no flash device", args.prices)))?;
    let disk = prices.device(disk).map_err(input("--disk-device", args.disk_device.is_some()))?;
    let memory = prices.memory(memory).map_err(input("--memory", args.memory.is_some()))?;
    let base = RunConfig {
        replacement: args.dram.replacement,
        dram_pages: 1,
        arrival: args.load.arrival(),
        hit_ns: args.load.hit_ns(),
        whole_writes: args.dram.whole_writes,
        measure_from: if whole { source.records.end / WARM_UP } else { source.measure_from },
        ..RunConfig::new(None, (first, disk), memory, source.records.clone())
    };
    let goal = match (args.budget, args.target_latency) {
        (Some(money), _) => Goal::Budget(money),
        (None, Some(latency)) => Goal::Response(latency.0),
        (None, None) => Goal::Knee,
    };
    Ok(Question {
        base,
        flash_devices,
        caches: args.policies.clone(),
        goal,
        years_min: args.min_years,
        database_bytes: args.database_size,
    })
}
