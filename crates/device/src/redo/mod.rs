//! A device of which a failed sync loses nothing.
//!
//! When the sync of a device fails, writes since the last good one may be lost, and the operating system
//! tells one caller of it, once: afterwards pages of its cache count as clean, may be dropped, and older
//! bytes are read (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020). So this device
//! remembers what was written since the last good sync. When one fails, it writes all that again, and syncs
//! again.
//!
//! Invariants:
//!
//! - A sync succeeds only if everything that was written before it is durable, by whomever.
//! - A read gives what is remembered: never older bytes, not even while a failure is not known yet.
//! - A sync with nothing to make durable does not reach the device.
//! - What is remembered is bounded. A write that finds no room syncs first, and fails if that fails. Half of
//!   the room before that, a sync is due.
//! - While bytes are written again, no write of a user is under way: it could be the newer one. This also
//!   holds for writes that their users carry out ([`Device::begin_write`]).
//! - From a failed sync to the next good one, a [`WriteKeeper`] has all that is remembered, too, before the
//!   write returns: for the program after a kill of this one.

mod blocks;

use crate::keeper::WriteKeeper;
use crate::{AlignedBuffer, Counters, Device, DeviceError, Geometry, Io, QueuedFile, WritePlace};
use blocks::{BLOCK_BYTES, Blocks};
use entresol_runtime::sync::{Begun, Mutex, Rank, RwLock, TinyMutex};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Bytes that are remembered, if nothing else is said.
const REMEMBERED_BYTES: u64 = 16 << 20;
/// Most requests of a batch in which bytes are written again.
const BATCH: usize = 64;

/// See the module's header.
pub struct RedoDevice<D> {
    device: D,
    blocks_max: usize,
    /// Held shared by writes, and alone while bytes are written again.
    turn: RwLock<()>,
    /// Writes that their users carry out, which hold no turn.
    begun_writes: Begun,
    blocks: TinyMutex<Blocks>,
    /// Blocks that are remembered: for looks without the lock.
    remembered: AtomicUsize,
    /// One sync at a time.
    syncing: Mutex<()>,
    begun: AtomicU64,
    done: AtomicU64,
    /// The last sync has failed, and what is remembered may not be on the device.
    is_broken: AtomicBool,
    /// Something that is not remembered may not be durable: what another program has written before, a
    /// discard, or a write that has failed.
    is_unsettled: AtomicBool,
    /// Syncs that failed.
    failures: AtomicU64,
    keeper: Option<Arc<dyn WriteKeeper>>,
    /// The keeper has what is remembered. Changed while no write is under way.
    is_kept: AtomicBool,
}

impl<D: Device> RedoDevice<D> {
    /// `device`, of which 16 MiB are remembered at most.
    pub fn new(device: D) -> Self {
        Self::remembering(device, REMEMBERED_BYTES)
    }

    /// `device`, of which `bytes` are remembered at most.
    pub fn remembering(device: D, bytes: u64) -> Self {
        Self {
            device,
            blocks_max: (bytes / BLOCK_BYTES).max(1) as usize,
            turn: RwLock::new(Rank::RedoTurn, ()),
            begun_writes: Begun::new(Rank::RedoTurn),
            blocks: TinyMutex::new(Rank::RedoBlocks, Blocks::default()),
            remembered: AtomicUsize::new(0),
            syncing: Mutex::new(Rank::RedoSync, ()),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            is_unsettled: AtomicBool::new(true),
            failures: AtomicU64::new(0),
            keeper: None,
            is_kept: AtomicBool::new(false),
        }
    }

    /// While the device cannot be synced, `keeper` has what is remembered.
    #[must_use]
    pub fn kept_by(self, keeper: Arc<dyn WriteKeeper>) -> Self {
        Self { keeper: Some(keeper), ..self }
    }

    /// Syncs that failed so far.
    pub fn failed_syncs(&self) -> u64 {
        self.failures.load(SeqCst)
    }

    fn with_blocks<R>(&self, change: impl FnOnce(&mut Blocks) -> R) -> R {
        let mut blocks = self.blocks.lock();
        let result = change(&mut blocks);
        self.remembered.store(blocks.len(), SeqCst);
        result
    }

