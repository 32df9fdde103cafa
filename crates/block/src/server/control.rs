//! Questions to a running server: one line of JSON each way, over a control socket.

use super::Shared;
use crate::volume::told_of_loss;
use crate::words;
use crate::{DailyWrites, Loss, SteerOptions, VolumeConfig, VolumeStatus};
use entresol_engine::TierError;
use entresol_runtime::spawn;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest line, in bytes: a status has up to two thousand ranges.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Longest time in which a question is asked.
const ASKING_TIME_MAX: Duration = Duration::from_secs(5);

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The volume's state.
    Status,
    /// All dirty pages to disk; the cache is empty then.
    Drain {
        /// Pages that cannot be read from flash are given up. As in the next ones.
        accept_loss: bool,
    },
    /// All dirty pages to disk; the disk alone serves from then on.
    Detach {
        /// See above.
        accept_loss: bool,
    },
    /// The cache takes the mode and the policy of this configuration.
    SetCache {
        /// The configuration.
        config: Box<VolumeConfig>,
        /// See above.
        accept_loss: bool,
    },
    /// The bypass options of the configuration.
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
    /// The state after the change.
    Status(Box<VolumeStatus>),
    /// What went wrong, in a sentence.
    Error(String),
    /// Which bytes are lost, in a sentence. Everything else is on disk, and nothing was closed.
    Losing(String),
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
    // It ends by itself; the client may have closed the connection.
    drop(spawn("block control", move || _ = answer_one(&shared, stream)));
}

fn set_cache(shared: &Shared, config: &VolumeConfig, loss: Loss) -> Result<(), ControlReply> {
    let Some((now, flash_bytes)) = shared.volume.cache_options() else {
        let why = "the disk alone serves; there is no cache to change";
        return Err(ControlReply::Error(why.to_owned()));
    };
    let new =
        config.options_after(&now, flash_bytes).map_err(|error| ControlReply::Error(error.to_string()))?;
    shared.volume.set_cache(new, loss).map_err(|error| told(shared, &error))
}

fn told(shared: &Shared, error: &TierError) -> ControlReply {
    match told_of_loss(error, shared.volume.page_bytes()) {
        Some(sentence) => ControlReply::Losing(sentence),
        None => ControlReply::Error(words::of(error)),
    }
}

fn answer_one(shared: &Shared, mut stream: UnixStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKING_TIME_MAX))?;
    stream.set_write_timeout(Some(ASKING_TIME_MAX))?;
    let line = read_line(&stream)?;
    let done = match serde_json::from_str(&line) {
        Err(error) => Err(ControlReply::Error(format!("the question is not understood: {error}"))),
        Ok(ControlRequest::Status) => Ok(()),
        Ok(ControlRequest::Drain { accept_loss }) => {
            shared.volume.drain(Loss::accepted(accept_loss)).map_err(|error| told(shared, &error))
        }
        Ok(ControlRequest::SetCache { config, accept_loss }) => {
            set_cache(shared, &config, Loss::accepted(accept_loss))
        }
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
            Err(error) => Err(ControlReply::Error(error.to_string())),
        },
        Ok(ControlRequest::Detach { accept_loss }) => {
            shared.volume.detach(Loss::accepted(accept_loss)).map_err(|error| told(shared, &error))
        }
    };
    let reply = match done {
        Ok(()) => ControlReply::Status(Box::new(VolumeStatus {
            requests: shared.counts.report(),
            ..shared.volume.status()
        })),
        Err(reply) => reply,
    };
    writeln!(stream, "{}", serde_json::to_string(&reply)?)
}
