//! LC's knobs.

use super::values;
use clap::Args;
use entresol_lab::replay::LcKnobs;

/// What LC remembers, in per cent of the slots.
fn history(text: &str) -> Result<u32, String> {
    values::count(text, "per cent of the slots", 0..=100)
}

/// LC's dirty share.
fn dirty(text: &str) -> Result<u32, String> {
    values::count(text, "per mille of the slots", 0..=1000)
}

/// Knobs of `lc`: how much it remembers, and when its cleaner works.
#[derive(Debug, Args)]
#[command(next_help_heading = "LC")]
pub struct LcArgs {
    /// Evicted pages whose last reference LC remembers, in per cent of the flash slots [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = history, allow_negative_numbers = true)]
    pub lc_history: Option<u32>,
    /// LC's cleaner works while more than so many per mille of the flash slots are dirty [default: 900]
    #[arg(long, value_name = "PERMILLE", value_parser = dirty, allow_negative_numbers = true)]
    pub lc_dirty: Option<u32>,
}

impl LcArgs {
    /// The option that was given first, if any was.
    pub fn given(&self) -> Option<&'static str> {
        let options = [(self.lc_history, "--lc-history"), (self.lc_dirty, "--lc-dirty")];
        options.into_iter().find_map(|(value, option)| value.map(|_| option))
    }

    /// As the lab wants them.
    pub fn knobs(&self) -> LcKnobs {
        LcKnobs { history_percent: self.lc_history, dirty_permille: self.lc_dirty }
    }
}
