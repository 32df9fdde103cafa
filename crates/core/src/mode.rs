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

impl Mode {
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
