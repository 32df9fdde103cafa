//! How much flash saves as much I/O time as more DRAM (FaCE §2.2).
//!
//! Hit rates grow with the logarithm of the buffer's size. So `δB` more DRAM saves α C_disk log(1 + δ), and
//! `θB` of flash saves α (C_disk − C_flash) log(1 + θ), which is equal when
//!
//! ```text
//! 1 + θ = (1 + δ) ^ (C_disk / (C_disk − C_flash))
//! ```

/// Times of a page on both media, in one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakEven {
    /// C_disk.
    pub disk: f64,
    /// C_flash, less than C_disk.
    pub flash: f64,
}

impl BreakEven {
    /// The exponent C_disk / (C_disk − C_flash): 1 is flash as good as DRAM.
    pub fn exponent(&self) -> f64 {
        self.disk / (self.disk - self.flash)
    }

    /// θ: the flash, in buffers, that saves as much I/O time as `delta` buffers more of DRAM.
    pub fn theta(&self, delta: f64) -> f64 {
        (1.0 + delta).powf(self.exponent()) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::face;

    #[test]
    fn faces_exponents_follow_from_lone_requests() {
        let flash = &face::MEDIA[0];
        let read = BreakEven { disk: face::LONE_READ_MS, flash: 1e3 / flash.random_read_iops };
        let write = BreakEven { disk: face::LONE_WRITE_MS, flash: 1e3 / flash.random_write_iops };
        let exponents = [read, write].map(|times| times.exponent());
        for (ours, paper) in exponents.into_iter().zip(face::BREAK_EVEN) {
            assert!((ours - paper).abs() < 0.003, "{ours} {paper}");
        }
    }

    #[test]
    fn theta_is_delta_where_flash_takes_no_time_and_grows_with_it() {
        let free = BreakEven { disk: 5.0, flash: 0.0 };
        assert_eq!(free.exponent(), 1.0);
        assert!((free.theta(0.7) - 0.7).abs() < 1e-12);
        let half = BreakEven { disk: 2.0, flash: 1.0 };
        assert_eq!((half.exponent(), half.theta(2.0)), (2.0, 8.0));
        assert!((half.theta(0.0)).abs() < 1e-12);
    }
}
