//! Recording the page references of an experiment as a trace.
//!
//! Invariant: recording changes nothing that is measured in a simulation: it takes no virtual time.

use crate::bench::image::PAGE_BYTES;
use entresol_core::PageId;
use entresol_runtime::now;
use entresol_store::{PageWatcher, Store};
use entresol_trace::{Recorder, Trace};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// A recorder for a store, and its trace.
#[derive(Debug, Default)]
pub struct Recording {
    recorder: Recorder,
    trace: Mutex<Option<Trace>>,
}

fn now_us() -> u64 {
    now().0 / 1000
}

impl PageWatcher for Recording {
    fn fixed(&self, page: PageId) {
        self.recorder.referenced(page, now_us());
    }

    fn changed(&self, page: PageId) {
        self.recorder.changed(page, now_us());
    }
}

impl Recording {
    /// Begins to record.
    pub fn start(&self) {
        self.recorder.switch(true);
    }

    /// Records no longer.
    pub fn stop(&self) {
        self.recorder.switch(false);
    }

    /// Makes a trace of what was recorded; the store says which table each page belongs to.
    ///
    /// # Errors
    /// If a page cannot be read, or if there are too many pages for a trace.
    pub fn finish(&self, store: &Store, name: &str) -> anyhow::Result<()> {
        self.stop();
        let names: BTreeMap<_, _> = store.tables()?.into_iter().map(|(name, table)| (table, name)).collect();
        let mut failed = None;
        let trace = self.recorder.take(name, PAGE_BYTES, |page| match store.table_of(page) {
            Ok(table) => {
                table.and_then(|table| names.get(&table).cloned()).unwrap_or_else(|| "(store)".to_owned())
            }
            Err(error) => {
                failed.get_or_insert(error);
                String::new()
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        *self.trace.lock() = Some(trace.map_err(|misfit| anyhow::anyhow!("recording {name}: {misfit}"))?);
        Ok(())
    }

    /// The trace, once.
    pub fn take(&self) -> Option<Trace> {
        self.trace.lock().take()
    }
}
