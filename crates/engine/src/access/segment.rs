//! The memory of a front in one segment, in which fronts of other processes meet the back.
//!
//! | part | what it is |
//! |---|---|
//! | `identity` | which cache, in which epoch |
//! | `board` | [`super::board`] |
//! | `writes`, `background`, `progress`, `service` | notifications |
//! | `region` | the directory and the table of objects, with their latch |
//! | `index`, `lives` | what hits read of the directory and of objects, without the latch |
//! | `shadows` | what other policies and sizes would do, with a latch; a small cache has none |
//! | `staging` | groups of frames, each with a latch |
//! | `fronts` | which processes use the segment |
//!
//! Invariant: a segment is used by one back only. A back that opens the cache again makes another segment.
//! Before that it gives up the one at the same path, so that no front uses it any longer.

use super::bell::Bell;
use super::board::{Board, BoardRef};
use super::frames::{SharedFrames, areas_of};
use super::run_state::{RunState, State};
use super::seat::Seat;
use super::staging::Staging;
use super::{Access, Common, Memory};
use crate::region::{MappedRegion, RegionMemory, unlatched_words_of, words_of};
use crate::shadow::{self, Shadow};
use crate::{Sharing, TierError, TierOptions};
use entresol_core::{NoShadows, Placement, ShadowPlan};
use entresol_device::Device;
use entresol_format::stamps::Stamps;
use entresol_format::{Uuid, checksum};
use entresol_runtime::sync::Rank;
use entresol_shm::atomic::{AtomicU64, Ordering::Relaxed};
use entresol_shm::{
    Epoch, Fronts, FrontsPart, Guarded, GuardedPart, Holder, NewSegment, Part, Plan, Segment, SlicePart,
    shared_struct,
};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

shared_struct! {
    /// Which cache the segment is of. Written before the segment is published.
    struct Identity {
        cache: [AtomicU64; 2],
        epoch: AtomicU64,
    }
}

/// A cache, in one of its opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub cache: Uuid,
    pub epoch: u64,
}

/// The plan of a cache's segment.
struct Parts {
    plan: Plan,
    identity: Part<Identity>,
    board: Part<Board>,
    bells: [Part<Epoch>; 4],
    region: GuardedPart,
    index: SlicePart<atomic::AtomicU32>,
    lives: SlicePart<atomic::AtomicU64>,
    shadows: Result<(ShadowPlan, GuardedPart), NoShadows>,
    staging: GuardedPart,
    fronts: FrontsPart,
}

/// What the back has of a segment besides its front.
pub(crate) struct ServedSegment {
    pub fronts: Fronts,
    /// For the tasks that do what fronts ask for.
    pub service: Bell,
    region: Guarded,
    shadows: Option<Guarded>,
    /// The back ends.
    pub ends: AtomicBool,
}

impl ServedSegment {
    /// Whether `holder` has the latch of the region, or that of the shadows.
    pub(crate) fn is_held_by(&self, holder: entresol_shm::Holder) -> bool {
        self.latched().any(|area| area.is_held_by(holder))
    }

    /// Gives up these latches.
    pub(crate) fn poison(&self) {
        self.latched().for_each(Guarded::poison);
    }

    fn latched(&self) -> impl Iterator<Item = &Guarded> {
        std::iter::once(&self.region).chain(&self.shadows)
    }
}

/// A hash of the options that fronts and back must agree upon.
fn configuration(options: &TierOptions) -> u64 {
    let background_workers = options.dequeues() as usize;
    let agreed = TierOptions { write_workers: 1, background_workers, overwrite: false, ..options.clone() };
    let written = format!("{agreed:?}");
    (written.len() as u64) << 32 | u64::from(checksum::of(written.as_bytes()))
}

impl Parts {
    fn new(options: &TierOptions, fronts: u32) -> Self {
        let is_compared = options.slots > 0;
        let mut plan = Plan::new(if is_compared { configuration(options) } else { 0 });
        let ((partition, table), (index, lives)) = (words_of(options), unlatched_words_of(options));
        let shadows = shadow::plan_of(options);
        Self {
            identity: plan.part("identity"),
            board: plan.part("board"),
            bells: ["writes", "background", "progress", "service"].map(|name| plan.part(name)),
            region: plan.guarded("region", Rank::CachePartition, partition + table),
            index: plan.slice("index", index),
            lives: plan.slice("lives", lives),
            shadows: shadows.map(|shadows| {
                let part = plan.guarded("shadows", Rank::Shadows, shadow::words_of(&shadows));
                (shadows, part)
            }),
            staging: plan.guarded_areas("staging", Rank::SharedGroup, areas_of(options)),
            fronts: plan.fronts("fronts", fronts),
            plan,
        }
    }

