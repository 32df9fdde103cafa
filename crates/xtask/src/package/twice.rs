//! Whether the packages can be reproduced: the last commit is built again in another folder, with another
//! target folder, and each file is compared.

use super::{PackageArgs, Release};
use crate::paths;
use crate::programs::{output, sha256};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Builds again, and compares with `made`.
pub(super) fn compare(release: &Release, arguments: &PackageArgs, made: &[PathBuf]) -> Result<()> {
    let changed =
        output(Command::new("git").args(["status", "--porcelain"]).current_dir(paths::repository()))?;
    if !changed.is_empty() {
        bail!("--twice builds the last commit, and there are changes that are not committed: {changed}");
    }
    let folder = release.out.join("again");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (clone, out) = (folder.join("elsewhere"), folder.join("out"));
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-hardlinks"]).arg(paths::repository()).arg(&clone);
    output(&mut git).context("cloning the repository")?;
    let mut again = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    again.current_dir(&clone).args(["xtask", "package", "--revision", &release.revision.to_string()]);
    again.arg("--out").arg(&out).env("CARGO_TARGET_DIR", folder.join("target"));
    again.env("SOURCE_DATE_EPOCH", release.date.to_string());
    for (asked, option) in
        [(arguments.without_ublk, "--without-ublk"), (arguments.musl, "--musl"), (arguments.wheel, "--wheel")]
    {
        again.args(asked.then_some(option));
    }
    release.steps.run("building again", &mut again)?;
    let mut differ = Vec::new();
    for file in made {
        let name = file.file_name().context("a file")?;
        if sha256(file)? != sha256(&out.join(name))? {
            differ.push(name.to_string_lossy().into_owned());
        }
    }
    if !differ.is_empty() {
        bail!("{} differ between two builds; the other ones are in {}", differ.join(", "), out.display());
    }
    fs::remove_dir_all(&folder)?;
    println!("built twice in different folders: {} files are equal", made.len());
    Ok(())
}
