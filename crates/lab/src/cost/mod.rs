//! What caches cost, as arithmetic: equal money for DRAM and flash, device times, energy (3LA §4), and how
//! much flash is worth how much DRAM (FaCE §2.2).
//!
//! | file | formulas |
//! |---|---|
//! | `equi_cost` | 3LA eq. 1–4: layers of equal price |
//! | `virtual_time` | 3LA eq. 5–7: device access times |
//! | `energy` | 3LA eq. 8: power and energy of layers |
//! | `break_even` | FaCE §2.2: the flash that saves as much I/O time as more DRAM |
//!
//! Invariant: nothing here is measured or looked up; figures of devices come from `replay::device::Catalogue`
//! alone.

mod break_even;
mod energy;
mod equi_cost;
mod virtual_time;

pub use break_even::BreakEven;
pub use energy::{energy_j, layer_watts};
pub use equi_cost::{EquiCost, Layers};
pub use virtual_time::{AccessCosts, Accesses, virtual_time_ms};
