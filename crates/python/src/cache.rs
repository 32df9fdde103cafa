//! One cache of the core, step by step: what a policy decides for each fetch and eviction.

use entresol_core::{Admission, Config, Fate, Job, Lookup, Lsn, PageId, Partition, PolicyKind, region_bytes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zerocopy::IntoBytes;

/// A flash cache without devices: its jobs are done at once.
#[pyclass(module = "entresol._entresol")]
pub(crate) struct Cache {
    region: Vec<u64>,
}

impl Cache {
    fn partition(&mut self) -> PyResult<Partition<'_>> {
        Partition::attach(self.region.as_mut_bytes())
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

#[pymethods]
impl Cache {
    /// An empty cache of `slots` pages under the policy called `policy`.
    #[new]
    fn new(policy: &str, slots: u32) -> PyResult<Self> {
        let refused = |why: String| PyValueError::new_err(why);
        let kind =
            PolicyKind::from_name(policy).ok_or_else(|| refused(format!("there is no policy {policy:?}")))?;
        let config = Config::new(kind, slots);
        config.validate().map_err(|error| refused(error.to_string()))?;
        let mut region = vec![0_u64; region_bytes(&config).div_ceil(8)];
        Partition::format(region.as_mut_bytes(), &config).map_err(|error| refused(error.to_string()))?;
        Ok(Self { region })
    }

    /// Where a page is that memory misses: "staged", "flash" or "absent".
    fn fetch(&mut self, page: u64) -> PyResult<&'static str> {
        Ok(match self.partition()?.fetch(PageId(page)) {
            Lookup::Staged { .. } => "staged",
            Lookup::Flash { .. } => "flash",
            Lookup::Absent => "absent",
        })
    }

    /// What becomes of a page that memory evicts: "staged", "there" (flash has the same version), "full" (do
    /// jobs), or "bypassed" (it does not enter).
    fn evict(&mut self, page: u64, dirty: bool) -> PyResult<&'static str> {
        let mut partition = self.partition()?;
        Ok(match partition.evict(PageId(page), Lsn(1), dirty, dirty) {
            Admission::Stage { frame, .. } => {
                partition.staged(frame);
                "staged"
            }
            Admission::AlreadyThere => "there",
            Admission::Full => "full",
            Admission::Bypass { .. } => "bypassed",
        })
    }

    /// Does all jobs: a list of dicts. "write" has `pages`; "dequeue" has `drop`, `destage` and `stay`;
    /// "clean" has `page`.
    fn jobs<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut partition = self.partition()?;
        let mut done = Vec::new();
        while let Some(job) = partition.next_job() {
            let said = PyDict::new(py);
            match job {
                Job::Write { ticket, pages, .. } => {
                    said.set_item("job", "write")?;
                    said.set_item(
                        "pages",
                        pages.iter().filter_map(|page| Some(page.page?.0)).collect::<Vec<_>>(),
                    )?;
                    partition.written(ticket, &pages);
                }
                Job::Clean(page) => {
                    said.set_item("job", "clean")?;
                    said.set_item("page", page.page.0)?;
                    partition.cleaned(&page);
                }
                Job::PullVictims(_) => continue,
                Job::Dequeue { ticket, pages, .. } => {
                    said.set_item("job", "dequeue")?;
                    for (name, fate) in
                        [("drop", Fate::Drop), ("destage", Fate::Destage), ("stay", Fate::SecondChance)]
                    {
                        let with = pages
                            .iter()
                            .filter(|page| page.fate == fate)
                            .filter_map(|page| Some(page.page?.0));
                        said.set_item(name, with.collect::<Vec<_>>())?;
                    }
                    for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
                        let Some(log) = partition.log_mut() else { continue };
                        if let Admission::Stage { frame, .. } = log.restage(ticket, page, Lsn(1)) {
                            partition.staged(frame);
                        }
                    }
                    partition.dequeued(ticket);
                }
            }
            done.push(said);
        }
        Ok(done)
    }

    /// Pages in the cache, and how many of them are newer than disk.
    fn occupancy(&mut self) -> PyResult<(u32, u32)> {
        let occupancy = self.partition()?.occupancy();
        Ok((occupancy.valid, occupancy.dirty))
    }
}
