//! `entresol volume check|set|drain|detach`.

use super::{create, journal, resize, status};
use crate::args::{LossArgs, Volume, VolumeArgs};
use crate::failure::Failure;
use crate::output;
use crate::progress::Counted;
use anyhow::Context;
use entresol_block::{
    ControlReply, ControlRequest, Loss, OpenError, VolumeConfig, VolumeStatus, ask, change_policy,
    check_volume, detach_volume, empty_volume,
};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn opening(error: OpenError) -> Failure {
    match error {
        OpenError::Losing(sentence) => Failure::Check(sentence),
        error => Failure::input(error.to_string()),
    }
}

/// Requests for a volume.
pub fn run(volume: &Volume) -> Result<(), Failure> {
    match volume {
        Volume::Create(args) => create::run(args),
        Volume::Check { config } => check(config),
        Volume::Status { all: true, json, .. } => journal::list(*json),
        Volume::Status { config: None, .. } => {
            Err(Failure::input("name the configuration of a volume, or ask for --all"))
        }
        Volume::Status { config: Some(config), socket, json, watch: seconds, .. } => {
            let volume = VolumeArgs { config: config.clone(), socket: socket.clone() };
            match seconds {
                Some(seconds) => status::watch(&volume, Duration::from_secs(*seconds), *json),
                None => status::run(&volume, *json),
            }
        }
        Volume::Journal { what } => journal::run(what),
        Volume::Set { volume, name, value, loss } => set(volume, name, value, loss),
        Volume::Resize { volume, flash_size, loss } => resize::resize(volume, *flash_size, loss),
        Volume::ReplaceFlash { volume, flash, flash_size, loss } => {
            resize::replace(volume, flash, *flash_size, loss)
        }
        Volume::Drain { volume, loss } => to_disk(volume, loss, false),
        Volume::Detach { volume, loss } => to_disk(volume, loss, true),
    }
}

/// An absolute path, so that the configuration may be used from any folder.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

pub(super) fn read(path: &Path) -> Result<VolumeConfig, Failure> {
    VolumeConfig::read(path).map_err(|error| Failure::input(error.to_string()))
}

/// Verifies every invariant of a volume without a server.
fn check(path: &Path) -> Result<(), Failure> {
    let report = check_volume(&read(path)?).map_err(opening)?;
    super::check::tell(&report, path)
}

/// The server's answer, if there is a server.
pub(super) fn asked(
    args: &VolumeArgs,
    config: &VolumeConfig,
    request: ControlRequest,
) -> Result<Option<VolumeStatus>, Failure> {
    let socket = VolumeConfig::control_socket(args.socket.as_ref().unwrap_or(&config.socket));
    let mut bar = None;
    let progress =
        |done, total| bar.get_or_insert_with(|| Counted::new("to disk", "pages")).show(done, total);
    let reply = ask(&socket, request, progress)
        .with_context(|| format!("asking the server at {}", socket.display()))?;
    drop(bar);
    match reply {
        None => Ok(None),
        Some(ControlReply::Status(status)) => Ok(Some(*status)),
        Some(ControlReply::Progress { .. }) => unreachable!("it is told to `progress`"),
        Some(ControlReply::Error(sentence)) => Err(Failure::input(sentence)),
        Some(ControlReply::Losing(sentence)) => Err(Failure::Check(sentence)),
    }
}

/// A configuration that is being changed. Others that would change it wait.
pub(super) struct Edited {
    pub before: VolumeConfig,
    path: PathBuf,
    _one_at_a_time: File,
}

impl Edited {
    pub fn begin(config: &Path) -> Result<Self, Failure> {
        let unwritable = |error| Failure::input(format!("{}: cannot be written ({error})", config.display()));
        // A link stays, and so does the owner of the file.
        let path = std::fs::canonicalize(config).unwrap_or_else(|_| config.to_owned());
        let one_at_a_time = File::open(folder_of(&path)).map_err(unwritable)?;
        one_at_a_time.lock().map_err(unwritable)?;
        Ok(Self { before: read(&path)?, path, _one_at_a_time: one_at_a_time })
    }

