//! Mutants: named, realistic bugs that the tests must notice. They are compiled in only with the cargo
//! feature `mutants`.
//!
//! A mutant is an operand of a condition at the place of its bug: `condition && !mutant!("its-name")`.
//! `choose` activates one mutant, once for the whole process; all others are inactive. The catalogue in the
//! test kit names each, and describes those that the rigs hunt.
//!
//! Invariant: without the feature the macro is the literal `false`, usable in a constant. So the compiled
//! code holds no branch, name or choice of any mutant. (The constant below does not compile otherwise.)

/// Whether the mutants are compiled in.
pub const COMPILED_IN: bool = cfg!(feature = "mutants");

/// Whether the mutant of this name is active. Constantly false without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}

/// Whether the mutant of this name is active.
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::is_alive(const { $crate::mutant::key($name) })
    };
}

#[cfg(not(feature = "mutants"))]
const _: () = assert!(!crate::mutant!("none"));

#[cfg(feature = "mutants")]
pub use alive::{choose, is_alive, key, met};

#[cfg(feature = "mutants")]
mod alive {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static CHOSEN: AtomicU64 = AtomicU64::new(0);
    static MET: AtomicU64 = AtomicU64::new(0);

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

    /// Activates the mutant of this name for the rest of the process. False if one was chosen before.
    pub fn choose(name: &str) -> bool {
        CHOSEN.compare_exchange(0, key(name), Relaxed, Relaxed).is_ok()
    }

    /// How often the place of the chosen mutant was reached.
    pub fn met() -> u64 {
        MET.load(Relaxed)
    }

    /// See [`crate::mutant!`].
    #[inline]
    pub fn is_alive(key: u64) -> bool {
        let alive = CHOSEN.load(Relaxed) == key;
        if alive {
            MET.fetch_add(1, Relaxed);
        }
        alive
    }
}
