//! Settings of a flash tier, and whether they fit each other.

use crate::TierError;
use crate::budget::WriteBudget;
use crate::region::objects_config;
use entresol_core::{
    Config, Costs, DEQUEUES_MAX, DEQUEUES_USUAL, Directory, Mode, Placement, PolicyKind, Position,
    ShadowPlan, WritebackOptions,
};
use entresol_format::layout::page_bytes_possible;
use entresol_format::superblock::{OBJECTS_MAX, Superblock};
use entresol_format::{FORMAT_VERSION, Layout, PageFormat, Uuid};

/// Blocks of the log of the table of objects: room for eight thousand changes between two snapshots.
const OBJECT_LOG_BLOCKS: u32 = 64;
/// Most tasks of one kind.
const WORKERS_MAX: usize = 64;

/// What follows a write that the disk refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskErrors {
    /// The tier ends, and its owner opens it again: its log settles what the failure has left.
    #[default]
    End,
    /// The page stays dirty on flash, and is tried again. Requests that do not need its slot continue. Only
    /// of raw pages, above which there is no log.
    TryAgain,
}

/// The configuration of a flash tier. `policy`, `page_bytes`, `slots`, `group_pages` and `segment_entries`
/// determine the layout of the flash: an existing cache is opened with the values with which it was created
/// (the policy may change within its placement). The others may change from one open to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierOptions {
    /// The policy.
    pub policy: PolicyKind,
    /// Bytes of a page: a power of two, 4 KiB to 32 KiB.
    pub page_bytes: u32,
    /// Whose pages they are.
    pub page_format: PageFormat,
    /// Version of the format on flash: [`FORMAT_VERSION`], or an older one to detach a cache of an older
    /// release.
    pub version: u32,
    /// Pages that fit on flash; with log placement whole groups.
    pub slots: u32,
    /// Pages of a group, 2 ..= 128.
    pub group_pages: u32,
    /// Groups that staging holds in memory, 2 ..= 64.
    pub staging_groups: u32,
    /// Entries of a directory segment (FaCE §4.1: 64,000); whole groups.
    pub segment_entries: u32,
    /// Policies with a cleaner: the cleaner works while more than this many per mille of the slots are dirty.
    pub dirty_permille_max: u32,
    /// Objects, such as relations, that the table of objects has room for (`entresol_objects`); 0: no table,
    /// and the high half of a page id means nothing. Only with log placement.
    pub objects: u32,
    /// LC: number of evicted pages whose last reference is remembered.
    pub history: u32,
    /// The mode. The policy determines which modes are possible.
    pub mode: Mode,
    /// With log placement: changed pages enter even if the policy would keep them out, since their owner's
    /// own writes to disk are not known to be durable.
    pub takes_changes: bool,
    /// With slot placement: what is in the slots survives. In write-back a crash, dirty pages too. Of raw
    /// pages in write-through or write-around a shutdown: after a crash the cache is empty.
    pub keeps_slots: bool,
    /// The owner's log can replace the flash: the cache knows how much of that log the disk needs then
    /// ([`Layer::checkpoint_complete`](crate::Layer::checkpoint_complete)). Where no dirty page survives a
    /// crash, there is nothing to know.
    pub keeps_bases: bool,
    /// Tasks that write staged pages to flash, 1 ..= 64.
    pub write_workers: usize,
    /// Tasks that dequeue, destage and clean, 1 ..= 64. With log placement and a long ring, more than 8 of
    /// them, at most 32, also raise the groups that are kept ahead of evictions.
    pub background_workers: usize,
    /// Permits a new cache on devices with any content, except a cache or disk that is needed. Otherwise only
    /// blank devices and our own are used.
    pub overwrite: bool,
    /// What the owner knows of a program before this one, in the same start of the machine: see [`Flushed`].
    pub flushed: Option<Flushed>,
    /// What the devices cost, for policies that weigh that. Unknown (the usual setting): as the cache's
    /// superblock says.
    pub costs: Costs,
    /// A new cache begins with a measurement of that, where the policy weighs it, or shadows do, and it is
    /// unknown. About a second.
    pub measures_costs: bool,
    /// How much may be written to flash, where the policy weighs what a write is worth.
    pub write_budget: WriteBudget,
    /// What follows a write that the disk refuses.
    pub disk_errors: DiskErrors,
    /// With a mode in which pages may be newer on flash than on disk, and without a log above: dirty pages
    /// are copied to disk by and by. `None`: when their slots are needed.
    pub writeback: Option<WritebackOptions>,
    /// Shadows run with the cache, if it is large enough: see [`crate::TierMetrics::forecasts`]. They take at
    /// most a twentieth of the directory's memory.
    pub shadows: bool,
}

