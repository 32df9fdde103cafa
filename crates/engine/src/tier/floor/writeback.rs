//! The task that copies dirty pages to disk before their turn: when the cache is idle, when they are old, and
//! when there are many ([`entresol_core::Writeback`] decides). They stay in the cache, as clean pages. For an
//! owner with a log, whose flash may be lost: those that need more of the log than it wants to keep.
//!
//! Pages are copied in the order of the disk: a pass begins with a list of those that may be copied, and
//! takes some at a time.

use super::dirt::Dirt;
use super::failures::Failures;
use super::staged::StagedPages;
use super::wanted::{BATCH, Pace, WantedPages};
use super::{Floor, disk_trouble::DiskTrouble};
use crate::TierError;
use crate::access::{BoardRef, Directory, RunState};
use crate::api::WritebackState;
use arrayvec::ArrayVec;
use entresol_core::{
    Aged, PageId, Partition, SlotAges, Writeback, WritebackLook, WritebackOptions, WritebackStep,
};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Slots that are looked at while the latch is held.
const SLOTS_A_LOOK: u32 = 4096;
/// Pages of which it is known when they were copied last.
const REMEMBERED: usize = 1 << 16;
/// The disk is synced after so long, or after [`BATCH`] pages.
const SYNC_EVERY: Duration = Duration::from_millis(50);
/// The pause after a pass that found nothing to copy, or one that failed; at most the age.
const PAUSE: Duration = Duration::from_secs(1);

/// A page that was copied is not copied again within the age, or this time, if that is shorter, though the
/// cache is idle.
const HOT: Duration = Duration::from_secs(60);

/// See the module's header.
pub(crate) struct WritebackTask {
    directory: Arc<Directory>,
    board: BoardRef,
    state: Arc<RunState>,
    staged: Arc<StagedPages>,
    dirt: Arc<Dirt>,
    failures: Arc<Failures>,
    trouble: Arc<DiskTrouble>,
    wanted: Arc<WantedPages>,
    decides: Decides,
}

/// Whose wish it is that pages are copied.
enum Decides {
    /// No log is above: by their age, and their number.
    Age(Box<TinyMutex<Writeback>>),
    /// The owner of the log: those with a base before this checkpoint.
    Horizon(AtomicU64),
}

/// Pages to copy, in the order of the disk.
#[derive(Default)]
struct Pass {
    pages: Vec<PageId>,
    /// The first that is not copied.
    next: usize,
    /// Copied in this pass.
    copied: u64,
    /// When pages were copied last, by their hash: one place for some.
    copied_at: Vec<(PageId, Time)>,
    /// Of slots, which tell no age.
    ages: SlotAges,
}

impl Pass {
    fn place(page: PageId) -> usize {
        (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % REMEMBERED
    }

    fn was_copied(&self, page: PageId, since: Time) -> bool {
        self.copied_at.get(Self::place(page)).is_some_and(|(copied, at)| *copied == page && *at > since)
    }

    /// The next pages.
    fn take(&mut self, pages: usize) -> ArrayVec<PageId, BATCH> {
        let some: ArrayVec<PageId, BATCH> =
            self.pages[self.next..].iter().copied().take(pages.min(BATCH)).collect();
        self.next += some.len();
        some
    }

    /// For those of `some` from `next` on there was no time.
    fn give_back(&mut self, some: &mut ArrayVec<PageId, BATCH>, next: Option<PageId>) {
        let copied = next.and_then(|next| some.iter().position(|page| *page == next)).unwrap_or(some.len());
        self.next -= some.len() - copied;
        some.truncate(copied);
    }

    fn remember(&mut self, pages: &[PageId]) {
        self.copied_at.resize(REMEMBERED, (PageId(u64::MAX), Time(0)));
        pages.iter().for_each(|page| self.copied_at[Self::place(*page)] = (*page, now()));
    }
}

impl WritebackTask {
    /// `None`: this cache has no dirty pages, or an owner who brings them to disk.
    pub(crate) fn new(floor: &Floor, wanted: &Arc<WantedPages>) -> Option<Self> {
        let options = &floor.access.options;
        if options.config().keeps_bases {
            return Some(Self::of(floor, wanted, Decides::Horizon(AtomicU64::new(0))));
        }
        let writeback = options.writeback.filter(|_| options.dirty_possible())?;
        let look = look(&floor.access.directory, &floor.access.board).unwrap_or(WritebackLook {
            now_ns: 0,
            rear: entresol_core::Position(0),
            dirty: 0,
            requests: 0,
        });
        let decides = TinyMutex::new(Rank::Writeback, Writeback::new(writeback, &look));
        Some(Self::of(floor, wanted, Decides::Age(Box::new(decides))))
    }

