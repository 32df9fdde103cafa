//! Counters of the server, and metrics over HTTP on the loopback interface.

use super::accept::{check_loopback, failed};
use super::{Server, ServerError, Shared, http};
use crate::RequestCounts;
use crate::exposition::{Exposition, OfVolume};
use entresol_nbd::Command;
use entresol_runtime::spawn;
use std::net::{SocketAddr, TcpListener};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The server's own counters, without its cache's.
#[derive(Default)]
pub(super) struct Counts {
    requests: [AtomicU64; KINDS.len()],
    /// Bytes of reads and writes.
    bytes: [AtomicU64; 2],
    pub failed: AtomicU64,
    /// Connections.
    pub refused: AtomicU64,
}

/// Commands of requests.
const KINDS: [&str; 7] = ["read", "write", "flush", "trim", "write-zeroes", "cache", "block-status"];

impl Counts {
    pub fn count(&self, command: Command) {
        let (kind, bytes) = match command {
            Command::Read { length, .. } => (0, length),
            Command::Write { length, .. } => (1, length),
            Command::Flush => (2, 0),
            Command::Trim { .. } => (3, 0),
            Command::WriteZeroes { .. } => (4, 0),
            Command::Cache { .. } => (5, 0),
            Command::BlockStatus { .. } => (6, 0),
        };
        self.requests[kind].fetch_add(1, Relaxed);
        if let Some(counted) = self.bytes.get(kind) {
            counted.fetch_add(bytes.into(), Relaxed);
        }
    }

    /// For a report.
    pub fn report(&self) -> RequestCounts {
        let [reads, writes, flushes, others @ ..] = self.requests.each_ref().map(|count| count.load(Relaxed));
        let [read_bytes, written_bytes] = self.bytes.each_ref().map(|bytes| bytes.load(Relaxed));
        let (others, failed) = (others.iter().sum(), self.failed.load(Relaxed));
        RequestCounts { reads, writes, flushes, others, failed, read_bytes, written_bytes }
    }

    fn export(&self, to: &mut OfVolume<'_>) {
        for (kind, count) in KINDS.iter().zip(&self.requests) {
            let (labels, meaning) = ([("command", *kind)], "requests of clients that were begun");
            to.counter("entresol_block_requests_total", meaning, &labels, count.load(Relaxed));
        }
        for (kind, bytes) in KINDS.iter().zip(&self.bytes) {
            let (labels, meaning) = ([("command", *kind)], "bytes of reads and writes of clients");
            to.counter("entresol_block_request_bytes_total", meaning, &labels, bytes.load(Relaxed));
        }
        let failed = self.failed.load(Relaxed);
        to.counter("entresol_block_failed_total", "requests of clients that failed", &[], failed);
        let meaning = "connections that were refused, since connections_max were open";
        let refused = self.refused.load(Relaxed);
        to.counter("entresol_block_refused_connections_total", meaning, &[], refused);
    }
}

fn text(servers: &[Weak<Shared>]) -> String {
    let mut exposition = Exposition::default();
    for shared in servers.iter().filter_map(Weak::upgrade) {
        let mut of_volume = exposition.of(&shared.options.name);
        shared.volume.export(&mut of_volume);
        shared.counts.export(&mut of_volume);
    }
    exposition.text()
}

impl Server {
    /// Answers `GET /metrics` at `address`, which must be of the loopback interface, for these servers, until
    /// the process ends.
    ///
    /// # Errors
    /// [`ServerError::Socket`].
    pub fn export_metrics<'a>(
        address: SocketAddr,
        servers: impl Iterator<Item = &'a Server>,
    ) -> Result<(), ServerError> {
        check_loopback(address)?;
        let listener = TcpListener::bind(address).map_err(|error| failed(address, error))?;
        listener.set_nonblocking(true).map_err(|error| failed(address, error))?;
        let servers: Vec<_> = servers.map(|server| std::sync::Arc::downgrade(&server.shared)).collect();
        // It ends with the process.
        drop(spawn("block metrics", move || {
            http::serve(&listener, http::TIME_MAX, &|path| (path == "/metrics").then(|| text(&servers)));
        }));
        Ok(())
    }
}
