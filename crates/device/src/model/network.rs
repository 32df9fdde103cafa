//! A cloud network volume: no seek, a latency, and two limits (requests and bytes per second) shared by all
//! requests.
//!
//! Invariant: over any interval the volume serves at most its limit of requests and of bytes. No credit is
//! saved up while it is idle (the guaranteed rate, without bursts).

use super::Timing;

/// Parameters of a network volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkParameters {
    /// Requests per second; a request of more than `request_bytes_max` counts as several.
    pub iops_max: f64,
    /// Bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Largest request that counts as one, in bytes.
    pub request_bytes_max: u64,
    /// Time from submission to completion without any queueing, in nanoseconds.
    pub latency_ns: u64,
    /// Duration of a sync in nanoseconds: one round trip. A completed write is already durable.
    pub sync_ns: u64,
}

pub(crate) struct Network {
    parameters: NetworkParameters,
    requests_free: f64,
    bytes_free: f64,
}

impl Network {
    pub fn new(parameters: NetworkParameters) -> Self {
        Self { parameters, requests_free: 0.0, bytes_free: 0.0 }
    }

    fn request(&mut self, start: u64, length: u64) -> u64 {
        let NetworkParameters { iops_max, bandwidth_bytes_per_s, request_bytes_max, latency_ns, .. } =
            self.parameters;
        let at = start as f64;
        let requests = length.div_ceil(request_bytes_max).max(1) as f64;
        self.requests_free = self.requests_free.max(at) + requests * 1e9 / iops_max;
        self.bytes_free = self.bytes_free.max(at) + length as f64 * 1e9 / bandwidth_bytes_per_s;
        self.requests_free.max(self.bytes_free) as u64 + latency_ns
    }
}

impl Timing for Network {
    fn read(&mut self, start: u64, _offset: u64, length: u64) -> u64 {
        self.request(start, length)
    }
    fn write(&mut self, start: u64, _offset: u64, length: u64) -> u64 {
        self.request(start, length)
    }
    fn sync(&mut self, start: u64) -> u64 {
        start + self.parameters.sync_ns
    }
    fn discard(&mut self, _offset: u64, _length: u64) {}
    fn wear(&self) -> (u64, u64) {
        (0, 0)
    }
}
