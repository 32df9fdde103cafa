//! Page 0: the description of a store.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 32 | 8 | magic `ENTRSTOR` |
//! | 40 | 4 | version, 1 |
//! | 44 | 4 | page size in bytes |
//! | 48 | 4 | groups of pages in use |
//! | 52 | 4 | root page of the catalog |

use super::kind::{PageKind, clear, kind};
use crate::bytes::{set_u32, u32_at};
use crate::{PageNumber, StoreError};

const MAGIC: &[u8; 8] = b"ENTRSTOR";
const VERSION: u32 = 1;
/// Offset of the number of groups in use.
pub(crate) const GROUPS_OFFSET: usize = 48;

/// Page 0.
pub(crate) const META_PAGE: PageNumber = PageNumber(0);

/// The catalog's root: the first page that is neither meta nor bitmap.
pub(crate) const CATALOG_ROOT: PageNumber = PageNumber(2);

/// Makes `page` the meta page of an empty store.
pub(crate) fn format(page: &mut [u8]) {
    clear(page, PageKind::Meta);
    page[32..40].copy_from_slice(MAGIC);
    set_u32(page, 40, VERSION);
    let page_bytes = page.len() as u32;
    set_u32(page, 44, page_bytes);
    set_u32(page, GROUPS_OFFSET, 1);
    set_u32(page, 52, CATALOG_ROOT.0);
}

/// Groups of pages in use.
pub(crate) fn groups(page: &[u8]) -> u32 {
    u32_at(page, GROUPS_OFFSET)
}

/// Refuses a page that is not the meta page of a store of this version and page size.
pub(crate) fn check(page: &[u8]) -> Result<(), StoreError> {
    let wrong = |expected: String, found: String| StoreError::Corrupt {
        place: "meta page 0".into(),
        expected,
        found,
    };
    if kind(page) != PageKind::Meta as u16 || &page[32..40] != MAGIC {
        return Err(wrong(
            "the magic ENTRSTOR".into(),
            format!("page kind {} and {:02x?}", kind(page), &page[32..40]),
        ));
    }
    if u32_at(page, 40) != VERSION {
        return Err(wrong(format!("format version {VERSION}"), u32_at(page, 40).to_string()));
    }
    if u32_at(page, 44) as usize != page.len() {
        return Err(wrong(format!("a page size of {}", page.len()), u32_at(page, 44).to_string()));
    }
    Ok(())
}
