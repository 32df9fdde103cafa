//! Calls a function of Python with the share that is done, a few times a second.

use pyo3::prelude::*;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two calls.
const EVERY: Duration = Duration::from_millis(100);

/// Who is told, and what was raised.
pub(crate) struct Told {
    function: Option<Py<PyAny>>,
    state: Mutex<State>,
}

struct State {
    last: Instant,
    raised: Option<PyErr>,
}

impl Told {
    pub fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function, state: Mutex::new(State { last: Instant::now(), raised: None }) }
    }

    /// From any thread, without the interpreter's lock.
    pub fn tell(&self, share: f64) {
        let Some(function) = &self.function else { return };
        {
            let Ok(mut state) = self.state.lock() else { return };
            if state.last.elapsed() < EVERY || state.raised.is_some() {
                return;
            }
            state.last = Instant::now();
        }
        // Not under the mutex: the interpreter may run another thread that tells, too.
        let outcome = Python::attach(|py| function.call1(py, (share,)).map(drop));
        if let (Err(error), Ok(mut state)) = (outcome, self.state.lock()) {
            state.raised = Some(error);
        }
    }

    /// The first exception of the function.
    pub fn raised(&self) -> PyResult<()> {
        let raised = self.state.lock().ok().and_then(|mut state| state.raised.take());
        raised.map_or(Ok(()), Err)
    }
}
