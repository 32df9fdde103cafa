//! The wait of a flush or a checkpoint: for pages in staging, and for the records of deletions.

use crate::Position;
use crate::partition::Partition;

/// The extent to which staging is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Every staged page is durable. Its group may be partly filled, and stays open.
    Flushed,
    /// Every staged page is in a complete group.
    Published,
}

/// A flush in progress. It waits for the pages that were staged when it began, and then for all records that
/// were made before these pages were durable. So if a staged page is deleted during the flush, the flush
/// waits for the record of the deletion instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlushGoal {
    extent: Extent,
    rear: u64,
    /// Number of records that must be durable: at first, those made before the flush began.
    records: u64,
    /// The pages are durable, and `records` is final.
    is_written: bool,
}

fn made(partition: &Partition<'_>) -> u64 {
    match partition {
        Partition::Log(log) => log.records_made(),
        Partition::Slots(slots) => slots.records_made(),
    }
}

fn durable(partition: &Partition<'_>) -> u64 {
    match partition {
        Partition::Log(log) => log.records_durable(),
        Partition::Slots(slots) => slots.records_durable(),
    }
}

impl FlushGoal {
    /// Begins a flush. The caller then repeats [`FlushGoal::step`] until it is complete.
    pub fn begin(partition: &mut Partition<'_>, extent: Extent) -> Self {
        let (_, rear) = partition.window();
        if extent == Extent::Published || partition.slots().is_some() {
            Self::close(partition);
        }
        let rear = match extent {
            Extent::Flushed => rear,
            Extent::Published => partition.window().1,
        };
        Self { extent, rear: rear.0, records: made(partition), is_written: false }
    }

    /// Whether the flush is complete. If not, this asks for the writes that are possible now, and the driver
    /// waits until a job is complete. `may_record`: the cause of the oldest record is durable
    /// ([`Settle::suffices`]). `needs_group`: the summary of the open group has no room for more records.
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
        let is_recorded = durable(partition) >= self.records;
        if is_written && is_recorded {
            return true;
        }
        if let Partition::Slots(slots) = partition {
            // What was staged when it began is asked for already, and what entered since is not waited for.
            slots.table.want_records_below(self.records);
            return false;
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

    /// The flush waits for all pages with positions below this one.
    pub fn rear(&self) -> Position {
        Position(self.rear)
    }

    /// Closes the open group. If records wait, they are written in a group, even if it has no page.
    fn close(partition: &mut Partition<'_>) {
        if partition.log().is_some_and(|log| log.records_waiting() > 0) {
            partition.flush();
        }
        partition.close_group();
    }
}
