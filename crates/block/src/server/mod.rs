//! The NBD server: sockets, threads and limits around the protocol's state machine (`entresol_nbd`).
//!
//! | file | what it does |
//! |---|---|
//! | `accept` | listening sockets, and the thread that accepts |
//! | `connection` | one thread a connection; the handshake |
//! | `receive` | requests, and the data of writes |
//! | `hits` | what that thread reads from flash itself, many hits at once |
//! | `job` | carrying out a request; the workers |
//! | `outgoing` | the replies of a connection |
//! | `control` | questions to a running server |
//! | `metrics` | what is counted, for Prometheus |
//! | `notify` | signals, and telling the service manager |
//!
//! Invariants:
//!
//! - Memory for requests is reserved before it is taken: bytes for the process, requests for each connection.
//! - A client that neither reads nor sends holds what it reserved for a limited time, and no worker. What one
//!   connection can reserve is a part of all.
//! - A request that was begun is ended before its connection is, whatever the client does.

mod accept;
mod connection;
mod control;
mod hits;
mod job;
mod metrics;
mod notify;
mod outgoing;
mod receive;

pub use control::{ControlReply, ControlRequest, ask};

use crate::{Volume, VolumeConfig, VolumeError};
use accept::Listeners;
use entresol_nbd::{Export, ExportError, Exports};
use entresol_runtime::sync::{Rank, Semaphore};
use entresol_runtime::{JoinHandle, spawn};
use job::Queue;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Where to listen, and the limits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The name of the export.
    pub name: String,
    /// The Unix socket, accessible by its owner only.
    pub socket: PathBuf,
    /// A TCP port of the loopback interface, too.
    pub tcp: Option<SocketAddr>,
    /// Clients cannot write.
    pub read_only: bool,
    /// Threads that carry out requests.
    pub workers: usize,
    /// Most connections.
    pub connections_max: usize,
    /// Most requests of one connection under way.
    pub requests_max: usize,
    /// Most bytes of requests under way.
    pub in_flight_bytes_max: usize,
    /// Longest handshake.
    pub handshake_time_max: Duration,
    /// Longest time without progress for a reply, or for the data of a write.
    pub transfer_time_max: Duration,
}

impl ServerOptions {
    /// As the configuration says.
    pub fn of(config: &VolumeConfig) -> Self {
        Self {
            name: config.name.clone(),
            socket: config.socket.clone(),
            tcp: None,
            read_only: config.read_only,
            workers: config.workers,
            connections_max: config.connections_max,
            requests_max: config.requests_max,
            in_flight_bytes_max: config.in_flight_bytes_max,
            handshake_time_max: Duration::from_secs(config.handshake_seconds_max),
            transfer_time_max: Duration::from_secs(config.transfer_seconds_max),
        }
    }
}

/// The server cannot listen, or cannot end.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A socket cannot be used.
    #[error("socket {place}: {why}")]
    Socket {
        /// Its path or address.
        place: String,
        /// Why.
        why: String,
    },
    /// The export cannot be offered.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The volume's error.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// What all threads of a server share.
struct Shared {
    volume: Volume,
    exports: Exports,
    options: ServerOptions,
    queue: Queue,
    /// Bytes that requests may still reserve.
    bytes: Semaphore,
    counts: metrics::Counts,
}

/// A volume that is served. See the module's header.
pub struct Server {
    shared: Arc<Shared>,
    acceptor: JoinHandle,
    workers: Vec<JoinHandle>,
    /// Closed to end the acceptor.
    stop: UnixStream,
}

impl Server {
    /// Checks that the sockets can be used: to be called before the volume is opened, too.
    ///
    /// # Errors
    /// [`ServerError::Socket`].
    pub fn check(options: &ServerOptions) -> Result<(), ServerError> {
        accept::check(options)
    }

    /// Listens. Connections are accepted when it returns.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(volume: Volume, options: ServerOptions) -> Result<Self, ServerError> {
        let preferred = volume.page_bytes() as u32;
        let mut export = Export::new(options.name.clone(), volume.bytes());
        export.blocks.preferred = preferred;
        export.read_only = options.read_only;
        let exports = Exports::new(vec![export])?;
        let listeners = Listeners::open(&options)?;
        let (stop, stopped) = UnixStream::pair().map_err(|error| accept::failed("pair", error))?;
        let shared = Arc::new(Shared {
            volume,
            exports,
            queue: Queue::new(),
            bytes: Semaphore::new(Rank::InFlight, options.in_flight_bytes_max),
            counts: metrics::Counts::default(),
            options,
        });
        let worker = |at| {
            let shared = shared.clone();
            spawn(&format!("block worker {at}"), move || shared.queue.work(&shared))
        };
        let workers = (0..shared.options.workers).map(worker).collect();
        let accepting = shared.clone();
        let acceptor = spawn("block acceptor", move || listeners.accept(&accepting, &stopped));
        Ok(Self { shared, acceptor, workers, stop })
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.shared.volume
    }

    /// Waits for SIGTERM or SIGINT. `ready` is called when a signal would be noticed.
    ///
    /// # Errors
    /// If signals cannot be received.
    pub fn wait_for_signal(ready: impl FnOnce()) -> std::io::Result<()> {
        notify::wait_for_signal(ready)
    }

    /// Tells the service manager that the server is ready, if there is one (`NOTIFY_SOCKET`).
    pub fn notify_ready() {
        notify::tell("READY=1");
    }

    /// Ends: no new connections, no new requests; requests under way are answered; then the volume is closed.
    ///
    /// # Errors
    /// The volume's.
    pub fn stop(mut self) -> Result<(), ServerError> {
        notify::tell("STOPPING=1");
        // The acceptor polls it; it ends by itself if this fails, for then it has ended.
        let _ = self.stop.write_all(&[0]);
        self.acceptor.join();
        self.shared.queue.close();
        self.workers.into_iter().for_each(|worker| worker.join());
        self.shared.volume.close()?;
        Ok(())
    }
}
