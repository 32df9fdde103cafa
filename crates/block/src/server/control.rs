//! Questions to a running server: one line of JSON each way, over a socket beside the data socket.

use super::Shared;
use crate::words;
use crate::{DailyWrites, SteerOptions, VolumeConfig, VolumeStatus};
use entresol_runtime::spawn;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Longest time in which a question is asked.
const ASKING_TIME_MAX: Duration = Duration::from_secs(5);

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The volume's state.
    Status,
    /// All dirty pages to disk; the cache is empty then.
    Drain,
    /// All dirty pages to disk; the disk alone serves from then on.
    Detach,
    /// The cache goes on in the mode and under the policy of this configuration.
    SetCache(Box<VolumeConfig>),
    /// What goes around the cache, as in the configuration.
    Steer {
        /// See [`crate::SteerOptions`], as are the next ones.
        sequential_bypass_bytes: u64,
        /// See above.
        hits_to_disk: bool,
        /// As [`crate::DailyWrites::read`] takes it.
        flash_writes_per_day: String,
        /// See above.
        dirty_percent_max: u64,
        /// See above.
        #[serde(default)]
        switch_policy: bool,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlReply {
    /// The state, after what was asked for.
    Status(Box<VolumeStatus>),
    /// What went wrong, in a sentence.
    Error(String),
}

/// Asks the server whose control socket is at `socket`. `None`: there is no server.
///
/// # Errors
/// If the server does not answer.
pub fn ask(socket: &Path, request: ControlRequest) -> std::io::Result<Option<ControlReply>> {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    writeln!(stream, "{}", serde_json::to_string(&request)?)?;
    let line = read_line(&stream)?;
    Ok(Some(serde_json::from_str(&line)?))
}

fn read_line(stream: &UnixStream) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    if line.ends_with('\n') { Ok(line) } else { Err(Error::from(ErrorKind::UnexpectedEof)) }
}

/// Answers in a thread of its own: a drain takes its time.
pub(super) fn answer(shared: &Arc<Shared>, stream: UnixStream) {
    let shared = shared.clone();
    // It ends by itself; who asked may have gone.
    drop(spawn("block control", move || _ = answer_one(&shared, stream)));
}

fn set_cache(shared: &Shared, config: &VolumeConfig) -> Result<(), String> {
    let Some((now, flash_bytes)) = shared.volume.cache_options() else {
        return Err("the disk alone serves; there is no cache to change".to_owned());
    };
    let new = config.options_after(&now, flash_bytes).map_err(|error| error.to_string())?;
    shared.volume.set_cache(new).map_err(|error| words::of(&error))
}

fn answer_one(shared: &Shared, mut stream: UnixStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKING_TIME_MAX))?;
    stream.set_write_timeout(Some(ASKING_TIME_MAX))?;
    let line = read_line(&stream)?;
    let done = match serde_json::from_str(&line) {
        Err(error) => Err(format!("the question is not understood: {error}")),
        Ok(ControlRequest::Status) => Ok(()),
        Ok(ControlRequest::Drain) => shared.volume.drain().map_err(|error| words::of(&error)),
        Ok(ControlRequest::SetCache(config)) => set_cache(shared, &config),
        Ok(ControlRequest::Steer {
            sequential_bypass_bytes,
            hits_to_disk,
            flash_writes_per_day,
            dirty_percent_max,
            switch_policy,
        }) => match DailyWrites::read(&flash_writes_per_day) {
            Ok(flash_writes_per_day) => {
                shared.volume.steer(SteerOptions {
                    sequential_bypass_bytes,
                    hits_to_disk,
                    flash_writes_per_day,
                    dirty_percent_max,
                    switch_policy,
                });
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        },
        Ok(ControlRequest::Detach) => shared.volume.detach().map_err(|error| words::of(&error)),
    };
    let reply = match done {
        Ok(()) => ControlReply::Status(Box::new(shared.volume.status())),
        Err(sentence) => ControlReply::Error(sentence),
    };
    writeln!(stream, "{}", serde_json::to_string(&reply)?)
}