    fn bell(&self, segment: &Segment, at: usize) -> Bell {
        Bell::Mapped(segment.part(&self.bells[at]))
    }

    /// The directory's part of a segment, of which `area` is what the latch guards.
    fn region(&self, segment: &Segment, options: &TierOptions, area: Guarded, me: Holder) -> RegionMemory {
        let (partition, _) = words_of(options);
        let region = MappedRegion { area, me, partition };
        RegionMemory::mapped(region, segment.slice(&self.index), segment.slice(&self.lives))
    }

    /// The memory of a front in `segment`.
    fn memory(&self, segment: &Segment, options: &TierOptions, seat: Seat, is_back: bool) -> Memory {
        let me = seat.holder();
        let guarded = |part| match is_back {
            true => segment.guarded(part),
            false => segment.guarded(part).of_front(seat.fronts()),
        };
        let shadow = match &self.shadows {
            Ok((plan, part)) => Shadow::mapped(plan.clone(), guarded(part), me),
            Err(none) => Shadow::none(none.0),
        };
        let frames = SharedFrames::new(guarded(&self.staging), me, options);
        Memory {
            region: self.region(segment, options, guarded(&self.region), me),
            staging: Staging::mapped(options, frames, is_back),
            board: BoardRef::mapped(segment.part(&self.board), me.number()),
            writes: self.bell(segment, 0),
            background: self.bell(segment, 1),
            progress: self.bell(segment, 2),
            shadow,
            seat: Some(seat),
        }
    }

    /// Gives the segment up: no process uses it any longer.
    fn give_up(&self, segment: &Segment) {
        RunState::new(BoardRef::mapped(segment.part(&self.board), 0)).supersede();
        let shadows = self.shadows.iter().map(|(_, part)| part);
        for part in shadows.chain([&self.region, &self.staging]) {
            segment.guarded(part).poison();
        }
        for at in 0..self.bells.len() {
            self.bell(segment, at).notify_all();
        }
    }

    /// Gives up the segment that an earlier back has left at the path, if there is one.
    fn supersede(&self, sharing: &Sharing) -> Result<(), TierError> {
        let old = sharing.memory.attach(&self.plan).map_err(|refusal| {
            TierError::Refused(format!(
                "{refusal}. It may be in use: end the processes that use it, remove the file, and try again"
            ))
        })?;
        let Some(old) = old else { return Ok(()) };
        if old.fronts(&self.fronts).has_back() {
            return Err(TierError::Refused(format!(
                "{}: another process serves a cache with this segment; end it, or choose another path",
                sharing.memory.name()
            )));
        }
        self.give_up(&old);
        Ok(())
    }
}

/// Before a cache is opened: gives up the segment that an earlier back of it has left at the path. Its fronts
/// would go on with what the flash held then.
pub(crate) fn supersede(options: &TierOptions, sharing: &Sharing) -> Result<(), TierError> {
    Parts::new(options, sharing.fronts).supersede(sharing)
}

/// See [`crate::segment_bytes`].
pub(crate) fn segment_bytes(options: &TierOptions, fronts: u32) -> Result<usize, TierError> {
    check(options)?;
    let bytes = Parts::new(options, fronts).plan.total_bytes();
    bytes.ok_or_else(|| TierError::Config("its shared memory would be larger than memory can be".to_owned()))
}

/// Refuses a cache that processes cannot share.
pub(crate) fn check(options: &TierOptions) -> Result<(), TierError> {
    let refuse = |why: &str| Err(TierError::Config(format!("processes cannot share this cache: {why}")));
    options.validate()?;
    if options.policy.placement() != Placement::Log && !options.keeps_batches() {
        return refuse(
            "its policy places pages in slots, and a crash would lose what is in them; choose slots that survive it, in write-back \
             mode, or face, face-gr, face-gsc or reuse",
        );
    }
    if options.keeps_changes_out() && !options.disk_may_lack() {
        return refuse(
            "its policy keeps changed pages out, and their writes to disk would not be known to the process that \
             serves it; let changed pages enter, choose face, face-gr or face-gsc, or write-through",
        );
    }
    if options.page_format.has_no_owner_with_a_log() {
        return refuse("its pages are raw, and the process that serves them keeps their order");
    }
    Ok(())
}

