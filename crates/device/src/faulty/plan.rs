//! Fault plans: which fault strikes which device at which operation.
//!
//! Invariant: faults depend only on the plan and on the order of operations. Operations are counted over all
//! devices of a plan, from 1. Each request of a batch, each sync and each discard is one.

use entresol_runtime::rng::Rng;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use std::time::Duration;

/// A fault of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Power fails at a write, sync or read: the simulation is halted ([`entresol_runtime::sim::halt`]) with
    /// the operation and the rest of its batch under way. Outside a simulation, all devices of the plan
    /// refuse all further requests.
    Crash,
    /// A read fails.
    ReadError,
    /// A write fails without effect.
    WriteError,
    /// A write fails without effect because the medium is full.
    NoSpace,
    /// A sync fails. No write is lost or durable yet.
    SyncError,
    /// A sync fails, and the writes since the last one are lost (as Linux drops dirty pages).
    SyncErrorLosingWrites,
    /// A sync fails as on ext4: the writes since the last one can still be read, count as clean, and never
    /// become durable. They are not noticeable until the page cache is dropped or power fails.
    SyncErrorKeepingPages,
    /// A sync succeeds without making anything durable.
    SyncLies,
    /// A write is acknowledged and lost.
    LostWrite,
    /// A write is misdirected to another place on the device.
    MisdirectedWrite,
    /// A write is done at its place and at another place too.
    DuplicatedWrite,
    /// One bit in the range of a read is flipped permanently on the medium.
    BitRot,
    /// The device dies: it refuses all further requests.
    Death,
    /// A bug of the device: the calling thread panics.
    Panic,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Sync,
    Discard,
}

impl Fault {
    fn suits(self, operation: Operation) -> bool {
        match self {
            Fault::Crash | Fault::Death | Fault::Panic => true,
            Fault::ReadError | Fault::BitRot => operation == Operation::Read,
            Fault::SyncError
            | Fault::SyncErrorLosingWrites
            | Fault::SyncErrorKeepingPages
            | Fault::SyncLies => operation == Operation::Sync,
            Fault::WriteError
            | Fault::NoSpace
            | Fault::LostWrite
            | Fault::MisdirectedWrite
            | Fault::DuplicatedWrite => operation == Operation::Write,
        }
    }
}

/// A planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// It strikes at the first operation with at least this number that is of its kind (a sync error at a
    /// sync, …).
    pub at: u64,
    /// Only on the device of this name; on any if `None`.
    pub device: Option<String>,
    /// The fault.
    pub fault: Fault,
    /// Every time from then on, instead of once.
    pub forever: bool,
}

/// A time in which a device fails, and after which it works again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// It begins at the first operation with at least this number, of any device.
    pub at: u64,
    /// From then on.
    pub lasts: Duration,
    /// The name of the device.
    pub device: String,
    /// A request of a kind that one of them strikes fails with it.
    pub faults: Vec<Fault>,
}

/// An outage, with what it has done.
#[derive(Debug)]
struct Outing {
    outage: Outage,
    begun: Option<Time>,
    struck: Option<Time>,
    is_over: bool,
}

impl Outing {
    /// The fault of an operation, the `number`th, if it strikes.
    fn strikes(&mut self, number: u64, device: &str, operation: Operation) -> Option<Fault> {
        if self.is_over || number < self.outage.at {
            return None;
        }
        let time = now();
        if time.since(*self.begun.get_or_insert(time)) > self.outage.lasts {
            self.is_over = true;
            return None;
        }
        let mut faults = self.outage.faults.iter().copied();
        let fault = faults.find(|fault| fault.suits(operation) && self.outage.device == device)?;
        self.struck = Some(time);
        Some(fault)
    }
}

#[derive(Debug)]
struct PlanState {
    operations: u64,
    injections: Vec<Injection>,
    outing: Option<Outing>,
    struck: u64,
    crashed: bool,
    /// Whether requests of a batch are carried out in any order.
    any_order: bool,
    rng: Rng,
}

/// The faults of one world; shared by all its devices.
#[derive(Debug)]
pub struct FaultPlan(TinyMutex<PlanState>);

