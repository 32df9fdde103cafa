//! docs/FORMAT.md says what the types say.

use entresol_format::tables::{Field, tables};

fn documented(text: &str, heading: &str) -> Vec<(usize, usize, String)> {
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != heading || !line.starts_with('#'));
    assert!(lines.next().is_some(), "docs/FORMAT.md has no heading {heading:?}");
    let rows = lines.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{heading}: {row}"));
        (number(cells[1]), number(cells[2]), cells[3].trim_matches('`').to_owned())
    })
    .collect()
}

#[test]
fn the_documentation_agrees_with_the_types() {
    let text = include_str!("../../../docs/FORMAT.md");
    for table in tables() {
        let typed: Vec<_> = table
            .fields
            .iter()
            .map(|Field { offset, bytes, name }| (*offset, *bytes, (*name).to_owned()))
            .collect();
        assert_eq!(documented(text, table.heading), typed, "{}", table.heading);
        // Field behind field, nothing between.
        for pair in table.fields.windows(2) {
            assert_eq!(pair[0].offset + pair[0].bytes, pair[1].offset, "{}: {}", table.heading, pair[1].name);
        }
    }
}
