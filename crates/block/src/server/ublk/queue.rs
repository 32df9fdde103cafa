//! The thread that the kernel's driver hands requests to, and what workers do with them.
//!
//! Invariants:
//!
//! - The driver may write to a request's buffer only while its tag has no request: then the thread has the
//!   buffer, and nothing touches it. A request takes the buffer along, and brings it back when it has ended.
//! - Queue and buffers are freed only when the driver has ended all tags (the device was stopped), else with
//!   the process.
//! - Each request is answered once, by this thread. One that arrived after the thread began to end is not
//!   begun: the driver keeps it for the next server.

use super::request::{command, data_bytes, only_reads, refused, result};
use crate::Streams;
use crate::server::Shared;
use entresol_nbd::Command;
use entresol_runtime::sync::{Condvar, Mutex, Rank};
use io_uring::{opcode, squeue, types};
use libublk::helpers::IoBuf;
use libublk::io::{BufDescList, UblkDev, UblkIOCtx, UblkQueue};
use libublk::uring_async::ublk_reap_io_events_with_update_queue;
use libublk::{BufDesc, UblkError, UblkIORes, UblkUringData, sys, uring_poll_io_fn};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The event that says that requests have ended, or that the thread shall end.
const WAKE: u64 = UblkUringData::Target as u64 | 1;

/// A request that has ended.
struct Ended {
    tag: u16,
    buffer: IoBuf<u8>,
    result: i32,
}

#[derive(Default)]
struct State {
    ended: Vec<Ended>,
    /// The thread takes no new requests.
    is_leaving: bool,
    /// The thread can take requests, or why it cannot.
    set_up: Option<Result<(), String>>,
}

/// The state that the queue's thread shares with all others.
pub(super) struct HandOver {
    state: Mutex<State>,
    changed: Condvar,
    /// A byte in it wakes the thread.
    wake: UnixStream,
    woken: UnixStream,
}

impl HandOver {
    pub fn new() -> std::io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let state = Mutex::new(Rank::Reply, State::default());
        Ok(Self { state, changed: Condvar::new(), wake, woken })
    }

    /// Changes the state and wakes the thread.
    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        // If there is no room, there are bytes that wake it.
        let _ = (&self.wake).write(&[0]);
    }

    /// The thread ends when the requests that it has begun are answered.
    pub fn leave(&self) {
        self.tell(|state| state.is_leaving = true);
    }

    /// Waits until the thread can take requests.
    pub fn wait_for_set_up(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.set_up.is_none());
        state.set_up.clone().unwrap_or(Ok(()))
    }

    fn is_set_up(&self, result: Result<(), String>) {
        self.state.lock().set_up = Some(result);
        self.changed.notify_all();
    }

    /// The requests that have ended since the last call, and whether the thread shall end.
    fn take(&self) -> (Vec<Ended>, bool) {
        // All bytes: the state has the requests that they announce.
        while matches!((&self.woken).read(&mut [0; 64]), Ok(64)) {}
        let mut state = self.state.lock();
        (std::mem::take(&mut state.ended), state.is_leaving)
    }
}

/// A request for a worker.
pub(in crate::server) struct Job {
    shared: Arc<Shared>,
    hand_over: Arc<HandOver>,
    command: Command,
    is_sequential: bool,
    tag: u16,
    buffer: IoBuf<u8>,
}

impl Job {
    /// Carries it out and has it answered. One that panics is answered with an error.
    pub fn run(self) {
        let Self { shared, hand_over, command, is_sequential, tag, mut buffer } = self;
        let data = &mut buffer[..data_bytes(command)];
        let run = || result(command, &shared.carry_out(command, is_sequential, data));
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or(refused(Errno::IO));
        hand_over.tell(|state| state.ended.push(Ended { tag, buffer, result }));
    }
}

/// The thread's own.
struct Serving<'a> {
    shared: &'a Arc<Shared>,
    hand_over: &'a Arc<HandOver>,
    queue: UblkQueue<'a>,
    /// By tag; `None`: its request has it.
    buffers: Vec<Option<IoBuf<u8>>>,
    under_way: usize,
    streams: Streams,
    events: Vec<(u64, i32)>,
}

/// Serves the requests of a device's queue until the device is stopped or [`HandOver::leave`].
pub(super) fn serve(shared: &Arc<Shared>, device: &UblkDev, hand_over: &Arc<HandOver>) {
    let serving = Serving::set_up(shared, device, hand_over);
    hand_over.is_set_up(serving.as_ref().map(drop).map_err(|error| error.to_string()));
    let Ok(mut serving) = serving else { return };
    if let Err(error) = serving.run() {
        tracing::error!("ublk: the queue has ended: {error}");
    }
    if !serving.queue.is_stopping() {
        // The driver still has the tags, and ends them when this thread ends. Until then it may write to the
        // buffers, and the queue's end would wait for it in vain. The process is about to end.
        std::mem::forget(serving);
    }
}

