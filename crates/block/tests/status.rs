//! The report on a volume: it waits for nothing, and says how the devices are.

#[path = "support/client.rs"]
mod client;
#[path = "support/parts.rs"]
mod parts;
mod support;

use client::{Client, FLUSH, READ, WRITE};
use entresol_block::{Condition, Loss, Server, ServerOptions, Volume, VolumeConfig, VolumeStatus};
use entresol_core::{Cache, Mode, PolicyKind};
use entresol_device::{
    Counters, Device, DeviceError, Fault, FaultPlan, FaultyDevice, Geometry, Injection, Io, MemoryDevice,
};
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::{now, sleep, spawn};
use parts::{BYTES, PAGES, Parts, simulate};
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;
const WRITE_BACK: (Cache, Mode) = (Cache::Policy(PolicyKind::FaceGsc), Mode::WriteBack);

/// A disk whose writes take their time.
struct Slow(Arc<MemoryDevice>);

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        Geometry { capacity_bytes: BYTES, ..self.0.geometry() }
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        let writes = batch.iter().filter(|io| matches!(io, Io::Write { .. })).count();
        sleep(Duration::from_millis(100) * writes as u32);
        self.0.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

fn filled(page: u64) -> Vec<u8> {
    (page + 1).to_le_bytes().repeat(PAGE as usize / 8)
}

#[test]
fn a_report_waits_for_no_drain() {
    simulate(1, || {
        let parts = Parts::new(WRITE_BACK);
        let [_, label, flash] = parts.devices();
        let disk = Arc::new(Slow(parts.disk.clone()));
        let volume = Arc::new(Volume::create(disk, label, flash, parts.options.clone()).unwrap());
        // Far from each other: one write each.
        (0..40).for_each(|page| volume.write(page * 3 * PAGE, &filled(page), false).unwrap());
        volume.flush().unwrap();
        let before = volume.status();
        assert_eq!((before.under_way.clone(), before.dirty_pages), (None, 40));
        assert_eq!(before.lost_without_flash_bytes, 40 * PAGE);
        let drain = {
            let volume = volume.clone();
            spawn("drains", move || volume.drain(Loss::Refused).unwrap())
        };
        sleep(Duration::from_millis(350));
        let begin = now();
        let status = volume.status();
        assert_eq!(now(), begin, "it has waited");
        assert!(volume.metrics().is_some() && volume.failure().is_none());
        assert_eq!(now(), begin, "it has waited");
        assert_eq!(status.under_way.unwrap().what, "drain");
        assert!((1..=40).contains(&status.dirty_pages), "{} dirty pages", status.dirty_pages);
        assert_eq!((status.policy, status.mode), (before.policy, before.mode));
        drain.join();
        let after = volume.status();
        assert_eq!((after.under_way, after.dirty_pages, after.lost_without_flash_bytes), (None, 0, 0));
        volume.close().unwrap();
    });
}

#[test]
fn a_report_says_how_long_and_how_full() {
    for (mode, lost) in [(Mode::WriteBack, 20 * PAGE), (Mode::WriteThrough, 0)] {
        simulate(2, || {
            let parts = Parts::new((Cache::Policy(PolicyKind::FaceGsc), mode));
            let volume = parts.create();
            volume.steer(entresol_block::SteerOptions {
                dirty_percent_max: 50,
                dirty_age_seconds: 0,
                ..Default::default()
            });
            (0..20).for_each(|page| volume.write(page * PAGE, &filled(page), false).unwrap());
            sleep(Duration::from_secs(7));
            let status = volume.status();
            assert_eq!(status.lost_without_flash_bytes, lost, "{mode:?}");
            assert_eq!((status.uptime_seconds, status.dirty_pages_max), (7, 40));
            assert_eq!(status.dirty_permille, status.dirty_pages * 1000 / 80);
            let named: Vec<_> = status.devices.iter().map(|device| (&*device.device, device.state)).collect();
            let (ok, none) = (Condition::Ok, Condition::None);
            assert_eq!(named, [("disk", ok), ("flash", ok), ("label", ok), ("journal", none)]);
            volume.detach(Loss::Refused).unwrap();
            let flash = &volume.status().devices[1];
            assert_eq!((flash.state, flash.seconds), (none, None), "detached");
            volume.close().unwrap();
        });
    }
}

/// A volume whose devices are of a plan.
fn faulty(parts: &Parts, plan: &Arc<FaultPlan>) -> Volume {
    let device = |name, bytes: u64| -> Arc<dyn Device> {
        let memory = MemoryDevice::new(name, bytes.next_multiple_of(PAGE));
        Arc::new(FaultyDevice::new(name, memory, plan.clone()).with_capacity(bytes))
    };
    let flash = device("flash", parts.flash.geometry().capacity_bytes);
    let (disk, label) = (device("disk", BYTES), device("label", LABEL_FILE_BYTES));
    Volume::create(disk, label, flash, parts.options.clone()).unwrap()
}

fn inject(plan: &FaultPlan, device: &str, fault: Fault) {
    let at = plan.operations() + 1;
    plan.inject(Injection { at, device: Some(device.to_owned()), fault, forever: true });
}

/// Disk and flash of a report.
fn devices(status: &VolumeStatus) -> [(Condition, Option<&u64>); 2] {
    let of = |at: usize, kind: &str| (status.devices[at].state, status.devices[at].errors.get(kind));
    [of(0, "no-space"), of(1, "write")]
}

