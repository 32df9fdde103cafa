//! Notes in the log of pages that are durable in the layer below; ARIES calls them end-write records. A
//! restart does not redo changes that such a page already has. So redo fetches only the pages whose newest
//! version was lost with DRAM.
//!
//! A note is appended when the layer reports durable pages (a flash group was published, the disk was
//! synced). It becomes durable with a later flush of the log. A lost note costs time, never content. Its
//! payload is, for each page: its number (4), the group on flash with which it is durable (4, see
//! [`code_of`]; 0: it is on disk), and its LSN (8).
//!
//! Invariant: when a note of (page, LSN) is in the log, a fetch after any later crash returns that version or
//! a newer one, or finds a torn write of a newer one. A page with a torn write is rebuilt from its full image
//! in the log.
//!
//! The same is done for pages that would have to be read from disk: their first change since the redo point
//! was logged as an image, and to redo the other changes on it is cheaper than a random read. Such a page may
//! be evicted during its rebuild, when it is still older than its note. If a crash follows, the next restart
//! detects that, because it checks the LSN of every fetched page.
//!
//! A note of a group on flash is a promise about that flash. A layer without [`Layer::survivors`] cannot keep
//! it:
//!
//! 1. A page of a new group is damaged, power fails, and the cache is detached.
//! 2. The detach does not find that group, so it copies none of its pages to disk.
//! 3. The store opens on the disk alone. If redo believed the note, it would leave out changes that only the
//!    log has.
//!
//! So on such a layer only notes of pages on disk count. They name versions that the disk itself has, and
//! stay true.

use crate::bytes::{Reader, put_u64};
use crate::wal::{Draft, RecordKind, Wal, record};
use crate::{PageNumber, TxnId, points};
use entresol_core::{Lsn, PageId};
use entresol_engine::{DurableGroup, Layer, Survivors};
use std::collections::{BTreeMap, BTreeSet};

/// Set in the code of every group, so that a code is never 0.
const ON_FLASH: u32 = 1 << 31;
/// Bits of a group's number in its code. Above them are eight bits of its epoch.
const NUMBER_BITS: u32 = 23;

/// The code of a group in a note. It has enough bits of the group's epoch and number to distinguish the group
/// from those of the 255 epochs before, and from the four million groups before and after.
fn code_of(group: DurableGroup) -> u32 {
    let number = group.number as u32 & ((1 << NUMBER_BITS) - 1);
    ON_FLASH | u32::from(group.epoch as u8) << NUMBER_BITS | number
}

/// The group of a code, relative to the end of the log. `None`: the page is on disk.
fn group_of(code: u32, survivors: &Survivors) -> Option<DurableGroup> {
    if code & ON_FLASH == 0 {
        return None;
    }
    // The epoch is 1 to 256 epochs old.
    let age =
        u64::from((survivors.epoch as u8).wrapping_sub((code >> NUMBER_BITS) as u8).wrapping_sub(1)) + 1;
    // The difference, with sign, in the bits that a code has.
    let spare = u32::BITS - NUMBER_BITS;
    let behind = ((survivors.rear as u32).wrapping_sub(code) << spare) as i32 >> spare;
    Some(DurableGroup {
        epoch: survivors.epoch.saturating_sub(age),
        number: survivors.rear.wrapping_sub(i64::from(behind) as u64),
    })
}

/// Appends a note. `group`: the group on flash with which these pages are durable. Appends nothing if the log
/// has no room for it: a note saves time, and the rest of the room is reserved for rollbacks.
pub(crate) fn append_note(wal: &Wal, pages: &[(PageId, Lsn)], group: Option<DurableGroup>) {
    if pages.is_empty() {
        return;
    }
    let most = (record::RECORD_HEADER_BYTES + 16 * pages.len()) as u64 + wal.ledger().sector();
    let Some(room) = wal.ledger().try_reserve(most, wal.ledger().shares().need_max()) else { return };
    let mut bytes = Vec::with_capacity(record::RECORD_HEADER_BYTES + 16 * pages.len());
    record::start(&mut bytes);
    for (page, lsn) in pages {
        put_u64(&mut bytes, u64::from(group.map_or(0, code_of)) << 32 | u64::from(page.number()));
        put_u64(&mut bytes, lsn.0);
    }
    let draft =
        Draft { kind: RecordKind::Durable, txn: TxnId::SYSTEM, chain: None, redo_point: None, room: &room };
    wal.tail().append(&mut bytes, draft).expect("an append without a redo point is never refused");
}

/// The newest durable version of each page, as far as known.
#[derive(Debug, Default)]
pub(crate) struct DurablePages {
    newest: BTreeMap<u32, Lsn>,
    /// Pages of which the flash has lost a version.
    lost: BTreeSet<u32>,
}

/// The log's records of a page since the redo point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHistory {
    /// LSN of its newest change.
    pub(crate) newest: Lsn,
    /// Whether its first change replaces the whole page.
    pub(crate) begins_whole: bool,
}

