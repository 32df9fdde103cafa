//! The lab for Python: traces in memory, and the command's questions about them.
//!
//! Invariant: options and results are those of the command (`entresol_command::embedded`), as JSON; the
//! package in Python makes tables of them. Work is done without the interpreter's lock.

#[allow(unsafe_code)]
mod buffer;
mod cache;
mod progress;
mod trace;

use progress::Told;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use trace::Trace;

/// A question of the command about a trace.
type Question = fn(&Arc<entresol_trace::Trace>, &[String], &(dyn Fn(f64) + Sync)) -> Result<Vec<u8>, String>;

fn ask(
    py: Python<'_>,
    question: Question,
    trace: &Trace,
    options: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<u8>> {
    let trace = trace.0.clone();
    let told = Told::new(progress);
    let answer = py.detach(|| question(&trace, &options, &|share| told.tell(share)));
    told.raised()?;
    answer.map_err(PyValueError::new_err)
}

/// What `entresol simulate --json` writes.
#[pyfunction]
fn simulate(
    py: Python<'_>,
    trace: &Trace,
    options: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<u8>> {
    ask(py, entresol_command::embedded::simulate, trace, options, progress)
}

/// What `entresol mrc --json` writes.
#[pyfunction]
fn mrc(
    py: Python<'_>,
    trace: &Trace,
    options: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<u8>> {
    ask(py, entresol_command::embedded::mrc, trace, options, progress)
}

/// What `entresol advise --json` writes.
#[pyfunction]
fn advise(
    py: Python<'_>,
    trace: &Trace,
    options: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<u8>> {
    ask(py, entresol_command::embedded::advise, trace, options, progress)
}

/// The module `entresol._entresol`.
#[pymodule]
fn _entresol(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Trace>()?;
    module.add_class::<cache::Cache>()?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(mrc, module)?)?;
    module.add_function(wrap_pyfunction!(advise, module)?)
}
