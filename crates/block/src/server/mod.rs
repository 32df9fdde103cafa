//! The server: sockets, threads and limits around the NBD protocol's state machine (`entresol_nbd`), and the
//! kernel's driver ublk, which uses the same workers.
//!
//! | file | what it does |
//! |---|---|
//! | `accept` | listening sockets, and the thread that accepts |
//! | `session` | one thread a connection: the handshake, then requests |
//! | `receive` | requests, and the data of writes |
//! | `hits` | hits that this thread reads itself, and writes past the flash, many at once |
//! | `voids` | writes past the flash whose pages have copies there |
//! | `job` | carrying out a request; the workers |
//! | `ublk` | a block device of the kernel (feature `ublk`; else `no_ublk` refuses it) |
//! | `connection` | the socket, the limits and the replies of a client; sends |
//! | `outgoing` | replies that wait to be sent |
//! | `limits` | what the requests of a connection may take |
//! | `stream` | the socket of a client |
//! | `control` | questions to a running server |
//! | `metrics`, `http` | counters, and metrics for Prometheus |
//! | `watch` | what the server tells in its log |
//! | `notify` | signals, and telling the service manager |
//!
//! Invariants:
//!
//! - Memory for requests is reserved before it is taken: bytes for the process, requests for each connection.
//! - A client that neither reads nor sends holds its reservation for a limited time, and no worker. One
//!   connection can reserve only a part of all.
//! - A request that was begun is ended before its connection is, whatever the client does.

mod accept;
mod connection;
mod control;
mod hits;
mod http;
mod job;
mod limits;
mod metrics;
mod notify;
mod outgoing;
mod receive;
mod session;
mod stream;
#[cfg(feature = "ublk")]
mod ublk;
#[cfg(not(feature = "ublk"))]
#[path = "no_ublk.rs"]
mod ublk;
mod voids;
mod watch;

pub use control::{ControlReply, ControlRequest, ask};

use crate::{Volume, VolumeConfig, VolumeError};
use accept::Listeners;
use entresol_nbd::{Command, Export, ExportError, Exports};
use entresol_runtime::sync::{Rank, Semaphore};
use entresol_runtime::{JoinHandle, now, spawn};
use job::{Queue, Work};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use thiserror::Error;
use ublk::Door;
use voids::Voids;

/// Where to listen, and the limits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The name of the export.
    pub name: String,
    /// The Unix socket, accessible by its owner only.
    pub socket: PathBuf,
    /// A TCP port of the loopback interface, too.
    pub tcp: Option<SocketAddr>,
    /// A block device of the kernel's driver ublk, too.
    pub ublk: Option<UblkOptions>,
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
            ublk: None,
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

/// A block device of the kernel's driver ublk.
#[derive(Clone, Debug)]
pub struct UblkOptions {
    /// The disk's label. By its path a server finds the device of its predecessor.
    pub label: PathBuf,
}

