//! Signals that end the server, and the service manager's socket.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(super) fn wait_for_signal(ready: impl FnOnce()) -> std::io::Result<()> {
    let (mut received, sender) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    // The terminal was closed, or an administrator expects that the configuration is read anew: not an end.
    signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    ready();
    received.read_exact(&mut [0])
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
