//! The superblock of a flash device: the cache's configuration, its disk, and the start of recovery
//! (docs/FORMAT.md has the table).
//!
//! Four copies, at 0, 16, 32 and 48 KiB, are written in rotation (copy = sequence mod 4), each followed by a
//! sync. Invariant: after a crash at any time at least three of them are whole, and the newest whole one is
//! one of the last two written.

use crate::block::{self, BLOCK_BYTES, BlockFault, BlockHeader, Uuid};
use crate::losses::{Losses, RawLosses};
use crate::owners_log::{LogPosition, RawLogPosition};
use crate::page_format::PageFormat;
use crate::stamps::Stamps;
use entresol_core::{Config, Costs, Directory, Mode, Placement, PolicyKind, Position};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic of a superblock.
pub const MAGIC: [u8; 8] = *b"ENTRSUPR";
/// Copies on a device.
pub const COPIES: u64 = 4;
/// Distance of the copies in bytes.
pub const COPY_STRIDE: u64 = 16 << 10;

const CLEAN: u32 = 1;
const DIRECTORY: u32 = 2;
const BEGUN: u32 = 4;
const SLOTS_STAMPED: u32 = 8;
const RELEASED: u32 = 16;
const OBJECTS_TWICE: u32 = 32;
const KEPT_SLOTS: u32 = 64;
const BASES: u32 = 128;

/// Format version of a cache with slot placement, or with a table of objects. In version 1 the stamps of
/// pages did not depend on the slot, and the table had one copy.
const FLAGGED_VERSION: u32 = 2;

/// The superblock as stored.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawSuperblock {
    pub(crate) header: BlockHeader,
    pub(crate) cache: Uuid,
    pub(crate) disk: Uuid,
    pub(crate) epoch: U64,
    pub(crate) page_bytes: U32,
    pub(crate) slots: U32,
    pub(crate) group_pages: U32,
    pub(crate) staging_groups: U32,
    pub(crate) segment_entries: U32,
    pub(crate) policy: U32,
    pub(crate) mode: U32,
    pub(crate) flags: U32,
    pub(crate) front: U64,
    pub(crate) rear: U64,
    pub(crate) durable: U64,
    pub(crate) unsure_from: U64,
    pub(crate) unsure_to: U64,
    pub(crate) session_rear: U64,
    pub(crate) segment_first: U64,
    pub(crate) segment_next: U64,
    pub(crate) losses: RawLosses,
    pub(crate) epoch_nonce: U64,
    pub(crate) previous_nonce: U64,
    pub(crate) page_format: U32,
    pub(crate) objects: U32,
    pub(crate) marks: [U64; 2],
    pub(crate) costs: [U32; 6],
    pub(crate) renewal: U64,
    pub(crate) log: RawLogPosition,
    pub(crate) mark_digests: [U64; 2],
    pub(crate) batches: U64,
    pub(crate) checkpoint: U64,
    pub(crate) horizon: U64,
    pub(crate) based_from: U64,
    pub(crate) zero: [u8; 3656],
}

const _: () = assert!(size_of::<RawSuperblock>() == BLOCK_BYTES);

