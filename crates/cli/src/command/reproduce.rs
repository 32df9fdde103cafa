//! `entresol reproduce`.

use super::prepare::{self, Outputs};
use crate::args::ReproduceArgs;
use crate::failure::Failure;
use crate::progress::Share;
use anyhow::Context as _;
use entresol_lab::report;
use entresol_lab::reproduce::{self, Context, Effort, Paper};
use std::path::PathBuf;

/// Reproduces the papers and shows their figures with ours.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let papers: Vec<Paper> = args.papers.iter().flat_map(|papers| papers.0.iter().copied()).collect();
    prepare::distinct("PAPERS", &papers, |paper| paper.name().to_owned())?;
    if let Some(folder) = args.traces.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!("--traces {}: is not a folder", folder.display())));
    }
    // Any of them may be a trace.
    let entries = args.traces.as_deref().map(std::fs::read_dir).transpose().context("--traces")?;
    let inputs: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let outputs = Outputs::prepare(args.outputs.json.as_deref(), args.outputs.html.as_deref(), &inputs)?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let mut chapters = Vec::new();
    for paper in papers {
        let bar = Share::new(paper.name(), 1);
        let context = Context {
            effort,
            seed: args.seed,
            traces: args.traces.clone(),
            progress: &|what, share| bar.tell(what, share),
        };
        chapters.push(reproduce::run(paper, &context)?);
    }
    outputs.show(&report::reproduction_report(&chapters), &chapters)
}
