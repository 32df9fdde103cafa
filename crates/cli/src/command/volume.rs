//! `entresol volume create|status|drain|detach` and `entresol serve`.

use crate::args::{CreateArgs, ServeArgs, Volume, VolumeArgs};
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use entresol_block::{
    ControlReply, ControlRequest, OpenError, Server, ServerError, ServerOptions, VolumeConfig, VolumeStatus,
    ask, create_volume, detach_volume, inspect_volume, open_volume,
};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn opening(error: OpenError) -> Failure {
    Failure::input(error.to_string())
}

fn serving(error: ServerError) -> Failure {
    Failure::input(error.to_string())
}

/// What is asked of a volume.
pub fn run(volume: &Volume) -> Result<(), Failure> {
    match volume {
        Volume::Create(args) => create(args),
        Volume::Status { volume, json } => status(volume, *json),
        Volume::Drain(volume) => to_disk(volume, ControlRequest::Drain),
        Volume::Detach(volume) => to_disk(volume, ControlRequest::Detach),
    }
}

/// An absolute path, so that the configuration may be used from any folder.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let path = absolute(&args.config)?;
    let shown = path.display();
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::input(format!("{shown}: does not name a file; give a path such as data.toml")));
    }
    if path.symlink_metadata().is_ok() {
        return Err(Failure::input(format!("{shown}: exists; name a new file for the configuration")));
    }
    let folder = path.parent().filter(|folder| folder.is_dir());
    let folder = folder
        .ok_or_else(|| Failure::input(format!("{shown}: its folder does not exist; create it first")))?;
    let config = VolumeConfig {
        name: name.to_owned(),
        disk: absolute(&args.disk)?,
        flash: absolute(&args.flash)?,
        label: absolute(args.label.as_deref().unwrap_or(&path.with_extension("label")))?,
        socket: path.with_extension("sock"),
        mode: args.mode.clone(),
        policy: args.policy.clone(),
        page_bytes: args.page_bytes,
        ..VolumeConfig::usual()
    };
    // Everything that can be refused is refused before anything is made.
    config.to_toml().map_err(|error| Failure::input(error.to_string()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .map_err(|error| Failure::input(format!("{shown}: cannot be written ({error})")))?;
    let config = create_volume(&config, args.overwrite).map_err(opening)?;
    let text = config.to_toml().map_err(|error| Failure::input(error.to_string()))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all());
    written.with_context(|| format!("writing {shown}"))?;
    file.persist_noclobber(&path).map_err(|error| error.error).with_context(|| format!("writing {shown}"))?;
    let meaning = match args.mode.as_str() {
        "write-back" => {
            "A flushed write is on flash and reaches the disk later. If the flash device is lost, so is what was written last."
        }
        _ => "A flushed write is on the disk. If the flash device is lost, nothing is.",
    };
    output::print(&format!(
        "made the volume {name}: {} pages of {} bytes fit on flash; mode {}\n{meaning}\n\
         keep {}: disk and flash are not opened without it\nserve it with: entresol serve {shown}\n",
        config.slots,
        config.page_bytes,
        config.mode,
        config.label.display(),
    ))
}

fn read(path: &Path) -> Result<VolumeConfig, Failure> {
    VolumeConfig::read(path).map_err(|error| Failure::input(error.to_string()))
}

/// What the server says, if there is one.
fn asked(
    args: &VolumeArgs,
    config: &VolumeConfig,
    request: ControlRequest,
) -> Result<Option<VolumeStatus>, Failure> {
    let socket = VolumeConfig::control_socket(args.socket.as_ref().unwrap_or(&config.socket));
    let reply =
        ask(&socket, request).with_context(|| format!("asking the server at {}", socket.display()))?;
    match reply {
        None => Ok(None),
        Some(ControlReply::Status(status)) => Ok(Some(*status)),
        Some(ControlReply::Error(sentence)) => Err(Failure::input(sentence)),
    }
}

fn status(args: &VolumeArgs, json: bool) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let status = match asked(args, &config, ControlRequest::Status)? {
        Some(status) => status,
        None => inspect_volume(&config).map_err(opening)?,
    };
    if json {
        let text = serde_json::to_string_pretty(&status).map_err(anyhow::Error::from)?;
        return output::print(&format!("{text}\n"));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<22}{value}");
    line("volume", format!("{}, {} bytes", config.name, status.volume_bytes));
    line("server", if status.running { "running" } else { "none" }.to_owned());
    let cache = match (&status.policy, &status.mode) {
        (Some(policy), Some(mode)) => format!("{policy}, {mode}"),
        _ => "none: the disk alone serves".to_owned(),
    };
    line("cache", cache);
    line("pages", format!("{} of {}, each {} bytes", status.pages, status.slots, status.page_bytes));
    line("newer than disk", status.dirty_pages.to_string());
    if status.running {
        let hits = status.staging_hits + status.flash_hits;
        let reads = hits + status.disk_reads;
        line("pages read", format!("{reads}, of which {hits} from the cache"));
        line("entered after reads", status.populated.to_string());
        line("pages to flash, disk", format!("{}, {}", status.flash_writes, status.disk_writes));
    }
    status.notice.into_iter().for_each(|notice| line("notice", notice));
    output::print(&text)
}

/// Drains or detaches.
fn to_disk(args: &VolumeArgs, request: ControlRequest) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let is_detach = request == ControlRequest::Detach;
    let after = match is_detach {
        true => "the flash device may be taken away; set `cache = false` to serve the disk alone",
        false => "the cache is empty",
    };
    if asked(args, &config, request)?.is_some() {
        return output::print(&format!("the disk has everything; {after}\n"));
    }
    let report = detach_volume(&config).map_err(opening)?;
    if !is_detach {
        // Empty, and bound to the disk again.
        let (volume, _) = open_volume(&config).map_err(opening)?;
        volume.close().map_err(anyhow::Error::from)?;
    }
    output::print(&format!("the disk has everything, {} pages were written; {after}\n", report.pages_written))
}

/// Serves a volume until SIGTERM or SIGINT.
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let usual = ServerOptions::of(&config);
    let options = ServerOptions {
        socket: args.socket.as_ref().map_or(Ok(usual.socket), |path| absolute(path))?,
        tcp: args.tcp,
        read_only: args.read_only || usual.read_only,
        ..usual
    };
    Server::check(&options).map_err(serving)?;
    let (volume, notices) = open_volume(&config).map_err(opening)?;
    notices.iter().for_each(|notice| eprintln!("entresol: notice: {notice}"));
    let socket = options.socket.display().to_string();
    let server = Server::start(volume, options).map_err(serving)?;
    let bytes = server.volume().bytes();
    let ready = || {
        // Nobody may read it.
        let _ = output::print(&format!("ready: volume {} of {bytes} bytes at {socket}\n", config.name));
        Server::notify_ready();
    };
    Server::wait_for_signal(ready).context("waiting for a signal")?;
    server.stop().map_err(anyhow::Error::from)?;
    Ok(())
}