    fn of(floor: &Floor, wanted: &Arc<WantedPages>, decides: Decides) -> Self {
        Self {
            directory: floor.access.directory.clone(),
            board: floor.access.board.clone(),
            state: floor.access.state.clone(),
            staged: floor.staged.clone(),
            dirt: floor.dirt.clone(),
            failures: floor.failures.clone(),
            trouble: floor.trouble.clone(),
            wanted: wanted.clone(),
            decides,
        }
    }

    /// From now on, pages with a base before this checkpoint of their owner are copied.
    pub(crate) fn clean_behind(&self, number: u64) {
        if let Decides::Horizon(wanted) = &self.decides {
            wanted.store(number, SeqCst);
            self.failures.dirty.notify_all();
        }
    }

    /// What is to be done, and how many pages are dirty.
    fn decide(&self) -> Result<(WritebackStep, u32), TierError> {
        match &self.decides {
            Decides::Age(decides) => {
                let look = look(&self.directory, &self.board)?;
                Ok((decides.lock().step(&look), look.dirty))
            }
            Decides::Horizon(wanted) => {
                let wanted = wanted.load(SeqCst);
                let behind = self.directory.in_log(|log| log.behind(wanted))?;
                Ok((Writeback::for_horizon(wanted, behind), behind))
            }
        }
    }

    fn age(&self) -> Duration {
        match &self.decides {
            Decides::Age(decides) => Duration::from_nanos(decides.lock().options().age_ns),
            Decides::Horizon(_) => Duration::MAX,
        }
    }

    /// Other options from now on.
    pub(crate) fn set(&self, options: WritebackOptions) {
        let Decides::Age(decides) = &self.decides else { return };
        decides.lock().set(options);
        self.dirt.set_max(options.dirty_max);
        self.failures.dirty.notify_all();
    }

    /// For the owner.
    pub(crate) fn report(&self) -> Option<WritebackState> {
        let Decides::Age(decides) = &self.decides else { return None };
        Some(WritebackState { options: decides.lock().options(), is_clean: self.dirt.is_cleared() })
    }

    /// Copies dirty pages until the tier stops.
    pub(crate) fn task(&self) {
        let slots = if self.directory.is_log() { 0 } else { self.directory.config.slots };
        let mut pass = Pass { ages: SlotAges::new(slots), ..Pass::default() };
        let mut buffer = self.wanted.buffer();
        while !self.state.is_stopped() {
            let seen = self.failures.dirty.epoch();
            let pause = self.step(&mut pass, &mut buffer).unwrap_or_else(|error| {
                self.failures.fail(error);
                Some(self.pause())
            });
            match pause {
                // Until a page is dirty again.
                None => self.failures.dirty.wait(seen),
                Some(time) if time.is_zero() => {}
                Some(time) => self.failures.dirty.wait_for(seen, time),
            }
        }
    }

