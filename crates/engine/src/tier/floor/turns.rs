//! Who may write a page, where no log stands above: one writer at a time.

use crate::access::{Access, RUN_PAGES_MAX};
use crate::signal::Signal;
use arrayvec::ArrayVec;
use entresol_core::{PageId, Partition, Position};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::Gone;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Pages that are being written, and whether the new version may be read from flash before the disk has
/// it.
type Writes = HashMap<PageId, bool>;

/// What writes of this kind share.
pub(crate) struct Turns {
    /// The pages whose turn a writer has. Of each there is one writer at a time.
    turns: TinyMutex<Writes>,
    /// A turn has ended.
    ended: Signal,
    /// The rears when the writes under way began.
    under_way: TinyMutex<Vec<Position>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            turns: TinyMutex::new(Rank::WritesThrough, Writes::new()),
            ended: Signal::default(),
            under_way: TinyMutex::new(Rank::WritesThrough, Vec::new()),
        }
    }
}

/// The turn to write some pages, until dropped.
pub(crate) struct Turn<'a>(&'a Turns, ArrayVec<PageId, RUN_PAGES_MAX>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Self(shared, pages) = self;
        shared.end(pages.iter().copied());
    }
}

impl Turns {
    /// The turn to write these pages, all at once: no task that waits for a turn has another one. `shows`:
    /// the new versions can be read from flash before the disk has them.
    pub(crate) fn turn(&self, pages: &[(PageId, &[u8])], shows: bool) -> Turn<'_> {
        let mut wanted: ArrayVec<PageId, RUN_PAGES_MAX> = pages.iter().map(|(page, _)| *page).collect();
        wanted.sort_unstable();
        let mut last = None;
        wanted.retain(|page| last.replace(*page) != Some(*page));
        loop {
            let seen = self.ended.epoch();
            if self.try_take(wanted.iter().copied(), shows) {
                return Turn(self, wanted);
            }
            self.ended.wait(seen);
        }
    }

    /// Takes the turn of these pages, unless another writer has one of them.
    fn try_take(&self, wanted: impl Iterator<Item = PageId> + Clone, shows: bool) -> bool {
        let mut turns = self.turns.lock();
        let is_free = !wanted.clone().any(|page| turns.contains_key(&page));
        if is_free {
            turns.extend(wanted.map(|page| (page, shows)));
        }
        is_free
    }

    /// The turn of these pages ends.
    fn end(&self, pages: impl Iterator<Item = PageId>) {
        let mut turns = self.turns.lock();
        pages.for_each(|page| _ = turns.remove(&page));
        drop(turns);
        self.ended.notify_all();
    }

    /// Whether a version of `page` may have been read that the disk does not have yet.
    pub(crate) fn shows(&self, page: PageId) -> bool {
        self.turns.lock().get(&page).copied().unwrap_or(false)
    }

    /// Waits until no such write of `page` is under way. False: none was.
    pub(crate) fn await_write(&self, page: PageId) -> bool {
        let mut waited = false;
        loop {
            let seen = self.ended.epoch();
            if !self.shows(page) {
                return waited;
            }
            self.ended.wait(seen);
            waited = true;
        }
    }

    /// A write begins, with the rear at `from`.
    pub(crate) fn write_begins(&self, from: Position) -> UnderWay<'_> {
        self.under_way.lock().push(from);
        UnderWay(self, from)
    }

    /// The oldest position at which a page may be whose disk write is under way, if one is.
    pub(crate) fn oldest(&self) -> Option<Position> {
        self.under_way.lock().iter().min().copied()
    }
}

/// A write under way, until dropped.
pub(crate) struct UnderWay<'a>(&'a Turns, Position);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = self.0.under_way.lock();
        if let Some(at) = all.iter().position(|from| *from == self.1) {
            all.swap_remove(at);
        }
    }
}

/// Pages and their bytes.
type PageWrites<'a> = &'a [(PageId, &'a [u8])];

/// Pages on their way to disk, until dropped: no read of one of them enters the flash.
pub(crate) struct Writing<'a> {
    access: &'a Access,
    announced: PageWrites<'a>,
    /// Those that stay on flash meanwhile: all of them, or none.
    held: PageWrites<'a>,
}

impl<'a> Writing<'a> {
    pub(crate) fn begin(access: &'a Access, pages: PageWrites<'a>) -> Result<Self, Gone> {
        Self::begin_held(access, pages, |_| &[])
    }

    /// `hold` holds the new versions of pages on flash, and says which.
    pub(crate) fn begin_held(
        access: &'a Access,
        pages: PageWrites<'a>,
        hold: impl FnOnce(&mut Partition<'_>) -> PageWrites<'a>,
    ) -> Result<Self, Gone> {
        let held = access.directory.with(|partition| {
            pages.iter().for_each(|(page, _)| access.order.write_begins(*page));
            hold(partition)
        })?;
        Ok(Self { access, announced: pages, held })
    }

    /// No page is held.
    pub(crate) fn holds_none(&self) -> bool {
        self.held.is_empty()
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Self { access, announced, held } = self;
        // Where the memory is given up, so is the order.
        let _ = access.directory.step(|partition| {
            announced.iter().for_each(|(page, _)| access.order.write_ends(*page));
            if let Some(log) = partition.log_mut() {
                held.iter().for_each(|(page, _)| log.let_go(*page));
            }
        });
    }
}

/// Adjacent pages on their way to disk past the flash, until dropped: a writer has their turn, and no read of
/// one enters the flash.
pub(crate) struct Passing {
    access: Arc<Access>,
    turns: Arc<Turns>,
    pub pages: Range<u64>,
}

impl Passing {
    /// Never waits. `None`: another writer has the turn of a page, or a copy of one is to be forgotten first.
    pub(crate) fn begin(access: &Arc<Access>, turns: &Arc<Turns>, pages: Range<u64>) -> Option<Self> {
        let ids = || pages.clone().map(PageId);
        if !turns.try_take(ids(), false) {
            return None;
        }
        // In one step: no copy of a page enters between the two.
        let begins = access.directory.with(|partition| {
            let last = PageId(pages.end - 1);
            let may = access.state.is_running()
                && partition.log().is_some_and(|log| log.may_go_past(PageId(pages.start), last));
            if may {
                ids().for_each(|page| access.order.write_begins(page));
            }
            may
        });
        if !begins.unwrap_or(false) {
            turns.end(ids());
            return None;
        }
        Some(Self { access: access.clone(), turns: turns.clone(), pages })
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let Self { access, turns, pages } = self;
        let ids = || pages.clone().map(PageId);
        // Where the memory is given up, so is the order.
        let _ = access.directory.step(|_| ids().for_each(|page| access.order.write_ends(page)));
        turns.end(ids());
    }
}
