//! Which mutant is alive in this process: the one that `ENTRESOL_MUTANT` names when the process first asks.
//!
//! `cargo xtask mutants` moves this module to the core of its copy of the tree, where the mutants ask it.
//! Here no mutant is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names the mutant to a process.
const MUTANT: &str = "ENTRESOL_MUTANT";

/// The key of the chosen mutant; 0: it was not read yet.
static CHOSEN: AtomicU64 = AtomicU64::new(0);
static MET: AtomicU64 = AtomicU64::new(0);

/// The chosen mutant.
pub fn chosen() -> Option<String> {
    std::env::var(MUTANT).ok()
}

/// A name as a number other than 0 (FNV-1a, 64 bits).
pub const fn key(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash | 1
}

/// How often the code of the chosen mutant was reached.
pub fn met() -> u64 {
    MET.load(Relaxed)
}

/// Whether the mutant with this key is alive.
#[inline]
pub fn is_alive(key: u64) -> bool {
    let chosen = match CHOSEN.load(Relaxed) {
        0 => choose(),
        chosen => chosen,
    };
    let alive = chosen == key;
    if alive {
        MET.fetch_add(1, Relaxed);
    }
    alive
}

#[cold]
fn choose() -> u64 {
    // Several threads at once read the same.
    let chosen = key(&chosen().unwrap_or_default());
    CHOSEN.store(chosen, Relaxed);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_chosen_mutant_is_alive_and_its_meetings_count() {
        assert_ne!(key("torn-group-accepted"), key("torn-group"));
        assert_ne!(key(""), 0);
        // As if the environment had named it.
        CHOSEN.store(key("torn-group-accepted"), Relaxed);
        assert!(is_alive(key("torn-group-accepted")) && !is_alive(key("torn-group")));
        assert_eq!(met(), 1);
    }
}
