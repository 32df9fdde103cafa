//! Slotted pages of B+-trees: cells in key order.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 32 | 2 | level, 0 for leaves |
//! | 34 | 2 | cells |
//! | 36 | 2 | start of the heap, which grows down from the page's end |
//! | 38 | 2 | bytes of removed cells in the heap |
//! | 40 | 4 | right sibling (leaves; 0: none) |
//! | 44 | 4 | left sibling (leaves; 0: none) |
//! | 48 | 4 | root page of the tree |
//! | 52 | 2 | slot of the latest insert, 0xffff: none |
//! | 54 | 2 | consecutive inserts that were each directly after the one before |
//! | 56 | 6 each | slots: offset of the cell, length of its key, length of its value |
//!
//! A cell is a key followed by its value. In an inner node the value is a child's page number and the key is
//! the least key of that child. Slot 0's key is empty and represents all keys below slot 1.
//!
//! Invariant: keys ascend strictly by `memcmp`; slots and heap do not overlap;
//! free bytes = gap between them + removed.

use super::kind::{PageKind, clear, kind};
use crate::PageNumber;
use crate::bytes::{set_u16, set_u32, u16_at, u32_at};
use std::cmp::Ordering;

const LEVEL: usize = 32;
const COUNT: usize = 34;
const HEAP: usize = 36;
const REMOVED: usize = 38;
const RIGHT: usize = 40;
const LEFT: usize = 44;
const ROOT: usize = 48;
const LAST_INSERT: usize = 52;
const RUN: usize = 54;
/// Bytes before the first slot.
pub(crate) const NODE_HEADER_BYTES: usize = 56;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 6;
const NO_SLOT: u16 = 0xffff;
/// Bytes of the value of an inner cell.
pub(crate) const CHILD_BYTES: usize = 4;

/// Maximum bytes of key and value of a row: four rows fit in a page.
pub(crate) const fn max_row(page_bytes: usize) -> usize {
    (page_bytes - NODE_HEADER_BYTES) / 4 - SLOT_BYTES
}

/// Maximum bytes of a key.
pub(crate) const fn max_key(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// Makes `page` an empty node.
pub(crate) fn format(page: &mut [u8], level: u16, root: PageNumber) {
    clear(page, if level == 0 { PageKind::Leaf } else { PageKind::Inner });
    set_u16(page, LEVEL, level);
    let end = page.len() as u16;
    set_u16(page, HEAP, end);
    set_u32(page, ROOT, root.0);
    set_u16(page, LAST_INSERT, NO_SLOT);
}

/// Whether the page is a node.
pub(crate) fn is_node(page: &[u8]) -> bool {
    kind(page) == PageKind::Leaf as u16 || kind(page) == PageKind::Inner as u16
}

/// Whether the page's content is safe to use. The checksum proves only that the page is as written; this
/// proves that the written content is valid.
pub(crate) fn is_sound(page: &[u8]) -> bool {
    !is_node(page) || keeps_invariant(page)
}

/// Whether a node keeps the invariant of the module's header, as far as its readers need for memory safety:
/// slots and cells are at valid offsets, and the bytes add up. For pages from a device.
fn keeps_invariant(page: &[u8]) -> bool {
    let node = Node(page);
    let (heap, removed) = (node.heap(), u16_at(page, REMOVED) as usize);
    let inner = kind(page) == PageKind::Inner as u16;
    if inner == (node.level() == 0) || inner && node.count() == 0 {
        return false;
    }
    if node.slots_end() > heap || heap > page.len() {
        return false;
    }
    let mut cells = 0;
    for index in 0..node.count() {
        let (offset, key, value) = node.slot(index);
        let within = offset >= heap && offset + key + value <= page.len() && key <= max_key(page.len());
        if !within || inner && value != CHILD_BYTES {
            return false;
        }
        cells += key + value;
    }
    cells + removed + heap == page.len()
}

/// As `a.cmp(b)`, but faster for keys of a few words.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let word = |bytes: &[u8], at: usize| {
        bytes[at..].first_chunk().map(|chunk: &[u8; 8]| u64::from_be_bytes(*chunk)).unwrap_or(0)
    };
    let common = a.len().min(b.len());
    if common < 8 {
        return a.cmp(b);
    }
    let mut at = 0;
    while at + 8 <= common {
        match word(a, at).cmp(&word(b, at)) {
            Ordering::Equal => at += 8,
            other => return other,
        }
    }
    // The last word of the common part overlaps words that were equal.
    word(a, common - 8).cmp(&word(b, common - 8)).then(a.len().cmp(&b.len()))
}

