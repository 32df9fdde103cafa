//! The scheduler of one simulation.
//!
//! Invariant: exactly one of its tasks runs at a time. A task is in the ready queue, or waits (parked,
//! sleeping), or runs, or is done; `Slot::state` has its state.

use super::fiber::{self, Fiber};
use super::run::SimConfig;
use super::timers::Timers;
use crate::rng::Rng;
use crate::sync::held;
use crate::task::Task;
use crate::time::{Time, nanos};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The simulation of the caller.
pub(crate) fn world() -> Option<Rc<World>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Replaces this thread's simulation and returns the one before.
pub(super) fn enter(world: Option<Rc<World>>) -> Option<Rc<World>> {
    CURRENT.replace(world)
}

/// Identifies a task of one simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    world: u64,
    slot: u32,
    /// Slots are reused; the generation distinguishes their users.
    generation: u32,
}

/// The panic payload that unwinds a task of a halted world.
struct HaltSignal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    /// In the ready queue.
    Ready,
    Running,
    /// Waits for an unpark, and for a timer if `timed`.
    Parked {
        timed: bool,
    },
    /// Waits for a timer only.
    Sleeping,
    Done,
}

struct Slot {
    name: String,
    fiber: Option<Box<Fiber>>,
    state: TaskState,
    generation: u32,
    /// Number of the current wait; a timer of an earlier one is stale.
    wait: u32,
    /// An unpark that arrived while the task was not parked.
    token: bool,
    /// A halt or a panic is unwinding the task: it must not be unwound again inside a destructor.
    unwinding: bool,
    joiners: Vec<Task>,
    /// The locks that the task holds, while another one runs.
    held: held::List,
}

struct Inner {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    timers: Timers,
    /// Time from which each CPU core is free.
    cores: Vec<u64>,
    task_rng: Rng,
    order_rng: Option<Rng>,
    preempt_rng: Rng,
    panic: Option<String>,
}

pub(crate) struct World {
    id: u64,
    now: Cell<u64>,
    running: Cell<u32>,
    halted: Cell<bool>,
    /// The OS thread was unwinding before any task ran, so `std::thread::panicking` does not describe the
    /// tasks.
    born_panicking: bool,
    stack_bytes: usize,
    preempt_one_of: u64,
    inner: RefCell<Inner>,
}

impl Drop for World {
    fn drop(&mut self) {
        if self.preempt_one_of > 0 {
            PREEMPTING.fetch_sub(1, Relaxed);
        }
    }
}

/// One of so many preempted tasks stays away for a while, like a thread whose core runs another one.
const AWAY_ONE_OF: u64 = 8;
/// Longest time of such a suspension.
const AWAY_MAX_NANOS: u64 = 200_000;

/// Simulations of this process that preempt: while there is none, no further check is made.
static PREEMPTING: AtomicUsize = AtomicUsize::new(0);

/// Whether any simulation of this process preempts.
#[inline]
pub(crate) fn somebody_preempts() -> bool {
    PREEMPTING.load(Relaxed) > 0
}

impl World {
    pub fn new(id: u64, config: &SimConfig) -> Self {
        let SimConfig { seed, cores, stack_bytes, random_order, preempt_one_of } = *config;
        let mut seeds = Rng::new(seed);
        let task_rng = Rng::new(seeds.next_u64());
        let order_rng = Rng::new(seeds.next_u64());
        let preempt_rng = Rng::new(seeds.next_u64());
        if preempt_one_of > 0 {
            PREEMPTING.fetch_add(1, Relaxed);
        }
        Self {
            id,
            now: Cell::new(0),
            running: Cell::new(0),
            halted: Cell::new(false),
            born_panicking: std::thread::panicking(),
            stack_bytes,
            preempt_one_of,
            inner: RefCell::new(Inner {
                slots: Vec::new(),
                free: Vec::new(),
                ready: VecDeque::new(),
                timers: Timers::default(),
                cores: vec![0; cores.max(1)],
                task_rng,
                order_rng: random_order.then_some(order_rng),
                preempt_rng,
                panic: None,
            }),
        }
    }

