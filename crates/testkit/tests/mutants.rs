//! Every mutant of the catalogue, but for those listed as open, must be noticed. Only with the feature
//! `mutants`; each in a process of its own. `sound:NAME`: the hunt for that mutant in the sound program,
//! which must find nothing.
//!
//! ```text
//! cargo test --release -p entresol-testkit --features mutants --test mutants [-- NAME|sound:NAME ...]
//! ```

use entresol_testkit::mutants::{ALL, Limit, OPEN, control, hunt};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// States that a mutant has to survive: most are noticed within seconds, the rarest after a minute or two.
const STATES: u64 = 240_000;
/// States that the sound program has to survive.
const CONTROL: u64 = 12_000;
/// A name of the sound program, before that of the mutant whose hunt it is for.
const SOUND: &str = "sound:";
/// After this a process that neither finds anything nor ends is killed.
const PATIENCE: Duration = Duration::from_secs(1200);

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.first().is_some_and(|word| word == "--one") {
        return one(&names[1]);
    }
    names.retain(|name| !name.starts_with('-'));
    let hunted: Vec<Option<&str>> = match names.is_empty() {
        true => {
            println!("open, not run unless named: {}", OPEN.join(", "));
            let closed = ALL.iter().map(|mutant| mutant.name).filter(|name| !OPEN.contains(name));
            std::iter::once(None).chain(closed.map(Some)).collect()
        }
        false => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(0));
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(name) = hunted.get(next.fetch_add(1, Relaxed)) {
                    if !judge(*name) {
                        *wrong.lock().expect("no thread panics with it") += 1;
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread panics with it");
    println!("{} passed, {wrong} failed", hunted.len() - wrong);
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The child: 0 sound, 1 something was noticed, 2 there is no such mutant.
fn one(name: &str) -> ExitCode {
    let limit = |states| Limit { states, time: PATIENCE / 2 };
    let hunted = match (name, name.strip_prefix(SOUND)) {
        (_, Some(mutant)) => control(mutant, 1, limit(2 * CONTROL)),
        ("none", _) => hunt(None, 1, limit(CONTROL)),
        (mutant, _) => hunt(Some(mutant), 1, limit(STATES)),
    };
    match hunted {
        Ok(hunt) => {
            println!("{hunt}");
            if hunt.evidence.is_some() { ExitCode::from(1) } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a child; true if the verdict is as it should be.
fn judge(name: Option<&str>) -> bool {
    let started = Instant::now();
    let me = std::env::current_exe().expect("a running program has a path");
    let mut child = Command::new(me)
        .args(["--one", name.unwrap_or("none")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can be started again");
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break Some(status),
            None if started.elapsed() > PATIENCE => {
                child.kill().expect("a child can be killed");
                child.wait().expect("a killed child ends");
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("it was piped"), &mut text)
        .expect("a child prints text");
    let told = text.lines().next().unwrap_or("it said nothing").to_owned();
    let code = status.and_then(|status| status.code());
    // A mutant may abort the process (an overflow of the stack, memory that is not there): that is noticed,
    // too.
    let noticed = match status {
        None => false,
        Some(_) => code != Some(0) && code != Some(2),
    };
    let is_mutant = name.is_some_and(|name| !name.starts_with(SOUND));
    let right = noticed == is_mutant && code != Some(2);
    let seconds = started.elapsed().as_secs_f64();
    println!("{} {seconds:6.1} s  {told}", if right { "ok    " } else { "FAILED" });
    right
}
