//! The thread of a connection: the handshake, then requests.

use super::Shared;
use super::connection::Connection;
use super::receive::Receiver;
use super::stream::{Received, send_all};
use entresol_nbd::{Handshake, Opened, Step};
use std::io::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 64 << 10;
/// The limits of a surplus connection: bytes and time.
const REFUSED_BYTES: usize = 4096;
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(2);

/// The thread of a connection too many: the client is told so, if it asks for something soon.
pub(super) fn refuse(connection: &Connection, shared: &Shared) {
    let mut handshake = Handshake::new();
    handshake.refuse_connection();
    let mut received = Received::new(REFUSED_BYTES);
    // A client that is gone needs no answer.
    let _ = shake_hands(connection, shared, handshake, REFUSAL_TIME_MAX, &mut received);
    connection.ends();
}

/// The thread of the connection.
pub(super) fn serve(connection: &Arc<Connection>, shared: &Arc<Shared>) {
    let mut received = Received::new(RECEIVE_BYTES);
    let time_max = shared.options.handshake_time_max;
    match shake_hands(connection, shared, Handshake::new(), time_max, &mut received) {
        Ok(Some(opened)) => {
            if let Err(error) = receive(connection, shared, opened, received) {
                tracing::info!("a connection has ended: {error}");
            }
        }
        Ok(None) => {}
        Err(error) => tracing::info!("a handshake has ended: {error}"),
    }
    // Requests under way hold their places; all of them have been answered after this.
    drop(connection.limits.requests.acquire(shared.options.requests_max));
    connection.ends();
}

fn shake_hands(
    connection: &Connection,
    shared: &Shared,
    mut handshake: Handshake,
    time_max: Duration,
    received: &mut Received,
) -> Result<Option<Opened>> {
    let deadline = Instant::now() + time_max;
    let exports = shared.exports();
    let mut last = None;
    loop {
        let output = handshake.output();
        send_all(&connection.stream, output, connection.transfer_time_max)?;
        let count = output.len();
        handshake.sent(count);
        match last.take() {
            Some(Step::Opened(opened)) => return Ok(Some(opened)),
            Some(Step::Closed(_)) => return Ok(None),
            _ => {}
        }
        if received.bytes().is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            connection.stream.set_read_timeout(left)?;
            if !received.fill(&connection.stream)? {
                return Ok(None);
            }
        }
        let (used, step) = handshake.receive(received.bytes(), &exports);
        received.start += used;
        last = Some(step);
    }
}

/// Receives requests until the client ends, or breaks the protocol. A request that panics is the end of
/// its connection.
fn receive(
    connection: &Arc<Connection>,
    shared: &Arc<Shared>,
    opened: Opened,
    received: Received,
) -> Result<()> {
    connection.stream.set_read_timeout(shared.options.transfer_time_max)?;
    let run = || Receiver::new(connection, shared, opened, received).run();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(Error::other("a request panicked")))
}
