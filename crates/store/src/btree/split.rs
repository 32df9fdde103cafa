//! Page splits: from the lowest page whose parent has room, and growth at the root.
//!
//! The split point: a leaf with ascending inserts, at its right end or at a point within, is split at that
//! point, so that the part left of it stays full. Any other page is split in the middle of its bytes. (TPC-C
//! inserts orders at a hundred such points, one per district.)

use super::descend::Target;
use super::ground::Ground;
use crate::page::node::{self, CHILD_BYTES, Node, NodeMut, SLOT_BYTES};
use crate::page::op::PageOp;
use crate::pool::Pin;
use crate::wal::{RecordKind, Room};
use crate::work::Work;
use crate::{PageNumber, StoreError, TxnId};

/// Number of consecutive inserts that indicates an ascending run within a page.
const RUN_WITHIN: u16 = 2;
/// The same at a page's right end, where fewer are sufficient.
const RUN_AT_END: u16 = 1;

/// Splits pages.
pub(crate) struct Splitter {
    ground: Ground,
}

impl Splitter {
    pub(crate) fn new(ground: &Ground) -> Splitter {
        Splitter { ground: ground.clone() }
    }

    /// Does one step towards `need` free bytes in the leaf for `key`: splits the leaf, or a page above it
    /// that must have room first. The caller holds no latches, no permit and no room, and must look again.
    /// `rolls_back`: the room of both log and disk that is reserved for rollbacks may be used.
    #[cold]
    pub(crate) fn make_room(
        &self,
        work: &mut Work,
        root: PageNumber,
        key: &[u8],
        need: usize,
        rolls_back: bool,
    ) -> Result<(), StoreError> {
        // The split will change the right sibling's link, and that page is often not in DRAM. It is fetched
        // before the lock is taken, so no other task waits for that. If the sibling is another page by then,
        // that one is fetched.
        {
            let _permit = self.ground.pool.enter();
            let right = Node(&self.ground.descent.leaf_shared(work, root, Target::Key(key))?).right();
            if right.is_some() {
                drop(self.ground.pool.fix_shared(right)?);
            }
        }
        let _lock = self.ground.space.modify();
        let room = if rolls_back { Room::kept() } else { self.ground.log_room.for_step()? };
        if !rolls_back {
            self.ground.disk_room.check_locked(1)?;
        }
        let _permit = self.ground.pool.enter();
        let path = self.ground.descent.path(work, root, key)?;
        let leaf = path.len() - 1;
        if Node(&self.ground.pool.fix_shared(path[leaf].0)?).free() >= need {
            return Ok(());
        }
        self.split_or_prepare(work, &room, root, &path, leaf, (key, need))
    }

    /// Does one step of a split of page `index` of `path`: the split itself if its parent has room, otherwise
    /// one step for the parent. `row`: the key, and the number of free bytes that its leaf needs.
    fn split_or_prepare(
        &self,
        work: &mut Work,
        room: &Room<'_>,
        root: PageNumber,
        path: &[(PageNumber, usize)],
        index: usize,
        row: (&[u8], usize),
    ) -> Result<(), StoreError> {
        let Some(above) = index.checked_sub(1) else { return self.grow_root(work, room, root) };
        let longest = {
            let page = self.ground.pool.fix_shared(path[index].0)?;
            let node = Node(&page);
            (0..node.count()).map(|slot| node.key(slot).len()).max().unwrap_or(0).max(row.0.len())
        };
        if Node(&self.ground.pool.fix_shared(path[above].0)?).free() < longest + CHILD_BYTES + SLOT_BYTES {
            return self.split_or_prepare(work, room, root, path, above, row);
        }
        self.split(work, room, root, path[above], path[index], row)
    }

    /// Moves the root's content to a new page, which becomes its only child.
    fn grow_root(&self, work: &mut Work, room: &Room<'_>, root: PageNumber) -> Result<(), StoreError> {
        let allocation = self.ground.allocator.allocate(&mut work.record, room)?;
        let bit = allocation.op();
        let mut new = self.ground.pool.fix_new(allocation.page)?;
        work.fixes += 3;
        let mut page = self.ground.pool.fix_exclusive(root)?;
        let level = Node(&page).level();
        let behind = entresol_format::page::PAGE_HEADER_BYTES;
        node::format(new.change(), level, root);
        new.change()[behind..].copy_from_slice(&page[behind..]);
        node::format(page.change(), level + 1, root);
        NodeMut(page.change()).insert(0, b"", &allocation.page.0.to_le_bytes());
        let bitmap = write_pinned(allocation.bitmap)?;
        let mut mtr = self.ground.mtrs.begin_system(room, &mut work.record);
        mtr.replaced(page);
        mtr.replaced(new);
        mtr.change(bitmap, &[bit]);
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        self.ground.space.allocated(allocation.page);
        Ok(())
    }