impl DurablePages {
    /// Adds the entries of a note's payload; `None` if it is malformed. `survivors`: the surviving groups of
    /// a log on flash. Without them, entries that name a group on flash prove nothing and are ignored.
    pub(crate) fn note(&mut self, payload: &[u8], survivors: Option<&Survivors>) -> Option<()> {
        let mut reader = Reader(payload);
        while !reader.is_empty() {
            let (place, lsn) = (reader.u64()?, Lsn(reader.u64()?));
            let (page, code) = (place as u32, (place >> 32) as u32);
            if survivors.is_none() && code & ON_FLASH != 0 {
                continue;
            }
            let newest = self.newest.entry(page).or_default();
            *newest = lsn.max(*newest);
            let lost = survivors.is_some_and(|survivors| {
                group_of(code, survivors).is_some_and(|group| !survivors.have(group))
            });
            if lost {
                self.lost.insert(page);
            }
        }
        Some(())
    }

    /// To be called after the last note: forgets the notes of pages of which the flash has lost a version.
    pub(crate) fn forget_lost(&mut self) {
        for page in std::mem::take(&mut self.lost) {
            points::NOTE_LOST.reach();
            self.newest.remove(&page);
        }
    }

    /// Forgets the notes of pages for which redo from the image is cheaper than a fetch.
    pub(crate) fn prefer_images(&mut self, pages: &BTreeMap<PageNumber, PageHistory>, layer: &dyn Layer) {
        for (page, history) in pages {
            if history.begins_whole && !self.has(*page, history.newest) && !layer.is_on_flash(page.id()) {
                points::IMAGE_PREFERRED.reach();
                self.forget(page.id());
            }
        }
    }

    /// The minimum LSN of a fetched `page`.
    pub(crate) fn least(&self, page: PageNumber) -> Lsn {
        self.newest.get(&page.0).copied().unwrap_or_default()
    }

    /// Whether the change of `page` logged at `lsn` is in a durable version.
    pub(crate) fn has(&self, page: PageNumber, lsn: Lsn) -> bool {
        self.newest.get(&page.0).is_some_and(|durable| lsn <= *durable)
    }

    /// Forgets the note of a page that is damaged. False if there is none.
    pub(crate) fn forget(&mut self, page: PageId) -> bool {
        self.newest.remove(&page.number()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_engine::{Loss, Losses};

    #[test]
    fn the_newest_note_of_a_page_counts() {
        let mut payload = Vec::new();
        for (page, lsn) in [(7, 300), (8, 100), (7, 200)] {
            put_u64(&mut payload, page);
            put_u64(&mut payload, lsn);
        }
        let mut pages = DurablePages::default();
        assert_eq!(pages.note(&payload, None), Some(()));
        assert_eq!(pages.note(&payload[..20], None), None, "half an entry");
        let has = |page, lsn| pages.has(PageNumber(page), Lsn(lsn));
        assert_eq!([has(7, 300), has(7, 301), has(8, 100), has(9, 1)], [true, false, true, false]);
        assert!(pages.forget(PageId::new(0, 7)) && !pages.forget(PageId::new(0, 7)));
        assert!(!pages.has(PageNumber(7), Lsn(1)));
    }

    #[test]
    fn without_a_flash_only_notes_of_pages_on_disk_count() {
        let group = code_of(DurableGroup { epoch: 3, number: 9 });
        let mut payload = Vec::new();
        for (page, code, lsn) in [(1, group, 100), (2, 0, 100), (2, group, 200), (3, group, 50), (3, 0, 60)] {
            put_u64(&mut payload, u64::from(code) << 32 | page);
            put_u64(&mut payload, lsn);
        }
        let mut pages = DurablePages::default();
        assert_eq!(pages.note(&payload, None), Some(()));
        pages.forget_lost();
        let least = [1, 2, 3].map(|page| pages.least(PageNumber(page)).0);
        assert_eq!(least, [0, 100, 60]);
    }

    #[test]
    fn what_the_flash_has_lost_is_not_believed() {
        // Group numbers and epochs grow without limit; a code has 23 and 8 bits of them.
        for (rear, epoch) in
            [(64, 3), (1 << 23, 256), ((1 << 40) + 8, 257), (u64::from(u32::MAX) + 1, 1 << 40)]
        {
            let mut losses = Losses::default();
            losses.note(Loss { epoch: epoch - 1, group: rear - 32 });
            let survivors = Survivors { epoch, rear, missing: vec![rear - 2], losses };
            let group = |age, number| DurableGroup { epoch: epoch - age, number };
            for group in [group(1, rear - 40), group(1, rear + 40), group(2.min(epoch), rear)] {
                assert_eq!(group_of(code_of(group), &survivors), Some(group));
            }
            assert_eq!(group_of(0, &survivors), None, "it is on disk");
            let told = [
                (1, Some(group(1, rear - 1)), true),
                (2, Some(group(1, rear - 2)), false),
                (3, Some(group(1, rear)), false),
                (4, None, true),
                (5, Some(group(2, rear - 33)), true),
                // Another group has been written in its place since.
                (6, Some(group(2, rear - 32)), false),
            ];
            let mut payload = Vec::new();
            for (page, group, _) in told {
                put_u64(&mut payload, u64::from(group.map_or(0, code_of)) << 32 | page);
                put_u64(&mut payload, 100);
            }
            let mut pages = DurablePages::default();
            assert_eq!(pages.note(&payload, Some(&survivors)), Some(()));
            pages.forget_lost();
            for (page, group, known) in told {
                assert_eq!(pages.has(PageNumber(page as u32), Lsn(100)), known, "{group:?} of {survivors:?}");
            }
        }
    }
}
