//! What a flush or a checkpoint waits for: pages in staging, and the records of deletions.

use crate::Position;
use crate::partition::Partition;

/// How far staging is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Everything is durable, in groups that are not full, too, and stay open.
    Flushed,
    /// Everything is in complete groups.
    Published,
}

/// A flush, as far as it has come. It waits for all that was staged when it began, and for the records made
/// until that is durable: a page that was deleted meanwhile is not flushed, but its record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlushGoal {
    extent: Extent,
    rear: u64,
    /// Records that must be durable: first those made before it.
    records: u64,
    /// The pages are durable, and `records` is final.
    is_written: bool,
}

fn made(partition: &Partition<'_>) -> u64 {
    partition.log().map_or(0, |log| log.records_made())
}

impl FlushGoal {
    /// A flush begins. To be followed by [`FlushGoal::step`].
    pub fn begin(partition: &mut Partition<'_>, extent: Extent) -> Self {
        let (_, rear) = partition.window();
        if extent == Extent::Published {
            Self::close(partition);
        }
        let rear = match extent {
            Extent::Flushed => rear,
            Extent::Published => partition.window().1,
        };
        Self { extent, rear: rear.0, records: made(partition), is_written: false }
    }

    /// Whether it is over. If not, what can be written is asked for, and the driver waits until a job is
    /// complete. `may_record`: what the oldest record needs is durable ([`Settle::suffices`]).
    /// `needs_group`: the summary of the open group has no room for more records.
    ///
    /// [`Settle::suffices`]: super::Settle::suffices
    pub fn step(&mut self, partition: &mut Partition<'_>, may_record: bool, needs_group: bool) -> bool {
        let written = match self.extent {
            Extent::Flushed => partition.flushed(),
            Extent::Published => partition.published(),
        };
        let is_written = written.0 >= self.rear;
        if is_written && !self.is_written {
            self.is_written = true;
            self.records = made(partition);
        }
        let durable = partition.log().map_or(0, |log| log.records_durable());
        let is_recorded = durable >= self.records;
        if is_written && is_recorded {
            return true;
        }
        match self.extent {
            Extent::Flushed if may_record || !is_written => {
                let waits = partition.log().is_some_and(|log| log.records_waiting() > 0);
                if waits && needs_group {
                    partition.close_group();
                }
                partition.flush();
            }
            Extent::Published if may_record && !is_recorded => Self::close(partition),
            _ => {}
        }
        false
    }

    /// All that was given out below this position is waited for.
    pub fn rear(&self) -> Position {
        Position(self.rear)
    }

    /// Closes the open group. If records wait, a group takes them, though it may have no page.
    fn close(partition: &mut Partition<'_>) {
        if partition.log().is_some_and(|log| log.records_waiting() > 0) {
            partition.flush();
        }
        partition.close_group();
    }
}
