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

    /// The paper's exponents do not follow from its table 1, but from slower requests of the disk.
    #[test]
    fn faces_exponents_follow_from_slower_requests_than_its_rates_give() {
        let (flash, disk) = (&face::MEDIA[0], &face::MEDIA[3]);
        let rates = [
            (disk.random_read_iops, flash.random_read_iops),
            (disk.random_write_iops, flash.random_write_iops),
        ];
        let exponents =
            rates.map(|(disk, flash)| BreakEven { disk: 1e3 / disk, flash: 1e3 / flash }.exponent());
        assert_eq!(exponents.map(|exponent| format!("{exponent:.3}")), ["1.015", "1.057"]);
        for (paper, ((_, flash), disk)) in face::BREAK_EVEN.into_iter().zip(rates.into_iter().zip([5.9, 6.5]))
        {
            let exponent = BreakEven { disk, flash: 1e3 / flash }.exponent();
            assert!((exponent - paper).abs() < 0.0005, "{exponent} {paper}");
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