impl<'a> Serving<'a> {
    fn set_up(
        shared: &'a Arc<Shared>,
        device: &'a UblkDev,
        hand_over: &'a Arc<HandOver>,
    ) -> Result<Self, UblkError> {
        let buffers = device.alloc_queue_io_bufs();
        let queue =
            UblkQueue::new(0, device)?.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers)))?;
        let buffers = buffers.into_iter().map(Some).collect();
        let (streams, events) = (Streams::default(), Vec::new());
        let serving = Self { shared, hand_over, queue, buffers, under_way: 0, streams, events };
        serving.listen()?;
        Ok(serving)
    }

    /// Asks for one [`WAKE`].
    fn listen(&self) -> Result<(), UblkError> {
        let woken = types::Fd(self.hand_over.woken.as_raw_fd());
        let poll = opcode::PollAdd::new(woken, PollFlags::IN.bits().into()).build();
        self.queue.ublk_submit_sqe_sync(poll.user_data(WAKE))
    }

    fn run(&mut self) -> Result<(), UblkError> {
        let mut is_leaving = false;
        while !(self.under_way == 0 && (is_leaving || self.queue.is_stopping())) {
            self.wait(1)?;
            let events = std::mem::take(&mut self.events);
            for &(event, result) in &events {
                match result {
                    _ if event == WAKE => is_leaving = self.end_requests()?,
                    sys::UBLK_IO_RES_ABORT => {}
                    _ if result < 0 => return Err(UblkError::UringIOError(result)),
                    _ if is_leaving => {}
                    _ => self.begin(UblkIOCtx::user_data_to_tag(event) as u16)?,
                }
            }
            self.events = events;
            self.events.clear();
        }
        // The last answers are handed to the driver.
        self.wait(0)
    }

    /// Submits requests, and waits for this number of events.
    fn wait(&mut self, count: usize) -> Result<(), UblkError> {
        match uring_poll_io_fn::<squeue::Entry>(&self.queue, None, count) {
            Err(UblkError::IOError(error)) if error.kind() == ErrorKind::Interrupted => {}
            // The driver has ended all tags; requests under way have still to end.
            Err(UblkError::QueueIsDown) => std::thread::yield_now(),
            waited => _ = waited?,
        }
        let events = &mut self.events;
        let add = |event: &io_uring::cqueue::Entry| events.push((event.user_data(), event.result()));
        ublk_reap_io_events_with_update_queue(&self.queue, false, None, add).map(drop)
    }

    /// Begins the request of a tag.
    fn begin(&mut self, tag: u16) -> Result<(), UblkError> {
        let asked = *self.queue.get_iod(tag);
        let buffer = self.buffers[usize::from(tag)].take().ok_or(UblkError::InvalidVal)?;
        let command = command(asked.op_flags, asked.start_sector, asked.nr_sectors)
            .filter(|command| data_bytes(*command) <= buffer.len())
            .ok_or(Errno::OPNOTSUPP);
        let command = match command {
            Ok(command) if self.shared.options.read_only && !only_reads(command) => Err(Errno::ROFS),
            command => command,
        };
        match command {
            Err(why) => self.answer(Ended { tag, buffer, result: refused(why) }),
            Ok(command) => {
                self.under_way += 1;
                let is_sequential = self.shared.volume.follow(&mut self.streams, &command);
                let (shared, hand_over) = (self.shared.clone(), self.hand_over.clone());
                self.shared.queue.push(Job { shared, hand_over, command, is_sequential, tag, buffer });
                Ok(())
            }
        }
    }

    /// Answers requests that have ended. True: the thread shall end.
    fn end_requests(&mut self) -> Result<bool, UblkError> {
        let (ended, is_leaving) = self.hand_over.take();
        self.under_way -= ended.len();
        ended.into_iter().try_for_each(|ended| self.answer(ended))?;
        self.listen()?;
        Ok(is_leaving)
    }

    /// Answers a request and asks for the next one of its tag.
    fn answer(&mut self, ended: Ended) -> Result<(), UblkError> {
        let Ended { tag, buffer, result } = ended;
        let given = BufDesc::Slice(buffer.as_slice());
        self.queue.complete_io_cmd_unified(tag, given, Ok(UblkIORes::Result(result)))?;
        self.buffers[usize::from(tag)] = Some(buffer);
        Ok(())
    }
}
