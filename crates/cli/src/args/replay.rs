//! What every replay of a trace is told about DRAM and about the load.

use super::values;
use clap::Args;
use entresol_lab::replay::{Arrival, Replacement};

/// What DRAM does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Layers")]
pub struct DramArgs {
    /// Which DRAM frame is evicted first: lru, fifo or clock
    #[arg(long, value_name = "NAME", value_parser = values::dram_replacement, default_value = "lru")]
    pub replacement: Replacement,
    /// A write replaces all of its page, which is not read first: as in traces of block devices
    #[arg(long)]
    pub whole_writes: bool,
}

/// The arrival of references, and the least time of one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machine")]
pub struct LoadArgs {
    /// Clients of a closed loop: each takes the next reference when it is free
    #[arg(long, value_name = "N", value_parser = values::clients, default_value = "8", allow_negative_numbers = true)]
    clients: u32,
    /// References arrive at their times in the trace instead of in a closed loop
    #[arg(long, conflicts_with = "clients")]
    timed: bool,
    /// Microseconds that a DRAM hit takes
    #[arg(long, value_name = "µS", value_parser = values::hit_us, default_value = "2", allow_negative_numbers = true)]
    hit_us: f64,
}

impl LoadArgs {
    /// The arrival of references.
    pub fn arrival(&self) -> Arrival {
        if self.timed { Arrival::Timed } else { Arrival::Closed { clients: self.clients } }
    }

    /// Nanoseconds that a DRAM hit takes.
    pub fn hit_ns(&self) -> u64 {
        (self.hit_us * 1e3).round() as u64
    }
}
