//! Reads a log without opening its store: the content from the redo point of the newest checkpoint to the end
//! of the log.

use crate::bytes::Reader;
use crate::checkpoints::{kept_checkpoints, read_checkpoint};
use crate::history::{for_each_change, nonsense};
use crate::page::op::PageOp;
use crate::wal::scan::LogScan;
use crate::wal::{RecordKind, blocks, hole};
use crate::{StoreError, durable::DurablePages};
use entresol_core::Lsn;
use entresol_device::Device;
use entresol_runtime::say::thousands;
use std::fmt;

/// The content of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Bytes of a page of the store.
    pub page_bytes: u32,
    /// Bytes of the circular area.
    pub area: u64,
    /// Number of the newest restart that wrote to it.
    pub epoch: u32,
    /// LSN of the newest checkpoint record.
    pub checkpoint: Lsn,
    /// The start of redo.
    pub redo_point: Lsn,
    /// The position of the next record.
    pub end: Lsn,
    /// Transactions that were active at the redo point.
    pub active: u64,
    /// Records from the redo point to the end.
    pub records: u64,
    /// Number of commits among these records.
    pub commits: u64,
    /// Changes of pages in these records.
    pub changes: u64,
    /// Number of images of whole pages among these changes.
    pub images: u64,
    /// Where a restart without the flash would begin; `None`: the log was not kept for that.
    pub horizon: Option<Lsn>,
    /// Checkpoints from there on.
    pub checkpoints: u64,
}

/// Whether the log of a store is on `device`.
///
/// # Errors
/// If the device fails, or the log is of another version.
pub fn is_log(device: &dyn Device) -> Result<bool, StoreError> {
    Ok(blocks::read(device)?.is_some())
}

impl fmt::Display for LogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String| writeln!(f, "{name:<22}{value}");
        line("log of", format!("a store with pages of {} bytes", self.page_bytes))?;
        line("area", format!("{} bytes", thousands(self.area)))?;
        line("checkpoint", format!("LSN {}", thousands(self.checkpoint.0)))?;
        line("redo from", format!("LSN {}", thousands(self.redo_point.0)))?;
        line("end", format!("LSN {}", thousands(self.end.0)))?;
        line(
            "records to redo",
            format!("{}, of {} commits", thousands(self.records), thousands(self.commits)),
        )?;
        line("active transactions", thousands(self.active))?;
        let kept = match self.horizon {
            Some(horizon) => format!(
                "may be lost: the log replaces it from LSN {} on, {} bytes and {} checkpoints",
                thousands(horizon.0),
                thousands(self.end.0 - horizon.0),
                thousands(self.checkpoints)
            ),
            None => "may be needed: the log was not kept for its loss".to_owned(),
        };
        line("the flash", kept)
    }
}

/// Reads the log on `device` and parses every record that a restart would read.
///
/// # Errors
/// [`StoreError::Config`] if there is no log, [`StoreError::Corrupt`] if it is malformed or has a hole,
/// [`StoreError::Log`] if it is unreadable.
pub fn examine_log(device: &dyn Device) -> Result<LogReport, StoreError> {
    let master = blocks::find(device)?;
    let mut scan = LogScan::new(device, &master);
    let checkpoint = read_checkpoint(&mut scan, &master)?;
    let kept = kept_checkpoints(&mut scan, &master, &checkpoint, false)?;
    let mut report = LogReport {
        page_bytes: master.page_bytes,
        area: master.area,
        checkpoint: master.checkpoint,
        redo_point: checkpoint.redo_point,
        end: checkpoint.redo_point,
        active: checkpoint.active.len() as u64,
        horizon: kept.front().map(|kept| kept.redo_point),
        checkpoints: kept.len() as u64,
        ..LogReport::default()
    };
    let mut notes = DurablePages::default();
    while let Some((header, payload)) = scan.next(report.end, report.epoch)? {
        report.epoch = header.epoch;
        report.end = header.end();
        report.records += 1;
        report.commits += u64::from(header.kind == RecordKind::Commit);
        if header.kind == RecordKind::Durable {
            notes.note(payload, None).ok_or_else(|| nonsense(&header))?;
        }
        for_each_change(&header, payload, |_, ops| {
            let mut reader = Reader(ops);
            while !reader.is_empty() {
                let op = PageOp::decode(&mut reader).ok_or_else(|| nonsense(&header))?;
                report.changes += 1;
                report.images += u64::from(op.is_blind());
            }
            Ok::<(), StoreError>(())
        })?;
    }
    hole::check_end(&mut scan, &master, report.end, report.epoch)?;
    Ok(report)
}
