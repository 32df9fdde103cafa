//! Reads the records of checkpoints from a log: of the newest one, and of those from its horizon on.

use crate::StoreError;
use crate::checkpoint::CheckpointRecord;
use crate::wal::RecordKind;
use crate::wal::master::Master;
use crate::wal::scan::LogScan;
use entresol_core::{HorizonAt, KeptCheckpoint, Lsn};
use std::collections::VecDeque;

/// Reads the checkpoint that the master record names.
pub(crate) fn read_checkpoint(
    scan: &mut LogScan<'_>,
    master: &Master,
) -> Result<CheckpointRecord, StoreError> {
    read_checkpoint_at(scan, master, master.checkpoint)
}

/// Reads the checkpoint record at `lsn`.
pub(crate) fn read_checkpoint_at(
    scan: &mut LogScan<'_>,
    master: &Master,
    lsn: Lsn,
) -> Result<CheckpointRecord, StoreError> {
    let (header, payload) = scan.single(lsn)?;
    match CheckpointRecord::decode(payload) {
        Some(checkpoint) if header.kind == RecordKind::Checkpoint && checkpoint.is_possible(lsn) => {
            if checkpoint.disk == master.disk && checkpoint.session <= master.session.number {
                return Ok(checkpoint);
            }
            Err(StoreError::Corrupt {
                place: format!("checkpoint record in the log at LSN {}", lsn.0),
                expected: format!("disk {}, session {} or older", master.disk, master.session.number),
                found: format!("disk {}, session {}", checkpoint.disk, checkpoint.session),
            })
        }
        Some(checkpoint) if header.kind == RecordKind::Checkpoint => Err(StoreError::Corrupt {
            place: format!("checkpoint record in the log at LSN {}", lsn.0),
            expected: "a redo point and transactions from before the record".into(),
            found: format!("{checkpoint:?}"),
        }),
        _ => Err(StoreError::Corrupt {
            place: format!("log at LSN {}", lsn.0),
            expected: "a checkpoint record, as the master record says".into(),
            found: format!("a record of kind {:?}", header.kind),
        }),
    }
}

/// The refusal to open a store without its flash.
pub(crate) fn flash_is_needed() -> StoreError {
    StoreError::Config(
        "the store cannot be opened without its flash: its log was not kept for that (flash_loss), or not yet; give the flash, or \
         restore disk and log from one backup"
            .to_owned(),
    )
}

/// The checkpoints from the horizon of `newest` on, which the master record names, the oldest first. None: it
/// names none, or the records between are not there and it `must` not be known.
pub(crate) fn kept_checkpoints(
    scan: &mut LogScan<'_>,
    master: &Master,
    newest: &CheckpointRecord,
    must: bool,
) -> Result<VecDeque<KeptCheckpoint<Lsn>>, StoreError> {
    let mut kept = VecDeque::new();
    let Some(said) = newest.kept else { return Ok(kept) };
    let first = match said.horizon {
        HorizonAt::Nowhere => return Ok(kept),
        HorizonAt::Itself => master.checkpoint,
        HorizonAt::Record(lsn) => lsn,
    };
    let (mut record, mut checkpoint) = (master.checkpoint, newest.clone());
    while let Some(said) = checkpoint.kept {
        kept.push_front(KeptCheckpoint { number: said.number, record, redo_point: checkpoint.redo_point });
        if record == first {
            return Ok(kept);
        }
        let Some(previous) = said.previous else { break };
        record = previous;
        match read_checkpoint_at(scan, master, record) {
            Ok(before) => checkpoint = before,
            Err(StoreError::Log(error)) if !error.is_unreadable() => return Err(error.into()),
            Err(error) if must => return Err(error),
            Err(_) => break,
        }
    }
    // The next checkpoints bring everything to disk, and then the log replaces the flash again.
    Ok(VecDeque::new())
}
