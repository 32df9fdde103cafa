//! Metrics in Prometheus' text format, over HTTP on the loopback interface.
//!
//! Nothing is counted here: each request for metrics reads the counters of the caches and the server.

use super::accept::{check_loopback, failed};
use super::{Server, ServerError, Shared};
use entresol_runtime::spawn;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Longest time of a request without progress.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The server's own counters, without its cache's.
#[derive(Default)]
pub(super) struct Counts {
    requests: [AtomicU64; KINDS.len()],
    pub failed: AtomicU64,
}

/// Commands of requests.
const KINDS: [&str; 7] = ["read", "write", "flush", "trim", "write-zeroes", "cache", "block-status"];

impl Counts {
    pub fn count(&self, command: entresol_nbd::Command) {
        use entresol_nbd::Command::*;
        let kind = match command {
            Read { .. } => 0,
            Write { .. } => 1,
            Flush => 2,
            Trim { .. } => 3,
            WriteZeroes { .. } => 4,
            Cache { .. } => 5,
            BlockStatus { .. } => 6,
        };
        self.requests[kind].fetch_add(1, Relaxed);
    }
}

/// The sources of a scrape.
struct Source {
    shared: Vec<Weak<Shared>>,
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Source {
    fn text(&self) -> String {
        metrics::with_local_recorder(&self.recorder, || {
            self.shared.iter().filter_map(Weak::upgrade).for_each(|shared| shared.export());
        });
        self.handle.render()
    }

    fn answer(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(TIME_MAX))?;
        stream.set_write_timeout(Some(TIME_MAX))?;
        let mut lines = BufReader::new((&stream).take(HEAD_BYTES_MAX)).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        for line in lines {
            if line?.is_empty() {
                break;
            }
        }
        let path = first.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        let (status, text) = match path {
            Some("/metrics") => ("200 OK", self.text()),
            _ => ("404 Not Found", "GET /metrics\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(text.as_bytes())
    }
}

impl Shared {
    fn export(&self) {
        let name = || self.options.name.clone();
        if let Some(tier) = self.volume.metrics() {
            tier.export(&self.options.name);
        }
        self.volume.export_steering(&self.options.name);
        metrics::describe_gauge!(
            "entresol_block_journal_missing",
            "1: the journal was gone at the start, and acknowledged writes that were not flushed may be missing"
        );
        metrics::gauge!("entresol_block_journal_missing", "cache" => name())
            .set(f64::from(u8::from(self.volume.journal_missing())));
        metrics::describe_counter!("entresol_block_requests_total", "requests of clients that were begun");
        for (kind, count) in KINDS.iter().zip(&self.counts.requests) {
            metrics::counter!("entresol_block_requests_total", "cache" => name(), "command" => *kind)
                .absolute(count.load(Relaxed));
        }
        metrics::describe_counter!("entresol_block_failed_total", "requests of clients that failed");
        metrics::counter!("entresol_block_failed_total", "cache" => name())
            .absolute(self.counts.failed.load(Relaxed));
    }
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
    ) -> std::result::Result<(), ServerError> {
        check_loopback(address)?;
        let listener = TcpListener::bind(address).map_err(|error| failed(address, error))?;
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let shared = servers.map(|server| Arc::downgrade(&server.shared)).collect();
        let source = Source { shared, recorder, handle };
        // It ends with the process.
        drop(spawn("block metrics", move || {
            for stream in listener.incoming() {
                // A client that is gone misses nothing.
                let _ = stream.and_then(|stream| source.answer(stream));
            }
        }));
        Ok(())
    }
}
