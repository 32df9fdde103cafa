//! What the log tells a restart: its end, the transactions that were active, and the pages that are durable.

use crate::bytes::Reader;
use crate::checkpoint::CheckpointRecord;
use crate::durable::{DurablePages, PageHistory};
use crate::mtr::for_each_page;
use crate::page::op::PageOp;
use crate::undo::{ActiveTxn, Undo};
use crate::wal::master::Master;
use crate::wal::scan::LogScan;
use crate::wal::{RecordHeader, RecordKind, hole};
use crate::{PageNumber, StoreError, TxnId};
use entresol_core::Lsn;
use entresol_engine::Layer;
use std::collections::BTreeMap;

/// The results of the pass over the log.
pub(crate) struct History {
    /// The position of the next record.
    pub end: Lsn,
    pub records: u64,
    pub losers: BTreeMap<TxnId, ActiveTxn>,
    pub next_txn: u64,
    pub durable: DurablePages,
    /// The log ends with a checkpoint record that the master record does not name yet.
    pub newer_checkpoint: Option<Lsn>,
    /// The position after the last record, if it is unreadable.
    pub unreadable_end: Option<Lsn>,
}

/// Reads the log from the redo point to its end; finds the losers and the durable pages.
pub(crate) fn analyse(
    scan: &mut LogScan<'_>,
    master: &Master,
    checkpoint: &CheckpointRecord,
    layer: &dyn Layer,
) -> Result<History, StoreError> {
    let mut history = History {
        end: checkpoint.redo_point,
        records: 0,
        losers: checkpoint.active.iter().map(|txn| (txn.id, *txn)).collect(),
        next_txn: checkpoint.next_txn,
        durable: DurablePages::default(),
        newer_checkpoint: None,
        unreadable_end: None,
    };
    let mut epoch = 0;
    let mut pages = BTreeMap::new();
    let mut last = None;
    while let Some((header, payload)) = scan.next(history.end, epoch)? {
        epoch = header.epoch;
        history.end = header.end();
        history.records += 1;
        history.note(&header);
        last = Some((header.kind, header.lsn));
        if header.kind == RecordKind::Durable {
            history.durable.note(payload, layer.survivors()).ok_or_else(|| nonsense(&header))?;
        }
        for_each_change(&header, payload, |page, ops| {
            let first = PageOp::decode(&mut Reader(ops)).ok_or_else(|| nonsense(&header))?;
            check_capacity(page.0.into(), layer.capacity_pages())?;
            let new = PageHistory { newest: header.lsn, begins_whole: first.is_blind() };
            pages.entry(page).or_insert(new).newest = header.lsn;
            Ok::<(), StoreError>(())
        })?;
    }
    history.unreadable_end = hole::check_end(scan, master, history.end, epoch)?;
    if let Some((RecordKind::Checkpoint, lsn)) = last
        && lsn != master.checkpoint
    {
        history.newer_checkpoint = Some(lsn);
    }
    history.durable.forget_lost();
    history.durable.prefer_images(&pages, layer);
    Ok(history)
}

/// Visits the pages that a record changes, with their encoded changes.
pub(crate) fn for_each_change<E: From<StoreError>>(
    header: &RecordHeader,
    payload: &[u8],
    visit: impl FnMut(PageNumber, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let nonsense = || nonsense(header);
    let mut reader = Reader(payload);
    match header.kind {
        RecordKind::Update => drop(Undo::decode(&mut reader).ok_or_else(nonsense)?),
        RecordKind::Compensation => drop(reader.u64().ok_or_else(nonsense)?),
        RecordKind::System => {}
        RecordKind::Commit | RecordKind::End | RecordKind::Checkpoint | RecordKind::Durable => return Ok(()),
    }
    Ok(for_each_page(reader, visit)?.ok_or_else(nonsense)?)
}

impl History {
    fn note(&mut self, header: &RecordHeader) {
        if header.txn == TxnId::SYSTEM {
            return;
        }
        self.next_txn = self.next_txn.max(header.txn.0.saturating_add(1));
        match header.kind {
            RecordKind::Commit | RecordKind::End => {
                self.losers.remove(&header.txn);
            }
            _ => {
                let new = ActiveTxn { id: header.txn, first: header.lsn, last: header.lsn };
                self.losers.entry(header.txn).or_insert(new).last = header.lsn;
            }
        }
    }
}

/// A record whose content cannot be.
pub(crate) fn nonsense(header: &RecordHeader) -> StoreError {
    StoreError::Corrupt {
        place: format!("log at LSN {}", header.lsn.0),
        expected: format!("the content of a record of kind {:?}", header.kind),
        found: "bytes that make no sense although their checksum is right".into(),
    }
}

/// Refuses a disk that is too small for a page of the store.
pub(crate) fn check_capacity(page: u64, capacity: u64) -> Result<(), StoreError> {
    match page < capacity {
        true => Ok(()),
        false => Err(StoreError::Config(format!(
            "the store uses page {page}, and only {capacity} pages fit on the disk; open it with a disk at least as large as \
             the one it was used with"
        ))),
    }
}
