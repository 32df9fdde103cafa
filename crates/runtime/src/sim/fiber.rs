//! One coroutine: the only place of the runtime with `unsafe` switching code.
//!
//! Invariant: `ACTIVE` is non-null exactly while a fiber runs on this OS thread. It then points to that
//! fiber's own yielder, which is on the fiber's stack until its body returns.
#![allow(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::ptr;

thread_local! {
    static ACTIVE: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
    static STACKS: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
}

/// Most stacks that an OS thread keeps for later simulations.
const STACKS_KEPT_MAX: usize = 512;

pub(super) struct Fiber {
    coroutine: Coroutine<(), (), (), DefaultStack>,
    yielder: *const Yielder<(), ()>,
    stack_bytes: usize,
}

impl Fiber {
    /// A suspended fiber that will run `body`. `body` must not unwind out of the fiber.
    ///
    /// # Safety
    /// Everything that `body` borrows must outlive the fiber, until it is done, dropped or forgotten.
    pub unsafe fn new<F: FnOnce()>(stack_bytes: usize, body: F) -> Box<Self> {
        let stack = take_stack(stack_bytes);
        // SAFETY: the caller promises that what `body` borrows outlives the coroutine.
        let coroutine = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
                ACTIVE.set(yielder);
                body();
            })
        };
        Box::new(Self { coroutine, yielder: ptr::null(), stack_bytes })
    }

    /// Runs the fiber until it suspends or returns; true if it has returned.
    pub fn resume(&mut self) -> bool {
        let outer = ACTIVE.replace(self.yielder);
        let result = self.coroutine.resume(());
        self.yielder = ACTIVE.replace(outer);
        matches!(result, CoroutineResult::Return(()))
    }

    /// Returns the stack of a finished fiber for reuse.
    pub fn recycle(self) {
        let Self { coroutine, stack_bytes, .. } = self;
        if coroutine.done() {
            let stack = coroutine.into_stack();
            STACKS.with_borrow_mut(|stacks| {
                if stacks.len() < STACKS_KEPT_MAX {
                    stacks.push((stack_bytes, stack));
                }
            });
        }
    }
}

/// Suspends the running fiber; returns when it is resumed.
///
/// # Panics
/// If no fiber is running on this thread.
pub(super) fn suspend() {
    let yielder = ACTIVE.get();
    assert!(!yielder.is_null(), "a simulated task can wait only on its own stack");
    // SAFETY: non-null means that the fiber which owns this yielder is running right now (module invariant).
    // That fiber is the caller, so the yielder at the bottom of this stack is alive.
    unsafe { (*yielder).suspend(()) }
}

fn take_stack(stack_bytes: usize) -> DefaultStack {
    let kept = STACKS.with_borrow_mut(|stacks| match stacks.last() {
        Some((bytes, _)) if *bytes == stack_bytes => stacks.pop(),
        _ => {
            stacks.retain(|(bytes, _)| *bytes == stack_bytes);
            stacks.pop()
        }
    });
    match kept {
        Some((_, stack)) => stack,
        None => DefaultStack::new(stack_bytes)
            .unwrap_or_else(|error| panic!("cannot map a coroutine stack of {stack_bytes} bytes: {error}")),
    }
}
