//! Syncs of one device by several tasks.
//!
//! A failed sync may have lost writes of *other* tasks, and the operating system reports the failure to one
//! caller only (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020). So a failure is
//! for good, but of a device that [keeps](entresol_device::Device::keeps_unsynced) what is not durable: there
//! a sync that fails loses nothing, and the next one may succeed. Invariants, of other devices:
//!
//! 1. a sync succeeds only if no sync that was under way at the same time has failed;
//! 2. after a failure no sync succeeds any more;
//! 3. a page whose write was lost by a failed sync is never served in its older version, not even before the
//!    failure is known.

use crate::signal::Signal;
use entresol_device::DeviceError;
use entresol_runtime::is_simulated;
use entresol_runtime::sync::{Rank, TinyMutex};

#[derive(Default)]
struct SyncCounts {
    /// Number of syncs begun; they are counted from 1.
    begun: u64,
    under_way: Vec<u64>,
    /// Number of the newest sync that counts.
    succeeded: u64,
    failed: Option<DeviceError>,
}

/// See the module's header.
pub(crate) struct Syncs {
    state: TinyMutex<SyncCounts>,
    done: Signal,
    /// A failure loses nothing.
    keeps: bool,
}

impl Default for Syncs {
    fn default() -> Self {
        Self::of(false)
    }
}

impl Syncs {
    /// Of a device that keeps what is not durable, or loses it when a sync fails.
    pub(crate) fn of(keeps: bool) -> Self {
        let state = TinyMutex::new(Rank::Syncs, SyncCounts::default());
        Self { state, done: Signal::default(), keeps }
    }

    /// Makes all completed writes durable by `sync`. After the first failure all calls return that error.
    pub(crate) fn sync(&self, sync: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        let number = self.sync_and_wait(sync)?;
        let mut state = self.state.lock();
        state.succeeded = state.succeeded.max(number);
        Ok(())
    }

    /// As [`Syncs::sync`], of what may be another device: a failure counts, and a success does not.
    pub(crate) fn sync_another(
        &self,
        sync: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.sync_and_wait(sync).map(drop)
    }

    fn sync_and_wait(&self, sync: impl FnOnce() -> Result<(), DeviceError>) -> Result<u64, DeviceError> {
        let number = {
            let mut state = self.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            state.begun += 1;
            let number = state.begun;
            state.under_way.push(number);
            number
        };
        let panic = PanicGuard { syncs: self, number };
        let result = sync();
        drop(panic);
        let end = self.end(number, result.as_ref().err());
        result?;
        if self.keeps {
            return Ok(number);
        }
        // A sync that began before this one ended may have lost writes that this one should have made
        // durable.
        self.wait_for(end)?;
        Ok(number)
    }

    /// Ends a sync. Returns the number of syncs begun.
    fn end(&self, number: u64, error: Option<&DeviceError>) -> u64 {
        let begun = {
            let mut state = self.state.lock();
            state.under_way.retain(|one| *one != number);
            if let Some(error) = error.filter(|_| !self.keeps) {
                state.failed.get_or_insert_with(|| error.clone());
            }
            state.begun
        };
        self.done.notify_all();
        begun
    }

    /// Waits until none of the first `end` syncs is under way. Returns an error if one has failed.
    fn wait_for(&self, end: u64) -> Result<(), DeviceError> {
        loop {
            let seen = self.done.epoch();
            {
                let state = self.state.lock();
                if let Some(failed) = &state.failed {
                    return Err(failed.clone());
                }
                if state.under_way.iter().all(|one| *one > end) {
                    return Ok(());
                }
            }
            self.done.wait(seen);
        }
    }

    /// The number of the first sync that can make the present writes durable.
    pub(crate) fn next(&self) -> u64 {
        self.state.lock().begun + 1
    }

    /// Whether a write that was made when `next` was [`Syncs::next`], or earlier, is durable.
    pub(crate) fn are_done(&self, next: u64) -> bool {
        self.state.lock().succeeded >= next
    }

    /// Waits for the syncs that are under way. Returns an error if one has failed.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        if self.keeps {
            return Ok(());
        }
        let begun = self.state.lock().begun;
        self.wait_for(begun)
    }

    /// Returns an error if a sync has failed.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        self.state.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// To be called after a read of pages whose last write was made when `next` was [`Syncs::next`], or
    /// earlier. Returns an error if a sync that failed, or is about to fail, may have lost that write, so
    /// that the read returned an older version.
    pub(crate) fn prove_kept(&self, next: u64) -> Result<(), DeviceError> {
        if self.keeps {
            return Ok(());
        }
        let begun = {
            let state = self.state.lock();
            if state.succeeded >= next {
                return Ok(());
            }
            state.begun
        };
        self.wait_for(begun)
    }
}

