//! The part of a response that money can do something about.
//!
//! A page's first read is from disk with any purchase. In a trace that is short for its pages such reads
//! can be most of the mean response, and with them all configurations look alike. So
//! configurations are weighed by what remains.
//!
//! Invariant: weights are above zero, so that they can be divided by each other.

/// Takes first reads out of mean responses. All in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avoidable {
    /// Mean response of DRAM that holds all pages: hits and first reads.
    pub compulsory_us: f64,
    /// What a hit in DRAM takes: closer than that two configurations are not told apart.
    pub hit_us: f64,
}

impl Avoidable {
    /// What is avoidable of a mean response, and a hit.
    pub fn weight(self, response_us: f64) -> f64 {
        self.rest(response_us) + self.hit_us.max(f64::MIN_POSITIVE)
    }

    /// What is avoidable of a mean response.
    pub fn rest(self, response_us: f64) -> f64 {
        (response_us - self.compulsory_us).max(0.0)
    }

    /// The mean response whose avoidable part is so many times that of `response_us`, or a hit longer if that
    /// is more.
    pub fn times(self, factor: f64, response_us: f64) -> f64 {
        response_us + ((factor - 1.0) * self.rest(response_us)).max(self.hit_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_reads_do_not_weigh() {
        let first_reads = Avoidable { compulsory_us: 400.0, hit_us: 2.0 };
        assert_eq!(first_reads.weight(428.0) / first_reads.weight(408.0), 3.0, "as a whole: 5 %");
        assert_eq!(first_reads.times(1.1, 500.0), 510.0);
        assert_eq!(first_reads.times(1.1, 401.0), 403.0, "a hit is the least that is told apart");
        assert_eq!(first_reads.weight(399.0), 2.0, "no faster than DRAM for everything");
        let no_hit_time = Avoidable { compulsory_us: 0.0, hit_us: 0.0 };
        assert!(no_hit_time.weight(0.0) > 0.0);
    }
}
