//! Adjacent pages that are all on flash: looked up together, and read together. Pages that are adjacent
//! on flash, as those often do that have entered together, are one read.
//!
//! Invariant: as [`super::Fetches::fetch`] of each page. A page that is not proved here is left to it, as is
//! one that was looked up without the latch and is not current any more.

use super::Base;
use super::board::BoardRef;
use super::directory::Directory;
use super::flash_pages::FlashPages;
use super::signals::Signals;
use crate::TierError;
use crate::shadow::Shadow;
use arrayvec::ArrayVec;
use entresol_core::{Generation, Hit, Lookup, PageId, SlotId, Unlatched};
use entresol_device::ReadPart;
use entresol_shm::Gone;
use std::sync::Arc;

/// Most pages of a run that is fetched.
const RUN_MAX: usize = 64;

/// A page on flash: its slot, what it must prove, the checksum that is kept for it, and the look-up without
/// the latch, if that gave it.
type Place = (SlotId, Generation, u32, Option<Hit>);

/// Pages from `first` on, up to the first one that is not found on flash without the latch, or `most`. They
/// count as fetched. Empty: there are fewer than `least`.
fn places_unlatched<const N: usize>(
    index: &Unlatched<'_>,
    first: PageId,
    most: usize,
    least: usize,
) -> ArrayVec<Place, N> {
    let mut places: ArrayVec<Place, N> = ArrayVec::new();
    for page in (first.0..first.0 + most as u64).map(PageId) {
        let Some(hit) = index.peek(page) else { break };
        places.push((hit.slot, Generation::Exact(hit.position), hit.proof, Some(hit)));
    }
    if places.len() < least {
        places.clear();
    }
    places.iter().filter_map(|(.., hit)| hit.as_ref()).for_each(|hit| index.refer(hit));
    places
}

/// Adjacent pages on flash, and where each of them is.
pub(crate) struct Run<const N: usize> {
    first: PageId,
    places: ArrayVec<Place, N>,
}

/// Fetches of adjacent pages.
pub(crate) struct Runs {
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    signals: Arc<Signals>,
    shadow: Arc<Shadow>,
    board: BoardRef,
}

impl Runs {
    pub(super) fn new(base: &Base) -> Self {
        Self {
            directory: base.directory.clone(),
            flash_pages: base.flash_pages.clone(),
            signals: base.signals.clone(),
            shadow: base.shadow.clone(),
            board: base.board.clone(),
        }
    }

    /// Fetches as many pages from `first` on as are on flash, at most those that fit into `buffer`. Returns
    /// how many it has fetched: 0 if there are fewer than two, or the first one cannot be proved.
    pub(crate) fn fetch(&self, first: PageId, buffer: &mut [u8]) -> Result<usize, TierError> {
        let page_bytes = self.flash_pages.page_bytes;
        let most = (buffer.len() / page_bytes).min(RUN_MAX);
        if most < 2 {
            return Ok(0);
        }
        let Some(run) = self.find::<RUN_MAX>(first, most, 2)? else { return Ok(0) };
        let bytes = &mut buffer[..run.places.len() * page_bytes];
        if self.read(&run, bytes).is_err() {
            return Ok(0);
        }
        let proved = self.prove(&run, bytes);
        self.board.count_flash_hits(proved);
        Ok(proved)
    }

    /// Looks up the pages from `first` on, up to the first one that is not on flash, or `most`. They count as
    /// fetched. `None`: there are fewer than `least`, or such pages are to be fetched one by one.
    pub(crate) fn find<const N: usize>(
        &self,
        first: PageId,
        most: usize,
        least: usize,
    ) -> Result<Option<Run<N>>, TierError> {
        // Pages that move up, or may be dead, are looked at one by one.
        if self.directory.config.policy.exclusive()
            || self.directory.has_objects()
            || !self.signals.check_running()?
        {
            return Ok(None);
        }
        entresol_runtime::may_preempt();
        let places = match self.directory.unlatched() {
            Some(index) => places_unlatched(&index, first, most.min(N), least),
            None => self.places(first, most.min(N), least)?,
        };
        Ok((!places.is_empty()).then_some(Run { first, places }))
    }

    fn places<const N: usize>(
        &self,
        first: PageId,
        most: usize,
        least: usize,
    ) -> Result<ArrayVec<Place, N>, Gone> {
        self.directory.step(|partition| {
            let mut places: ArrayVec<Place, N> = ArrayVec::new();
            for page in (first.0..first.0 + most as u64).map(PageId) {
                let Lookup::Flash { slot, generation, .. } = partition.peek(page) else { break };
                places.push((slot, generation, partition.proof(slot), None));
            }
            if places.len() < least {
                places.clear();
            }
            for page in (first.0..first.0 + places.len() as u64).map(PageId) {
                partition.fetch(page);
            }
            places
        })
    }

    /// What is to be read for a run: adjacent pages at once.
    pub(crate) fn parts<const N: usize>(&self, run: &Run<N>) -> ArrayVec<ReadPart, N> {
        let offsets = run.places.iter().map(|(slot, ..)| self.flash_pages.layout.slot_offset(*slot));
        ReadPart::of_pieces(offsets, self.flash_pages.page_bytes)
    }

    /// Reads a run.
    pub(crate) fn read<const N: usize>(
        &self,
        run: &Run<N>,
        bytes: &mut [u8],
    ) -> Result<(), entresol_device::DeviceError> {
        ReadPart::read(&self.parts(run), &*self.flash_pages.flash, bytes)
    }

    /// How many pages of a run, from the first one on, were read and are proved. They can be
    /// served, and the caller counts them.
    pub(crate) fn prove<const N: usize>(&self, run: &Run<N>, bytes: &mut [u8]) -> usize {
        let mut proved = 0;
        let pages = bytes.chunks_exact_mut(self.flash_pages.page_bytes);
        let index = self.directory.unlatched();
        let is_current =
            |page, hit: &Hit| index.as_ref().is_some_and(|index| self.directory.is_current(index, page, hit));
        for ((slot, generation, proof, hit), bytes) in run.places.iter().zip(pages) {
            let page = PageId(run.first.0 + proved as u64);
            let is_proved = self.flash_pages.prove(bytes, page, *slot, *generation, *proof).is_ok();
            if !is_proved || hit.as_ref().is_some_and(|hit| !is_current(page, hit)) {
                break;
            }
            self.flash_pages.page_format.unseal(bytes, page);
            self.shadow.fetch(page);
            proved += 1;
        }
        proved
    }
}
