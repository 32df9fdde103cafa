//! Sessions: which state of the disk goes with which state of the log.
//!
//! The disk's label and the log's master record name each other. Both count *sessions*: each creation and
//! each open begins one. This shows that a log and a disk are of different databases, or that one of them is
//! an older copy. Each session has a *nonce*, too, drawn at random: if a database is copied, and both copies
//! are opened, both count the same sessions, but a log and a disk of different copies have different nonces.
//!
//! A new session begins like this; the numbers are sessions:
//!
//! | step | write, durable before the next step | log | disk |
//! |---|---|---|---|
//! | 0 | the state that an open finds | 7, begun | 7 |
//! | 1 | both blocks of the master record: session 8, not begun | 8, not begun | 7 |
//! | 2 | both copies of the disk's label: session 8 | 8, not begun | 8 |
//! | 3 | both blocks of the master record: session 8, begun | 8, begun | 8 |
//! | 4 | only now records are appended | 8, begun | 8 |
//!
//! 1. Power fails after step 1. The log is one session ahead of the disk, and "not begun" tells that session
//!    8 has written nothing. The open is accepted.
//! 2. Somebody takes yesterday's disk (session 7) and today's log (session 8, begun). The log no longer has
//!    changes that a checkpoint brought to today's disk. "Begun" tells this case from the first one, and the
//!    open is refused.
//! 3. Somebody takes today's disk (8) and yesterday's log (7). The log's session is the lower one: refused.
//! 4. Power fails after step 1, and somebody copies the log (8, not begun). The next open finishes session 8
//!    with step 2 and begins session 9; it does not use 8 again. So the copy is refused with any later disk.
//!    If session 8 were used again, a disk of its end (8) would be accepted with the copy.
//!
//! 5. A block of the master record is damaged. If the other one said "not begun" though records were
//!    appended, yesterday's disk would be accepted with today's log. So step 3 writes both blocks before step
//!    4.
//! 6. The newer copy of the label is damaged. If only that copy named session 8, the disk would pass for one
//!    of session 7: today's log would be refused and yesterday's accepted. So step 2 writes both copies.
//!
//! A new log begins with its master records erased. Then the label names the log and session 1, and then the
//! first master record says session 1, begun. Power fails in between: there is no master record, and the open
//! says so.

use super::master::Master;
use crate::{StoreError, points};
use entresol_core::mutant;
use entresol_engine::{Binding, Uuid};

/// Whether the last open was cut off between the log and the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Both are of the same session.
    Same,
    /// The log is one session ahead, which has not begun: the disk's label is to follow.
    Unfinished,
}

impl Master {
    /// Whether this log goes with a disk that says `disk`.
    ///
    /// # Errors
    /// [`StoreError::Config`] with what does not fit and what to do.
    pub(crate) fn check_binding(&self, disk: &Binding) -> Result<Found, StoreError> {
        let refused = |why: String| Err(StoreError::Config(why));
        if mutant!("log-session-not-checked") {
            return Ok(Found::Same);
        }
        if self.disk != disk.disk {
            return refused(format!(
                "this is the log of disk {}, and the disk is {}: give the log that belongs to this disk",
                self.disk, disk.disk
            ));
        }
        if disk.log == Uuid::NIL {
            return refused(format!(
                "the log names disk {}, and the disk names no log: it is a copy from before its database was created; restore disk and log from the same moment",
                self.disk
            ));
        }
        if self.log != disk.log {
            return refused(format!(
                "this is log {} of disk {}, which now goes with log {}: a database was created on it later; give that log",
                self.log, self.disk, disk.log
            ));
        }
        let same_number = self.session.number == disk.session.number;
        if self.session == disk.session || same_number && mutant!("session-nonce-not-checked") {
            return Ok(Found::Same);
        }
        let (log, disk) = (self.session, disk.session);
        if same_number {
            return refused(format!(
                "the log and the disk are of two branches of session {}: they were copied, and both copies were opened since; \
                 give the log and the disk of the same branch, or restore both from one backup",
                log.number
            ));
        }
        let follows = disk.number.checked_add(1) == Some(log.number) && self.previous_nonce == disk.nonce;
        if follows && !self.begun {
            points::SESSION_UNFINISHED.reach();
            return Ok(Found::Unfinished);
        }
        let behind = log.number.abs_diff(disk.number);
        let (old, new) = if log.number > disk.number { ("disk", "log") } else { ("log", "disk") };
        refused(format!(
            "the {old} is an older state than the {new}, by {behind} session{}: the log is of session {}, the disk of session {}; give the {old} of the same moment, or restore both from one backup",
            if behind == 1 { "" } else { "s" },
            log.number,
            disk.number
        ))
    }
}