/// A node for reading.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a>(pub &'a [u8]);

impl<'a> Node<'a> {
    pub(crate) fn level(self) -> u16 {
        u16_at(self.0, LEVEL)
    }
    pub(crate) fn count(self) -> usize {
        u16_at(self.0, COUNT) as usize
    }
    pub(crate) fn right(self) -> PageNumber {
        PageNumber(u32_at(self.0, RIGHT))
    }
    pub(crate) fn left(self) -> PageNumber {
        PageNumber(u32_at(self.0, LEFT))
    }
    pub(crate) fn root(self) -> PageNumber {
        PageNumber(u32_at(self.0, ROOT))
    }
    pub(crate) fn heap(self) -> usize {
        u16_at(self.0, HEAP) as usize
    }
    /// First byte after the slots.
    pub(crate) fn slots_end(self) -> usize {
        NODE_HEADER_BYTES + SLOT_BYTES * self.count()
    }
    /// Bytes that are free for cells and slots, if necessary after compaction.
    pub(crate) fn free(self) -> usize {
        self.heap() - self.slots_end() + u16_at(self.0, REMOVED) as usize
    }
    /// Bytes of cells and slots.
    pub(crate) fn used(self) -> usize {
        self.0.len() - NODE_HEADER_BYTES - self.free()
    }
    fn slot(self, index: usize) -> (usize, usize, usize) {
        let at = NODE_HEADER_BYTES + SLOT_BYTES * index;
        let slot = &self.0[at..at + SLOT_BYTES];
        (u16_at(slot, 0) as usize, u16_at(slot, 2) as usize, u16_at(slot, 4) as usize)
    }
    pub(crate) fn key(self, index: usize) -> &'a [u8] {
        let (offset, key, _) = self.slot(index);
        &self.0[offset..offset + key]
    }
    pub(crate) fn value(self, index: usize) -> &'a [u8] {
        let (offset, key, value) = self.slot(index);
        &self.0[offset + key..offset + key + value]
    }
    pub(crate) fn cell(self, index: usize) -> (&'a [u8], &'a [u8]) {
        let (offset, key, value) = self.slot(index);
        self.0[offset..offset + key + value].split_at(key)
    }
    /// Bytes of a cell with its slot.
    pub(crate) fn cell_bytes(self, index: usize) -> usize {
        let (_, key, value) = self.slot(index);
        key + value + SLOT_BYTES
    }
    /// Slot of `key`, or the slot at which it would be inserted.
    pub(crate) fn find(self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match compare(self.key(middle), key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
    /// Inner node: slot of the child that covers `key`.
    pub(crate) fn child_slot(self, key: &[u8]) -> usize {
        // Slot 0 covers everything below slot 1, whatever its key.
        let (mut low, mut high) = (1, self.count().max(1));
        while low < high {
            let middle = (low + high) / 2;
            if compare(self.key(middle), key).is_le() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }
    /// Inner node: the child in a slot.
    pub(crate) fn child(self, index: usize) -> PageNumber {
        PageNumber(u32_at(self.value(index), 0))
    }
    /// Whether an insert at `slot` continues a run of ascending inserts of at least `length`.
    pub(crate) fn continues_run(self, slot: usize, length: u16) -> bool {
        let last = u16_at(self.0, LAST_INSERT);
        last != NO_SLOT && last as usize + 1 == slot && u16_at(self.0, RUN) >= length
    }
}

/// A node for changes.
pub(crate) struct NodeMut<'a>(pub &'a mut [u8]);

impl NodeMut<'_> {
    pub(crate) fn as_ref(&self) -> Node<'_> {
        Node(self.0)
    }

    pub(crate) fn set_right(&mut self, page: PageNumber) {
        set_u32(self.0, RIGHT, page.0);
    }

    pub(crate) fn set_left(&mut self, page: PageNumber) {
        set_u32(self.0, LEFT, page.0);
    }

    /// Adds a cell. The caller has checked that [`Node::free`] suffices.
    pub(crate) fn insert(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        let count = self.as_ref().count();
        assert!(slot <= count, "insert at slot {slot} of {count}");
        let offset = self.allocate(key.len() + value.len() + SLOT_BYTES) - key.len() - value.len();
        self.0[offset..offset + key.len()].copy_from_slice(key);
        self.0[offset + key.len()..offset + key.len() + value.len()].copy_from_slice(value);
        set_u16(self.0, HEAP, offset as u16);
        let at = NODE_HEADER_BYTES + SLOT_BYTES * slot;
        self.0.copy_within(at..NODE_HEADER_BYTES + SLOT_BYTES * count, at + SLOT_BYTES);
        self.set_slot(slot, offset, key.len(), value.len());
        set_u16(self.0, COUNT, count as u16 + 1);
        let run =
            if self.as_ref().continues_run(slot, 0) { u16_at(self.0, RUN).saturating_add(1) } else { 0 };
        set_u16(self.0, RUN, run);
        set_u16(self.0, LAST_INSERT, slot as u16);
    }

    /// Removes a cell.
    pub(crate) fn remove(&mut self, slot: usize) {
        let count = self.as_ref().count();
        assert!(slot < count, "remove of slot {slot} of {count}");
        let (offset, key, value) = self.as_ref().slot(slot);
        self.release(offset, key + value);
        let at = NODE_HEADER_BYTES + SLOT_BYTES * slot;
        self.0.copy_within(at + SLOT_BYTES..NODE_HEADER_BYTES + SLOT_BYTES * count, at);
        set_u16(self.0, COUNT, count as u16 - 1);
        let last = u16_at(self.0, LAST_INSERT);
        if last != NO_SLOT && slot <= last as usize {
            set_u16(self.0, LAST_INSERT, if last == 0 { NO_SLOT } else { last - 1 });
        }
    }

    /// Replaces a cell's value. The caller has checked that it fits.
    pub(crate) fn set_value(&mut self, slot: usize, value: &[u8]) {
        let (offset, key, old) = self.as_ref().slot(slot);
        if value.len() == old {
            self.0[offset + key..offset + key + old].copy_from_slice(value);
            return;
        }
        if value.len() < old {
            self.0[offset + key..offset + key + value.len()].copy_from_slice(value);
            set_u16(self.0, REMOVED, u16_at(self.0, REMOVED) + (old - value.len()) as u16);
            self.set_slot(slot, offset, key, value.len());
            return;
        }
        let mut saved = [0u8; 32768 / 8];
        saved[..key].copy_from_slice(&self.0[offset..offset + key]);
        self.release(offset, key + old);
        self.set_slot(slot, 0, 0, 0);
        let offset = self.allocate(key + value.len()) - key - value.len();
        self.0[offset..offset + key].copy_from_slice(&saved[..key]);
        self.0[offset + key..offset + key + value.len()].copy_from_slice(value);
        set_u16(self.0, HEAP, offset as u16);
        self.set_slot(slot, offset, key, value.len());
    }

    /// Replaces bytes within a cell's value.
    pub(crate) fn patch(&mut self, slot: usize, at: usize, bytes: &[u8]) {
        let (offset, key, value) = self.as_ref().slot(slot);
        assert!(at + bytes.len() <= value, "patch of {at}+{} in a value of {value} bytes", bytes.len());
        self.0[offset + key + at..offset + key + at + bytes.len()].copy_from_slice(bytes);
    }

    /// Removes all cells from `slot` on.
    pub(crate) fn truncate(&mut self, slot: usize) {
        let count = self.as_ref().count();
        let mut removed = 0;
        for index in slot..count {
            removed += self.as_ref().cell_bytes(index) - SLOT_BYTES;
        }
        set_u16(self.0, REMOVED, u16_at(self.0, REMOVED) + removed as u16);
        set_u16(self.0, COUNT, slot as u16);
        let last = u16_at(self.0, LAST_INSERT);
        if last != NO_SLOT && last as usize >= slot {
            set_u16(self.0, LAST_INSERT, NO_SLOT);
            set_u16(self.0, RUN, 0);
        }
    }

    /// Forgets the position of the latest insert.
    pub(crate) fn forget_run(&mut self) {
        set_u16(self.0, LAST_INSERT, NO_SLOT);
        set_u16(self.0, RUN, 0);
    }

    fn set_slot(&mut self, slot: usize, offset: usize, key: usize, value: usize) {
        let at = NODE_HEADER_BYTES + SLOT_BYTES * slot;
        set_u16(self.0, at, offset as u16);
        set_u16(self.0, at + 2, key as u16);
        set_u16(self.0, at + 4, value as u16);
    }

    /// Frees bytes of the heap.
    fn release(&mut self, offset: usize, bytes: usize) {
        if offset == self.as_ref().heap() {
            set_u16(self.0, HEAP, (offset + bytes) as u16);
        } else {
            set_u16(self.0, REMOVED, u16_at(self.0, REMOVED) + bytes as u16);
        }
    }

    /// Makes a gap of `bytes` between slots and heap; returns the heap's start.
    fn allocate(&mut self, bytes: usize) -> usize {
        assert!(bytes <= self.as_ref().free(), "{bytes} bytes do not fit in {}", self.as_ref().free());
        if self.as_ref().heap() - self.as_ref().slots_end() < bytes {
            self.compact();
        }
        self.as_ref().heap()
    }

    /// Moves all cells to the page's end.
    fn compact(&mut self) {
        let size = self.0.len();
        let mut heap = vec![0u8; size];
        let mut start = size;
        for index in 0..self.as_ref().count() {
            let (offset, key, value) = self.as_ref().slot(index);
            start -= key + value;
            heap[start..start + key + value].copy_from_slice(&self.0[offset..offset + key + value]);
            self.set_slot(index, start, key, value);
        }
        self.0[start..].copy_from_slice(&heap[start..]);
        set_u16(self.0, HEAP, start as u16);
        set_u16(self.0, REMOVED, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn contents(page: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let node = Node(page);
        (0..node.count()).map(|i| (node.key(i).to_vec(), node.value(i).to_vec())).collect()
    }

    #[test]
    fn behaves_as_a_sorted_map_and_accounts_for_every_byte() {
        let mut page = vec![0u8; 4096];
        format(&mut page, 0, PageNumber(9));
        let mut model = BTreeMap::new();
        let mut random = 88172645463325252u64;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = ((random >> 8) as u8 % 60).to_be_bytes().repeat(1 + random as usize % 3);
            let value = vec![random as u8; (random >> 20) as usize % 90];
            let mut node = NodeMut(&mut page);
            let free = node.as_ref().free();
            match (node.as_ref().find(&key), (random >> 40) % 3) {
                (Err(slot), 0 | 1) if key.len() + value.len() + SLOT_BYTES <= free => {
                    node.insert(slot, &key, &value);
                    model.insert(key, value);
                }
                (Ok(slot), 0) if value.len() <= free => {
                    node.set_value(slot, &value);
                    model.insert(key, value);
                }
                (Ok(slot), 1) => {
                    node.remove(slot);
                    model.remove(&key);
                }
                _ => {}
            }
            let used: usize = model.iter().map(|(k, v)| k.len() + v.len() + SLOT_BYTES).sum();
            assert_eq!(Node(&page).used(), used);
        }
        assert!(model.len() > 20, "the test filled the page");
        assert_eq!(contents(&page), model);
        let half = model.len() / 2;
        NodeMut(&mut page).truncate(half);
        assert_eq!(contents(&page), model.into_iter().take(half).collect());
    }

    #[test]
    fn compares_as_slices_do() {
        let mut rng = entresol_runtime::rng::Rng::new(1);
        for _ in 0..20_000 {
            let random = rng.next_u64();
            let (length, other) = ((random >> 33) as usize % 20, (random >> 40) as usize % 20);
            let a: Vec<u8> = (0..length).map(|at| (random >> (at % 3) & 1) as u8 * 0xff).collect();
            let b: Vec<u8> = (0..other).map(|at| (random >> (8 + at % 3) & 1) as u8 * 0xff).collect();
            assert_eq!(compare(&a, &b), a.cmp(&b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn knows_runs_of_ascending_inserts() {
        let mut page = vec![0u8; 4096];
        format(&mut page, 0, PageNumber(9));
        let mut node = NodeMut(&mut page);
        node.insert(0, b"z", b"");
        for (slot, key) in [b"a", b"b", b"c", b"d"].iter().enumerate() {
            node.insert(slot, *key, b"");
        }
        assert!(node.as_ref().continues_run(4, 2));
        assert!(!node.as_ref().continues_run(3, 2));
        node.remove(0);
        assert!(node.as_ref().continues_run(3, 2));
        node.truncate(1);
        assert!(!node.as_ref().continues_run(1, 0));
    }

    #[test]
    fn child_slot_treats_the_first_key_as_below_all() {
        let mut page = vec![0u8; 4096];
        format(&mut page, 1, PageNumber(9));
        let mut node = NodeMut(&mut page);
        node.insert(0, b"", &7u32.to_le_bytes());
        assert_eq!(node.as_ref().child_slot(b"anything"), 0);
        node.insert(1, b"m", &8u32.to_le_bytes());
        let node = Node(&page);
        assert_eq!([b"a".as_slice(), b"m", b"z"].map(|key| node.child(node.child_slot(key)).0), [7, 8, 8]);
    }
}
