//! The content of the pages of the tortured database: page number and version in every sector.
//!
//! Invariant: two versions of a page, or two pages, differ in each sector. So a mixture of two writes is
//! never mistaken for a whole page, even without a look at its checksum.

use entresol_core::PageId;
use entresol_format::page;

const SECTOR_BYTES: usize = 512;
/// Offset of the mark in each sector. In the first sector it is after the page header.
const MARK_AT: usize = 32;

/// Fills `bytes` with `page` at `version`, not sealed.
pub(super) fn build(page: PageId, version: u64, bytes: &mut [u8]) {
    bytes.fill(0);
    let head = page::header_mut(bytes);
    head.page.set(page.0);
    head.lsn.set(version);
    for sector in bytes.chunks_exact_mut(SECTOR_BYTES) {
        sector[MARK_AT..MARK_AT + 8].copy_from_slice(&version.to_le_bytes());
        sector[MARK_AT + 8..MARK_AT + 16].copy_from_slice(&page.0.to_le_bytes());
    }
}

/// The version of a page that was served as `page`. An error says why it must not be served.
pub(super) fn version(page: PageId, bytes: &[u8]) -> Result<u64, String> {
    page::verify(bytes, page, None).map_err(|fault| format!("page {page} was served damaged: {fault}"))?;
    let version = page::lsn(bytes).0;
    let same = |sector: &[u8]| {
        sector[MARK_AT..MARK_AT + 8] == version.to_le_bytes()
            && sector[MARK_AT + 8..MARK_AT + 16] == page.0.to_le_bytes()
    };
    match bytes.chunks_exact(SECTOR_BYTES).all(same) {
        true => Ok(version),
        false => {
            Err(format!("page {page} was served mixed of several versions, version {version} among them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::Position;

    #[test]
    fn a_page_is_known_again_and_a_mixture_is_not() {
        let (id, mut old, mut new) = (PageId(7), vec![0; 4096], vec![0; 4096]);
        build(id, 1, &mut old);
        build(id, 2, &mut new);
        page::seal(&mut new, id, Position(5));
        assert_eq!(version(id, &new), Ok(2));
        assert!(version(PageId(8), &new).is_err());
        new[1024..1536].copy_from_slice(&old[1024..1536]);
        assert!(version(id, &new).is_err_and(|why| why.contains("checksum")));
        page::seal(&mut new, id, Position(5));
        assert!(version(id, &new).is_err_and(|why| why.contains("mixed")));
    }
}
