//! docs/FORMAT.md agrees with the types.

use entresol_core::PolicyKind;
use entresol_format::tables::{assert_documented, tables};

#[test]
fn the_documentation_agrees_with_the_types() {
    assert_documented(&tables());
}

#[test]
fn the_documentation_has_the_number_of_every_policy() {
    let mut policies = PolicyKind::ALL;
    policies.sort_by_key(|policy| *policy as u32);
    let numbers = policies.map(|policy| format!("{} {}", policy as u32, policy.name())).join(", ");
    let row = format!("| `policy` | {numbers} |");
    let text = include_str!("../FORMAT.txt");
    assert!(text.contains(&row), "docs/FORMAT.md has no row with {row:?}");
}
