//! Reads of pages: from flash, else from disk. Of adjacent pages, those that are side by side where they are
//! are one request.
//!
//! Invariant: a page served from flash was proved by checksum, id and stamp, and is the version on disk. If
//! the proof fails, the page is read from disk and its copy on flash is forgotten.

use super::copies::{FlashCopies, ReadCopies};
use super::mapping::Mapping;
use super::proofs::ProvableCopy;
use super::write::PAGES_MAX;
use super::{Base, points};
use crate::TierError;
use crate::api::{Fetched, ReadCounts, ReadRoute, Source};
use crate::disk::{WriteBehind, clean};
use crate::tally::lane_of_thread;
use arrayvec::ArrayVec;
use entresol_core::PageId;
use std::sync::Arc;

type Copies = ArrayVec<Option<ProvableCopy>, PAGES_MAX>;
type Words = ArrayVec<u32, PAGES_MAX>;

/// See the module's header.
pub(super) struct FragmentReads {
    mapping: Arc<Mapping>,
    copies: Arc<FlashCopies>,
    behind: Arc<WriteBehind>,
}

impl FragmentReads {
    pub(super) fn new(base: &Base) -> Self {
        let Base { mapping, copies, behind } = base.clone();
        Self { mapping, copies, behind }
    }

    pub(super) fn fetch(&self, id: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        if let Some(staged) = self.behind.fetch_staged(id, buffer)? {
            return Ok(staged);
        }
        let running = self.mapping.is_running();
        if !running {
            points::OFF_FETCH.reach();
        }
        let copy = if self.mapping.has_place(id) && running {
            self.mapping.step(|state| state.fetch(id))
        } else {
            None
        };
        self.fetch_copy(id, copy, buffer)
    }

    /// Fetches a page of which the cache has this copy, or none.
    fn fetch_copy(
        &self,
        id: PageId,
        mut copy: Option<ProvableCopy>,
        buffer: &mut [u8],
    ) -> Result<Fetched, TierError> {
        while let Some(meant) = copy {
            let words = self.read_copies(&[meant], buffer);
            if words.first().is_some_and(|word| self.copies.is_proved(id, meant, *word, buffer)) {
                self.behind.tallies.flash_hits.add(lane_of_thread(), 1);
                return Ok(clean(Source::Flash));
            }
            copy = self.mapping.look(id, |state| {
                let now = state.peek(id);
                if now != Some(meant) {
                    points::FETCH_MOVED.reach();
                    return now;
                }
                // The slot was not given to another fragment meanwhile: the copy is damaged.
                self.behind.tallies.damaged_clean.add(1);
                match words.is_empty() && meant.word.is_none() {
                    true => state.cache.discard_fragment(id),
                    false => state.cache.discard(id),
                }
                None
            });
        }
        self.behind.fetch_from_disk(id, buffer)
    }

    /// Reads adjacent copies. Returns the word that proves each; none at all: they cannot be proved.
    fn read_copies(&self, copies: &[ProvableCopy], bytes: &mut [u8]) -> Words {
        match self.copies.read(copies, bytes) {
            ReadCopies::Known => copies.iter().filter_map(|copy| copy.word).collect(),
            ReadCopies::WithProofs(block) => {
                points::PROOFS_READ.reach();
                let word = |copy: &ProvableCopy| self.copies.word_in(&block, copy.slot);
                let words = copies.iter().map(word).collect();
                self.mapping.keep_proofs(&self.copies, copies[0].slot, copies[0].block, &block);
                self.copies.give_back(block);
                words
            }
            ReadCopies::Unproved => Words::new(),
            ReadCopies::Unreadable => {
                points::FETCH_UNREADABLE.reach();
                Words::new()
            }
        }
    }

