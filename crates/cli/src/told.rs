//! Progress of work of hours: a bar on stderr or, where that is not a terminal, a line each minute.

use crate::progress::Counted;
use entresol_runtime::say;
use indicatif::HumanCount;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines of [`Told`].
const TOLD_EACH: Duration = Duration::from_secs(60);

/// See the module's header.
pub struct Told {
    bar: Counted,
    unit: &'static str,
    /// How many there will be, if that is known.
    total: Option<u64>,
    began: Instant,
    last: Mutex<Instant>,
    is_drawn: bool,
}

impl Told {
    /// Of `unit`, `total` in all.
    pub fn new(name: &str, unit: &'static str, total: Option<u64>) -> Self {
        let (began, is_drawn) = (Instant::now(), io::stderr().is_terminal());
        Self { bar: Counted::new(name, unit), unit, total, began, last: Mutex::new(began), is_drawn }
    }

    /// So many are done.
    pub fn show(&self, done: u64) {
        if self.is_drawn {
            return self.bar.show(done, self.total.unwrap_or(done));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= TOLD_EACH {
            *last = Instant::now();
            say::tell(&self.line(done, self.began.elapsed()));
        }
    }

    fn line(&self, done: u64, elapsed: Duration) -> String {
        let of = self.total.map(|total| format!(" of {}", HumanCount(total))).unwrap_or_default();
        let rate = done as f64 / elapsed.as_secs_f64().max(1e-3);
        format!("{}{of} {}, {}/s", HumanCount(done), self.unit, HumanCount(rate as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_counted_work_is() {
        let line = |total| Told::new("torture", "crash states", total).line(90_000, Duration::from_secs(60));
        assert_eq!(line(Some(2_500_000)), "90,000 of 2,500,000 crash states, 1,500/s");
        assert_eq!(line(None), "90,000 crash states, 1,500/s");
    }
}
