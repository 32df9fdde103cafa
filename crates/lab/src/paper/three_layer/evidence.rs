//! What 3LA's claims are judged by: traces, replayed with every amount of money and every share of flash.

use super::{RAM_WATTS_PER_GB, SSD_WATTS_PER_GB};
use crate::cost::{EquiCost, energy_j, layer_watts};
use crate::replay::SimulationResult;
use entresol_core::PolicyKind;

/// The algorithms of the flash layer.
pub(crate) const POLICIES: [PolicyKind; 2] = [PolicyKind::Glb, PolicyKind::Loc];
/// b of table 2.
pub(crate) const B_TABLE_2: u32 = 1000;
/// n of table 2 and figure 2b.
pub(crate) const FACTORS: [f64; 4] = [2.0, 4.0, 6.0, 8.0];

/// One run.
pub(crate) struct Run {
    /// Money, in pages of DRAM.
    pub b: u32,
    /// 0: two layers.
    pub n: f64,
    /// `None`: two layers.
    pub policy: Option<PolicyKind>,
    pub result: SimulationResult,
}

impl Run {
    /// T_v, seconds.
    pub fn tv_s(&self) -> f64 {
        self.result.tv_ms / 1e3
    }

    /// E, joules, with powers from sizes without formula 3's floor, as table 2 has them.
    pub fn energy_j(&self) -> f64 {
        let flash = EquiCost::flash_pages(f64::from(self.b), self.n);
        let dram = EquiCost::PAPER.dram_left(f64::from(self.b), flash);
        energy_j(watts(flash, dram), self.result.tv_ms)
    }
}

/// P_f + P_r of so many pages, watts.
pub(crate) fn watts(flash: f64, dram: f64) -> f64 {
    let page = EquiCost::PAPER.page_bytes;
    layer_watts(flash, page, SSD_WATTS_PER_GB) + layer_watts(dram, page, RAM_WATTS_PER_GB)
}

/// Slots that a flash layer keeps free or becoming free, and some more: sixteen groups of 64.
const KEPT_FREE: u32 = 1024;

/// See [`Workload::enough`].
pub(crate) fn enough(pages: u32) -> [u32; 2] {
    let holds_all = |b: &u32| 8 * u64::from(*b) >= u64::from(pages) + u64::from(KEPT_FREE);
    let steps = (0..20).map(|step| B_TABLE_2 << step);
    let b = steps.into_iter().find(holds_all).unwrap_or(pages);
    [b, 2 * b]
}

/// The figure of the read-only load.
pub(crate) const READ_ONLY: &str = "figure 4";

/// All runs over one trace.
pub(crate) struct Workload {
    /// Which of the paper's figures it stands for.
    pub figure: &'static str,
    pub name: String,
    /// Pages that the trace names.
    pub pages: u32,
    pub runs: Vec<Run>,
    /// The smallest b at which n = 2 gives flash for all pages.
    pub b_all: u32,
}

impl Workload {
    /// It stands for the paper's read-only load.
    pub fn is_read_only(&self) -> bool {
        self.figure == READ_ONLY
    }

    pub fn at(&self, b: u32, policy: Option<PolicyKind>, n: f64) -> Option<&Run> {
        self.runs.iter().find(|run| (run.b, run.policy, run.n) == (b, policy, n))
    }

    /// The two layers of that money.
    pub fn two_layers(&self, b: u32) -> Option<&Run> {
        self.at(b, None, 0.0)
    }

    /// The smallest b of the paper's charts (1000, 2000, 4000 and so on) at which n = 8 gives flash for all
    /// pages, and twice that.
    pub fn enough(&self) -> [u32; 2] {
        enough(self.pages)
    }

    /// Runs of a policy at one b, in the order of n.
    pub fn over_n(&self, b: u32, policy: PolicyKind) -> Vec<&Run> {
        FACTORS.iter().filter_map(|n| self.at(b, Some(policy), *n)).collect()
    }

    /// b of the figures, in order; `b_all` is not among them, nor as many as there are pages.
    pub fn budgets(&self) -> Vec<u32> {
        let two_layers = self.runs.iter().filter(|run| run.policy.is_none());
        let mut budgets: Vec<u32> =
            two_layers.map(|run| run.b).filter(|b| ![self.b_all, self.pages].contains(b)).collect();
        budgets.sort_unstable();
        budgets.dedup();
        budgets
    }
}
