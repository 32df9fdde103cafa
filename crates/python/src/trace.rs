//! Traces: read from files, or made of buffers (NumPy, Arrow, array), which are read in place.

use crate::buffer::Elements;
use entresol_core::PageId;
use entresol_trace::{Op, Request, TraceBuilder};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A trace in memory.
#[pyclass(frozen, module = "entresol._entresol")]
pub(crate) struct Trace(pub Arc<entresol_trace::Trace>);

#[pymethods]
impl Trace {
    /// Reads a file; `options` are those of `entresol trace info`.
    #[staticmethod]
    fn read(py: Python<'_>, path: String, options: Vec<String>) -> PyResult<Self> {
        let trace = py.detach(|| entresol_command::embedded::read(&path, &options));
        Ok(Self(Arc::new(trace.map_err(PyValueError::new_err)?)))
    }

    /// A trace of buffers: page numbers (object in the upper 32 bits), operations (0 read, 1 write, 2 dirty),
    /// and microseconds. The buffers are read in place; the trace numbers the pages anew.
    #[staticmethod]
    #[pyo3(signature = (pages, ops=None, times_us=None, page_bytes=4096, name="trace"))]
    fn of(
        py: Python<'_>,
        pages: PyBuffer<u64>,
        ops: Option<PyBuffer<u8>>,
        times_us: Option<PyBuffer<u64>>,
        page_bytes: u32,
        name: &str,
    ) -> PyResult<Self> {
        if !(512..=1 << 20).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Err(PyValueError::new_err("page_bytes: a power of two from 512 to 1048576"));
        }
        let built = py.detach(|| build(&pages, ops.as_ref(), times_us.as_ref(), page_bytes, name));
        Ok(Self(Arc::new(built.map_err(PyValueError::new_err)?)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        let Self(trace) = self;
        let (name, count, pages) = (&trace.name, trace.len(), trace.unique_pages());
        format!("<entresol.Trace {name}: {count} records, {pages} pages of {} bytes>", trace.page_bytes)
    }

    /// What it is called.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Bytes of a page.
    #[getter]
    fn page_bytes(&self) -> u32 {
        self.0.page_bytes
    }

    /// Different pages.
    #[getter]
    fn unique_pages(&self) -> usize {
        self.0.unique_pages()
    }

    /// Page numbers of the source, 8 bytes a record.
    fn page_column<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let trace = &self.0;
        column(py, &trace.requests, 8, |request, bytes| {
            bytes.copy_from_slice(&trace.pages[request.page() as usize].to_le_bytes());
        })
    }

    /// Operations, a byte a record: 0 read, 1 write, 2 dirty.
    fn op_column<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        column(py, &self.0.requests, 1, |request, bytes| {
            bytes[0] = match request.op() {
                Op::Read => 0,
                Op::Write => 1,
                Op::Dirty => 2,
            };
        })
    }

    /// Microseconds since the start, 8 bytes a record; nothing if the trace has no times.
    fn time_column<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        column(py, &self.0.times_us, 8, |time, bytes| bytes.copy_from_slice(&time.to_le_bytes()))
    }
}

/// The trace of these columns. An error is a sentence.
fn build(
    pages: &PyBuffer<u64>,
    ops: Option<&PyBuffer<u8>>,
    times_us: Option<&PyBuffer<u64>>,
    page_bytes: u32,
    name: &str,
) -> Result<entresol_trace::Trace, String> {
    let count = pages.item_count();
    if count == 0 {
        return Err("pages: a trace has at least one reference".to_owned());
    }
    let pages = Elements::of(pages, "pages", count)?;
    let ops = ops.map(|ops| Elements::of(ops, "ops", count)).transpose()?;
    let times = times_us.map(|times| Elements::of(times, "times_us", count)).transpose()?;
    let mut builder = TraceBuilder::new(name, page_bytes);
    for at in 0..count {
        let op = match ops.as_ref().map_or(0, |ops| ops.get(at)) {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Dirty,
            other => return Err(format!("ops[{at}] is {other}, not 0, 1 or 2")),
        };
        let time = times.as_ref().map(|times| times.get(at));
        builder.page(PageId(pages.get(at)), op, time).map_err(|misfit| format!("pages[{at}]: {misfit}"))?;
    }
    Ok(builder.finish(str::to_owned))
}

/// A column in memory of Python, written once.
fn column<'py, T>(
    py: Python<'py>,
    records: &[T],
    bytes: usize,
    put: impl Fn(&T, &mut [u8]),
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, records.len() * bytes, |column| {
        records.iter().zip(column.chunks_exact_mut(bytes)).for_each(|(record, into)| put(record, into));
        Ok(())
    })
}

const _: () = assert!(size_of::<Request>() == 8);
