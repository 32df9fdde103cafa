//! The volume as a block device of the kernel's driver `ublk_drv`, without a socket between. A door above the
//! same requests as NBD: the same workers, counters and rules of the bypass.
//!
//! | file | what it does |
//! |---|---|
//! | `device` | making, finding and taking over the device |
//! | `queue` | the thread that receives the driver's requests |
//! | `request` | the driver's requests as commands of the volume |
//!
//! Invariant: a device that is in use is never deleted. When its server ends, or is killed, the driver keeps
//! its requests until the next server takes the device over.

mod device;
mod queue;
mod request;

pub(super) use queue::Job;

use super::{ServerError, Shared, UblkOptions};
use device::{done, sentence};
use entresol_runtime::{JoinHandle, spawn};
use io_uring::{IoUring, squeue};
use libublk::ctrl::UblkCtrl;
use libublk::io::UblkDev;
use libublk::ublk_init_ctrl_task_ring;
use queue::HandOver;
use rustix::fs::{Mode, OFlags, fsync, open};
use std::sync::Arc;

/// See the module's header.
pub(super) struct Door {
    path: String,
    control: Box<UblkCtrl>,
    device: Arc<UblkDev>,
    hand_over: Arc<HandOver>,
    thread: JoinHandle,
}

impl Door {
    /// Checks that there is a driver that may be used.
    pub fn check() -> Result<(), ServerError> {
        device::check().map_err(ServerError::Ublk)
    }

    /// Makes the volume's device, or takes over that of a server that has ended. Requests are served when it
    /// returns.
    pub fn start(shared: &Arc<Shared>, options: &UblkOptions) -> Result<Self, ServerError> {
        let (control, is_taken_over) = device::open(shared, &options.label).map_err(ServerError::Ublk)?;
        let path = control.get_bdev_path();
        let door = Self::begin(shared, Box::new(control)).map_err(|(control, why)| {
            if !is_taken_over {
                let _ = control.del_dev();
            }
            ServerError::Ublk(why)
        })?;
        tracing::info!("{path} is {}", if is_taken_over { "taken over" } else { "made" });
        Ok(door)
    }

    /// Starts the thread, and then the device. On an error nothing has the device open.
    fn begin(shared: &Arc<Shared>, control: Box<UblkCtrl>) -> Result<Self, (Box<UblkCtrl>, String)> {
        let path = control.get_bdev_path();
        let (device, hand_over) = match (device::node(&control, shared), HandOver::new()) {
            (Ok(device), Ok(hand_over)) => (Arc::new(device), Arc::new(hand_over)),
            (Err(why), _) => return Err((control, why)),
            (_, Err(error)) => return Err((control, error.to_string())),
        };
        let of_thread = (shared.clone(), device.clone(), hand_over.clone());
        let thread = spawn("block ublk", move || {
            let (shared, device, hand_over) = of_thread;
            UblkCtrl::init_queue_thread();
            queue::serve(&shared, &device, &hand_over);
        });
        let started = hand_over
            .wait_for_set_up()
            .map_err(|why| format!("{path}: its queue: {why}"))
            .and_then(|()| done(&format!("{path}: starting it"), control.start_dev(&device)));
        match started {
            Ok(()) => Ok(Self { path, control, device, hand_over, thread }),
            Err(why) => {
                hand_over.leave();
                thread.join();
                Err((control, why))
            }
        }
    }

    /// The block device.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether nothing has the device: neither a mounted file system nor a program that opened it
    /// exclusively. Writes through the page cache are on the volume then.
    fn is_unused(&self) -> bool {
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let read_only = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        let opened =
            open(&self.path, flags, Mode::empty()).or_else(|_| open(&self.path, read_only, Mode::empty()));
        opened.is_ok_and(|file| fsync(file).is_ok())
    }

    /// Requests under way are answered. A device that is not used is deleted; another one waits for the next
    /// server, with its requests.
    pub fn stop(self) {
        if self.is_unused() {
            if let Err(why) = self.delete() {
                tracing::warn!("ublk: {why}");
            }
            return;
        }
        self.hand_over.leave();
        self.thread.join();
        tracing::warn!("{} is in use: its requests wait for the next server of this volume", self.path);
    }

    fn delete(self) -> Result<(), String> {
        let Self { path, control, device, hand_over, thread } = self;
        // A ring of this thread, which may be another one than that which made the device.
        ublk_init_ctrl_task_ring(|ring| {
            if ring.is_none() {
                *ring = Some(IoUring::<squeue::Entry128>::builder().build(16)?);
            }
            Ok(())
        })
        .map_err(|error| sentence(&path, &error))?;
        let stopped = done(&format!("{path}: stopping it"), control.kill_dev());
        hand_over.leave();
        thread.join();
        drop(device);
        stopped?;
        done(&format!("{path}: deleting it"), control.del_dev())
    }
}
