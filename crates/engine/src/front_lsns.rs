//! LSNs of dirty pages on flash, from the summaries of their groups. An owner that replays its log after a
//! crash learns without reading a page that the page has a change already.
//!
//! Invariant: an LSN is that of the version that the directory means, or none is given.
//! - The directory names the position. A position is given out once in an epoch.
//! - A summary counts only if it is of the epoch in which the position was given out. From the rear at the
//!   open on that is the present epoch; before, the open has rewritten each summary that was not
//!   ([`crate::recover`]).
//! - The directory calls a page one on flash when all of its group is, with the summary. So a summary is
//!   read once.
//! - The two copies of a summary must not contradict each other, and must name the page.

use crate::scan::Reader;
use crate::{SharedFront, TierError};
use entresol_core::{Lsn, PageId, Position};
use entresol_device::Device;
use entresol_format::Layout;
use entresol_format::summary::Entry;
use entresol_format::superblock::Superblock;
use std::cell::RefCell;
use std::sync::Arc;

/// Groups that are remembered: with 128 pages each, their entries have 40 MiB.
const GROUPS_MAX: u64 = 8192;

/// See the module's header.
pub(crate) struct Lsns {
    flash: Arc<dyn Device>,
    superblock: Superblock,
    layout: Layout,
    /// A group is at its number, modulo their number.
    groups: RefCell<Vec<Option<Group>>>,
}

/// What the summary of a group says.
struct Group {
    number: u64,
    entries: Vec<Option<Entry>>,
}

impl Lsns {
    /// Those of the flash whose newest superblock, of the present open, is `superblock`.
    pub(crate) fn new(flash: Arc<dyn Device>, superblock: Superblock, layout: Layout) -> Self {
        Self { flash, superblock, layout, groups: RefCell::default() }
    }

    /// The LSN of `page`, which is on flash at `position`. `None`: no summary says it.
    fn at(&self, page: PageId, position: Position) -> Result<Option<Lsn>, TierError> {
        let group_pages = u64::from(self.superblock.group_pages);
        let (number, at) = (position.0 / group_pages, (position.0 % group_pages) as usize);
        let mut groups = self.groups.borrow_mut();
        if groups.is_empty() {
            groups.resize_with(self.layout.groups().min(GROUPS_MAX) as usize, || None);
        }
        let place = (number % groups.len() as u64) as usize;
        let is_known = |group: &Group| group.number == number;
        if !groups[place].as_ref().is_some_and(is_known) {
            let mut reader = Reader::new(&*self.flash, &self.superblock, self.layout);
            groups[place] = Some(Group { number, entries: reader.agreed(number)? });
        }
        let entry = groups[place].as_ref().and_then(|group| *group.entries.get(at)?);
        Ok(entry.filter(|entry| entry.page == page).map(|entry| entry.lsn))
    }
}

impl SharedFront {
    /// The LSN of `page`, if it is newer on flash than on disk, and the summary of its group says it. `None`
    /// otherwise, also if that summary cannot be read. Reads no page, but the page counts as used: who asks
    /// would have read it. Allocates.
    pub fn newer_lsn(&self, page: PageId) -> Option<Lsn> {
        let lsns = self.lsns.as_ref()?;
        let position = self.access.cached.dirty_position(page).ok()??;
        lsns.at(page, position).ok()?
    }
}