impl UblkOptions {
    /// As the configuration says.
    pub fn of(config: &VolumeConfig) -> Self {
        Self { label: config.label.clone() }
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
    /// There is no block device of the kernel's driver.
    #[error("ublk: {0}")]
    Ublk(String),
    /// The export cannot be offered.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The volume's error.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// After so long a volume that could not be settled is settled again: each time the disk gets all anew that
/// it has not made durable.
const SETTLE_AGAIN: Duration = Duration::from_secs(1);

/// What all threads of a server share.
struct Shared {
    volume: Volume,
    exports: Exports,
    options: ServerOptions,
    queue: Queue,
    voids: Voids,
    /// Bytes that requests may still reserve.
    bytes: Semaphore,
    counts: metrics::Counts,
    watch: watch::Watch,
    /// A flush of an idle volume is under way.
    is_flushing: AtomicBool,
    /// A worker has it, or is to have it, to settle the volume; not before this time, in nanoseconds: it has
    /// failed.
    is_settling: AtomicBool,
    settles_from: AtomicU64,
}

impl Shared {
    /// What is offered to a client that connects now: the disk may have grown.
    fn exports(&self) -> Exports {
        self.exports.with_bytes(&self.options.name, self.volume.bytes())
    }

    /// Empties the journal of an idle volume that is clean, in a thread of its own: a slow disk holds up
    /// nothing else.
    fn flush_if_clean(self: &Arc<Self>) {
        if !self.volume.has_only_records() || self.is_flushing.swap(true, SeqCst) {
            return;
        }
        let shared = self.clone();
        drop(spawn("block flush", move || {
            // A failure is told by the request that asks for a flush, and by the devices' state.
            _ = shared.volume.flush();
            shared.is_flushing.store(false, SeqCst);
        }));
    }

    /// A worker makes writes durable before others would have to wait for it.
    fn settle_if_due(&self) {
        if self.volume.is_settling_due()
            && now().0 >= self.settles_from.load(SeqCst)
            && !self.is_settling.swap(true, SeqCst)
        {
            self.queue.push(Work::Settle);
        }
    }

    /// See [`Shared::settle_if_due`].
    fn settle(&self) {
        // A failure is told by the request that asks for a flush, and by the devices' state.
        if self.volume.settle().is_err() {
            self.settles_from.store((now() + SETTLE_AGAIN).0, SeqCst);
        }
        self.is_settling.store(false, SeqCst);
    }

    /// Carries out a request, as [`Volume::carry_out`], counts it, and tells of its failure.
    fn carry_out(&self, command: Command, is_sequential: bool, data: &mut [u8]) -> Result<(), VolumeError> {
        self.counts.count(command);
        let done = self.volume.carry_out(command, is_sequential, data);
        self.settle_if_due();
        done.inspect_err(|error| self.tell_failed(command, error))
    }
}

/// A volume that is served. See the module's header.
pub struct Server {
    shared: Arc<Shared>,
    acceptor: JoinHandle,
    workers: Vec<JoinHandle>,
    /// Closed to end the acceptor.
    stop: UnixStream,
    door: Option<Door>,
}

impl Server {
    /// Checks that the system takes a socket at this path.
    ///
    /// # Errors
    /// [`ServerError::Socket`].
    pub fn check_socket_path(socket: &Path) -> Result<(), ServerError> {
        accept::check_length(socket)
    }

    /// Checks that the sockets can be used: to be called before the volume is opened, too.
    ///
    /// # Errors
    /// [`ServerError::Socket`], [`ServerError::Ublk`].
    pub fn check(options: &ServerOptions) -> Result<(), ServerError> {
        accept::check(options)?;
        options.ublk.as_ref().map_or(Ok(()), |_| Door::check())
    }

    /// Listens. Connections are accepted when it returns, and the kernel's requests.
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
        let watch = watch::Watch::new(volume.health());
        let shared = Arc::new(Shared {
            volume,
            watch,
            exports,
            queue: Queue::new(),
            voids: Voids::new(),
            bytes: Semaphore::new(Rank::InFlight, options.in_flight_bytes_max),
            counts: metrics::Counts::default(),
            is_flushing: AtomicBool::new(false),
            is_settling: AtomicBool::new(false),
            settles_from: AtomicU64::new(0),
            options,
        });
        let worker = |at| {
            let shared = shared.clone();
            spawn(&format!("block worker {at}"), move || shared.queue.work(&shared))
        };
        let workers = (0..shared.options.workers).map(worker).collect();
        let accepting = shared.clone();
        let acceptor = spawn("block acceptor", move || listeners.accept(&accepting, &stopped));
        let mut server = Self { shared, acceptor, workers, stop, door: None };
        if let Some(options) = &server.shared.options.ublk {
            match Door::start(&server.shared, options) {
                Ok(door) => server.door = Some(door),
                Err(error) => {
                    server.stop()?;
                    return Err(error);
                }
            }
        }
        Ok(server)
    }

    /// The path of the kernel's block device, if there is one.
    pub fn device(&self) -> Option<&str> {
        self.door.as_ref().map(Door::path)
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.shared.volume
    }

    /// Waits for SIGTERM or SIGINT, or until `failure` has one, which it returns. It is asked twice a second.
    /// `ready` is called when a signal would be noticed.
    ///
    /// # Errors
    /// If signals cannot be received.
    pub fn wait_for_signal<T>(
        ready: impl FnOnce(),
        failure: impl Fn() -> Option<T>,
    ) -> std::io::Result<Option<T>> {
        notify::wait_for_signal(ready, failure)
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
        // While there are workers: they carry out the kernel's requests meanwhile.
        self.door.take().into_iter().for_each(Door::stop);
        self.shared.queue.close();
        self.workers.into_iter().for_each(|worker| worker.join());
        self.shared.volume.close()?;
        Ok(())
    }
}