impl TierOptions {
    /// The usual settings for about `slots` pages of 4 KiB (rounded down to whole groups).
    pub fn new(policy: PolicyKind, slots: u32) -> Self {
        let config = Config::new(policy, slots);
        // One background task for each dequeue that may be under way; with slot placement a task copies many
        // pages. If pages are written one by one, a second writer's sync would interrupt the multi-page
        // programs of the first one's writes.
        let (write_workers, background_workers) = match policy.placement() {
            Placement::Log if !policy.by_group() => (1, 8),
            Placement::Log => (2, 8),
            Placement::Slots => (8, 4),
        };
        Self {
            policy,
            page_bytes: 4096,
            page_format: PageFormat::Native,
            version: FORMAT_VERSION,
            slots: config.slots,
            group_pages: config.group_pages,
            staging_groups: config.staging_groups,
            segment_entries: 64_000,
            objects: 0,
            dirty_permille_max: config.dirty_permille_max,
            history: config.history,
            mode: policy.usual_mode(),
            takes_changes: false,
            keeps_slots: false,
            keeps_bases: false,
            write_workers,
            background_workers,
            overwrite: false,
            flushed: None,
            costs: Costs::default(),
            measures_costs: false,
            write_budget: WriteBudget::UNLIMITED,
            disk_errors: DiskErrors::End,
            writeback: None,
            shadows: true,
        }
    }

    /// The largest cache of native pages of `page_bytes` that fits on a flash device of `capacity` bytes,
    /// with the usual settings.
    pub fn for_device(policy: PolicyKind, capacity: u64, page_bytes: u32) -> Self {
        Self { page_bytes, ..Self::new(policy, 0) }.fitted(capacity)
    }

    /// The largest cache with the policy, mode, pages and objects of these options that fits on a flash
    /// device of `capacity` bytes. All other settings are the usual ones.
    pub fn fitted(&self, capacity: u64) -> Self {
        let Self { policy, page_bytes, page_format, mode, objects, keeps_slots, keeps_bases, .. } = *self;
        let of = |slots| {
            let usual = Self::new(policy, slots);
            Self { page_bytes, page_format, mode, objects, keeps_slots, keeps_bases, ..usual }
        };
        let mut options = of(0);
        let mut fits = 0u64;
        let mut step = 1u64 << 27;
        while step > 0 {
            options.slots = ((fits + step) * u64::from(options.group_pages)).min(u64::from(u32::MAX)) as u32;
            if flash_bytes(&options) <= capacity {
                fits += step;
            }
            step /= 2;
        }
        let slots = (fits * u64::from(options.group_pages)).min(u64::from(u32::MAX)) as u32;
        of(slots)
    }

    /// The options with which an existing cache was last opened. Settings that are kept only in memory have
    /// their usual values.
    pub fn of(superblock: &Superblock) -> Self {
        Self {
            page_bytes: superblock.page_bytes,
            page_format: superblock.page_format,
            version: superblock.version,
            slots: superblock.slots,
            group_pages: superblock.group_pages,
            staging_groups: superblock.staging_groups,
            segment_entries: superblock.segment_entries,
            objects: superblock.objects,
            mode: superblock.mode,
            keeps_slots: superblock.keeps_slots,
            keeps_bases: superblock.keeps_bases,
            ..Self::new(superblock.policy, superblock.slots)
        }
    }

    /// Whether shadows run with this cache, and all of its policies that they compare find its pages on
    /// flash: it can take another policy without losing them.
    pub fn can_change_policy(&self) -> bool {
        self.shadows
            && self.policy.placement() == Placement::Log
            && ShadowPlan::of(&self.config(), self.mode).is_ok()
    }

