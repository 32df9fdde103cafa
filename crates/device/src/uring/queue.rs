//! Reads and writes of one thread that are under way together, while the thread also waits for a socket.
//!
//! Invariants:
//!
//! - The queue owns the buffer of a request, and holds its file open, from its begin to its end. If the ring
//!   cannot be waited for, buffers that the kernel may still use are never freed.
//! - There are never more parts under way than the ring has room for.

use super::{is_temporary, is_to_be_repeated};
use crate::busy::Busy;
use crate::file::OpenFile;
use crate::{AlignedBuffer, DeviceError, Io, ReadPart};
use arrayvec::ArrayVec;
use io_uring::{IoUring, opcode, types};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Parts under way at once.
const PARTS_UNDER_WAY_MAX: u32 = 256;
/// Most parts of a request.
const PARTS_MAX: usize = 16;
/// Bits of an entry's user data that number the part; the others number the request.
const PART_BITS: u32 = 8;
/// User data of the socket's entry.
const SOCKET: u64 = u64::MAX;
/// A wait is for this part of what is under way, and for so much at most, but not longer than [`PATIENCE`]:
/// each wait costs the thread as much as several requests.
const AWAITED_ONE_OF: usize = 8;
const AWAITED_MAX: usize = 8;
/// Shorter than most devices take for a request.
const PATIENCE: types::Timespec = types::Timespec::new().nsec(100_000);

/// An open file that requests can be queued for.
#[derive(Clone, Debug)]
pub struct QueuedFile(pub(crate) Arc<OpenFile>);

impl QueuedFile {
    /// Whether requests are of the device itself, and take its time, even if they were made before.
    pub fn is_direct(&self) -> bool {
        self.0.is_direct
    }

    /// The number of its descriptor in this process. It is open as long as the device.
    pub fn descriptor(&self) -> i32 {
        self.0.file.as_raw_fd()
    }
}

/// A request that has ended.
pub struct Ended<T> {
    /// The tag of its push.
    pub of: T,
    /// The memory it was pushed with.
    pub buffer: AlignedBuffer,
    /// Whether all of it was read, or written.
    pub result: Result<(), DeviceError>,
}

/// The direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

struct Pushed<T> {
    of: T,
    way: Way,
    file: QueuedFile,
    buffer: AlignedBuffer,
    parts: ArrayVec<ReadPart, PARTS_MAX>,
    parts_under_way: usize,
    result: Result<(), DeviceError>,
}

/// See the module's header.
pub struct FileQueue<T> {
    ring: IoUring,
    /// By number; `None`: the number is free.
    pushed: Vec<Option<Pushed<T>>>,
    free: Vec<usize>,
    ended: VecDeque<Ended<T>>,
    parts_under_way: usize,
    /// Parts that were not submitted yet, some of them of a device itself.
    has_direct: bool,
    /// An entry for the socket is under way.
    awaits_socket: bool,
    /// The ring belongs to the thread that made it.
    of_one_thread: PhantomData<*const ()>,
}

impl<T> FileQueue<T> {
    /// A queue for requests of the calling thread.
    ///
    /// # Errors
    /// If the kernel does not permit io_uring.
    pub fn new() -> std::io::Result<Self> {
        // Completions are handled when the thread asks for them, and do not interrupt it (Linux 6.1).
        let deferred =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(PARTS_UNDER_WAY_MAX + 1);
        Ok(Self {
            ring: deferred.or_else(|_| IoUring::new(PARTS_UNDER_WAY_MAX + 1))?,
            pushed: Vec::new(),
            free: Vec::new(),
            ended: VecDeque::new(),
            parts_under_way: 0,
            has_direct: false,
            awaits_socket: false,
            of_one_thread: PhantomData,
        })
    }

    /// Whether no request is under way, and none has ended that was not taken.
    pub fn is_idle(&self) -> bool {
        self.parts_under_way == 0 && self.ended.is_empty()
    }

