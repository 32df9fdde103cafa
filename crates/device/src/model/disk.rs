//! Magnetic disks: one spindle or a RAID-0 array of them, with a controller's write cache.
//!
//! Each spindle serves requests in order of arrival. A request that does not continue where the spindle's
//! previous one ended costs a positioning time. This time decreases with the number of requests that wait for
//! the spindle, because the drive and the controller reorder them (NCQ, elevator):
//!
//! `positioning(q) = deep + (shallow - deep) / q`
//!
//! `shallow` is the random access time of a lone request, and `deep` is the limit for long queues. Reordering
//! is modelled by this figure only: completions stay in order of arrival.
//!
//! **Write cache** (battery-backed, on the array's controller): a write is acknowledged once it is in the
//! cache. Its work is a debt of its spindle, done in idle time. While the debt of a spindle fills its share
//! of the cache, its writes wait for the debt to be worked off. The cache is sorted before writing, so cached
//! writes cost the `deep` time. A sync then has nothing to do, because the battery preserves the cache.
//!
//! Invariant: work is conserved. All work deferred by the cache is done in idle time or delays later
//! requests.

use super::Timing;
use std::collections::VecDeque;

/// Parameters of a disk or array. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskParameters {
    /// Spindles that data is striped over.
    pub spindles: u32,
    /// Bytes per stripe unit.
    pub stripe_bytes: u64,
    /// Random read of a lone request: mean seek and half a turn.
    pub read_shallow_ns: f64,
    /// The limit of a random read in a deep queue.
    pub read_deep_ns: f64,
    /// As `read_shallow_ns`, for writes.
    pub write_shallow_ns: f64,
    /// As `read_deep_ns`, for writes.
    pub write_deep_ns: f64,
    /// Sequential read of one spindle, bytes per second.
    pub read_bandwidth: f64,
    /// Sequential write of one spindle, bytes per second.
    pub write_bandwidth: f64,
    /// Write cache of the whole controller in bytes; 0: no cache that survives a power failure.
    pub write_cache_bytes: u64,
    /// Acknowledgement of a cached write.
    pub cache_latency_ns: u64,
    /// Duration of a sync.
    pub sync_ns: u64,
}

#[derive(Default)]
struct Spindle {
    /// End of the foreground work.
    free_at: f64,
    /// Nanoseconds of work of cached writes that is not done yet.
    debt_ns: f64,
    debt_bytes: f64,
    /// End of the previous request on this spindle.
    head: u64,
    /// Completions of foreground requests, in order.
    pending: VecDeque<f64>,
}

pub(crate) struct Disk {
    parameters: DiskParameters,
    cache_bytes_per_spindle: f64,
    spindles: Vec<Spindle>,
}

impl Disk {
    /// A disk whose write cache is smaller than the real one's by the factor `scale`.
    pub fn new(parameters: DiskParameters, scale: f64) -> Self {
        let spindles = (0..parameters.spindles)
            .map(|_| Spindle { head: u64::MAX, pending: VecDeque::with_capacity(256), ..Spindle::default() })
            .collect();
        let cache_bytes_per_spindle =
            parameters.write_cache_bytes as f64 / scale / f64::from(parameters.spindles);
        Self { parameters, cache_bytes_per_spindle, spindles }
    }

    /// Splits a request into its part on each spindle and returns the latest completion.
    fn request(&mut self, start: u64, offset: u64, length: u64, is_write: bool) -> u64 {
        let stripe = self.parameters.stripe_bytes;
        let spindles = u64::from(self.parameters.spindles);
        let end = offset + length;
        let (first, last) = (offset / stripe, (end.max(offset + 1) - 1) / stripe);
        let mut completion = start as f64;
        for unit in first..=last.min(first + spindles - 1) {
            // The beginning of the request on this spindle, and its length there.
            let begin = offset.max(unit * stripe);
            let units = (last - unit) / spindles + 1;
            let last_unit = unit + (units - 1) * spindles;
            let cut_front = begin - unit * stripe;
            let cut_back = ((last_unit + 1) * stripe).saturating_sub(end);
            let bytes = units * stripe - cut_front - cut_back;
            let at = unit / spindles * stripe + cut_front;
            completion =
                completion.max(self.part((unit % spindles) as usize, start as f64, at, bytes, is_write));
        }
        // Rounded up, so that a request submitted at this time finds it done.
        completion.ceil() as u64
    }

    fn part(&mut self, spindle: usize, start: f64, at: u64, bytes: u64, is_write: bool) -> f64 {
        let DiskParameters { read_shallow_ns, read_deep_ns, write_shallow_ns, write_deep_ns, .. } =
            self.parameters;
        let cache = self.cache_bytes_per_spindle;
        let spindle = &mut self.spindles[spindle];
        let idle = start - spindle.free_at;
        if idle > 0.0 {
            if spindle.debt_ns > idle {
                spindle.debt_bytes *= 1.0 - idle / spindle.debt_ns;
                spindle.debt_ns -= idle;
            } else {
                (spindle.debt_ns, spindle.debt_bytes) = (0.0, 0.0);
            }
            spindle.free_at = start;
        }
        while spindle.pending.front().is_some_and(|&completion| completion <= start) {
            spindle.pending.pop_front();
        }
        let sequential = at == spindle.head;
        spindle.head = at + bytes;
        let queued = (spindle.pending.len() + 1) as f64;
        let (shallow, deep, bandwidth) = if is_write {
            (write_shallow_ns, write_deep_ns, self.parameters.write_bandwidth)
        } else {
            (read_shallow_ns, read_deep_ns, self.parameters.read_bandwidth)
        };
        let transfer = bytes as f64 * 1e9 / bandwidth;
        if is_write && cache > 0.0 {
            spindle.debt_ns += transfer + if sequential { 0.0 } else { deep };
            spindle.debt_bytes += bytes as f64;
            if spindle.debt_bytes > cache {
                // Room must be made first: as much old work as new bytes.
                let share = (spindle.debt_bytes - cache) / spindle.debt_bytes;
                spindle.free_at += spindle.debt_ns * share;
                spindle.debt_ns *= 1.0 - share;
                spindle.debt_bytes = cache;
                spindle.pending.push_back(spindle.free_at);
                return spindle.free_at + self.parameters.cache_latency_ns as f64;
            }
            return start + self.parameters.cache_latency_ns as f64;
        }
        let positioning = if sequential { 0.0 } else { deep + (shallow - deep) / queued };
        spindle.free_at += positioning + transfer;
        spindle.pending.push_back(spindle.free_at);
        spindle.free_at
    }
}

impl Timing for Disk {
    fn read(&mut self, start: u64, offset: u64, length: u64) -> u64 {
        self.request(start, offset, length, false)
    }
    fn write(&mut self, start: u64, offset: u64, length: u64) -> u64 {
        self.request(start, offset, length, true)
    }
    fn sync(&mut self, start: u64) -> u64 {
        start + self.parameters.sync_ns
    }
    fn discard(&mut self, _offset: u64, _length: u64) {}
    fn wear(&self) -> (u64, u64) {
        (0, 0)
    }
}
