//! From the root to a leaf by latch coupling.

use crate::page::kind;
use crate::page::node::{Node, is_node};
use crate::pool::{PageRead, PageWrite, Pin, Pool};
use crate::work::Work;
use crate::{PageNumber, StoreError};
use std::ops::Deref;
use std::sync::Arc;

/// The target of a descent.
#[derive(Clone, Copy)]
pub(crate) enum Target<'k> {
    /// The leaf that covers the key.
    Key(&'k [u8]),
    /// The leaf that covers the keys immediately below the key.
    Before(&'k [u8]),
}

impl Target<'_> {
    fn child_slot(self, node: Node<'_>) -> usize {
        match self {
            Target::Key(key) => node.child_slot(key),
            Target::Before(key) => {
                let slot = node.child_slot(key);
                if slot > 0 && node.key(slot) == key { slot - 1 } else { slot }
            }
        }
    }
}

/// Finds leaves.
#[derive(Clone)]
pub(crate) struct Descent {
    pool: Arc<Pool>,
}

impl Descent {
    pub(crate) fn new(pool: Arc<Pool>) -> Descent {
        Descent { pool }
    }

    /// The leaf for `target`, latched shared.
    pub(crate) fn leaf_shared(
        &self,
        work: &mut Work,
        root: PageNumber,
        target: Target<'_>,
    ) -> Result<PageRead<'_>, StoreError> {
        self.leaf(work, root, target, Pin::read)
    }

    /// The leaf for `target`, latched exclusively.
    pub(crate) fn leaf_exclusive(
        &self,
        work: &mut Work,
        root: PageNumber,
        target: Target<'_>,
    ) -> Result<PageWrite<'_>, StoreError> {
        self.leaf(work, root, target, Pin::write)
    }

    fn leaf<'a, L: Deref<Target = [u8]>>(
        &'a self,
        work: &mut Work,
        root: PageNumber,
        target: Target<'_>,
        latch: fn(Pin<'a>) -> Option<L>,
    ) -> Result<L, StoreError> {
        loop {
            let (parent, pin) = self.leaf_pin(work, root, target)?;
            let number = pin.page();
            if let Some(leaf) = latch(pin) {
                if parent.is_some() {
                    drop(parent);
                    check_level(&leaf, number, 0)?;
                    return Ok(leaf);
                }
                check_node(&leaf, number)?;
                if Node(&leaf).level() == 0 {
                    return Ok(leaf);
                }
            }
        }
    }

    /// The leaf for `target`, pinned and in DRAM, with its parent latched shared. If the root is a leaf, it
    /// has no parent and may have become an inner page when the caller latches it.
    fn leaf_pin(
        &self,
        work: &mut Work,
        root: PageNumber,
        target: Target<'_>,
    ) -> Result<(Option<PageRead<'_>>, Pin<'_>), StoreError> {
        'restart: loop {
            work.fixes += 1;
            let mut page = self.pool.fix_shared(root)?;
            check_node(&page, root)?;
            if Node(&page).level() == 0 {
                return Ok((None, page.unlatch()));
            }
            loop {
                let node = Node(&page);
                let level = node.level();
                let child = node.child(target.child_slot(node));
                work.fixes += 1;
                let pin = match self.pool.try_pin(child) {
                    Some(pin) => pin,
                    None => {
                        let (number, lsn, parent) = (page.number(), page.lsn(), page.unlatch());
                        let pin = self.pool.fix_shared(child)?.unlatch();
                        match parent.read() {
                            Some(parent) if parent.lsn() == lsn && parent.number() == number => page = parent,
                            _ => continue 'restart,
                        }
                        pin
                    }
                };
                if level == 1 {
                    return Ok((Some(page), pin));
                }
                let Some(next) = pin.read() else { continue 'restart };
                page = next;
                check_level(&page, child, level - 1)?;
            }
        }
    }

    /// The pages from the root to the leaf that covers `key`, each with the chosen slot (0 for the leaf). For
    /// structure modifications: latches one page at a time.
    pub(crate) fn path(
        &self,
        work: &mut Work,
        root: PageNumber,
        key: &[u8],
    ) -> Result<Vec<(PageNumber, usize)>, StoreError> {
        let mut path = Vec::with_capacity(4);
        let mut number = root;
        let mut expected = None;
        loop {
            work.fixes += 1;
            let page = self.pool.fix_shared(number)?;
            check_node(&page, number)?;
            let node = Node(&page);
            check_level(&page, number, expected.unwrap_or(node.level()))?;
            expected = node.level().checked_sub(1);
            if node.level() == 0 {
                path.push((number, 0));
                return Ok(path);
            }
            let slot = node.child_slot(key);
            path.push((number, slot));
            number = node.child(slot);
        }
    }
}

/// Refuses a page that is not a tree node, or not of this level of the tree. So every descent ends at a leaf.
pub(crate) fn check_level(page: &[u8], number: PageNumber, level: u16) -> Result<(), StoreError> {
    check_node(page, number)?;
    if Node(page).level() == level {
        return Ok(());
    }
    Err(StoreError::Corrupt {
        place: format!("page {number}"),
        expected: format!("a page of level {level} of a tree"),
        found: format!("one of level {}", Node(page).level()),
    })
}

/// Refuses a page that is not a tree node.
pub(crate) fn check_node(page: &[u8], number: PageNumber) -> Result<(), StoreError> {
    if is_node(page) {
        return Ok(());
    }
    Err(StoreError::WrongKind { page: number, expected: "a page of a tree", found: kind(page) })
}