/// A superblock, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Version of the format of all that the cache has on flash.
    pub version: u32,
    /// A newer superblock has a larger number.
    pub sequence: u64,
    /// The cache.
    pub cache: Uuid,
    /// The disk it belongs to.
    pub disk: Uuid,
    /// That disk's epoch.
    pub epoch: u64,
    /// The nonce of that epoch in the disk's label.
    pub epoch_nonce: u64,
    /// The nonce that the label had before this epoch. The label still has it if the open was interrupted
    /// before it wrote the label.
    pub previous_nonce: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Whose pages they are.
    pub page_format: PageFormat,
    /// Slots.
    pub slots: u32,
    /// Pages of a group.
    pub group_pages: u32,
    /// Groups that staging holds. Unfinished writes are at most this far beyond the durable position.
    pub staging_groups: u32,
    /// Entries of a directory segment.
    pub segment_entries: u32,
    /// Objects that the cache's table of objects has room for; 0: it has none.
    pub objects: u32,
    /// The policy.
    pub policy: PolicyKind,
    /// The mode.
    pub mode: Mode,
    /// The cache was shut down cleanly and not opened since.
    pub clean: bool,
    /// The slot directory is valid (LOC, GLB, and segments of a shutdown: from it to the next open).
    pub directory: bool,
    /// The disk's label had this epoch when this superblock was written. If false, the open that raised the
    /// epoch may have been interrupted before it wrote the label.
    pub begun: bool,
    /// The disk was released from this cache and no longer needs it.
    pub released: bool,
    /// Slot placement: what is in the slots survives a crash ([`Config::keeps_slots`]), or in a mode in which
    /// flash is never newer than disk, a shutdown.
    pub keeps_slots: bool,
    /// All positions below this one are released.
    pub front: Position,
    /// The next position.
    pub rear: Position,
    /// All positions below this one are durable on flash.
    pub durable: Position,
    /// First position whose clean page may not be durable on disk yet (write-through).
    pub unsure_from: Position,
    /// End (exclusive) of these positions.
    pub unsure_to: Position,
    /// The rear when this epoch began. A group of an older epoch at or after this position is a leftover.
    pub session_rear: Position,
    /// First complete directory segment.
    pub segment_first: u64,
    /// The number after that of the last complete directory segment.
    pub segment_next: u64,
    /// Groups of the log that opens did not find.
    pub losses: Losses,
    /// How far the owner was at its last checkpoints, in its own count; 0: it has said nothing.
    pub marks: [u64; 2],
    /// The measured costs of the devices when the cache was made; without the owner's wishes.
    pub costs: Costs,
    /// The renewal of the disk's label that the cache has seen last.
    pub renewal: u64,
    /// How far the owner's log was when the last of the groups below `durable` was written, or later.
    pub log: LogPosition,
    /// Digests of the owner's log up to the places in `marks`.
    pub mark_digests: [u64; 2],
    /// Slots that survive a crash: all batches below this number were durable.
    pub batches: u64,
    /// Dirty pages have bases ([`Config::keeps_bases`]).
    pub keeps_bases: bool,
    /// The owner's last complete checkpoint when this was written, or an earlier one.
    pub checkpoint: u64,
    /// The disk durably has every page with a base before this checkpoint of the owner. 0: bases are not
    /// known of all pages yet.
    pub horizon: u64,
    /// Pages before this position are from before there were bases: if there is a horizon, the disk has them.
    pub based_from: Position,
}

/// Most objects of a table.
pub const OBJECTS_MAX: u32 = (1 << 28) - 1;
/// Positions reserved for one open with slot placement: at 4 KiB a page, 256 TiB of writes.
pub const POSITIONS_OF_AN_OPEN: u64 = 1 << 36;
/// Later epochs share the last positions.
const EPOCHS_COUNTED: u64 = (1 << 25) - 1;
const _: () = assert!((EPOCHS_COUNTED + 2) * POSITIONS_OF_AN_OPEN < Position::MAX.0);

impl Superblock {
    /// The offset of this superblock on its device, in bytes.
    pub fn offset(&self) -> u64 {
        self.sequence % COPIES * COPY_STRIDE
    }

    /// Writes it into `block`, [`BLOCK_BYTES`] long.
    pub fn encode(&self, block: &mut [u8]) {
        let mut raw = RawSuperblock::new_zeroed();
        raw.cache = self.cache;
        raw.disk = self.disk;
        raw.epoch.set(self.epoch);
        raw.page_bytes.set(self.page_bytes);
        raw.page_format.set(self.page_format as u32);
        raw.slots.set(self.slots);
        raw.group_pages.set(self.group_pages);
        raw.staging_groups.set(self.staging_groups);
        raw.segment_entries.set(self.segment_entries);
        raw.objects.set(self.objects);
        raw.policy.set(self.policy as u32);
        raw.mode.set(self.mode as u32);
        let slots = self.policy.placement() == Placement::Slots;
        let flags = [
            (self.clean, CLEAN),
            (self.directory, DIRECTORY),
            (self.begun, BEGUN),
            (slots, SLOTS_STAMPED),
            (self.released, RELEASED),
            (self.objects > 0, OBJECTS_TWICE),
            (self.keeps_slots, KEPT_SLOTS),
            (self.keeps_bases, BASES),
        ];
        raw.flags.set(flags.iter().map(|(set, flag)| u32::from(*set) * flag).sum());
        raw.front.set(self.front.0);
        raw.rear.set(self.rear.0);
        raw.durable.set(self.durable.0);
        raw.unsure_from.set(self.unsure_from.0);
        raw.unsure_to.set(self.unsure_to.0);
        raw.session_rear.set(self.session_rear.0);
        raw.segment_first.set(self.segment_first);
        raw.segment_next.set(self.segment_next);
        raw.losses = self.losses.raw();
        raw.marks = self.marks.map(U64::new);
        raw.costs = self.costs.times_ns().map(U32::new);
        raw.renewal.set(self.renewal);
        raw.log = RawLogPosition::of(self.log);
        raw.mark_digests = self.mark_digests.map(U64::new);
        raw.batches.set(self.batches);
        raw.checkpoint.set(self.checkpoint);
        raw.horizon.set(self.horizon);
        raw.based_from.set(self.based_from.0);
        raw.epoch_nonce.set(self.epoch_nonce);
        raw.previous_nonce.set(self.previous_nonce);
        block.copy_from_slice(raw.as_bytes());
        block::seal_as(self.version, block, MAGIC, self.sequence);
    }

