//! What the requests of a connection may take: places, bytes and buffers.

use super::{ServerOptions, Shared};
use entresol_device::{AlignedBuffer, BufferPool};
use entresol_nbd::REQUEST_BYTES_MAX;
use entresol_runtime::sync::{Rank, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Bytes of a reused buffer: enough for frequent reads and writes.
const POOLED_BYTES: usize = 16 << 10;
/// Buffers that are kept.
const POOLED_MAX: usize = 64;

/// No connection reserves more than this part of the bytes for all: so a client that does not read its
/// replies cannot take all.
const SHARES: usize = 4;

/// What the requests of a connection may still take.
pub(super) struct Limits {
    /// Requests that may still begin, and their bytes.
    pub requests: Semaphore,
    bytes: Semaphore,
    buffers: BufferPool,
    /// Requests that have begun and are not answered.
    under_way: AtomicUsize,
}

impl Limits {
    pub fn new(options: &ServerOptions) -> Self {
        let share = options.in_flight_bytes_max / SHARES;
        Self {
            requests: Semaphore::new(Rank::InFlight, options.requests_max),
            bytes: Semaphore::new(Rank::InFlight, share.max(REQUEST_BYTES_MAX as usize)),
            buffers: BufferPool::new(POOLED_BYTES, POOLED_MAX),
            under_way: AtomicUsize::new(0),
        }
    }

    /// Requests that have begun and are not answered.
    pub fn under_way(&self) -> usize {
        self.under_way.load(SeqCst)
    }
}

/// The reservation of a request, until dropped: a place in its connection, and memory for its data.
pub(super) struct Reserved {
    pub shared: Arc<Shared>,
    limits: Arc<Limits>,
    bytes: usize,
    /// Of a write, its data; of a read, room for it. Of arbitrary content at first.
    pub data: AlignedBuffer,
}

impl Reserved {
    /// Waits for both.
    pub fn new(shared: &Arc<Shared>, limits: &Arc<Limits>, bytes: usize) -> Self {
        limits.requests.acquire(1).forget();
        if bytes > 0 {
            limits.bytes.acquire(bytes).forget();
            shared.bytes.acquire(bytes).forget();
        }
        Self::with_data(shared, limits, bytes)
    }

    /// `None`: it would have to wait.
    pub fn try_new(shared: &Arc<Shared>, limits: &Arc<Limits>, bytes: usize) -> Option<Self> {
        let request = limits.requests.try_acquire(1)?;
        if bytes > 0 {
            let of_connection = limits.bytes.try_acquire(bytes)?;
            shared.bytes.try_acquire(bytes)?.forget();
            of_connection.forget();
        }
        request.forget();
        Some(Self::with_data(shared, limits, bytes))
    }

    fn with_data(shared: &Arc<Shared>, limits: &Arc<Limits>, bytes: usize) -> Self {
        limits.under_way.fetch_add(1, SeqCst);
        let data = limits.buffers.take(bytes);
        Self { shared: shared.clone(), limits: limits.clone(), bytes, data }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.limits.buffers.give_back(std::mem::take(&mut self.data));
        if self.bytes > 0 {
            self.shared.bytes.release(self.bytes);
            self.limits.bytes.release(self.bytes);
        }
        self.limits.under_way.fetch_sub(1, SeqCst);
        self.limits.requests.release(1);
    }
}
