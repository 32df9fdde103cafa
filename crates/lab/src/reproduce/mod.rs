//! The papers' figures, reproduced: each paper is a [`Chapter`] of numbers (the paper's with ours) and
//! claims (judged).
//!
//! To add a paper: a file here with `pub fn chapter(context: &Context<'_>) -> anyhow::Result<Chapter>`, and a
//! line in [`Paper::ALL`], in [`Paper::claims`] and in `run`. The paper's numbers and claims stand in
//! `crate::paper`; how to add a claim: [`crate::paper::claim`].
//!
//! Invariants: a claim is judged by numbers that were computed in this run, and a chapter judges each claim
//! of its paper once. What differs from the paper's set-up is said in the chapter, and a claim that does not
//! hold says why, as far as we know.

mod chapter;
mod face;
mod rw;
mod sbp;
mod sce;
mod three_layer;

pub use chapter::{Chapter, Row, Rows};
pub use three_layer::equi_cost_run;

use crate::paper::{self, Judged, Statement};
use std::path::PathBuf;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paper {
    /// Kang, Lee, Moon: Flash-based Extended Cache for Higher Throughput and Faster Recovery, PVLDB 5(11),
    /// 2012.
    Face,
    /// Kim: Efficient Flash Cache Management in Online Transaction Processing Server, Sogang University,
    /// 2015.
    Rw,
    /// Ou, Härder: Trading Memory for Performance and Energy, 2011.
    ThreeLayer,
    /// Kim et al.: How could a flash cache degrade database performance rather than improve it?, INFLOW 2014.
    Sce,
    /// Bhattacharjee et al.: Enhancing Recovery Using an SSD Buffer Pool Extension, DaMoN 2011.
    Sbp,
}

impl Paper {
    /// All that can be reproduced, in the order of `reproduce all`.
    pub const ALL: [Paper; 5] = [Paper::Face, Paper::Sce, Paper::Sbp, Paper::ThreeLayer, Paper::Rw];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Paper::Face => "face",
            Paper::Rw => "rw",
            Paper::ThreeLayer => "3la",
            Paper::Sce => "sce",
            Paper::Sbp => "sbp",
        }
    }

    /// The paper of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|paper| paper.name() == name)
    }

    /// What it claims, in the order in which a chapter judges it.
    pub fn claims(self) -> Vec<Statement> {
        match self {
            Paper::Face => paper::face::claims(),
            Paper::Rw => paper::rw::claims(),
            Paper::ThreeLayer => paper::three_layer::claims(),
            Paper::Sce => paper::sce::claims(),
            Paper::Sbp => paper::sbp::claims(),
        }
    }

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Paper::Face => {
                "FaCE: Flash-Based Extended Cache for Higher Throughput and Faster Recovery (VLDB 2012)"
            }
            Paper::Rw => {
                "RW: Efficient Flash Cache Management in Online Transaction Processing Server (thesis, 2015)"
            }
            Paper::ThreeLayer => "3LA: Trading Memory for Performance and Energy (2011)",
            Paper::Sce => {
                "SCE: How could a flash cache degrade database performance rather than improve it? (INFLOW 2014)"
            }
            Paper::Sbp => "Enhancing Recovery Using an SSD Buffer Pool Extension (DaMoN 2011)",
        }
    }
}

/// How much work to put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Small databases and short runs: minutes on two cores for all papers together. Directions, not digits.
    Quick,
    /// Half an hour on two cores for all papers together.
    Full,
}

/// What chapters are written with.
pub struct Context<'a> {
    /// How much work.
    pub effort: Effort,
    /// Seeds everything random.
    pub seed: u64,
    /// The folder with captured traces, if there is one. Chapters that would use one say so when it is not
    /// there.
    pub traces: Option<PathBuf>,
    /// Told what is being done, and which share of the chapter is behind.
    pub progress: &'a (dyn Fn(&str, f64) + Sync),
}

/// Reproduces a paper.
///
/// # Errors
/// Whatever keeps an experiment from running: too little memory, a trace that cannot be read.
///
/// # Panics
/// If the chapter does not judge exactly the paper's claims: a programmer's mistake.
pub fn run(paper: Paper, context: &Context<'_>) -> anyhow::Result<Chapter> {
    let chapter = match paper {
        Paper::Face => face::chapter(context),
        Paper::Rw => rw::chapter(context),
        Paper::ThreeLayer => three_layer::chapter(context),
        Paper::Sce => sce::chapter(context),
        Paper::Sbp => sbp::chapter(context),
    }?;
    assert_complete(paper, &chapter.claims);
    Ok(chapter)
}

/// Asserts that the paper's claims were judged, each once and in order.
fn assert_complete(paper: Paper, judged: &[Judged]) {
    let stated: Vec<&str> = paper.claims().iter().map(|statement| statement.id).collect();
    let judged: Vec<&str> = judged.iter().map(|judged| judged.verdict.id).collect();
    assert_eq!(
        judged,
        stated,
        "{}: the chapter judges other claims than `Paper::claims` lists",
        paper.name()
    );
}

#[cfg(test)]
mod tests;