    /// Reads one back: whole, undamaged and with possible values only.
    pub fn decode(block: &[u8]) -> Result<Self, BlockFault> {
        let header = block::open(block, MAGIC)?;
        let raw = RawSuperblock::ref_from_bytes(block).expect("an opened block has the structure's length");
        let impossible = |field, found: u64| Err(BlockFault::Field { field, found });
        let Some(policy) = PolicyKind::from_code(raw.policy.get()) else {
            return impossible("policy", raw.policy.get().into());
        };
        let Some(page_format) = PageFormat::from_code(raw.page_format.get()) else {
            return impossible("page format", raw.page_format.get().into());
        };
        let Some(mode) = Mode::from_code(raw.mode.get()) else {
            return impossible("mode", raw.mode.get().into());
        };
        let needed =
            [(policy.placement() == Placement::Slots, SLOTS_STAMPED), (raw.objects.get() > 0, OBJECTS_TWICE)];
        if needed.into_iter().any(|(needed, flag)| needed && raw.flags.get() & flag == 0) {
            return Err(BlockFault::Version { expected: FLAGGED_VERSION, found: FLAGGED_VERSION - 1 });
        }
        let Some(losses) = Losses::of_raw(&raw.losses) else {
            return impossible("losses", raw.losses[0].epoch.get());
        };
        let found = Self {
            version: header.version.get(),
            sequence: header.sequence.get(),
            cache: raw.cache,
            disk: raw.disk,
            epoch: raw.epoch.get(),
            epoch_nonce: raw.epoch_nonce.get(),
            previous_nonce: raw.previous_nonce.get(),
            page_bytes: raw.page_bytes.get(),
            page_format,
            slots: raw.slots.get(),
            group_pages: raw.group_pages.get(),
            staging_groups: raw.staging_groups.get(),
            segment_entries: raw.segment_entries.get(),
            objects: raw.objects.get(),
            policy,
            mode,
            clean: raw.flags.get() & CLEAN != 0,
            directory: raw.flags.get() & DIRECTORY != 0,
            begun: raw.flags.get() & BEGUN != 0,
            released: raw.flags.get() & RELEASED != 0,
            keeps_slots: raw.flags.get() & KEPT_SLOTS != 0,
            front: Position(raw.front.get()),
            rear: Position(raw.rear.get()),
            durable: Position(raw.durable.get()),
            unsure_from: Position(raw.unsure_from.get()),
            unsure_to: Position(raw.unsure_to.get()),
            session_rear: Position(raw.session_rear.get()),
            segment_first: raw.segment_first.get(),
            segment_next: raw.segment_next.get(),
            losses,
            marks: raw.marks.map(U64::get),
            costs: Costs::of_times_ns(raw.costs.map(U32::get)),
            renewal: raw.renewal.get(),
            log: raw.log.read(),
            mark_digests: raw.mark_digests.map(U64::get),
            batches: raw.batches.get(),
            keeps_bases: raw.flags.get() & BASES != 0,
            checkpoint: raw.checkpoint.get(),
            horizon: raw.horizon.get(),
            based_from: Position(raw.based_from.get()),
        };
        found.check()?;
        Ok(found)
    }

