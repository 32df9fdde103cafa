//! The socket of a client: bytes that are received, and bytes that are sent, each within a time.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::io::{Error, ErrorKind, IoSlice, Read, Result};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The socket of a client.
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

macro_rules! of_both {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
        }
    };
}

impl Stream {
    pub fn prepare(&self) -> Result<()> {
        if let Stream::Tcp(stream) = self {
            stream.set_nodelay(true)?;
        }
        of_both!(self, stream => stream.set_nonblocking(false))
    }

    pub fn set_read_timeout(&self, time_max: Duration) -> Result<()> {
        of_both!(self, stream => stream.set_read_timeout(Some(time_max)))
    }

    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        of_both!(self, stream => (&mut &*stream).read(buffer))
    }

    /// Receives the bytes that have arrived; `WouldBlock` if there are none.
    pub fn read_now(&self, buffer: &mut [u8]) -> Result<usize> {
        let (count, _) = of_both!(self, stream => recv(stream, buffer, RecvFlags::DONTWAIT))?;
        Ok(count)
    }

    /// Whether bytes have arrived that were not received.
    pub fn has_arrived(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        of_both!(self, stream => recv(stream, &mut [0; 1], flags)).is_ok_and(|(count, _)| count > 0)
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        of_both!(self, stream => stream.as_fd())
    }

    /// Sends as much as the client takes at once; `WouldBlock` if that is nothing.
    pub fn send_now(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut none = SendAncillaryBuffer::default();
        of_both!(self, stream => Ok(sendmsg(stream, parts, &mut none, flags)?))
    }

    /// Waits until the client takes something. False: `time_max` is up.
    pub fn wait_to_send(&self, time_max: Duration) -> Result<bool> {
        let time_max =
            Timespec { tv_sec: time_max.as_secs() as i64, tv_nsec: time_max.subsec_nanos().into() };
        let mut sources = of_both!(self, stream => [PollFd::new(stream, PollFlags::OUT)]);
        match poll(&mut sources, Some(&time_max)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    pub fn shutdown(&self, how: Shutdown) {
        // One that is gone needs none.
        let _ = of_both!(self, stream => stream.shutdown(how));
    }
}

/// Bytes that were received and not used.
pub(super) struct Received {
    buffer: Vec<u8>,
    pub start: usize,
    end: usize,
}

impl Received {
    /// With room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { buffer: vec![0; bytes], start: 0, end: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Receives more when all was used. False: the client will send nothing more.
    pub fn fill(&mut self, stream: &Stream) -> Result<bool> {
        let count = stream.read(&mut self.buffer)?;
        (self.start, self.end) = (0, count);
        Ok(count > 0)
    }

    /// As [`Received::fill`]; `WouldBlock` if nothing has arrived.
    pub fn fill_now(&mut self, stream: &Stream) -> Result<bool> {
        let count = stream.read_now(&mut self.buffer)?;
        (self.start, self.end) = (0, count);
        Ok(count > 0)
    }
}

pub(super) fn is_time_up(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Sends `parts`, at least one byte of them, if the client takes any within `time_max`.
pub(super) fn send_some(stream: &Stream, parts: &[IoSlice<'_>], time_max: Duration) -> Result<usize> {
    loop {
        match stream.send_now(parts) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !stream.wait_to_send(time_max)? {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

/// Sends all of `bytes`, waiting for at most `time_max` without progress.
pub(super) fn send_all(stream: &Stream, mut bytes: &[u8], time_max: Duration) -> Result<()> {
    while !bytes.is_empty() {
        let sent = send_some(stream, &[IoSlice::new(bytes)], time_max)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}