/// Puts the memory of `front`, which is not used yet, into a new segment, which is to be published. Returns
/// the front of the process that serves the cache.
pub(crate) fn serve(
    access: &Access,
    sharing: &Sharing,
    opened: Opened,
) -> Result<(Access, ServedSegment, NewSegment), TierError> {
    let parts = Parts::new(&access.options, sharing.fronts);
    let made = sharing.memory.create(&parts.plan)?;
    let segment = made.segment().clone();
    let fronts = segment.fronts(&parts.fronts);
    let place = fronts.register_back().map_err(|taken| TierError::Refused(taken.to_string()))?;
    let seat = Seat::of_back(place, fronts.clone());
    let identity = segment.part(&parts.identity);
    for (word, bytes) in identity.cache.iter().zip(opened.cache.0.as_chunks::<8>().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    identity.epoch.store(opened.epoch, Relaxed);
    let region = segment.guarded(&parts.region);
    access.directory.copy_to(&parts.region(&segment, &access.options, region.clone(), seat.holder()))?;
    let shadows = match &parts.shadows {
        Ok((plan, part)) => {
            let area = segment.guarded(part);
            shadow::format_region(plan, &mut area.lock(seat.holder())?, &access.options.costs);
            Some(area)
        }
        Err(_) => None,
    };
    let service = parts.bell(&segment, 3);
    let memory = parts.memory(&segment, &access.options, seat, true);
    let common = Common {
        options: (*access.options).clone(),
        flash: access.flash_pages.flash.clone(),
        stamps: access.flash_pages.stamps,
        positions: access.flash_pages.positions.clone(),
        listed: None,
    };
    let front = Access::over(memory, common)?;
    front.directory.note_objects()?;
    Ok((front, ServedSegment { fronts, service, region, shadows, ends: AtomicBool::new(false) }, made))
}

/// A front of this process, the bell of the back's services, and the open of the cache that it belongs to.
/// Without `of_flash` the flash is not reached, and nothing is compared.
pub(crate) fn attach(
    sharing: &Sharing,
    options: &TierOptions,
    flash: Arc<dyn Device>,
    of_flash: Option<(Stamps, Opened)>,
    interrupted: Option<fn() -> bool>,
) -> Result<(Access, Bell, Opened), TierError> {
    check(options)?;
    let parts = Parts::new(options, sharing.fronts);
    let Some(segment) = sharing.memory.attach(&parts.plan)? else {
        return Err(TierError::Refused(format!(
            "{}: no shared memory is there; start the process that serves the cache first, and check the path",
            sharing.memory.name()
        )));
    };
    let state = RunState::new(BoardRef::mapped(segment.part(&parts.board), 0));
    if matches!(state.now(), State::Gone | State::Closed) {
        return Err(TierError::Gone("the cache's shared memory is not served any more"));
    }
    let identity = segment.part(&parts.identity);
    let mut cache = Uuid::NIL;
    for (word, bytes) in identity.cache.iter().zip(cache.0.as_chunks_mut::<8>().0) {
        *bytes = word.load(Relaxed).to_le_bytes();
    }
    let served = Opened { cache, epoch: identity.epoch.load(Relaxed) };
    if let Some((_, opened)) = of_flash
        && served != opened
    {
        return Err(TierError::Refused(format!(
            "the flash device holds cache {} in its epoch {}, and {} is shared memory of cache {} in epoch {}; give the path of \
             that cache's flash device, or try again if the cache is just being opened",
            opened.cache,
            opened.epoch,
            sharing.memory.name(),
            served.cache,
            served.epoch
        )));
    }
    let fronts = segment.fronts(&parts.fronts);
    if !fronts.has_back() {
        return Err(TierError::Gone("the process that serves the cache has ended"));
    }
    let place = fronts.register().map_err(|full| TierError::Refused(full.to_string()))?;
    let memory = parts.memory(&segment, options, Seat::of_front(place, fronts, interrupted), false);
    let stamps = of_flash.map_or(Stamps::of_log(cache), |(stamps, _)| stamps);
    let common = Common { options: options.clone(), flash, stamps, positions: 0..u64::MAX, listed: None };
    Ok((Access::over(memory, common)?, parts.bell(&segment, 3), served))
}
