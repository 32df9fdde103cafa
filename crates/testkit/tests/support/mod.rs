//! What is asked for by environment variables.
#![allow(dead_code, reason = "each test uses a part of it")]

/// `ENTRESOL_SEED`, or 1.
pub fn seed() -> u64 {
    match std::env::var("ENTRESOL_SEED") {
        Ok(seed) => seed.parse().expect("ENTRESOL_SEED is a number"),
        Err(_) => 1,
    }
}

/// `usual`, or 1 if `ENTRESOL_CRASH=full`.
pub fn stride(usual: u64) -> u64 {
    match std::env::var("ENTRESOL_CRASH").as_deref() {
        Ok("full") => 1,
        Ok(other) => panic!("ENTRESOL_CRASH is {other:?}; only \"full\" is known"),
        Err(_) => usual,
    }
}
