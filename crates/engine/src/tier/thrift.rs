//! The tier's budget of writes to flash: whoever has done an I/O looks at it, if it is time to.
//!
//! A policy that weighs costs is told what a write must be worth, and a ring gives no second chances while
//! writes are scarce. Whether pages that were read enter at all, and where dirty ones go, is for the tier's
//! owner to decide by [`Allowed`].

use super::FlashTier;
use super::back::Back;
use crate::budget::{Allowed, Budget};
use entresol_core::Costs;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// There is no budget.
const NEVER: u64 = u64::MAX;

/// See the module's header.
pub(crate) struct Thrift {
    /// When the next look is due, in nanoseconds.
    due: AtomicU64,
    ledger: TinyMutex<Ledger>,
}

struct Ledger {
    budget: Budget,
    /// The last look, and the pages that were written until then.
    last: Time,
    written: u64,
}

impl Thrift {
    /// A tier that is opened now.
    pub fn new(budget: Budget) -> Self {
        let due = if budget.is_limited() { 0 } else { NEVER };
        let ledger = Ledger { budget, last: now(), written: 0 };
        Self { due: AtomicU64::new(due), ledger: TinyMutex::new(Rank::WriteBudget, ledger) }
    }
}

impl FlashTier {
    /// Turns second chances off (`true`) or on, for an owner who wants fewer writes to flash.
    pub fn spare_writes(&self, spares: bool) {
        self.back.spares_writes.store(spares, Relaxed);
    }

    /// From now on a write to flash must promise so many uses, in thousandths, where the policy weighs that
    /// ([`entresol_core::Facts::weighs_costs`]): for an owner who wants fewer writes. 0: as the devices'
    /// times have it.
    pub fn set_write_worth(&self, permille: u32) {
        self.back.set_write_worth(permille);
    }

    /// From now on at most so many bytes are written to flash in a day ([`Budget`]). `None`: as many as there
    /// are.
    pub fn limit_writes(&self, bytes_per_day: Option<u64>) {
        self.back.limit_writes(Budget::new(bytes_per_day));
    }

    /// What may be written to flash now. A policy that weighs what a write is worth keeps to that by itself;
    /// with another one, its owner keeps pages out.
    pub fn allowed_writes(&self) -> Allowed {
        self.back.allowed_writes()
    }
}

impl Back {
    /// From now on there is this budget.
    pub(crate) fn limit_writes(&self, budget: Budget) {
        let is_limited = budget.is_limited();
        let written = self.front.tallies().flash_writes.get();
        *self.thrift.ledger.lock() = Ledger { budget, last: now(), written };
        self.thrift.due.store(if is_limited { 0 } else { NEVER }, SeqCst);
        if !is_limited {
            self.spare_nothing();
        }
    }

    fn spare_nothing(&self) {
        self.spares_writes.store(false, SeqCst);
        self.set_write_worth(0);
    }

    /// What may be written.
    pub(crate) fn allowed_writes(&self) -> Allowed {
        self.look_at_budget();
        self.thrift.ledger.lock().budget.allowed()
    }

    /// To be called after an I/O, without the partition's latch.
    pub(crate) fn look_at_budget(&self) {
        let due = self.thrift.due.load(Relaxed);
        if due == NEVER {
            return;
        }
        let time = now();
        let next = time.0 + EVERY.as_nanos() as u64;
        if time.0 < due || self.thrift.due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            return;
        }
        let (allowed, worth) = {
            let mut ledger = self.thrift.ledger.lock();
            let passed = time.since(std::mem::replace(&mut ledger.last, time));
            let written = self.front.tallies().flash_writes.get();
            let pages = written - std::mem::replace(&mut ledger.written, written);
            ledger.budget.tick(passed, pages * self.front.page_bytes() as u64);
            (ledger.budget.allowed(), ledger.budget.write_worth_permille())
        };
        self.spares_writes.store(!allowed.chances, SeqCst);
        self.set_write_worth(worth);
        if self.thrift.due.load(SeqCst) == NEVER {
            // The budget was lifted meanwhile, and nobody looks again.
            self.spare_nothing();
        }
    }

    /// From now on a write must promise so many uses, in thousandths, where the policy weighs that.
    pub(crate) fn set_write_worth(&self, permille: u32) {
        let before = self.write_worth_permille.swap(permille, Relaxed);
        if before != permille && self.front.config.policy.facts().weighs_costs {
            let costs = Costs { write_worth_permille: permille, ..self.front.options.costs };
            self.front.shadow.set_costs(&costs);
            // A cache that was given up says so where it is used.
            let _ = self.front.with(|partition| partition.set_costs(&costs));
        }
    }
}
