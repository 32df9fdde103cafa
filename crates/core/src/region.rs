//! The flat region a partition lives in, and its attachment. All links are indices, so a region may be mapped
//! at any address, moved, or shared between processes; the driver holds the partition's latch.
//!
//! A region has two parts. Its *own* part is reached by the holder of the latch alone. The *index* has words
//! that are atomic, since others may read them at the same time ([`crate::index`]). A driver may have both in
//! one memory, the index last, or each in its own.
//!
//! | section | entries | bytes each |
//! |---|---|---|
//! | header | 1 | `size_of::<Header>()` |
//! | staged | staging frames | 24 |
//! | ring, groups, awaited frames (log placement) | 1, staging groups, staging frames | by their types, 24, 4 |
//! | slot table, batches, emptied for (slots) | 1, 1 if slots survive, staging frames with sets | by types, 4 |
//! | bases, if they are kept | flash slots + staging frames | 1, and 1040 |
//! | nodes (slot placement) | flash slots + list heads | 8, and the policy's note |
//! | the policy's own ([`Memory`]) | | by their types |
//! | the index | | see there |

use crate::bases;
use crate::config::{Config, ConfigError, StoredConfig};
use crate::contents::{Contents, Decisions};
use crate::index::{self, Index, IndexPlan};
use crate::lists::node_words;
use crate::pages::{Pages, PagesHead};
use crate::partition::Partition;
use crate::placement::{Log, Ring, SlotTable, Slots, ring, slots};
use crate::policy::{LogPolicy, Memory, Policy, PolicyKind, PolicyState, SlotPolicy, with_policy};
use crate::sections::{Carver, Plain, Section, SectionPlan};
use crate::sizes::Sizes;
use crate::staging::{self, Staging, Window};
use crate::unlatched::Unlatched;
use crate::words::{AtomicU32, store};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "ENTRCORE", little-endian, then the version of the region's layout.
const MAGIC: u64 = u64::from_le_bytes(*b"ENTRCORC");

/// The partition's configuration, and the scalars of the parts that all partitions have.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: u64,
    config: StoredConfig,
    decisions: Decisions,
    window: Window,
    pages: PagesHead,
}

const HEADER: SectionPlan = SectionPlan::one::<Header>("header");

/// The nodes of the lists: a log keeps none.
const NO_NODES: SectionPlan = nodes::<()>(|_| 0);

/// The nodes of the slots and of the lists of policy `P`.
const fn nodes_of<P: SlotPolicy>() -> SectionPlan {
    nodes::<P::Note>(|sizes| sizes.slots + P::FACTS.lists.count(sizes))
}

const fn nodes<N: Plain>(entries: fn(&Sizes) -> u32) -> SectionPlan {
    SectionPlan { name: "nodes", entries, entry_bytes: node_words::<N>() * size_of::<u32>() }
}

/// The sections of a log but for its policy's, in order.
const LOG_SECTIONS: &[SectionPlan] =
    &[HEADER, staging::FRAMES, ring::HEAD, ring::GROUPS, ring::AWAITED, bases::BASES, NO_NODES];

/// The sections of slots but for their policy's, in order.
const fn slot_sections<P: SlotPolicy>() -> &'static [SectionPlan] {
    const {
        &[
            HEADER,
            staging::FRAMES,
            slots::HEAD,
            slots::BATCHES,
            slots::emptied_for::<P>(),
            bases::BASES,
            nodes_of::<P>(),
        ]
    }
}

/// The sections of the policy, in order.
const fn own_sections<P: Policy>() -> &'static [SectionPlan] {
    <P::Memory<'static> as Memory<'static>>::SECTIONS
}

/// All sections of a region's own part, in order.
fn own_part(policy: PolicyKind) -> impl Iterator<Item = &'static SectionPlan> {
    let (shared, own) = with_policy!(policy, P =>
        Log: (LOG_SECTIONS, own_sections::<P>()),
        Slots: (slot_sections::<P>(), own_sections::<P>()));
    shared.iter().chain(own)
}

/// The sections of a region, in order.
pub fn sections(config: &Config) -> impl Iterator<Item = Section> + use<> {
    let sizes = config.sizes();
    own_part(config.policy).chain(index::SECTIONS).map(move |plan| plan.section(&sizes))
}

/// Bytes of the own part of the region of a partition with this configuration.
pub fn own_bytes(config: &Config) -> usize {
    let sizes = config.sizes();
    own_part(config.policy).map(|plan| plan.bytes(&sizes)).sum::<usize>().next_multiple_of(8)
}

/// Words of the index of a partition with this configuration: a multiple of two.
pub fn index_words(config: &Config) -> usize {
    IndexPlan::of(&config.sizes()).words().next_multiple_of(2)
}