    pub fn now(&self) -> Time {
        Time(self.now.get())
    }

    pub fn is_halted(&self) -> bool {
        self.halted.get()
    }

    pub fn random(&self) -> u64 {
        self.inner.borrow_mut().task_rng.next_u64()
    }

    pub fn current(&self) -> TaskId {
        let slot = self.running.get();
        let generation = self.inner.borrow().slots[slot as usize].generation;
        TaskId { world: self.id, slot, generation }
    }

    pub fn spawn(self: &Rc<Self>, name: &str, body: impl FnOnce() + 'static) -> TaskId {
        if self.halted.get() {
            // A world that is ending starts no task; the task counts as done.
            let TaskId { world, slot, generation } = self.current();
            return TaskId { world, slot, generation: generation.wrapping_sub(1) };
        }
        #[allow(unsafe_code)]
        // SAFETY: `body` borrows nothing ('static).
        unsafe {
            self.spawn_unchecked(name, body)
        }
    }

    /// # Safety
    /// Values that `body` borrows must stay alive until the task is done, or until the world has been torn
    /// down.
    #[allow(unsafe_code)]
    pub(super) unsafe fn spawn_unchecked(self: &Rc<Self>, name: &str, body: impl FnOnce()) -> TaskId {
        let world = Rc::downgrade(self);
        let root = move || {
            let result = catch_unwind(AssertUnwindSafe(|| {
                // A task that had not run when the world ended only drops its values.
                if world.upgrade().is_some_and(|world| !world.is_halted()) { body() } else { drop(body) }
            }));
            if let (Err(payload), Some(world)) = (result, world.upgrade()) {
                world.task_panicked(payload);
            }
        };
        // SAFETY: as the caller promises.
        let fiber = unsafe { Fiber::new(self.stack_bytes, root) };
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let slot = inner.free.pop().unwrap_or_else(|| {
            inner.slots.push(Slot {
                name: String::new(),
                fiber: None,
                state: TaskState::Done,
                generation: 0,
                wait: 0,
                token: false,
                unwinding: false,
                joiners: Vec::new(),
                held: held::List::EMPTY,
            });
            u32::try_from(inner.slots.len() - 1).expect("fewer than 2^32 tasks fit in memory")
        });
        let entry = &mut inner.slots[slot as usize];
        entry.name.clear();
        entry.name.push_str(name);
        entry.fiber = Some(fiber);
        entry.state = TaskState::Ready;
        entry.token = false;
        entry.unwinding = false;
        entry.held = held::List::EMPTY;
        inner.ready.push_back(slot);
        TaskId { world: self.id, slot, generation: entry.generation }
    }

    pub fn unpark(&self, task: TaskId) {
        if task.world != self.id {
            return;
        }
        let mut inner = self.inner.borrow_mut();
        let Inner { slots, ready, timers, .. } = &mut *inner;
        let slot = &mut slots[task.slot as usize];
        if slot.generation != task.generation {
            return;
        }
        let TaskState::Parked { timed } = slot.state else {
            slot.token = true;
            return;
        };
        slot.state = TaskState::Ready;
        slot.wait = slot.wait.wrapping_add(1);
        ready.push_back(task.slot);
        if timed {
            timers.cancelled(|timer| slots[timer.slot as usize].wait == timer.wait);
        }
    }

    /// Lets the other tasks run first, or for a while, if the generator decides so.
    pub fn may_preempt(&self) {
        if self.preempt_one_of == 0 || self.halted.get() || std::thread::panicking() {
            return;
        }
        {
            let mut inner = self.inner.borrow_mut();
            if inner.preempt_rng.below(self.preempt_one_of) > 0 {
                return;
            }
            if inner.preempt_rng.below(AWAY_ONE_OF) == 0 {
                let away = inner.preempt_rng.below(AWAY_MAX_NANOS);
                drop(inner);
                return self.sleep_until(Time(self.now.get() + away));
            }
            let running = self.running.get();
            inner.slots[running as usize].state = TaskState::Ready;
            inner.ready.push_back(running);
        }
        fiber::suspend();
        self.die_if_halted();
    }

