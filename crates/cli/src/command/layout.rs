//! `entresol inspect layout`: what a flash slot costs in DRAM, from the types themselves.

use crate::failure::Failure;
use crate::output;
use entresol_core::{Config, Placement, PolicyKind, bytes_per_slot, region_bytes, sections};
use entresol_lab::report::{Column, Table, terminal, whole};
use std::fmt::Write;

/// Most bytes of DRAM for each flash slot (DESIGN §3).
fn budget(policy: PolicyKind) -> usize {
    match policy.placement() {
        Placement::Log => 16,
        Placement::Slots => 28,
    }
}

/// Prints the layout for `slots` flash slots.
pub fn run(slots: u32) -> Result<(), Failure> {
    let mut text = format!(
        "DRAM of the flash directory, index included, for {} slots of 4 KiB\n\n",
        whole(f64::from(slots))
    );
    let columns = vec![
        Column::words("policy"),
        Column::numbers("bytes a slot"),
        Column::numbers("allowed"),
        Column::numbers("region, bytes"),
        Column::numbers("% of the flash"),
    ];
    let row = |policy: PolicyKind| {
        let bytes = region_bytes(&Config::new(policy, slots));
        vec![
            policy.name().to_owned(),
            bytes_per_slot(policy).to_string(),
            budget(policy).to_string(),
            whole(bytes as f64),
            format!("{:.2}", bytes as f64 / (f64::from(slots) * 4096.0) * 100.0),
        ]
    };
    text.push_str(&terminal::render_table(&Table { columns, rows: PolicyKind::ALL.map(row).to_vec() }));
    for (policy, name) in [
        (PolicyKind::FaceGsc, "face, face-gr, face-gsc"),
        (PolicyKind::Lc, "lc (its history of departed pages is apart from the slots)"),
        (PolicyKind::Tac, "tac"),
        (PolicyKind::Flashcache, "flashcache (sets of 512 slots)"),
        (PolicyKind::Lru, "exadata, loc, glb, lru, fifo, clock"),
    ] {
        write!(text, "\nThe region of {name}, section by section\n\n")
            .expect("writing to a String cannot fail");
        text.push_str(&terminal::render_table(&sections_table(&Config::new(policy, slots))));
    }
    output::print(&text)
}

fn sections_table(config: &Config) -> Table {
    let columns = vec![
        Column::words("section"),
        Column::numbers("entries"),
        Column::numbers("bytes each"),
        Column::numbers("bytes"),
    ];
    let used = sections(config).into_iter().filter(|section| section.entries > 0);
    let rows = used
        .map(|s| {
            let numbers = [s.entries, s.entry_bytes, s.entries * s.entry_bytes].map(|n| whole(n as f64));
            std::iter::once(s.name.to_owned()).chain(numbers).collect()
        })
        .collect();
    Table { columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_keeps_to_its_budget() {
        for policy in PolicyKind::ALL {
            assert!(bytes_per_slot(policy) <= budget(policy), "{}", policy.name());
        }
    }
}
