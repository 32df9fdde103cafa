//! Power and energy of the layers (3LA §4.1, formula 8, under assumption A1: power is linear to the capacity
//! in use).
//!
//! ```text
//! (8)  P_r = |L_r| × S_p × P_r^u        P_f alike
//!      E   = (P_r + P_f) × T_v
//! ```
//!
//! The disk layer is left out, as in the paper: it is the same with and without flash.

/// Bytes of a gigabyte in unit powers and prices.
const GIGABYTE: f64 = 1e9;

/// Formula 8: the power, watts, of a layer of `pages` (fractions as in table 2) of `page_bytes` at a unit
/// power of `watts_per_gb` (10⁹ bytes).
pub fn layer_watts(pages: f64, page_bytes: f64, watts_per_gb: f64) -> f64 {
    pages * page_bytes * watts_per_gb / GIGABYTE
}

/// The energy, joules, of `watts` during a virtual time of `tv_ms` milliseconds.
pub fn energy_j(watts: f64, tv_ms: f64) -> f64 {
    watts * tv_ms / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::EquiCost;
    use crate::paper::three_layer::{RAM_WATTS_PER_GB, SSD_WATTS_PER_GB, TABLE_2};

    fn rounded(value: f64, digits: i32) -> f64 {
        (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
    }

    #[test]
    fn table_2_comes_out_to_its_last_digit() {
        for row in TABLE_2 {
            let dram = EquiCost::PAPER.dram_left(1000.0, row.flash_pages);
            assert_eq!(rounded(dram, 2), row.dram_pages, "{row:?}");
            let (flash, dram) = (
                layer_watts(row.flash_pages, 8192.0, SSD_WATTS_PER_GB) * 1e3,
                layer_watts(dram, 8192.0, RAM_WATTS_PER_GB) * 1e3,
            );
            assert_eq!(rounded(flash, 3), row.flash_mw, "{row:?}");
            assert_eq!(rounded(dram, 3), row.dram_mw, "{row:?}");
            assert_eq!(rounded(flash + dram, 3), row.both_mw, "{row:?}");
            // Virtual times are printed in whole seconds, so energies agree to half a per mille.
            let energy = energy_j((flash + dram) / 1e3, row.tv_s * 1e3);
            assert!((energy / row.energy_j - 1.0).abs() < 2e-3, "{energy} {row:?}");
        }
    }
}
