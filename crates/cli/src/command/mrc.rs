//! `entresol mrc`.

use super::prepare::{self, Outputs};
use super::source::Source;
use crate::args::MrcArgs;
use crate::failure::Failure;
use crate::progress::Share;
use entresol_lab::mrc::{self, Curve};
use entresol_lab::replay::{Replacement, SimulationError};
use entresol_lab::report;

/// Sizes of a curve where none are asked for.
const SIZES: usize = 40;

/// Computes the curves and shows them.
pub fn run(args: &MrcArgs) -> Result<(), Failure> {
    distinct(args)?;
    let outputs =
        Outputs::prepare(args.outputs.json.as_deref(), args.outputs.html.as_deref(), &args.source.files()?)?;
    let source = Source::read(&args.source)?;
    let bar = Share::new("curves", 1).of_requests(source.requests() * args.policies.len() as u64);
    let curves = curves(args, &source, &|share| bar.show(0, share))?;
    drop(bar);
    outputs.show(&report::mrc_report(&curves), &curves)
}

fn distinct(args: &MrcArgs) -> Result<(), Failure> {
    prepare::distinct("--policy", &args.policies, |policy: &Replacement| policy.name().to_owned())?;
    prepare::distinct("--sizes", &args.sizes, u32::to_string)
}

/// The curves.
pub fn curves(
    args: &MrcArgs,
    source: &Source,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Curve>, Failure> {
    distinct(args)?;
    let workload = source.workload();
    let least = workload.drawn().map_or(1, |(rate, _)| mrc::sizes_min(rate));
    let mut sizes = args.sizes.clone();
    if sizes.is_empty() {
        sizes = mrc::usual_sizes(workload.pages() as usize, SIZES);
        sizes.retain(|size| *size >= least);
    }
    if sizes.is_empty() {
        return Err(Failure::input(format!(
            "{}: of so few pages no size can be told; sizes from {least} pages on can, and the trace has about {}",
            args.source.sampling_option(),
            workload.pages()
        )));
    }
    sizes.sort_unstable();
    let records = source.measure_from..source.records.end;
    let curves = mrc::curves(workload, &records, &args.policies, &sizes, progress);
    curves.map_err(|error| match error.downcast::<SimulationError>() {
        Ok(refused) => Failure::input(format!("{}: {refused}", args.source.sampling_option())),
        Err(error) => Failure::Run(error),
    })
}
