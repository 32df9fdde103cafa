//! `entresol serve`.

use super::volume::{absolute, opening, read};
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::output;
use anyhow::{Context, anyhow};
use entresol_block::{
    Server, ServerError, ServerOptions, UblkOptions, VolumeConfig, open_volume, remove_ended_journal,
};

/// A volume that is served: the line that says so, and its configuration.
type Served = (String, Server, VolumeConfig);

fn serving(error: ServerError) -> Failure {
    Failure::input(error.to_string())
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

/// A volume that can serve nothing any more: a server that went on would only look alive.
fn ended((_, server, config): &Served) -> Option<Failure> {
    let why = server.volume().failure()?;
    Some(Failure::Run(anyhow!("{}: {why}; the server ends, so that it can be started again", config.name)))
}

/// Serves volumes until SIGTERM or SIGINT, or until one of them has failed for good.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
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
    let mut servers: Vec<Served> = Vec::new();
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
        let failure = || servers.iter().find_map(ended);
        let ended = Server::wait_for_signal(ready, failure).context("waiting for a signal")?;
        failed = ended.map_or(Ok(()), Err);
    }
    let stop = |(_, server, config): Served| server.stop().map(|()| remove_ended_journal(&config));
    let stopped: Vec<_> = servers.into_iter().map(stop).collect();
    failed?;
    stopped.into_iter().collect::<Result<(), _>>().map_err(anyhow::Error::from)?;
    Ok(())
}