#[test]
fn a_report_tells_of_devices_that_fail() {
    simulate(3, || {
        let (parts, plan) = (Parts::new(WRITE_BACK), Arc::new(FaultPlan::none()));
        let volume = faulty(&parts, &plan);
        (0..20).for_each(|page| volume.write(page * PAGE, &filled(page), false).unwrap());
        volume.flush().unwrap();
        assert_eq!(devices(&volume.status()), [(Condition::Ok, None); 2]);
        // The ring is full of dirty pages, and the disk takes none.
        inject(&plan, "disk", Fault::NoSpace);
        let writer = |page| volume.write(page * PAGE, &filled(page), false);
        (0..PAGES).for_each(|page| _ = writer(page));
        sleep(Duration::from_secs(5));
        let status = volume.status();
        let [(disk, full), (flash, broken)] = devices(&status);
        assert_eq!((disk, flash, broken), (Condition::Retrying, Condition::Ok, None));
        assert!(*full.unwrap() > 5, "{status:?}");
        let disk = &status.devices[0];
        assert!(disk.seconds.unwrap() >= 4 && disk.why.as_ref().unwrap().contains("no space"), "{disk:?}");
        assert!(volume.failure().is_none());
        drop(volume);
    });
    simulate(4, || {
        let (parts, plan) = (Parts::new(WRITE_BACK), Arc::new(FaultPlan::none()));
        let volume = faulty(&parts, &plan);
        (0..20).for_each(|page| volume.write(page * PAGE, &filled(page), false).unwrap());
        volume.flush().unwrap();
        inject(&plan, "flash", Fault::WriteError);
        (0..20).for_each(|page| volume.write(page * PAGE, &filled(page + 50), false).unwrap());
        volume.flush().unwrap();
        // While there are pages that the disk lacks, or when it has them all.
        let status = volume.status();
        let (flash, failed) = devices(&status)[1];
        assert!(matches!(flash, Condition::Degraded | Condition::Off) && *failed.unwrap() > 0, "{status:?}");
        assert!(
            status.devices[1].why.as_ref().unwrap().contains("last error: flash: write of"),
            "{status:?}"
        );
        sleep(Duration::from_secs(5));
        let status = volume.status();
        assert_eq!((devices(&status)[1].0, status.lost_without_flash_bytes), (Condition::Off, 0));
        assert!(status.devices[1].seconds.unwrap() >= 4, "{status:?}");
        assert!(volume.failure().is_none(), "the disk serves");
        volume.close().unwrap();
    });
}

/// The flash fails, and the cache cannot even record that in the label.
#[test]
fn a_volume_that_can_serve_nothing_says_so() {
    simulate(5, || {
        let (parts, plan) = (Parts::new(WRITE_BACK), Arc::new(FaultPlan::none()));
        let volume = faulty(&parts, &plan);
        volume.write(0, &filled(0), true).unwrap();
        assert_eq!(volume.failure(), None);
        inject(&plan, "label", Fault::Death);
        inject(&plan, "flash", Fault::Death);
        (1..PAGES).for_each(|page| _ = volume.write(page * PAGE, &filled(page), true));
        let failure = volume.failure().expect("nothing can be served");
        assert!(!failure.contains("LSN") && !failure.contains("page 0:"), "{failure}");
        assert!(volume.read(0, &mut [0; 4096]).is_err());
        assert_eq!(volume.status().devices[1].state, Condition::Failed);
        drop(volume);
    });
    // Not if a sync of the disk fails, with or without a cache.
    simulate(6, || {
        let (parts, plan) = (Parts::new(WRITE_BACK), Arc::new(FaultPlan::none()));
        let volume = faulty(&parts, &plan);
        volume.detach(Loss::Refused).unwrap();
        volume.write(0, &filled(0), false).unwrap();
        assert_eq!(volume.failure(), None);
        inject(&plan, "disk", Fault::SyncError);
        assert!(volume.flush().is_err());
        // What was written is remembered, and a later sync may succeed.
        assert_eq!(volume.failure(), None);
        volume.read(0, &mut [0; 4096]).unwrap();
        drop(volume);
    });
}

#[test]
fn a_full_disk_is_a_full_disk_for_clients() {
    for (policy, mode) in [(PolicyKind::Lru, Mode::WriteAround), (PolicyKind::Lru, Mode::WriteThrough)] {
        let folder = tempfile::tempdir().unwrap();
        let (parts, plan) = (Parts::new((Cache::Policy(policy), mode)), Arc::new(FaultPlan::none()));
        let volume = faulty(&parts, &plan);
        let config =
            VolumeConfig { socket: folder.path().join("socket"), ..VolumeConfig::usual("write-through") };
        let server =
            Server::start(volume, ServerOptions { name: String::new(), ..ServerOptions::of(&config) })
                .unwrap();
        let mut client = Client::connect(&config.socket).unwrap();
        client.write(0, &filled(0)).unwrap();
        client.flush().unwrap();
        inject(&plan, "disk", Fault::NoSpace);
        let data = filled(1);
        // ENOSPC, here or when it is to be durable.
        let written = client.ask(WRITE, 0, PAGE, PAGE as u32, &data).unwrap();
        let flushed = client.ask(FLUSH, 0, 0, 0, &[]).unwrap();
        assert!(written == 28 || flushed == 28, "{mode:?}: {written}, {flushed}");
        // After the volume's end.
        assert_eq!(client.ask(WRITE, 0, BYTES, 512, &[0; 512]).unwrap(), 28);
        assert_eq!(client.ask(READ, 0, BYTES, 512, &[]).unwrap(), 22);
        drop(client);
        // Its pages cannot be written.
        let _ = server.stop();
    }
}

#[test]
fn a_failure_ends_the_wait_for_a_signal() {
    let looks = std::cell::Cell::new(0);
    let failure = || {
        looks.set(looks.get() + 1);
        (looks.get() == 2).then_some("failed")
    };
    assert_eq!(Server::wait_for_signal(|| {}, failure).unwrap(), Some("failed"));
}
