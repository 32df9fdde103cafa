//! Prints the real time that operations of the simulated runtime take: a sleep with a switch, a park with an
//! unpark, a lock, a world.

use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::sync::{Mutex, Rank};
use entresol_runtime::{current, park, sleep, spawn};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn report(what: &str, count: u64, start: Instant) {
    println!("{what}: {:.1} ns", start.elapsed().as_nanos() as f64 / count as f64);
}

fn main() {
    const ROUNDS: u64 = 100_000;
    const TASKS: u64 = 50;
    let start = Instant::now();
    Simulation::new(SimConfig::default())
        .run(|| {
            let tasks: Vec<_> = (0..TASKS)
                .map(|id| {
                    spawn("sleeper", move || {
                        for _ in 0..ROUNDS {
                            sleep(Duration::from_nanos(100 + id));
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join());
        })
        .unwrap();
    report("sleep and switch, 50 tasks", ROUNDS * TASKS, start);

    let start = Instant::now();
    Simulation::new(SimConfig::default())
        .run(|| {
            let main = current();
            let echo = spawn("echo", move || {
                for _ in 0..ROUNDS {
                    park();
                    main.unpark();
                }
            });
            for _ in 0..ROUNDS {
                echo.task().unpark();
                park();
            }
        })
        .unwrap();
    report("unpark and park", 2 * ROUNDS, start);

    let start = Instant::now();
    let mutex = Arc::new(Mutex::new(Rank::Test, 0));
    for _ in 0..ROUNDS * 100 {
        *mutex.lock() += 1;
    }
    report("lock and unlock, free", ROUNDS * 100, start);

    const WORLDS: u64 = 5_000;
    let start = Instant::now();
    for _ in 0..WORLDS {
        Simulation::new(SimConfig::default())
            .run(|| {
                for _ in 0..10 {
                    spawn("waiter", park);
                }
                sleep(Duration::from_nanos(1));
            })
            .unwrap();
    }
    report("world of 10 tasks, made and torn down", WORLDS, start);
}
