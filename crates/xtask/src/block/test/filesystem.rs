//! A file system on a volume, whose server is killed under load: ext4 on a loop device over nbdfuse. The
//! server is killed with SIGKILL at a random moment and started again. The journal is replayed, e2fsck must
//! find nothing, and every file that was noted must have its content.

use super::{ROUNDS, TestArgs, drawn, files};
use crate::block::attached::{Attached, Connection};
use crate::block::rig::{Filled, Rig, Running, call, make_file, need, need_mounts};
use crate::block::volume::{Volume, stop};
use crate::programs::output;
use anyhow::{Context, Result};
use std::fs;
use std::thread;
use std::time::Duration;

pub(super) fn test(rig: impl Fn() -> Result<Rig>, arguments: &TestArgs) -> Result<()> {
    need_mounts()?;
    need(&[("python3", "python3")])?;
    let rig = rig()?;
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    for mode in &arguments.modes {
        let (disk, flash, notes) = (rig.file("disk"), rig.file("flash"), rig.file("noted"));
        fs::write(&notes, "")?;
        make_file(&disk, 192, Filled::Sparse)?;
        make_file(&flash, 48, Filled::Sparse)?;
        output(call("mkfs.ext4").arg("-q").arg(&disk))?;
        let mut options = vec!["--mode", mode];
        options.extend(arguments.policy.iter().flat_map(|policy| ["--policy", policy]));
        let volume = Volume::create(&rig, "data", &disk, &flash, &options)?;
        let mut whole = 0;
        for round in 1..=rounds {
            let about = || format!("{mode}, round {round}");
            let (mut server, attached) = serve(&rig, &volume)?;
            let mut writers = files::write(attached.mount()?, &notes, &format!("{mode}/{round}"))?;
            thread::sleep(Duration::from_secs_f64(0.3 + 2.0 * drawn(&about())));
            server.kill();
            writers.kill();
            drop(attached);
            let (server, attached) = serve(&rig, &volume)?;
            whole += files::check(attached.mount()?, &notes).with_context(about)?;
            attached.unmount()?;
            attached.check().with_context(about)?;
            drop(attached);
            stop(server)?;
        }
        println!("{mode}: {rounds} kills, {whole} files that were synced are whole, e2fsck finds nothing");
    }
    Ok(())
}

fn serve(rig: &Rig, volume: &Volume<'_>) -> Result<(Running, Attached)> {
    let mut server = volume.serve()?;
    let attached = Attached::new(rig, volume, &mut server, Connection::Lost, &[])?;
    Ok((server, attached.context("the server has ended")?))
}
