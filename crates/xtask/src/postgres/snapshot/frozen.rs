//! A server that stands still, so that its files can be copied as a snapshot of their file system has them.

use crate::postgres::server::Server;
use crate::programs::output;
use anyhow::{Result, bail};
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// All processes of a server, stopped by a signal.
pub(super) struct Frozen(Vec<String>);

/// The letter of a process's state in /proc. `None`: it has ended.
fn state(pid: &str) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have spaces and parentheses.
    text.rsplit_once(") ")?.1.chars().next()
}

fn signal(name: &str, pids: &[String]) {
    // One of them may have ended by itself.
    let _ = output(Command::new("kill").arg(name).args(pids));
}

fn await_states(pids: &[String], is_it: impl Fn(Option<char>) -> bool) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    for pid in pids {
        while !is_it(state(pid)) {
            if Instant::now() > until {
                bail!("process {pid} is in state {:?}", state(pid));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

impl Frozen {
    /// Stops all processes of the server where they are: what they have written is in their files.
    pub(super) fn new(server: &Server<'_>) -> Result<Self> {
        let mut pids = vec![server.postmaster()?];
        signal("-STOP", &pids);
        await_states(&pids, |state| matches!(state, Some('T') | None))?;
        pids.extend(server.children("pid=")?.split_whitespace().map(str::to_owned));
        signal("-STOP", &pids[1..]);
        await_states(&pids, |state| matches!(state, Some('T' | 'Z') | None))?;
        Ok(Self(pids))
    }

    /// Lets them go on.
    pub(super) fn thaw(self) {
        signal("-CONT", &self.0);
    }

    /// Kills all of them, and waits until they have ended.
    pub(super) fn kill(self) -> Result<()> {
        signal("-KILL", &self.0);
        await_states(&self.0, |state| state.is_none())
    }
}
