//! Walks over the pages in the cache, in steps between which the cache is used.
//!
//! Pages move meanwhile: from a staging frame to a slot when they are written, and from a slot to a frame
//! when they get a second chance. Invariant: a walk has the direction in which pages move. With log placement
//! they move to greater positions only, so it takes the positions in ascending order. With slot placement
//! pages without a new eviction move from frames to slots only, so the frames come first.

use crate::PageId;
use crate::partition::Partition;
use crate::slot::VALID;

/// How far a walk has come. A new one is at its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    next: u64,
    /// Log placement: where it ends at the latest; `None`: it has not begun.
    end: Option<u64>,
}

impl Partition<'_> {
    /// Goes on with a walk by so many places, and calls `meet` with the pages there. False: it is over.
    ///
    /// Each page that is in the cache from the first step to the last is met, unless it is handed down
    /// meanwhile; with log placement even then, unless the ring turns more than once. A page that moves
    /// may be met twice.
    pub fn walk(&self, walk: &mut Walk, places: u32, mut meet: impl FnMut(PageId)) -> bool {
        let contents = self.contents();
        let directory = &contents.pages.directory;
        let end = match self {
            Partition::Log(log) => {
                walk.next = walk.next.max(log.ring.head.released);
                let rear = contents.staging.window.rear;
                // Else it would not end where pages enter faster than it advances.
                rear.min(*walk.end.get_or_insert(rear + u64::from(directory.slots)))
            }
            Partition::Slots(_) => self.entries().into(),
        };
        let step = walk.next..end.min(walk.next + u64::from(places));
        walk.next = walk.next.max(step.end);
        for at in step {
            let entry = match self {
                Partition::Log(log) => log.ring.entry_at(contents, at),
                Partition::Slots(_) => ((at + u64::from(directory.slots)) % end) as u32,
            };
            let is_used = match directory.frame_of(entry) {
                Some(frame) => contents.staging.frame(frame).holds_page(),
                None => directory.entry(entry).has(VALID),
            };
            let page = directory.entry(entry).page();
            if is_used && directory.find(page) == Some(entry) {
                meet(page);
            }
        }
        walk.next < end
    }
}
