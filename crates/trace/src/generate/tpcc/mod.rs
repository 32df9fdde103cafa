//! A model of TPC-C's page references in PostgreSQL: nine tables and their indexes as pages, five
//! transactions as the pages that each statement touches, keys by NURand (TPC-C clause 2.1.6).
//!
//! The statements are go-tpc's; how many pages each touches, and how full pages are, was read off a capture
//! of a real PostgreSQL 15 with eight warehouses. A test compares shares of relations and the miss-ratio
//! curve with that capture. Not modelled: the system catalog, autovacuum, free-space and visibility maps (2 %
//! of the references), page splits.
//!
//! Invariant: the same parameters and seed give the same trace.

mod index;
mod keys;
mod relation;
mod table;
mod transactions;

use super::source::{self, Source, Take};
use super::{check_rate, check_references, refuse, time_us};
use crate::{Trace, TraceError};
use entresol_core::PageId;
use entresol_runtime::rng::Rng;
use relation::Relation;
use std::io;
use transactions::{Database, Step};

/// PostgreSQL's page.
const PAGE_BYTES: u32 = 8192;
/// Most warehouses: their rows are numbered with 32 bits.
const WAREHOUSES_MAX: u32 = 1000;
/// Most clients.
const CLIENTS_MAX: u32 = 1000;
/// Longest run of one client's references before another's: backends run side by side.
const TURN_MAX: u64 = 24;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TpccModel {
    /// Scale: about 75 MB of pages each.
    pub warehouses: u32,
    /// Clients side by side.
    pub clients: u32,
    /// Number of references (changes are in addition).
    pub references: u64,
    /// A steady rate; `None`: no times.
    pub references_per_s: Option<f64>,
    /// The seed.
    pub seed: u64,
}

impl Default for TpccModel {
    /// As the capture was: eight warehouses, four clients; a million references.
    fn default() -> Self {
        Self { warehouses: 8, clients: 4, references: 1_000_000, references_per_s: None, seed: 1 }
    }
}

impl TpccModel {
    /// Generates the trace.
    ///
    /// # Errors
    /// [`TraceError::Option`] if a parameter is out of range.
    pub fn generate(&self) -> Result<Trace, TraceError> {
        source::in_memory(self)
    }
}

impl Source for TpccModel {
    fn name(&self) -> String {
        format!("tpcc, {} warehouses, {} clients, seed {}", self.warehouses, self.clients, self.seed)
    }

    fn page_bytes(&self) -> u32 {
        PAGE_BYTES
    }

    fn objects(&self) -> Vec<&'static str> {
        Relation::ALL.iter().map(|relation| relation.name()).collect()
    }

    fn check(&self) -> Result<(), TraceError> {
        check_references(self.references)?;
        check_rate(self.references_per_s)?;
        for (what, found, max) in
            [("warehouses", self.warehouses, WAREHOUSES_MAX), ("clients", self.clients, CLIENTS_MAX)]
        {
            if found == 0 || found > max {
                return refuse(format!("{found} {what} are not possible; 1 to {max} are"));
            }
        }
        Ok(())
    }

    fn each(&self, take: &mut Take<'_>) -> io::Result<()> {
        let mut rng = Rng::new(self.seed);
        let mut database = Database::new(self.warehouses, &mut rng);
        let mut clients = vec![Client::default(); self.clients as usize];
        let mut references = 0;
        while references < self.references {
            let client = &mut clients[rng.below(u64::from(self.clients)) as usize];
            let turn = 1 + rng.below(TURN_MAX);
            for _ in 0..turn {
                let Some(step) = client.steps.get(client.done) else {
                    client.steps.clear();
                    client.done = 0;
                    database.transaction(&mut rng, &mut client.steps);
                    break;
                };
                if step.op.is_reference() {
                    if references == self.references {
                        break;
                    }
                    references += 1;
                }
                client.done += 1;
                let page = PageId::new(step.relation as u32, step.page);
                take(page, step.op, time_us(self.references_per_s, references.saturating_sub(1)))?;
            }
        }
        Ok(())
    }
}

/// A client in the middle of a transaction.
#[derive(Clone, Default)]
struct Client {
    steps: Vec<Step>,
    done: usize,
}
