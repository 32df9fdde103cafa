//! The elementary changes of a page: the same for execution, log and redo.
//!
//! Invariant: the effect of an operation depends only on the page's cells, not on their offsets in the page.
//! So redo gives the same cells as the original change. [`PageOp::Image`] does not depend on the page at all.

use super::bitmap;
use super::kind::{PageKind, kind};
use super::node::{Node, NodeMut, is_node};
use crate::PageNumber;
use crate::bytes::{Reader, put_bytes, put_u16, put_u32, set_u32};
use entresol_format::page::{PAGE_HEADER_BYTES, header_mut};
use zerocopy::little_endian::U16;

/// A change of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageOp<'a> {
    /// The page's whole content. `low` begins after the page header, `high` ends at the page's end, and zeros
    /// are between them.
    Image { kind: u16, low: &'a [u8], high: &'a [u8] },
    /// Inserts a cell.
    Insert { slot: u16, key: &'a [u8], value: &'a [u8] },
    /// Removes a cell.
    Remove { slot: u16 },
    /// Changes a cell's value.
    SetValue { slot: u16, value: &'a [u8] },
    /// Changes bytes at `at` of a cell's value.
    Patch { slot: u16, at: u16, bytes: &'a [u8] },
    /// Removes all cells from `slot` on.
    Truncate { slot: u16 },
    /// Changes the left sibling.
    Left(PageNumber),
    /// Changes the right sibling.
    Right(PageNumber),
    /// Bitmap page: changes `count` bits from `first`.
    Bits { first: u32, count: u32, allocated: bool },
    /// Changes four bytes at `at` (meta page).
    Word { at: u16, value: u32 },
}

const IMAGE: u8 = 1;
const INSERT: u8 = 2;
const REMOVE: u8 = 3;
const SET_VALUE: u8 = 4;
const PATCH: u8 = 5;
const TRUNCATE: u8 = 6;
const LEFT: u8 = 7;
const RIGHT: u8 = 8;
const BITS: u8 = 9;
const WORD: u8 = 10;

impl<'a> PageOp<'a> {
    /// The image of `page` in its current state.
    pub(crate) fn image(page: &'a [u8]) -> PageOp<'a> {
        let (low_end, high_start) = if is_node(page) {
            (Node(page).slots_end(), Node(page).heap())
        } else {
            let end = page.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            (end.max(PAGE_HEADER_BYTES), page.len())
        };
        PageOp::Image { kind: kind(page), low: &page[PAGE_HEADER_BYTES..low_end], high: &page[high_start..] }
    }

    /// Whether the change does not depend on the page's former content.
    pub(crate) fn is_blind(&self) -> bool {
        matches!(self, PageOp::Image { .. })
    }

    /// Makes the change.
    pub(crate) fn apply(&self, page: &mut [u8]) {
        match *self {
            PageOp::Image { kind, low, high } => {
                let (low_end, high_start) = (PAGE_HEADER_BYTES + low.len(), page.len() - high.len());
                page[PAGE_HEADER_BYTES..low_end].copy_from_slice(low);
                page[low_end..high_start].fill(0);
                page[high_start..].copy_from_slice(high);
                header_mut(page).kind = U16::new(kind);
                header_mut(page).flags = U16::new(0);
            }
            PageOp::Insert { slot, key, value } => NodeMut(page).insert(slot as usize, key, value),
            PageOp::Remove { slot } => NodeMut(page).remove(slot as usize),
            PageOp::SetValue { slot, value } => NodeMut(page).set_value(slot as usize, value),
            PageOp::Patch { slot, at, bytes } => NodeMut(page).patch(slot as usize, at as usize, bytes),
            PageOp::Truncate { slot } => NodeMut(page).truncate(slot as usize),
            PageOp::Left(sibling) => NodeMut(page).set_left(sibling),
            PageOp::Right(sibling) => NodeMut(page).set_right(sibling),
            PageOp::Bits { first, count, allocated } => {
                for bit in first..first + count {
                    bitmap::set(page, bit, allocated);
                }
            }
            PageOp::Word { at, value } => set_u32(page, at as usize, value),
        }
    }

    /// Whether [`PageOp::apply`] can change `page` without damage to it: log records are read from a device.
    pub(crate) fn fits(&self, page: &[u8]) -> bool {
        let node = Node(page);
        let cell = |slot: u16| is_node(page) && (slot as usize) < node.count();
        match *self {
            PageOp::Image { low, high, .. } => PAGE_HEADER_BYTES + low.len() + high.len() <= page.len(),
            PageOp::Insert { slot, key, value } => {
                is_node(page)
                    && slot as usize <= node.count()
                    && key.len() + value.len() + super::node::SLOT_BYTES <= node.free()
            }
            PageOp::Remove { slot } => cell(slot),
            PageOp::SetValue { slot, value } => {
                cell(slot) && value.len() <= node.value(slot as usize).len() + node.free()
            }
            PageOp::Patch { slot, at, bytes } => {
                cell(slot) && at as usize + bytes.len() <= node.value(slot as usize).len()
            }
            PageOp::Truncate { slot } => is_node(page) && slot as usize <= node.count(),
            PageOp::Left(_) | PageOp::Right(_) => is_node(page),
            PageOp::Bits { first, count, .. } => {
                kind(page) == PageKind::Bitmap as u16
                    && u64::from(first) + u64::from(count) <= u64::from(bitmap::group_pages(page.len()))
            }
            PageOp::Word { at, .. } => {
                kind(page) == PageKind::Meta as u16
                    && (PAGE_HEADER_BYTES..page.len() - 3).contains(&(at as usize))
            }
        }
    }

    /// Appends the change to a log record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            PageOp::Image { kind, low, high } => {
                out.push(IMAGE);
                put_u16(out, kind);
                put_bytes(out, low);
                put_bytes(out, high);
            }
            PageOp::Insert { slot, key, value } => {
                out.push(INSERT);
                put_u16(out, slot);
                put_bytes(out, key);
                put_bytes(out, value);
            }
            PageOp::Remove { slot } => {
                out.push(REMOVE);
                put_u16(out, slot);
            }
            PageOp::SetValue { slot, value } => {
                out.push(SET_VALUE);
                put_u16(out, slot);
                put_bytes(out, value);
            }
            PageOp::Patch { slot, at, bytes } => {
                out.push(PATCH);
                put_u16(out, slot);
                put_u16(out, at);
                put_bytes(out, bytes);
            }
            PageOp::Truncate { slot } => {
                out.push(TRUNCATE);
                put_u16(out, slot);
            }
            PageOp::Left(page) => {
                out.push(LEFT);
                put_u32(out, page.0);
            }
            PageOp::Right(page) => {
                out.push(RIGHT);
                put_u32(out, page.0);
            }
            PageOp::Bits { first, count, allocated } => {
                out.push(BITS);
                put_u32(out, first);
                put_u32(out, count);
                out.push(allocated as u8);
            }
            PageOp::Word { at, value } => {
                out.push(WORD);
                put_u16(out, at);
                put_u32(out, value);
            }
        }
    }

    /// The next change of a log record; `None` if it is malformed.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Option<PageOp<'a>> {
        Some(match reader.u8()? {
            IMAGE => PageOp::Image { kind: reader.u16()?, low: reader.bytes()?, high: reader.bytes()? },
            INSERT => PageOp::Insert { slot: reader.u16()?, key: reader.bytes()?, value: reader.bytes()? },
            REMOVE => PageOp::Remove { slot: reader.u16()? },
            SET_VALUE => PageOp::SetValue { slot: reader.u16()?, value: reader.bytes()? },
            PATCH => PageOp::Patch { slot: reader.u16()?, at: reader.u16()?, bytes: reader.bytes()? },
            TRUNCATE => PageOp::Truncate { slot: reader.u16()? },
            LEFT => PageOp::Left(PageNumber(reader.u32()?)),
            RIGHT => PageOp::Right(PageNumber(reader.u32()?)),
            BITS => PageOp::Bits { first: reader.u32()?, count: reader.u32()?, allocated: reader.u8()? != 0 },
            WORD => PageOp::Word { at: reader.u16()?, value: reader.u32()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::node;

    #[test]
    fn every_change_survives_encoding() {
        let ops = [
            PageOp::Image { kind: 3, low: b"low", high: b"high" },
            PageOp::Insert { slot: 1, key: b"k", value: b"v" },
            PageOp::Remove { slot: 2 },
            PageOp::SetValue { slot: 3, value: b"" },
            PageOp::Patch { slot: 4, at: 5, bytes: b"xyz" },
            PageOp::Truncate { slot: 6 },
            PageOp::Left(PageNumber(7)),
            PageOp::Right(PageNumber(8)),
            PageOp::Bits { first: 9, count: 10, allocated: true },
            PageOp::Word { at: 48, value: 11 },
        ];
        let mut bytes = Vec::new();
        for op in &ops {
            op.encode(&mut bytes);
        }
        let mut reader = Reader(&bytes);
        for op in &ops {
            assert_eq!(PageOp::decode(&mut reader).as_ref(), Some(op));
        }
        assert!(reader.is_empty());
        for cut in 0..bytes.len() {
            let mut reader = Reader(&bytes[..cut]);
            while !reader.is_empty() && PageOp::decode(&mut reader).is_some() {}
        }
    }

    #[test]
    fn an_image_restores_a_node_whatever_was_there() {
        let mut page = vec![0u8; 4096];
        node::format(&mut page, 0, PageNumber(5));
        for slot in 0..40u16 {
            NodeMut(&mut page).insert(slot as usize, &slot.to_be_bytes(), &[slot as u8; 20]);
        }
        let mut bytes = Vec::new();
        PageOp::image(&page).encode(&mut bytes);
        assert!(bytes.len() < 1400, "the hole is left out");
        let mut other = vec![0xaau8; 4096];
        let op = PageOp::decode(&mut Reader(&bytes)).unwrap();
        assert!(op.fits(&other));
        op.apply(&mut other);
        assert_eq!(other[PAGE_HEADER_BYTES..], page[PAGE_HEADER_BYTES..]);
    }
}