    /// Whether a request of so many parts may begin now.
    pub fn has_room(&self, parts: usize) -> bool {
        parts <= PARTS_MAX && self.parts_under_way + parts <= PARTS_UNDER_WAY_MAX as usize
    }

    /// Begins a read, which is submitted with the next wait. Its parts fill the aligned `buffer`.
    ///
    /// # Panics
    /// If there is no room, or the parts do not fill the buffer.
    pub fn push_read(&mut self, file: QueuedFile, parts: &[ReadPart], buffer: AlignedBuffer, of: T) {
        self.push(Way::Read, file, parts, buffer, of);
    }

    /// Begins a write of the aligned `buffer`, which is submitted with the next wait.
    ///
    /// # Panics
    /// If there is no room.
    pub fn push_write(&mut self, file: QueuedFile, offset: u64, buffer: AlignedBuffer, of: T) {
        self.push(Way::Write, file, &[ReadPart { offset, length: buffer.len() }], buffer, of);
    }

    fn push(&mut self, way: Way, file: QueuedFile, parts: &[ReadPart], mut buffer: AlignedBuffer, of: T) {
        assert!(
            self.has_room(parts.len()),
            "{} parts, where {} are under way",
            parts.len(),
            self.parts_under_way
        );
        if let Err(error) = begin(way, &file.0, parts, &mut buffer) {
            self.ended.push_back(Ended { of, buffer, result: Err(error) });
            return;
        }
        self.has_direct |= file.is_direct();
        let parts = parts.iter().copied().collect::<ArrayVec<_, PARTS_MAX>>();
        let pushed = Pushed { of, way, file, buffer, parts_under_way: parts.len(), parts, result: Ok(()) };
        let number = self.free.pop().unwrap_or_else(|| {
            self.pushed.push(None);
            self.pushed.len() - 1
        });
        let pushed = self.pushed[number].insert(pushed);
        let descriptor = types::Fd(pushed.file.0.file.as_raw_fd());
        let mut at = 0;
        for (index, part) in pushed.parts.iter().enumerate() {
            let bytes = &mut pushed.buffer[at..at + part.length];
            at += part.length;
            let entry = match way {
                Way::Read => opcode::Read::new(descriptor, bytes.as_mut_ptr(), part.length as u32)
                    .offset(part.offset)
                    .build(),
                Way::Write => opcode::Write::new(descriptor, bytes.as_ptr(), part.length as u32)
                    .offset(part.offset)
                    .build(),
            };
            let entry = entry.user_data((number << PART_BITS | index) as u64);
            // SAFETY: the entry points into the heap memory of the request's buffer and names its file's
            // descriptor. Both stay in `pushed`, untouched, until the entry's completion was taken
            // (`completed`), or for ever (`drop`).
            let queued = unsafe { self.ring.submission().push(&entry) };
            queued.expect("the ring has room for all parts that may be under way, and the socket");
        }
        self.parts_under_way += pushed.parts.len();
    }

