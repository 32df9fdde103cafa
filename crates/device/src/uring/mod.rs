//! A regular file or block device over io_uring: a batch is submitted at once and runs at the device's queue
//! depth.
//!
//! Each thread has its own ring, shared by all devices that it uses.
//!
//! Invariant: when a batch's submission returns, even with an error or a panic, no request of it is in
//! flight. So the kernel does not access its buffers afterwards.
#![allow(unsafe_code)]

mod queue;

pub use queue::{Ended, FileQueue, QueuedFile};

use crate::file::{FileOptions, OpenFile, adjacent_writes};
use crate::{Counters, Device, DeviceError, Geometry, Io, bounce};
use entresol_runtime::say;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// Requests in flight at once per thread.
const RING_ENTRIES: u32 = 256;
/// Most bytes that the kernel transfers in one request. Larger requests are completed with system calls.
const REQUEST_BYTES_MAX: usize = 1 << 30;

thread_local! {
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
}

/// A device over io_uring. It opens, locks, syncs and discards as [`crate::FileDevice`] does.
#[derive(Debug)]
pub struct UringDevice(Arc<OpenFile>);

impl UringDevice {
    /// Opens `path`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the file cannot be opened, is in use, or its space cannot be reserved; or if
    /// the kernel does not permit io_uring (then use [`crate::FileDevice`]).
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        with_ring(|_| ()).map_err(|error| DeviceError::Io {
            device: path.display().to_string(),
            operation: "open",
            offset: 0,
            length: 0,
            reason: format!("io_uring is not available ({error}); use the file device instead"),
        })?;
        OpenFile::open(path, path, options).map(|file| Self(Arc::new(file)))
    }

    /// A message for the owner about the open, if any.
    pub fn notice(&self) -> Option<&str> {
        self.0.notice.as_deref()
    }

    /// Runs requests whose buffers are all aligned.
    fn run_chunk(&self, ring: &mut IoUring, requests: &mut [Request<'_>]) -> Result<(), DeviceError> {
        let descriptor = types::Fd(self.0.file.as_raw_fd());
        for (index, request) in requests.iter_mut().enumerate() {
            let length = request.length().min(REQUEST_BYTES_MAX) as u32;
            let entry = match &mut request.io {
                Io::Read { offset, buffer } => {
                    opcode::Read::new(descriptor, buffer.as_mut_ptr(), length).offset(*offset).build()
                }
                Io::Write { offset, data } => {
                    opcode::Write::new(descriptor, data.as_ptr(), length).offset(*offset).build()
                }
            };
            let entry = entry.user_data(index as u64);
            // SAFETY: the entry points to `request`'s buffer, which `requests` borrows until this function
            // returns, and `drain` below does not return before the kernel is done with it. The descriptor is
            // open as long as `self`.
            let pushed = unsafe { ring.submission().push(&entry) };
            pushed.expect("a chunk is no larger than the ring, which is empty between chunks");
        }
        drain(ring, requests);
        requests.iter_mut().try_for_each(|request| self.finish(request))
    }

    /// Turns a completion into a result. Completes a short transfer with system calls.
    fn finish(&self, request: &mut Request<'_>) -> Result<(), DeviceError> {
        let length = request.length();
        let done = match request.result {
            result if result >= 0 => result as usize,
            result if is_to_be_repeated(result) => 0,
            result => {
                let error = std::io::Error::from_raw_os_error(-result);
                return Err(self.0.error(request.operation(), request.offset(), length as u64, error));
            }
        };
        if done >= length {
            return Ok(());
        }
        match &mut request.io {
            Io::Read { offset, buffer } => self.0.read_at(*offset + done as u64, &mut buffer[done..]),
            Io::Write { offset, data } => self.0.write_at(*offset + done as u64, &data[done..]),
        }
    }

    /// Runs a batch with unaligned buffers, through one aligned buffer for all of these.
    fn run_bounced(&self, ring: &mut IoUring, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let unaligned = |io: &Io<'_>| match io {
            Io::Read { buffer, .. } => self.0.needs_bounce(buffer).then_some(buffer.len()),
            Io::Write { data, .. } => self.0.needs_bounce(data).then_some(data.len()),
        };
        let total: usize =
            batch.iter().filter_map(unaligned).map(|length| length.next_multiple_of(4096)).sum();
        if total == 0 {
            let mut requests: Vec<_> = batch.iter_mut().map(Request::borrowed).collect();
            return self.run_requests(ring, &mut requests);
        }
        // Removed from the thread's pool during the batch: the completion of a short transfer may use the
        // pool itself.
        let mut own = POOL.take();
        if own.len() < total + bounce::ALIGNMENT {
            own.resize(total + bounce::ALIGNMENT, 0);
        }
        let skip = own.as_ptr().align_offset(bounce::ALIGNMENT);
        let result = {
            let mut rest = &mut own[skip..skip + total];
            let mut requests = Vec::with_capacity(batch.len());
            for io in batch.iter_mut() {
                match unaligned(io) {
                    None => requests.push(Request::borrowed(io)),
                    Some(length) => {
                        let (part, others) = rest.split_at_mut(length.next_multiple_of(4096));
                        rest = others;
                        requests.push(Request::bounced(io, &mut part[..length]));
                    }
                }
            }
            let result = self.run_requests(ring, &mut requests);
            requests.iter_mut().for_each(Request::copy_back);
            result
        };
        POOL.set(own);
        result
    }

    fn run_requests(&self, ring: &mut IoUring, requests: &mut [Request<'_>]) -> Result<(), DeviceError> {
        let mut first_error = Ok(());
        for chunk in requests.chunks_mut(RING_ENTRIES as usize) {
            first_error = first_error.and(self.run_chunk(ring, chunk));
        }
        first_error
    }
}

