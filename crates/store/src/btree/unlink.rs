//! Frees an empty leaf, and the inner pages that have no children without it.
//!
//! So a table used as a queue, filled at one end and emptied at the other, keeps its size. Half-full pages
//! are not merged.

use super::ground::Ground;
use super::split::write_pinned;
use crate::mtr::MTR_PAGES_MAX;
use crate::page::node::{self, Node};
use crate::page::op::PageOp;
use crate::page::{PageKind, bitmap, clear};
use crate::pool::{PageWrite, Pin};
use crate::wal::{RecordKind, Room};
use crate::work::Work;
use crate::{PageNumber, StoreError, TxnId};

/// Unlinks pages.
pub(crate) struct Unlinker {
    ground: Ground,
}

impl Unlinker {
    pub(crate) fn new(ground: &Ground) -> Unlinker {
        Unlinker { ground: ground.clone() }
    }

    /// Unlinks the leaf for `key` if it is still empty and is not the root. The caller holds no latches, no
    /// permit and no room. Without room in the log the leaf stays. Later inserts use it, and the last
    /// deletion from it frees it.
    #[cold]
    pub(crate) fn unlink_empty(
        &self,
        work: &mut Work,
        root: PageNumber,
        key: &[u8],
        rolls_back: bool,
    ) -> Result<(), StoreError> {
        let ground = &self.ground;
        let _lock = ground.space.modify();
        let room = if rolls_back {
            Room::kept()
        } else {
            match ground.log_room.for_step() {
                Err(StoreError::LogFull { .. }) => return Ok(()),
                room => room?,
            }
        };
        let _permit = ground.pool.enter();
        let path = ground.descent.path(work, root, key)?;
        let (links, leaf_number) = {
            let leaf = ground.pool.fix_shared(path[path.len() - 1].0)?;
            if path.len() == 1 || Node(&leaf).count() > 0 {
                return Ok(());
            }
            ([Node(&leaf).left(), Node(&leaf).right()], leaf.number())
        };
        let above = self.lowest_kept(&path)?;
        let freed: Vec<PageNumber> = path[above + 1..].iter().map(|(page, _)| *page).collect();
        if 2 * freed.len() + 3 > MTR_PAGES_MAX {
            return Ok(());
        }

        // All pages into DRAM first. Then the latches: top down, left to right, bitmaps last.
        let pin =
            |page: PageNumber| -> Result<Pin<'_>, StoreError> { Ok(ground.pool.fix_shared(page)?.unlatch()) };
        let top = pin(path[above].0)?;
        let chain = freed.iter().map(|page| pin(*page)).collect::<Result<Vec<_>, _>>()?;
        let sibling = |page: PageNumber| page.is_some().then(|| pin(page)).transpose();
        let siblings = [sibling(links[0])?, sibling(links[1])?];
        let groups = bits_by_group(&freed, ground.page_bytes);
        let bitmaps = groups
            .iter()
            .map(|(group, _)| ground.allocator.bitmap_for(bitmap::bitmap_of_group(*group, ground.page_bytes)))
            .collect::<Result<Vec<_>, _>>()?;
        work.fixes += (3 + chain.len() + bitmaps.len()) as u64;

        let mut top = write_pinned(top)?;
        let Latched { pages, left, right } = latch(chain, siblings)?;
        let Some(leaf) = pages.last() else { return Ok(()) };
        if Node(leaf).count() > 0 || leaf.number() != leaf_number {
            return Ok(());
        }
        let bitmaps = bitmaps.into_iter().map(write_pinned).collect::<Result<Vec<_>, _>>()?;

        let mut mtr = ground.mtrs.begin_system(&room, &mut work.record);
        if Node(&top).count() == 1 {
            node::format(top.change(), 0, root);
            mtr.replaced(top);
        } else {
            mtr.change(top, &[PageOp::Remove { slot: path[above].1 as u16 }]);
        }
        if let Some(left) = left {
            mtr.change(left, &[PageOp::Right(links[1])]);
        }
        if let Some(right) = right {
            mtr.change(right, &[PageOp::Left(links[0])]);
        }
        for mut page in pages {
            clear(page.change(), PageKind::Free);
            mtr.replaced(page);
        }
        for (page, (_, bits)) in bitmaps.into_iter().zip(&groups) {
            let ops: Vec<PageOp<'_>> =
                bits.iter().map(|bit| PageOp::Bits { first: *bit, count: 1, allocated: false }).collect();
            mtr.change(page, &ops);
        }
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        for page in freed {
            ground.space.freed(page);
        }
        Ok(())
    }

    /// The index in `path` of the lowest ancestor that has another child, or otherwise of the root, which
    /// becomes an empty leaf.
    fn lowest_kept(&self, path: &[(PageNumber, usize)]) -> Result<usize, StoreError> {
        let mut above = path.len() - 2;
        while above > 0 && Node(&self.ground.pool.fix_shared(path[above].0)?).count() == 1 {
            above -= 1;
        }
        Ok(above)
    }
}

/// The bits of `pages` in the bitmaps, by group.
fn bits_by_group(pages: &[PageNumber], page_bytes: usize) -> Vec<(u32, Vec<u32>)> {
    let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
    for page in pages {
        let (group, bit) = bitmap::place(*page, page_bytes);
        match groups.iter_mut().find(|(other, _)| *other == group) {
            Some((_, bits)) => bits.push(bit),
            None => groups.push((group, vec![bit])),
        }
    }
    groups.sort_unstable();
    groups
}

/// The pages of an unlink, latched exclusively.
struct Latched<'a> {
    /// The pages to be freed, the leaf last.
    pages: Vec<PageWrite<'a>>,
    left: Option<PageWrite<'a>>,
    right: Option<PageWrite<'a>>,
}

/// Latches the pages of `chain` from top to bottom, and the siblings of the last one from left to right.
fn latch<'a>(chain: Vec<Pin<'a>>, siblings: [Option<Pin<'a>>; 2]) -> Result<Latched<'a>, StoreError> {
    let mut chain = chain.into_iter();
    let leaf = chain.next_back();
    let mut pages = chain.map(write_pinned).collect::<Result<Vec<_>, _>>()?;
    let [left, right] = siblings;
    let left = left.map(write_pinned).transpose()?;
    pages.extend(leaf.map(write_pinned).transpose()?);
    let right = right.map(write_pinned).transpose()?;
    Ok(Latched { pages, left, right })
}
