//! Programs of the system: whether they are there, how they are installed, and the user they run as.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file that a call of `program` would run.
pub fn find(program: &str, first: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = first.iter().cloned().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// How this system installs packages, as a person would type it; Debian's names of the packages.
pub fn how_to_install(packages: &[&str]) -> String {
    let managers = [
        ("apt-get", "apt-get install"),
        ("dnf", "dnf install"),
        ("zypper", "zypper install"),
        ("pacman", "pacman -S"),
        ("apk", "apk add"),
    ];
    let manager = managers.iter().find(|(program, _)| find(program, &[]).is_some());
    match manager {
        Some((_, install)) => format!("`{install} {}`", packages.join(" ")),
        None => format!("install {}", packages.join(", ")),
    }
}

/// What a program prints, without the final newline. An error has what it says on stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{name} cannot be run"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {}", output.status, said.trim().replace('\n', "; "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// A call of `command` in a control group, by its file `cgroup.procs`.
pub fn within(group: &Path, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    shell
}

/// The SHA-256 of a file, in hex.
pub fn sha256(file: &Path) -> Result<String> {
    let line = output(Command::new("sha256sum").arg("--").arg(file))?;
    let sum = line.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    Ok(sum.to_owned())
}

/// Whether this process is root. PostgreSQL refuses to run as root.
pub fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))? == "0")
}

/// The user that PostgreSQL runs as, if it is not the caller.
#[derive(Clone, Debug, Default)]
pub struct User(Option<(String, String)>);

impl User {
    /// The user called `name`, which only root may choose. `None`: the caller.
    ///
    /// # Errors
    ///
    /// There is no such user, or the caller is root and names none.
    pub fn named(name: Option<&str>) -> Result<Self> {
        let Some(name) = name else {
            if is_root()? {
                bail!("PostgreSQL refuses to run as root; name another user, as in `--user nobody`");
            }
            return Ok(User(None));
        };
        let id = |what| output(Command::new("id").args([what, "--", name]));
        let user = id("-u").with_context(|| format!("there is no user {name}"))?;
        Ok(User(Some((user, id("-g")?))))
    }

    /// The numbers of the user and its group; `None`: the caller's.
    pub fn ids(&self) -> Option<(&str, &str)> {
        self.0.as_ref().map(|(user, group)| (user.as_str(), group.as_str()))
    }

    /// A call of `program` as this user.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Some((user, group)) = &self.0 else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}")).arg("--clear-groups");
        command.arg(program).env("HOME", "/nonexistent");
        command
    }

    /// Gives a file, or a folder with all in it, to this user.
    ///
    /// # Errors
    ///
    /// `chown` fails.
    pub fn own(&self, path: &Path) -> Result<()> {
        if let Some((user, group)) = &self.0 {
            output(Command::new("chown").arg("-R").arg(format!("{user}:{group}")).arg(path))?;
        }
        Ok(())
    }
}
