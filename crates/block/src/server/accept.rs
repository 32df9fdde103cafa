//! Listening sockets, and the thread that accepts connections. It looks at the devices, too, so that the log
//! tells of their failures.

use super::connection::Connection;
use super::stream::Stream;
use super::watch::TICK;
use super::{ServerError, ServerOptions, Shared, control, session};
use crate::VolumeConfig;
use entresol_runtime::{JoinHandle, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a socket that gives an error is not polled.
const PAUSE: Duration = Duration::from_millis(50);

/// Most connections too many that are told so at once.
const REFUSALS_MAX: usize = 16;

pub(super) fn failed(place: impl ToString, why: impl ToString) -> ServerError {
    ServerError::Socket { place: place.to_string(), why: why.to_string() }
}

/// Longest path of a Unix socket, in bytes (`sun_path` of unix(7), without its end).
const PATH_BYTES_MAX: usize = 107;

/// Refuses a socket whose path, or that of its control socket, the system does not take.
pub(super) fn check_length(path: &Path) -> Result<(), ServerError> {
    let most = PATH_BYTES_MAX + path.as_os_str().len();
    let most = most.saturating_sub(VolumeConfig::control_socket(path).as_os_str().len());
    let found = path.as_os_str().len();
    if found <= most {
        return Ok(());
    }
    Err(failed(
        path.display(),
        format!(
            "its path has {found} bytes, and a socket's has {most} at most; name a shorter one (--socket)"
        ),
    ))
}

/// Refuses an existing file, but for the socket of a killed server.
fn check_path(path: &Path) -> Result<(), ServerError> {
    let refuse = |why: &str| Err(failed(path.display(), why));
    let Ok(metadata) = path.symlink_metadata() else {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return match folder.is_dir() {
            true => Ok(()),
            false => refuse("its folder does not exist; create it, or name another socket with --socket"),
        };
    };
    if !metadata.file_type().is_socket() {
        return refuse("exists and is no socket; name another one with --socket");
    }
    match UnixStream::connect(path) {
        Ok(_) => refuse("a server listens there already; stop it, or name another socket with --socket"),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(failed(path.display(), format!("exists and cannot be examined ({error})"))),
    }
}

pub(super) fn check(options: &ServerOptions) -> Result<(), ServerError> {
    check_length(&options.socket)?;
    check_path(&options.socket)?;
    check_path(&VolumeConfig::control_socket(&options.socket))?;
    options.tcp.map_or(Ok(()), check_loopback)
}

/// Refuses an address that others than this machine reach.
pub(super) fn check_loopback(address: SocketAddr) -> Result<(), ServerError> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(failed(
            address,
            "is not of the loopback interface; choose 127.0.0.1, and tunnel it if need be",
        )),
    }
}

/// Sockets that listen; the files of them are removed when dropped.
pub(super) struct Listeners {
    data: UnixListener,
    tcp: Option<TcpListener>,
    control: UnixListener,
    files: Vec<PathBuf>,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for path in &self.files {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket that only its owner can connect to, from its first moment on.
fn listen(path: &Path) -> Result<UnixListener, ServerError> {
    check_path(path)?;
    let _ = std::fs::remove_file(path);
    // Of the whole process: no other thread makes files meanwhile.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener.map_err(|error| failed(path.display(), error))?;
    listener.set_nonblocking(true).map_err(|error| failed(path.display(), error))?;
    Ok(listener)
}

impl Listeners {
    pub fn open(options: &ServerOptions) -> Result<Self, ServerError> {
        check(options)?;
        let tcp = match options.tcp {
            None => None,
            Some(address) => {
                let listener = TcpListener::bind(address).map_err(|error| failed(address, error))?;
                listener.set_nonblocking(true).map_err(|error| failed(address, error))?;
                Some(listener)
            }
        };
        let control_path = VolumeConfig::control_socket(&options.socket);
        let control = listen(&control_path)?;
        let data = listen(&options.socket).inspect_err(|_| _ = std::fs::remove_file(&control_path))?;
        Ok(Self { data, tcp, control, files: vec![options.socket.clone(), control_path] })
    }

    /// Accepts connections until `stop` can be read; then ends all of them.
    pub fn accept(self, shared: &Arc<Shared>, stop: &UnixStream) {
        let mut threads: Vec<(Arc<Connection>, JoinHandle)> = Vec::new();
        let mut refused: Vec<(Arc<Connection>, JoinHandle)> = Vec::new();
        let mut tick = Instant::now() + TICK;
        loop {
            let mut sources = vec![
                PollFd::new(stop, PollFlags::IN),
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.data, PollFlags::IN),
            ];
            sources.extend(self.tcp.iter().map(|tcp| PollFd::new(tcp, PollFlags::IN)));
            let until_tick = tick.saturating_duration_since(Instant::now());
            let until_tick = Timespec { tv_sec: 0, tv_nsec: until_tick.subsec_nanos().into() };
            let polled = poll(&mut sources, Some(&until_tick));
            if Instant::now() >= tick {
                shared.tick();
                shared.flush_if_clean();
                tick = Instant::now() + TICK;
            }
            if polled.is_err() {
                continue;
            }
            if !sources[0].revents().is_empty() {
                break;
            }
            threads.retain(|(connection, _)| !connection.is_over());
            refused.retain(|(connection, _)| !connection.is_over());
            if let Ok((stream, _)) = self.control.accept() {
                control::answer(shared, stream);
            }
            let accepted = [
                self.data.accept().map(|(stream, _)| Stream::Unix(stream)),
                match &self.tcp {
                    Some(tcp) => tcp.accept().map(|(stream, _)| Stream::Tcp(stream)),
                    None => Err(ErrorKind::WouldBlock.into()),
                },
            ];
            for stream in accepted {
                match stream {
                    Ok(stream) if threads.len() < shared.options.connections_max => {
                        threads.extend(begin(shared, stream, session::serve));
                    }
                    // One too many is told so, unless there are too many of these, too.
                    Ok(stream) => {
                        shared.tell_refused(threads.len());
                        if refused.len() < REFUSALS_MAX {
                            refused.extend(begin(shared, stream, |connection, shared| {
                                session::refuse(connection, shared)
                            }));
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // Out of file descriptors, say.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        }
        // No new client finds the server; those it has are told.
        drop(self);
        threads.extend(refused);
        threads.iter().for_each(|(connection, _)| connection.receive_no_more());
        threads.into_iter().for_each(|(_, thread)| thread.join());
    }
}

/// Starts the thread of a connection. `None`: it was lost already.
fn begin(
    shared: &Arc<Shared>,
    stream: Stream,
    serve: fn(&Arc<Connection>, &Arc<Shared>),
) -> Option<(Arc<Connection>, JoinHandle)> {
    let connection = Arc::new(Connection::new(stream, &shared.options).ok()?);
    let (shared, served) = (shared.clone(), connection.clone());
    Some((connection, spawn("block connection", move || serve(&served, &shared))))
}
