//! The tarball, for systems without Debian's packages: `tar -C /usr/local --strip-components=1 -xf FILE`.

use super::files::{Packaged, settle, write};
use super::program::Program;
use super::{Release, VERSION};
use crate::paths;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Makes it: its path. Its name has the glibc that it needs, unless it is static.
pub(super) fn make(release: &Release, program: &Program, files: &[Packaged]) -> Result<PathBuf> {
    let glibc = program.glibc.as_ref().map_or(String::new(), |glibc| format!("-{glibc}"));
    let name = format!("entresol-{VERSION}-{}{glibc}", program.target);
    let stage = release.stage("tarball")?;
    let root = stage.join(&name);
    let local = |file: &Packaged| {
        // Where zsh looks for what is not of the distribution.
        let path = file.path.replace("share/zsh/vendor-completions/", "share/zsh/site-functions/");
        let is_unit = path.ends_with(".service") || path.ends_with(".conf");
        let content = match is_unit {
            true => String::from_utf8_lossy(&file.content).replace("/usr/", "/usr/local/").into_bytes(),
            false => file.content.clone(),
        };
        Packaged { path, content, executable: file.executable }
    };
    let mut files: Vec<_> = files.iter().map(local).collect();
    let licence = fs::read(paths::repository().join("LICENSE"))?;
    let path = "share/doc/entresol/LICENSE".to_owned();
    files.push(Packaged { path, content: licence, executable: false });
    write(&root, &files)?;
    settle(&root, release)?;
    let tarball = release.out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["-I", "gzip -9n", "-cf"]).arg(&tarball).arg("-C").arg(&stage).arg(&name);
    release.steps.run("making the tarball", &mut tar)?;
    Ok(tarball)
}
