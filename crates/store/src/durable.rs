//! Notes in the log of pages that are durable in the layer below: what ARIES calls end-write records. A restart does not
//! redo what such a page has already, so redo fetches only the pages whose newest version was lost with DRAM.
//!
//! A note is appended when the layer says so (a flash group was published, the disk was synced), and becomes durable with
//! whatever is flushed after it; a lost note costs time, never content. The payload: of each page its number (8) and LSN
//! (8).
//!
//! Invariant: when a note of (page, LSN) is in the log, a fetch after any later crash gives that version or a newer one,
//! or finds a write of a newer one torn. In that case the page is redone from its full image in the log. So are pages
//! that would have to be read from disk: their first change since the redo point was logged as an image, and to redo the
//! rest on it is cheaper than a random read. A page that is being rebuilt in this way may be evicted when it is still
//! older than its note; if a crash follows, the next restart notices, since it asks every fetched page for its LSN.

use crate::page::bytes::{Reader, put_u64};
use crate::wal::log::Draft;
use crate::wal::{RecordKind, Wal, record};
use crate::{PageNumber, TxnId, points};
use entresol_core::{Lsn, PageId};
use entresol_engine::Layer;
use std::collections::BTreeMap;

/// Appends a note.
pub(crate) fn append_note(wal: &Wal, pages: &[(PageId, Lsn)]) {
    if pages.is_empty() {
        return;
    }
    let mut bytes = Vec::with_capacity(record::RECORD_HEADER_BYTES + 16 * pages.len());
    record::start(&mut bytes);
    for (page, lsn) in pages {
        put_u64(&mut bytes, page.number().into());
        put_u64(&mut bytes, lsn.0);
    }
    let draft = Draft { kind: RecordKind::Durable, txn: TxnId::SYSTEM, chain: None, redo_point: None };
    wal.append(&mut bytes, draft).expect("an append without a redo point is never refused");
}

/// The newest version of each page that is known to be durable.
#[derive(Debug, Default)]
pub(crate) struct DurablePages(BTreeMap<u64, Lsn>);

/// What the log says of a page since the redo point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHistory {
    /// Its newest change.
    pub(crate) newest: Lsn,
    /// Its first change replaces the whole page.
    pub(crate) begins_whole: bool,
}

impl DurablePages {
    /// Takes in a note's payload; `None` if it makes no sense.
    pub(crate) fn note(&mut self, payload: &[u8]) -> Option<()> {
        let mut reader = Reader(payload);
        while !reader.is_empty() {
            let (page, lsn) = (reader.u64()?, Lsn(reader.u64()?));
            let newest = self.0.entry(page).or_default();
            *newest = lsn.max(*newest);
        }
        Some(())
    }

    /// Forgets the notes of pages that are cheaper to redo from their images than to fetch.
    pub(crate) fn prefer_images(&mut self, pages: &BTreeMap<PageNumber, PageHistory>, layer: &dyn Layer) {
        for (page, history) in pages {
            if history.begins_whole && !self.has(*page, history.newest) && !layer.is_on_flash(page.id()) {
                points::IMAGE_PREFERRED.reach();
                self.forget(page.id());
            }
        }
    }

    /// The LSN that a fetched `page` must have at least.
    pub(crate) fn least(&self, page: PageNumber) -> Lsn {
        self.0.get(&u64::from(page.0)).copied().unwrap_or_default()
    }

    /// Whether the change of `page` logged at `lsn` is in a durable version.
    pub(crate) fn has(&self, page: PageNumber, lsn: Lsn) -> bool {
        self.0.get(&u64::from(page.0)).is_some_and(|durable| lsn <= *durable)
    }

    /// The page turned out to be damaged: trust no note of it. False if there is none.
    pub(crate) fn forget(&mut self, page: PageId) -> bool {
        self.0.remove(&u64::from(page.number())).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_note_of_a_page_counts() {
        let mut payload = Vec::new();
        for (page, lsn) in [(7, 300), (8, 100), (7, 200)] {
            put_u64(&mut payload, page);
            put_u64(&mut payload, lsn);
        }
        let mut pages = DurablePages::default();
        assert_eq!(pages.note(&payload), Some(()));
        assert_eq!(pages.note(&payload[..20]), None, "half an entry");
        let has = |page, lsn| pages.has(PageNumber(page), Lsn(lsn));
        assert_eq!([has(7, 300), has(7, 301), has(8, 100), has(9, 1)], [true, false, true, false]);
        assert!(pages.forget(PageId::new(0, 7)) && !pages.forget(PageId::new(0, 7)));
        assert!(!pages.has(PageNumber(7), Lsn(1)));
    }
}
