//! Where things are.

use std::path::{Path, PathBuf};

/// The PostgreSQL that is built.
pub const VERSION: &str = "17.11";

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders above this crate")
}

/// The patches and the source's checksum.
pub fn patches() -> PathBuf {
    repository().join("doors/postgres/patches").join(VERSION)
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
pub fn installed() -> PathBuf {
    postgres().join(VERSION)
}

/// The unpacked, patched and built source.
pub fn source() -> PathBuf {
    postgres().join(format!("source-{VERSION}"))
}
