//! The disk under a database, and the pages on their way to it. As the engine does, pages that are evicted to
//! disk are staged, and written a batch at once; those of a batch are written in the order of their places.
//!
//! Invariant: no more than [`STAGED_MAX`] evicted pages are on their way when [`Disk::write_behind`] returns.

use super::super::device::Device;
use super::backlog::Backlog;
use entresol_core::Costs;
use entresol_runtime::Time;

/// Most pages of a batch of evicted pages, and most of these on their way: as in the engine.
const BATCH: usize = 16;
const STAGED_MAX: usize = 128;
/// Pages that were read of late.
const LATELY: u64 = 1024;

/// See the module's header.
pub(super) struct Disk<'t> {
    device: Device,
    /// Place of each page.
    places: &'t [u32],
    /// Places of evicted pages that wait for their batch.
    staged: Vec<u32>,
    /// Places that are written together.
    batch: Vec<u32>,
    batches: Backlog,
    reads: Spent,
    writes: Spent,
}

/// Pages, and how long they took.
#[derive(Clone, Copy, Default)]
struct Spent {
    pages: u64,
    ns: u64,
}

impl Spent {
    fn mean_ns(self, if_none: u32) -> u32 {
        self.ns.checked_div(self.pages).map_or(if_none, |mean| u32::try_from(mean.max(1)).unwrap_or(u32::MAX))
    }
}

impl<'t> Disk<'t> {
    pub(super) fn new(device: Device, places: &'t [u32]) -> Self {
        let batches = Backlog::new(STAGED_MAX / BATCH - 1);
        let (reads, writes) = (Spent::default(), Spent::default());
        Self { device, places, staged: Vec::with_capacity(BATCH), batch: Vec::new(), batches, reads, writes }
    }

    /// The place of `page`.
    pub(super) fn place(&self, page: u32) -> u32 {
        self.places[page as usize]
    }

    pub(super) fn read(&mut self, now: Time, page: u32) -> Time {
        let before = self.device.service_ns();
        let done = self.device.read(now, self.places[page as usize].into(), 1);
        self.reads.pages += 1;
        self.reads.ns += self.device.service_ns() - before;
        done
    }

    /// Writes a page alone. When it is written.
    pub(super) fn write(&mut self, now: Time, page: u32) -> Time {
        self.add(page);
        self.write_batch(now)
    }

    /// `costs` with the times that pages have taken of late, once enough of them were read.
    pub(super) fn costs(&mut self, costs: Costs) -> Option<Costs> {
        if self.reads.pages < LATELY || !costs.are_known() {
            return None;
        }
        let (reads, writes) = (std::mem::take(&mut self.reads), std::mem::take(&mut self.writes));
        let Costs { disk_read_ns, disk_write_ns, .. } = costs;
        let (disk_read_ns, disk_write_ns) = (reads.mean_ns(disk_read_ns), writes.mean_ns(disk_write_ns));
        Some(Costs { disk_read_ns, disk_write_ns, ..costs })
    }

    /// The page joins those that are written next, with [`Disk::write_batch`].
    pub(super) fn add(&mut self, page: u32) {
        self.batch.push(self.places[page as usize]);
    }

    /// When all pages that were added are written.
    pub(super) fn write_batch(&mut self, now: Time) -> Time {
        let mut batch = std::mem::take(&mut self.batch);
        let done = self.write_in_order(now, &mut batch);
        self.batch = batch;
        done
    }

    /// Takes an evicted page. Returns the time at which its evictor continues.
    pub(super) fn write_behind(&mut self, now: Time, page: u32) -> Time {
        self.staged.push(self.places[page as usize]);
        if self.staged.len() < BATCH {
            return now;
        }
        let now = self.batches.wait(now);
        let mut staged = std::mem::take(&mut self.staged);
        let done = self.write_in_order(now, &mut staged);
        self.batches.push(done);
        self.staged = staged;
        now
    }

    /// When the evicted pages are written that still wait.
    pub(super) fn flush(&mut self, now: Time) -> Time {
        let mut staged = std::mem::take(&mut self.staged);
        self.write_in_order(now, &mut staged)
    }

    fn write_in_order(&mut self, now: Time, places: &mut Vec<u32>) -> Time {
        places.sort_unstable();
        let before = self.device.service_ns();
        self.writes.pages += places.len() as u64;
        let written = places.drain(..).map(|place| self.device.write(now, place.into(), 1));
        let done = written.max().unwrap_or(now);
        self.writes.ns += self.device.service_ns() - before;
        done
    }

    pub(super) fn begin_measurement(&mut self) {
        self.device.begin_measurement();
    }

    /// As [`Device::service_ns`].
    pub(super) fn service_ns(&self) -> u64 {
        self.device.service_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::device::Catalogue;
    use super::*;

    #[test]
    fn a_batch_is_written_in_the_order_of_its_places() {
        let catalogue = Catalogue::builtin();
        let places: Vec<u32> = (0..160).collect();
        let device = || Device::new(catalogue.device("sata-disk").expect("built in"), 4096);
        let (mut behind, mut alone) = (Disk::new(device(), &places), Disk::new(device(), &places));
        for page in (0..16).rev() {
            assert_eq!(behind.write_behind(Time(0), page), Time(0), "nobody waits");
            alone.write(Time(0), page);
        }
        assert!(behind.service_ns() * 10 < alone.service_ns(), "one positioning instead of sixteen");
        for page in 16..144 {
            behind.write_behind(Time(0), page);
        }
        let now = (144..160).map(|page| behind.write_behind(Time(0), page)).max();
        assert!(now > Some(Time(0)), "too many are on their way");
    }
}