    /// Submits the pushed requests. Waits until one has ended, or until `socket` has something to receive, or
    /// is at its end; where many are under way, a moment longer for more of this. Returns whether the socket
    /// may have something.
    ///
    /// # Errors
    /// If the ring cannot be waited for: the queue is of no use any more.
    pub fn wait(&mut self, socket: Option<BorrowedFd<'_>>) -> std::io::Result<bool> {
        let mut is_ready = false;
        if !self.has_direct {
            // Pages in the page cache are read or written by the submission itself.
            submit(&self.ring, 0)?;
            self.take_completions(&mut is_ready);
        }
        self.has_direct = false;
        let mut awaited = (self.parts_under_way / AWAITED_ONE_OF).clamp(1, AWAITED_MAX);
        while self.ended.is_empty() && self.parts_under_way > 0 && !is_ready {
            if let Some(socket) = socket
                && !self.awaits_socket
            {
                let flags = (PollFlags::IN | PollFlags::RDHUP).bits().into();
                let entry =
                    opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), flags).build().user_data(SOCKET);
                // SAFETY: the entry has no memory, and the kernel holds what the descriptor means.
                let pushed = unsafe { self.ring.submission().push(&entry) };
                pushed.expect("the ring has room for all parts that may be under way, and the socket");
                self.awaits_socket = true;
            }
            match std::mem::replace(&mut awaited, 1) {
                1 => submit(&self.ring, 1)?,
                many => submit_patiently(&self.ring, many)?,
            }
            self.take_completions(&mut is_ready);
        }
        Ok(is_ready)
    }

    /// A request that has ended, each once.
    pub fn take_ended(&mut self) -> Option<Ended<T>> {
        self.ended.pop_front()
    }

    fn take_completions(&mut self, is_ready: &mut bool) {
        loop {
            let Some(completion) = self.ring.completion().next() else { return };
            match completion.user_data() {
                SOCKET => (self.awaits_socket, *is_ready) = (false, true),
                of => self.completed(
                    of as usize >> PART_BITS,
                    of as usize & ((1 << PART_BITS) - 1),
                    completion.result(),
                ),
            }
        }
    }

    fn completed(&mut self, number: usize, part: usize, result: i32) {
        let pushed = self.pushed[number].as_mut().expect("a part that is under way is of a request");
        let at = pushed.parts[..part].iter().map(|part| part.length).sum::<usize>();
        let ReadPart { offset, length } = pushed.parts[part];
        let file = &pushed.file.0;
        let ended = match result {
            result if result >= 0 && result as usize >= length => Ok(()),
            result if result >= 0 || is_to_be_repeated(result) => {
                let done = result.max(0) as usize;
                let (offset, rest) = (offset + done as u64, &mut pushed.buffer[at + done..at + length]);
                match pushed.way {
                    Way::Read => file.read_at(offset, rest),
                    Way::Write => file.write_at(offset, rest),
                }
            }
            result => {
                let error = std::io::Error::from_raw_os_error(-result);
                let operation = if pushed.way == Way::Read { "read" } else { "write" };
                Err(file.error(operation, offset, length as u64, error))
            }
        };
        if pushed.result.is_ok() {
            pushed.result = ended;
        }
        pushed.parts_under_way -= 1;
        self.parts_under_way -= 1;
        if pushed.parts_under_way == 0
            && let Some(Pushed { of, file, buffer, result, .. }) = self.pushed[number].take()
        {
            file.0.busy.end();
            self.free.push(number);
            self.ended.push_back(Ended { of, buffer, result });
        }
    }
}

/// Checks and counts a request. The file is busy until it has ended.
fn begin(way: Way, file: &OpenFile, parts: &[ReadPart], buffer: &mut [u8]) -> Result<(), DeviceError> {
    let mut ios = ArrayVec::<Io<'_>, PARTS_MAX>::new();
    let mut rest = buffer;
    for part in parts {
        let (bytes, later) = rest.split_at_mut(part.length);
        ios.push(match way {
            Way::Read => Io::Read { offset: part.offset, buffer: bytes },
            Way::Write => Io::Write { offset: part.offset, data: bytes },
        });
        rest = later;
    }
    assert!(rest.is_empty(), "the parts of a request leave {} bytes of its buffer", rest.len());
    file.begin(&ios).map(Busy::goes_on)
}

fn submit(ring: &IoUring, wanted: usize) -> std::io::Result<()> {
    match ring.submitter().submit_and_wait(wanted) {
        Err(error) if !is_temporary(&error) => Err(error),
        _ => Ok(()),
    }
}

