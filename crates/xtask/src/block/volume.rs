//! A volume of a run, and its server.

use super::rig::{Rig, Running, wait_until};
use crate::programs::{output, within};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The volume NAME, of the configuration `NAME.toml` in the run's folder.
pub(super) struct Volume<'a> {
    rig: &'a Rig,
    name: String,
}

impl<'a> Volume<'a> {
    /// Made anew with `options` of `volume create`, and without what an older one of this name has left.
    pub fn create(rig: &'a Rig, name: &str, disk: &Path, flash: &Path, options: &[&str]) -> Result<Self> {
        let volume = Self { rig, name: name.to_owned() };
        volume.remove();
        let mut create = Command::new(&rig.entresol);
        create
            .args(["volume", "create"])
            .arg(volume.config())
            .arg("--disk")
            .arg(disk)
            .arg("--flash")
            .arg(flash);
        output(create.args(options))?;
        Ok(volume)
    }

    fn config(&self) -> PathBuf {
        self.rig.file(&format!("{}.toml", self.name))
    }

    pub fn socket(&self) -> PathBuf {
        self.rig.file(&format!("{}.sock", self.name))
    }

    /// How clients call it.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///{}?socket={}", self.name, self.socket().display())
    }

    /// Changes the configuration of a volume that is not served.
    pub fn configure(&self, key: &str, value: &str) -> Result<()> {
        let text = fs::read_to_string(self.config())?;
        let start = format!("{key} = ");
        if !text.lines().any(|line| line.starts_with(&start)) {
            bail!("{} has no {key}", self.config().display());
        }
        let line = |line: &str| {
            if line.starts_with(&start) { format!("{start}{value}\n") } else { format!("{line}\n") }
        };
        Ok(fs::write(self.config(), text.lines().map(line).collect::<String>())?)
    }

    /// `volume set`.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        output(self.command("set").args([key, value])).map(drop)
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.rig.entresol);
        command.args(["volume", what]).arg(self.config());
        command
    }

    /// What `volume status` says to a person.
    pub fn status_text(&self) -> Result<String> {
        output(&mut self.command("status"))
    }

    pub fn status(&self) -> Result<Value> {
        Ok(serde_json::from_str(&output(self.command("status").arg("--json"))?)?)
    }

    /// A counter of the status.
    pub fn count(&self, counter: &str) -> Result<u64> {
        self.status()?
            .get(counter)
            .and_then(Value::as_u64)
            .with_context(|| format!("the status has no {counter}"))
    }

    pub fn serve(&self) -> Result<Running> {
        self.serve_with(None, &[])
    }

    /// Serves it: in a control group, and below a command, as `strace …`, that may end it before it is ready.
    pub fn serve_with(&self, group: Option<&Path>, under: &[String]) -> Result<Running> {
        let mut words: Vec<_> = under.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
        words.push(self.rig.entresol.clone().into());
        let mut serve = Command::new(&words[0]);
        serve.args(&words[1..]).arg("serve").arg(self.config());
        if let Some(group) = group {
            serve = within(group, &serve);
        }
        let (ready, log) = (self.rig.file("ready"), self.rig.file("server.log"));
        serve.stdout(File::create(&ready)?).stderr(File::create(&log)?);
        let mut server = Running::keeping(&mut serve)?;
        let waited = wait_until("the server is ready", || {
            if server.has_ended()? {
                bail!("the server has ended");
            }
            Ok(fs::read_to_string(&ready)?.contains("ready"))
        });
        waited.with_context(|| fs::read_to_string(&log).unwrap_or_default().trim().to_owned())?;
        Ok(server)
    }

    /// Its configuration, its label and its journal.
    fn remove(&self) {
        let text = fs::read_to_string(self.config()).unwrap_or_default();
        let journal = text.lines().find_map(|line| line.strip_prefix("journal = \"")?.strip_suffix('"'));
        if let Some(journal) = journal.filter(|journal| !journal.is_empty()) {
            let _ = fs::remove_file(journal);
        }
        for end in ["toml", "label", "sock"] {
            let _ = fs::remove_file(self.rig.file(&format!("{}.{end}", self.name)));
        }
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Stops a server as a person does: it must end well.
pub(super) fn stop(mut server: Running) -> Result<()> {
    server.signal("TERM");
    if !server.wait()? {
        bail!("the server has not ended well");
    }
    Ok(())
}
