//! Real processes: this program starts itself again, in a role that the environment names, and some of them
//! are killed.

use entresol_runtime::sync::Rank;
use entresol_shm::atomic::{AtomicU64, Ordering::SeqCst};
use entresol_shm::{
    Areas, Epoch, Front, Fronts, Gone, Guarded, Plan, Segment, Shared, Watch, shared_struct, system_calls,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

shared_struct! {
    /// What the roles tell each other.
    struct Board {
        /// Roles that are where they are to be.
        ready: AtomicU64,
        /// Rounds of all workers.
        rounds: AtomicU64,
        stop: AtomicU64,
        /// Where each worker has mapped the segment, at two places.
        addresses: [AtomicU64; 8],
        changed: Epoch,
    }
}

/// Words of the guarded area.
const WORDS: usize = 64;
/// Rounds of a worker that counts.
const ROUNDS: u64 = 50_000;
/// What a front is in the middle of, in these tests.
const FRAME: NonZeroU64 = NonZeroU64::new(0xf00d).expect("not 0");

/// The segment, attached.
struct World {
    segment: Segment,
    board: Shared<Board>,
    /// Two areas, each of equal words whenever nobody holds its latch.
    areas: Guarded,
    fronts: Fronts,
}

impl World {
    fn plan() -> (Plan, impl Fn(Segment) -> World) {
        let mut plan = Plan::new(3);
        let board = plan.part::<Board>("board");
        let areas = Areas { count: 2, words: WORDS, alignment: 4096 };
        let areas = plan.guarded_areas("areas", Rank::CachePartition, areas);
        let fronts = plan.fronts("fronts", 8);
        let attached = move |segment: Segment| World {
            board: segment.part(&board),
            areas: segment.guarded(&areas),
            fronts: segment.fronts(&fronts),
            segment,
        };
        (plan, attached)
    }

    fn create(path: &Path) -> World {
        let (plan, attached) = Self::plan();
        attached(Segment::create(path, &plan).expect("memory").publish().expect("a name"))
    }

    fn attach(path: &Path) -> World {
        let (plan, attached) = Self::plan();
        attached(Segment::attach(path, &plan).expect("the parent has published it"))
    }

    fn front(&self) -> Front {
        self.fronts.register().expect("a free seat")
    }

    /// Waits until so many roles are ready; fails if one of them has ended.
    fn await_ready(&self, children: &mut [Child], count: u64) {
        self.await_that(children, |board| board.ready.load(SeqCst) >= count);
    }

    fn await_that(&self, children: &mut [Child], is_reached: impl Fn(&Board) -> bool) {
        while !is_reached(&self.board) {
            for child in children.iter_mut() {
                assert_eq!(child.try_wait().expect("it is a child"), None, "a role has failed");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Adds 1 to every word, one after the other.
fn count_up(area: &mut [u64]) {
    assert!(area.iter().all(|word| *word == area[0]), "two were in the latch: {area:?}");
    area.iter_mut().for_each(|word| *word += 1);
}

fn forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(600));
    }
}

/// What a child does; not a test of its own.
#[test]
#[ignore = "started by the tests of this file"]
fn role() {
    let Ok(path) = std::env::var("ENTRESOL_SHM_SEGMENT") else { return };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal");
    let world = World::attach(Path::new(&path));
    let role = std::env::var("ENTRESOL_SHM_ROLE").expect("given");
    let front = world.front();
    let me = front.holder();
    match role.as_str() {
        "count" => {
            let twice = World::attach(Path::new(&path));
            let place = 2 * world.board.ready.fetch_add(1, SeqCst) as usize;
            world.board.addresses[place].store(world.segment.address() as u64, SeqCst);
            world.board.addresses[place + 1].store(twice.segment.address() as u64, SeqCst);
            for round in 0..ROUNDS {
                let through = [&world, &twice][round as usize % 2];
                count_up(&mut through.areas.lock(me).expect("nobody poisons it"));
            }
        }
        "hold" => {
            let _guard = world.areas.lock_area(1, me).expect("nobody poisons it");
            world.board.ready.fetch_add(1, SeqCst);
            forever()
        }
        "wait" => {
            world.board.ready.fetch_add(1, SeqCst);
            assert_eq!(world.areas.lock_area(1, me).err(), Some(Gone));
        }
        "fill" => {
            front.holds(FRAME);
            world.board.ready.fetch_add(1, SeqCst);
            forever()
        }
        "idle" => {
            front.holds(FRAME);
            front.holds_nothing();
            world.board.ready.fetch_add(1, SeqCst);
            forever()
        }
        "leave" => {
            world.board.ready.fetch_add(1, SeqCst);
            while world.board.stop.load(SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "sleep" => {
            let mut seen = world.board.changed.seen();
            world.board.ready.fetch_add(1, SeqCst);
            while world.board.stop.load(SeqCst) == 0 {
                assert!(world.board.changed.wait(seen, None), "no signal is sent");
                seen = world.board.changed.seen();
                world.board.rounds.fetch_add(1, SeqCst);
            }
        }
        "churn" => {
            world.board.ready.fetch_add(1, SeqCst);
            while world.board.stop.load(SeqCst) == 0 {
                for at in 0..2 {
                    match world.areas.lock_area(at, me) {
                        Ok(mut area) => count_up(&mut area),
                        Err(Gone) => return,
                    }
                }
                world.board.rounds.fetch_add(1, SeqCst);
            }
        }
        other => panic!("no role {other:?}"),
    }
}

struct Roles {
    path: PathBuf,
}

impl Roles {
    fn start(&self, role: &str) -> Child {
        let program = std::env::current_exe().expect("this test has a file");
        let mut command = Command::new(program);
        command.args(["role", "--exact", "--ignored", "--quiet"]).stdout(Stdio::null());
        command.env("ENTRESOL_SHM_SEGMENT", &self.path).env("ENTRESOL_SHM_ROLE", role);
        command.spawn().expect("this program can be started")
    }
}

fn world() -> (tempfile::TempDir, World, Roles) {
    let directory = tempfile::tempdir().expect("a place for files");
    let path = directory.path().join("segment");
    let world = World::create(&path);
    (directory, world, Roles { path })
}

fn kill(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it is a child");
}

fn assert_success(mut child: Child) {
    assert!(child.wait().expect("it is a child").success(), "a role has failed");
}

/// The only front that is dead.
fn the_dead(watch: &mut Watch, pid: u32) -> entresol_shm::Dead {
    let dead = watch.find_dead();
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].pid, pid);
    dead[0]
}

#[test]
fn four_processes_count_together_at_different_addresses() {
    let (_directory, world, roles) = world();
    let workers: Vec<_> = (0..4).map(|_| roles.start("count")).collect();
    workers.into_iter().for_each(assert_success);
    let front = world.front();
    let area = world.areas.lock(front.holder()).expect("nobody poisons it");
    assert!(area.iter().all(|word| *word == 4 * ROUNDS), "{area:?}");
    for pair in world.board.addresses.as_chunks::<2>().0 {
        let [one, other] = pair.each_ref().map(|address| address.load(SeqCst));
        assert!(one != 0 && other != 0 && one != other, "one process maps it twice");
    }
    assert_eq!(world.fronts.count(), 1, "all others have left");
}

#[test]
fn a_holder_that_is_killed_is_found_and_all_others_are_told() {
    let (_directory, world, roles) = world();
    let (back, mut watch) = (world.fronts.register_back().expect("nobody serves it"), world.fronts.watch());
    let mut holder = [roles.start("hold")];
    world.await_ready(&mut holder, 1);
    let mut waiting: Vec<_> = (0..3).map(|_| roles.start("wait")).collect();
    world.await_ready(&mut waiting, 4);
    assert_eq!(watch.find_dead(), []);
    let [holder] = holder;
    let pid = holder.id();
    kill(holder);
    let dead = the_dead(&mut watch, pid);
    assert_eq!(dead.holding, None);
    assert!(world.areas.is_held_by(dead.holder));
    assert_eq!((world.areas.holder(0), world.areas.holder(1)), (None, Some(dead.holder)));
    for child in &mut waiting {
        assert_eq!(child.try_wait().expect("it is a child"), None, "nobody gets the latch of the dead");
    }
    world.areas.poison();
    waiting.into_iter().for_each(assert_success);
    for at in 0..2 {
        assert_eq!(world.areas.lock_area(at, back.holder()).err(), Some(Gone));
        assert_eq!(world.areas.try_lock_area(at, back.holder()).err(), Some(Gone));
    }
}

/// The back finds it even before its parent has taken note of its end.
#[test]
fn a_dead_front_is_found_while_it_is_a_zombie() {
    let (_directory, world, roles) = world();
    let mut watch = world.fronts.watch();
    let mut child = [roles.start("fill")];
    world.await_ready(&mut child, 1);
    assert_eq!(watch.find_dead(), []);
    let [mut child] = child;
    child.kill().expect("it runs");
    let dead = loop {
        if let [dead] = watch.find_dead()[..] {
            break dead;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!((dead.pid, dead.holding), (child.id(), Some(FRAME)));
    child.wait().expect("it is a child");
}

#[test]
fn what_a_dead_front_held_is_known() {
    let (_directory, world, roles) = world();
    let mut watch = world.fronts.watch();
    for (role, holding) in [("fill", Some(FRAME)), ("idle", None)] {
        let before = world.board.ready.load(SeqCst);
        let mut child = [roles.start(role)];
        world.await_ready(&mut child, before + 1);
        assert_eq!(watch.find_dead(), []);
        let [child] = child;
        let pid = child.id();
        kill(child);
        let dead = the_dead(&mut watch, pid);
        assert_eq!(dead.holding, holding, "{role}");
        // One that nobody has watched before is found, too.
        assert_eq!(world.fronts.watch().find_dead(), [dead]);
        assert_eq!(world.fronts.count(), 1);
        watch.vacate(&dead);
        assert_eq!((watch.find_dead(), world.fronts.count()), (vec![], 0));
    }
}

/// A front leaves, and another one takes its seat, between two looks of the back.
#[test]
fn a_front_is_not_taken_for_the_one_before_it() {
    let (_directory, world, roles) = world();
    let mut watch = world.fronts.watch();
    let mut first = [roles.start("leave")];
    world.await_ready(&mut first, 1);
    assert_eq!(watch.find_dead(), []);
    world.board.stop.store(1, SeqCst);
    first.into_iter().for_each(assert_success);
    let mut second = [roles.start("fill")];
    world.await_ready(&mut second, 2);
    assert_eq!(watch.find_dead(), []);
    let [second] = second;
    let pid = second.id();
    kill(second);
    assert_eq!(the_dead(&mut watch, pid).holding, Some(FRAME));
}

#[test]
fn a_raise_wakes_processes_that_sleep() {
    let (_directory, world, roles) = world();
    let mut sleepers: Vec<_> = (0..2).map(|_| roles.start("sleep")).collect();
    world.await_ready(&mut sleepers, 2);
    // Sleepers look by themselves now and then, so it is the kernel who says that they were woken.
    for round in 1.. {
        assert!(round < 300, "{:?} in {round} rounds", system_calls());
        let is_last = system_calls().woken >= 20;
        world.board.stop.store(is_last.into(), SeqCst);
        world.board.changed.raise();
        world.await_that(&mut [], |board| board.rounds.load(SeqCst) >= 2 * round);
        if is_last {
            break;
        }
    }
    sleepers.into_iter().for_each(assert_success);
}

/// Workers take two latches in turn, and one of them is killed at a random moment. If it held a latch the
/// back gives the segment up, and all others end. If it did not, all others go on.
#[test]
fn killed_at_any_moment() {
    let (mut in_a_latch, mut elsewhere) = (0, 0);
    let mut delay = 0;
    while in_a_latch < 10 || elsewhere < 10 {
        assert!(in_a_latch + elsewhere < 500, "{in_a_latch} died in a latch, {elsewhere} elsewhere");
        let (_directory, world, roles) = world();
        let mut watch = world.fronts.watch();
        let mut workers: Vec<_> = (0..3).map(|_| roles.start("churn")).collect();
        world.await_ready(&mut workers, 3);
        delay = (delay + 337) % 2000;
        let from = world.board.rounds.load(SeqCst);
        world.await_that(&mut workers, |board| board.rounds.load(SeqCst) > from + 10);
        std::thread::sleep(Duration::from_micros(delay));
        let victim = workers.pop().expect("three of them");
        let pid = victim.id();
        kill(victim);
        let dead = the_dead(&mut watch, pid);
        if world.areas.is_held_by(dead.holder) {
            world.areas.poison();
            in_a_latch += 1;
        } else {
            watch.vacate(&dead);
            let from = world.board.rounds.load(SeqCst);
            world.await_that(&mut workers, |board| board.rounds.load(SeqCst) > from + 10);
            world.board.stop.store(1, SeqCst);
            elsewhere += 1;
        }
        workers.into_iter().for_each(assert_success);
        assert!(watch.find_dead().iter().all(|other| *other == dead), "the others have left their seats");
    }
}
