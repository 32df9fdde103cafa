//! The flat region a partition lives in, and its attachment. All links are indices, so a region may be mapped at any
//! address, moved, or shared between processes; whoever drives it holds the partition's latch.
//!
//! | section | entries | bytes each |
//! |---|---|---|
//! | header | 1 | `size_of::<Header>()` |
//! | staged | staging frames | 24 |
//! | groups | staging groups | 16 |
//! | slots | flash slots + staging frames | 12 |
//! | index buckets | flash slots + staging frames | 4 |
//! | notes (slot placement) | flash slots + list heads | 8; 12 with a word of the policy's (LC) |
//! | history (LC) | remembered pages | 16 |
//! | history buckets (LC), temperatures (TAC) | remembered pages; flash slots | 4 |

use crate::config::{Config, ConfigError};
use crate::hits::Hits;
use crate::lists::{LINK_WORDS, NOTE_WORDS};
use crate::placement::UNITS;
use crate::policy::lc::history::Remembered;
use crate::policy::{Placement, PolicyKind};
use crate::slot::{NIL, Slot};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "ENTRCORE", little-endian, then the version of the region's layout.
const MAGIC: u64 = u64::from_le_bytes(*b"ENTRCOR3");

/// One dequeue under way (log placement).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Unit {
    /// First position of the group.
    pub first: u64,
    /// Newer copies of its pages that are not durable yet, or something before them is not: until then the slots are not
    /// released.
    pub pending: u32,
    /// 0 free, 1 being decided and destaged, 2 done.
    pub state: u32,
}

/// A staging frame.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Staged {
    pub lsn: u64,
    pub position: u64,
    /// 1 + the unit whose release waits for this page, or with sets the slot that is being emptied for it; 0: none.
    pub unit: u32,
    /// One of the constants in [`crate::staging`].
    pub state: u32,
}

/// A staging group (log placement).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Group {
    /// Frames whose copy is complete.
    pub ready: u32,
    /// Frames handed to a write job.
    pub issued: u32,
    /// Frames written and published.
    pub written: u32,
    /// 1 while a write job of the group is under way.
    pub writing: u32,
}

/// All scalars of a partition.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    magic: u64,
    /// Next position to give out.
    pub rear: u64,
    /// Log placement: all positions below are released, their slots free.
    pub released: u64,
    /// Log placement: next position to dequeue.
    pub scan: u64,
    /// First position whose staging frame is still needed; multiple of the group size with log placement.
    pub staged_front: u64,
    /// First unit that is not released, counted from the start.
    pub unit_first: u64,
    /// Units ever started.
    pub unit_next: u64,
    /// Log placement: the open group is to be closed up to this position as soon as second chances allow. Slot placement:
    /// versions before this position are written even if they are overtaken.
    pub close_at: u64,
    /// Hash of all decisions, in order.
    pub decisions: u64,
    pub units: [Unit; UNITS],
    pub policy: u32,
    pub slots: u32,
    pub group_pages: u32,
    pub staging_groups: u32,
    pub dirty_permille_max: u32,
    pub history: u32,
    /// `released mod slots`.
    pub released_slot: u32,
    /// Units being decided.
    pub undecided: u32,
    /// Slots holding the newest durable version of a page.
    pub valid: u32,
    /// Of these, newer than disk.
    pub dirty: u32,
    /// Slots holding a superseded version.
    pub superseded: u32,
    /// 1 when victims are to be pulled to fill the open group (GSC).
    pub pull: u32,
    /// Slot placement: first free slot.
    pub free_first: u32,
    /// Slot placement: free slots.
    pub free: u32,
    /// Slot placement: dequeues under way.
    pub dequeuing: u32,
    /// LC: logical clock, one tick an access.
    pub clock: u32,
    /// LC: oldest interval that has a list of its own.
    pub interval_oldest: u32,
    /// LC: the present interval.
    pub interval_newest: u32,
    /// LC: the time at which the next interval begins.
    pub interval_end: u32,
    /// Where the cleaner goes on; NIL: at the beginning.
    pub clean_cursor: u32,
    /// LC: next history entry to overwrite.
    pub history_next: u32,
    /// Staging frames in use.
    pub staged: u32,
    /// `staged_front mod staging pages`.
    pub front_frame: u32,
    /// Positions of the open group that were given out; 0: no group is open.
    pub open: u32,
    /// Slots of a set.
    pub set_slots: u32,
    /// TAC: references since temperatures were halved.
    pub references: u32,
    /// TAC: no list below this one has pages.
    pub coldest: u32,
    /// TAC: how often temperatures were halved.
    pub coolings: u32,
    /// LC: fetches for which the lists are yet to be changed.
    pub hits: Hits,
}