    /// Makes durable what was written before. Only one task does.
    fn sync_once(&self) -> Result<(), DeviceError> {
        let was_unsettled = self.is_unsettled.swap(false, SeqCst);
        if !was_unsettled && !self.is_broken.load(SeqCst) && self.remembered.load(SeqCst) == 0 {
            return Ok(());
        }
        let synced = self.sync_device();
        if synced.is_err() {
            self.is_unsettled.store(true, SeqCst);
        }
        synced
    }

    fn sync_device(&self) -> Result<(), DeviceError> {
        self.with_blocks(Blocks::begin);
        if !self.is_broken.load(SeqCst) {
            match self.device.sync() {
                Ok(()) => {
                    self.with_blocks(Blocks::end);
                    return Ok(());
                }
                Err(_) => {
                    self.failures.fetch_add(1, SeqCst);
                    self.is_broken.store(true, SeqCst);
                }
            }
        }
        // The newest bytes: those of before may have been written over since.
        let _alone = self.turn.write();
        self.begun_writes.await_none();
        self.with_blocks(Blocks::begin);
        self.keep_all();
        self.write_again()?;
        self.device.sync().inspect_err(|_| _ = self.failures.fetch_add(1, SeqCst))?;
        // Before any other write: what is kept is older than that.
        if let Some(keeper) = self.keeper() {
            keeper.end()?;
            self.is_kept.store(false, SeqCst);
        }
        self.is_broken.store(false, SeqCst);
        self.with_blocks(Blocks::end);
        Ok(())
    }

    /// Writes all that is remembered. No other task writes; reads go on, and meet what is remembered.
    fn write_again(&self) -> Result<(), DeviceError> {
        let zeroed = self.blocks.lock().zeroing.clone();
        for range in zeroed {
            self.device.zero(range.start, range.end - range.start, false)?;
        }
        let mut numbers: Vec<u64> = self.blocks.lock().syncing.keys().copied().collect();
        numbers.sort_unstable();
        let mut copies = AlignedBuffer::new(BATCH * BLOCK_BYTES as usize);
        for numbers in numbers.chunks(BATCH) {
            let mut runs: Vec<(u64, Range<usize>)> = Vec::with_capacity(BATCH);
            {
                let blocks = self.blocks.lock();
                for (number, copy) in numbers.iter().zip(copies.chunks_exact_mut(BLOCK_BYTES as usize)) {
                    // A discard may have forgotten it.
                    let Some(block) = blocks.syncing.get(number) else { continue };
                    copy.copy_from_slice(&block.bytes[..]);
                    runs.extend(block.runs().map(|run| (*number, run)));
                }
            }
            let place = |number: u64| numbers.binary_search(&number).expect("it is one of them");
            let mut batch: Vec<Io<'_>> = Vec::with_capacity(runs.len());
            for (number, run) in runs {
                let from = place(number) * BLOCK_BYTES as usize;
                let offset = number * BLOCK_BYTES + run.start as u64;
                batch.push(Io::Write { offset, data: &copies[from + run.start..from + run.end] });
            }
            self.device.run(&mut batch)?;
        }
        Ok(())
    }

    /// The keeper gets all that is remembered, unless it has that. If it cannot, a kill of the program may
    /// lose it: the device still takes writes.
    fn keep_all(&self) {
        let Some(keeper) = self.keeper.as_ref().filter(|_| self.keeper().is_none()) else { return };
        let (zeros, mut numbers) = {
            let blocks = self.blocks.lock();
            (blocks.zeroing.clone(), blocks.syncing.keys().copied().collect::<Vec<u64>>())
        };
        numbers.sort_unstable();
        let begun = keeper.begin(&zeros, &numbers, &|number, bytes| self.copy_block(number, bytes));
        self.is_kept.store(begun.is_ok(), SeqCst);
    }

    /// The keeper, while it has what is remembered.
    fn keeper(&self) -> Option<&dyn WriteKeeper> {
        self.keeper.as_deref().filter(|_| self.is_kept.load(SeqCst))
    }

