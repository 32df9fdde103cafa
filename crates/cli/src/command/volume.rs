//! `entresol volume create|status|drain|detach` and `entresol serve`.

use super::{create, journal};
use crate::args::{LossArgs, ServeArgs, Volume, VolumeArgs};
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use entresol_block::{
    Bypassed, ControlReply, ControlRequest, Latency, Loss, Lost, OpenError, Server, ServerError,
    ServerOptions, UblkOptions, VolumeConfig, VolumeStatus, ask, change_policy, check_volume, detach_volume,
    empty_volume, inspect_volume, open_volume, remove_ended_journal,
};
use std::fmt::Write as _;
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

fn serving(error: ServerError) -> Failure {
    Failure::input(error.to_string())
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
                Some(seconds) => watch(&volume, Duration::from_secs(*seconds)),
                None => status(&volume, *json),
            }
        }
        Volume::Journal { what } => journal::run(what),
        Volume::Set { volume, name, value, loss } => set(volume, name, value, loss),
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
        Some(ControlReply::Losing(sentence)) => Err(Failure::Check(sentence)),
    }
}

fn cache_of(status: &VolumeStatus) -> String {
    match (&status.policy, &status.mode) {
        _ if status.detached => {
            "none: the disk has everything, and the flash device may be taken away (set `cache = false`; else the next start \
             begins with an empty cache)"
                .to_owned()
        }
        (Some(policy), Some(mode)) => format!("{policy}, {mode}"),
        _ => "none: the disk alone serves".to_owned(),
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
    line("cache", cache_of(&status));
    if !status.detached {
        line("pages", format!("{} of {}, each {} bytes", status.pages, status.slots, status.page_bytes));
        line("newer than disk", status.dirty_pages.to_string());
    }
    if status.missing_pages > 0 {
        line("only on failed flash", format!("{} pages", status.missing_pages));
    }
    if status.journal_writes > 0 {
        line(
            "journal",
            format!("{} acknowledged writes of a killed server, for the next start", status.journal_writes),
        );
    }
    for Lost { offset, bytes } in &status.lost {
        line("lost", format!("{bytes} bytes at {offset}"));
    }
    if status.running {
        let hits = status.staging_hits + status.flash_hits;
        let reads = hits + status.disk_reads;
        line("pages read", format!("{reads}, of which {hits} from the cache"));
        line("entered after reads", status.populated.to_string());
        line("pages to flash, disk", format!("{}, {}", status.flash_writes, status.disk_writes));
        if status.hits_to_disk_permille > 0 {
            let percent = status.hits_to_disk_permille as f64 / 10.0;
            line("hits sent to disk", format!("{percent:.1} %, because flash is slower"));
        }
        status
            .flash_budget_left
            .into_iter()
            .for_each(|left| line("flash budget", format!("{left} bytes left")));
        for Bypassed { why, reads, stayed_out, writes } in &status.bypassed {
            if reads + stayed_out + writes > 0 {
                let pages =
                    format!("{reads} pages read, {writes} written past flash; {stayed_out} not taken in");
                line(&format!("bypass: {why}"), pages);
            }
        }
        for Latency { place, count, mean_us, median_us, p99_us } in &status.latencies {
            let times = format!("{count}, mean {mean_us} us, half < {median_us} us, 99 % < {p99_us} us");
            line(place, times);
        }
    }
    status.forecast.into_iter().for_each(|forecast| line("forecast", forecast));
    if status.switches_policy {
        line("policy changed", status.switched.unwrap_or_else(|| "not since the start; it may".to_owned()));
    }
    status.notice.into_iter().for_each(|notice| line("notice", notice));
    let when = if status.running { "told at the start" } else { "notice" };
    status.start_notices.into_iter().for_each(|notice| line(when, notice));
    output::print(&text)
}

/// Prints a running server's work, until it ends.
fn watch(args: &VolumeArgs, every: Duration) -> Result<(), Failure> {
    let config = read(&args.config)?;
    let now = || asked(args, &config, ControlRequest::Status);
    let Some(mut before) = now()? else {
        return Err(Failure::input(format!(
            "{}: no server runs; `entresol serve` starts one",
            args.config.display()
        )));
    };
    output::print("     reads   hits %    to flash     to disk       dirty\n")?;
    loop {
        std::thread::sleep(every);
        let Some(status) = now()? else { return Ok(()) };
        let hits = |of: &VolumeStatus| of.staging_hits + of.flash_hits;
        // A drain or a new mode begins the counters anew.
        let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        let (hit, missed) =
            (since(hits(&status), hits(&before)), since(status.disk_reads, before.disk_reads));
        let reads = hit + missed;
        let percent = hit as f64 * 100.0 / reads.max(1) as f64;
        let (flash, disk) =
            (since(status.flash_writes, before.flash_writes), since(status.disk_writes, before.disk_writes));
        let dirty = status.dirty_pages;
        let line = format!("{reads:>10} {percent:>8.1} {flash:>11} {disk:>11} {dirty:>11}\n");
        if !output::print_to_reader(&line)? {
            return Ok(());
        }
        before = status;
    }
}

/// Changes an option in a running server, and in the configuration.
fn set(args: &VolumeArgs, name: &str, value: &str, loss: &LossArgs) -> Result<(), Failure> {
    let unwritable =
        |error| Failure::input(format!("{}: cannot be written ({error})", args.config.display()));
    // A link stays, and so does the owner of the file.
    let path = &std::fs::canonicalize(&args.config).unwrap_or_else(|_| args.config.clone());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Two commands that change options at once would each undo the other's change.
    let one_at_a_time = File::open(folder).map_err(unwritable)?;
    one_at_a_time.lock().map_err(unwritable)?;
    let before = read(path)?;
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
            switch_policy: config.switch_policy,
        },
    };
    // Before anything changes: there is room for it.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
    keep_owner(file.as_file(), path).map_err(unwritable)?;
    write(&mut file, &config, path)?;
    let asked = asked(args, &before, request)?;
    let now = if asked.is_some() { "now" } else { "when it is served next" };
    match asked {
        // Of the cache that it has now.
        Some(status) if is_of_cache && status.policy.is_some() => config.slots = status.slots as u32,
        None if config.policy != before.policy && config.cache => {
            config = change_policy(&before, &config, Loss::accepted(loss.accept_loss)).map_err(opening)?;
        }
        _ => {}
    }
    write(&mut file, &config, path)?;
    file.persist(path).map_err(|error| error.error).with_context(|| format!("writing {}", path.display()))?;
    let also = match name != "policy" && config.policy != before.policy {
        true => format!(", and the policy {}: {} does not have this mode", config.policy, before.policy),
        false => String::new(),
    };
    output::print(&format!("{name} is {value} {now}{also}\n"))
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

