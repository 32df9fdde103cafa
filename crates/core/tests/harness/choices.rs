//! The source of a run's decisions: a list (which proptest can shrink), or a seed.

/// A stream of choices.
pub struct Choices {
    list: Vec<u32>,
    at: usize,
    state: u64,
    endless: bool,
}

impl Choices {
    pub fn from_list(list: Vec<u32>) -> Self {
        Self { list, at: 0, state: 1, endless: false }
    }

    pub fn from_seed(seed: u64) -> Self {
        Self { list: Vec::new(), at: 0, state: seed, endless: true }
    }

    /// The list is used up.
    pub fn is_over(&self) -> bool {
        !self.endless && self.at >= self.list.len()
    }

    fn raw(&mut self) -> u32 {
        if let Some(choice) = self.list.get(self.at) {
            self.at += 1;
            return *choice;
        }
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as u32
    }

    /// One of `0 .. bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.raw() as u64 * bound as u64) >> 32) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
