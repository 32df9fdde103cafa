//! Killed with SIGKILL, over and over, on real files: nothing that was acknowledged is ever missing.
//!
//! A worker process runs TPC-C and tells of every commit; the record is kept here, where the kill does not
//! reach. After each kill the store is opened: every acknowledged transaction is looked up, all consistency
//! conditions are computed, every page of every tree and of the flash cache is checked. Then the next worker
//! starts; half the time after a shutdown, half the time on what a crash left.

use entresol_core::{PolicyKind, System};
use entresol_engine::{FragmentOptions, TierOptions};
use entresol_lab::bench::{CacheOptions, Line, RealStore, Worker, read_record};
use entresol_lab::config::{RealPaths, Warmup};
use entresol_runtime::rng::Rng;
use entresol_store::{Replacement, Store};
use entresol_tpcc::consistency::{Depth, check};
use entresol_tpcc::{Acknowledged, Database, Scale, verify_acknowledged};
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Each this-many-th worker is followed by one that is killed as soon as it has started, while it recovers.
const KILL_RECOVERY_EVERY: u32 = 4;
/// Frames of a worker: a small part of the database, so that pages keep coming and going.
const FRAMES: usize = 64;
/// Frames of the verification: all of the database.
const FRAMES_VERIFYING: usize = 8192;

/// A store of a few MiB.
fn store(system: System, folder: &Path) -> RealStore {
    let tier = match system {
        System::Cached(policy) => {
            let options =
                TierOptions { group_pages: 8, segment_entries: 64, ..TierOptions::new(policy, 256) };
            Some(CacheOptions::Slots(options))
        }
        System::Fragments => Some(CacheOptions::Fragments(FragmentOptions::new(256))),
        System::DiskOnly | System::FlashOnly => None,
    };
    RealStore {
        system,
        paths: RealPaths { flash: folder.join("flash"), disk: folder.join("disk"), log: folder.join("log") },
        database_bytes: 64 << 20,
        log_bytes: 4 << 20,
        tier,
        frames: FRAMES,
        replacement: Replacement::Lru,
        checkpoint_interval: Duration::from_millis(50),
    }
}

fn start(worker: &Worker) -> Child {
    Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(worker.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command was built for this test")
}

/// Sends SIGKILL. The worker must not have ended by itself.
fn kill(mut process: Child) {
    use std::os::unix::process::ExitStatusExt;
    process.kill().expect("a child of ours");
    let status = process.wait().expect("a child of ours");
    assert_eq!(status.signal(), Some(9), "the worker ended by itself ({status}); its reason is on stderr");
}

/// When a worker is killed.
enum When {
    /// So long after its first acknowledgement.
    Working(Duration),
    /// So long after its start, while it recovers, or little later.
    Restarting(Duration),
}

/// Runs a worker until it is killed; adds what it acknowledged.
fn run_and_kill(worker: &Worker, when: When, acknowledged: &mut Vec<Acknowledged>) {
    let mut process = start(worker);
    let record = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
    let (first, is_first) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut record_kept = Vec::new();
        read_record(record, |line| {
            if let Line::Acknowledged(done) = line {
                if record_kept.is_empty() {
                    // Nobody waits for it any more if the worker was given up.
                    let _ = first.send(());
                }
                record_kept.push(done);
            }
            Ok(())
        })
        .expect("the record can be read");
        record_kept
    });
    match when {
        // An error: the worker has ended without any acknowledgement, which `kill` tells of.
        When::Working(delay) if is_first.recv().is_ok() => thread::sleep(delay),
        When::Working(_) => {}
        When::Restarting(delay) => thread::sleep(delay),
    }
    kill(process);
    acknowledged.extend(reader.join().expect("the reader does not panic"));
}

/// Everything that can be checked after a crash. Leaves the store shut down, or as after another crash.
fn verify(store: &RealStore, acknowledged: &[Acknowledged], shut_down: bool, context: &str) {
    check_flash(store, context);
    let rig = RealStore { frames: FRAMES_VERIFYING, ..store.clone() }.machine().expect("the devices open");
    let (layer, _) = rig.reopen_layer().unwrap_or_else(|error| panic!("{context}: {error:#}"));
    let (parts, options) = rig.parts(layer);
    let (open, _) = Store::open(parts, options).unwrap_or_else(|error| panic!("{context}: {error}"));
    let database = Database::open(&open).unwrap_or_else(|error| panic!("{context}: {error}"));
    let found =
        verify_acknowledged(&database, acknowledged).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!((found.checked, found.lost), (acknowledged.len() as u64, 0), "{context}: {found}");
    let conditions = check(&database, Depth::Full).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(conditions.is_consistent(), "{context}: {conditions}");
    open.verify().unwrap_or_else(|error| panic!("{context}: {error}"));
    drop((database, rig));
    if shut_down {
        open.shutdown().unwrap_or_else(|error| panic!("{context}: {error}"));
        check_flash(store, context);
    } else {
        drop(open);
    }
}

