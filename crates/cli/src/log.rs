//! The log on stderr.
//!
//! Invariant: a log that cannot be written harms nothing. Lines are written by a thread of their own. If the
//! reader of stderr is slower than the lines, or does not read at all, lines are dropped; the threads of a
//! server never wait for it. What fails is dropped, too ([`entresol_runtime::say`]).

use crate::failure::Failure;
use entresol_runtime::say;
use std::io::{Result as IoResult, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing::Metadata;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Says how much is told on stderr: `error`, `warn`, `info`, `off`.
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

/// Whether a line is written. The block door tells in its own words what the engine warns of: of a server the
/// engine's lines are written only where all are asked for.
fn is_written(metadata: &Metadata<'_>, level: LevelFilter, has_own_words: bool) -> bool {
    let is_of_engine = metadata.target().starts_with("entresol_engine");
    *metadata.level() <= level && !(has_own_words && is_of_engine && level < LevelFilter::INFO)
}

/// Events are written to stderr, if the environment asks for them; otherwise those of level `usual` and
/// worse. `has_own_words`: see [`is_written`].
pub fn start(usual: LevelFilter, has_own_words: bool) -> Result<Option<Log>, Failure> {
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
    let written = filter_fn(move |metadata| is_written(metadata, level, has_own_words));
    let formatted = tracing_subscriber::fmt::layer()
        .with_writer(move || Line { bytes: Vec::new(), log: lines.clone() })
        // They would be told with `eprintln!`.
        .log_internal_errors(false)
        .with_target(false)
        .with_filter(written.with_max_level_hint(level));
    tracing_subscriber::registry().with(formatted).init();
    Ok(Some(Log(log)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A writer that all lines share.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
            self.0.lock().expect("no test panics with it").write(bytes)
        }

        fn flush(&mut self) -> IoResult<()> {
            Ok(())
        }
    }

    /// The lines of these that are written: the engine's warning and its news, and a warning of the door.
    fn written(level: LevelFilter, has_own_words: bool) -> String {
        let told = Shared::default();
        let writer = told.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .without_time()
            .with_ansi(false)
            .with_filter(filter_fn(move |metadata| is_written(metadata, level, has_own_words)));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(target: "entresol_engine::events", "x");
            tracing::info!(target: "entresol_engine::events", "x");
            tracing::warn!(target: "entresol_block::server", "x");
        });
        let bytes = told.0.lock().expect("no test panics with it").clone();
        String::from_utf8(bytes).expect("lines are UTF-8").replace('\n', ";").replace("  ", " ")
    }

    #[test]
    fn a_server_tells_in_its_own_words() {
        let (warning, news, ours) = (
            " WARN entresol_engine::events: x;",
            " INFO entresol_engine::events: x;",
            " WARN entresol_block::server: x;",
        );
        assert_eq!(written(LevelFilter::WARN, true), ours);
        assert_eq!(written(LevelFilter::WARN, false), format!("{warning}{ours}"));
        assert_eq!(written(LevelFilter::INFO, true), format!("{warning}{news}{ours}"));
        assert_eq!(written(LevelFilter::ERROR, true), "");
    }
}
