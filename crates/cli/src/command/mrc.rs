//! `entresol mrc`.

use super::prepare::{self, Outputs};
use super::source::Source;
use crate::args::MrcArgs;
use crate::failure::Failure;
use crate::progress::Share;
use entresol_lab::replay::Replacement;
use entresol_lab::{mrc, report};

/// Sizes of a curve where none are asked for.
const SIZES: usize = 40;

/// Computes the curves and shows them.
pub fn run(args: &MrcArgs) -> Result<(), Failure> {
    prepare::distinct("--policy", &args.policies, |policy: &Replacement| policy.name().to_owned())?;
    prepare::distinct("--sizes", &args.sizes, u32::to_string)?;
    let outputs = Outputs::prepare(args.outputs.json.as_deref(), args.outputs.html.as_deref())?;
    let source = Source::read(&args.source)?;
    let mut sizes = args.sizes.clone();
    if sizes.is_empty() {
        sizes = mrc::usual_sizes(source.trace.unique_pages(), SIZES);
    }
    sizes.sort_unstable();
    let requests = &source.trace.requests[source.measure_from..source.records.end];
    let bar = Share::new("curves", 1);
    let curves = mrc::curves(&source.trace, requests, &args.policies, &sizes, &|share| bar.show(0, share))?;
    drop(bar);
    outputs.show(&report::mrc_report(&curves), &curves)
}
