//! A notification without a value, for tasks of one process or of many.
//!
//! Use as of a [`Signal`]: read [`Bell::epoch`], look for work, and if there is none [`Bell::wait`] with that
//! epoch. Between processes each wait is limited, because the process that owes the wake-up may have died.

use crate::signal::Signal;
use entresol_shm::{Epoch, Seen as SharedSeen, Shared};
use std::time::Duration;

/// Longest wait between processes. In a model there is none: a notification that is lost leaves its waiter
/// asleep for ever.
const WAIT_MAX: Option<Duration> =
    if cfg!(feature = "shuttle") { None } else { Some(Duration::from_millis(100)) };

/// Where the notifications are counted.
pub(crate) enum Bell {
    Private(Signal),
    Mapped(Shared<Epoch>),
}

/// The number of notifications at some moment.
#[derive(Clone, Copy)]
pub(crate) enum Seen {
    Private(u64),
    Mapped(SharedSeen),
}

impl Default for Bell {
    fn default() -> Self {
        Bell::Private(Signal::default())
    }
}

impl Bell {
    /// Notifications so far.
    pub(crate) fn epoch(&self) -> Seen {
        match self {
            Bell::Private(signal) => Seen::Private(signal.epoch()),
            Bell::Mapped(epoch) => Seen::Mapped(epoch.seen()),
        }
    }

    /// Wakes the task that has waited longest; between processes all of them. A task that is about to wait
    /// looks again.
    pub(crate) fn notify_one(&self) {
        match self {
            Bell::Private(signal) => signal.notify_one(),
            Bell::Mapped(epoch) => epoch.raise(),
        }
    }

    /// Wakes all waiting tasks.
    pub(crate) fn notify_all(&self) {
        match self {
            Bell::Private(signal) => signal.notify_all(),
            Bell::Mapped(epoch) => epoch.raise(),
        }
    }

    /// Waits for a notification after the epoch `seen`. May return early. False: there was none, as far as
    /// is known.
    pub(crate) fn wait(&self, seen: Seen) -> bool {
        self.wait_for(seen, WAIT_MAX)
    }

    /// As [`Bell::wait`], between processes for at most `limit`: for a task that looks at more than what is
    /// notified.
    pub(crate) fn wait_at_most(&self, seen: Seen, limit: Duration) -> bool {
        self.wait_for(seen, Some(limit))
    }

    fn wait_for(&self, seen: Seen, limit: Option<Duration>) -> bool {
        match (self, seen) {
            (Bell::Private(signal), Seen::Private(seen)) => {
                signal.wait(seen);
                true
            }
            (Bell::Mapped(epoch), Seen::Mapped(seen)) => epoch.wait(seen, limit),
            _ => unreachable!("what was seen of a bell is of its kind"),
        }
    }
}
