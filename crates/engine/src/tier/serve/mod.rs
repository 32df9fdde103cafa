//! A cache whose fronts are in other processes, too: it watches them and does what they ask for.
//!
//! A front may be killed at any instruction. If it held a latch, or a staging frame that it was to fill,
//! the state of its work is not known. Nothing is repaired: the memory is given up, all fronts stop, and
//! the cache's owner opens it again from flash, as after a crash. A front that held nothing loses its seat.

use super::floor::Floor;
use super::floor::failures::Failures;
use super::floor::wanted::WantedPages;
use super::requests::reads::Reads;
use super::room::Room;
use crate::access::{Access, Answer, Bell, Request, Seat, ServedSegment, State};
use crate::buffer::AlignedBuffer;
use crate::{TierError, events};
use entresol_shm::Dead;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Between two looks at the fronts. A model has no time.
const LOOK_EVERY: Duration = Duration::from_millis(if cfg!(feature = "shuttle") { 0 } else { 100 });

/// See the module's header.
pub(crate) struct Server {
    access: Arc<Access>,
    served: Arc<ServedSegment>,
    failures: Arc<Failures>,
    room: Room,
    reads: Arc<Reads>,
    wanted: Arc<WantedPages>,
}

impl Server {
    /// `None`: the cache is not shared.
    pub(crate) fn new(
        floor: &Floor,
        room: &Room,
        reads: &Arc<Reads>,
        wanted: &Arc<WantedPages>,
    ) -> Option<Self> {
        Some(Self {
            access: floor.access.clone(),
            served: floor.served.clone()?,
            failures: floor.failures.clone(),
            room: room.clone(),
            reads: reads.clone(),
            wanted: wanted.clone(),
        })
    }

    /// Fronts that are attached now.
    pub(crate) fn fronts(&self) -> usize {
        self.served.fronts.count()
    }

    /// Whether what is done for fronts ends: the back does, or the cache has failed.
    fn is_served(&self, served: &ServedSegment) -> bool {
        let state = self.access.state.now();
        let goes_on = matches!(state, State::Running | State::Leaving | State::Off);
        goes_on && !served.ends.load(SeqCst)
    }

    /// Ends what the dead front had begun. False: it died in the middle of a change.
    fn survives(&self, served: &ServedSegment, dead: &Dead) -> bool {
        let frames = self.access.staging.shared();
        let forgetting = dead.holding.and_then(Seat::forgetting);
        let has_frame = dead.holding.is_some() && forgetting.is_none();
        let has_latch = served.is_held_by(dead.holder);
        let has_group = frames.is_some_and(|frames| frames.is_held_by(dead.holder));
        let is_in_a_change = has_frame || has_latch || has_group;
        events::front_died(dead.pid, is_in_a_change);
        if is_in_a_change {
            return false;
        }
        let has_ended = forgetting.is_none_or(|number| self.access.forgets.forget_on(number).is_ok());
        self.access.board.destage_requests.front_died(dead.holder);
        has_ended
    }

    /// Watches over the fronts until the tier stops.
    pub(crate) fn watch_task(&self) {
        let served = &*self.served;
        let mut watch = served.fronts.watch();
        let mut looked: Option<Instant> = None;
        loop {
            let seen = served.service.epoch();
            if !self.is_served(served) {
                break;
            }
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
                for dead in watch.find_dead() {
                    if !self.survives(served, &dead) {
                        return self.failures.give_up();
                    }
                    watch.vacate(&dead);
                }
                looked = Some(Instant::now());
            }
            served.service.wait_at_most(seen, LOOK_EVERY);
        }
        if !self.access.state.is_closed() {
            // A front may have died since with a latch: no task is to wait for it.
            self.failures.give_up_memory();
        }
    }

    /// Flushes for fronts until the tier stops.
    pub(crate) fn flush_task(&self) {
        let served = &*self.served;
        self.serve(served, &self.access.board.flushes, || self.room.flush(), || ());
    }

    /// Makes checkpoints for fronts, and looks at damage that they have met, until the tier stops.
    pub(crate) fn checkpoint_task(&self) {
        let served = &*self.served;
        let mut buffer = AlignedBuffer::new(self.access.flash_pages.page_bytes);
        self.serve(
            served,
            &self.access.board.checkpoints_asked,
            || self.room.checkpointer().checkpoint(),
            || {
                while let Some(page) = self.access.board.take_damage() {
                    // Fetched here, past the damage: a clean page enters the flash anew where that is needed.
                    // A dirty one stays what it is, and the front has told its caller.
                    if let Err(error) = self.reads.fetch(page, &mut buffer) {
                        events::damaged(page, &error);
                    }
                }
            },
        );
    }

    /// Copies pages to disk that fronts want there, until the tier stops.
    pub(crate) fn order_task(&self) {
        let served = &*self.served;
        loop {
            let seen = served.service.epoch();
            if !self.is_served(served) {
                return;
            }
            let Some((placed, pages)) = self.access.board.destage_requests.open() else {
                served.service.wait(seen);
                continue;
            };
            let done = self.wanted.destage(&pages);
            if let Err(TierError::Damaged { page, .. }) = &done {
                events::damaged(*page, done.as_ref().expect_err("just seen"));
            }
            self.access.board.destage_requests.answer_to(placed, done.is_ok());
            self.access.signals.progress.notify_all();
        }
    }

    /// Answers requests with `work`, and does `more` whenever there may be something to do.
    fn serve(
        &self,
        served: &ServedSegment,
        request: &Request,
        work: impl Fn() -> Result<(), TierError>,
        mut more: impl FnMut(),
    ) {
        let service: &Bell = &served.service;
        loop {
            let seen = service.epoch();
            if !self.is_served(served) {
                return;
            }
            more();
            match request.open() {
                Some(number) => {
                    let answer = if work().is_ok() { Answer::Done } else { Answer::Failed };
                    request.answer_to(number, answer);
                    self.access.signals.progress.notify_all();
                }
                None => drop(service.wait(seen)),
            }
        }
    }
}