    pub fn park(&self, deadline: Option<Time>) {
        self.die_if_halted();
        {
            let mut inner = self.inner.borrow_mut();
            let running = self.running.get();
            let slot = &mut inner.slots[running as usize];
            if std::mem::take(&mut slot.token) {
                return;
            }
            slot.state = TaskState::Parked { timed: deadline.is_some() };
            let wait = slot.wait;
            if let Some(deadline) = deadline {
                if self.halted.get() || deadline.0 <= self.now.get() {
                    slot.state = TaskState::Running;
                    return;
                }
                inner.timers.set(deadline.0, running, wait);
            }
        }
        fiber::suspend();
        self.die_if_halted();
    }

    pub fn sleep_until(&self, deadline: Time) {
        self.die_if_halted();
        if self.halted.get() || deadline.0 <= self.now.get() {
            return;
        }
        {
            let mut inner = self.inner.borrow_mut();
            // No event can occur before the deadline: continue without a switch.
            if inner.ready.is_empty() && inner.timers.peek().is_none_or(|timer| timer.deadline > deadline.0) {
                self.now.set(deadline.0);
                return;
            }
            let running = self.running.get();
            let slot = &mut inner.slots[running as usize];
            slot.state = TaskState::Sleeping;
            let wait = slot.wait;
            inner.timers.set(deadline.0, running, wait);
        }
        fiber::suspend();
        self.die_if_halted();
    }

    pub fn consume_cpu(&self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        let end = {
            let mut inner = self.inner.borrow_mut();
            let core = inner.cores.iter_mut().min().expect("there is at least one core");
            *core = (*core).max(self.now.get()).saturating_add(nanos(duration));
            *core
        };
        self.sleep_until(Time(end));
    }

    pub fn join(&self, task: TaskId) {
        assert_eq!(task.world, self.id, "a task is joined inside its own simulation");
        let me = crate::task::current();
        let mut registered = false;
        loop {
            {
                let mut inner = self.inner.borrow_mut();
                let slot = &mut inner.slots[task.slot as usize];
                if slot.generation != task.generation {
                    return;
                }
                if !registered {
                    slot.joiners.push(me.clone());
                    registered = true;
                }
            }
            self.park(None);
        }
    }

    pub fn halt(&self) -> ! {
        self.halted.set(true);
        self.die_if_halted();
        // A destructor of a dying task must not unwind again: it waits for the end of the world instead.
        loop {
            self.park(None);
        }
    }

    /// Unwinds the calling task if the world has ended and the task is not being unwound already.
    fn die_if_halted(&self) {
        if self.halted.get() {
            let mut inner = self.inner.borrow_mut();
            let slot = &mut inner.slots[self.running.get() as usize];
            if !slot.unwinding || !std::thread::panicking() {
                slot.unwinding = true;
                drop(inner);
                resume_unwind(Box::new(HaltSignal));
            }
        } else if std::thread::panicking() && !self.born_panicking {
            // A panicking task waits in a destructor. Its panic ends the world, so no other task needs to
            // run.
            self.halted.set(true);
            self.inner.borrow_mut().slots[self.running.get() as usize].unwinding = true;
        }
    }

    fn task_panicked(&self, payload: Box<dyn Any + Send>) {
        if payload.is::<HaltSignal>() {
            return;
        }
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a payload that is not text".to_owned());
        let mut inner = self.inner.borrow_mut();
        let name = &inner.slots[self.running.get() as usize].name;
        let text = format!("task {name:?} panicked: {message}");
        inner.panic.get_or_insert(text);
        self.halted.set(true);
    }

    /// Runs tasks until the world is halted, `main` is done, or no event can occur any more (then the names
    /// of the waiting tasks are returned).
    pub(super) fn run_until_end(&self, main: TaskId) -> Option<Vec<String>> {
        while !self.halted.get() {
            match self.next_ready() {
                Some(slot) => {
                    self.run_slot(slot);
                    if slot == main.slot && self.is_done(main) {
                        return None;
                    }
                }
                None => return Some(self.waiting_names()),
            }
        }
        None
    }

