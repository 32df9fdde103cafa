//! The allocated pages: one bitmap page for each group of pages, at a fixed place.
//!
//! Invariant: a bit changes in the same log record that links or unlinks its page. So no crash leaks a page,
//! or leaves a used page marked as free. Page `g * group_pages + 1` is the bitmap of group `g` (page 0 is the
//! meta page). Its own bit, and that of page 0, are always set.

use super::kind::{PageKind, clear, kind};
use crate::{PageNumber, StoreError};
use entresol_format::page::PAGE_HEADER_BYTES;

/// Pages that one bitmap page covers.
pub(crate) const fn group_pages(page_bytes: usize) -> u32 {
    ((page_bytes - PAGE_HEADER_BYTES) * 8) as u32
}

/// The bitmap page of group `group`.
pub(crate) fn bitmap_of_group(group: u32, page_bytes: usize) -> PageNumber {
    PageNumber(group * group_pages(page_bytes) + 1)
}

/// Group and bit of a page.
pub(crate) fn place(page: PageNumber, page_bytes: usize) -> (u32, u32) {
    (page.0 / group_pages(page_bytes), page.0 % group_pages(page_bytes))
}

/// Makes `page` the bitmap of `group`, with only the fixed pages allocated.
pub(crate) fn format(page: &mut [u8], group: u32) {
    clear(page, PageKind::Bitmap);
    set(page, 1, true);
    if group == 0 {
        set(page, 0, true);
    }
}

/// Refuses a page that is not a bitmap page.
pub(crate) fn check(page: &[u8], number: PageNumber) -> Result<(), StoreError> {
    if kind(page) != PageKind::Bitmap as u16 {
        return Err(StoreError::WrongKind { page: number, expected: "a bitmap page", found: kind(page) });
    }
    Ok(())
}

/// Whether the bit is set.
pub(crate) fn get(page: &[u8], bit: u32) -> bool {
    page[PAGE_HEADER_BYTES + bit as usize / 8] & 1 << (bit % 8) != 0
}

/// Sets or clears the bit.
pub(crate) fn set(page: &mut [u8], bit: u32, allocated: bool) {
    let byte = &mut page[PAGE_HEADER_BYTES + bit as usize / 8];
    if allocated {
        *byte |= 1 << (bit % 8);
    } else {
        *byte &= !(1 << (bit % 8));
    }
}

/// The first clear bit at or after `from`.
pub(crate) fn first_free(page: &[u8], from: u32) -> Option<u32> {
    let bits = &page[PAGE_HEADER_BYTES..];
    let mut index = from as usize / 8;
    let mut byte = *bits.get(index)? | ((1u16 << (from % 8)) - 1) as u8;
    while byte == 0xff {
        index += 1;
        byte = *bits.get(index)?;
    }
    Some(index as u32 * 8 + byte.trailing_ones())
}

/// The number of clear bits among the first `bits` bits.
pub(crate) fn count_free(page: &[u8], bits: u32) -> u32 {
    (0..bits).filter(|bit| !get(page, *bit)).count() as u32
}

/// One more than the highest set bit; 0 if none is.
pub(crate) fn end(page: &[u8]) -> u32 {
    let bits = &page[PAGE_HEADER_BYTES..];
    match bits.iter().rposition(|byte| *byte != 0) {
        Some(index) => index as u32 * 8 + 8 - bits[index].leading_zeros(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_free_bits_and_the_end() {
        let mut page = vec![0; 4096];
        format(&mut page, 0);
        assert_eq!((first_free(&page, 0), end(&page)), (Some(2), 2));
        for bit in 2..100 {
            set(&mut page, bit, true);
        }
        set(&mut page, 50, false);
        assert_eq!((first_free(&page, 0), first_free(&page, 51), end(&page)), (Some(50), Some(100), 100));
        for bit in 0..group_pages(4096) {
            set(&mut page, bit, true);
        }
        assert_eq!((first_free(&page, 0), end(&page)), (None, group_pages(4096)));
        assert!(get(&page, 99));
        set(&mut page, 70, false);
        assert_eq!((count_free(&page, 70), count_free(&page, 71)), (0, 1));
    }
}
