//! Processes that share a cache are killed at random: the back, and fronts at any instruction; with the
//! feature `hooks` also fronts that stand at the points of `entresol_engine::hooks`: inside a latch, say, or
//! with a frame that they were to fill. After each kill an oracle outside reads all pages: none is older than
//! what was durable, nor than what was taken or served since the cache was last opened. `cargo xtask mutants`
//! plants bugs that it must notice.
//!
//! `ENTRESOL_FRONT_KILLS=1000 cargo test --release -p entresol-testkit --features hooks --test fronts`

mod directed;
mod journal;
mod roles;
mod world;

use entresol_runtime::random;
use entresol_shm::atomic::Ordering::SeqCst;
use journal::{FRONTS, Journal};
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use world::World;

/// Kills in a normal run of the tests.
const KILLS: u64 = 60;
/// If no page is read, or nothing is flushed, for so long, somebody waits for a dead process.
/// Some mutants stall, and are noticed by that: then it is not long.
static STALLED_AFTER: LazyLock<Duration> = LazyLock::new(|| {
    let is_hunt = std::env::var_os("ENTRESOL_MUTANT").is_some();
    Duration::from_secs(if is_hunt { 10 } else { 60 })
});
/// Points at which fronts stop, and after how many passes at most.
const POINTS: [(&str, u64); 7] = [
    ("latch", 2000),
    ("frame", 1000),
    ("group", 1000),
    ("filled", 1000),
    ("copy", 30),
    ("hit", 300),
    ("around", 50),
];

/// A child, and where it says that it stands at its hook.
struct Role {
    /// 0: the back.
    id: u64,
    child: Child,
    hook: Option<(usize, PathBuf)>,
    is_killed: bool,
}

/// All children. Each is started anew when it was killed.
struct Children<'a> {
    directory: &'a Path,
    roles: Mutex<Vec<Role>>,
    /// By point, and in the end those that stood at none: fronts, backs.
    kills: Mutex<[u64; POINTS.len() + 2]>,
    /// Times that the thread that kills has read all pages.
    rounds: AtomicU64,
    /// No front is started any more.
    is_ending: AtomicBool,
    is_over: AtomicBool,
}

impl Children<'_> {
    fn start(&self, id: u64) -> Role {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "role", "--ignored", "--nocapture"]).stdout(Stdio::null());
        command.env("ENTRESOL_FRONTS_DIRECTORY", self.directory).env("ENTRESOL_FRONTS_ROLE", id.to_string());
        command.env("ENTRESOL_FRONTS_PARENT", std::process::id().to_string());
        let has_hook = cfg!(feature = "hooks") && id > 0 && random().is_multiple_of(2);
        let hook = has_hook.then(|| {
            let point = match std::env::var("ENTRESOL_FRONT_POINT") {
                Ok(name) => POINTS.iter().position(|point| point.0 == name).expect("a point of that name"),
                Err(_) => random() as usize % POINTS.len(),
            };
            let reached = self.directory.join(format!("reached-{:016x}", random()));
            let (name, passes_max) = POINTS[point];
            let hook = format!("{name} {} {}", random() % passes_max, reached.display());
            command.env("ENTRESOL_FRONTS_HOOK", hook);
            (point, reached)
        });
        Role { id, child: command.spawn().unwrap(), hook, is_killed: false }
    }

    fn kill(&self, role: &mut Role, kind: usize) {
        role.child.kill().unwrap();
        role.child.wait().unwrap();
        role.is_killed = true;
        self.kills.lock()[kind] += 1;
    }

    /// Kills a child, if none was killed at its hook since.
    fn kill_any(&self) {
        let mut roles = self.roles.lock();
        if roles.iter().any(|role| role.is_killed) {
            return;
        }
        let at = if random().is_multiple_of(8) { 0 } else { 1 + random() as usize % FRONTS as usize };
        self.kill(&mut roles[at], POINTS.len() + usize::from(at == 0));
    }

    /// Kills fronts that stand at their hooks, for whom all others may wait; starts those anew that were
    /// killed; and fails if one has ended by itself.
    fn look_after(&self, journal: &Journal) {
        let board = &journal.board;
        let watched = [
            (&board.reads, "no process has read a page"),
            (&board.flushes, "no process has flushed"),
            (&self.rounds, "the test has not read all pages"),
        ];
        let mut seen = watched.map(|_| (0, Instant::now()));
        loop {
            for ((word, what), (before, since)) in watched.iter().zip(&mut seen) {
                let now = word.load(SeqCst);
                if now != *before {
                    (*before, *since) = (now, Instant::now());
                } else if since.elapsed() > *STALLED_AFTER {
                    fail(&format!("{what} for {:?}", *STALLED_AFTER));
                }
            }
            let mut roles = self.roles.lock();
            if self.is_over.load(SeqCst) {
                return;
            }
            for role in &mut *roles {
                if role.is_killed && (role.id == 0 || !self.is_ending.load(SeqCst)) {
                    *role = self.start(role.id);
                }
                if role.is_killed {
                    continue;
                }
                if let Some(ended) = role.child.try_wait().unwrap() {
                    fail(&format!("role {} has ended by itself: {ended}", role.id));
                }
                let point = match &role.hook {
                    Some((point, reached)) if reached.exists() => *point,
                    _ => continue,
                };
                std::thread::sleep(Duration::from_millis(random() % 20));
                self.kill(role, point);
            }
            drop(roles);
            std::thread::sleep(Duration::from_millis(random() % 10));
        }
    }
}

