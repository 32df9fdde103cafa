//! The way of a page that the buffer pool evicts, decided from the mode's route, the placement and what
//! stands above. Pure; the table is in the test.

use entresol_core::Route;

/// What a cache is, for this decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// No log stands above: the tier orders writes itself.
    pub has_no_log_above: bool,
    pub placement: Placement,
}

/// How pages are placed on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Ring,
    Slots,
    /// Slots with a directory on flash that is kept up with every page.
    SlotsWithDirectory,
}

/// What happens to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It enters the flash.
    Flash,
    /// It is written to disk, and then enters the flash as a clean page.
    DiskThenFlash,
    /// The same in the order that keeps the directory on flash true.
    DiskThenFlashWithDirectory,
    /// It is written to flash and disk in its turn, and to disk alone if `around`.
    InTurn { around: bool },
    /// Its copies in the ring are forgotten; it is written to disk if `write`.
    PastRing { write: bool },
    /// Its copies in slots are forgotten if `forget`; it is written to disk if `write`.
    PastSlots { forget: bool, write: bool },
}

/// The way of a page, `dirty` if it is newer than disk, that the mode sends along `route`.
pub(crate) fn way(route: Route, dirty: bool, kind: Kind) -> Way {
    let is_slots_with_directory = kind.placement == Placement::SlotsWithDirectory;
    match (route, kind.placement) {
        (Route::DiskThenFlash, _) if kind.has_no_log_above => Way::InTurn { around: false },
        (Route::Around { write: true, .. }, _) if kind.has_no_log_above => Way::InTurn { around: true },
        (Route::Around { write, .. }, Placement::Ring) => Way::PastRing { write },
        (Route::Around { forget, write }, _) => Way::PastSlots { forget, write },
        (_, _) if dirty && is_slots_with_directory => Way::DiskThenFlashWithDirectory,
        (Route::DiskThenFlash, _) => Way::DiskThenFlash,
        (Route::Flash, _) => Way::Flash,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;
    use std::fmt::Write;

    #[test]
    fn the_table() {
        let routes = [
            Route::Flash,
            Route::DiskThenFlash,
            Route::Around { forget: true, write: true },
            Route::Around { forget: true, write: false },
            Route::Around { forget: false, write: true },
            Route::Around { forget: false, write: false },
        ];
        let mut table = String::new();
        for has_no_log_above in [false, true] {
            for placement in [Placement::Ring, Placement::Slots, Placement::SlotsWithDirectory] {
                for route in routes {
                    let kind = Kind { has_no_log_above, placement };
                    let ways = [false, true].map(|dirty| way(route, dirty, kind));
                    let above = if has_no_log_above { "no log" } else { "a log" };
                    let line = match ways {
                        [clean, dirty] if clean == dirty => format!("{clean:?}"),
                        [clean, dirty] => format!("clean: {clean:?}, dirty: {dirty:?}"),
                    };
                    writeln!(table, "{above}, {placement:?}, {route:?} -> {line}").unwrap();
                }
            }
        }
        expect_file!["way_table.txt"].assert_eq(&table);
    }
}
