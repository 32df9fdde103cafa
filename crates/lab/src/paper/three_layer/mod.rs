//! 3LA's numbers (Ou, Härder: *Trading Memory for Performance and Energy*; simulations of §4.1, bank trace of
//! §4.2).
//!
//! Figures 2 to 6 are drawn, not printed; what the text says of them stands here as constants and as claims.

mod discussion;
mod evidence;
mod figures;
mod over_n;
mod shutdowns;
mod table_2;

pub(crate) use evidence::{B_TABLE_2, FACTORS, POLICIES, READ_ONLY, Run, Workload, enough, watts};
pub(crate) use shutdowns::Shutdown;

use super::claim::{Claim, Judged, Statement, judged, statements};

/// The claims in the order of the paper.
const CLAIMS: [&[Claim<[Workload]>]; 3] = [table_2::CLAIMS, figures::CLAIMS, discussion::CLAIMS];

/// What the paper claims, in the order in which it is judged.
pub fn claims() -> Vec<Statement> {
    statements(CLAIMS.into_iter().flatten()).chain(statements(shutdowns::CLAIMS)).collect()
}

/// Judges all claims of replayed traces. The first workload is TPC-C, the second the read-only one.
pub(crate) fn judged_on(workloads: &[Workload]) -> Vec<Judged> {
    judged(CLAIMS.into_iter().flatten(), &[workloads])
}

/// Judges the claims of shutdowns, which are the last ones.
pub(crate) fn judged_on_shutdowns(all: &[Shutdown]) -> Vec<Judged> {
    judged(shutdowns::CLAIMS, &[all])
}

/// A row of table 2: the TPC-E trace with money for b = 1000 pages of DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyRow {
    /// The flash layer's algorithm, by its name on the command line; "none": two layers.
    pub policy: &'static str,
    /// n; 0 for two layers.
    pub n: f64,
    /// |L_f|, pages of 8 KiB.
    pub flash_pages: f64,
    /// |L_r|, pages of 8 KiB.
    pub dram_pages: f64,
    /// P_f, milliwatts.
    pub flash_mw: f64,
    /// P_r, milliwatts.
    pub dram_mw: f64,
    /// P_f + P_r, milliwatts.
    pub both_mw: f64,
    /// T_v, seconds.
    pub tv_s: f64,
    /// E, joules.
    pub energy_j: f64,
}

const fn row(policy: &'static str, layers: [f64; 3], milliwatts: [f64; 3], out: [f64; 2]) -> EnergyRow {
    EnergyRow {
        policy,
        n: layers[0],
        flash_pages: layers[1],
        dram_pages: layers[2],
        flash_mw: milliwatts[0],
        dram_mw: milliwatts[1],
        both_mw: milliwatts[2],
        tv_s: out[0],
        energy_j: out[1],
    }
}

const N_2: ([f64; 3], [f64; 3]) = ([2.0, 2000.0, 799.02], [0.014, 3.292, 3.307]);
const N_4: ([f64; 3], [f64; 3]) = ([4.0, 4000.0, 598.05], [0.029, 2.464, 2.493]);
const N_6: ([f64; 3], [f64; 3]) = ([6.0, 6000.0, 397.07], [0.043, 1.636, 1.679]);
const N_8: ([f64; 3], [f64; 3]) = ([8.0, 8000.0, 196.09], [0.057, 0.808, 0.865]);

/// Table 2: power and energy with b = 1000, TPC-E.
pub const TABLE_2: [EnergyRow; 9] = [
    row("none", [0.0, 0.0, 1000.0], [0.0, 4.121, 4.121], [7059.0, 29.09]),
    row("glb", N_2.0, N_2.1, [5776.0, 19.10]),
    row("glb", N_4.0, N_4.1, [5304.0, 13.22]),
    row("glb", N_6.0, N_6.1, [5061.0, 8.50]),
    row("glb", N_8.0, N_8.1, [4905.0, 4.24]),
    row("loc", N_2.0, N_2.1, [6305.0, 20.85]),
    row("loc", N_4.0, N_4.1, [5372.0, 13.39]),
    row("loc", N_6.0, N_6.1, [5024.0, 8.44]),
    row("loc", N_8.0, N_8.1, [4818.0, 4.17]),
];

/// P_r^u: unit power of DRAM, watts for 10⁹ bytes (§4.1).
pub const RAM_WATTS_PER_GB: f64 = 0.503;
/// P_f^u: unit power of flash, watts for 10⁹ bytes (§4.1).
pub const SSD_WATTS_PER_GB: f64 = 0.000_873;
/// Milliseconds of a read and of a write of HDD3, the high-end disk of table 1.
pub const HDD3_MS: f64 = 2.0;
/// LOC with n = 8 reduced T_v of the TPC-E trace by so much of 2LA's, for b = 1000 to 32,000 (§4.1).
pub const LOC_SAVES: (f64, f64) = (0.32, 0.35);
/// "The buffer layer of 2LA consumed much more energy than those of 3LA (by a factor of six for n = 8)"
/// (§4.1).
pub const ENERGY_FACTOR: f64 = 6.0;

#[cfg(test)]
mod claims_tests;