impl FaultPlan {
    /// A plan with these faults. `seed` decides where misdirected writes land and which bits rot.
    pub fn new(seed: u64, injections: Vec<Injection>) -> Self {
        let rng = Rng::new(seed);
        let any_order = false;
        Self(TinyMutex::new(
            Rank::FaultPlan,
            PlanState { operations: 0, injections, outing: None, struck: 0, crashed: false, any_order, rng },
        ))
    }

    /// Makes the requests of each batch overlap, and end in an order that the seed picks.
    #[must_use]
    pub fn in_any_order(self) -> Self {
        self.0.lock().any_order = true;
        self
    }

    /// The order in which `requests` requests of a batch are carried out.
    pub(super) fn order(&self, requests: usize) -> Vec<usize> {
        let mut state = self.0.lock();
        let mut order: Vec<usize> = (0..requests).collect();
        if state.any_order {
            for left in (1..requests).rev() {
                let picked = state.rng.below(left as u64 + 1) as usize;
                order.swap(left, picked);
            }
        }
        order
    }

    /// A plan without faults, which only counts operations.
    pub fn none() -> Self {
        Self::new(0, Vec::new())
    }

    /// Power fails at the operation with this number, counted from 1.
    pub fn crash_at(operation: u64) -> Self {
        Self::new(
            operation,
            vec![Injection { at: operation, device: None, fault: Fault::Crash, forever: false }],
        )
    }

    /// One of each of `faults`, each once, at operations that the seed picks from `1 ..= operations`.
    pub fn random(seed: u64, operations: u64, faults: &[Fault]) -> Self {
        let mut rng = Rng::new(seed);
        let injections = faults
            .iter()
            .map(|&fault| Injection {
                at: 1 + rng.below(operations.max(1)),
                device: None,
                fault,
                forever: false,
            })
            .collect();
        Self::new(rng.next_u64(), injections)
    }

    /// Adds a fault.
    pub fn inject(&self, injection: Injection) {
        self.0.lock().injections.push(injection);
    }

    /// Lets a device fail for a while. One outage at a time: one that was planned before is over.
    pub fn plan_outage(&self, outage: Outage) {
        let outing = Outing { outage, begun: None, struck: None, is_over: false };
        self.0.lock().outing = Some(outing);
    }

    /// The device of the outage works from here on.
    pub fn end_outage(&self) {
        if let Some(outing) = &mut self.0.lock().outing {
            outing.is_over = true;
        }
    }

    /// When the outage has let a request fail last.
    pub fn outage_struck(&self) -> Option<Time> {
        self.0.lock().outing.as_ref()?.struck
    }

    /// Operations so far, over all devices.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// How often a fault has struck.
    pub fn struck(&self) -> u64 {
        self.0.lock().struck
    }

    /// Whether power has failed.
    pub fn has_crashed(&self) -> bool {
        self.0.lock().crashed
    }

    /// Counts an operation, and returns the fault that strikes it.
    pub(super) fn next(&self, device: &str, operation: Operation) -> Option<Fault> {
        let mut state = self.0.lock();
        state.operations += 1;
        let number = state.operations;
        if let Some(fault) =
            state.outing.as_mut().and_then(|outing| outing.strikes(number, device, operation))
        {
            state.struck += 1;
            return Some(fault);
        }
        if state.injections.is_empty() {
            return None;
        }
        let index = state.injections.iter().position(|injection| {
            injection.at <= number
                && injection.fault.suits(operation)
                && injection.device.as_deref().is_none_or(|name| name == device)
        })?;
        state.struck += 1;
        let Injection { fault, forever, .. } = state.injections[index];
        if !forever {
            state.injections.remove(index);
        }
        state.crashed |= fault == Fault::Crash;
        drop(state);
        assert!(fault != Fault::Panic, "{device} panics at operation {number}, as the fault plan says");
        Some(fault)
    }

    /// A random number below `bound` for a fault's details.
    pub(super) fn below(&self, bound: u64) -> u64 {
        self.0.lock().rng.below(bound)
    }
}