/// A partition attached to its region.
pub struct Partition<'r> {
    pub(crate) policy: PolicyKind,
    /// The policy's, looked up once.
    pub(crate) placement: Placement,
    pub(crate) head: &'r mut Header,
    pub(crate) staged: &'r mut [Staged],
    pub(crate) groups: &'r mut [Group],
    pub(crate) slots: &'r mut [Slot],
    pub(crate) buckets: &'r mut [u32],
    /// Words of a slot in `notes`.
    pub(crate) note_words: usize,
    pub(crate) notes: &'r mut [u32],
    pub(crate) history: &'r mut [Remembered],
    /// LC: the buckets of the history. TAC: temperatures.
    pub(crate) table: &'r mut [u32],
}

/// One line of `entresol inspect layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it is.
    pub name: &'static str,
    /// Entries of it.
    pub entries: usize,
    /// Bytes of an entry.
    pub entry_bytes: usize,
}

/// Words of a slot's note.
const fn note_words(policy: PolicyKind) -> usize {
    match (policy.placement(), policy) {
        (Placement::Log, _) => 0,
        (Placement::Slots, PolicyKind::Lc) => NOTE_WORDS,
        (Placement::Slots, _) => LINK_WORDS,
    }
}

/// The sections of a region, in order.
pub fn sections(config: &Config) -> [Section; 8] {
    let staging = config.staging_pages() as usize;
    let slots = config.slots as usize;
    let table = slots + staging;
    let words = note_words(config.policy);
    let notes = if words > 0 { slots + config.lists() as usize } else { 0 };
    let (history, by_policy) = match config.policy {
        PolicyKind::Lc => (config.history as usize, ("history buckets", config.history as usize)),
        PolicyKind::Tac => (0, ("temperatures", slots)),
        _ => (0, ("of the policy", 0)),
    };
    [
        Section { name: "header", entries: 1, entry_bytes: size_of::<Header>() },
        Section { name: "staged", entries: staging, entry_bytes: size_of::<Staged>() },
        Section { name: "groups", entries: config.staging_groups as usize, entry_bytes: size_of::<Group>() },
        Section { name: "slots", entries: table, entry_bytes: size_of::<Slot>() },
        Section { name: "index buckets", entries: table, entry_bytes: size_of::<u32>() },
        Section { name: "notes", entries: notes, entry_bytes: words * size_of::<u32>() },
        Section { name: "history", entries: history, entry_bytes: size_of::<Remembered>() },
        Section { name: by_policy.0, entries: by_policy.1, entry_bytes: size_of::<u32>() },
    ]
}

/// Bytes of the region of such a partition.
pub fn region_bytes(config: &Config) -> usize {
    total_bytes(&sections(config))
}

fn total_bytes(sections: &[Section]) -> usize {
    sections.iter().map(|s| s.entries * s.entry_bytes).sum::<usize>().next_multiple_of(8)
}

/// Bytes of DRAM that each further flash slot costs, index included; LC's history of departed pages and the heads of
/// flashcache's lists (16 bytes for each set) apart.
pub fn bytes_per_slot(policy: PolicyKind) -> usize {
    let temperature = if policy == PolicyKind::Tac { size_of::<u32>() } else { 0 };
    size_of::<Slot>() + size_of::<u32>() + note_words(policy) * size_of::<u32>() + temperature
}