    /// Does what is due. Returns the pause that follows; `None`: there is nothing to do until a page is
    /// dirty.
    fn step(&self, pass: &mut Pass, buffer: &mut [u8]) -> Result<Option<Duration>, TierError> {
        if !self.state.is_running() {
            // Off, or degraded: there is another task for that.
            return Ok(None);
        }
        let begin = now();
        let (step, dirty) = self.decide()?;
        let (which, pages, pause_permille, most) = match step {
            WritebackStep::Rest(ns) if dirty > 0 => return Ok(Some(Duration::from_nanos(ns))),
            WritebackStep::Rest(_) if matches!(self.decides, Decides::Horizon(_)) => return Ok(None),
            WritebackStep::Rest(_) => {
                return Ok(if self.dirt.clear()? { None } else { Some(self.pause() / 10) });
            }
            WritebackStep::Copy { which, pages, pause_permille, most } => {
                (which, pages, pause_permille, most)
            }
        };
        if pass.next == pass.pages.len() {
            if which == Aged::Quiet {
                self.staged.drain()?;
            }
            self.begin_pass(pass, which)?;
            if pass.pages.is_empty() {
                return Ok(Some(self.pause()));
            }
        }
        let mut some = pass.take(BATCH.min(most as usize));
        let pace = Pace { at_once: pages as usize, pause_permille, until: begin + SYNC_EVERY };
        let mut begun = begin;
        // What stays is tried again in the next pass.
        if let Some(done) = self.wanted.copy_some(&some, Some(pace), buffer, &mut Vec::new())? {
            pass.copied += done.copied;
            self.board.tallies.cleaned.add(done.copied as usize);
            pass.give_back(&mut some, done.next);
            begun = done.begun;
        }
        pass.remember(&some);
        if pass.next == pass.pages.len() && pass.copied == 0 {
            // The disk refuses them all, or others have them in hand.
            return Ok(Some(self.pause()));
        }
        Ok(Some(now().since(begun) * pause_permille / 1000))
    }

    fn pause(&self) -> Duration {
        PAUSE.min(self.age())
    }

    /// Lists the pages that may be copied now.
    fn begin_pass(&self, pass: &mut Pass, which: Aged) -> Result<(), TierError> {
        (pass.next, pass.copied) = (0, 0);
        pass.pages.clear();
        let before = match which {
            Aged::Before(position) => Some(position),
            Aged::Quiet | Aged::All | Aged::Based(_) => None,
        };
        let is_by_look = before.is_some() && !self.directory.is_log();
        let age_ns = self.age().as_nanos() as u64;
        if is_by_look && !pass.ages.begin_look(now().0, age_ns) {
            return Ok(());
        }
        let slots = self.directory.config.slots;
        for from in (0..slots).step_by(SLOTS_A_LOOK as usize) {
            // Memory is taken before the latch.
            pass.pages.reserve(SLOTS_A_LOOK as usize);
            let slots = from..from + SLOTS_A_LOOK;
            self.directory.with(|partition| match (which, partition.log()) {
                (Aged::Based(number), Some(log)) => pass.pages.extend(log.dirty_based_before(slots, number)),
                _ if is_by_look => look_at(partition, slots, pass),
                _ => pass.pages.extend(partition.dirty_before(slots, before)),
            })?;
        }
        if which == Aged::Quiet {
            let age = self.age().min(HOT);
            let since = Time((now().0).saturating_sub(age.as_nanos() as u64));
            let mut pages = std::mem::take(&mut pass.pages);
            pages.retain(|page| !pass.was_copied(*page, since));
            pass.pages = pages;
        }
        pass.pages.retain(|page| !self.trouble.is_kept(*page));
        pass.pages.sort_unstable();
        Ok(())
    }
}

/// Adds those pages in these slots to the pass that have been dirty since the look before.
fn look_at(partition: &Partition<'_>, slots: Range<u32>, pass: &mut Pass) {
    let Some(table) = partition.slots() else { return };
    let mut from = slots.start;
    for (slot, page, written) in table.dirty_with_generation(slots.clone()) {
        (from..slot.0).for_each(|clean| _ = pass.ages.look(clean, None));
        from = slot.0 + 1;
        if pass.ages.look(slot.0, Some(written)) {
            pass.pages.push(page);
        }
    }
    (from..slots.end).for_each(|clean| _ = pass.ages.look(clean, None));
}

fn look(directory: &Directory, board: &BoardRef) -> Result<WritebackLook, TierError> {
    let (rear, dirty) = directory.with(|partition| (partition.window().1, partition.unsaved().pages))?;
    let requests = board.tallies.requests();
    Ok(WritebackLook { now_ns: now().0, rear, dirty, requests })
}
