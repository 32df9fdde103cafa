//! Effects of a modelled SSD beyond its pure rates (MISSION, "What FaCE's result stands on").

#[path = "support/mixed.rs"]
mod support;

use entresol_device::{Device, MemoryDevice, Profile, Scale};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{now, sleep};
use std::time::Duration;
use support::{MB, Mix, start};

/// Page I/Os a second of 50 tasks in a closed loop on a region that stands for one 50 times as large. Writes
/// are single random pages, or `group` adjacent pages.
fn mixed_in_groups(name: &'static str, region_mb: u64, read_percent: u64, group: u64) -> f64 {
    let profile = Profile::named(name).expect("the profile is known");
    Simulation::new(SimConfig::default())
        .run(move || {
            let device = start(profile, region_mb, Mix { tasks: 50, read_percent, group });
            // Some hundred thousand requests.
            let unit = if name == "nvme" { Duration::from_millis(50) } else { Duration::from_secs(1) };
            sleep(5 * unit);
            let (before, from) = (device.counters(), now());
            sleep(10 * unit);
            let after = device.counters();
            let bytes = after.read_bytes + after.written_bytes - before.read_bytes - before.written_bytes;
            (bytes / 4096) as f64 / now().since(from).as_secs_f64()
        })
        .unwrap()
}

fn mixed(name: &'static str, region_mb: u64, read_percent: u64) -> f64 {
    mixed_in_groups(name, region_mb, read_percent, 1)
}

#[test]
fn writing_in_groups_frees_the_reads() {
    for (name, factor) in [("mlc", 3.0), ("slc", 2.0)] {
        let (single, grouped) = (mixed(name, 40, 57), mixed_in_groups(name, 40, 57, 64));
        println!("{name}: 57/43 in single pages {single:.0}, in groups {grouped:.0}");
        assert!(grouped > factor * single, "{name}: {grouped:.0} against {single:.0}");
    }
}

#[test]
fn a_mix_on_old_drives_falls_far_below_what_the_pure_rates_say() {
    for (name, most, least) in [("mlc", 0.5, 0.3), ("slc", 0.75, 0.4)] {
        let (read, write, mix) = (mixed(name, 40, 100), mixed(name, 40, 0), mixed(name, 40, 57));
        let predicted = 1.0 / (0.57 / read + 0.43 / write);
        println!(
            "{name}: read {read:.0}, write {write:.0}, 57/43 {mix:.0}, pure rates predict {predicted:.0}"
        );
        assert!(mix < most * predicted && mix > least * predicted, "{name}: {mix:.0} of {predicted:.0}");
    }
}

#[test]
fn a_mix_on_nvme_is_near_what_the_pure_rates_say() {
    let (read, write, mix) = (mixed("nvme", 40, 100), mixed("nvme", 40, 0), mixed("nvme", 40, 57));
    let predicted = 1.0 / (0.57 / read + 0.43 / write);
    println!("nvme: read {read:.0}, write {write:.0}, 57/43 {mix:.0}, pure rates predict {predicted:.0}");
    assert!(mix > 0.85 * predicted, "{mix:.0} of {predicted:.0}");
}

#[test]
fn the_cost_of_a_mix_grows_with_the_region() {
    let rates: Vec<_> = [40, 80, 200].map(|region_mb| mixed("mlc", region_mb, 57)).into();
    println!("mlc, 57/43 over 2, 4, 10 GB: {rates:.0?}");
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
    assert!(rates[2] > 0.6 * rates[0], "{rates:?}");
}

/// Programmed bytes per written byte of a ring that is overwritten in order by requests of `pages`, after two
/// rounds.
fn ring_amplification(name: &str, region_mb: u64, pages: u64) -> f64 {
    let profile = Profile::named(name).expect("the profile is known");
    Simulation::new(SimConfig::default())
        .run(move || {
            let device = profile.build(MemoryDevice::new("data", region_mb * MB), Scale::of(50, 1));
            let data = vec![0; pages as usize * 4096];
            let requests = region_mb * MB / (pages * 4096);
            let round = || {
                for request in 0..requests {
                    device.write(request * pages * 4096, &data).expect("the model does not fail");
                }
                device.counters()
            };
            round();
            let before = round();
            let after = round();
            (after.programmed_bytes - before.programmed_bytes) as f64
                / (after.written_bytes - before.written_bytes) as f64
        })
        .unwrap()
}

#[test]
fn overwriting_in_order_amplifies_nothing() {
    for name in ["mlc", "slc", "mlc-x25m", "nvme"] {
        for region_mb in [40, 100, 200] {
            for pages in [1, 64] {
                let amplification = ring_amplification(name, region_mb, pages);
                assert!(
                    (1.0..1.03).contains(&amplification),
                    "{name}, {region_mb} MB, {pages} pages: {amplification}"
                );
            }
        }
    }
}

/// Seconds of virtual time for one client to write `mb` megabytes and sync after each request.
fn synced_writes(name: &'static str) -> Duration {
    Simulation::new(SimConfig::default())
        .run(move || {
            let profile = Profile::named(name).expect("the profile is known");
            let device = profile.build(MemoryDevice::new("data", 40 * MB), Scale::FULL);
            let from = now();
            for request in 0..100 {
                device.write(request * 4096, &[0; 4096]).expect("the model does not fail");
                device.sync().expect("the model does not fail");
            }
            now().since(from) / 100
        })
        .unwrap()
}

#[test]
fn a_sync_costs_a_program_unless_power_loss_is_covered() {
    let (mlc, nvme) = (synced_writes("mlc"), synced_writes("nvme"));
    println!("write and sync: mlc {mlc:?}, nvme {nvme:?}");
    assert!(mlc > Duration::from_millis(1));
    assert!(nvme < Duration::from_micros(50));
}

#[test]
fn a_discarded_region_is_spare() {
    let written = |is_discarded: bool| {
        Simulation::new(SimConfig::default())
            .run(move || {
                let profile = Profile::named("mlc").expect("the profile is known");
                let device = profile.build(MemoryDevice::new("data", 40 * MB), Scale::FULL);
                let pages = 40 * MB / 4096 / 2;
                if is_discarded {
                    device.discard(pages * 4096, pages * 4096).expect("the model does not fail");
                }
                let mut rng = Rng::new(1);
                for _ in 0..20_000 {
                    device.write(rng.below(pages) * 4096, &[0; 4096]).expect("the model does not fail");
                }
                device.counters().programmed_bytes
            })
            .unwrap()
    };
    assert!(written(true) * 2 < written(false));
}

#[test]
fn the_same_requests_take_the_same_time() {
    let run = || {
        let rate = mixed("mlc", 40, 57);
        rate.to_bits()
    };
    assert_eq!(run(), run());
}