    /// A new file with this configuration, which [`Edited::persist`] puts in place.
    fn prepare(&self, config: &VolumeConfig) -> Result<tempfile::NamedTempFile, Failure> {
        let unwritable =
            |error| Failure::input(format!("{}: cannot be written ({error})", self.path.display()));
        let mut file = tempfile::NamedTempFile::new_in(folder_of(&self.path)).map_err(unwritable)?;
        keep_owner(file.as_file(), &self.path).map_err(unwritable)?;
        write(&mut file, config, &self.path)?;
        Ok(file)
    }

    fn persist(&self, file: tempfile::NamedTempFile) -> Result<(), Failure> {
        let persisted = file.persist(&self.path).map_err(|error| error.error);
        persisted.with_context(|| format!("writing {}", self.path.display()))?;
        Ok(())
    }

    /// Writes the configuration.
    pub fn write(&mut self, config: &VolumeConfig) -> Result<(), Failure> {
        let file = self.prepare(config)?;
        self.persist(file)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Changes an option in a running server, and in the configuration.
fn set(args: &VolumeArgs, name: &str, value: &str, loss: &LossArgs) -> Result<(), Failure> {
    let edited = Edited::begin(&args.config)?;
    let before = edited.before.clone();
    let mut config = before.clone();
    config.set(name, value).map_err(|error| Failure::input(error.to_string()))?;
    let is_of_cache = matches!(name, "mode" | "policy");
    let request = match is_of_cache {
        true => ControlRequest::SetCache { config: Box::new(config.clone()), accept_loss: loss.accept_loss },
        false => ControlRequest::Steer {
            sequential_bypass_bytes: config.sequential_bypass_bytes,
            hits_to_disk: config.hits_to_disk,
            flash_writes_per_day: config.flash_writes_per_day.clone(),
            dirty_percent_max: config.dirty_percent_max,
            dirty_age_seconds: config.dirty_age_seconds,
            switch_policy: config.switch_policy,
        },
    };
    // Before anything changes: there is room for it.
    let mut file = edited.prepare(&config)?;
    let asked = asked(args, &before, request)?;
    let now = if asked.is_some() { "now" } else { "when it is served next" };
    match asked {
        // Of the cache that it has now.
        Some(status) if is_of_cache && status.policy.is_some() => config.slots = status.slots as u32,
        None if (&config.policy, &config.mode) != (&before.policy, &before.mode) && config.cache => {
            config = change_policy(&before, &config, Loss::accepted(loss.accept_loss)).map_err(opening)?;
        }
        _ => {}
    }
    write(&mut file, &config, &edited.path)?;
    edited.persist(file)?;
    output::print(&format!("{name} is {value} {now}\n"))
}

/// Gives a file that will be at `path` the owner and the permissions of the one that is there.
fn keep_owner(file: &File, path: &Path) -> std::io::Result<()> {
    let (old, new) = (path.metadata()?, file.metadata()?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(old.permissions())
}

/// Writes the future configuration at `path` to `file`.
fn write(file: &mut tempfile::NamedTempFile, config: &VolumeConfig, path: &Path) -> Result<(), Failure> {
    let before = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let text = config.edited(&before).map_err(|error| Failure::input(error.to_string()))?;
    let written = file
        .rewind()
        .and_then(|()| file.as_file().set_len(0))
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.as_file().sync_all());
    Ok(written.with_context(|| format!("writing {}", path.display()))?)
}

/// Drains or detaches.
fn to_disk(args: &VolumeArgs, loss: &LossArgs, is_detach: bool) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let accept_loss = loss.accept_loss;
    let request = match is_detach {
        true => ControlRequest::Detach { accept_loss },
        false => ControlRequest::Drain { accept_loss },
    };
    let loss = Loss::accepted(accept_loss);
    let after = match is_detach {
        true => "the flash device may be taken away; set `cache = false` to serve the disk alone",
        false => "the cache is empty",
    };
    if asked(args, &config, request)?.is_some() {
        let after = if is_detach { after } else { "the cache keeps its pages" };
        return output::print(&format!("the disk has everything; {after}\n"));
    }
    let report = match is_detach {
        true => detach_volume(&config, loss),
        false => empty_volume(&config, &config, loss).map(|(report, _)| report),
    }
    .map_err(opening)?;
    report.notices.iter().for_each(|notice| output::notice(notice));
    output::print(&format!("the disk has everything, {} pages were written; {after}\n", report.pages_written))
}
