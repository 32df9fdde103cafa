//! Lines for people on stderr, results on stdout, and numbers in both.
//!
//! Invariant: no write to stdout or stderr ends a thread or the process. The terminal may be gone, the
//! reader of the pipe may have ended, the file system of the file may be full: `println!` and `eprintln!`
//! panic then. So no other code of the product writes there (`crates/cli/tests/tidy.rs`).

use std::fmt::Display;
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

/// A whole number with its thousands set apart: 1,234,567. `digits` has no sign.
pub fn thousands(digits: impl Display) -> String {
    let digits = digits.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes `text` to stdout, and flushes it.
///
/// # Errors
/// The system's: a closed pipe, a full file system.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 12_208].map(thousands), ["0", "999", "1,000", "12,208"]);
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }
}
