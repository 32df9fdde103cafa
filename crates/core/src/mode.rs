//! Cache modes: what the driver does with a dirty page that is written. The modes in which a policy cannot
//! run are among its facts ([`crate::Facts::refusal`]).

/// The mode of a cache (docs/DESIGN.md §4). The numbers are those in a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// Dirty pages are written to flash, and to disk when they are dequeued (FaCE).
    #[default]
    WriteBack = 1,
    /// Dirty pages are written to disk at once, and enter flash clean: a loss of the flash loses no data.
    WriteThrough = 2,
    /// Dirty pages are written to disk only, and their copy on flash is forgotten. Unchanged pages enter as
    /// the policy decides.
    WriteAround = 3,
    /// As write-around, and no page enters: flash serves its pages until they are changed.
    ReadOnly = 4,
}

/// The path of a page that is evicted from DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The page is offered to the flash as it is.
    Flash,
    /// The page is written to disk, and then offered to the flash as a clean one.
    DiskThenFlash,
    /// The page is not offered to the flash.
    Around {
        /// The page is newer than its copies on flash and in staging: forget them
        /// ([`crate::Slots::bypass`]) before the page is written.
        forget: bool,
        /// The page is dirty: write it to disk.
        write: bool,
    },
}

impl Mode {
    /// The path of an evicted page. `dirty`: newer than disk; `fdirty`: newer than flash. Only pages for
    /// [`Route::Flash`] are pulled from the buffer pool, because the other evictions may wait.
    pub const fn route(self, dirty: bool, fdirty: bool) -> Route {
        match self {
            Mode::WriteThrough if dirty => Route::DiskThenFlash,
            Mode::WriteBack | Mode::WriteThrough => Route::Flash,
            Mode::WriteAround if !fdirty => Route::Flash,
            Mode::WriteAround | Mode::ReadOnly => Route::Around { forget: fdirty, write: dirty },
        }
    }

    /// Whether pages fetched from disk may enter the flash.
    pub const fn populates(self) -> bool {
        !matches!(self, Mode::ReadOnly)
    }

    /// All modes.
    pub const ALL: [Mode; 4] = [Mode::WriteBack, Mode::WriteThrough, Mode::WriteAround, Mode::ReadOnly];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::WriteBack => "write-back",
            Mode::WriteThrough => "write-through",
            Mode::WriteAround => "write-around",
            Mode::ReadOnly => "read-only",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The mode with that number in a superblock.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| *mode as u32 == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    #[test]
    fn every_page_in_every_mode() {
        let mut table = String::new();
        for mode in Mode::ALL {
            for (dirty, fdirty) in [(false, false), (false, true), (true, false), (true, true)] {
                let of_page = format!("dirty {dirty}, fdirty {fdirty}");
                writeln!(table, "{:14}{of_page:28}{:?}", mode.name(), mode.route(dirty, fdirty)).unwrap();
            }
        }
        expect![[r#"
            write-back    dirty false, fdirty false   Flash
            write-back    dirty false, fdirty true    Flash
            write-back    dirty true, fdirty false    Flash
            write-back    dirty true, fdirty true     Flash
            write-through dirty false, fdirty false   Flash
            write-through dirty false, fdirty true    Flash
            write-through dirty true, fdirty false    DiskThenFlash
            write-through dirty true, fdirty true     DiskThenFlash
            write-around  dirty false, fdirty false   Flash
            write-around  dirty false, fdirty true    Around { forget: true, write: false }
            write-around  dirty true, fdirty false    Flash
            write-around  dirty true, fdirty true     Around { forget: true, write: true }
            read-only     dirty false, fdirty false   Around { forget: false, write: false }
            read-only     dirty false, fdirty true    Around { forget: true, write: false }
            read-only     dirty true, fdirty false    Around { forget: false, write: true }
            read-only     dirty true, fdirty true     Around { forget: true, write: true }
        "#]]
        .assert_eq(&table);
    }
}