/// Bytes of the region of a partition with this configuration.
pub fn region_bytes(config: &Config) -> usize {
    own_bytes(config) + index_words(config) * size_of::<AtomicU32>()
}

/// Bytes of DRAM for each further flash slot, index included, without its reference bit, the policy's history
/// and the heads of lists.
pub fn bytes_per_slot(policy: PolicyKind) -> usize {
    let (fewer, more) = (1 << 20, 1 << 21);
    let bytes =
        |slots| region_bytes(&Config { history: 0, set_slots: u32::MAX, ..Config::new(policy, slots) });
    (bytes(more) - bytes(fewer)) / (more - fewer) as usize
}

/// The proof that a region holds a partition of a configuration. It is made once, and used at each later
/// attach to that region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    config: Config,
    sizes: Sizes,
    /// Lengths of its parts.
    own_bytes: usize,
    index_words: usize,
    index: IndexPlan,
}

impl Shape {
    /// Proves that `region` holds a partition.
    ///
    /// # Errors
    /// [`ConfigError`]: it does not, or not one of this version.
    pub fn of(region: &[u8]) -> Result<Self, ConfigError> {
        aligned(region)?;
        let found = region.len();
        let config = config_of(region)?;
        let expected = region_bytes(&config);
        if found != expected {
            return Err(ConfigError::RegionSize { expected, found });
        }
        Ok(Self::known(&config))
    }

    /// As [`Shape::of`], where the index is in a memory of its own.
    ///
    /// # Errors
    /// [`ConfigError`]: they are not those of a partition, or not one of this version.
    pub fn of_parts(own: &[u8], index: &[AtomicU32]) -> Result<Self, ConfigError> {
        aligned(own)?;
        let shape = Self::known(&config_of(own)?);
        shape.has(own.len(), index.len())?;
        Ok(shape)
    }

    fn has(&self, own: usize, index: usize) -> Result<(), ConfigError> {
        let bytes = |own, index| own + index * size_of::<AtomicU32>();
        if (own, index) != (self.own_bytes, self.index_words) {
            let (expected, found) = (bytes(self.own_bytes, self.index_words), bytes(own, index));
            return Err(ConfigError::RegionSize { expected, found });
        }
        Ok(())
    }

    /// Of a region that was formatted with `config`, which is valid: known without a look at it.
    pub(crate) fn known(config: &Config) -> Self {
        let (own_bytes, index_words) = (own_bytes(config), index_words(config));
        let (sizes, index) = (config.sizes(), IndexPlan::of(&config.sizes()));
        Self { config: *config, sizes, own_bytes, index_words, index }
    }

    /// The index of the partition, for readers without the latch. `None`: hits need the latch. Of an index of
    /// another length it panics, now or later.
    #[inline]
    pub fn unlatched<'r>(&'r self, index: &'r [AtomicU32]) -> Option<Unlatched<'r>> {
        self.sizes.unlatched.then(|| Unlatched::of(index, &self.index))
    }

    /// The configuration of the partition.
    pub const fn config(&self) -> Config {
        self.config
    }
}

/// The configuration in a header.
fn config_of(region: &[u8]) -> Result<Config, ConfigError> {
    let short = ConfigError::RegionSize { expected: size_of::<Header>(), found: region.len() };
    let (head, _) = Header::ref_from_prefix(region).map_err(|_| short)?;
    if head.magic != MAGIC {
        return Err(ConfigError::Magic { expected: MAGIC, found: head.magic });
    }
    let config = head.config.read()?;
    config.validate()?;
    Ok(config)
}

/// The parts of a region that are in one memory. `None`: it is not long enough, or not aligned.
#[inline(always)]
fn split(region: &mut [u8], own_bytes: usize) -> Option<(&mut [u8], &[AtomicU32])> {
    let (own, index) = region.split_at_mut_checked(own_bytes)?;
    Some((own, <[AtomicU32]>::mut_from_bytes(index).ok()?))
}

fn aligned(region: &[u8]) -> Result<(), ConfigError> {
    if region.as_ptr().addr().is_multiple_of(align_of::<Header>()) {
        return Ok(());
    }
    Err(ConfigError::Alignment { expected: align_of::<Header>() })
}

impl<'r> Partition<'r> {
    /// Makes an empty partition in `region`, which is aligned to 8 bytes and [`region_bytes`] long.
    pub fn format(region: &'r mut [u8], config: &Config) -> Result<Self, ConfigError> {
        config.validate()?;
        if region.len() != region_bytes(config) {
            return Err(ConfigError::RegionSize { expected: region_bytes(config), found: region.len() });
        }
        aligned(region)?;
        let (own, index) = split(region, own_bytes(config)).expect("the region has both parts");
        Self::format_parts(own, index, config)
    }

