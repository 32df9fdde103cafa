//! Mini-transactions: changes of several pages in one log record.
//!
//! Invariant: a page is changed under its exclusive latch, after its frame was marked dirty. The latch is
//! released only after the record is in the log and its LSN in the page. So if a checkpoint finds a frame
//! clean under its latch, the page has no change that is older than the redo point and not in the layer.
//!
//! With `full_page_writes`, the first change of a page after the redo point is logged as an image of the
//! whole page. The redo point may move between that decision and the append. Then the append refuses, and all
//! pages are logged as images.

use crate::bytes::{Reader, put_u32, set_u32};
use crate::page::op::PageOp;
use crate::pool::PageWrite;
use crate::wal::{Draft, RecordKind, Room, Wal, record};
use crate::{PageNumber, TxnId};
use arrayvec::ArrayVec;
use entresol_core::Lsn;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Maximum number of pages of one mini-transaction.
pub(crate) const MTR_PAGES_MAX: usize = 16;

/// Begins mini-transactions in a log.
#[derive(Clone)]
pub(crate) struct Mtrs {
    wal: Arc<Wal>,
    /// [`crate::Options::full_page_writes`].
    full_page_writes: bool,
}

impl Mtrs {
    pub(crate) fn new(wal: Arc<Wal>, full_page_writes: bool) -> Mtrs {
        Mtrs { wal, full_page_writes }
    }

    /// Begins a mini-transaction in a started record.
    pub(crate) fn begin<'w, 'p>(&'w self, room: &'w Room<'w>, record: &'w mut Vec<u8>) -> Mtr<'w, 'p> {
        Mtr::new(&self.wal, room, self.full_page_writes, record)
    }

    /// Begins a mini-transaction of the system in the buffer `record`.
    pub(crate) fn begin_system<'w, 'p>(&'w self, room: &'w Room<'w>, record: &'w mut Vec<u8>) -> Mtr<'w, 'p> {
        record::start(record);
        self.begin(room, record)
    }
}

/// A mini-transaction under construction.
pub(crate) struct Mtr<'w, 'p> {
    wal: &'w Wal,
    room: &'w Room<'w>,
    record: &'w mut Vec<u8>,
    pages_start: usize,
    /// With `full_page_writes`: pages with older LSNs get images.
    redo_point: Option<Lsn>,
    pages: ArrayVec<PageWrite<'p>, MTR_PAGES_MAX>,
}

impl<'w, 'p> Mtr<'w, 'p> {
    /// Begins a mini-transaction in the buffer `record`, which was started and contains the content before
    /// the pages' changes. `room` was reserved for the record.
    fn new(wal: &'w Wal, room: &'w Room<'w>, full_page_writes: bool, record: &'w mut Vec<u8>) -> Mtr<'w, 'p> {
        Mtr {
            room,
            pages_start: record.len(),
            redo_point: full_page_writes.then(|| wal.tail().redo_point()),
            wal,
            record,
            pages: ArrayVec::new(),
        }
    }

    /// Changes a page. Each page may be passed only once.
    pub(crate) fn change(&mut self, mut page: PageWrite<'p>, ops: &[PageOp<'_>]) {
        let image = self.redo_point.is_some_and(|point| page.lsn() < point);
        let length_at = self.begin_page(page.number());
        let bytes = page.change();
        for op in ops {
            op.apply(bytes);
            if !image {
                op.encode(self.record);
            }
        }
        if image {
            PageOp::image(bytes).encode(self.record);
        }
        self.end_page(length_at);
        self.pages.push(page);
    }

    /// Adds a page whose whole content the caller has written.
    pub(crate) fn replaced(&mut self, page: PageWrite<'p>) {
        let length_at = self.begin_page(page.number());
        PageOp::image(&page).encode(self.record);
        self.end_page(length_at);
        self.pages.push(page);
    }

    /// Logs the record. `chain` is the transaction's newest LSN. Returns the record's LSN and the pages,
    /// still latched.
    pub(crate) fn commit(
        mut self,
        kind: RecordKind,
        txn: TxnId,
        chain: Option<&AtomicU64>,
    ) -> (Lsn, ArrayVec<PageWrite<'p>, MTR_PAGES_MAX>) {
        let lsn = loop {
            let draft = Draft { kind, txn, chain, redo_point: self.redo_point, room: self.room };
            match self.wal.tail().append(self.record, draft) {
                Some(lsn) => break lsn,
                None => self.encode_images(),
            }
        };
        for page in &mut self.pages {
            page.changed(lsn);
        }
        (lsn, self.pages)
    }

    fn begin_page(&mut self, page: PageNumber) -> usize {
        put_u32(self.record, page.0);
        put_u32(self.record, 0);
        self.record.len()
    }

    fn end_page(&mut self, start: usize) {
        let length = self.record.len() - start;
        set_u32(self.record, start - 4, length as u32);
    }

    fn encode_images(&mut self) {
        self.redo_point = Some(self.wal.tail().redo_point());
        self.record.truncate(self.pages_start);
        for index in 0..self.pages.len() {
            let start = self.begin_page(self.pages[index].number());
            PageOp::image(&self.pages[index]).encode(self.record);
            self.end_page(start);
        }
    }
}

/// Visits the pages of a logged mini-transaction: number and encoded changes. `None` if the record is
/// malformed.
pub(crate) fn for_each_page<E>(
    mut pages: Reader<'_>,
    mut visit: impl FnMut(PageNumber, &[u8]) -> Result<(), E>,
) -> Result<Option<()>, E> {
    while !pages.is_empty() {
        let (Some(page), Some(length)) = (pages.u32(), pages.u32()) else { return Ok(None) };
        let Some(ops) = pages.take(length as usize) else { return Ok(None) };
        visit(PageNumber(page), ops)?;
    }
    Ok(Some(()))
}