/// Ends the test. The thread that reads may wait for ever for a process that has ended, too, so the other one
/// cannot just panic.
fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1);
}

/// What a child does; not a test of its own.
#[test]
#[ignore = "started by the test of this file"]
fn role() {
    let Ok(directory) = std::env::var("ENTRESOL_FRONTS_DIRECTORY") else { return };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    if parent.to_string() != std::env::var("ENTRESOL_FRONTS_PARENT").unwrap() {
        // It has ended before it could be said that this process ends with it.
        return;
    }
    #[cfg(feature = "hooks")]
    if let Ok(hook) = std::env::var("ENTRESOL_FRONTS_HOOK") {
        let parts: Vec<&str> = hook.splitn(3, ' ').collect();
        entresol_engine::hooks::set(parts[0], parts[1].parse().unwrap(), PathBuf::from(parts[2]));
    }
    let world = World::of(Path::new(&directory));
    match std::env::var("ENTRESOL_FRONTS_ROLE").unwrap().parse().unwrap() {
        0 => roles::back(&world),
        directed::DIES => directed::attach_and_die(&world),
        directed::FORGETS => directed::forget_many(&world),
        id => roles::front(&world, id - 1),
    }
}

#[test]
fn no_durable_page_is_lost_whoever_is_killed() {
    let kills = std::env::var("ENTRESOL_FRONT_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let memory = Path::new("/dev/shm");
    let directory = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let directory = directory.unwrap();
    let world = World::of(directory.path());
    world.create();
    let journal = Journal::create(&world.path("journal"));
    let children = Children {
        directory: directory.path(),
        roles: Mutex::new(Vec::new()),
        kills: Mutex::default(),
        rounds: AtomicU64::new(0),
        is_ending: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    *children.roles.lock() = (0..=FRONTS).map(|id| children.start(id)).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        // Whichever thread fails, the other one ends. A child is killed with the thread that has started it:
        // so that thread lives longer than all children.
        scope.spawn(|| {
            let _over = Over(&children.is_over);
            children.look_after(&journal);
        });
        let over = Over(&children.is_over);
        let mut reader = roles::Reader::new(&world, &journal);
        let mut front = roles::attach(&world);
        while children.kills.lock().iter().sum::<u64>() < kills && !children.is_over.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(random() % 40));
            children.kill_any();
            reader.read_all(&world, &mut front);
            children.rounds.fetch_add(1, SeqCst);
        }
        // All fronts are killed at once.
        children.is_ending.store(true, SeqCst);
        for role in children.roles.lock().iter_mut().filter(|role| role.id > 0 && !role.is_killed) {
            children.kill(role, POINTS.len());
        }
        reader.read_all(&world, &mut front);
        drop(front);
        // Nobody looks after the back while it closes the cache. If it was killed last, it is started first.
        let mut roles = children.roles.lock();
        while roles[0].is_killed && !children.is_over.load(SeqCst) {
            MutexGuard::unlocked(&mut roles, || std::thread::sleep(Duration::from_millis(1)));
        }
        journal.board.stop.store(1, SeqCst);
        let closed = ended(&mut roles[0].child);
        drop(over);
        let closed = closed.expect("the back closes the cache, and does not wait for a dead process");
        assert!(closed.success(), "the back closes the cache: {closed}");
    });
    report(&journal, &children.kills.lock()[..], began.elapsed());
}

/// How the child has ended. `None`: it did not, for so long that it waits for ever.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < *STALLED_AFTER {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn report(journal: &Journal, kills: &[u64], took: Duration) {
    let board = &journal.board;
    let count = |word: &entresol_shm::atomic::AtomicU64| word.load(SeqCst);
    let killed = kills.iter().sum::<u64>();
    println!(
        "{killed} kills in {:.0} s: {kills:?} ({}, fronts, backs); {} opens; {} reads, {} of them hits; {} evictions, \
         {} past the cache, {} forgotten, {} flushes, {} checkpoints, {} destages",
        took.as_secs_f64(),
        POINTS.map(|point| point.0).join(", "),
        count(&board.opens),
        count(&board.reads),
        count(&board.hits),
        count(&board.evictions),
        count(&board.arounds),
        count(&board.forgotten),
        count(&board.flushes),
        count(&board.checkpoints),
        count(&board.destages),
    );
    for (what, word) in [
        ("hits", &board.hits),
        ("evictions", &board.evictions),
        ("writes past the cache", &board.arounds),
        ("forgotten", &board.forgotten),
        ("flushes", &board.flushes),
        ("checkpoints", &board.checkpoints),
        ("destages", &board.destages),
    ] {
        assert!(count(word) > 0, "no {what}");
    }
    assert!(count(&board.opens) <= 1 + killed, "the cache was given up though nobody was killed");
}
