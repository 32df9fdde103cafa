//! What kills alone do not show: who does not fit is refused, and a page that another process has written
//! over is not written to flash.

use super::STALLED_AFTER;
use super::roles::{PAGE, build, version};
use super::world::World;
use entresol_core::{Lsn, Mode, PageId};
use entresol_engine::{
    AttachOptions, Deletes, FlashTier, Handed, Layer, SharedFront, TierError, TierOptions, Victim,
};
use entresol_format::page;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn new_world() -> (TempDir, World) {
    let directory = tempfile::tempdir().unwrap();
    let world = World::of(directory.path());
    world.create();
    (directory, world)
}

fn open(world: &World) -> Arc<FlashTier> {
    let (flash, home) = world.devices();
    FlashTier::open_shared(flash, home, world.options.clone(), &world.sharing).unwrap().0
}

fn put(front: &SharedFront, page: PageId, number: u64) {
    let victim = Victim { page, lsn: Lsn(number), dirty: true, fdirty: true };
    let handed = front.evict(victim, &build(page.0, number)).unwrap();
    assert!(matches!(handed, Handed::Taken(_)), "{handed:?}");
}

/// Whether the cache has the page, and in which version; or that on disk.
fn fetch(world: &World, front: &SharedFront, page: PageId) -> (bool, u64) {
    let mut buffer = vec![0; PAGE];
    let is_cached = front.fetch(page, &mut buffer).unwrap().is_some();
    if !is_cached {
        let disk = File::open(world.path("disk")).unwrap();
        disk.read_exact_at(&mut buffer, World::place(page.0)).unwrap();
    }
    (is_cached, version(page.0, &buffer).expect("a whole page"))
}

#[test]
fn who_has_other_options_or_another_flash_does_not_attach() {
    let (_directory, world) = new_world();
    let tier = open(&world);
    let attach = |options: &TierOptions, flash: &str| {
        let attach = AttachOptions { is_direct: false, ..AttachOptions::default() };
        SharedFront::attach(&world.sharing, &world.path(flash), options, &attach)
    };
    let refused = |attached: Result<SharedFront, TierError>| match attached {
        Err(TierError::Refused(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was attached"),
    };
    // The layout of the segment is the same.
    let other = TierOptions { mode: Mode::WriteThrough, ..world.options.clone() };
    assert!(refused(attach(&other, "flash")).contains("made with other options"));
    let (_elsewhere, other) = new_world();
    std::fs::copy(other.path("flash"), world.path("other flash")).unwrap();
    assert!(refused(attach(&world.options, "other flash")).contains("holds cache"));
    drop(attach(&world.options, "flash").unwrap());
    tier.close().unwrap();
}

/// The role of a process that attaches and is killed.
pub const DIES: u64 = u64::MAX;

pub fn attach_and_die(world: &World) {
    let _front = world.attach().expect("a seat is free");
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

/// The role of a process that forgets a long range of pages.
pub const FORGETS: u64 = u64::MAX - 1;

/// More pages than the directory has entries.
const LONG: (PageId, PageId) = (PageId(100), PageId(100_000));

pub fn forget_many(world: &World) {
    world.attach().expect("a seat is free").forget(LONG.0, LONG.1).expect("the cache runs");
}

/// Another process, in this role. `hook`: see the other roles.
fn child(directory: &TempDir, role: u64, hook: Option<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "role", "--ignored", "--nocapture"]).stdout(Stdio::null());
    child
        .env("ENTRESOL_FRONTS_DIRECTORY", directory.path())
        .env("ENTRESOL_FRONTS_PARENT", std::process::id().to_string())
        .env("ENTRESOL_FRONTS_ROLE", role.to_string());
    hook.into_iter().for_each(|hook| _ = child.env("ENTRESOL_FRONTS_HOOK", hook));
    child.spawn().unwrap()
}

/// A front may die at each step of forgetting dead pages. The back does the rest.
#[cfg(feature = "hooks")]
#[test]
fn the_back_forgets_on_for_a_front_that_is_killed() {
    let (directory, world) = new_world();
    let tier = open(&world);
    let front = world.attach().unwrap();
    (90..200).for_each(|page| put(&front, PageId(page), 2));
    front.checkpoint().unwrap();
    let reached = world.path("reached");
    let mut child = child(&directory, FORGETS, Some(format!("forget 0 {}", reached.display())));
    let since = Instant::now();
    while !reached.exists() {
        assert!(since.elapsed() < *STALLED_AFTER, "it does not forget");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(fetch(&world, &front, PageId(150)).0, "it stands before the first step");
    child.kill().unwrap();
    child.wait().unwrap();
    while tier.fronts() > 1 {
        assert!(since.elapsed() < *STALLED_AFTER, "its seat is kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    let is_forgotten = |front: &SharedFront| {
        let cached = (90..200).filter(|page| fetch(&world, front, PageId(*page)).0);
        cached.eq(90..LONG.0.0)
    };
    assert!(!tier.is_given_up() && is_forgotten(&front));
    // What came later is there, and after a crash, too.
    put(&front, PageId(150), 3);
    front.flush().unwrap();
    drop(front);
    tier.abandon();
    drop(tier);
    let tier = open(&world);
    let front = world.attach().unwrap();
    assert_eq!(fetch(&world, &front, PageId(150)), (true, 3));
    front.forget(PageId(150), PageId(150)).unwrap();
    assert!(is_forgotten(&front));
    drop(front);
    tier.close().unwrap();
}

/// More fronts are killed than there are seats, none of them in the middle of a change.
#[test]
fn seats_of_dead_fronts_are_given_to_others() {
    let (directory, world) = new_world();
    let tier = open(&world);
    for nth in 0..2 * world.sharing.fronts {
        let ended = child(&directory, DIES, None).wait().unwrap();
        assert_eq!(ended.signal(), Some(9), "front {nth}: {ended}");
        let since = Instant::now();
        while tier.fronts() > 0 {
            assert!(since.elapsed() < *STALLED_AFTER, "the seat of front {nth} is kept");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(!tier.is_given_up(), "they had nothing in hand");
    tier.close().unwrap();
}

/// A process writes over shared memory that is not its own.
#[test]
fn a_page_that_was_overwritten_in_shared_memory_is_not_written() {
    let (_directory, world) = new_world();
    let tier = open(&world);
    let front = world.attach().unwrap();
    let (kept, lost) = (PageId(11), PageId(12));
    put(&front, kept, 2);
    front.checkpoint().unwrap();
    put(&front, lost, 2);
    let segment = File::options().read(true).write(true).open(world.path("segment")).unwrap();
    let mut bytes = vec![0; segment.metadata().unwrap().len() as usize];
    segment.read_exact_at(&mut bytes, 0).unwrap();
    let is_it = |at: &usize| {
        let page = &bytes[*at..*at + PAGE];
        page::header(page).page.get() == lost.0 && page::verify(page, lost, None).is_ok()
    };
    let at = (0..bytes.len() - PAGE).step_by(8).find(is_it).expect("it is in staging");
    segment.write_all_at(&[0xff; 8], (at + PAGE / 2) as u64).unwrap();
    let flushed = front.flush();
    assert!(matches!(flushed, Err(TierError::Gone(_))), "{flushed:?}");
    assert!(tier.is_given_up());
    tier.abandon();
    drop(tier);
    let tier = open(&world);
    let front = world.attach().unwrap();
    assert_eq!(fetch(&world, &front, kept), (true, 2));
    assert_eq!(fetch(&world, &front, lost), (false, 1), "as after a crash");
    tier.close().unwrap();
}
