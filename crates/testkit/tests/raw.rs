//! Caches of raw pages that are flushed and forgotten, under power failures. `ENTRESOL_RAW_ROUNDS` says how
//! many caches of each kind.

use entresol_testkit::raw::{self, Examined};

#[test]
fn flushed_pages_survive_and_forgotten_ones_do_not_come_back() {
    let rounds =
        std::env::var("ENTRESOL_RAW_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(100);
    for cache in raw::CACHES {
        let mut sum = raw::RawLives::default();
        for seed in 0..rounds {
            let examined = if seed % 16 == 0 { Examined::Moments } else { Examined::Ends };
            let lives = raw::lives(cache, seed, examined).unwrap();
            sum.add(&lives);
        }
        println!("{cache}: {sum:?}");
        assert!(sum.flushes > rounds && sum.forgotten > rounds, "{sum:?}");
        // Fragments do not survive.
        let survives = cache.is_log() || cache.keeps_slots() || cache.keeps_slots_at_shutdown();
        assert!(sum.from_flash > rounds || !survives, "{sum:?}");
        // Pages that move up when they are read, and fragments, are left to workers.
        let is_read_ahead = cache.door.is_some() && cache.policy.is_some();
        assert!(sum.ahead > rounds / 4 || !is_read_ahead, "{sum:?}");
    }
}

#[test]
fn a_read_that_began_before_a_write_brings_no_older_version() {
    for cache in raw::order::CACHES {
        (0..100).for_each(|seed| raw::order::run(cache, seed).unwrap());
    }
}

#[test]
fn writers_of_one_page_leave_one_version() {
    for cache in raw::order::CACHES {
        (0..100).for_each(|seed| raw::order::writers(cache, seed).unwrap());
    }
}

#[test]
fn pages_that_their_owner_wants_on_disk_are_there() {
    for cache in raw::wanted::CACHES {
        (0..100).for_each(|seed| raw::wanted::run(cache, seed).unwrap());
    }
}
