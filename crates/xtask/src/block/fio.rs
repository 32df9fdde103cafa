//! Calls of fio, and what it measured.

use crate::programs::output;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What fio reads and writes.
pub(super) enum Target<'a> {
    /// By its NBD engine.
    Nbd(&'a str),
    /// By the engine that the options name.
    File(&'a Path),
}

/// All jobs together.
pub(super) struct Measured {
    /// A second.
    pub reads: f64,
    pub writes: f64,
    /// KiB a second.
    pub read_kib: f64,
}

/// Runs fio with these options, which are separated by blanks.
pub(super) fn fio(target: &Target<'_>, options: &str) -> Result<Measured> {
    let mut fio = Command::new("fio");
    fio.args(["--name=load", "--group_reporting", "--output-format=json"]).args(options.split_whitespace());
    match target {
        Target::Nbd(uri) => fio.arg("--ioengine=nbd").arg(format!("--uri={uri}")),
        Target::File(file) => fio.arg(format!("--filename={}", file.display())),
    };
    measured(&output(&mut fio)?)
}

fn measured(said: &str) -> Result<Measured> {
    // There may be notes before it.
    let json = said.find('{').map_or("", |at| &said[at..]);
    let value: Value = serde_json::from_str(json).context("what fio says is no JSON")?;
    let job = value.pointer("/jobs/0").context("fio says nothing of its job")?;
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_f64).context("fio says too little");
    Ok(Measured {
        reads: number("/read/iops")?,
        writes: number("/write/iops")?,
        read_kib: number("/read/bw")?,
    })
}

#[cfg(test)]
mod tests {
    use super::measured;

    #[test]
    fn what_fio_measured_is_found_after_its_notes() {
        let said = r#"note: something
            {"jobs": [{"read": {"iops": 12.5, "bw": 50}, "write": {"iops": 0.0, "bw": 0}}]}"#;
        let measured = measured(said).unwrap();
        assert_eq!((measured.reads, measured.writes, measured.read_kib), (12.5, 0.0, 50.0));
        assert!(super::measured("fio: engine nbd not loadable").is_err());
    }
}
