//! Prints the rates of each SSD profile under pure and mixed loads, over regions of several sizes.
//!
//! The load is a closed loop of `tasks`, with 4 KiB pages uniformly at random and 57 % reads in the mix. (LC
//! at 4 % of the database, FaCE table 4: 4,534 page I/Os a second at 92.6 % utilisation, i.e. 4,896 at 100
//! %.) Regions stand for 2 to 10 GB (and all of FaCE's database) at a scale of 1 : 50. The last column writes
//! as FaCE does: the same mix, with writes in groups of 64 pages that are adjacent on the device.

#[path = "../tests/support/mixed.rs"]
mod support;

use entresol_device::{Device, Profile};
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::{now, sleep};
use std::time::{Duration, Instant};
use support::{Mix, start};

struct Figures {
    iops: f64,
    utilisation: f64,
    amplification: f64,
}

fn drive(profile: Profile, region_mb: u64, tasks: u64, read_percent: u64, group: u64) -> Figures {
    Simulation::new(SimConfig::default())
        .run(move || {
            let device = start(profile, region_mb, Mix { tasks, read_percent, group });
            // Enough for hundreds of thousands of requests with every drive.
            let seconds = if profile.name == "nvme" { 1 } else { 20 };
            sleep(Duration::from_secs(seconds));
            let (before, from) = (device.counters(), now());
            sleep(Duration::from_secs(seconds));
            let (after, seconds) = (device.counters(), now().since(from).as_secs_f64());
            let bytes = after.read_bytes + after.written_bytes - before.read_bytes - before.written_bytes;
            Figures {
                iops: (bytes / 4096) as f64 / seconds,
                utilisation: (after.busy - before.busy).as_secs_f64() / seconds,
                amplification: (after.programmed_bytes - before.programmed_bytes) as f64
                    / (after.written_bytes - before.written_bytes).max(1) as f64,
            }
        })
        .unwrap()
}

fn main() {
    println!(
        "profile   tasks  region      100% read     100% write      57/43 mix    util   amplif.   57/43 in groups"
    );
    let began = Instant::now();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let all = ["mlc", "slc", "mlc-x25m", "nvme"].map(str::to_owned).to_vec();
    for name in if asked.is_empty() { all } else { asked } {
        let profile = Profile::named(&name).expect("the profile is known");
        for tasks in [32, 50] {
            for region_mb in [40, 80, 120, 160, 200, 1000] {
                let read = drive(profile, region_mb, tasks, 100, 1);
                let write = drive(profile, region_mb, tasks, 0, 1);
                let mix = drive(profile, region_mb, tasks, 57, 1);
                let grouped = drive(profile, region_mb, tasks, 57, 64);
                println!(
                    "{name:9} {tasks:5} {region_mb:5} MB {:10.0} IOPS {:9.0} IOPS {:9.0} IOPS {:6.1}% {:8.2} {:9.0} IOPS",
                    read.iops,
                    write.iops,
                    mix.iops,
                    100.0 * mix.utilisation,
                    write.amplification,
                    grouped.iops
                );
            }
        }
    }
    eprintln!("({:.1} s)", began.elapsed().as_secs_f64());
}
