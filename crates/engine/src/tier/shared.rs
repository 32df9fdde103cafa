//! A cache whose fronts are in other processes, too: it watches them and does what they ask for.
//!
//! A front may be killed at any instruction. If it held a latch, or a staging frame that it was to fill,
//! nobody knows what it has left behind. Nothing is repaired: the memory is given up, all fronts stop, and
//! the cache's owner opens it again from flash, as after a crash. A front that held nothing loses its seat.

use super::FlashTier;
use super::back::Back;
use super::open;
use crate::buffer::AlignedBuffer;
use crate::disk::Home;
use crate::front::{self, Answer, Bell, Opened, Request, Seat, Served, State};
use crate::{OpenReport, Sharing, TierError, TierOptions, events};
use entresol_core::mutant;
use entresol_device::Device;
use entresol_shm::Dead;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Between two looks at the fronts. A model has no time.
const LOOK_EVERY: Duration = Duration::from_millis(if cfg!(feature = "shuttle") { 0 } else { 100 });

impl FlashTier {
    /// As [`FlashTier::create_at`], a cache that other processes attach with [`crate::SharedFront`]. Only
    /// with log placement, and not of raw pages.
    ///
    /// # Errors
    /// As [`FlashTier::create_at`]; [`TierError::Config`] for a cache that cannot be shared;
    /// [`TierError::Refused`] if the segment cannot be made, or belongs to somebody else.
    pub fn create_shared(
        flash: Arc<dyn Device>,
        home: Arc<dyn Home>,
        options: TierOptions,
        sharing: &Sharing,
    ) -> Result<Arc<Self>, TierError> {
        let create = || {
            front::check_shareable(&options)?;
            front::supersede(&options, sharing)?;
            open::create(flash, home, options.clone())?.share(sharing)
        };
        let back = create().inspect_err(events::refused)?;
        events::opened(back.superblocks.cache, &back.front.options, &OpenReport::default());
        Ok(Self::start(back))
    }

    /// As [`FlashTier::open_at`], a cache that other processes attach with [`crate::SharedFront`]. Fronts of
    /// an earlier back with the same segment's path stop first, whether it ended or was killed.
    ///
    /// # Errors
    /// As [`FlashTier::open_at`] and [`FlashTier::create_shared`].
    pub fn open_shared(
        flash: Arc<dyn Device>,
        home: Arc<dyn Home>,
        options: TierOptions,
        sharing: &Sharing,
    ) -> Result<(Arc<Self>, OpenReport), TierError> {
        let open = || {
            front::check_shareable(&options)?;
            front::supersede(&options, sharing)?;
            let (back, report) = open::open(flash, home, options.clone())?;
            Ok((back.share(sharing)?, report))
        };
        let (back, report) = open().inspect_err(events::refused)?;
        events::opened(back.superblocks.cache, &back.front.options, &report);
        Ok((Self::start(back), report))
    }

    /// Whether the shared memory was given up, since a front died in the middle of a change. The owner then
    /// calls [`FlashTier::abandon`], drops the tier and opens the cache again.
    pub fn is_given_up(&self) -> bool {
        self.back.front.state.is_gone()
    }

    /// Ends the tasks. Nothing more is written: the flash is left as after a crash.
    pub fn abandon(&self) {
        self.end();
        self.back.give_up_memory();
    }

    /// Fronts in other processes that are attached now.
    pub fn fronts(&self) -> usize {
        self.back.served.as_ref().map_or(0, |served| served.fronts.count())
    }
}

impl Back {
    /// Puts the front's memory into a segment. Nobody uses this back yet.
    fn share(mut self, sharing: &Sharing) -> Result<Self, TierError> {
        let opened = Opened { cache: self.superblocks.cache, epoch: self.superblocks.epoch };
        let (front, served) = front::serve(&self.front, sharing, opened)?;
        self.front = Arc::new(front);
        self.disk.set_names(self.front.clone());
        self.served = Some(served);
        Ok(self)
    }

    /// Gives up the latches of the shared memory, if there are any.
    pub(super) fn give_up_memory(&self) {
        let Some(served) = &self.served else { return };
        if self.front.state.is_gone() && mutant!("waiters-not-told") {
            return;
        }
        served.poison();
        if let Some(frames) = self.front.staging.shared() {
            frames.poison();
        }
        self.wake_all();
    }

