//! The engine's log on stderr.
//!
//! Invariant: a log that cannot be written harms nothing. Lines are written by a thread of their own. If the
//! reader of stderr is slower than the lines, or does not read at all, lines are dropped; the threads of a
//! server never wait for it. What fails is dropped, too ([`entresol_runtime::say`]).

use crate::failure::Failure;
use entresol_runtime::say;
use std::io::{Result as IoResult, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Says how much the engine tells on stderr: `error`, `warn`, `info`.
const LOG: &str = "ENTRESOL_LOG";
/// Lines that wait to be written; more are dropped.
const WAITING_MAX: usize = 1024;
/// How long the end of the command waits for the lines before it.
const PATIENCE: Duration = Duration::from_secs(1);

enum Said {
    Line(Vec<u8>),
    /// Everything before it was written.
    End(SyncSender<()>),
}

/// The log of this process; its last lines are written when it is dropped.
pub struct Log(SyncSender<Said>);

impl Drop for Log {
    fn drop(&mut self) {
        let (told, is_told) = sync_channel(1);
        if self.0.try_send(Said::End(told)).is_ok() {
            let _ = is_told.recv_timeout(PATIENCE);
        }
    }
}

/// One event: its line, which is passed on when it is whole.
struct Line {
    bytes: Vec<u8>,
    log: SyncSender<Said>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.log.try_send(Said::Line(std::mem::take(&mut self.bytes)));
    }
}

fn write_lines(said: &Receiver<Said>) {
    for said in said {
        match said {
            Said::Line(bytes) => say::tell_bytes(&bytes),
            Said::End(told) => _ = told.try_send(()),
        }
    }
}

/// The engine's events are written to stderr, if the environment asks for them; otherwise those of level
/// `usual` and worse.
pub fn start(usual: LevelFilter) -> Result<Option<Log>, Failure> {
    let level = std::env::var_os(LOG).unwrap_or_else(|| usual.to_string().into());
    let level = level
        .to_str()
        .and_then(|level| level.parse::<LevelFilter>().ok())
        .ok_or_else(|| Failure::input(format!("{LOG} is {level:?}; give error, warn, info or off")))?;
    if level == LevelFilter::OFF {
        return Ok(None);
    }
    let (log, said) = sync_channel(WAITING_MAX);
    let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || write_lines(&said));
    thread.map_err(|error| Failure::Run(anyhow::Error::from(error).context("starting the log's thread")))?;
    let lines = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || Line { bytes: Vec::new(), log: lines.clone() })
        // They would be told with `eprintln!`.
        .log_internal_errors(false)
        .with_target(false)
        .init();
    Ok(Some(Log(log)))
}
