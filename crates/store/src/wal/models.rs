//! Group commit under shuttle: the log itself, on a device that lets other tasks run while it writes and
//! syncs. In every order, a flush returns only when the record is in the synced range, one of the waiting
//! tasks does the next flush, and no committer is forgotten (shuttle reports a deadlock).
//!
//! ```text
//! cargo test -p entresol-store --features shuttle --lib wal::models
//! ```

use super::ring::LOG_START;
use super::room::Room;
use super::tail::Draft;
use super::{RecordKind, Wal, record};
use crate::{StoreError, TxnId};
use entresol_core::Lsn;
use entresol_device::{Counters, Device, DeviceError, Geometry, Io, MemoryDevice};
use entresol_engine::Uuid;
use entresol_runtime::{may_preempt, spawn};
use parking_lot::Mutex as TinyMutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Number of bytes written, and number of bytes synced, both counted up to the first gap.
#[derive(Default)]
struct Extent {
    written: u64,
    synced: u64,
    /// A failed sync has lost the unsynced writes.
    gap: bool,
    /// Number of syncs until one fails; 0: none fails.
    fails_in: u64,
}

struct Slow {
    memory: MemoryDevice,
    extent: TinyMutex<Extent>,
    syncs: AtomicU64,
}

impl Slow {
    fn new(fails_in: u64) -> Arc<Slow> {
        let memory = MemoryDevice::new("log", LOG_START + (1 << 20));
        let extent = TinyMutex::new(Extent { fails_in, ..Extent::default() });
        Arc::new(Slow { memory, extent, syncs: AtomicU64::new(0) })
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        may_preempt();
        self.memory.run(batch)?;
        for io in batch {
            if let Io::Write { offset, data } = io
                && *offset >= LOG_START
            {
                let mut extent = self.extent.lock();
                extent.written = extent.written.max(*offset - LOG_START + data.len() as u64);
            }
        }
        may_preempt();
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let written = self.extent.lock().written;
        may_preempt();
        let mut extent = self.extent.lock();
        if extent.fails_in == 1 {
            extent.fails_in = 0;
            extent.gap |= extent.written > extent.synced;
            return Err(DeviceError::Dead { device: "log".into(), reason: "the model says so".into() });
        }
        extent.fails_in = extent.fails_in.saturating_sub(1);
        if !extent.gap {
            extent.synced = extent.synced.max(written);
        }
        drop(extent);
        self.syncs.fetch_add(1, SeqCst);
        may_preempt();
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, length)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.memory.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.memory.counters()
    }
}

fn append(wal: &Wal, txn: u64) -> Lsn {
    let mut bytes = Vec::new();
    record::start(&mut bytes);
    bytes.extend_from_slice(&[txn as u8; 100]);
    let draft = Draft {
        kind: RecordKind::Commit,
        txn: TxnId(txn),
        chain: None,
        redo_point: None,
        room: &Room::kept(),
    };
    wal.tail().append(&mut bytes, draft).expect("an append without a redo point is never refused")
}

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), 1500);
    shuttle::check_pct(model, 700, 3);
}

/// Each client appends and flushes two records, and another one makes a checkpoint. `judge` gets the result
/// of each flush, and the synced range at that time.
fn clients(device: &Arc<Slow>, judge: fn(Lsn, Result<(), StoreError>, u64)) {
    let wal = Arc::new(
        Wal::create(device.clone(), 4096, Uuid::NIL, |_, _| Ok(())).expect("the device is large enough"),
    );
    let checkpoint = {
        let (wal, device) = (wal.clone(), device.clone());
        spawn("checkpoint", move || {
            let lsn = append(&wal, 0);
            let flushed = wal.flush(lsn);
            judge(lsn, flushed.clone(), device.extent.lock().synced);
            // An error is permanent: a client gets it, too.
            let _ = flushed.and_then(|()| wal.set_checkpoint(lsn, lsn));
        })
    };
    let clients: Vec<_> = (1..4u64)
        .map(|client| {
            let (wal, device) = (wal.clone(), device.clone());
            spawn("client", move || {
                for _ in 0..2 {
                    let lsn = append(&wal, client);
                    may_preempt();
                    let flushed = wal.flush(lsn);
                    judge(lsn, flushed, device.extent.lock().synced);
                }
            })
        })
        .collect();
    clients.into_iter().chain([checkpoint]).for_each(|client| client.join());
}

#[test]
fn a_commit_is_acknowledged_when_it_is_durable() {
    check(|| {
        let device = Slow::new(0);
        clients(&device, |lsn, flushed, synced| {
            flushed.expect("the device works");
            assert!(lsn.0 + 140 <= synced, "LSN {} was acknowledged, {synced} bytes are durable", lsn.0);
        });
        assert!(
            device.syncs.load(SeqCst) <= 1 + 7 + 2,
            "each flush, and each block of the master record, syncs once"
        );
    });
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_that_is_not_durable() {
    for fails_in in 2..5 {
        check(move || {
            let device = Slow::new(fails_in);
            clients(&device, |lsn, flushed, synced| {
                assert!(flushed.is_err() || lsn.0 + 140 <= synced, "LSN {} was acknowledged", lsn.0);
            });
        });
    }
}
