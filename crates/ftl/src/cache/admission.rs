//! The admission of a page that is evicted from the write buffer (thesis §3.1, figure 3.2).
//!
//! ```text
//! if write_count > Threshold_write and read_count = 0        → invalid_data        (unadmitted)
//! elif read_count > Threshold_read or write_count < Threshold_write → allocate_RFDB (read-frequent)
//! else                                                       → allocate_WFDB       (write-frequent)
//! ```
//!
//! The thesis gives no thresholds. Where we differ: a page that returned from a read-frequent block and was
//! neither read nor written since is write-frequent under any thresholds. By the figure it is so with
//! `Threshold_write` = 0 only; with more it would return to a read-frequent block for ever, and a chip full
//! of such pages could not make room.

/// The thresholds of figure 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// More reads than this in the write buffer make a page read-frequent.
    pub read: u16,
    /// More writes than this without a read make a page not worth caching; fewer make it read-frequent.
    pub write: u16,
}

/// The admission of a page that is evicted from the write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does not enter the flash.
    Unadmitted,
    /// It is written to a read-frequent data block (RFDB).
    ReadFrequent,
    /// It is written to a write-frequent data block (WFDB).
    WriteFrequent,
}

impl Thresholds {
    /// Judges a page by what happened to it in the write buffer. `returned`: it came there from a
    /// read-frequent block.
    pub fn judge(&self, reads: u16, writes: u16, returned: bool) -> Admission {
        if writes > self.write && reads == 0 {
            Admission::Unadmitted
        } else if returned && reads == 0 && writes == 0 {
            Admission::WriteFrequent
        } else if reads > self.read || writes < self.write {
            Admission::ReadFrequent
        } else {
            Admission::WriteFrequent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::{ReadFrequent, Unadmitted, WriteFrequent};

    #[test]
    fn figure_3_2_line_by_line() {
        let thresholds = Thresholds { read: 1, write: 2 };
        for (reads, writes, expected) in [
            (0, 3, Unadmitted),
            (1, 3, WriteFrequent), // read once: admitted, but not often enough
            (2, 3, ReadFrequent),
            (2, 0, ReadFrequent),
            (0, 2, WriteFrequent), // not more than the threshold, and not fewer
            (0, 1, ReadFrequent),
            (0, 0, ReadFrequent),
        ] {
            assert_eq!(thresholds.judge(reads, writes, false), expected, "{reads} reads, {writes} writes");
        }
    }

    #[test]
    fn a_returned_page_must_be_used_to_stay() {
        for write in 0..4 {
            let thresholds = Thresholds { read: 0, write };
            assert_eq!(thresholds.judge(0, 0, true), WriteFrequent);
            assert_eq!(thresholds.judge(1, 0, true), ReadFrequent);
        }
        assert_eq!(
            Thresholds { read: 0, write: 0 }.judge(0, 0, false),
            WriteFrequent,
            "by the figure itself"
        );
    }
}
