//! What the server tells in its log: one line each for a device that fails or is back, for pages that are
//! lost or kept, for a failed request, and for a refused connection.
//!
//! The lines are in the words of a volume: bytes and offsets. The engine has lines of its own, in pages; the
//! command shows these only if it is asked for more than warnings.
//!
//! Invariant: of each kind at most [`LINES_MAX`] lines are written in [`WINDOW`]; then one more says how many
//! were not.

use super::Shared;
use crate::volume::{Condition, Health};
use crate::{Lost, VolumeError};
use entresol_nbd::Command;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often the devices are looked at.
pub(super) const TICK: Duration = Duration::from_millis(500);
/// See the module's header.
const WINDOW: Duration = Duration::from_secs(10);
const LINES_MAX: u64 = 5;
/// Most ranges in a line.
const NAMED_MAX: usize = 5;

/// Lines of one kind.
#[derive(Default)]
struct Limit {
    /// When the window began, and how many lines there were to write.
    window: Option<(Time, u64)>,
}

impl Limit {
    /// Whether a line may be written now.
    fn admits(&mut self, now: Time) -> bool {
        let (_, lines) = self.window.get_or_insert((now, 0));
        *lines += 1;
        *lines <= LINES_MAX
    }

    /// The window is over: how many lines were not written in it.
    fn missed(&mut self, now: Time) -> u64 {
        match self.window {
            Some((begin, lines)) if now.since(begin) >= WINDOW => {
                self.window = None;
                lines.saturating_sub(LINES_MAX)
            }
            _ => 0,
        }
    }
}

/// What was told so far.
pub(super) struct Watch(TinyMutex<State>);

struct State {
    health: Health,
    failed: Limit,
    refused: Limit,
    ranges: Limit,
}

/// The weight of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    Error,
    Warning,
}

impl Watch {
    /// `health`: as it was at the start, which the notices of the open have told.
    pub fn new(health: Health) -> Self {
        let (failed, refused, ranges) = (Limit::default(), Limit::default(), Limit::default());
        Self(TinyMutex::new(Rank::BlockLog, State { health, failed, refused, ranges }))
    }
}

impl Shared {
    /// A request has failed.
    pub(super) fn tell_failed(&self, command: Command, error: &VolumeError) {
        self.counts.failed.fetch_add(1, Relaxed);
        if self.watch.0.lock().failed.admits(now()) {
            tracing::warn!("{}: {} failed: {}", self.options.name, named(command), self.volume.told(error));
        }
    }

    /// A client may not ask for this.
    pub(super) fn tell_impossible(&self, reason: &str) {
        self.counts.failed.fetch_add(1, Relaxed);
        if self.watch.0.lock().failed.admits(now()) {
            tracing::warn!("{}: a request of a client is not possible: {reason}", self.options.name);
        }
    }

    /// A connection is one too many.
    pub(super) fn tell_refused(&self, open: usize) {
        self.counts.refused.fetch_add(1, Relaxed);
        if self.watch.0.lock().refused.admits(now()) {
            let name = &self.options.name;
            tracing::warn!("{name}: a connection was refused: {open} are open, which is connections_max");
        }
    }

    /// Tells what has changed since the last tick. To be called each [`TICK`].
    pub(super) fn tick(&self) {
        let (health, now) = (self.volume.health(), now());
        let (lines, missed) = {
            let mut state = self.watch.0.lock();
            let mut lines = of_devices(&state.health, &health);
            let of_ranges = of_ranges(&state.health, &health);
            // So that no range is told twice.
            state.health = health;
            lines.extend(of_ranges.into_iter().filter(|_| state.ranges.admits(now)));
            let missed = [
                (state.failed.missed(now), "failed requests"),
                (state.refused.missed(now), "refused connections"),
                (state.ranges.missed(now), "lines on lost or refused ranges"),
            ];
            (lines, missed)
        };
        let name = &self.options.name;
        for (weight, line) in lines {
            match weight {
                Weight::Error => tracing::error!("{name}: {line}"),
                Weight::Warning => tracing::warn!("{name}: {line}"),
            }
        }
        for (count, what) in missed.into_iter().filter(|(count, _)| *count > 0) {
            tracing::warn!("{name}: and {count} more {what} in the last {} s", WINDOW.as_secs());
        }
    }
}

/// A request, in words.
fn named(command: Command) -> String {
    let (what, length, offset) = match command {
        Command::Read { offset, length, .. } => ("a read", length, offset),
        Command::Write { offset, length, .. } => ("a write", length, offset),
        Command::Trim { offset, length, .. } => ("a trim", length, offset),
        Command::WriteZeroes { offset, length, .. } => ("a write of zeros", length, offset),
        Command::Cache { offset, length } => ("a prefetch", length, offset),
        Command::BlockStatus { offset, length, .. } => ("a question for the state", length, offset),
        Command::Flush => return "a flush".to_owned(),
    };
    format!("{what} of {length} bytes at {offset}")
}

