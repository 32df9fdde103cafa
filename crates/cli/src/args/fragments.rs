//! SCE's knobs.

use super::values;
use clap::Args;
use entresol_lab::replay::FragmentKnobs;

/// Knobs of `sce`: "the fragment size and the number of cache population threads" (SCE §6), and their pace.
#[derive(Debug, Args)]
#[command(next_help_heading = "SCE")]
pub struct FragmentArgs {
    /// Pages of a fragment, 1 to 256 [default: 1 MiB, halved while fewer than 64 fragments fit on flash]
    #[arg(long, value_name = "PAGES", value_parser = values::fragment_pages, allow_negative_numbers = true)]
    pub fragment_pages: Option<u32>,
    /// Workers that populate the flash in the background [default: 4]
    #[arg(long, value_name = "N", value_parser = values::population_workers, allow_negative_numbers = true)]
    pub population_workers: Option<u32>,
    /// Populations begun in a thousand references at most, when nothing hits and all flash is free [default:
    /// such that about four pages are populated in a reference: 16 for fragments of 256 pages]
    #[arg(long, value_name = "PERMILLE", value_parser = values::population_pace, allow_negative_numbers = true)]
    pub population_pace: Option<u32>,
}

impl FragmentArgs {
    /// The option that was given first, if any was.
    pub fn given(&self) -> Option<&'static str> {
        [
            (self.fragment_pages, "--fragment-pages"),
            (self.population_workers, "--population-workers"),
            (self.population_pace, "--population-pace"),
        ]
        .into_iter()
        .find_map(|(value, option)| value.map(|_| option))
    }

    /// As the lab wants them.
    pub fn knobs(&self) -> FragmentKnobs {
        FragmentKnobs {
            fragment_pages: self.fragment_pages,
            workers: self.population_workers,
            pace_permille: self.population_pace,
        }
    }
}
