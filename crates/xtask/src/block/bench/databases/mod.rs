//! Databases on a volume over a slow disk: PostgreSQL with pgbench, MariaDB with sysbench's OLTP (SCE's
//! set-up: a database, a quarter of its size or all of it on flash, a seventh of it in memory, Pareto),
//! with the cache off and with caches of several policies.
//!
//! Disk and flash are loop devices past the page cache; the disk is limited for the server by a control
//! group, and so are its bytes. The limits are of reads and of writes apart: half of the requests are for
//! either. The file system is ext4 on a loop device over nbdfuse.
//!
//! Each row begins with a copy of the same database and an empty cache. It is warmed up with a faster disk
//! and `hits-to-disk false` (an access is an access; only the time is shorter), then with the limit for ten
//! seconds, then measured. With a flash for all of the database, its files are read once before that.
//! Without a cache a third of the time warms the memory.

mod server;

use crate::block::attached::{Attached, Connection};
use crate::block::rig::{Filled, Rig, call, machine, make_file, need, need_mounts};
use crate::block::volume::{Volume, stop};
use crate::device::{Group, Limits, Loop, Traffic};
use crate::programs::{User, output, within};
use crate::report::write_json;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use server::{Database, Kind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Args, Debug)]
pub(super) struct DatabasesArgs {
    kind: Kind,
    /// The flash: a part of the database, or more than all of it.
    size: Size,
    /// "off", or POLICY/MODE.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "off,face-gsc/write-back,face-gsc/write-through,sce/write-through,flashcache/write-through"
    )]
    caches: Vec<String>,
    /// Seconds.
    #[arg(long, default_value_t = 40)]
    warm: u32,
    /// Seconds.
    #[arg(long, default_value_t = 40)]
    measured: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    Quarter,
    All,
}

const SLOW: Limits = Limits { reads: 500, writes: 500, bytes: 100_000_000 };
const WARMING: Limits = Limits { reads: 20_000, writes: 20_000, bytes: 50_000_000 };
const CLIENTS: u32 = 32;

#[derive(Serialize)]
struct Row {
    cache: String,
    /// A second.
    transactions: f64,
    /// For each transaction.
    disk_reads: f64,
    disk_writes: f64,
    flash_bytes: f64,
}

pub(super) fn measure(
    rig: impl Fn() -> Result<Rig>,
    arguments: &DatabasesArgs,
    json: Option<&Path>,
) -> Result<()> {
    need_mounts()?;
    need(&[("setpriv", "util-linux")])?;
    need(arguments.kind.programs())?;
    let devices = Group::of_devices()?;
    let memory = Group::new("memory", "memory.limit_in_bytes")?;
    let user = User::named(Some(arguments.kind.owner()))?;
    let rig = rig()?;
    let mut bench =
        Bench { rig: &rig, user: &user, devices, memory, golden: PathBuf::new(), kib: 0, arguments };
    bench.make_golden()?;
    println!(
        "{:?}, {} MiB, on a disk of {} reads and {} writes a second; flash {} MiB; {CLIENTS} clients; {} s to warm up, {} s \
         measured, {}",
        arguments.kind,
        bench.kib / 1024,
        SLOW.reads,
        SLOW.writes,
        bench.flash_kib() / 1024,
        arguments.warm,
        arguments.measured,
        machine()
    );
    println!(
        "| cache | transactions/s | disk reads each | disk writes each | bytes to flash each |\n|---|---|---|---|---|"
    );
    let mut all = Vec::new();
    for cache in &arguments.caches {
        let row = bench.row(cache)?;
        let Row { transactions, disk_reads, disk_writes, flash_bytes, .. } = &row;
        println!("| {cache} | {transactions:.1} | {disk_reads:.2} | {disk_writes:.2} | {flash_bytes:.0} |");
        all.push(row);
        write_json(json, &all)?;
    }
    Ok(())
}

struct Bench<'a> {
    rig: &'a Rig,
    user: &'a User,
    /// Of the server.
    devices: Group,
    /// Of the database.
    memory: Group,
    /// The file system with the database, kept for the next run.
    golden: PathBuf,
    /// The database.
    kib: u64,
    arguments: &'a DatabasesArgs,
}

