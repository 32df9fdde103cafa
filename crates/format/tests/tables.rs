//! docs/FORMAT.md agrees with the types.

use entresol_format::tables::{assert_documented, tables};

#[test]
fn the_documentation_agrees_with_the_types() {
    assert_documented(&tables());
}