/// What is to be told of the devices.
fn of_devices(before: &Health, health: &Health) -> Vec<(Weight, String)> {
    let mut lines = Vec::new();
    let why = |state: &(Condition, Option<String>)| state.1.clone().unwrap_or_default();
    if before.flash != health.flash {
        match health.flash.0 {
            Condition::Degraded => lines.push((Weight::Error, format!("flash: {}", why(&health.flash)))),
            // The disk has all pages again.
            Condition::Off if before.flash.0 == Condition::Degraded => {
                lines.push((Weight::Warning, format!("flash: {}", why(&health.flash))));
            }
            Condition::Off => lines.push((Weight::Error, format!("flash: {}", why(&health.flash)))),
            Condition::Ok if matches!(before.flash.0, Condition::Degraded | Condition::Off) => {
                lines.push((Weight::Warning, "flash: it is in use again".to_owned()));
            }
            // The end of the server tells a failure; the owner knows of a detach.
            _ => {}
        }
    }
    let refuses = |state: Condition| matches!(state, Condition::Retrying | Condition::Refusing);
    match (before.disk.0, health.disk.0) {
        (before, Condition::Retrying) if !refuses(before) => lines.push((
            Weight::Error,
            format!(
                "disk: it refuses writes ({}); they stay on flash and are tried again, and all else goes on",
                why(&health.disk)
            ),
        )),
        (before, Condition::Ok) if refuses(before) => {
            lines.push((Weight::Warning, "disk: it takes all writes again that it has refused".to_owned()));
        }
        _ => {}
    }
    lines
}

/// What is to be told of ranges that are lost or kept now, and were not.
fn of_ranges(before: &Health, health: &Health) -> Vec<(Weight, String)> {
    let mut lines = Vec::new();
    if let Some(named) = new_ranges(&before.lost, &health.lost) {
        let line = format!(
            "flash: lost: {named}: their newest version cannot be read from flash; requests for them fail until they are \
             written again as whole pages"
        );
        lines.push((Weight::Error, line));
    }
    if let Some(named) = new_ranges(&before.kept, &health.kept) {
        let why = health.disk.1.clone().unwrap_or_default();
        let line = format!(
            "disk: it takes writes, but for {named} ({why}): they stay on flash, newer than disk, and are tried again"
        );
        lines.push((Weight::Error, line));
    }
    lines
}

/// The ranges of `now` with a byte that no range of `before` has. Both are in order.
fn new_ranges(before: &[Lost], now: &[Lost]) -> Option<String> {
    if before == now {
        return None;
    }
    let is_new = |range: &&Lost| {
        let at = before.partition_point(|old| old.offset <= range.offset);
        let last = at.checked_sub(1).map(|at| &before[at]);
        last.is_none_or(|old| old.offset + old.bytes < range.offset + range.bytes)
    };
    let new: Vec<&Lost> = now.iter().filter(is_new).collect();
    let mut named: Vec<String> = new
        .iter()
        .take(NAMED_MAX)
        .map(|Lost { offset, bytes }| format!("{bytes} bytes at {offset}"))
        .collect();
    if new.len() > NAMED_MAX {
        named.push(format!("{} more ranges", new.len() - NAMED_MAX));
    }
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(offset: u64, bytes: u64) -> Lost {
        Lost { offset, bytes }
    }

    #[test]
    fn lines_are_limited_and_the_rest_is_counted() {
        let mut limit = Limit::default();
        let at = |seconds| Time(0) + Duration::from_secs(seconds);
        let admitted = (0..20).filter(|_| limit.admits(at(1))).count() as u64;
        assert_eq!((admitted, limit.missed(at(10))), (LINES_MAX, 0), "the window is not over");
        assert_eq!((limit.missed(at(11)), limit.missed(at(12))), (20 - LINES_MAX, 0));
        assert!(limit.admits(at(12)));
    }

    #[test]
    fn each_change_of_a_device_is_told_once() {
        let of = |flash: Condition, disk: Condition| Health {
            flash: (flash, Some("why".to_owned())),
            disk: (disk, Some("because".to_owned())),
            ..Health::default()
        };
        use Condition::{Degraded, Failed, Off, Ok, Refusing, Retrying};
        let told = |before: (Condition, Condition), after: (Condition, Condition)| {
            let lines = of_devices(&of(before.0, before.1), &of(after.0, after.1));
            lines.into_iter().map(|(weight, line)| format!("{weight:?} {line}")).collect::<Vec<_>>().join("|")
        };
        assert_eq!(told((Ok, Ok), (Degraded, Ok)), "Error flash: why");
        assert_eq!(told((Degraded, Ok), (Degraded, Ok)), "");
        assert_eq!(told((Degraded, Ok), (Off, Ok)), "Warning flash: why");
        assert_eq!(told((Ok, Ok), (Off, Ok)), "Error flash: why");
        assert_eq!(told((Ok, Ok), (Failed, Ok)), "");
        assert_eq!(told((Off, Ok), (Ok, Ok)), "Warning flash: it is in use again");
        assert!(told((Ok, Ok), (Ok, Retrying)).starts_with("Error disk: it refuses writes (because);"));
        assert_eq!(told((Ok, Retrying), (Ok, Refusing)), "", "the ranges are told");
        assert_eq!(
            told((Ok, Refusing), (Ok, Ok)),
            "Warning disk: it takes all writes again that it has refused"
        );
    }

    #[test]
    fn new_ranges_are_told_and_no_others() {
        let before = [lost(0, 4096), lost(16384, 8192)];
        assert_eq!(new_ranges(&before, &before), None);
        assert_eq!(new_ranges(&before, &before[..1]), None);
        assert_eq!(new_ranges(&before, &[lost(20480, 4096)]), None, "it is a part of one");
        let now = [lost(0, 4096), lost(8192, 4096), lost(16384, 12288)];
        assert_eq!(new_ranges(&before, &now).unwrap(), "4096 bytes at 8192, 12288 bytes at 16384");
        let many: Vec<Lost> = (0..9).map(|at| lost(at * 8192, 4096)).collect();
        assert!(new_ranges(&[], &many).unwrap().ends_with("4096 bytes at 32768, 4 more ranges"));
    }

    #[test]
    fn requests_are_told_by_bytes() {
        assert_eq!(
            named(Command::Write { offset: 8192, length: 512, fua: true }),
            "a write of 512 bytes at 8192"
        );
        assert_eq!(named(Command::Flush), "a flush");
    }
}
