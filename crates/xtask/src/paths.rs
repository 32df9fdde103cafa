//! Where things are.

use crate::postgres::version::Version;
use std::path::{Path, PathBuf};

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above this crate")
}

/// The patches of a major version of PostgreSQL, and the checksums of its sources.
pub fn patches(major: u32) -> PathBuf {
    repository().join("doors/postgres/patches").join(major.to_string())
}

/// The extension's sources.
pub fn extension() -> PathBuf {
    repository().join("doors/postgres/entresol")
}

/// The module that only tests load.
pub fn hooktrace() -> PathBuf {
    repository().join("doors/postgres/test/hooktrace")
}

/// Cargo's folder of outputs.
pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| repository().join("target"));
    // Programs that are started in other folders get these paths.
    std::path::absolute(&target).unwrap_or(target)
}

/// Everything that is built for PostgreSQL: `target/postgres`.
pub fn postgres() -> PathBuf {
    target().join("postgres")
}

/// The installed server.
pub fn installed(version: Version) -> PathBuf {
    postgres().join(version.to_string())
}

/// The unpacked, patched and built source.
pub fn source(version: Version) -> PathBuf {
    postgres().join(format!("source-{version}"))
}
