//! Points at which a front stops for ever, to be killed there (feature `hooks`): tests of dying fronts only.
//!
//! A process sets one hook: a name, and the number of passes of its point that are ignored. At the next pass
//! the process makes a file, by which other processes know that it has stopped there.

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
/// file `reached` before. Once for a process; a second call does nothing. Points:
///
/// | point | what the front has then |
/// |---|---|
/// | "latch" | the directory's latch, after a change |
/// | "frame" | a staging frame that is not filled |
/// | "group" | a group's latch, with a part of a page in its frame |
/// | "filled" | a frame with its page, which is not offered to the writers |
/// | "copy" | a group's latch, after a page was copied out |
/// | "hit" | nothing: a page that was looked up without the latch, and is not proved |
/// | "around" | a forgotten page whose newer version is not on disk yet |
/// | "forget" | a long range of dead pages, of which some are forgotten |
pub fn set(point: &str, passes: u64, reached: PathBuf) {
    let hook = Hook { point: point.to_owned(), left: AtomicU64::new(passes), reached };
    drop(HOOK.set(hook));
}

#[cfg(feature = "shuttle")]
thread_local! {
    /// All tasks of a model share an OS thread.
    static IN_A_MODEL: std::cell::RefCell<Option<std::rc::Rc<dyn Fn(&str)>>> = const { std::cell::RefCell::new(None) };
}

/// In a model, `passed` is called with the name of each point that a task passes.
#[cfg(feature = "shuttle")]
pub fn set_in_a_model(passed: impl Fn(&str) + 'static) {
    IN_A_MODEL.set(Some(std::rc::Rc::new(passed)));
}

/// A point is passed.
pub(crate) fn pass(point: &str) {
    #[cfg(feature = "shuttle")]
    if let Some(passed) = IN_A_MODEL.with_borrow(Clone::clone) {
        return passed(point);
    }
    let Some(hook) = HOOK.get() else { return };
    if hook.point != point || hook.left.fetch_sub(1, SeqCst) != 0 {
        return;
    }
    drop(std::fs::write(&hook.reached, point));
    loop {
        std::thread::sleep(Duration::from_secs(600));
    }
}