    /// As [`Partition::format`], where the index is in a memory of its own. `own` has [`own_bytes`] bytes,
    /// and `index` has [`index_words`] words.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration is impossible, or the parts do not fit it.
    pub fn format_parts(
        own: &'r mut [u8],
        index: &'r [AtomicU32],
        config: &Config,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let shape = Shape::known(config);
        shape.has(own.len(), index.len())?;
        aligned(own)?;
        own.fill(0);
        index.iter().for_each(|word| store(word, 0));
        let (head, _) =
            Header::mut_from_prefix(own).expect("the region is longer than its header and aligned");
        head.magic = MAGIC;
        head.config = StoredConfig::of(config);
        let mut partition = Self::attach_parts(own, index, &shape);
        let Contents { pages, policy, .. } = partition.contents_mut();
        pages.directory.format();
        pages.lists.format(config.lists());
        policy.format(&config.sizes());
        if let Partition::Slots(Slots { contents, table }) = &mut partition {
            table.format(&mut contents.pages);
        }
        Ok(partition)
    }

    /// Attaches to a partition made by [`Partition::format`], by whatever process, at whatever address.
    ///
    /// # Errors
    /// [`ConfigError`]: the region does not hold a partition, or not one of this version.
    pub fn attach(region: &'r mut [u8]) -> Result<Self, ConfigError> {
        let shape = Shape::of(region)?;
        Ok(Self::attach_to(region, &shape))
    }

    /// Attaches to the region of which `shape` was taken: what was proved then is not proved again, and what
    /// the region says of its configuration since is not believed.
    ///
    /// # Panics
    /// If the region has another length or alignment.
    pub fn attach_to(region: &'r mut [u8], shape: &Shape) -> Self {
        let (own, index) = split(region, shape.own_bytes).expect("the region has both parts");
        Self::attach_parts(own, index, shape)
    }

    /// As [`Partition::attach_to`], where the index is in a memory of its own.
    ///
    /// # Panics
    /// If one of them has another length or alignment.
    pub fn attach_parts(own: &'r mut [u8], index: &'r [AtomicU32], shape: &Shape) -> Self {
        let found = (own.len(), index.len());
        let known = (shape.own_bytes, shape.index_words);
        assert!(found == known, "a region of {known:?} bytes and words has {found:?} now");
        let (head, rest) =
            Header::mut_from_prefix(own).expect("the region is longer than its header and aligned");
        let long = "the region is as long as its sections";
        let index = Index::attach_to_change(index, &shape.index);
        let mut carver = Carver::new(rest, index, &shape.sizes);
        // Each arm makes the partition in its final place: it is large enough for a copy to be felt.
        with_policy!(shape.config.policy, P =>
            Log: Self::carve_log::<P>(head, &mut carver, &shape.config).expect(long),
            Slots: Self::carve_slots::<P>(head, &mut carver, &shape.config).expect(long))
    }

    /// Attaches to the sections after the header. `None`: their length does not match the configuration.
    #[inline(always)]
    fn carve_log<P: LogPolicy>(
        head: &'r mut Header,
        carver: &mut Carver<'r, '_>,
        config: &Config,
    ) -> Option<Self> {
        let Header { decisions, window, pages, .. } = head;
        let staging = Staging::attach(window, carver)?;
        let ring = Ring::attach::<P>(carver)?;
        let contents = carve_contents((decisions, staging, pages), &NO_NODES, carver, config)?;
        Some(Self::Log(Log { contents, ring }))
    }

    /// As [`Self::carve_log`].
    #[inline(always)]
    fn carve_slots<P: SlotPolicy>(
        head: &'r mut Header,
        carver: &mut Carver<'r, '_>,
        config: &Config,
    ) -> Option<Self> {
        let Header { decisions, window, pages, .. } = head;
        let staging = Staging::attach(window, carver)?;
        let table = SlotTable::attach::<P>(carver)?;
        let contents = carve_contents((decisions, staging, pages), &nodes_of::<P>(), carver, config)?;
        Some(Self::Slots(Slots { contents, table }))
    }
}

/// Attaches to the last sections.
#[inline(always)]
fn carve_contents<'r>(
    (decisions, staging, pages): (&'r mut Decisions, Staging<'r>, &'r mut PagesHead),
    nodes: &SectionPlan,
    carver: &mut Carver<'r, '_>,
    config: &Config,
) -> Option<Contents<'r>> {
    let pages = Pages::attach(pages, nodes, carver)?;
    let policy = PolicyState::attach(config.policy, carver)?;
    carver.is_empty().then_some(Contents { config: *config, staging, pages, policy, decisions })
}
