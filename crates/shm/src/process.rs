//! Which process a number means, and whether it is alive.
//!
//! The kernel gives the number of a process to another one some time after its end. So a process is named by
//! its number and the time of its start (field 22 of `/proc/PID/stat`, in ticks since the machine started).
//! `/proc`, where there is one, is that of the processes' own pid namespace.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use rustix::time::Timespec;
use std::ffi::CStr;
use std::io::Write;
use std::os::fd::OwnedFd;

/// A process, in one word that is not 0: its number in the upper half, and the lower half of the time of its
/// start, or 0 if that is not known (no `/proc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId(pub u64);

impl ProcessId {
    /// This process.
    pub(crate) fn current() -> Self {
        Self::of(std::process::id())
    }

    /// The process that has this number now.
    fn of(pid: u32) -> Self {
        let started = stat(pid).map_or(0, |stat| stat.started);
        Self(u64::from(pid) << 32 | u64::from(started))
    }

    pub(crate) fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn started(self) -> u32 {
        self.0 as u32
    }

    fn number(self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid()).ok()?)
    }

    /// Whether the process has not ended. Without `/proc`, or if it is hidden, another process with the same
    /// number is taken for it.
    pub(crate) fn is_alive(self) -> bool {
        match stat(self.pid()) {
            Some(stat) => !stat.has_ended && (self.started() == 0 || stat.started == self.started()),
            // A process of another user may not be signalled, but is there.
            None => self.number().is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH)),
        }
    }
}

/// A process being watched: by a descriptor that the kernel keeps for it, where there is one.
#[derive(Debug)]
pub(crate) struct Watched {
    who: ProcessId,
    descriptor: Option<OwnedFd>,
}

impl Watched {
    pub(crate) fn new(who: ProcessId) -> Self {
        let descriptor = who.number().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The number may belong to another process by now. If not, it did not when the descriptor was opened.
        let descriptor = descriptor.filter(|_| who.is_alive());
        Self { who, descriptor }
    }

    /// Without a descriptor: as on a kernel that has none, or with too many open files.
    #[cfg(test)]
    pub(crate) fn by_number(who: ProcessId) -> Self {
        Self { who, descriptor: None }
    }

    pub(crate) fn has_ended(&self) -> bool {
        let Some(descriptor) = &self.descriptor else { return !self.who.is_alive() };
        // A descriptor of a process can be read when the process has ended.
        let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
        match poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(ready) => ready > 0,
            Err(_) => !self.who.is_alive(),
        }
    }
}

struct Stat {
    started: u32,
    /// Ended, and its parent has not taken note (a zombie).
    has_ended: bool,
}

/// The kernel's state of the process that has this number now. Allocates nothing: a front asks while it
/// waits.
fn stat(pid: u32) -> Option<Stat> {
    let mut path = [0; 32];
    // The last byte stays 0.
    write!(&mut path[..31], "/proc/{pid}/stat").ok()?;
    let file = open(CStr::from_bytes_until_nul(&path).ok()?, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    // Longer than the name and all numbers up to the start.
    let mut line = [0; 1024];
    let length = read(file.ok()?, &mut line).ok()?;
    parse(&line[..length])
}

/// Field 2 is the program's name in parentheses, which may contain anything. Field 3 is the state.
fn parse(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    // Cut off, maybe in the middle of a number that is not looked at.
    let rest = str::from_utf8(&line[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let started: u64 = fields.nth(22 - 4)?.parse().ok()?;
    Some(Stat { started: started as u32, has_ended: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let line = |name: &str, state: char| {
            format!("4711 ({name}) {state} 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 123456 23 24 25\n")
        };
        for name in ["sh", "a b", ") R 1 2", "((", ""] {
            let found = parse(line(name, 'S').as_bytes()).expect("a line of the kernel");
            assert_eq!((found.started, found.has_ended), (123_456, false), "{name:?}");
        }
        assert!(parse(line("sh", 'Z').as_bytes()).expect("a line of the kernel").has_ended);
        assert!(parse(b"4711 (sh) S 4 5").is_none());
        assert!(parse(b"").is_none());
    }

    #[test]
    fn a_process_that_ends_is_noticed_with_and_without_a_descriptor() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep can be run");
        let who = ProcessId::of(child.id());
        assert!(who.started() != 0);
        let (by_descriptor, by_number) = (Watched::new(who), Watched::by_number(who));
        assert!(by_descriptor.descriptor.is_some());
        assert!(!by_descriptor.has_ended() && !by_number.has_ended());
        child.kill().expect("it runs");
        // A zombie counts as ended, before its parent has taken note.
        while who.is_alive() {
            std::thread::yield_now();
        }
        assert!(by_descriptor.has_ended() && by_number.has_ended());
        child.wait().expect("it is a child");
        assert!(by_descriptor.has_ended() && by_number.has_ended() && Watched::new(who).has_ended());
    }

    #[test]
    fn another_process_with_the_same_number_is_not_taken_for_it() {
        let me = ProcessId::current();
        assert!(me.is_alive() && !Watched::new(me).has_ended());
        let before_me = ProcessId(me.0 - 1);
        assert_eq!(before_me.pid(), me.pid());
        assert!(!before_me.is_alive() && Watched::new(before_me).has_ended());
    }
}
