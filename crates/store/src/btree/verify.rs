//! A full check of all trees and of the free space. No other work on the store may be in progress.

use super::descend::check_node;
use crate::page::node::{NODE_HEADER_BYTES, Node};
use crate::page::{bitmap, meta};
use crate::pool::Pool;
use crate::space::Space;
use crate::{PageNumber, StoreError};
use entresol_format::page::header;

/// The counts of [`crate::Store::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of tables without the catalog.
    pub tables: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Leaves of all trees.
    pub leaves: u64,
    /// Leaves without rows.
    pub empty_leaves: u64,
    /// Inner pages of all trees.
    pub inner_pages: u64,
    /// Bytes of cells and slots in leaves.
    pub leaf_bytes: u64,
    /// Allocated pages, including the meta page and bitmaps.
    pub allocated: u64,
    /// Free pages before the store's end.
    pub free: u64,
    /// Levels of the highest tree.
    pub levels: u64,
}

struct Walk<'a> {
    pool: &'a Pool,
    space: &'a Space,
    root: PageNumber,
    /// One bit for each page of the store.
    reached: Vec<bool>,
    report: VerifyReport,
    /// The leaf before the current one, and its link to the right.
    previous: Option<(PageNumber, PageNumber)>,
}

/// Checks the trees at `roots`: order and bounds of keys, levels, links, page ids, and that exactly the
/// pages reached are allocated.
pub(crate) fn verify(pool: &Pool, space: &Space, roots: &[PageNumber]) -> Result<VerifyReport, StoreError> {
    let mut walk = Walk {
        pool,
        space,
        root: PageNumber::NONE,
        reached: vec![false; space.end() as usize],
        report: VerifyReport { tables: roots.len() as u64 - 1, ..VerifyReport::default() },
        previous: None,
    };
    walk.reached[meta::META_PAGE.0 as usize] = true;
    for root in roots {
        walk.root = *root;
        walk.previous = None;
        let level = {
            let page = pool.fix_shared(*root)?;
            check_node(&page, *root)?;
            Node(&page).level()
        };
        walk.report.levels = walk.report.levels.max(u64::from(level) + 1);
        let rows = walk.report.rows;
        walk.tree(*root, level, &[], None)?;
        if let Some((page, right)) = walk.previous {
            expect(page, "right link of the last leaf", PageNumber::NONE, right)?;
        }
        if *root == meta::CATALOG_ROOT {
            walk.report.rows = rows;
        }
    }
    walk.space()?;
    Ok(walk.report)
}

impl Walk<'_> {
    /// Checks the page and all below it; its keys are at least `low` and below `high`.
    fn tree(
        &mut self,
        number: PageNumber,
        level: u16,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        match self.reached.get_mut(number.0 as usize) {
            Some(reached) if !*reached => *reached = true,
            Some(_) => return Err(wrong(number, "a page reached once", "a page reached twice".into())),
            None => {
                return Err(wrong(number, "a page within the store", format!("end at {}", self.space.end())));
            }
        }
        let content = self.pool.fix_shared(number)?.to_vec();
        check_node(&content, number)?;
        let node = Node(&content);
        expect(number, "page id", number.id().0, header(&content).page.get())?;
        expect(number, "level", level, node.level())?;
        expect(number, "root of its tree", self.root, node.root())?;
        let cells: usize = (0..node.count()).map(|slot| node.cell_bytes(slot)).sum();
        expect(number, "bytes used", cells, node.used())?;
        // Slot 0 of an inner page represents all keys below slot 1, whatever its key.
        for slot in usize::from(level > 0)..node.count() {
            let key = node.key(slot);
            let above_before = slot <= usize::from(level > 0) || node.key(slot - 1) < key;
            if !above_before || key < low || high.is_some_and(|high| key >= high) {
                return Err(wrong(
                    number,
                    "keys in ascending order within the page's bounds",
                    format!("{key:02x?} in slot {slot}"),
                ));
            }
        }
        if level > 0 {
            self.report.inner_pages += 1;
            if node.count() == 0 {
                return Err(wrong(number, "at least one child", "none".into()));
            }
            for slot in 0..node.count() {
                let low = if slot == 0 { low } else { node.key(slot) };
                let high = if slot + 1 < node.count() { Some(node.key(slot + 1)) } else { high };
                self.tree(node.child(slot), level - 1, low, high)?;
            }
            return Ok(());
        }
        self.report.leaves += 1;
        self.report.empty_leaves += u64::from(node.count() == 0);
        self.report.rows += node.count() as u64;
        self.report.leaf_bytes += node.used() as u64;
        debug_assert!(node.used() <= content.len() - NODE_HEADER_BYTES);
        match self.previous {
            Some((before, right)) => {
                expect(before, "right link", number, right)?;
                expect(number, "left link", before, node.left())?;
            }
            None => expect(number, "left link of the first leaf", PageNumber::NONE, node.left())?,
        }
        self.previous = Some((number, node.right()));
        Ok(())
    }

    fn space(&mut self) -> Result<(), StoreError> {
        let page_bytes = self.space.page_bytes();
        let group_pages = bitmap::group_pages(page_bytes);
        for group in 0..self.space.groups() {
            let number = bitmap::bitmap_of_group(group, page_bytes);
            let page = self.pool.fix_shared(number)?;
            bitmap::check(&page, number)?;
            match self.reached.get_mut(number.0 as usize) {
                Some(reached) => *reached = true,
                None => {
                    return Err(wrong(number, "a bitmap page within the store", "its end before it".into()));
                }
            }
            for bit in 0..group_pages {
                let page_number = group * group_pages + bit;
                let allocated = bitmap::get(&page, bit);
                match self.reached.get(page_number as usize) {
                    Some(reached) => {
                        expect(PageNumber(page_number), "allocated as it is reached", *reached, allocated)?;
                        self.report.allocated += u64::from(allocated);
                        self.report.free += u64::from(!allocated);
                    }
                    None => expect(PageNumber(page_number), "free behind the end", false, allocated)?,
                }
            }
        }
        Ok(())
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(
    page: PageNumber,
    what: &str,
    expected: T,
    found: T,
) -> Result<(), StoreError> {
    if expected == found {
        return Ok(());
    }
    Err(StoreError::Corrupt {
        place: format!("page {page}, {what}"),
        expected: format!("{expected:?}"),
        found: format!("{found:?}"),
    })
}

fn wrong(page: PageNumber, expected: &str, found: String) -> StoreError {
    StoreError::Corrupt { place: format!("page {page}"), expected: expected.into(), found }
}
