//! Points at which a front stops for ever, to be killed there (feature `hooks`): tests of dying fronts only.
//!
//! A process sets one hook, by name and by how often its point is passed before. When it is reached, the
//! process makes a file, by which others know that it stands there.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

struct Hook {
    point: String,
    left: AtomicU64,
    reached: PathBuf,
}

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Sets the hook of this process: it stops when it passes `point` for the time after `passes`, and makes the
/// file `reached` before. Points: "latch" (a change of the directory is made, the latch held), "frame" (a
/// staging frame was given and is not filled), "group" (a part of a page is in its frame, the group's latch
/// held). Once for a process; a second call does nothing.
pub fn set(point: &str, passes: u64, reached: PathBuf) {
    let hook = Hook { point: point.to_owned(), left: AtomicU64::new(passes), reached };
    drop(HOOK.set(hook));
}

/// A point is passed.
pub(crate) fn pass(point: &str) {
    let Some(hook) = HOOK.get() else { return };
    if hook.point != point || hook.left.fetch_sub(1, SeqCst) != 0 {
        return;
    }
    drop(std::fs::write(&hook.reached, point));
    loop {
        std::thread::sleep(Duration::from_secs(600));
    }
}
