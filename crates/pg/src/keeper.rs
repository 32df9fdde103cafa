//! Keeps as much of the server's log as replaces the flash, if that is lost ([`crate::horizon`]): brings what
//! needs older log to the files, and names the horizon.
//!
//! The worker's main thread asks; a thread does it, which may take as long as the pages take.

use crate::horizon::{Checkpoint, Horizon, HorizonFile, Newest};
use entresol_engine::{FlashTier, Layer, TierError};
use entresol_runtime::sync::{Mutex, Rank};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use tracing::warn;

/// What is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// The newest complete checkpoint. `None`: it is known.
    pub newest: Option<Newest>,
    /// Bytes of the log that are kept.
    pub bound: u64,
    /// As little of the log as possible is to be needed.
    pub all: bool,
}

/// See the module's header.
pub(crate) struct Keeper {
    horizon: Arc<Mutex<Horizon>>,
    wanted: Option<Wanted>,
    under_way: Option<JoinHandle<Result<(), String>>>,
    /// What is under way is to end.
    ends: Arc<AtomicBool>,
}

impl Keeper {
    /// See [`Horizon::open`].
    ///
    /// # Errors
    /// A sentence.
    pub fn open(file: HorizonFile, is_needed: bool, newest: Option<Newest>) -> Result<Self, String> {
        let horizon = Mutex::new(Rank::Checkpoint, Horizon::open(file, is_needed, newest)?);
        Ok(Self { horizon: Arc::new(horizon), wanted: None, under_way: None, ends: Arc::default() })
    }

    /// The cache is served from now on.
    ///
    /// # Errors
    /// The tier's.
    pub fn resume(&self, tier: &FlashTier) -> Result<(), TierError> {
        let number = self.horizon.lock().number();
        tier.resume_checkpoints(number)
    }

    /// From where on the log replaces the flash.
    pub fn said(&self) -> Option<Checkpoint> {
        self.horizon.lock().said()
    }

    /// See [`Horizon::cut`].
    ///
    /// # Errors
    /// A sentence.
    pub fn cut(&self, safe: u64) -> Result<(), String> {
        self.horizon.lock().cut(safe)
    }

    /// Dirty pages that need more of the log than redo does after a crash.
    pub fn pages_behind(&self, tier: &FlashTier) -> u64 {
        let number = self.horizon.lock().number();
        // A tier that does not answer has failed, which others notice.
        tier.pages_behind(number).unwrap_or(0)
    }

    /// From where on the log is kept.
    pub fn keeps_from(&self) -> Option<u64> {
        self.horizon.lock().keeps_from()
    }

    /// To be done by [`Keeper::turn`].
    pub fn ask(&mut self, wanted: Wanted) {
        self.horizon.lock().limit(wanted.newest, wanted.bound);
        let all = wanted.all || self.wanted.is_some_and(|before| before.all);
        let newest = wanted.newest.or(self.wanted.and_then(|before| before.newest));
        self.wanted = Some(Wanted { newest, all, ..wanted });
    }

    /// Goes on with what was asked for. Whether all of it is done.
    pub fn turn(&mut self, tier: Option<&Arc<FlashTier>>) -> bool {
        if self.under_way.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
        }
        if self.under_way.is_none()
            && let Some(tier) = tier
            && let Some(wanted) = self.wanted.take()
        {
            let (tier, horizon, ends) = (tier.clone(), self.horizon.clone(), self.ends.clone());
            // Here: from now on the log is kept from this checkpoint on.
            let begun = {
                let mut horizon = horizon.lock();
                let before = horizon.wanted(wanted.newest, wanted.bound, wanted.all);
                before.map(|before| (before, horizon.number()))
            };
            self.under_way =
                Some(std::thread::spawn(move || follow(&tier, &horizon, wanted.newest, begun?, &ends)));
        }
        self.under_way.is_none() && self.wanted.is_none()
    }

    /// Ends what is under way: nothing uses the tier afterwards. The next checkpoint asks for it again.
    pub fn rest(&mut self) {
        self.ends.store(true, SeqCst);
        self.join();
        self.ends.store(false, SeqCst);
    }

    /// Waits until nothing is under way.
    fn join(&mut self) {
        let Some(job) = self.under_way.take() else { return };
        match job.join() {
            Ok(Ok(())) => {}
            // What was said before still holds.
            Ok(Err(why)) => warn!("the horizon of the write-ahead log stays where it is: {why}"),
            // A bug.
            Err(_) => std::process::abort(),
        }
    }
}

/// Pages with a base before checkpoint `before` are copied, and the horizon is named; the horizon is not
/// locked meanwhile. `number`: of the newest checkpoint that is counted.
fn follow(
    tier: &FlashTier,
    horizon: &Mutex<Horizon>,
    newest: Option<Newest>,
    (before, number): (u64, u64),
    ends: &AtomicBool,
) -> Result<(), String> {
    let sentence = |error: TierError| error.to_string();
    // Pages that are handed down meanwhile have this base.
    tier.checkpoint_complete(number).map_err(sentence)?;
    let mut goes_on = |_| if ends.load(SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let told = tier.bring_to_disk_watched(before, &mut goes_on).map_err(sentence)?;
    if ends.load(SeqCst) {
        return Ok(());
    }
    let (soon, number) = {
        let mut horizon = horizon.lock();
        let soon = horizon.name(newest, told)?;
        (soon, horizon.number())
    };
    tier.checkpoint_complete(number).map_err(sentence)?;
    tier.clean_behind(soon);
    Ok(())
}
