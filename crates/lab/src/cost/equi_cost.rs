//! The equi-cost constraint (Ou, Härder: Trading Memory for Performance and Energy, §4, formulas 1–4): three
//! layers that cost as much as two.
//!
//! ```text
//! (1)  |L_r| ≤ |L_f| ≤ |L_d|
//! (2)  |L_f| = n × b
//! (3)  |L_r| = max(1, ⌊b − |L_f| × (C_f/C_r + S_d/S_p)⌋)
//! (4)  1 ≤ n < 1 / (C_f/C_r + S_d/S_p)
//! ```
//!
//! `b` pages of DRAM is what two layers have, and so what the money buys. A page of flash takes away
//! `C_f/C_r` pages of DRAM for its price and `S_d/S_p` for its entry in the directory, which is in DRAM.
//!
//! Trap: the paper's table 2 uses formula 3 without its floor (799.02, not 799), hence
//! [`EquiCost::dram_left`].

/// What a page of flash costs, in DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EquiCost {
    /// C_f / C_r: price of a byte of flash by the price of a byte of DRAM.
    pub price_ratio: f64,
    /// S_d: bytes of DRAM that the directory takes for a page of flash.
    pub directory_bytes: f64,
    /// S_p: bytes of a page.
    pub page_bytes: f64,
}

/// Pages of each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// |L_r|: DRAM, at least one.
    pub dram_pages: u32,
    /// |L_f|: flash.
    pub flash_pages: u32,
}

impl EquiCost {
    /// 3LA's experiments (§4): prices 1 to 10, entries of 4 bytes, pages of 8 KiB.
    pub const PAPER: Self = Self { price_ratio: 0.10, directory_bytes: 4.0, page_bytes: 8192.0 };

    /// Pages of DRAM that one page of flash takes away, for its price and its directory entry.
    pub fn dram_per_flash(&self) -> f64 {
        self.price_ratio + self.directory_bytes / self.page_bytes
    }

    /// Formula 2: pages of flash for a budget of `b` pages of DRAM and the factor `n`.
    pub fn flash_pages(b: f64, n: f64) -> f64 {
        n * b
    }

    /// Formula 3 without floor and bound, as in table 2: pages of DRAM that are left of `b` beside
    /// `flash_pages` of flash. Below 0: so much flash is beyond the budget.
    pub fn dram_left(&self, b: f64, flash_pages: f64) -> f64 {
        b - flash_pages * self.dram_per_flash()
    }

    /// Formulas 2 and 3: the layers that `b` pages of DRAM buy with the factor `n`; 0 is two layers. Numbers
    /// beyond 32 bits are cut off.
    pub fn layers(&self, b: u32, n: f64) -> Layers {
        let flash = Self::flash_pages(f64::from(b), n).floor();
        let dram = self.dram_left(f64::from(b), flash).floor().max(1.0);
        Layers { dram_pages: dram as u32, flash_pages: flash as u32 }
    }

    /// Formula 4: the factor `n` at which no DRAM is left.
    pub fn n_limit(&self) -> f64 {
        1.0 / self.dram_per_flash()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(value: f64, digits: i32) -> f64 {
        (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
    }

    #[test]
    fn table_2s_dram_is_formula_3_without_its_floor() {
        let ours = [2.0, 4.0, 6.0, 8.0].map(|n| {
            let flash = EquiCost::flash_pages(1000.0, n);
            (flash, rounded(EquiCost::PAPER.dram_left(1000.0, flash), 2))
        });
        assert_eq!(ours, [(2000.0, 799.02), (4000.0, 598.05), (6000.0, 397.07), (8000.0, 196.09)]);
    }

    #[test]
    fn formula_3_floors_and_keeps_a_page() {
        let layers = [0.0, 2.0, 8.0, 9.9, 12.0].map(|n| EquiCost::PAPER.layers(1000, n));
        let pages = layers.map(|layers| (layers.dram_pages, layers.flash_pages));
        assert_eq!(pages, [(1000, 0), (799, 2000), (196, 8000), (5, 9900), (1, 12_000)]);
    }

    #[test]
    fn the_factor_ends_just_below_the_ratio_of_prices() {
        let limit = EquiCost::PAPER.n_limit();
        assert!((limit - 9.951_4).abs() < 1e-4, "{limit}");
        assert!(EquiCost::PAPER.dram_left(1000.0, 1000.0 * limit).abs() < 1e-9);
        let without_directory = EquiCost { directory_bytes: 0.0, ..EquiCost::PAPER };
        assert_eq!(without_directory.n_limit(), 10.0);
    }
}