fn take<T: FromBytes + IntoBytes + KnownLayout + Immutable>(
    bytes: &mut [u8],
    count: usize,
) -> (&mut [T], &mut [u8]) {
    <[T]>::mut_from_prefix_with_elems(bytes, count)
        .expect("the region's size was checked and sections keep alignment")
}

fn aligned(region: &[u8]) -> Result<(), ConfigError> {
    if region.as_ptr().addr().is_multiple_of(align_of::<Header>()) {
        return Ok(());
    }
    Err(ConfigError::Alignment { expected: align_of::<Header>() })
}

impl Header {
    fn config(&self) -> Result<Config, ConfigError> {
        Ok(Config {
            policy: PolicyKind::from_code(self.policy).ok_or(ConfigError::Policy { found: self.policy })?,
            slots: self.slots,
            group_pages: self.group_pages,
            staging_groups: self.staging_groups,
            dirty_permille_max: self.dirty_permille_max,
            history: self.history,
            set_slots: self.set_slots,
        })
    }
}

impl<'r> Partition<'r> {
    /// Makes an empty partition in `region`, which is aligned to 8 bytes and [`region_bytes`] long.
    pub fn format(region: &'r mut [u8], config: &Config) -> Result<Self, ConfigError> {
        config.validate()?;
        if region.len() != region_bytes(config) {
            return Err(ConfigError::RegionSize { expected: region_bytes(config), found: region.len() });
        }
        aligned(region)?;
        region.fill(0);
        let (head, _) =
            Header::mut_from_prefix(region).expect("the region is longer than its header and aligned");
        head.magic = MAGIC;
        head.policy = config.policy as u32;
        head.slots = config.slots;
        head.group_pages = config.group_pages;
        head.staging_groups = config.staging_groups;
        head.dirty_permille_max = config.dirty_permille_max;
        head.history = if config.policy == PolicyKind::Lc { config.history } else { 0 };
        head.set_slots = config.set_slots;
        head.free_first = NIL;
        head.clean_cursor = NIL;
        let mut partition = Self::attach(region)?;
        partition.buckets.fill(NIL);
        if config.policy == PolicyKind::Lc {
            partition.table.fill(NIL);
        }
        partition.slots.iter_mut().for_each(Slot::clear);
        partition.init_slots();
        Ok(partition)
    }

    /// Attaches to a partition made by [`Partition::format`], by whatever process, at whatever address.
    pub fn attach(region: &'r mut [u8]) -> Result<Self, ConfigError> {
        aligned(region)?;
        let found = region.len();
        let short = ConfigError::RegionSize { expected: size_of::<Header>(), found };
        let (head, rest) = Header::mut_from_prefix(region).map_err(|_| short)?;
        if head.magic != MAGIC {
            return Err(ConfigError::Magic { expected: MAGIC, found: head.magic });
        }
        let config = head.config()?;
        config.validate()?;
        let sections = sections(&config);
        let expected = total_bytes(&sections);
        if found != expected {
            return Err(ConfigError::RegionSize { expected, found });
        }
        let [_, staged, groups, slots, buckets, notes, history, table] = sections.map(|s| s.entries);
        let note_words = note_words(config.policy);
        let (staged, rest) = take(rest, staged);
        let (groups, rest) = take(rest, groups);
        let (slots, rest) = take(rest, slots);
        let (buckets, rest) = take(rest, buckets);
        let (notes, rest) = take(rest, notes * note_words);
        let (history, rest) = take(rest, history);
        let (table, _) = take(rest, table);
        Ok(Self {
            policy: config.policy,
            placement: config.policy.placement(),
            head,
            staged,
            groups,
            slots,
            buckets,
            note_words,
            notes,
            history,
            table,
        })
    }

    /// What the partition was made from.
    pub fn config(&self) -> Config {
        self.head.config().expect("the header was checked when the region was attached")
    }

    #[inline]
    pub(crate) fn policy(&self) -> PolicyKind {
        self.policy
    }
}