    /// Whether what is done for fronts ends: the back does, or the cache has failed.
    fn is_served(&self, served: &Served) -> bool {
        let state = self.front.state.now();
        let goes_on = matches!(state, State::Running | State::Leaving | State::Off);
        goes_on && !served.ends.load(SeqCst)
    }

    /// Ends what the dead front had begun. False: it died in the middle of a change.
    fn survives(&self, served: &Served, dead: &Dead) -> bool {
        let frames = self.front.staging.shared();
        let forgetting = dead.holding.and_then(Seat::forgetting);
        let has_frame = dead.holding.is_some() && forgetting.is_none();
        let has_frame = has_frame && !mutant!("unfilled-frame-not-found");
        let has_latch = served.region_is_held_by(dead.holder) && !mutant!("dead-holder-not-found");
        let has_group = frames.is_some_and(|frames| frames.is_held_by(dead.holder))
            && !mutant!("dead-holder-of-a-group-not-found");
        let is_in_a_change = has_frame || has_latch || has_group;
        events::front_died(dead.pid, is_in_a_change);
        if is_in_a_change {
            return false;
        }
        let is_left = forgetting.is_some() && !mutant!("forgetting-not-gone-on-with");
        let has_ended = !is_left || forgetting.is_none_or(|number| self.front.forget_on(number).is_ok());
        self.front.board.orders.front_died(dead.holder);
        has_ended
    }

    /// Watches over the fronts until the tier stops.
    pub(super) fn watch_task(&self) {
        let Some(served) = &self.served else { return };
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
                        return self.give_up();
                    }
                    if !mutant!("seat-of-a-dead-front-kept") {
                        watch.vacate(&dead);
                    }
                }
                looked = Some(Instant::now());
            }
            served.service.wait_at_most(seen, LOOK_EVERY);
        }
        if !self.front.state.is_closed() {
            // A front may have died since with a latch: nobody is to wait for it.
            self.give_up_memory();
        }
    }

    /// Flushes for fronts until the tier stops.
    pub(super) fn flush_task(&self) {
        let Some(served) = &self.served else { return };
        self.serve(served, &self.front.board.flushes, Self::flush, |_| ());
    }

    /// Makes checkpoints for fronts, and looks at damage that they have met, until the tier stops.
    pub(super) fn checkpoint_task(&self) {
        let Some(served) = &self.served else { return };
        let mut buffer = AlignedBuffer::new(self.front.page_bytes());
        self.serve(served, &self.front.board.checkpoints_asked, Self::checkpoint, |back| {
            while let Some(page) = back.front.board.take_damage() {
                // Fetched here, past the damage: a clean page enters the flash anew where that is needed. A
                // dirty one stays what it is, and the front has told its caller.
                if let Err(error) = back.fetch(page, &mut buffer) {
                    events::damaged(page, &error);
                }
            }
        });
    }

    /// Copies pages to disk that fronts want there, until the tier stops.
    pub(super) fn order_task(&self) {
        let Some(served) = &self.served else { return };
        loop {
            let seen = served.service.epoch();
            if !self.is_served(served) {
                return;
            }
            let Some((placed, pages)) = self.front.board.orders.open() else {
                served.service.wait(seen);
                continue;
            };
            let done = self.destage_wanted(&pages);
            if let Err(TierError::Damaged { page, .. }) = &done {
                events::damaged(*page, done.as_ref().expect_err("just seen"));
            }
            self.front.board.orders.answer_to(placed, done.is_ok());
            self.front.progress.notify_all();
        }
    }

    /// Answers requests with `work`, and does `more` whenever there may be something to do.
    fn serve(
        &self,
        served: &Served,
        request: &Request,
        work: fn(&Self) -> Result<(), TierError>,
        mut more: impl FnMut(&Self),
    ) {
        let service: &Bell = &served.service;
        loop {
            let seen = service.epoch();
            if !self.is_served(served) {
                return;
            }
            more(self);
            match request.open() {
                Some(number) => {
                    let answer = if work(self).is_ok() { Answer::Done } else { Answer::Failed };
                    request.answer_to(number, answer);
                    self.front.progress.notify_all();
                }
                None => drop(service.wait(seen)),
            }
        }
    }
}
