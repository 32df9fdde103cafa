//! Staged pages are written to disk, and over their copies on flash if their fragments are mapped (SCE §3.2,
//! figure 2: "write requests invalidate page validity bitmaps and are passed to backing device"; §4.2:
//! write-through if mapped).
//!
//! Invariant: while a page is being written it is not valid on flash. It becomes valid only when both writes
//! are done, and the word that proves it is in memory. Changed words go to flash with later pages
//! ([`Proofs`](super::proofs::Proofs)).

use super::copies::FlashCopies;
use super::mapping::{Locked, Mapping};
use super::proofs::{Cleaning, ProvableCopy};
use super::{Base, points};
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::disk::{BATCH, Staged, WRITERS, WriteBehind};
use crate::error::flash_error;
use arrayvec::ArrayVec;
use entresol_core::{PageId, WritePath};
use entresol_device::{BufferPool, Io};
use entresol_format::PageFormat;
use entresol_format::fragments::set_proofs;
use entresol_runtime::sync::{Rank, Semaphore};
use std::sync::Arc;

/// Writes of one fragment that the core can count, but for one that holds it.
const WRITES_COUNTED: usize = 254;
/// Most pages that are written at once: [`BATCH`] of those that were staged.
pub(super) const PAGES_MAX: usize = 64;
const _: () = assert!(
    WRITERS * BATCH <= WRITES_COUNTED && BATCH <= PAGES_MAX,
    "no write waits for another of its fragment"
);

/// The path of a page of a batch and, for a write-through, the expected version of its copy.
struct Path {
    page: PageId,
    path: WritePath,
    copy: Option<ProvableCopy>,
}

type Paths = ArrayVec<Path, PAGES_MAX>;
/// Blocks of proofs on their way to these offsets.
type Cleanings = ArrayVec<(Cleaning, u64, AlignedBuffer), PAGES_MAX>;

/// Writes of pages, staged or of a caller without memory of its own for pages.
pub(super) struct FragmentWrites {
    mapping: Arc<Mapping>,
    copies: Arc<FlashCopies>,
    behind: Arc<WriteBehind>,
    /// For pages on their way to flash.
    buffers: BufferPool,
    /// Pages that may be written at once without staging: so many are counted.
    unstaged: Semaphore,
}

impl FragmentWrites {
    pub(super) fn new(base: &Base) -> Self {
        let Base { mapping, copies, behind } = base.clone();
        let buffers = BufferPool::new(copies.options.page_bytes as usize, usize::MAX);
        let unstaged = Semaphore::new(Rank::PageTurn, WRITES_COUNTED);
        Self { mapping, copies, behind, buffers, unstaged }
    }

