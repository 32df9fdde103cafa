//! The table of objects on flash: its log and its snapshots.
//!
//! Invariants:
//!
//! - A definition is durable before a group is written that may name the object.
//! - Whatever is retired or cut is durable before slots of its pages are released.
//! - What made an object's pages dead is in the owner's log before the position that the superblock has then
//!   ([`super::renewals`]).
//! - Each block is written to both copies before one sync: what is durable is there twice.
//! - One task writes at a time; a task that waits for it meanwhile shares its write and its sync.
//! - Nothing follows a write that has failed: the log would end there at the next open, and what follows
//!   would be lost, though its waiters were told that it is durable.

use super::flash::Flash;
use super::renewals::Renewals;
use crate::TierError;
use crate::access::{Access, Directory};
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::recover::{log_offset, snapshot_offset};
use crate::region::objects_config;
use arrayvec::ArrayVec;
use entresol_device::Io;
use entresol_format::{BLOCK_BYTES, Uuid};
use entresol_objects::{
    COPIES, LOG_BUFFERS, LogWrite, Objects, ObjectsConfig, Pending, Sequence, SnapshotWrite,
};
use entresol_runtime::sync::{Mutex, Rank};
use entresol_shm::Gone;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct ObjectLog {
    directory: Arc<Directory>,
    flash: Arc<Flash>,
    renewals: Arc<Renewals>,
    /// `None`: the cache has no table of objects.
    table: Option<Table>,
}

/// Of the cache's table.
struct Table {
    config: ObjectsConfig,
    /// The turn to write.
    writer: Mutex<Writer>,
}

struct Writer {
    /// Memory for log blocks.
    blocks: AlignedBuffer,
    /// Why a write has failed.
    failed: Option<TierError>,
}

/// What is to be written next.
enum Next {
    Nothing,
    Log(ArrayVec<LogWrite, LOG_BUFFERS>),
    /// A snapshot of this many blocks.
    Snapshot(usize),
}

/// The copies that everything is written to.
fn copies_written() -> std::ops::Range<usize> {
    0..COPIES
}

fn next(objects: &mut Objects<'_>, wanted: Sequence, scratch: &mut [u8]) -> Next {
    let is_wanted = objects.durable() < wanted;
    match objects.pending() {
        Pending::SnapshotUnderWay => unreachable!("one task writes at a time"),
        Pending::Snapshot if is_wanted => return Next::Snapshot(objects.snapshot_blocks() as usize),
        Pending::Log if is_wanted => {}
        _ if objects.snapshot_due() => return Next::Snapshot(objects.snapshot_blocks() as usize),
        _ => return Next::Nothing,
    }
    let (blocks, _) = scratch.as_chunks_mut::<BLOCK_BYTES>();
    Next::Log(blocks.iter_mut().map_while(|block| objects.next_log_block(block)).collect())
}

impl ObjectLog {
    /// Of the table that the front's options say, if they say one.
    pub(crate) fn new(
        access: &Arc<Access>,
        flash: &Arc<Flash>,
        renewals: &Arc<Renewals>,
        cache: Uuid,
    ) -> Self {
        let table = objects_config(&access.options, cache).map(|config| {
            let writer = Writer { blocks: AlignedBuffer::new(LOG_BUFFERS * BLOCK_BYTES), failed: None };
            Table { config, writer: Mutex::new(Rank::ObjectLog, writer) }
        });
        Self { directory: access.directory.clone(), flash: flash.clone(), renewals: renewals.clone(), table }
    }

    /// The cache has a table of objects.
    pub(crate) fn has_table(&self) -> bool {
        self.table.is_some()
    }

    fn with_table<R>(&self, step: impl FnOnce(&mut Objects<'_>) -> R) -> Result<R, Gone> {
        self.directory.with_objects(|_, objects| step(objects.expect("the cache has a table of objects")))
    }

    /// Makes durable all that was defined, retired and cut so far. It costs nothing if that is so already.
    pub(crate) fn make_durable(&self) -> Result<(), TierError> {
        let Some(log) = &self.table else { return Ok(()) };
        let (wanted, durable) = self.with_table(|objects| (objects.last(), objects.durable()))?;
        if durable >= wanted && !self.with_table(|objects| objects.pending() == Pending::Snapshot)? {
            return Ok(());
        }
        let Writer { blocks, failed } = &mut *log.writer.lock();
        if let Some(error) = failed {
            return Err(error.clone());
        }
        loop {
            let written = match self.with_table(|objects| next(objects, wanted, blocks))? {
                Next::Nothing => return Ok(()),
                Next::Log(writes) => self.write_log_blocks(log, &writes, blocks),
                Next::Snapshot(length) => self.write_snapshot(log, length),
            };
            if written.is_err() {
                *failed = written.as_ref().err().cloned();
            }
            written?;
        }
    }

    fn write_log_blocks(&self, log: &Table, writes: &[LogWrite], blocks: &[u8]) -> Result<(), TierError> {
        let mut batch = ArrayVec::<Io<'_>, { COPIES * LOG_BUFFERS }>::new();
        for copy in copies_written() {
            for (write, data) in writes.iter().zip(blocks.chunks_exact(BLOCK_BYTES)) {
                let offset = log_offset(&self.flash.layout, &log.config, copy, write.place);
                batch.push(Io::Write { offset, data });
            }
        }
        self.renewals.record_log_position()?;
        self.flash.run(&mut batch).map_err(flash_error)?;
        self.flash.sync_writes()?;
        if let Some(last) = writes.last() {
            self.with_table(|objects| objects.log_written(last.token))?;
        }
        Ok(())
    }

    /// A snapshot of at least `length` blocks, which are allocated before the latch is taken.
    fn write_snapshot(&self, log: &Table, length: usize) -> Result<(), TierError> {
        let mut bytes = AlignedBuffer::new(length * BLOCK_BYTES);
        let taken = self.with_table(|objects| {
            let has_room = objects.snapshot_blocks() as usize <= length;
            has_room.then(|| objects.snapshot(&mut bytes)).flatten()
        })?;
        // It has grown meanwhile: the caller looks again.
        let Some(write) = taken else { return Ok(()) };
        let SnapshotWrite { area, blocks, token } = write;
        write.seal(&mut bytes);
        let data = &bytes[..blocks as usize * BLOCK_BYTES];
        let mut batch = ArrayVec::<Io<'_>, COPIES>::new();
        for copy in copies_written() {
            let offset = snapshot_offset(&self.flash.layout, &log.config, copy, area);
            batch.push(Io::Write { offset, data });
        }
        self.renewals.record_log_position()?;
        self.flash.run(&mut batch).map_err(flash_error)?;
        self.flash.sync_writes()?;
        self.with_table(|objects| objects.snapshot_written(token))?;
        Ok(())
    }

    /// Drops all dead pages, so that none is written to disk. The cache is not used any more.
    pub(crate) fn drop_dead(&self) -> Result<(), Gone> {
        self.directory.with_objects(|partition, objects| {
            let entries = 0..partition.entries();
            if let (Some(objects), Some(log)) = (objects, partition.log_mut()) {
                log.drop_dead(entries, |page, position| objects.is_dead(page, position));
            }
        })
    }
}
