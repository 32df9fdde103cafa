//! The invariants of the table, for tests.

use crate::entry::{NIL, State};
use crate::region::LOG_BUFFERS;
use crate::table::Objects;

impl Objects<'_> {
    /// Asserts the invariants of the table's lists and of the log, at a cost of one pass over the table.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        let (mut live, mut retired, mut free) = (0, 0, 0);
        for number in 0..self.table.defined {
            let entry = &self.entries[number as usize];
            assert!(entry.is_possible(), "object {number} is {entry:?}");
            match entry.state() {
                State::Free => free += 1,
                State::Retired => retired += 1,
                State::Live(_) => {
                    live += 1;
                    assert_eq!(self.lookup(&entry.locator).map(|found| found.0), Some(number), "is found");
                }
            }
        }
        assert_eq!((live, retired), (self.table.live, self.table.retired), "objects are counted");
        let (mut at, mut listed) = (self.table.free, 0);
        while at != NIL {
            let entry = &self.entries[at as usize];
            assert_eq!(entry.state(), State::Free, "object {at} is in the list of free ones");
            (at, listed) = (entry.next(), listed + 1);
        }
        assert_eq!(listed, free, "free objects are listed");
        let (mut at, mut listed, mut rear, mut last) = (self.table.retired_first, 0, 0, NIL);
        while at != NIL {
            let entry = &self.entries[at as usize];
            assert_eq!(entry.state(), State::Retired, "object {at} is in the list of retired ones");
            assert!(entry.retired_rear().0 >= rear, "the list of retired objects ascends");
            (rear, last) = (entry.retired_rear().0, at);
            (at, listed) = (entry.next(), listed + 1);
        }
        assert_eq!((listed, last), (retired, self.table.retired_last), "retired objects are listed");
        let log = &*self.log;
        assert!(log.log_from <= log.acked && log.acked <= log.handed && log.handed <= log.open);
        assert!(log.open - log.acked <= LOG_BUFFERS as u64, "blocks have buffers");
        assert!(log.durable < log.next, "only made changes are durable");
    }
}