    /// The core's configuration.
    pub(crate) fn config(&self) -> Config {
        Config {
            policy: self.policy,
            slots: self.slots,
            group_pages: self.group_pages,
            staging_groups: self.staging_groups,
            dirty_permille_max: self.dirty_permille_max,
            history: self.history,
            proofs: self.page_format.keeps_proofs(self.policy.placement()),
            refusals: self.disk_errors == DiskErrors::TryAgain && self.policy.placement() == Placement::Log,
            dequeues: self.dequeues(),
            keeps_slots: self.keeps_batches(),
            keeps_bases: self.keeps_bases && self.dirty_possible() && !self.keeps_slots,
            ..Config::new(self.policy, self.slots)
        }
    }

    /// The part of the directory that survives on flash.
    pub const fn directory(&self) -> Directory {
        self.policy.directory_in(self.mode, self.keeps_slots)
    }

    /// Whether what is in the slots survives a crash.
    pub(crate) const fn keeps_batches(&self) -> bool {
        matches!(self.directory(), Directory::Batches)
    }

    /// Dequeues that may be under way at once: one for each background task, within bounds.
    pub(crate) fn dequeues(&self) -> u32 {
        (self.background_workers as u32).clamp(DEQUEUES_USUAL, DEQUEUES_MAX)
    }

    /// With log placement: the groups that are kept free or are being freed in a full cache. So many dequeues
    /// may be under way at once.
    pub fn groups_ahead(&self) -> u32 {
        self.config().slots_kept_free() / self.group_pages
    }

    /// The layout of the flash device.
    pub fn layout(&self) -> Layout {
        let objects = objects_config(self, Uuid::NIL).map_or(0, |objects| objects.blocks());
        let Self { page_format, page_bytes, segment_entries, .. } = *self;
        Layout::new(
            &self.config(),
            self.directory(),
            page_format,
            page_bytes,
            segment_entries,
            objects.into(),
        )
    }

    /// Blocks of the log of the table of objects.
    pub(crate) fn object_log_blocks(&self) -> u32 {
        OBJECT_LOG_BLOCKS
    }

