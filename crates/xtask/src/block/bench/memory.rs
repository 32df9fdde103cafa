//! DRAM of the block door: how much the resident set grows with each slot of the cache, between two sizes
//! of flash, when all slots are in use; and what does not depend on the size. Pages are zeros, and files
//! sparse.

use crate::block::rig;
use crate::programs::output;
use crate::report::write_json;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::process::Command;

#[derive(Args, Debug)]
pub(super) struct MemoryArgs {
    /// The smaller flash.
    #[arg(long, value_name = "GIB", default_value_t = 4)]
    small: u64,
    /// The larger one.
    #[arg(long, value_name = "GIB", default_value_t = 16)]
    large: u64,
    #[arg(long, value_delimiter = ',', default_values_t = ["face-gsc".to_owned()])]
    policies: Vec<String>,
}

/// Bytes for each slot that a policy may take.
const EACH_MAX: f64 = 22.0;

#[derive(Serialize)]
struct Row {
    policy: String,
    /// Bytes.
    each_slot: f64,
    besides: f64,
}

pub(super) fn measure(arguments: &MemoryArgs, json: Option<&Path>) -> Result<()> {
    let program = rig::build("entresol-block", &["--example", "memory"], "examples/memory")?;
    println!("| policy | bytes a slot | MiB besides |\n|---|---|---|");
    let mut all = Vec::new();
    for policy in &arguments.policies {
        let full = |gib: u64| -> Result<(f64, f64)> {
            let said = output(Command::new(&program).arg(gib.to_string()).arg(policy))?;
            eprintln!("{said}");
            slots_and_resident(&said).with_context(|| format!("not understood: {said}"))
        };
        let ((few, small), (many, large)) = (full(arguments.small)?, full(arguments.large)?);
        let each_slot = (large - small) / (many - few);
        let besides = small - each_slot * few;
        println!("| {policy} | {each_slot:.2} | {:.1} |", besides / f64::from(1 << 20));
        all.push(Row { policy: policy.clone(), each_slot, besides });
    }
    write_json(json, &all)?;
    match all.iter().find(|row| row.each_slot > EACH_MAX) {
        Some(row) => {
            bail!("{} takes {:.2} bytes for each slot, more than {EACH_MAX}", row.policy, row.each_slot)
        }
        None => Ok(()),
    }
}

/// The slots, and the resident set when all are in use.
fn slots_and_resident(said: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let slots = words.iter().position(|word| *word == "slots,")?.checked_sub(1)?;
    let full = words.iter().rposition(|word| *word == "bytes")?.checked_sub(1)?;
    Some((words.get(slots)?.parse().ok()?, words.get(full)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::slots_and_resident;

    #[test]
    fn the_program_is_understood() {
        let said = "4 GiB, face-gsc: 1000 slots, 1000 with a page, 900 of them newer than disk; resident 5 bytes when \
                    made, 7000 bytes when full";
        assert_eq!(slots_and_resident(said), Some((1000.0, 7000.0)));
        assert_eq!(slots_and_resident("nothing"), None);
    }
}
