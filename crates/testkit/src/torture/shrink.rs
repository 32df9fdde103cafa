//! Shortens a script with a violation.
//!
//! Invariant: the returned script has a violation, too, but perhaps another one or at another place.

use super::Effort;
use super::run::{Found, run};
use super::script::{Op, Script};

/// Maximum number of runs for this.
const ATTEMPTS_MAX: usize = 250;

/// The shortest script found, and its violation.
pub(super) fn shrink(script: Script, found: Found, effort: Effort) -> (Script, Found) {
    let mut shrinking = Shrinking { script, found, effort, attempts: 0 };
    while shrinking.pass() {}
    (shrinking.script, shrinking.found)
}

struct Shrinking {
    script: Script,
    found: Found,
    effort: Effort,
    attempts: usize,
}

impl Shrinking {
    /// Takes `shorter` if it has a violation.
    fn attempt(&mut self, shorter: Script) -> bool {
        if self.attempts == ATTEMPTS_MAX {
            return false;
        }
        self.attempts += 1;
        let (_, found) = run(&shorter, self.effort);
        match found {
            None => false,
            Some(found) => {
                (self.script, self.found) = (shorter, found);
                true
            }
        }
    }

    fn attempt_with(&mut self, change: impl FnOnce(&mut Script)) -> bool {
        let mut shorter = self.script.clone();
        change(&mut shorter);
        self.attempt(shorter)
    }

    /// Tries to leave out each part once; returns whether a part could be left out.
    fn pass(&mut self) -> bool {
        let mut progress = false;
        for life in (0..self.script.lives.len()).rev() {
            if self.script.lives.len() > 1 {
                progress |= self.attempt_with(|script| drop(script.lives.remove(life)));
            }
        }
        for life in 0..self.script.lives.len() {
            if self.script.lives[life].trouble.is_some() {
                progress |= self.attempt_with(|script| script.lives[life].trouble = None);
            }
            for client in 0..self.script.lives[life].clients.len() {
                progress |= self.shorten(life, client);
            }
        }
        progress && self.attempts < ATTEMPTS_MAX
    }

    /// Leaves out halves, quarters, … of a client's operations.
    fn shorten(&mut self, life: usize, client: usize) -> bool {
        let mut progress = false;
        let mut step = self.ops(life, client).len().div_ceil(2);
        while step > 0 {
            let mut at = 0;
            while at < self.ops(life, client).len() {
                let end = (at + step).min(self.ops(life, client).len());
                let left_out =
                    self.attempt_with(|script| drop(script.lives[life].clients[client].drain(at..end)));
                progress |= left_out;
                if !left_out {
                    at += step;
                }
                if self.attempts == ATTEMPTS_MAX {
                    return progress;
                }
            }
            step /= 2;
        }
        progress
    }

    fn ops(&self, life: usize, client: usize) -> &[Op] {
        &self.script.lives[life].clients[client]
    }
}
