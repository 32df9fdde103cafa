//! Values over n, the share of flash, as 3LA's claims compare them.

use super::{FACTORS, POLICIES, Run, Workload};
use crate::paper::Check;
use entresol_core::PolicyKind;

pub(super) fn shown(values: &[f64], digits: usize) -> String {
    values.iter().map(|value| format!("{value:.digits$}")).collect::<Vec<_>>().join(" → ")
}

/// Values over n for each algorithm, judged together.
pub(super) fn over_n(
    workload: &Workload,
    b: u32,
    (what, digits): (&str, usize),
    of: impl Fn(&Run) -> f64,
    agrees: impl Fn(PolicyKind, &[f64]) -> bool,
) -> Vec<Check> {
    let check = |policy: PolicyKind| {
        let values: Vec<f64> = workload.over_n(b, policy).into_iter().map(&of).collect();
        (values.len() == FACTORS.len()).then(|| Check {
            agrees: agrees(policy, &values),
            numbers: format!("{} {what} {}", policy.name(), shown(&values, digits)),
        })
    };
    POLICIES.into_iter().filter_map(check).collect()
}

pub(super) fn falls(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] < pair[0])
}

pub(super) fn rises(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] > pair[0])
}

/// Checks of the workloads that write: all but the one that stands for figure 4.
pub(super) fn writers(workloads: &[Workload], check: impl Fn(&Workload) -> Vec<Check>) -> Vec<Check> {
    workloads.iter().filter(|workload| !workload.is_read_only()).flat_map(check).collect()
}
