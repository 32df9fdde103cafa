//! Virtual execution time (3LA §4.1, formulas 5–7): the device access times of all layers below DRAM, added
//! up.
//!
//! ```text
//! (5)  T_v = T_f + T_d
//! (6)  T_f = N_fr × C_fr + N_fw × C_fw
//! (7)  T_d = N_dr × C_dr + N_dw × C_dw
//! ```
//!
//! Queues, processors and what overlaps are not in it. The replay adds up the same services as they happen
//! (`replay::device::Device`); where a device knows one time for reads and one for writes, both are equal.

/// Physical accesses to one device, pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// N_·r: pages read.
    pub reads: u64,
    /// N_·w: pages written.
    pub writes: u64,
}

/// What an access to one device takes on the average, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessCosts {
    /// C_·r: a read.
    pub read_ms: f64,
    /// C_·w: a write.
    pub write_ms: f64,
}

impl AccessCosts {
    /// 3LA's simulated flash (§4.1).
    pub const PAPER_FLASH: Self = Self { read_ms: 0.030, write_ms: 0.120 };
    /// 3LA's simulated disk (§4.1).
    pub const PAPER_DISK: Self = Self { read_ms: 4.5, write_ms: 4.5 };

    /// Formulas 6 and 7: the time of so many accesses, milliseconds.
    pub fn time_ms(&self, accesses: Accesses) -> f64 {
        accesses.reads as f64 * self.read_ms + accesses.writes as f64 * self.write_ms
    }
}

/// Formula 5: the virtual execution time, milliseconds, of what flash and disk did.
pub fn virtual_time_ms(flash: (AccessCosts, Accesses), disk: (AccessCosts, Accesses)) -> f64 {
    flash.0.time_ms(flash.1) + disk.0.time_ms(disk.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_read_weighs_as_much_as_150_flash_reads() {
        let flash = Accesses { reads: 1500, writes: 100 };
        let disk = Accesses { reads: 10, writes: 2 };
        let time = virtual_time_ms((AccessCosts::PAPER_FLASH, flash), (AccessCosts::PAPER_DISK, disk));
        assert!((time - (45.0 + 12.0 + 54.0)).abs() < 1e-9, "{time}");
    }
}