    /// Checks that a tier can be built from these options.
    pub fn validate(&self) -> Result<(), TierError> {
        let refuse = |sentence: String| Err(TierError::Config(sentence));
        if !page_bytes_possible(self.page_bytes) {
            return refuse(format!(
                "a page of {} bytes is not possible; choose 4096, 8192, 16384 or 32768",
                self.page_bytes
            ));
        }
        self.config().validate().map_err(|error| TierError::Config(error.to_string()))?;
        self.validate_mode()?;
        self.validate_page_format()?;
        if self.disk_errors == DiskErrors::TryAgain && !self.page_format.has_no_owner_with_a_log() {
            return refuse("a log above settles what a failed write leaves; let the tier end".to_owned());
        }
        if self.writeback.is_some() && !self.page_format.has_no_owner_with_a_log() {
            return refuse(
                "the owner of a log brings pages to disk at its checkpoints; copy none before".to_owned(),
            );
        }
        if self.keeps_bases && self.keeps_slots {
            return refuse(
                "slots that survive a crash do not tell how much of the log their dirty pages need, so the flash may not be lost; \
                 choose a policy that places pages in a log (face-gsc, reuse), or do without one of the two"
                    .to_owned(),
            );
        }
        if self.segment_entries == 0 || !self.segment_entries.is_multiple_of(self.group_pages) {
            return refuse(format!(
                "a directory segment of {} entries is not a whole number of groups of {} pages",
                self.segment_entries, self.group_pages
            ));
        }
        if self.objects > OBJECTS_MAX {
            return refuse(format!(
                "a table of {} objects is not possible; choose at most {OBJECTS_MAX}",
                self.objects
            ));
        }
        if self.objects > 0 && self.policy.placement() != Placement::Log && !self.keeps_batches() {
            return refuse(format!(
                "a table of objects is not possible: policy {} places pages in slots, and a crash would lose what is in them; choose \
                 slots that survive it, or face, face-gr, face-gsc or reuse, or no objects",
                self.policy.name()
            ));
        }
        if self.write_budget.bytes_per_day.is_some() && !self.policy.facts().weighs_costs {
            return refuse(format!(
                "a budget of writes is not possible: policy {} does not weigh what a write is worth; choose reuse or reuse-slots, or \
                 no budget",
                self.policy.name()
            ));
        }
        for (what, workers) in [("write", self.write_workers), ("background", self.background_workers)] {
            if workers == 0 || workers > WORKERS_MAX {
                return refuse(format!(
                    "{workers} {what} workers are not possible; choose 1 to {WORKERS_MAX}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the policy allows raw pages. They have no header, so a slot tells nothing after a crash:
    /// no page that is needed then may be in one.
    fn validate_page_format(&self) -> Result<(), TierError> {
        let (policy, page_format) = (self.policy, self.page_format);
        if let Some(expected) = page_format.page_bytes().filter(|bytes| *bytes != self.page_bytes as usize) {
            return Err(TierError::Config(format!(
                "pages of {} bytes are not possible in format {}; choose {expected}",
                self.page_bytes,
                page_format.name()
            )));
        }
        if page_format == PageFormat::Native || policy.placement() == Placement::Log {
            return Ok(());
        }
        let why = match self.directory() {
            Directory::Batches | Directory::SegmentsAtShutdown => return Ok(()),
            Directory::None if self.mode != Mode::WriteBack => return Ok(()),
            Directory::None => {
                "keeps dirty pages in slots, which a crash loses with their checksums; choose another mode, or slots that survive it"
            }
            _ => {
                "keeps its slots over an open, and what is in a slot is known by the page's header only; choose lru or flashcache"
            }
        };
        let (format, policy) = (page_format.name(), policy.name());
        Err(TierError::Config(format!("{format} pages are not possible: policy {policy} {why}")))
    }

    /// Checks that the policy allows the mode.
    fn validate_mode(&self) -> Result<(), TierError> {
        let (policy, mode) = (self.policy, self.mode);
        if let Some(why_not) = policy.refusal(mode) {
            let (mode, policy) = (mode.name(), policy.name());
            return Err(TierError::Config(format!("mode {mode} is not possible: policy {policy} {why_not}")));
        }
        let is_of_a_log = !self.page_format.has_no_owner_with_a_log();
        match mode {
            _ if !self.keeps_slots => Ok(()),
            // The configuration of the core says which policies can.
            Mode::WriteBack => Ok(()),
            _ if is_of_a_log => Err(TierError::Config(format!(
                "slots that survive a crash are not possible in mode {}; choose write-back, or do without",
                mode.name()
            ))),
            _ if policy.may_keep_slots_in(mode) => Ok(()),
            _ => Err(TierError::Config(format!(
                "slots that survive a shutdown are not possible with policy {} in mode {}; choose lru or reuse-slots",
                policy.name(),
                mode.name()
            ))),
        }
    }

    /// Whether changed pages may be on disk alone, because the policy keeps them out.
    pub(crate) fn keeps_changes_out(&self) -> bool {
        self.policy.keeps_out() && !self.takes_changes
    }

    /// Whether disk may come to lack pages that are clean on flash.
    pub(crate) fn disk_may_lack(&self) -> bool {
        self.mode == Mode::WriteThrough
    }

    /// Whether flash may come to hold dirty pages that are needed after a crash.
    pub(crate) fn dirty_possible(&self) -> bool {
        self.mode == Mode::WriteBack && (self.policy.placement() == Placement::Log || self.keeps_slots)
    }
}

/// How far a cache whose pages survive a crash was flushed, for a program after a kill of this one:
/// everything below the position (of slots: all batches below this number) was durable on flash, and power
/// has not failed since. What an open does not find of that is damaged; without this, it would look like a
/// flush that a power failure cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// The cache.
    pub cache: Uuid,
    /// Its epoch: from one open to the next.
    pub epoch: u64,
    /// The position.
    pub below: Position,
}

/// The least size of the flash device of such a tier, in bytes.
pub fn flash_bytes(options: &TierOptions) -> u64 {
    if options.group_pages == 0 || options.segment_entries == 0 {
        return 0;
    }
    options.layout().device_bytes()
}
