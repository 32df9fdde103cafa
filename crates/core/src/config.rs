//! What a partition is made of. Everything is sized once, from this.

use thiserror::Error;

/// The cache policies, by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PolicyKind {
    /// mvFIFO, page by page (FaCE §3.3, algorithm 1).
    Face = 1,
    /// mvFIFO with Group Replacement (FaCE §3.3).
    FaceGr = 2,
    /// mvFIFO with Group Second Chance (FaCE §3.3).
    FaceGsc = 3,
    /// Lazy Cleaning: LRU-2, write-back, background cleaner (FaCE §2.3, 5.3; Do et al., SIGMOD 2011).
    Lc = 4,
    /// Temperature-aware caching: on entry, write-through, the coldest region goes (FaCE §2.3, SBP §3).
    Tac = 5,
    /// As in Oracle Exadata: on entry, clean pages only, LRU (FaCE table 2).
    Exadata = 6,
    /// Local LRU; writes that miss go to disk (3LA §3.1, algorithm 1).
    Loc = 7,
    /// Global LRU: a page is in DRAM or on flash (3LA §3.2).
    Glb = 8,
    /// flashcache: set-associative, populated on every miss (SCE §2).
    Flashcache = 9,
    /// LRU, populated on every miss, for comparison.
    Lru = 10,
    /// FIFO, populated on every miss, for comparison.
    Fifo = 11,
    /// CLOCK, populated on every miss, for comparison.
    Clock = 12,
}

impl PolicyKind {
    /// All policies, in the order of the papers' tables.
    pub const ALL: [PolicyKind; 12] = [
        PolicyKind::Lc,
        PolicyKind::Face,
        PolicyKind::FaceGr,
        PolicyKind::FaceGsc,
        PolicyKind::Tac,
        PolicyKind::Exadata,
        PolicyKind::Loc,
        PolicyKind::Glb,
        PolicyKind::Flashcache,
        PolicyKind::Lru,
        PolicyKind::Fifo,
        PolicyKind::Clock,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Face => "face",
            PolicyKind::FaceGr => "face-gr",
            PolicyKind::FaceGsc => "face-gsc",
            PolicyKind::Lc => "lc",
            PolicyKind::Tac => "tac",
            PolicyKind::Exadata => "exadata",
            PolicyKind::Loc => "loc",
            PolicyKind::Glb => "glb",
            PolicyKind::Flashcache => "flashcache",
            PolicyKind::Lru => "lru",
            PolicyKind::Fifo => "fifo",
            PolicyKind::Clock => "clock",
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The policy with that number in a header or superblock.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| *policy as u32 == code)
    }

    /// Where its pages go on flash.
    pub const fn placement(self) -> Placement {
        match self {
            PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc => Placement::Log,
            _ => Placement::Slots,
        }
    }

    /// Whether pages are written to and read back from flash a group at a time, in one I/O.
    pub const fn by_group(self) -> bool {
        matches!(self, PolicyKind::FaceGr | PolicyKind::FaceGsc)
    }

    /// Whether pages that come from disk may enter: the driver reports them with [`crate::Partition::arrived`]. With the
    /// others that call changes nothing.
    pub const fn populates(self) -> bool {
        !matches!(
            self,
            PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc | PolicyKind::Lc | PolicyKind::Glb
        )
    }

    /// Whether a fetched page moves up, so that it is in DRAM or on flash: the driver reports it with
    /// [`crate::Partition::taken`].
    pub const fn exclusive(self) -> bool {
        matches!(self, PolicyKind::Glb)
    }

    /// Whether flash may hold pages newer than disk. Without it the driver writes a dirty page to disk first and hands it
    /// down clean (write-through).
    pub const fn write_back(self) -> bool {
        !matches!(self, PolicyKind::Tac | PolicyKind::Exadata)
    }

    /// What of the directory survives on flash.
    pub const fn directory(self) -> Directory {
        match self {
            PolicyKind::Face | PolicyKind::FaceGr | PolicyKind::FaceGsc => Directory::Log,
            PolicyKind::Tac => Directory::Slots,
            PolicyKind::Loc | PolicyKind::Glb => Directory::AtShutdown,
            _ => Directory::None,
        }
    }

    /// Whether a page lies in one set of slots, given by its number, and nowhere else.
    pub(crate) const fn in_sets(self) -> bool {
        matches!(self, PolicyKind::Flashcache)
    }
}

/// What of a directory survives on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// All of it, in segments and group summaries (FaCE §4).
    Log,
    /// All of it, in an entry for each slot that is changed with the slot (SBP §3, 4).
    Slots,
    /// What it was at a shutdown, until it is opened again (3LA §3.3).
    AtShutdown,
    /// Nothing.
    None,
}

/// How pages are placed on flash (DESIGN §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A ring, written only at its rear; the directory survives a crash.
    Log,
    /// In place, at any slot of the cache or of the page's set.
    Slots,
}

/// Most pages of a group.
pub const GROUP_PAGES_MAX: usize = 128;

/// Sizes and knobs of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which policy decides.
    pub policy: PolicyKind,
    /// Slots on flash; a multiple of `group_pages` with log placement.
    pub slots: u32,
    /// Pages of a group, 2 ..= 128 (64 unless there is a reason).
    pub group_pages: u32,
    /// Groups that staging holds, at least 2.
    pub staging_groups: u32,
    /// LC and flashcache: the cleaner works while more than this many per mille of the slots are dirty. FaCE does not say what it
    /// used; its table 3b, where LC saves more disk writes than GSC throughout, is only possible with a high one: on a
    /// captured PostgreSQL trace LC falls behind GSC at 500 and comes out as in the table at 900.
    pub dirty_permille_max: u32,
    /// LC: departed pages whose last access is remembered (LRU-2's retained information).
    pub history: u32,
    /// flashcache: slots of a set (its associativity).
    pub set_slots: u32,
}

