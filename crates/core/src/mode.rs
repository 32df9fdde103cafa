//! What the driver does with the write of a dirty page. Which modes a policy cannot run in is one of its
//! facts ([`crate::Facts::refuses`]).

/// What a write of a dirty page does (docs/DESIGN.md §4). The numbers are those in a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// To flash; to disk when it is dequeued (FaCE).
    #[default]
    WriteBack = 1,
    /// To disk at once, and clean to flash: losing the flash loses nothing.
    WriteThrough = 2,
    /// To disk alone; a copy on flash is given up. Unchanged pages enter as the policy decides.
    WriteAround = 3,
    /// As write-around, and nothing enters: the flash serves what it holds until that is changed.
    ReadOnly = 4,
}

/// Where a mode sends a page that is evicted from DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The page is offered to the flash as it is.
    Flash,
    /// The page is written to disk, and then offered to the flash as a clean one.
    DiskThenFlash,
    /// The page is not offered to the flash.
    Around {
        /// It is newer than its copies on flash and in staging: they are to be forgotten
        /// ([`crate::Partition::bypass`]) before it is written.
        forget: bool,
        /// It is newer than disk, and is written there.
        write: bool,
    },
}

impl Mode {
    /// Where an evicted page goes. `dirty`: it is newer than disk; `fdirty`: newer than flash. Only pages for
    /// [`Route::Flash`] are pulled from the buffer pool: no other eviction ends without waiting.
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