    /// Whether its values are consistent.
    fn check(&self) -> Result<(), BlockFault> {
        let impossible = |field, found: u64| Err(BlockFault::Field { field, found });
        if !crate::layout::page_bytes_possible(self.page_bytes) {
            return impossible("page size", self.page_bytes.into());
        }
        if self.config().validate().is_err() {
            return impossible("slots", self.slots.into());
        }
        if self.keeps_slots && !self.policy.may_keep_slots_in(self.mode) {
            return impossible("slots that survive", self.policy as u64);
        }
        if self.segment_entries == 0 || !self.segment_entries.is_multiple_of(self.group_pages) {
            return impossible("segment entries", self.segment_entries.into());
        }
        if self.objects > OBJECTS_MAX || self.objects > 0 && !self.survives_a_crash() {
            return impossible("objects", self.objects.into());
        }
        if self.batches >= crate::block::SEQUENCE_MAX {
            return impossible("batches", self.batches);
        }
        if self.checkpoint >= crate::block::SEQUENCE_MAX || self.horizon > self.checkpoint {
            return impossible("horizon", self.horizon);
        }
        if self.epoch >= crate::block::SEQUENCE_MAX {
            return impossible("epoch", self.epoch);
        }
        // Positions are far below 2^63, so that sums of them cannot overflow.
        let positions = [self.front, self.rear, self.durable, self.session_rear, self.based_from];
        if let Some(position) = positions.into_iter().find(|position| *position >= Position::MAX) {
            return impossible("position", position.0);
        }
        let (front, rear, group) = (self.front.0, self.rear.0, u64::from(self.group_pages));
        if front > self.durable.0 || front > rear || rear - front > u64::from(self.slots) {
            return impossible("front", front);
        }
        if self.durable.0 > rear || self.session_rear.0 > self.durable.0 {
            return impossible("durable", self.durable.0);
        }
        let whole = [self.front, self.durable, self.session_rear];
        if let Some(position) = whole.into_iter().find(|position| !position.0.is_multiple_of(group)) {
            return impossible("position", position.0);
        }
        let covered = self.segment_next.checked_mul(u64::from(self.segment_entries));
        if self.segment_first > self.segment_next || covered.is_none_or(|covered| covered > self.durable.0) {
            return impossible("segments", self.segment_next);
        }
        Ok(())
    }

    /// Whether the bases of all dirty pages are known.
    pub fn knows_bases(&self) -> bool {
        self.keeps_bases && self.horizon > 0
    }

    /// Whether a clean page on flash at `position` may not be durable on disk yet.
    pub fn is_unsure(&self, position: Position) -> bool {
        self.unsure_from <= position && position < self.unsure_to
    }

    /// The stamps of this cache.
    pub fn stamps(&self) -> Stamps {
        Stamps::of(self)
    }

    /// Slot placement: the first position that the next open may give out. It is above all positions given
    /// out before, even by an open that ended in a crash, because an open raises the epoch before it gives
    /// out a position. So a page of an earlier open in a slot is not taken for a version of the present one.
    pub fn next_positions(&self) -> Position {
        let first = self.epoch.min(EPOCHS_COUNTED) * POSITIONS_OF_AN_OPEN;
        Position(first.max(self.rear.0).next_multiple_of(self.group_pages.into()))
    }

    /// Whether the disk's label may say that the disk needs this cache, because the cache may hold dirty
    /// pages that survive a crash. An empty cache is needed too, until its disk is released from it.
    /// Otherwise the cache could be given to another disk, and the first disk could not be opened any more.
    pub fn is_needed(&self) -> bool {
        self.keeps_dirty() && !self.released
    }

    /// Whether what is on it survives a crash as a whole: in a log, or in slots that are kept.
    fn survives_a_crash(&self) -> bool {
        self.policy.placement() == Placement::Log || self.mode == Mode::WriteBack && self.keeps_slots
    }

    /// Whether dirty pages on it survive a crash.
    pub fn keeps_dirty(&self) -> bool {
        self.mode == Mode::WriteBack && (self.policy.placement() == Placement::Log || self.keeps_slots)
    }

    /// The part of the directory that survives.
    pub const fn directory_kind(&self) -> Directory {
        self.policy.directory_in(self.mode, self.keeps_slots)
    }

    /// The core's configuration, without settings that are kept only in memory (LC's have their usual
    /// values).
    pub fn config(&self) -> Config {
        Config {
            group_pages: self.group_pages,
            staging_groups: self.staging_groups,
            slots: self.slots,
            proofs: self.page_format.keeps_proofs(self.policy.placement()),
            keeps_slots: matches!(self.directory_kind(), Directory::Batches),
            keeps_bases: self.keeps_bases,
            ..Config::new(self.policy, self.slots)
        }
    }
}