/// flashcache's usual associativity (SCE §2).
const SET_SLOTS: u32 = 512;

impl Config {
    /// The usual settings for `slots` slots, rounded down to whole groups.
    pub fn new(policy: PolicyKind, slots: u32) -> Self {
        let group_pages = 64;
        let slots = slots / group_pages * group_pages;
        let history = if policy == PolicyKind::Lc { slots } else { 0 };
        let dirty_permille_max = if policy == PolicyKind::Flashcache { 200 } else { 900 };
        let set_slots = SET_SLOTS;
        Self { policy, slots, group_pages, staging_groups: 4, dirty_permille_max, history, set_slots }
    }

    /// Sets that the slots are divided into: the last one is larger if they do not divide evenly.
    pub(crate) const fn sets(&self) -> u32 {
        if !self.policy.in_sets() || self.slots < self.set_slots { 1 } else { self.slots / self.set_slots }
    }

    /// Pages that staging holds.
    pub const fn staging_pages(&self) -> u32 {
        self.group_pages.saturating_mul(self.staging_groups)
    }

    /// Fewest slots this configuration works with: in-flight dequeues and staging must never meet (see
    /// [`crate::placement`]).
    pub const fn slots_min(&self) -> u32 {
        let groups = 2 * (crate::placement::log::GROUPS_AHEAD_MIN as u32 + 2);
        self.group_pages.saturating_mul(groups).saturating_add(self.staging_pages().saturating_mul(2))
    }

    /// Says whether a partition can be built from this.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.group_pages < 2 || self.group_pages as usize > GROUP_PAGES_MAX {
            return Err(ConfigError::GroupPages { found: self.group_pages });
        }
        if self.staging_groups < 2 || self.staging_groups > 64 {
            return Err(ConfigError::StagingGroups { found: self.staging_groups });
        }
        if self.set_slots == 0 {
            return Err(ConfigError::Set { found: self.set_slots });
        }
        let behind = self.staging_pages().max(crate::policy::lists_of(self));
        let slots_max = crate::slot::LINK_MAX - behind - 1;
        if self.slots < self.slots_min() || self.slots > slots_max {
            return Err(ConfigError::Slots { found: self.slots, min: self.slots_min(), max: slots_max });
        }
        if self.policy.placement() == Placement::Log && !self.slots.is_multiple_of(self.group_pages) {
            return Err(ConfigError::PartialGroup { slots: self.slots, group_pages: self.group_pages });
        }
        if self.dirty_permille_max > 1000 {
            return Err(ConfigError::DirtyShare { found: self.dirty_permille_max });
        }
        if self.history > slots_max {
            return Err(ConfigError::History { found: self.history, max: slots_max });
        }
        Ok(())
    }
}

/// A configuration that no partition can be built from, or a region that does not hold one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Group size out of range.
    #[error("a group of {found} pages is not possible; choose 2 to 128 (64 is usual)")]
    GroupPages {
        /// Pages asked for.
        found: u32,
    },
    /// Number of staging groups out of range.
    #[error("{found} staging groups are not possible; choose 2 to 64")]
    StagingGroups {
        /// Groups asked for.
        found: u32,
    },
    /// Number of slots out of range.
    #[error(
        "a flash cache of {found} pages is not possible; with these groups it takes {min} to {max} pages"
    )]
    Slots {
        /// Slots asked for.
        found: u32,
        /// Fewest possible.
        min: u32,
        /// Most possible.
        max: u32,
    },
    /// Slots are not whole groups.
    #[error("{slots} slots are not a whole number of groups of {group_pages} pages; round the size down")]
    PartialGroup {
        /// Slots asked for.
        slots: u32,
        /// Pages of a group.
        group_pages: u32,
    },
    /// Dirty share over 100 %.
    #[error("a dirty share of {found} per mille is over 1000; choose 0 to 1000")]
    DirtyShare {
        /// Per mille asked for.
        found: u32,
    },
    /// Sets of no slots.
    #[error("a set of {found} slots is not possible; choose 1 or more (512 is usual)")]
    Set {
        /// Slots asked for.
        found: u32,
    },
    /// History too long.
    #[error("a history of {found} pages is too long; at most {max} are possible")]
    History {
        /// Entries asked for.
        found: u32,
        /// Most possible.
        max: u32,
    },
    /// The region's size does not fit the configuration.
    #[error("the region has {found} bytes, but this configuration needs {expected}")]
    RegionSize {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The region does not begin at a multiple of its alignment.
    #[error("the region does not begin at a multiple of {expected} bytes; map or allocate it so")]
    Alignment {
        /// Bytes of alignment.
        expected: usize,
    },
    /// The region is of a policy that this version does not have.
    #[error(
        "the region holds a partition of policy number {found}, which this version does not have; format it anew"
    )]
    Policy {
        /// The number that lies there.
        found: u32,
    },
    /// The region was not written by this version.
    #[error(
        "the region does not hold a cache partition (magic {found:#x}, expected {expected:#x}); format it first"
    )]
    Magic {
        /// The magic of this version.
        expected: u64,
        /// What lies there.
        found: u64,
    },
}
