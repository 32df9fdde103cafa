//! Sessions: which state of the disk belongs to which state of the log.
//!
//! The disk's label and the log's master record name each other. Both count *sessions*: each creation and
//! each open begins one. This reveals a log and a disk of different databases, and an older copy of one of
//! them. Each session also has a random *nonce*. If a database is copied and both copies are opened, both
//! count the same sessions, but a log and a disk of different copies have different nonces.
//!
//! The steps of the start of a session; the numbers are sessions:
//!
//! | step | write, durable before the next step | log | disk |
//! |---|---|---|---|
//! | 0 | the state that an open finds | 7, begun | 7 |
//! | 1 | both blocks of the master record: session 8, not begun | 8, not begun | 7 |
//! | 2 | both copies of the disk's label: session 8 | 8, not begun | 8 |
//! | 3 | both blocks of the master record: session 8, begun | 8, begun | 8 |
//! | 4 | only now records are appended | 8, begun | 8 |
//!
//! 1. Power fails after step 1. The log is one session ahead of the disk, and "not begun" shows that session
//!    8 has written nothing. The open is accepted.
//! 2. Yesterday's disk (session 7) is combined with today's log (session 8, begun). The log no longer has
//!    changes that a checkpoint wrote to today's disk. "Begun" distinguishes this case from the first one,
//!    and the open is refused.
//! 3. Today's disk (8) is combined with yesterday's log (7). The log's session is the lower one: refused.
//! 4. Power fails after step 1, and the log is copied (8, not begun). The next open finishes session 8 with
//!    step 2 and begins session 9; it does not use 8 again. So the copy is refused with any later disk. If
//!    session 8 were used again, a disk of its end (8) would be accepted with the copy.
//!
//! 5. A block of the master record is damaged. If the other one contained "not begun" although records were
//!    appended, yesterday's disk would be accepted with today's log. So step 3 writes both blocks before step
//!    4.
//! 6. The newer copy of the label is damaged. If only that copy named session 8, the disk would look like one
//!    of session 7: today's log would be refused and yesterday's accepted. So step 2 writes both copies.
//!
//! The creation of a log erases its master records. Then the label is written with the log and session 1, and
//! then the first master record with session 1, begun. If power fails in between, there is no master record,
//! and the open reports that.

use super::master::Master;
use crate::{StoreError, points};
use entresol_engine::{Binding, Uuid};

/// Whether the last open was cut off between the log and the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionMatch {
    /// Both are of the same session.
    Same,
    /// The log is one session ahead, and that session has not begun: the disk's label must be written next.
    Unfinished,
}

/// Whether the log of `master` belongs to a disk with the binding `disk`.
///
/// # Errors
/// [`StoreError::Config`] with the mismatch and the remedy.
pub(crate) fn check_binding(master: &Master, disk: &Binding) -> Result<SessionMatch, StoreError> {
    let refused = |why: String| Err(StoreError::Config(why));
    if master.disk != disk.disk {
        return refused(format!(
            "this is the log of disk {}, and the disk is {}: give the log that belongs to this disk",
            master.disk, disk.disk
        ));
    }
    if disk.log == Uuid::NIL {
        return refused(format!(
            "the log names disk {}, and the disk names no log: it is a copy from before its database was created; restore disk and log from the same moment",
            master.disk
        ));
    }
    if master.log != disk.log {
        return refused(format!(
            "this is log {} of disk {}, which now goes with log {}: a database was created on it later; give that log",
            master.log, master.disk, disk.log
        ));
    }
    let same_number = master.session.number == disk.session.number;
    if master.session == disk.session {
        return Ok(SessionMatch::Same);
    }
    let (log, disk) = (master.session, disk.session);
    if same_number {
        return refused(format!(
            "the log and the disk are of two branches of session {}: they were copied, and both copies were opened since; \
             give the log and the disk of the same branch, or restore both from one backup",
            log.number
        ));
    }
    let follows = disk.number.checked_add(1) == Some(log.number) && master.previous_nonce == disk.nonce;
    if follows && !master.begun {
        points::SESSION_UNFINISHED.reach();
        return Ok(SessionMatch::Unfinished);
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