    pub(super) fn read_pages(
        &self,
        first: PageId,
        buffer: &mut [u8],
        how: ReadRoute,
    ) -> Result<ReadCounts, TierError> {
        self.copies.options.check_whole(buffer)?;
        let page_bytes = self.copies.options.page_bytes as usize;
        let mut served = ReadCounts::default();
        // Past the flash, one request to the disk.
        let pages_max = if how == ReadRoute::Around { usize::MAX / page_bytes } else { PAGES_MAX };
        let mut first = first.0;
        for bytes in buffer.chunks_mut(pages_max * page_bytes) {
            let pages = (bytes.len() / page_bytes) as u64;
            let copies = self.find(first, pages, how);
            self.read_some(first, &copies, bytes, &mut served)?;
            first += pages;
        }
        Ok(served)
    }

    /// The copies of these pages. None at all: the disk is read.
    fn find(&self, first: u64, pages: u64, how: ReadRoute) -> Copies {
        let ids = (first..first + pages).map(PageId);
        if how == ReadRoute::Around
            || !self.mapping.is_running()
            || !ids.clone().all(|id| self.mapping.has_place(id))
        {
            return Copies::new();
        }
        match how {
            ReadRoute::Populates => self.mapping.step(|state| ids.map(|id| state.fetch(id)).collect()),
            _ => self.mapping.with(|state| ids.map(|id| state.peek(id)).collect()),
        }
    }

    /// Reads pages: those that lie side by side where they are, in one request.
    fn read_some(
        &self,
        first: u64,
        copies: &[Option<ProvableCopy>],
        bytes: &mut [u8],
        served: &mut ReadCounts,
    ) -> Result<(), TierError> {
        let page_bytes = self.copies.options.page_bytes as usize;
        if copies.is_empty() {
            return self.read_from_disk(first, bytes, served);
        }
        let is_next = |(before, after): (&Option<ProvableCopy>, &Option<ProvableCopy>)| match (before, after)
        {
            (Some(before), Some(after)) => {
                self.copies.offset(before.slot) + page_bytes as u64 == self.copies.offset(after.slot)
            }
            (None, None) => true,
            _ => false,
        };
        let mut at = 0;
        while at < copies.len() {
            let pairs = copies[at..].iter().zip(&copies[at + 1..]);
            let run = 1 + pairs.take_while(|pair| is_next(*pair)).count();
            let (copies, from) = (&copies[at..at + run], first + at as u64);
            let bytes = &mut bytes[at * page_bytes..][..run * page_bytes];
            match copies[0] {
                Some(_) => self.read_from_flash(from, copies, bytes, served)?,
                None => self.read_from_disk(from, bytes, served)?,
            }
            at += run;
        }
        Ok(())
    }

    fn read_from_flash(
        &self,
        first: u64,
        copies: &[Option<ProvableCopy>],
        bytes: &mut [u8],
        served: &mut ReadCounts,
    ) -> Result<(), TierError> {
        let copies: ArrayVec<ProvableCopy, PAGES_MAX> = copies.iter().filter_map(|copy| *copy).collect();
        let mut words = self.read_copies(&copies, bytes).into_iter();
        let pages = bytes.chunks_exact_mut(self.copies.options.page_bytes as usize);
        for ((id, copy), bytes) in (first..).map(PageId).zip(copies).zip(pages) {
            if words.next().is_some_and(|word| self.copies.is_proved(id, copy, word, bytes)) {
                self.behind.tallies.flash_hits.add(lane_of_thread(), 1);
                served.count(Source::Flash);
            } else {
                served.count(self.fetch_copy(id, Some(copy), bytes)?.source);
            }
        }
        Ok(())
    }

    fn read_from_disk(&self, first: u64, bytes: &mut [u8], served: &mut ReadCounts) -> Result<(), TierError> {
        let page_bytes = self.copies.options.page_bytes as usize;
        let pages = (bytes.len() / page_bytes) as u64;
        let ids = || (first..first + pages).map(PageId);
        let disk = &self.behind.disk;
        if disk.read_run(PageId(first), bytes).is_ok() && disk.prove_kept(ids()).is_ok() {
            self.behind.tallies.disk_reads.add(pages as usize);
            served.disk += pages;
            return Ok(());
        }
        // One by one, so that an error names its page.
        for (id, bytes) in ids().zip(bytes.chunks_exact_mut(page_bytes)) {
            served.count(self.behind.fetch_from_disk(id, bytes)?.source);
        }
        Ok(())
    }
}
