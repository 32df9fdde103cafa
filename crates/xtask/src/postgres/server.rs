//! A server for a test: a new cluster in `target/postgres/test`, on a socket of its own.

use super::build::Build;
use crate::paths;
use crate::programs::{User, output, within};
use anyhow::{Context, Result, bail};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A running server. It is stopped, as a crash would, when this is dropped.
pub struct Server<'a> {
    build: &'a Build,
    user: &'a User,
    data: PathBuf,
    socket: PathBuf,
    /// The control group that it is started in.
    group: Option<PathBuf>,
    /// On the loopback interface, too, if it is not [`PORT`].
    port: u16,
}

/// The port in the name of the socket, whose folder nobody else uses.
const PORT: u16 = 5432;

impl<'a> Server<'a> {
    /// A new cluster called `name` with these lines of configuration, started; `FOLDER` in them stands for
    /// the folder of the test. `initdb` gets `options`.
    ///
    /// # Errors
    ///
    /// `initdb` or the start fails.
    pub fn start(
        build: &'a Build,
        user: &'a User,
        name: &str,
        options: &[&str],
        configuration: &str,
    ) -> Result<Self> {
        let server = Self::make(build, user, name, options, configuration)?;
        server.start_again()?;
        Ok(server)
    }

    /// As [`Server::start`], but it is not started.
    ///
    /// # Errors
    ///
    /// `initdb` fails.
    pub fn make(
        build: &'a Build,
        user: &'a User,
        name: &str,
        options: &[&str],
        configuration: &str,
    ) -> Result<Self> {
        let server = Self::new(build, user, name)?;
        let folder = server.data.with_file_name("");
        let mut initdb = user.command(build.program("initdb"));
        initdb.arg("-D").arg(&server.data).args(["-U", "postgres", "-A", "trust", "--no-sync"]).args(options);
        if !options.contains(&"-k") {
            initdb.args(build.without_checksums());
        }
        output(&mut initdb)?;
        let file = server.data.join("postgresql.conf");
        let mut text = fs::read_to_string(&file)?;
        text += "\nlisten_addresses = ''\nfsync = off\nlog_line_prefix = '%m [%p] %b '\n";
        // Suites of their own have it, with little log; the others would keep gigabytes.
        text += "entresol.flash_loss = 'fatal'\n";
        text += &build.settings();
        text += &configuration.replace("FOLDER", folder.display().to_string().trim_end_matches('/'));
        fs::write(&file, text)?;
        Ok(server)
    }

    /// A copy of `primary` by pg_basebackup, which gets `options`. It is not started.
    ///
    /// # Errors
    ///
    /// pg_basebackup fails.
    pub fn from_backup(
        build: &'a Build,
        user: &'a User,
        name: &str,
        primary: &Server<'_>,
        options: &[&str],
    ) -> Result<Self> {
        let server = Self::new(build, user, name)?;
        let mut backup = primary.client("pg_basebackup");
        output(backup.arg("-D").arg(&server.data).args(["-c", "fast"]).args(options))?;
        Ok(server)
    }

    /// A folder for a cluster, and one for its socket.
    fn new(build: &'a Build, user: &'a User, name: &str) -> Result<Self> {
        let folder = paths::postgres().join("test").join(name.replace(' ', "-"));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        user.own(&folder)?;
        Self::over(build, user, folder.join("data"), name)
    }

    /// The cluster in `data`, which may be made later. It is not started.
    ///
    /// # Errors
    ///
    /// The folder of its socket cannot be made.
    pub fn over(build: &'a Build, user: &'a User, data: PathBuf, name: &str) -> Result<Self> {
        // The path of a socket is at most 107 bytes long.
        let socket = format!("entresol-{}-{}", std::process::id(), name.replace(' ', "-"));
        let socket = std::env::temp_dir().join(socket);
        let server = Server { build, user, data, socket, group: None, port: PORT };
        fs::create_dir_all(&server.socket)?;
        user.own(&server.socket)?;
        Ok(server)
    }

    /// Lets it run in a control group, from the next start on.
    pub fn run_in(&mut self, group: &Path) {
        self.group = Some(group.to_owned());
    }

    /// Lets it listen on a free port of the loopback interface, from the next start on.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn listen(&mut self) -> Result<()> {
        self.port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts it after a stop.
    ///
    /// # Errors
    ///
    /// It does not start within a minute.
    pub fn start_again(&self) -> Result<()> {
        self.start_with("")
    }

