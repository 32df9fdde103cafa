//! Signals and failures that end the server, and the service manager's socket.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How often a failure is looked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

pub(super) fn wait_for_signal<T>(
    ready: impl FnOnce(),
    failure: impl Fn() -> Option<T>,
) -> std::io::Result<Option<T>> {
    let (received, sender) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    // The terminal was closed, or an administrator expects that the configuration is read anew: not an end.
    signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    ready();
    loop {
        let has_come = match poll(&mut [PollFd::new(&received, PollFlags::IN)], Some(&LOOK)) {
            Err(Errno::INTR) => false,
            ready => ready? > 0,
        };
        if has_come {
            return Ok(None);
        }
        if let Some(failure) = failure() {
            return Ok(Some(failure));
        }
    }
}

/// Tells the service manager, if it listens (sd_notify(3)). Only it needs the message, so errors do not
/// matter.
pub(super) fn tell(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let place = place.to_string_lossy();
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*place),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