    pub(super) fn write(&self, staged: &[Staged<'_>]) -> Result<(), TierError> {
        let (mut paths, excess): (Paths, usize) = if self.mapping.is_running() {
            let known = staged.iter().map(|staged| staged.page).filter(|page| self.mapping.has_place(*page));
            self.mapping
                .with(|state| (known.map(|page| state.begin_write(page)).collect(), state.proofs.excess()))
        } else {
            points::OFF_WRITE.reach();
            (Paths::new(), 0)
        };
        let on_disk =
            self.behind.disk.write_all::<PAGES_MAX>(staged.iter().map(|staged| (staged.page, staged.bytes)));
        let mut on_flash = on_disk.is_ok();
        if on_flash {
            let written = self.write_through(staged, &mut paths, excess);
            on_flash = written.is_ok();
            if let Err(error) = written {
                points::WRITE_THROUGH_FAILED.reach();
                self.mapping.switch_off(&error);
            }
        }
        if on_flash {
            self.load_proofs(&paths);
        }
        if !paths.is_empty() {
            self.mapping.step(|state| {
                for Path { page, path, copy } in &paths {
                    let is_proved = on_flash && copy.is_none_or(|copy| state.prove(copy));
                    state.cache.write_done(*page, *path, is_proved);
                }
            });
        }
        on_disk
    }

    /// Reads the proofs of the fragments of these pages, if memory does not have them.
    fn load_proofs(&self, paths: &Paths) {
        for copy in paths.iter().filter_map(|path| path.copy) {
            let Some(number) = self.mapping.with(|state| state.proofs.missing(copy.slot)) else { continue };
            if let Some(block) = self.copies.read_proofs(copy.slot, number) {
                self.mapping.keep_proofs(&self.copies, copy.slot, number, &block);
                self.copies.give_back(block);
            }
        }
    }

    /// Begins to write the proofs of `excess` fragments, so that their places in memory can be used again.
    fn begin_cleaning(&self, excess: usize) -> Cleanings {
        let mut all = Cleanings::new();
        while all.len() < excess.min(PAGES_MAX) {
            let mut block = self.copies.take_block();
            let Some(cleaning) = self.mapping.with(|state| state.begin_cleaning(&mut block)) else {
                self.copies.give_back(block);
                break;
            };
            points::PROOFS_WRITTEN.reach();
            let offset = self.copies.seal_cleaned(&mut block, cleaning);
            all.push((cleaning, offset, block));
        }
        all
    }

    /// Writes the pages with a write-through path over their copies, and as many changed proofs as are in
    /// excess.
    fn write_through(
        &self,
        staged: &[Staged<'_>],
        paths: &mut Paths,
        excess: usize,
    ) -> Result<(), TierError> {
        let mut copies = ArrayVec::<(u64, AlignedBuffer), PAGES_MAX>::new();
        for Path { page, copy, .. } in paths {
            let Some(copy) = copy else { continue };
            let staged =
                staged.iter().find(|staged| staged.page == *page).expect("it is one of the staged pages");
            let mut buffer = self.buffers.take(staged.bytes.len());
            buffer.copy_from_slice(staged.bytes);
            copy.word = Some(self.copies.seal(&mut buffer, *page, *copy));
            copies.push((self.copies.offset(copy.slot), buffer));
        }
        if copies.is_empty() {
            return Ok(());
        }
        let cleanings = self.begin_cleaning(excess);
        let mut ios = ArrayVec::<Io<'_>, { 2 * PAGES_MAX }>::new();
        ios.extend(copies.iter().map(|(offset, data)| Io::Write { offset: *offset, data }));
        ios.extend(cleanings.iter().map(|(_, offset, data)| Io::Write { offset: *offset, data }));
        let result = self.copies.flash.run(&mut ios).map_err(flash_error);
        drop(ios);
        self.behind.tallies.flash_writes.add(copies.len() + cleanings.len());
        for (cleaning, _, block) in cleanings {
            self.mapping.with(|state| state.end_cleaning(cleaning));
            self.copies.give_back(block);
        }
        copies.into_iter().for_each(|(_, buffer)| self.buffers.give_back(buffer));
        result
    }

    /// Writes adjacent pages at once. When it returns, the disk has them, and so has flash those of them that
    /// are valid there.
    pub(super) fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        let options = &self.copies.options;
        options.expects(options.page_format != PageFormat::Native, "are evicted, not written")?;
        options.check_whole(data)?;
        let page_bytes = options.page_bytes as usize;
        let mut pages = (first.0..).map(PageId).zip(data.chunks_exact(page_bytes)).peekable();
        pages.clone().try_for_each(|(page, bytes)| self.behind.disk.check_victim(page, bytes))?;
        while pages.peek().is_some() {
            let some: ArrayVec<Staged<'_>, PAGES_MAX> =
                pages.by_ref().take(PAGES_MAX).map(|(page, bytes)| Staged { page, bytes }).collect();
            let _counted = self.unstaged.acquire(some.len());
            self.write(&some)?;
            self.behind.tallies.disk_writes.add(some.len());
        }
        Ok(())
    }
}

impl Locked<'_> {
    /// As [`Fragments::write`](entresol_core::Fragments::write). A write-through is counted.
    fn begin_write(&mut self, page: PageId) -> Path {
        let path = self.cache.write(page);
        let copy = match path {
            WritePath::Through(copy) => Some(self.proofs.begin_write(copy)),
            WritePath::Around | WritePath::Wait => None,
        };
        Path { page, path, copy }
    }

    /// Memory has the word of a page that was written through. False: it has none of its fragment.
    fn prove(&mut self, copy: ProvableCopy) -> bool {
        let is_proved = copy.word.is_some_and(|word| self.proofs.prove(copy.slot, word));
        if !is_proved {
            points::PROOFS_MISSING.reach();
        }
        is_proved
    }

    /// Begins to write changed proofs: their words are in `block` then.
    fn begin_cleaning(&mut self, block: &mut [u8]) -> Option<Cleaning> {
        let Locked { cache, proofs } = self;
        proofs.begin_cleaning(|slot| cache.hold(slot), |words| set_proofs(block, words))
    }

    fn end_cleaning(&mut self, cleaning: Cleaning) {
        self.proofs.cleaned(cleaning);
        self.cache.let_go(cleaning.slot);
    }
}