/// A sync whose device panics has failed: tasks that wait for it get the error. (In a simulation a panic ends
/// everything.)
struct PanicGuard<'a> {
    syncs: &'a Syncs,
    number: u64,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_simulated() {
            let reason = "a task panicked during a sync".to_owned();
            self.syncs.end(self.number, Some(&DeviceError::Dead { device: "device".to_owned(), reason }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice};
    use entresol_runtime::sim::{SimConfig, Simulation};
    use entresol_runtime::{random, sleep, spawn};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::time::Duration;

    /// A device that delays before and after a sync.
    struct Slow(FaultyDevice);

    impl Device for Slow {
        fn geometry(&self) -> entresol_device::Geometry {
            self.0.geometry()
        }
        fn run(&self, batch: &mut [entresol_device::Io<'_>]) -> Result<(), DeviceError> {
            self.0.run(batch)
        }
        fn sync(&self) -> Result<(), DeviceError> {
            sleep(Duration::from_nanos(random() % 1000));
            let result = self.0.sync();
            sleep(Duration::from_nanos(random() % 1000));
            result
        }
        fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
            self.0.discard(offset, length)
        }
        fn drop_cached(&self) -> Result<(), DeviceError> {
            self.0.drop_cached()
        }
        fn counters(&self) -> entresol_device::Counters {
            self.0.counters()
        }
    }

    #[test]
    fn a_write_that_another_sync_lost_is_not_durable_for_anybody() {
        for seed in 0..50 {
            let config = SimConfig { seed, random_order: true, ..SimConfig::default() };
            let lost = Simulation::new(config).run(|| {
                let fault = Fault::SyncErrorLosingWrites;
                let plan =
                    FaultPlan::new(seed, vec![Injection { at: 7, device: None, fault, forever: false }]);
                let device =
                    FaultyDevice::new("device", MemoryDevice::new("device", 1 << 20), Arc::new(plan));
                let device = Arc::new(Slow(device));
                let (syncs, durable) = (Arc::new(Syncs::default()), Arc::new(AtomicU64::new(0)));
                let tasks: Vec<_> = (0..6u64)
                    .map(|task| {
                        let (device, syncs, durable) = (device.clone(), syncs.clone(), durable.clone());
                        spawn("task", move || {
                            sleep(Duration::from_nanos(random() % 2000));
                            device.write(task * 512, &[7; 512]).expect("writes do not fail");
                            if syncs.sync(|| device.sync()).is_ok() {
                                durable.fetch_or(1 << task, SeqCst);
                            }
                        })
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join());
                assert!(syncs.sync(|| device.sync()).is_err(), "a failure is for good");
                let left = device.0.after_crash(&entresol_device::Survival::None);
                let is_there = |task: &u64| {
                    let mut sector = [0; 512];
                    left.read(task * 512, &mut sector).expect("memory does not fail");
                    sector == [7; 512]
                };
                let durable = durable.load(SeqCst);
                (0..6).filter(|task| durable >> task & 1 == 1 && !is_there(task)).count()
            });
            assert_eq!(lost.unwrap(), 0, "seed {seed}");
        }
    }

    #[test]
    fn what_a_failing_sync_may_have_lost_is_not_believed_before_it_is_known() {
        for fault in [None, Some(Fault::SyncErrorLosingWrites)] {
            let config = SimConfig { seed: 3, random_order: true, ..SimConfig::default() };
            let kept = Simulation::new(config).run(|| {
                // Two writes and a sync, then a write and the sync that may fail.
                let injections = fault.map(|fault| Injection { at: 4, device: None, fault, forever: false });
                let plan = Arc::new(FaultPlan::new(3, injections.into_iter().collect()));
                let device = FaultyDevice::new("device", MemoryDevice::new("device", 1 << 20), plan);
                let device = Arc::new(Slow(device));
                let syncs = Arc::new(Syncs::default());
                device.write(0, &[1; 512]).expect("writes do not fail");
                let first = syncs.next();
                syncs.sync(|| device.sync()).expect("the first sync does not fail");
                device.write(0, &[2; 512]).expect("writes do not fail");
                let second = syncs.next();
                let task = {
                    let (device, syncs) = (device.clone(), syncs.clone());
                    spawn("syncer", move || drop(syncs.sync(|| device.sync())))
                };
                sleep(Duration::from_nanos(1));
                let kept = syncs.prove_kept(second).is_ok();
                assert!(syncs.prove_kept(first).is_ok(), "what was durable before stays so");
                task.join();
                kept
            });
            assert_eq!(kept.unwrap(), fault.is_none(), "{fault:?}");
        }
    }
}
