//! Lines for people on stderr, and results on stdout.
//!
//! Invariant: no write to stdout or stderr ends a thread or the process. The terminal may be gone, the
//! reader of the pipe may have ended, the file system of the file may be full: `println!` and `eprintln!`
//! panic then. So no other code of the product writes there (`crates/cli/tests/tidy.rs`).

use std::io::{Result, Write};

/// Writes a line to stderr. One that cannot be written is dropped: there is no other place to say so.
pub fn tell(line: &str) {
    // In one piece: several processes may write to one log.
    tell_bytes(format!("{line}\n").as_bytes());
}

/// As [`tell`], for a whole line.
pub fn tell_bytes(line: &[u8]) {
    let _ = std::io::stderr().lock().write_all(line);
}

/// Writes `text` to stdout, and flushes it.
///
/// # Errors
/// The system's: a closed pipe, a full file system.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
