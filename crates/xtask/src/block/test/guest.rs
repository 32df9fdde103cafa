//! The block door under a real kernel: boots one in QEMU and attaches a volume there with the kernel's
//! drivers nbd and ublk. Four writers make and sync files on ext4. The server is killed with SIGKILL while
//! the file system stays mounted, and started again; the writers continue. Then every file that was synced
//! must have its content, read from the volume and at last from the disk alone; e2fsck must find nothing,
//! and the kernel must have met no error.
//!
//! The guest runs `benches/guest/doors.sh`.

use super::TestArgs;
use crate::block::guest::{Guest, Job, KernelArgs, Power, need_guest};
use crate::block::rig::{Filled, Rig, make_file};
use anyhow::Result;
use clap::Args;

/// Of the suite `guest`.
#[derive(Args, Clone, Debug)]
pub(super) struct GuestArgs {
    #[command(flatten)]
    kernel: KernelArgs,
    /// The kernel's drivers; for ublk the command is built with that feature, which needs libclang
    #[arg(long, value_delimiter = ',', default_value = "nbd,ublk")]
    doors: Vec<String>,
    /// Without a journal: in write-back mode files are found damaged
    #[arg(long)]
    no_journal: bool,
}

impl GuestArgs {
    /// Those that the command is built with.
    pub(super) fn features(&self) -> &'static [&'static str] {
        if self.doors.iter().any(|door| door == "ublk") { &["ublk"] } else { &[] }
    }
}

const ROUNDS: u32 = 4;

pub(super) fn test(rig: impl Fn() -> Result<Rig>, guest: &GuestArgs, arguments: &TestArgs) -> Result<()> {
    need_guest(&[("nbd-client", "nbd-client"), ("mkfs.ext4", "e2fsprogs")])?;
    let rig = rig()?;
    let job = Job {
        modules: &["nbd", "ublk_drv"],
        call: "sh /mnt/repository/benches/guest/doors.sh \"$program\" \"$doors\" \"$modes\" \"$rounds\"",
        variables: &[
            ("doors", guest.doors.join(" ")),
            ("modes", arguments.modes.join(" ")),
            ("rounds", arguments.rounds.unwrap_or(ROUNDS).to_string()),
            ("journal", if guest.no_journal { "none" } else { "kept" }.to_owned()),
        ],
        drives: &["disk", "flash"],
    };
    let machine = Guest::new(&rig, &guest.kernel, &job)?;
    make_file(&rig.file("disk"), 192, Filled::Sparse)?;
    make_file(&rig.file("flash"), 48, Filled::Sparse)?;
    println!("Linux {}", machine.version);
    machine.run(|line, _| {
        println!("{line}");
        Ok(Power::On)
    })
}
