//! Failures at the C interface: a code for the program, a sentence for a person.

use crate::types::code;
use entresol_engine::TierError;
use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a sentence for which there is memory before anything fails.
const SENTENCE_BYTES: usize = 1024;

thread_local! {
    /// The last failure of this process. It is leaked: a thread's destructors may run when the shared memory
    /// is gone.
    static SENTENCE: &'static RefCell<String> =
        Box::leak(Box::new(RefCell::new(String::with_capacity(SENTENCE_BYTES))));
}

/// Takes the memory that a failure needs.
pub(crate) fn reserve() {
    SENTENCE.with(|sentence| sentence.borrow_mut().clear());
}

/// Keeps a sentence for `ent_error`.
pub(crate) fn say(said: &dyn std::fmt::Display) {
    SENTENCE.with(|sentence| {
        let mut sentence = sentence.borrow_mut();
        sentence.clear();
        // A string takes everything.
        let _ = write!(sentence, "{said}");
    });
}

/// The last message.
pub(crate) fn sentence() -> String {
    SENTENCE.with(|sentence| sentence.borrow().clone())
}

/// The code of a failure of a running cache.
pub(crate) fn code_of(error: &TierError) -> i32 {
    match error {
        TierError::Damaged { .. } | TierError::Unreadable { .. } | TierError::Lost { .. } => code::DAMAGED,
        TierError::Gone(_) => code::GONE,
        TierError::Interrupted => code::INTERRUPTED,
        TierError::Config(_) => code::REFUSED,
        // A front says in this way that the back has failed.
        TierError::Device { .. }
        | TierError::Poisoned { .. }
        | TierError::Refused(_)
        | TierError::NotTaken { .. }
        | TierError::Losing(_) => code::FAILED,
    }
}

/// Runs the body of a C function. A panic is a bug, and the process cannot continue: it aborts, and the
/// postmaster starts everything anew. (The extension's build has no unwinding, and aborts in the panic.)
pub(crate) fn guarded<T>(body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(_) => std::process::abort(),
    }
}
