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
//! | nodes (slot placement) | flash slots + list heads | 8, and the policy's note |
//! | the policy's own ([`Memory`]) | | by their types |

use crate::config::{Config, ConfigError};
use crate::hits::Hits;
use crate::lists::node_words;
use crate::placement::UNITS;
use crate::policy::{Kept, Memory, Placement, Policy, PolicyKind, with_policy};
use crate::sections::{Carver, Section, SectionPlan};
use crate::slot::{NIL, Slot};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "ENTRCORE", little-endian, then the version of the region's layout.
const MAGIC: u64 = u64::from_le_bytes(*b"ENTRCOR4");

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
    /// Where the cleaner goes on; NIL: at the beginning.
    pub clean_cursor: u32,
    /// Staging frames in use.
    pub staged: u32,
    /// `staged_front mod staging pages`.
    pub front_frame: u32,
    /// Positions of the open group that were given out; 0: no group is open.
    pub open: u32,
    /// Slots of a set.
    pub set_slots: u32,
    /// Fetches for which the lists are yet to be changed.
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
    /// Words of a node.
    pub(crate) node_words: usize,
    pub(crate) nodes: &'r mut [u32],
    /// What the policy keeps for itself.
    pub(crate) kept: Kept<'r>,
}

const STAGED: SectionPlan = SectionPlan::many::<Staged>("staged", Config::staging_pages);
const GROUPS: SectionPlan = SectionPlan::many::<Group>("groups", |config| config.staging_groups);
const SLOTS: SectionPlan = SectionPlan::many::<Slot>("slots", |config| config.slots + config.staging_pages());
const BUCKETS: SectionPlan = SectionPlan::many::<u32>("index buckets", SLOTS.entries);

/// The nodes of the slots and of the lists of policy `P`.
const fn nodes<P: Policy>() -> SectionPlan {
    let entries: fn(&Config) -> u32 = match P::FACTS.placement {
        Placement::Log => |_| 0,
        Placement::Slots => |config| config.slots + P::FACTS.lists.count(config),
    };
    SectionPlan { name: "nodes", entries, entry_bytes: node_words::<P>() * size_of::<u32>() }
}

/// The sections that all policies have, in order.
const fn shared_sections<P: Policy>() -> [SectionPlan; 6] {
    [SectionPlan::one::<Header>("header"), STAGED, GROUPS, SLOTS, BUCKETS, nodes::<P>()]
}

/// The sections of the policy, in order.
const fn own_sections<P: Policy>() -> &'static [SectionPlan] {
    <P::Memory<'static> as Memory<'static>>::SECTIONS
}

/// The sections of a region, in order: header, staged, groups, slots, index buckets, nodes, and those of the policy.
pub fn sections(config: &Config) -> impl Iterator<Item = Section> + use<> {
    let (shared, own) = with_policy!(config.policy, P => (shared_sections::<P>(), own_sections::<P>()));
    let config = *config;
    shared.into_iter().chain(own.iter().copied()).map(move |plan| plan.section(&config))
}

/// Bytes of the region of such a partition.
pub fn region_bytes(config: &Config) -> usize {
    let bytes = |plans: &[SectionPlan]| plans.iter().map(|plan| plan.bytes(config)).sum::<usize>();
    let sum = with_policy!(config.policy, P => {
        bytes(const { &shared_sections::<P>() }) + bytes(own_sections::<P>())
    });
    sum.next_multiple_of(8)
}

/// Bytes of DRAM that each further flash slot costs, index included; remembered pages and the heads of lists apart.
pub fn bytes_per_slot(policy: PolicyKind) -> usize {
    let (fewer, more) = (1 << 20, 1 << 21);
    let bytes =
        |slots| region_bytes(&Config { history: 0, set_slots: u32::MAX, ..Config::new(policy, slots) });
    (bytes(more) - bytes(fewer)) / (more - fewer) as usize
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
        head.history = if config.policy.facts().remembers { config.history } else { 0 };
        head.set_slots = config.set_slots;
        head.free_first = NIL;
        head.clean_cursor = NIL;
        let mut partition = Self::attach(region)?;
        partition.buckets.fill(NIL);
        partition.kept.format(config);
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
        let whole = found.is_multiple_of(8);
        let partition = Self::carve(head, Carver::new(rest, &config), &config).filter(|_| whole);
        partition.ok_or_else(|| ConfigError::RegionSize { expected: region_bytes(&config), found })
    }

    /// Takes the sections behind the header. `None`: they are not as long as the configuration makes them.
    #[inline(always)]
    fn carve(head: &'r mut Header, mut carver: Carver<'r, '_>, config: &Config) -> Option<Self> {
        let (staged, groups) = (carver.take(&STAGED)?, carver.take(&GROUPS)?);
        let (slots, buckets) = (carver.take(&SLOTS)?, carver.take(&BUCKETS)?);
        let (node_words, nodes) =
            with_policy!(config.policy, P => (node_words::<P>(), carver.take(&nodes::<P>())?));
        let kept = Kept::attach(config.policy, &mut carver)?;
        let (policy, placement) = (config.policy, config.policy.placement());
        let all = carver.is_empty();
        all.then_some(Self {
            policy,
            placement,
            head,
            staged,
            groups,
            slots,
            buckets,
            node_words,
            nodes,
            kept,
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
