//! One number for all that a run decided and measured.

use serde::Serialize;

/// FNV-1a over the JSON of `value`, in hexadecimal. JSON writes floating-point numbers so that they read back
/// the same, so two digests are equal only if all figures are equal to the last digit.
pub fn of(value: &impl Serialize, decisions: u64) -> String {
    let text = serde_json::to_string(value).expect("results are plain numbers and strings");
    let hash = text.bytes().chain(decisions.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