/// Where to listen for one volume, and its limits.
fn server_options(args: &ServeArgs, config: &VolumeConfig) -> Result<ServerOptions, Failure> {
    let usual = ServerOptions::of(config);
    Ok(ServerOptions {
        socket: args.socket.as_ref().map_or(Ok(usual.socket), |path| absolute(path))?,
        tcp: args.tcp,
        ublk: args.ublk.then(|| UblkOptions::of(config)),
        read_only: args.read_only || usual.read_only,
        ..usual
    })
}

/// Opens a volume and listens.
fn start(config: &VolumeConfig, options: ServerOptions) -> Result<Server, Failure> {
    let (volume, notices) = open_volume(config).map_err(opening)?;
    notices.iter().for_each(|notice| output::notice(notice));
    Server::start(volume, options).map_err(serving)
}

/// Serves volumes until SIGTERM or SIGINT.
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    if args.configs.len() > 1 && (args.socket.is_some() || args.tcp.is_some()) {
        return Err(Failure::input(
            "--socket and --tcp are for one volume; set `socket` in each configuration",
        ));
    }
    let mut all = Vec::new();
    for path in &args.configs {
        let config = read(path)?;
        let options = server_options(args, &config)?;
        Server::check(&options).map_err(serving)?;
        all.push((config, options));
    }
    let mut names: Vec<&str> = all.iter().map(|(config, _)| config.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1] && args.metrics.is_some()) {
        let name = pair[0];
        return Err(Failure::input(format!(
            "two volumes are both called {name}, and metrics tell them apart by name; change `name` in one"
        )));
    }
    let mut servers: Vec<(String, Server, VolumeConfig)> = Vec::new();
    let mut failed = Ok(());
    for (config, options) in all {
        let socket = options.socket.display().to_string();
        match start(&config, options) {
            Ok(server) => {
                let bytes = server.volume().bytes();
                let device = server.device().map(|path| format!(" and {path}")).unwrap_or_default();
                let line = format!("ready: volume {} of {bytes} bytes at {socket}{device}\n", config.name);
                servers.push((line, server, config));
            }
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    if let (Ok(()), Some(address)) = (&failed, args.metrics) {
        failed =
            Server::export_metrics(address, servers.iter().map(|(_, server, _)| server)).map_err(serving);
    }
    if failed.is_ok() {
        let ready = || {
            // Its readers may have ended.
            servers.iter().for_each(|(line, ..)| _ = output::print(line));
            Server::notify_ready();
        };
        Server::wait_for_signal(ready).context("waiting for a signal")?;
    }
    let stop = |(_, server, config): (String, Server, VolumeConfig)| {
        server.stop().map(|()| remove_ended_journal(&config))
    };
    let stopped: Vec<_> = servers.into_iter().map(stop).collect();
    failed?;
    stopped.into_iter().collect::<Result<(), _>>().map_err(anyhow::Error::from)?;
    Ok(())
}