    /// As [`Server::start_again`], with more options of the server.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_with(&self, more: &str) -> Result<()> {
        let mut options = format!("-k {} -p {} {more}", self.socket.display(), self.port);
        if self.port != PORT {
            options += " -h 127.0.0.1";
        }
        let mut start = match &self.group {
            Some(group) => within(group, &self.control()),
            None => self.control(),
        };
        // On a disk with a limit recovery takes its time.
        let patience_s = if self.group.is_some() { "900" } else { "60" };
        start.arg("-l").arg(self.log()).args(["-o", &options, "-t", patience_s, "-w", "start"]);
        // Backends that connect to their own server (dblink, postgres_fdw) find it as clients do.
        start.env("PGHOST", &self.socket).env("PGUSER", "postgres");
        // The server inherits a pipe, and would keep it open.
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if !status.success() {
            bail!("the server did not start: {}", self.last_lines(3));
        }
        Ok(())
    }

    /// Stops it, and asserts that it comes to an end.
    ///
    /// # Errors
    ///
    /// It does not stop within a minute.
    pub fn stop(&self) -> Result<()> {
        output(self.control().args(["-m", "fast", "-t", "60", "-w", "stop"])).map(drop)
    }

    /// Stops it as a crash would.
    ///
    /// # Errors
    ///
    /// It does not stop within a minute.
    pub fn stop_at_once(&self) -> Result<()> {
        output(self.control().args(["-m", "immediate", "-t", "60", "-w", "stop"])).map(drop)
    }

    /// The postmaster's process.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(super) fn postmaster(&self) -> Result<String> {
        let text = fs::read_to_string(self.data.join("postmaster.pid"))?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Its children now; of each what `ps` prints for `columns`, a line each.
    ///
    /// # Errors
    ///
    /// There is no postmaster.
    pub(super) fn children(&self, columns: &str) -> Result<String> {
        output(Command::new("ps").args(["-o", columns, "--ppid", &self.postmaster()?]))
    }

    /// Kills the postmaster, and waits until its children have ended.
    ///
    /// # Errors
    ///
    /// There is none, or they do not end within a minute.
    pub fn kill(&self) -> Result<()> {
        let (postmaster, children) = (self.postmaster()?, self.children("pid=")?);
        output(Command::new("kill").args(["-9", &postmaster]))?;
        let until = Instant::now() + Duration::from_secs(60);
        for child in children.split_whitespace() {
            while Path::new("/proc").join(child).exists() {
                if Instant::now() > until {
                    bail!("process {child} does not end after its postmaster");
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        fs::remove_file(self.data.join("postmaster.pid"))?;
        Ok(())
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// It has not within a minute.
    pub fn ends(&self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        while self.data.join("postmaster.pid").exists() {
            if Instant::now() > until {
                bail!("the server has not ended: {}", self.last_lines(3));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Adds a setting to the configuration. It is used from the next start on.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let file = self.data.join("postgresql.conf");
        let text = fs::read_to_string(&file)?;
        Ok(fs::write(&file, format!("{text}\n{name} = '{value}'\n"))?)
    }

    /// What a start says that must be in vain.
    ///
    /// # Errors
    ///
    /// The server starts.
    pub fn refuses_to_start(&self) -> Result<String> {
        self.refuses_to_start_with("")
    }

    /// As [`Server::refuses_to_start`], with more options of the server.
    ///
    /// # Errors
    ///
    /// The server starts.
    pub fn refuses_to_start_with(&self, more: &str) -> Result<String> {
        let before = self.said();
        if self.start_with(more).is_ok() {
            bail!("the server has started");
        }
        self.said_since(before)
    }

    /// What it said since `before`, a length of its log.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn said_since(&self, before: usize) -> Result<String> {
        Ok(fs::read_to_string(self.log())?.get(before..).unwrap_or_default().to_owned())
    }

    /// The length of its log.
    pub fn said(&self) -> usize {
        fs::read_to_string(self.log()).map_or(0, |text| text.len())
    }

    fn control(&self) -> Command {
        let mut control = self.user.command(self.build.program("pg_ctl"));
        control.arg("-D").arg(&self.data);
        control
    }

    /// What a statement prints, in psql's shortest form.
    ///
    /// # Errors
    ///
    /// The server's error.
    pub fn query(&self, statement: &str) -> Result<String> {
        output(self.psql().args(["-c", statement]))
    }

    /// What the last of some statements prints, each in a transaction of its own.
    ///
    /// # Errors
    ///
    /// The server's error.
    pub fn query_each(&self, statements: &[&str]) -> Result<String> {
        let mut psql = self.psql();
        statements.iter().for_each(|statement| _ = psql.args(["-c", statement]));
        output(&mut psql)
    }

    /// As [`Server::query`], of a statement that may wait for ever.
    ///
    /// # Errors
    ///
    /// It has waited for a minute; the server's error.
    pub fn query_that_ends(&self, statement: &str) -> Result<String> {
        let mut psql = self.psql();
        psql.args(["-c", statement]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut psql = psql.spawn().context("psql cannot be started")?;
        let until = Instant::now() + Duration::from_secs(60);
        while psql.try_wait()?.is_none() {
            if Instant::now() > until {
                psql.kill()?;
                bail!("it waits for ever: {statement}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        let said = psql.wait_with_output()?;
        if !said.status.success() {
            bail!("{statement}: {}", String::from_utf8_lossy(&said.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }

    /// Gives a folder to the user that it runs as.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn own(&self, folder: &Path) -> Result<()> {
        self.user.own(folder)
    }

    /// psql on this server.
    pub fn psql(&self) -> Command {
        let mut psql = self.client("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        psql
    }

    /// A client program on this server.
    pub fn client(&self, name: &str) -> Command {
        let mut client = self.user.command(self.build.program(name));
        self.address(&mut client);
        client
    }

    /// Lets a program find this server.
    pub fn address(&self, command: &mut Command) {
        command.env("PGHOST", &self.socket).env("PGPORT", self.port.to_string()).env("PGUSER", "postgres");
        command.env("PGDATABASE", "postgres");
    }

    /// Its folder of data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it said.
    pub fn log(&self) -> PathBuf {
        self.data.with_file_name("log")
    }

    fn last_lines(&self, n: usize) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(n)..].join("; ")
    }

    /// Asserts that no process has crashed, by itself or by a signal.
    ///
    /// # Errors
    ///
    /// One has: the error has what it said.
    pub fn check_log(&self) -> Result<()> {
        self.check_log_for(&["PANIC:", "TRAP:", "was terminated by signal"])
    }

    /// Asserts that no process has ended by itself, of those that were not killed.
    ///
    /// # Errors
    ///
    /// One has: the error has what it said.
    pub fn check_log_for_panics(&self) -> Result<()> {
        self.check_log_for(&["PANIC:", "TRAP:"])
    }

    fn check_log_for(&self, marks: &[&str]) -> Result<()> {
        let text = fs::read_to_string(self.log())?;
        match text.lines().find(|line| marks.iter().any(|mark| line.contains(mark))) {
            Some(line) => bail!("{line}; see {}", self.log().display()),
            None => Ok(()),
        }
    }

    /// Asserts that the files of the stopped cluster are whole without its cache.
    ///
    /// # Errors
    ///
    /// They are not, or pg_checksums refuses them.
    pub fn check_files(&self) -> Result<()> {
        let program = self.build.program("pg_checksums");
        let mut check = self.user.command(program);
        let said = output(check.arg("--check").arg(&self.data));
        match said {
            Err(error) if format!("{error:#}").contains("data checksums are not enabled in cluster") => {
                Ok(())
            }
            said => said.map(drop),
        }
    }

    /// The counters of the extension.
    ///
    /// # Errors
    ///
    /// It is not loaded.
    pub(super) fn counters(&self) -> Result<Vec<(String, u64)>> {
        self.counted("entresol", "SELECT key, value FROM entresol_stat s, json_each_text(row_to_json(s))")
    }

    /// How often hooktrace's oracles have looked; nothing if it was not preloaded.
    ///
    /// # Errors
    ///
    /// It is not installed.
    pub(super) fn oracles(&self) -> Result<Vec<(String, u64)>> {
        self.counted("hooktrace", "SELECT name, count FROM hooktrace_stat()")
    }

    fn counted(&self, extension: &str, query: &str) -> Result<Vec<(String, u64)>> {
        let text = self.query(&format!("CREATE EXTENSION IF NOT EXISTS {extension}; {query}"))?;
        let row = |line: &str| {
            let (name, count) = line.split_once('|')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Ok(text.lines().filter_map(row).collect())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if self.data.join("postmaster.pid").exists() {
            // It may have ended by itself.
            let _ = output(self.control().args(["-m", "immediate", "-w", "stop"]));
        }
        let _ = fs::remove_dir_all(&self.socket);
    }
}