fn check_flash(store: &RealStore, context: &str) {
    let rig = store.machine().unwrap_or_else(|error| panic!("{context}: {error:#}"));
    // SCE leaves nothing on flash that outlives it.
    let (Some(flash), Some(CacheOptions::Slots(_))) = (rig.flash, rig.tier) else { return };
    let report =
        entresol_engine::check(&*flash, Some(rig.disk)).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(report.is_sound(), "{context}: {report}");
}

fn killed_again_and_again(system: System, kills: u32) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(system, folder.path());
    let mut random = Rng::new(0x5163_4b11 + u64::from(kills));
    let mut acknowledged = Vec::new();
    let (mut done, mut workers) = (0, 0);
    let worker = |number: u32| Worker {
        store: store.clone(),
        load: (number == 0).then_some(Scale::tiny(1)),
        clients: 4,
        think: Duration::ZERO,
        warmup: Warmup::For(Duration::ZERO),
        seed: number.into(),
    };
    while done < kills {
        let before = acknowledged.len();
        let delay = Duration::from_micros(20_000 + random.below(180_000));
        run_and_kill(&worker(workers), When::Working(delay), &mut acknowledged);
        done += 1;
        assert!(acknowledged.len() > before, "a worker acknowledges before it is killed");
        let in_recovery = workers % KILL_RECOVERY_EVERY == KILL_RECOVERY_EVERY - 1 && done < kills;
        if in_recovery {
            let delay = Duration::from_micros(random.below(30_000));
            run_and_kill(&worker(workers), When::Restarting(delay), &mut acknowledged);
            done += 1;
        }
        let context = format!("{} after {done} kills", system.name());
        verify(&store, &acknowledged, workers % 2 == 0, &context);
        workers += 1;
    }
    // Past the capture of the test's output: the number is worth knowing also when all is well.
    let line = format!(
        "{}: {done} times SIGKILL, {} of them during a restart; {} acknowledged transactions, none lost\n",
        system.name(),
        done - workers,
        acknowledged.len()
    );
    std::io::stdout().write_all(line.as_bytes()).expect("somebody reads");
}

#[test]
fn face_gsc_loses_nothing_when_killed() {
    killed_again_and_again(System::Cached(PolicyKind::FaceGsc), 50);
}

#[test]
fn face_loses_nothing_when_killed() {
    killed_again_and_again(System::Cached(PolicyKind::Face), 20);
}

#[test]
fn lc_loses_nothing_when_killed() {
    killed_again_and_again(System::Cached(PolicyKind::Lc), 15);
}

/// What only the flash had when the worker was killed is on disk after `entresol detach`: the flash is not
/// missed.
#[test]
fn after_a_detach_nothing_is_missed_without_the_flash() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cached = store(System::Cached(PolicyKind::FaceGsc), folder.path());
    let worker = Worker {
        store: cached.clone(),
        load: Some(Scale::tiny(1)),
        clients: 4,
        think: Duration::ZERO,
        warmup: Warmup::For(Duration::ZERO),
        seed: 1,
    };
    let mut acknowledged = Vec::new();
    run_and_kill(&worker, When::Working(Duration::from_millis(150)), &mut acknowledged);
    let RealPaths { flash, disk, .. } = &cached.paths;
    let output = Command::new(env!("CARGO_BIN_EXE_entresol")).arg("detach").args([flash, disk]).output();
    let output = output.expect("the command was built for this test");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(" pages were written to "), "{said}");
    std::fs::remove_file(flash).expect("a file");
    let alone = RealStore { system: System::DiskOnly, tier: None, ..cached };
    verify(&alone, &acknowledged, true, "on disk alone, after a detach");
}

/// The cache is empty after each kill: recovery reads the disk.
#[test]
fn sce_loses_nothing_when_killed() {
    killed_again_and_again(System::Fragments, 8);
}

#[test]
fn the_disk_alone_loses_nothing_when_killed() {
    killed_again_and_again(System::DiskOnly, 15);
}