impl Bench<'_> {
    fn kept(&self) -> &Path {
        self.rig.folder.parent().unwrap_or(&self.rig.folder)
    }

    fn flash_kib(&self) -> u64 {
        match self.arguments.size {
            Size::Quarter => self.kib / 4,
            Size::All => self.kib * 11 / 10,
        }
    }

    fn database(&self, mount: &Path) -> Result<Database<'_>> {
        Database::new(self.arguments.kind, self.user, &self.memory, mount.join("data"), self.rig.file("run"))
    }

    fn make_golden(&mut self) -> Result<()> {
        let golden = self.kept().join(format!("databases.{}", self.arguments.kind.owner()));
        let noted = golden.with_extension(format!("{}.kib", self.arguments.kind.owner()));
        if !golden.is_file() {
            let (new, mount) = (golden.with_extension("new"), self.rig.file("mnt"));
            make_file(&new, 1400, Filled::Sparse)?;
            output(call("mkfs.ext4").args(["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(&new))?;
            fs::create_dir_all(&mount)?;
            output(Command::new("mount").args(["-o", "loop"]).arg(&new).arg(&mount))?;
            self.user.own(&mount)?;
            self.memory.set("memory.limit_in_bytes", &(1_u64 << 33).to_string())?;
            let mut database = self.database(&mount)?;
            let made = database.make().and_then(|()| database.end());
            let size = output(Command::new("du").arg("-sk").arg(mount.join("data")));
            drop(database);
            output(Command::new("umount").arg(&mount))?;
            made?;
            fs::write(&noted, size?.split_whitespace().next().unwrap_or_default())?;
            fs::rename(new, &golden)?;
        }
        self.kib = fs::read_to_string(&noted)?.trim().parse().context("the size of the database")?;
        self.golden = golden;
        Ok(())
    }

    fn row(&self, cache: &str) -> Result<Row> {
        let (disk, flash) = (self.rig.file("disk"), self.rig.file("flash"));
        fs::copy(&self.golden, &disk)?;
        fs::File::open(&disk)?.sync_all()?;
        // Written, so that a sync has no blocks to allocate.
        make_file(&flash, self.flash_kib() / 1024 + 2, Filled::Zeros)?;
        let (disk, flash) = (Loop::over(disk)?, Loop::over(flash)?);
        let is_off = cache == "off";
        let (policy, mode) = cache.split_once('/').unwrap_or(("face-gsc", "write-through"));
        let options = ["--policy", policy, "--mode", mode];
        let volume = Volume::create(self.rig, "data", disk.device(), flash.device(), &options)?;
        if is_off {
            volume.configure("cache", "false")?;
        }
        self.devices.limit(disk.device(), WARMING)?;
        let mut server = volume.serve_with(Some(self.devices.path()), &[])?;
        let attached = Attached::new(self.rig, &volume, &mut server, Connection::Lost, &["--direct-io=on"])?;
        let attached = attached.context("the server has ended")?;
        let mut database = self.database(attached.mount()?)?;
        self.memory.set("memory.limit_in_bytes", &self.arguments.kind.memory_bytes().to_string())?;
        self.warm(&volume, &mut database, is_off)?;
        self.devices.limit(disk.device(), SLOW)?;
        database.load(10)?;
        let before = [disk.traffic()?, flash.traffic()?];
        let transactions = database.load(self.arguments.measured)?;
        let spent = [disk.traffic()? - before[0], flash.traffic()? - before[1]];
        if !is_off {
            let name =
                format!("status.{}.{:?}.{policy}.{mode}", self.arguments.kind.owner(), self.arguments.size);
            fs::write(self.kept().join(name.to_lowercase()), volume.status_text()?)?;
        }
        self.devices.limit(disk.device(), Limits::default())?;
        database.kill();
        drop(database);
        attached.unmount()?;
        drop(attached);
        stop(server)?;
        Ok(self.counted(cache, transactions, &spent))
    }

    fn warm(&self, volume: &Volume<'_>, database: &mut Database<'_>, is_off: bool) -> Result<()> {
        if is_off {
            database.start()?;
            return database.load(self.arguments.warm / 3).map(drop);
        }
        volume.set("hits-to-disk", "false")?;
        if self.arguments.size == Size::All {
            // All of the database enters the cache, as far as its policy likes.
            volume.set("sequential-bypass-bytes", "0")?;
            let mut read = Command::new("sh");
            read.args(["-c", "find \"$0\" -type f -exec cat {} + > /dev/null"]).arg(&database.data);
            output(&mut within(self.memory.path(), &read))?;
            volume.set("sequential-bypass-bytes", &(4 << 20).to_string())?;
        }
        database.start()?;
        database.load(self.arguments.warm)?;
        volume.set("hits-to-disk", "true")
    }

    fn counted(&self, cache: &str, transactions: f64, [disk, flash]: &[Traffic; 2]) -> Row {
        let done = (transactions * f64::from(self.arguments.measured)).max(1.0);
        Row {
            cache: cache.to_owned(),
            transactions,
            disk_reads: disk.reads as f64 / done,
            disk_writes: disk.writes as f64 / done,
            flash_bytes: flash.written_bytes as f64 / done,
        }
    }
}