    /// The device has these bytes: they are remembered, and kept.
    fn wrote(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.with_blocks(|blocks| blocks.remember(offset, data));
        let Some(keeper) = self.keeper() else { return Ok(()) };
        let end = (offset + data.len() as u64).div_ceil(BLOCK_BYTES);
        keeper.wrote(offset / BLOCK_BYTES..end, &|number, bytes| self.copy_block(number, bytes))
    }

    /// These bytes have been discarded, or made `zeros`.
    fn keep_cleared(&self, offset: u64, length: u64, zeros: bool) -> Result<(), DeviceError> {
        let Some(keeper) = self.keeper() else { return Ok(()) };
        keeper.cleared(offset..offset + length, zeros, &|number, bytes| self.copy_block(number, bytes))
    }

    /// See [`crate::ReadKept`].
    fn copy_block(&self, number: u64, bytes: &mut [u8]) -> u8 {
        self.blocks.lock().copy(number, bytes)
    }

    /// Puts what is remembered of these bytes into the buffer.
    fn overlay(&self, offset: u64, buffer: &mut [u8]) {
        if self.remembered.load(SeqCst) == 0 {
            return;
        }
        self.blocks.lock().put(offset, buffer);
    }
}

impl<D: Device> Device for RedoDevice<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let writes = batch.iter().any(|io| matches!(io, Io::Write { .. }));
        if writes && self.remembered.load(SeqCst) >= self.blocks_max {
            self.sync()?;
        }
        let shared = writes.then(|| self.turn.read());
        if let Err(error) = self.device.run(batch) {
            self.is_unsettled.fetch_or(writes, SeqCst);
            return Err(error);
        }
        for io in batch {
            match io {
                Io::Write { offset, data } => self.wrote(*offset, data)?,
                Io::Read { offset, buffer } => self.overlay(*offset, buffer),
            }
        }
        drop(shared);
        Ok(())
    }

    fn begin_write(&self, offset: u64, length: usize) -> Option<WritePlace> {
        if self.remembered.load(SeqCst) >= self.blocks_max {
            return None;
        }
        let _turn = self.turn.try_read()?;
        if !self.begun_writes.begin() {
            return None;
        }
        let place = self.device.begin_write(offset, length);
        if place.is_none() {
            self.begun_writes.end();
        }
        place
    }

    fn write_begun(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.device.write_begun(offset, data)
    }

    fn end_write(&self, offset: u64, data: &[u8], is_written: bool) -> Result<(), DeviceError> {
        let ended = self.device.end_write(offset, data, is_written);
        let kept = match is_written && ended.is_ok() {
            true => self.wrote(offset, data),
            false => {
                self.is_unsettled.store(true, SeqCst);
                ended
            }
        };
        self.begun_writes.end();
        kept
    }

    fn is_sync_due(&self) -> bool {
        self.remembered.load(SeqCst) >= self.blocks_max.div_ceil(2)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let wanted = self.begun.load(SeqCst) + 1;
        let _syncing = self.syncing.lock();
        if self.done.load(SeqCst) >= wanted {
            // Another caller's began after this call, and was for this one, too.
            return Ok(());
        }
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        self.sync_once()?;
        self.done.store(number, SeqCst);
        Ok(())
    }

    fn keeps_unsynced(&self) -> bool {
        true
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        // Nothing is written again between the two steps.
        let _shared = self.turn.read();
        let discarded = self.device.discard(offset, length);
        self.is_unsettled.store(true, SeqCst);
        discarded?;
        self.with_blocks(|blocks| blocks.discard(offset, length));
        self.keep_cleared(offset, length, false)
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        if self.remembered.load(SeqCst) >= self.blocks_max {
            self.sync()?;
        }
        let _shared = self.turn.read();
        let zeroed = self.device.zero(offset, length, may_punch);
        self.is_unsettled.store(true, SeqCst);
        zeroed?;
        self.with_blocks(|blocks| {
            blocks.discard(offset, length);
            blocks.zeroed.push(offset..offset + length);
        });
        self.keep_cleared(offset, length, true)
    }

    fn resize(&self, bytes: Option<u64>) -> Result<u64, DeviceError> {
        self.device.resize(bytes)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.device.counters()
    }

    fn queued(&self) -> Option<QueuedFile> {
        // Reads past this device would miss what it remembers.
        None
    }
}