    /// Splits `child`, whose parent has room for another separator. Does nothing if inserts or deletions
    /// meanwhile have changed the need for the split.
    fn split(
        &self,
        work: &mut Work,
        room: &Room<'_>,
        root: PageNumber,
        (parent, parent_slot): (PageNumber, usize),
        (child, child_slot): (PageNumber, usize),
        (key, need): (&[u8], usize),
    ) -> Result<(), StoreError> {
        // All pages are fetched into DRAM first, so nothing waits for I/O under the latches.
        let allocation = self.ground.allocator.allocate(&mut work.record, room)?;
        let bit = allocation.op();
        let mut new = self.ground.pool.fix_new(allocation.page)?;
        let parent = self.ground.pool.fix_shared(parent)?.unlatch();
        let (child, right) = {
            let page = self.ground.pool.fix_shared(child)?;
            let right = Node(&page).right();
            (page.unlatch(), right)
        };
        let right = if right.is_some() { Some(self.ground.pool.fix_shared(right)?.unlatch()) } else { None };
        work.fixes += 5;

        let parent = write_pinned(parent)?;
        let child = write_pinned(child)?;
        let right = right.map(write_pinned).transpose()?;
        let node = Node(&child);
        if node.level() == 0 && node.free() >= need {
            return Ok(());
        }
        let (at, separator) = if node.level() == 0 {
            split_leaf_at(node, key)
        } else {
            let at = split_inner_at(node, child_slot + 1);
            (at, node.key(at).to_vec())
        };
        if Node(&parent).free() < separator.len() + CHILD_BYTES + SLOT_BYTES {
            return Ok(());
        }
        let number = allocation.page;
        let bytes = new.change();
        node::format(bytes, node.level(), root);
        let mut half = NodeMut(bytes);
        for slot in at..node.count() {
            let (key, value) = node.cell(slot);
            let key = if node.level() > 0 && slot == at { b"".as_slice() } else { key };
            half.insert(slot - at, key, value);
        }
        half.forget_run();
        let leaf = node.level() == 0;
        if leaf {
            half.set_left(child.number());
            half.set_right(node.right());
        }
        let bitmap = write_pinned(allocation.bitmap)?;
        let mut mtr = self.ground.mtrs.begin_system(room, &mut work.record);
        let link = number.0.to_le_bytes();
        mtr.change(parent, &[PageOp::Insert { slot: parent_slot as u16 + 1, key: &separator, value: &link }]);
        let truncate = PageOp::Truncate { slot: at as u16 };
        if leaf {
            mtr.change(child, &[truncate, PageOp::Right(number)]);
        } else {
            mtr.change(child, &[truncate]);
        }
        mtr.replaced(new);
        if let Some(right) = right {
            mtr.change(right, &[PageOp::Left(number)]);
        }
        mtr.change(bitmap, &[bit]);
        mtr.commit(RecordKind::System, TxnId::SYSTEM, None);
        self.ground.space.allocated(number);
        Ok(())
    }
}

/// Latches a pinned page exclusively. Its fetch has succeeded before, so the page is in its frame.
pub(crate) fn write_pinned(pin: Pin<'_>) -> Result<crate::pool::PageWrite<'_>, StoreError> {
    pin.write().ok_or_else(|| StoreError::Other("a pinned page has left its frame".into()))
}

/// First slot that moves right, and the separator. The separator is above all keys that stay, and not above
/// the keys that move or the new key.
fn split_leaf_at(node: Node<'_>, key: &[u8]) -> (usize, Vec<u8>) {
    let count = node.count();
    let at = match node.find(key) {
        Err(slot) if slot == count && count > 0 => {
            if !node.right().is_some() || node.continues_run(slot, RUN_AT_END) {
                return (count, separator(node.key(count - 1), key).to_vec());
            }
            middle(node)
        }
        Err(slot) if slot > 0 && node.continues_run(slot, RUN_WITHIN) => slot,
        _ => middle(node),
    };
    (at, separator(node.key(at - 1), node.key(at)).to_vec())
}

/// First slot that moves right when a separator is to be inserted at `slot`.
fn split_inner_at(node: Node<'_>, slot: usize) -> usize {
    let count = node.count();
    if slot == count && node.continues_run(slot, RUN_AT_END) {
        count - 1
    } else if slot < count && node.continues_run(slot, RUN_WITHIN) {
        slot
    } else {
        middle(node)
    }
}

/// The slot that halves the bytes best; neither the first slot nor the one after the last.
fn middle(node: Node<'_>) -> usize {
    let half = node.used() / 2;
    let mut bytes = 0;
    for slot in 0..node.count() - 1 {
        bytes += node.cell_bytes(slot);
        if bytes >= half {
            return slot + 1;
        }
    }
    node.count() - 1
}

/// The shortest prefix of `high` that is above `low`.
pub(crate) fn separator<'k>(low: &[u8], high: &'k [u8]) -> &'k [u8] {
    let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    &high[..common + 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short_and_separate() {
        for (low, high, expected) in [
            (b"abc".as_slice(), b"abd".as_slice(), b"abd".as_slice()),
            (b"ab", b"abzzz", b"abz"),
            (b"", b"q", b"q"),
            (b"a1", b"b9", b"b"),
        ] {
            let found = separator(low, high);
            assert_eq!(found, expected);
            assert!(low < found && found <= high);
        }
    }
}
