//! Who waits for what, in virtual time: closed-loop clients, or the times of the trace.
//!
//! References are carried out in the order of the trace, whatever the clock says; so decisions depend on the
//! trace alone. A client takes references until one misses DRAM, waits for that, and continues with the next
//! ones when all that are free earlier have taken theirs. The pages of one host request are asked for
//! together; it is done when the last is there.
//!
//! Invariant: the time at which requests begin never decreases in a closed loop.

use super::config::Arrival;
use entresol_runtime::Time;
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Longest response that is told apart: an hour.
const RESPONSE_NS_MAX: u64 = 3_600_000_000_000;

/// A host request that missed DRAM and is not over yet.
struct Current {
    /// Its first record.
    head: usize,
    client: u32,
    start: Time,
    end: Time,
}

/// The clients of one run.
pub(super) struct Clients {
    /// Requests come at the times of the trace.
    timed: bool,
    hit_ns: u64,
    ready: BinaryHeap<Reverse<(Time, u32)>>,
    current: Option<Current>,
    /// References when the last request that missed began.
    references: u64,
    responses: Histogram<u64>,
    waited_ns: u128,
    began: Time,
    latest: Time,
}

/// What clients saw while it was measured.
pub(crate) struct Waiting {
    /// Host requests that missed DRAM.
    pub requests: u64,
    /// Nanoseconds that they took in all.
    pub waited_ns: u128,
    /// Their responses in nanoseconds.
    pub responses: Histogram<u64>,
    /// Virtual time that passed.
    pub elapsed_ns: u64,
}

impl Clients {
    pub(super) fn new(arrival: Arrival, hit_ns: u64) -> Self {
        let (clients, timed) = match arrival {
            Arrival::Closed { clients } => (clients, false),
            Arrival::Timed => (1, true),
        };
        Self {
            timed,
            hit_ns,
            ready: (0..clients).map(|client| Reverse((Time(0), client))).collect(),
            current: None,
            references: 0,
            responses: histogram(),
            waited_ns: 0,
            began: Time(0),
            latest: Time(0),
        }
    }

    /// Whether requests come at the times of the trace.
    pub(super) fn is_timed(&self) -> bool {
        self.timed
    }

    /// The host request whose first record is `head` misses DRAM: when does it begin? `head_us`: its time in
    /// the trace, without meaning in a closed loop. `references`: of the run so far.
    pub(super) fn begin(&mut self, head: usize, head_us: u64, references: u64) -> Time {
        if let Some(current) = &self.current {
            if current.head == head {
                return current.start;
            }
            self.finish_current();
        }
        let hits_ns = (references - self.references) * self.hit_ns;
        self.references = references;
        let (client, start) = if self.timed {
            (0, Time(head_us * 1000))
        } else {
            let Reverse((free, client)) = self.ready.pop().expect("there is at least one client");
            (client, Time(free.0 + hits_ns))
        };
        self.current = Some(Current { head, client, start, end: start });
        start
    }

    /// The request that began last is not over before `done`.
    #[inline]
    pub(super) fn until(&mut self, done: Time) {
        let current = self.current.as_mut().expect("a request has begun");
        current.end = current.end.max(done);
    }

    fn finish_current(&mut self) {
        let Some(Current { client, start, end, .. }) = self.current.take() else { return };
        let waited = end.0 - start.0 + self.hit_ns;
        self.waited_ns += u128::from(waited);
        self.responses.saturating_record(waited.max(1));
        self.latest = self.latest.max(end);
        if !self.timed {
            self.ready.push(Reverse((end, client)));
        }
    }

    /// Forgets what was seen so far, before a record of that time; `references` of the run so far.
    pub(super) fn begin_measurement(&mut self, record_us: u64, references: u64) {
        self.finish_current();
        self.responses.reset();
        self.waited_ns = 0;
        self.began = self.time(record_us, references);
        self.latest = self.began;
    }

    /// The time that the run has reached before a record of that time in the trace, with so many references
    /// behind it.
    pub(super) fn time(&self, record_us: u64, references: u64) -> Time {
        if self.timed {
            return Time(record_us * 1000);
        }
        let free = self.ready.peek().map_or(self.latest, |Reverse((free, _))| *free);
        Time(free.0 + (references - self.references) * self.hit_ns)
    }

    /// Ends the run. `elapsed` includes what was still under way.
    pub(super) fn finish(mut self, record_us: u64, references: u64) -> Waiting {
        self.finish_current();
        let end = self.latest.max(self.time(record_us, references));
        Waiting {
            requests: self.responses.len(),
            waited_ns: self.waited_ns,
            responses: self.responses,
            elapsed_ns: end.0 - self.began.0,
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, RESPONSE_NS_MAX, 3).expect("the bounds are constant and sound")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clients_take_turns_and_hits_take_their_time() {
        let mut clients = Clients::new(Arrival::Closed { clients: 2 }, 10);
        assert_eq!(clients.begin(0, 0, 0), Time(0));
        clients.until(Time(1000));
        // Record 1 belongs to the same host request.
        assert_eq!(clients.begin(0, 0, 1), Time(0));
        clients.until(Time(700));
        // Three hits later the second client misses.
        assert_eq!(clients.begin(5, 0, 4), Time(40));
        clients.until(Time(5000));
        // The first is free again at 1000.
        assert_eq!(clients.begin(6, 0, 5), Time(1010));
        clients.until(Time(2000));
        let waiting = clients.finish(0, 6);
        assert_eq!((waiting.requests, waiting.elapsed_ns), (3, 5000));
        assert_eq!(waiting.waited_ns, 1010 + 4970 + 1000);
    }

    #[test]
    fn timed_requests_come_when_the_trace_says() {
        let mut clients = Clients::new(Arrival::Timed, 0);
        assert_eq!(clients.begin(1, 5, 0), Time(5000));
        clients.until(Time(90_000));
        assert_eq!(clients.begin(3, 9, 0), Time(9000), "it does not wait for the one before");
        clients.begin_measurement(9, 0);
        assert_eq!(clients.finish(9, 0).elapsed_ns, 0);
    }
}
