//! One face for both ways to time a device: the queue of rates, or the detailed model of `crates/device`.

use super::queue::Queue;
use super::{CatalogueError, DeviceSpec};
use entresol_device::model::Stopwatch;
use entresol_device::{Profile, Scale};
use entresol_runtime::Time;

/// A device in virtual time.
pub struct Device {
    timing: Timing,
}

enum Timing {
    Queue(Box<Queue>),
    Model {
        stopwatch: Box<Stopwatch>,
        page_bytes: u64,
        /// The end of the last request, and the busy time when the measurement began.
        latest: Time,
        busy_before_ns: u64,
    },
}

impl Device {
    /// An idle device by its rates, for pages of `page_bytes`.
    pub fn new(spec: &DeviceSpec, page_bytes: u32) -> Self {
        Self { timing: Timing::Queue(Box::new(Queue::new(spec, page_bytes))) }
    }

    /// A device of `pages` pages by its detailed model. An SSD starts in the steady state of random writes.
    ///
    /// # Errors
    /// [`CatalogueError::NoModel`] if the catalogue names none, or none that exists.
    pub fn exact(spec: &DeviceSpec, page_bytes: u32, pages: u64) -> Result<Self, CatalogueError> {
        let no_model = || CatalogueError::NoModel { device: spec.name.clone() };
        let profile = Profile::named(spec.model.as_deref().ok_or_else(no_model)?).map_err(|_| no_model())?;
        let page_bytes = u64::from(page_bytes);
        let stopwatch = Box::new(profile.stopwatch(pages * page_bytes, Scale::FULL));
        Ok(Self { timing: Timing::Model { stopwatch, page_bytes, latest: Time(0), busy_before_ns: 0 } })
    }

    /// A read of `pages` adjacent pages from `place` (a page number on the device) arrives at `now`: when is
    /// it done?
    pub fn read(&mut self, now: Time, place: u64, pages: u32) -> Time {
        match &mut self.timing {
            Timing::Queue(queue) => queue.read(now, place, pages),
            Timing::Model { stopwatch, page_bytes, latest, .. } => {
                let done = stopwatch.read(now, place * *page_bytes, u64::from(pages) * *page_bytes);
                *latest = (*latest).max(done);
                done
            }
        }
    }

    /// As [`Device::read`], for a write.
    pub fn write(&mut self, now: Time, place: u64, pages: u32) -> Time {
        match &mut self.timing {
            Timing::Queue(queue) => queue.write(now, place, pages),
            Timing::Model { stopwatch, page_bytes, latest, .. } => {
                let done = stopwatch.write(now, place * *page_bytes, u64::from(pages) * *page_bytes);
                *latest = (*latest).max(done);
                done
            }
        }
    }

    /// What was written by `now` is made durable: when is it? By rates alone, at once.
    pub fn sync(&mut self, now: Time) -> Time {
        match &mut self.timing {
            Timing::Queue(_) => now,
            Timing::Model { stopwatch, latest, .. } => {
                let done = stopwatch.sync(now);
                *latest = (*latest).max(done);
                done
            }
        }
    }

    /// Nanoseconds that the device has worked in this measurement: the sum of services, or the model's busy
    /// time.
    pub fn service_ns(&self) -> u64 {
        match &self.timing {
            Timing::Queue(queue) => queue.service_ns(),
            Timing::Model { stopwatch, latest, busy_before_ns, .. } => {
                stopwatch.counters(*latest).busy.as_nanos() as u64 - busy_before_ns
            }
        }
    }

    /// Counts from here.
    pub fn begin_measurement(&mut self) {
        match &mut self.timing {
            Timing::Queue(queue) => queue.begin_measurement(),
            Timing::Model { stopwatch, latest, busy_before_ns, .. } => {
                *busy_before_ns = stopwatch.counters(*latest).busy.as_nanos() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;
    use super::*;

    #[test]
    fn a_mix_hurts_the_modelled_drive_more_than_its_rates_say() {
        let catalogue = Catalogue::builtin();
        let mlc = catalogue.flash("mlc").expect("built in");
        let pages = 16_384;
        let mixed = |device: &mut Device| {
            let mut rng = entresol_runtime::rng::Rng::new(1);
            let mut done = Time(0);
            for at in 0..20_000 {
                let place = rng.below(pages);
                done = if at % 2 == 0 { device.read(done, place, 1) } else { device.write(done, place, 1) };
            }
            done.0
        };
        let (by_rates, modelled) = (
            mixed(&mut Device::new(mlc, 4096)),
            mixed(&mut Device::exact(mlc, 4096, pages).expect("it has a model")),
        );
        assert!(modelled > 2 * by_rates, "{modelled} against {by_rates}");
        assert!(Device::exact(catalogue.flash("3la-flash").expect("built in"), 8192, pages).is_err());
    }
}
