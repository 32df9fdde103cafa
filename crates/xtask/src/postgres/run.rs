//! `cargo xtask postgres run`.

use super::build::{BuildArgs, make};
use super::module;
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
    /// File or block device of a flash cache. A file is made if it does not exist. The setting is kept in the
    /// cluster's folder, for later calls, too.
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Size of the flash cache in GiB [default: all of the file or block device].
    #[arg(long, value_name = "N", requires = "flash", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    gib: Option<u32>,
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
    let flash = arguments.flash.as_deref().map(|flash| Flash::new(flash, arguments.gib)).transpose()?;
    let build = make(&arguments.build)?;
    module::install_extension(&build)?;
    if is_new {
        fs::create_dir_all(&data).with_context(|| format!("{} cannot be made", data.display()))?;
        user.own(&data)?;
        let mut initdb = user.command(build.program("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", "postgres", "--data-checksums"]);
        output(&mut initdb)?;
        eprintln!("a new cluster, with checksums; local users are trusted (pg_hba.conf)");
    }
    if let Some(flash) = flash {
        flash.set_up(&data, &user)?;
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

/// A flash cache that a cluster is to have.
struct Flash {
    path: PathBuf,
    gib: Option<u32>,
}

/// The file in the cluster's folder with the settings of the cache; `postgresql.conf` includes it.
const SETTINGS: &str = "entresol.conf";

impl Flash {
    /// The file or block device at `path`, which is to be made if a size is given.
    fn new(path: &Path, gib: Option<u32>) -> Result<Self> {
        let path = std::path::absolute(path)?;
        match path.metadata() {
            Ok(about) if about.is_dir() => {
                bail!("{} is a folder; name a file or a block device", path.display())
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && gib.is_some() => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("{} does not exist; give its size with --gib to have it made", path.display())
            }
            Err(error) => return Err(error).with_context(|| format!("{} cannot be used", path.display())),
        }
        if path.to_str().is_none_or(|path| path.contains(['\'', '\n', '\\'])) {
            bail!("{} has a character that PostgreSQL's settings cannot have", path.display());
        }
        Ok(Flash { path, gib })
    }

    /// Writes the settings into the cluster's folder, and makes the file, which its user is to own.
    fn set_up(&self, data: &Path, user: &User) -> Result<()> {
        if !self.path.exists() {
            fs::File::create(&self.path)
                .with_context(|| format!("{} cannot be made", self.path.display()))?;
            user.own(&self.path)?;
        }
        let mut text = "# Written by `cargo xtask postgres run --flash`.\n".to_owned();
        text += "shared_preload_libraries = 'entresol'\n";
        text += &format!("entresol.flash = '{}'\n", self.path.display());
        if let Some(gib) = self.gib {
            text += &format!("entresol.size = {gib}GB\n");
        }
        let file = data.join(SETTINGS);
        fs::write(&file, text).with_context(|| format!("{} cannot be written", file.display()))?;
        user.own(&file)?;
        let file = data.join("postgresql.conf");
        let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let include = format!("include '{SETTINGS}'");
        if text.lines().any(|line| line.trim() == include) {
            return Ok(());
        }
        fs::write(&file, format!("{text}\n{include}\n"))
            .with_context(|| format!("{} cannot be written", file.display()))
    }
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
