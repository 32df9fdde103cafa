//! A project outside the workspace that uses the packaged crates, as a user's project does.

use crate::package::VERSION;
use crate::paths;
use crate::step::Steps;
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// A store is made, closed, and opened again.
const PROGRAM: &str = r#"
use entresol_store::{Files, OpenFiles, Options, PolicyKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).ok_or("a folder")?);
    let files = Files::new(folder.join("disk"), 32 << 20, folder.join("log"), 16 << 20)
        .with_flash(folder.join("flash"), 16 << 20, PolicyKind::FaceGsc);
    let OpenFiles { store, .. } = files.create(Options::default())?;
    let table = store.create_table("letters")?;
    let mut txn = store.begin();
    txn.insert(table, b"dear", b"reader")?;
    txn.commit()?;
    store.shutdown()?;
    let OpenFiles { store, .. } = files.open(Options::default())?;
    println!("tables: {}", store.tables()?.len());
    Ok(())
}
"#;

/// Removes the crates that were packaged before, so that none of them is taken for a new one.
pub(super) fn forget() -> Result<()> {
    let package = paths::target().join("package");
    match fs::remove_dir_all(&package) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", package.display()))
        }
        _ => Ok(()),
    }
}

/// Where `cargo publish --dry-run` has left the packaged crates: cargo 1.95 in `tmp-crate`, older ones above.
fn packaged() -> Result<PathBuf> {
    let package = paths::target().join("package");
    let store = format!("entresol-store-{VERSION}.crate");
    let folders = [package.join("tmp-crate"), package.clone()];
    let found = folders.into_iter().find(|folder| folder.join(&store).is_file());
    found.with_context(|| format!("cargo has left no {store} in {}", package.display()))
}

/// Unpacks the packaged crates, and compiles and runs the project over them by `[patch]`.
pub(super) fn compile(steps: &Steps) -> Result<()> {
    let folder = paths::target().join("crates/outside");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("src"))?;
    let mut manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         entresol-store = \"{VERSION}\"\n\n[workspace]\n\n[patch.crates-io]\n"
    );
    let packaged = packaged()?;
    let ending = format!("-{VERSION}.crate");
    for entry in fs::read_dir(&packaged).with_context(|| format!("{}", packaged.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(&ending) else { continue };
        let mut tar = Command::new("tar");
        steps.run("unpacking", tar.arg("-xzf").arg(&path).arg("-C").arg(&folder))?;
        manifest.push_str(&format!("{name} = {{ path = \"{name}-{VERSION}\" }}\n"));
    }
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), PROGRAM)?;
    let mut cargo = super::cargo();
    cargo.current_dir(&folder).args(["run", "--release", "--quiet", "--"]).arg(&folder);
    cargo.env("CARGO_TARGET_DIR", paths::target().join("crates/target"));
    steps.run("a project outside the workspace", &mut cargo)?;
    println!("a project outside the workspace opens a store with the packaged crates");
    Ok(())
}
