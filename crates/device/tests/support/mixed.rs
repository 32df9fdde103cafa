//! Clients in a closed loop that read single pages at random and write single pages or groups of them.

use entresol_device::{Device, MemoryDevice, Profile, Scale};
use entresol_runtime::rng::Rng;
use entresol_runtime::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Decimal, as drives are sold.
pub const MB: u64 = 1_000_000;

/// The load of the clients.
#[derive(Clone, Copy)]
pub struct Mix {
    /// Clients.
    pub tasks: u64,
    /// Reads among 100 requests.
    pub read_percent: u64,
    /// Adjacent pages that are written together; 1: single random pages.
    pub group: u64,
}

/// Starts the clients on a device of `profile` with `region_mb` that stand for 50 times as much. To be called
/// in a simulation.
pub fn start(profile: Profile, region_mb: u64, mix: Mix) -> Arc<impl Device + use<>> {
    let memory = MemoryDevice::new("data", region_mb * MB);
    let pages = memory.geometry().capacity_bytes / 4096;
    let device = Arc::new(profile.build(memory, Scale::of(50, 1)));
    let staged = Arc::new(AtomicU64::new(0));
    let group = mix.group;
    for task in 0..mix.tasks {
        let (device, staged) = (device.clone(), staged.clone());
        spawn("client", move || {
            let mut rng = Rng::new(task);
            let mut page = [0; 4096];
            let pages_of_group = vec![0; group as usize * 4096];
            loop {
                let offset = rng.below(pages) * 4096;
                if rng.below(100) < mix.read_percent {
                    device.read(offset, &mut page).expect("the model does not fail");
                } else if group == 1 {
                    device.write(offset, &page).expect("the model does not fail");
                } else {
                    let number = staged.fetch_add(1, Ordering::Relaxed);
                    if number % group == group - 1 {
                        let offset = number / group % (pages / group) * group * 4096;
                        device.write(offset, &pages_of_group).expect("the model does not fail");
                    }
                }
            }
        });
    }
    device
}