thread_local! {
    static POOL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A request with its buffer as the kernel sees it, and its result.
struct Request<'a> {
    io: Io<'a>,
    /// The destination of a bounced read.
    target: Option<&'a mut [u8]>,
    result: i32,
}

impl<'a> Request<'a> {
    fn borrowed(io: &'a mut Io<'_>) -> Self {
        let io = match io {
            Io::Read { offset, buffer } => Io::Read { offset: *offset, buffer },
            Io::Write { offset, data } => Io::Write { offset: *offset, data },
        };
        Self { io, target: None, result: 0 }
    }

    fn bounced(io: &'a mut Io<'_>, aligned: &'a mut [u8]) -> Self {
        match io {
            Io::Read { offset, buffer } => {
                Self { io: Io::Read { offset: *offset, buffer: aligned }, target: Some(buffer), result: 0 }
            }
            Io::Write { offset, data } => {
                aligned.copy_from_slice(data);
                Self { io: Io::Write { offset: *offset, data: aligned }, target: None, result: 0 }
            }
        }
    }

    fn copy_back(&mut self) {
        if let (Some(target), Io::Read { buffer, .. }) = (&mut self.target, &self.io) {
            target.copy_from_slice(buffer);
        }
    }

    fn length(&self) -> usize {
        match &self.io {
            Io::Read { buffer, .. } => buffer.len(),
            Io::Write { data, .. } => data.len(),
        }
    }

    fn offset(&self) -> u64 {
        match &self.io {
            Io::Read { offset, .. } | Io::Write { offset, .. } => *offset,
        }
    }

    fn operation(&self) -> &'static str {
        match &self.io {
            Io::Read { .. } => "read",
            Io::Write { .. } => "write",
        }
    }
}

/// Submits the queued requests and waits for all of them. Does not return or unwind while one is in flight.
fn drain(ring: &mut IoUring, requests: &mut [Request<'_>]) {
    let mut completed = 0;
    while completed < requests.len() {
        if let Err(error) = ring.submit_and_wait(requests.len() - completed)
            && !is_temporary(&error)
        {
            // Requests may be in flight to memory that the caller would free: only an abort is safe.
            say::tell(&format!(
                "io_uring cannot be waited for ({error}) while requests are in flight: aborting"
            ));
            std::process::abort();
        }
        for completion in ring.completion() {
            if let Some(request) = requests.get_mut(completion.user_data() as usize) {
                request.result = completion.result();
                completed += 1;
            }
        }
    }
}

/// Whether a wait for a ring is to be repeated.
fn is_temporary(error: &std::io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::INTR, Errno::AGAIN, Errno::BUSY].iter().any(|errno| Some(errno.raw_os_error()) == code)
}

/// Whether a result, negated, is no answer of the device: the request is to be repeated.
fn is_to_be_repeated(result: i32) -> bool {
    [Errno::AGAIN, Errno::INTR].iter().any(|errno| errno.raw_os_error() == -result)
}

fn with_ring<R>(f: impl FnOnce(&mut IoUring) -> R) -> std::io::Result<R> {
    RING.with_borrow_mut(|ring| {
        if ring.is_none() {
            *ring = Some(IoUring::new(RING_ENTRIES)?);
        }
        Ok(f(ring.as_mut().expect("the ring was made just now")))
    })
}

impl Device for UringDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let _busy = self.0.begin(batch)?;
        match batch {
            // A single request is cheaper as a system call.
            [Io::Read { offset, buffer }] => return self.0.read_at(*offset, buffer),
            [Io::Write { offset, data }] => return self.0.write_at(*offset, data),
            // So are writes that follow each other on the device: a group of pages, for instance.
            writes if adjacent_writes(writes) == writes.len() => return self.0.write_all_at(writes),
            _ => {}
        }
        match with_ring(|ring| self.run_bounced(ring, batch)) {
            Ok(result) => result,
            Err(error) => {
                let why = std::io::Error::other(format!("no ring for this thread: {error}"));
                Err(self.0.error("open", 0, 0, why))
            }
        }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }

    fn zero(&self, offset: u64, length: u64, may_punch: bool) -> Result<(), DeviceError> {
        self.0.zero(offset, length, may_punch)
    }

    fn resize(&self, bytes: Option<u64>) -> Result<u64, DeviceError> {
        self.0.resize(bytes)
    }

    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn queued(&self) -> Option<QueuedFile> {
        Some(QueuedFile(self.0.clone()))
    }
}
