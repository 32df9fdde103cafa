//! `cargo xtask postgres run`.

use super::build::{BuildArgs, make};
use crate::programs::{User, output};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// What `run` may be told.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The cluster's folder. It is made if it does not exist or is empty.
    data: PathBuf,
    /// Port, and part of the socket's name.
    #[arg(long, default_value_t = 5432)]
    port: u16,
    /// The user that the server runs as; only root can name one, and must.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    build: BuildArgs,
    /// Options for the server, after `--`.
    #[arg(last = true)]
    options: Vec<String>,
}

/// Starts the server in the foreground.
///
/// # Errors
///
/// The build fails, the folder is something else, or the server does not start.
pub fn run(arguments: &RunArgs) -> Result<()> {
    let user = User::named(arguments.user.as_deref())?;
    let data = std::path::absolute(&arguments.data)?;
    let is_new = is_new(&data)?;
    let build = make(&arguments.build)?;
    if is_new {
        fs::create_dir_all(&data).with_context(|| format!("{} cannot be made", data.display()))?;
        user.own(&data)?;
        let mut initdb = user.command(build.program("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", "postgres", "--data-checksums"]);
        output(&mut initdb)?;
        eprintln!("a new cluster, with checksums; local users are trusted (pg_hba.conf)");
    }
    let psql = build.program("psql");
    let socket = "/tmp";
    println!("connect: {} -h {socket} -p {} -U postgres postgres", psql.display(), arguments.port);
    println!("stop:    Ctrl-C");
    let mut server = user.command(build.program("postgres"));
    server.arg("-D").arg(&data).args(["-k", socket, "-p", &arguments.port.to_string()]);
    let status = server.args(&arguments.options).status().context("the server cannot be started")?;
    if !status.success() {
        bail!("the server ended with {status}");
    }
    Ok(())
}

/// Whether the folder is to be filled.
fn is_new(data: &Path) -> Result<bool> {
    match fs::read_dir(data).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(true),
        Ok(false) if data.join("PG_VERSION").is_file() => Ok(false),
        Ok(false) => bail!("{} is not empty and no PostgreSQL cluster; nothing was changed", data.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", data.display())),
    }
}
