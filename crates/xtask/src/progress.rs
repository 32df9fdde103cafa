//! What a long step is at: a line on a terminal that changes, elsewhere a line now and then, so that a log
//! shows that something happens, and what is waited for.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two lines where no terminal is.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of one step, until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    lines: Option<(Arc<Lines>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Lines {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    shown: String,
    has_ended: bool,
}

impl Progress {
    /// A step begins; `what` says what it does, as in "compiling".
    pub fn new(what: &str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a fixed template"));
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        let lines = (!std::io::stderr().is_terminal()).then(|| {
            let lines = Arc::<Lines>::default();
            let (theirs, what) = (lines.clone(), what.to_owned());
            (lines, thread::spawn(move || theirs.print(&what)))
        });
        Self { bar, lines }
    }

    /// What it is at.
    pub fn show(&self, shown: String) {
        if let Some((lines, _)) = &self.lines {
            lines.state.lock().unwrap_or_else(PoisonError::into_inner).shown.clone_from(&shown);
        }
        self.bar.set_message(shown);
    }
}

impl Lines {
    fn print(&self, what: &str) {
        let began = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waited = self.ended.wait_timeout(state, LINE_EVERY).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if state.has_ended {
                return;
            }
            if waited.1.timed_out() {
                let shown = if state.shown.is_empty() { "" } else { ": " };
                eprintln!("{what}, {} s{shown}{}", began.elapsed().as_secs(), state.shown);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if let Some((lines, printer)) = self.lines.take() {
            lines.state.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
            lines.ended.notify_all();
            // It only prints.
            let _ = printer.join();
        }
    }
}
