//! The tier's budget of writes to flash: a task that has done an I/O looks at it, when it is due.
//!
//! A policy that weighs costs is told what a write must be worth, and a ring gives no second chances while
//! writes are scarce. Whether pages that were read enter at all, and where dirty ones go, is for the tier's
//! owner to decide by [`Allowed`].

use crate::TierOptions;
use crate::access::{Access, BoardRef, Directory, FlashPages};
use crate::budget::{Allowed, Budget};
use crate::shadow::Shadow;
use entresol_core::Costs;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{Time, now};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// There is no budget.
const NEVER: u64 = u64::MAX;

/// See the module's header.
pub(crate) struct WriteBudget {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    flash_pages: Arc<FlashPages>,
    board: BoardRef,
    shadow: Arc<Shadow>,
    /// When the next look is due, in nanoseconds.
    due: AtomicU64,
    ledger: TinyMutex<Ledger>,
    /// No second chances: the owner wants fewer writes to flash.
    spares_writes: AtomicBool,
    /// Uses that a write to flash must promise, in thousandths.
    write_worth_permille: AtomicU32,
}

struct Ledger {
    budget: Budget,
    /// The last look, and the pages that were written until then.
    last: Time,
    written: u64,
}

impl WriteBudget {
    /// Of a tier that is opened now, as the front's options have it.
    pub(crate) fn new(access: &Arc<Access>) -> Self {
        let budget = access.options.write_budget.begin();
        let due = if budget.is_limited() { 0 } else { NEVER };
        let ledger = Ledger { budget, last: now(), written: 0 };
        Self {
            due: AtomicU64::new(due),
            ledger: TinyMutex::new(Rank::WriteBudget, ledger),
            spares_writes: AtomicBool::new(false),
            write_worth_permille: AtomicU32::new(access.options.costs.write_worth_permille),
            options: access.options.clone(),
            directory: access.directory.clone(),
            flash_pages: access.flash_pages.clone(),
            board: access.board.clone(),
            shadow: access.shadow.clone(),
        }
    }

    /// From now on there is this budget.
    pub(crate) fn limit(&self, budget: Budget) {
        let is_limited = budget.is_limited();
        let written = self.board.tallies.flash_writes.get();
        *self.ledger.lock() = Ledger { budget, last: now(), written };
        self.due.store(if is_limited { 0 } else { NEVER }, SeqCst);
        if !is_limited {
            self.spare_nothing();
        }
    }

    fn spare_nothing(&self) {
        self.spares_writes.store(false, SeqCst);
        self.set_write_worth(0);
    }

    /// Turns second chances off (`true`) or on.
    pub(crate) fn spare_writes(&self, spares: bool) {
        self.spares_writes.store(spares, Relaxed);
    }

    /// Second chances are off.
    pub(crate) fn spares_writes(&self) -> bool {
        self.spares_writes.load(Relaxed)
    }

    /// What may be written.
    pub(crate) fn allowed(&self) -> Allowed {
        self.look();
        self.ledger.lock().budget.allowed()
    }

    /// To be called after an I/O, without the partition's latch.
    pub(crate) fn look(&self) {
        let due = self.due.load(Relaxed);
        if due == NEVER {
            return;
        }
        let time = now();
        let next = time.0 + EVERY.as_nanos() as u64;
        if time.0 < due || self.due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            return;
        }
        let (allowed, worth) = {
            let mut ledger = self.ledger.lock();
            let passed = time.since(std::mem::replace(&mut ledger.last, time));
            let written = self.board.tallies.flash_writes.get();
            let pages = written - std::mem::replace(&mut ledger.written, written);
            ledger.budget.tick(passed, pages * self.flash_pages.page_bytes as u64);
            (ledger.budget.allowed(), ledger.budget.write_worth_permille())
        };
        self.spares_writes.store(!allowed.chances, SeqCst);
        self.set_write_worth(worth);
        if self.due.load(SeqCst) == NEVER {
            // The budget was lifted meanwhile, and no task looks again.
            self.spare_nothing();
        }
    }

    /// From now on a write must promise so many uses, in thousandths, where the policy weighs that.
    pub(crate) fn set_write_worth(&self, permille: u32) {
        let before = self.write_worth_permille.swap(permille, Relaxed);
        if before != permille && self.directory.config.policy.facts().weighs_costs {
            let costs = Costs { write_worth_permille: permille, ..self.options.costs };
            self.shadow.set_costs(&costs);
            // A cache that was given up says so where it is used.
            let _ = self.directory.with(|partition| partition.set_costs(&costs));
        }
    }
}
