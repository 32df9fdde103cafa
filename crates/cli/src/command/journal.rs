//! `entresol volume journal`, and the list of `entresol volume status --all`.

use super::volume::{opening, read};
use crate::args::Journal;
use crate::failure::Failure;
use crate::output;
use entresol_block::{
    JournalReport, JournalState, accept_journal, go_without_journal, journals, remove_journal,
};
use std::fmt::Write as _;

/// Requests for a journal.
pub fn run(what: &Journal) -> Result<(), Failure> {
    match what {
        Journal::Accept { config } => {
            let writes = accept_journal(&read(config)?).map_err(opening)?;
            let shown = config.display();
            output::print(&format!(
                "the journal is this volume's: `entresol serve {shown}` carries out its {writes} acknowledged writes\n"
            ))
        }
        Journal::Without { config } => match go_without_journal(&read(config)?).map_err(opening)? {
            true => output::print(
                "the volume continues without its journal: acknowledged writes that were not flushed may be missing\n",
            ),
            false => output::print("the disk's label names no journal: there is nothing to go without\n"),
        },
        Journal::Remove { path, force } => {
            let removed = remove_journal(path, *force).map_err(opening)?;
            output::print(&format!("removed {}, {} bytes\n", path.display(), removed.bytes))
        }
    }
}

fn meaning(state: JournalState) -> &'static str {
    match state {
        JournalState::Held => "in use by a server",
        JournalState::Needed => "needed: the next start of its server carries its writes out",
        JournalState::Unknown => "its volume's label cannot be read: is the volume gone, or not mounted?",
        JournalState::Stale => "not needed: its volume was opened without it since",
        JournalState::Empty => "not needed: nothing is in it",
        JournalState::AnotherVersion => "of another version of entresol",
    }
}

/// All journals in the usual folder.
pub fn list(json: bool) -> Result<(), Failure> {
    let all = journals();
    if json {
        let text = serde_json::to_string_pretty(&all).map_err(anyhow::Error::from)?;
        return output::print(&format!("{text}\n"));
    }
    let mut text = String::new();
    for JournalReport { path, bytes, state, volume, writes } in &all {
        _ = writeln!(text, "{}\n  {bytes} bytes, {}", path.display(), meaning(*state));
        if let Some(volume) = volume {
            let (name, label, disk) = (&volume.name, volume.label.display(), volume.disk.display());
            _ = writeln!(text, "  volume {name}, label {label}, disk {disk}");
        }
        if let Some(writes) = writes.filter(|writes| *writes > 0) {
            _ = writeln!(text, "  {writes} acknowledged writes");
        }
    }
    match all.is_empty() {
        true => text.push_str("no journals of this user under /dev/shm\n"),
        false => text.push_str("to remove one: entresol volume journal remove PATH\n"),
    }
    output::print(&text)
}