/// As [`submit`]; waits for [`PATIENCE`] at most, if the kernel can do that (Linux 5.11).
fn submit_patiently(ring: &IoUring, wanted: usize) -> std::io::Result<()> {
    if !ring.params().is_feature_ext_arg() {
        return submit(ring, 1);
    }
    let patience = types::SubmitArgs::new().timespec(&PATIENCE);
    match ring.submitter().submit_with_args(wanted, &patience) {
        Err(error) if !is_temporary(&error) && Errno::from_io_error(&error) != Some(Errno::TIME) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

impl<T> Drop for FileQueue<T> {
    fn drop(&mut self) {
        while self.parts_under_way > 0 {
            self.ended.clear();
            if self.wait(None).is_err() {
                std::mem::take(&mut self.pushed).into_iter().for_each(std::mem::forget);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, FileDevice, FileOptions};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    const PAGE: usize = 4096;
    const PAGES: usize = 300;

    fn file(direct: bool) -> (tempfile::TempDir, QueuedFile) {
        let folder = tempfile::tempdir().unwrap();
        let options = FileOptions { is_direct_wanted: direct, ..FileOptions::create((PAGES * PAGE) as u64) };
        let device = FileDevice::open(folder.path().join("file"), options).unwrap();
        let bytes: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / PAGE) as u8).collect();
        device.write(0, &bytes).unwrap();
        (folder, device.queued().unwrap())
    }

    fn part(page: usize, pages: usize) -> ReadPart {
        ReadPart { offset: (page * PAGE) as u64, length: pages * PAGE }
    }

    #[test]
    fn reads_of_several_parts_fill_their_buffers() {
        for direct in [false, true] {
            let (_folder, file) = file(direct);
            let mut queue = FileQueue::new().unwrap();
            let mut begun = 0;
            let mut ended = 0;
            while ended < 1000 {
                while begun < 1000 && queue.has_room(3) {
                    let parts = [part(begun % 290, 2), part(7, 1), part(begun % 300, 1)];
                    queue.push_read(file.clone(), &parts, AlignedBuffer::new(4 * PAGE), begun);
                    begun += 1;
                }
                queue.wait(None).unwrap();
                while let Some(Ended { of, buffer, result }) = queue.take_ended() {
                    result.unwrap();
                    let found: Vec<_> = buffer.chunks(PAGE).map(|page| (page[0], page[PAGE - 1])).collect();
                    let page = |page: usize| (page as u8, page as u8);
                    assert_eq!(found, [page(of % 290), page(of % 290 + 1), page(7), page(of % 300)]);
                    ended += 1;
                }
            }
            assert!(queue.is_idle());
        }
    }

    /// A read past the end is an error of its own, and no other read's.
    #[test]
    fn an_error_is_that_of_its_read() {
        let (_folder, file) = file(false);
        let mut queue = FileQueue::new().unwrap();
        queue.push_read(file.clone(), &[part(PAGES, 1)], AlignedBuffer::new(PAGE), 0);
        queue.push_read(file.clone(), &[part(1, 1)], AlignedBuffer::new(PAGE), 1);
        let mut results = [None, None];
        while results.iter().any(Option::is_none) {
            queue.wait(None).unwrap();
            while let Some(Ended { of, result, .. }) = queue.take_ended() {
                results[of] = Some(result.is_ok());
            }
        }
        assert_eq!(results, [Some(false), Some(true)]);
    }

    /// The socket is told while reads are under way.
    #[test]
    fn a_socket_ends_the_wait() {
        let (_folder, file) = file(true);
        let (mut client, server) = UnixStream::pair().unwrap();
        let mut queue = FileQueue::new().unwrap();
        let mut was_ready = false;
        client.write_all(b"x").unwrap();
        for at in 0..1000 {
            queue.push_read(file.clone(), &[part(at % PAGES, 1)], AlignedBuffer::new(PAGE), at);
            was_ready |= queue.wait(Some(server.as_fd())).unwrap();
            while queue.take_ended().is_some() {}
            while !queue.has_room(1) {
                queue.wait(None).unwrap();
                while queue.take_ended().is_some() {}
            }
        }
        assert!(was_ready, "bytes that wait in the socket are told while reads are under way");
        // Reads under way when the queue is dropped are awaited.
        while !queue.has_room(1) {
            queue.wait(None).unwrap();
        }
        queue.push_read(file, &[part(0, 16)], AlignedBuffer::new(16 * PAGE), 0);
    }
}
