//! Prints what each SSD profile does under pure and mixed loads, over regions of several sizes.
//!
//! Closed loop of `tasks`, 4 KiB pages uniformly at random, 57 % reads in the mix (LC at 4 % of the database, FaCE
//! table 4: 4,534 page I/Os a second at 92.6 % utilisation). Regions stand for 2 to 10 GB at a scale of 1 : 50.

use entresol_device::{Device, MemoryDevice, Profile, Scale};
use entresol_runtime::rng::Rng;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{now, sleep, spawn};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MB: u64 = 1_000_000;

struct Figures {
    iops: f64,
    utilisation: f64,
    amplification: f64,
}

fn drive(profile: Profile, region_mb: u64, tasks: u64, read_percent: u64) -> Figures {
    Simulation::new(SimConfig::default())
        .run(move || {
            let memory = MemoryDevice::new("data", region_mb * MB);
            let pages = memory.geometry().capacity_bytes / 4096;
            let device = Arc::new(profile.build(memory, Scale::of(50, 1)));
            for task in 0..tasks {
                let device = device.clone();
                spawn("client", move || {
                    let mut rng = Rng::new(task);
                    let mut page = [0; 4096];
                    loop {
                        let offset = rng.below(pages) * 4096;
                        if rng.below(100) < read_percent {
                            device.read(offset, &mut page).expect("the model does not fail");
                        } else {
                            device.write(offset, &page).expect("the model does not fail");
                        }
                    }
                });
            }
            // Enough for hundreds of thousands of requests, whatever the drive.
            let seconds = if profile.name == "nvme" { 1 } else { 20 };
            sleep(Duration::from_secs(seconds));
            let (before, start) = (device.counters(), now());
            sleep(Duration::from_secs(seconds));
            let (after, seconds) = (device.counters(), now().since(start).as_secs_f64());
            let requests = after.reads + after.writes - before.reads - before.writes;
            Figures {
                iops: requests as f64 / seconds,
                utilisation: (after.busy - before.busy).as_secs_f64() / seconds,
                amplification: (after.programmed_bytes - before.programmed_bytes) as f64
                    / (after.written_bytes - before.written_bytes).max(1) as f64,
            }
        })
        .unwrap()
}

fn main() {
    println!("profile   tasks  region      100% read     100% write      57/43 mix    util   amplification");
    let start = Instant::now();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let all = ["mlc", "slc", "mlc-x25m", "nvme"].map(str::to_owned).to_vec();
    for name in if asked.is_empty() { all } else { asked } {
        let profile = Profile::named(&name).expect("the profile is known");
        for tasks in [32, 50] {
            for region_mb in [40, 80, 120, 160, 200, 1000] {
                let read = drive(profile, region_mb, tasks, 100);
                let write = drive(profile, region_mb, tasks, 0);
                let mix = drive(profile, region_mb, tasks, 57);
                println!(
                    "{name:9} {tasks:5} {region_mb:5} MB {:10.0} IOPS {:9.0} IOPS {:9.0} IOPS {:6.1}% {:8.2}",
                    read.iops,
                    write.iops,
                    mix.iops,
                    100.0 * mix.utilisation,
                    write.amplification
                );
            }
        }
    }
    eprintln!("({:.1} s)", start.elapsed().as_secs_f64());
}
