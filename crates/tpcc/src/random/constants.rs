//! The constants C of NURand (clause 2.1.6.1).

use super::{Purpose, Random, Seed};

/// One constant for each use of NURand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For C_LAST, `0 ..= 255`.
    pub last_name: u32,
    /// For C_ID, `0 ..= 1023`.
    pub customer: u32,
    /// For OL_I_ID, `0 ..= 8191`.
    pub item: u32,
}

impl Constants {
    /// The constants of a load.
    pub fn for_load(seed: Seed) -> Self {
        let mut random = Random::stream(seed, Purpose::Constants, 0, 0);
        Self {
            last_name: random.uniform(0, 255),
            customer: random.uniform(0, 1_023),
            item: random.uniform(0, 8_191),
        }
    }

    /// The constants of a run on a database loaded with `load`. The one for C_LAST differs from the load's by
    /// a valid amount.
    pub fn for_run(seed: Seed, load: Constants) -> Self {
        let mut random = Random::stream(seed, Purpose::Constants, 1, 0);
        let valid: Vec<u32> = (0..=255).filter(|&run| is_valid_delta(load.last_name.abs_diff(run))).collect();
        let last_name = valid[random.uniform(0, valid.len() as u32 - 1) as usize];
        Self { last_name, customer: random.uniform(0, 1_023), item: random.uniform(0, 8_191) }
    }
}

/// Whether the constants of load and run may differ by `delta`: 65 to 119 without 96 and 112 (clause
/// 2.1.6.1).
fn is_valid_delta(delta: u32) -> bool {
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_valid_runs() {
        for last_name in 0..=255 {
            let load = Constants { last_name, customer: 0, item: 0 };
            for seed in 0..50 {
                let run = Constants::for_run(Seed(seed), load);
                assert!(run.last_name <= 255 && run.customer <= 1_023 && run.item <= 8_191);
                assert!(
                    is_valid_delta(run.last_name.abs_diff(last_name)),
                    "{last_name} and {}",
                    run.last_name
                );
            }
        }
        assert_eq!((0..300).filter(|&delta| is_valid_delta(delta)).count(), 53);
    }
}