    /// Unwinds all remaining tasks. Returns the first panic of any task.
    pub(super) fn tear_down(&self) -> Option<String> {
        self.halted.set(true);
        let slots = self.inner.borrow().slots.len();
        for slot in 0..slots {
            if self.inner.borrow().slots[slot].fiber.is_some() {
                self.run_slot(slot as u32);
            }
        }
        // Tasks that waited in a destructor and have been woken since.
        loop {
            let woken = {
                let mut inner = self.inner.borrow_mut();
                inner.ready.clear();
                inner.slots.iter().position(|slot| slot.fiber.is_some() && slot.state == TaskState::Ready)
            };
            match woken {
                Some(slot) => self.run_slot(slot as u32),
                None => break,
            }
        }
        self.forget_tasks();
        self.inner.borrow_mut().panic.take()
    }

    /// Makes sure that no task can ever run again, in whatever state it is.
    pub(super) fn forget_tasks(&self) {
        let Ok(mut inner) = self.inner.try_borrow_mut() else {
            // The scheduler itself panicked halfway: to continue would free memory that tasks still use.
            std::process::abort();
        };
        for slot in &mut inner.slots {
            if let Some(stuck) = slot.fiber.take() {
                std::mem::forget(stuck);
            }
        }
    }

    fn is_done(&self, task: TaskId) -> bool {
        self.inner.borrow().slots[task.slot as usize].generation != task.generation
    }

    fn waiting_names(&self) -> Vec<String> {
        let inner = self.inner.borrow();
        inner.slots.iter().filter(|slot| slot.fiber.is_some()).map(|slot| slot.name.clone()).collect()
    }

    /// The next task to run. Advances the time when none is ready. `None` if no task will ever be ready
    /// again.
    fn next_ready(&self) -> Option<u32> {
        let mut inner = self.inner.borrow_mut();
        let Inner { slots, ready, timers, order_rng, .. } = &mut *inner;
        while ready.is_empty() {
            let first = timers.pop()?;
            if slots[first.slot as usize].wait != first.wait {
                timers.dropped_stale();
                continue;
            }
            self.now.set(first.deadline);
            let mut fired = Some(first);
            while let Some(timer) = fired {
                let slot = &mut slots[timer.slot as usize];
                if slot.wait == timer.wait {
                    slot.state = TaskState::Ready;
                    slot.wait = slot.wait.wrapping_add(1);
                    ready.push_back(timer.slot);
                } else {
                    timers.dropped_stale();
                }
                let due = timers.peek().is_some_and(|next| next.deadline <= self.now.get());
                fired = if due { timers.pop() } else { None };
            }
        }
        match order_rng {
            Some(rng) => {
                let index = rng.below(ready.len() as u64) as usize;
                ready.swap_remove_back(index)
            }
            None => ready.pop_front(),
        }
    }

    fn run_slot(&self, slot: u32) {
        let mut fiber = {
            let mut inner = self.inner.borrow_mut();
            let entry = &mut inner.slots[slot as usize];
            entry.state = TaskState::Running;
            held::swap(&mut entry.held);
            entry.fiber.take().expect("a task that is to run has a fiber")
        };
        self.running.set(slot);
        let done = fiber.resume();
        let mut inner = self.inner.borrow_mut();
        let entry = &mut inner.slots[slot as usize];
        held::swap(&mut entry.held);
        if !done {
            entry.fiber = Some(fiber);
            return;
        }
        entry.state = TaskState::Done;
        entry.generation = entry.generation.wrapping_add(1);
        entry.wait = entry.wait.wrapping_add(1);
        let joiners = std::mem::take(&mut entry.joiners);
        inner.free.push(slot);
        drop(inner);
        fiber.recycle();
        for joiner in joiners {
            joiner.unpark();
        }
    }
}
