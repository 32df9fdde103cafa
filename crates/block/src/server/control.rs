//! Questions to a running server over a control socket: one line of JSON, and lines of JSON as the answer.
//! The last one says what became of it; those before, how far it is. A client that closes the connection
//! cancels the work: what was copied to disk stays there, and nothing else has changed.

use super::Shared;
use crate::resize::{open_flash, with_next_flash};
use crate::volume::{Watch, told_of_loss};
use crate::words;
use crate::{DailyWrites, Loss, NewDevice, NewFlash, OpenError, SteerOptions, VolumeConfig, VolumeStatus};
use entresol_engine::{Progress, TierError};
use entresol_runtime::{now, spawn};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Longest line, in bytes: a status has up to two thousand ranges.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// So often a client is told how far its work is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Longest time in which a question is asked.
const ASKING_TIME_MAX: Duration = Duration::from_secs(5);

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The volume's state.
    Status,
    /// All dirty pages to disk. They stay in the cache, as clean ones.
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
    /// An empty cache on `flash_next` of this configuration, if that names one, or of another size.
    SetFlash {
        /// The configuration.
        config: Box<VolumeConfig>,
        /// Bytes of the flash that the cache may use; `None`: all.
        bytes: Option<u64>,
        /// See above.
        accept_loss: bool,
    },
    /// The volume has the size that the disk has now.
    Grow,
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
        dirty_age_seconds: u64,
        /// See above.
        #[serde(default)]
        switch_policy: bool,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlReply {
    /// How far the work is. More replies follow.
    Progress {
        /// Pages that were copied to disk.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// The state after the change.
    Status(Box<VolumeStatus>),
    /// What went wrong, in a sentence.
    Error(String),
    /// Which bytes are lost, in a sentence. Everything else is on disk, and nothing was closed.
    Losing(String),
}

/// Asks the server whose control socket is at `socket`, and tells `progress` how many pages were copied, of
/// how many. `None`: there is no server.
///
/// # Errors
/// If the server does not answer.
pub fn ask(
    socket: &Path,
    request: ControlRequest,
    mut progress: impl FnMut(u64, u64),
) -> std::io::Result<Option<ControlReply>> {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    writeln!(stream, "{}", serde_json::to_string(&request)?)?;
    let mut replies = BufReader::new(&stream);
    loop {
        match serde_json::from_str(&read_line(&mut replies)?)? {
            ControlReply::Progress { done, total } => progress(done, total),
            reply => return Ok(Some(reply)),
        }
    }
}

fn read_line(lines: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    lines.take(LINE_BYTES_MAX).read_line(&mut line)?;
    if line.ends_with('\n') { Ok(line) } else { Err(Error::from(ErrorKind::UnexpectedEof)) }
}

/// Answers in a thread of its own: a drain takes its time.
pub(super) fn answer(shared: &Arc<Shared>, stream: UnixStream) {
    let shared = shared.clone();
    // It ends by itself; the client may have closed the connection.
    drop(spawn("block control", move || _ = answer_one(&shared, stream)));
}

/// The reply to work that `done` says came to its end, or was ended early.
fn came_to_its_end(shared: &Shared, done: Result<bool, TierError>) -> Result<(), ControlReply> {
    match done {
        Ok(true) => Ok(()),
        Ok(false) => Err(ControlReply::Error(
            "cancelled: the pages that were copied are on the disk, and nothing else has changed".to_owned(),
        )),
        Err(error) => Err(told(shared, &error)),
    }
}

fn set_cache(
    shared: &Shared,
    config: &VolumeConfig,
    loss: Loss,
    watch: Watch<'_>,
) -> Result<(), ControlReply> {
    let Some((now, flash_bytes)) = shared.volume.cache_options() else {
        let why = "the disk alone serves; there is no cache to change";
        return Err(ControlReply::Error(why.to_owned()));
    };
    let new =
        config.options_after(&now, flash_bytes).map_err(|error| ControlReply::Error(error.to_string()))?;
    came_to_its_end(shared, shared.volume.set_cache_watched(new, loss, watch))
}

fn set_flash(
    shared: &Shared,
    config: &VolumeConfig,
    bytes: Option<u64>,
    loss: Loss,
    watch: Watch<'_>,
) -> Result<(), ControlReply> {
    if !config.cache {
        let why =
            "the configuration says `cache = false`; stop the server, set it to true, and run this again";
        return Err(ControlReply::Error(why.to_owned()));
    }
    let refused = |error: OpenError| ControlReply::Error(error.to_string());
    let next = with_next_flash(config);
    let after = next.as_ref().unwrap_or(config);
    let open = || open_flash(after).map_err(|error| TierError::Config(error.to_string()));
    let device = |next: &VolumeConfig| -> Result<NewDevice<'_>, OpenError> {
        // As the next server computes it.
        Ok(NewDevice { path: next.flash.clone(), open: &open, origin: crate::journal::origin(next)? })
    };
    let device = next.as_ref().map(device).transpose().map_err(refused)?;
    let new = NewFlash { device, bytes, options: &|bytes| after.options_for(bytes) };
    came_to_its_end(shared, shared.volume.set_flash_watched(new, loss, watch))
}

fn told(shared: &Shared, error: &TierError) -> ControlReply {
    match told_of_loss(error, shared.volume.page_bytes()) {
        Some(sentence) => ControlReply::Losing(sentence),
        None => ControlReply::Error(words::of(error)),
    }
}

fn say(mut stream: &UnixStream, reply: &ControlReply) -> std::io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(reply)?)
}

fn answer_one(shared: &Shared, stream: UnixStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKING_TIME_MAX))?;
    stream.set_write_timeout(Some(ASKING_TIME_MAX))?;
    let line = read_line(&mut BufReader::new(&stream))?;
    let mut told = now();
    let mut watch = |Progress { done, total }: Progress| {
        if now().since(told) < PROGRESS_INTERVAL {
            return ControlFlow::Continue(());
        }
        told = now();
        match say(&stream, &ControlReply::Progress { done, total }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    let done = match serde_json::from_str(&line) {
        Err(error) => Err(ControlReply::Error(format!("the question is not understood: {error}"))),
        Ok(ControlRequest::Status) => Ok(()),
        Ok(ControlRequest::Drain { accept_loss }) => {
            came_to_its_end(shared, shared.volume.drain_watched(Loss::accepted(accept_loss), &mut watch))
        }
        Ok(ControlRequest::SetCache { config, accept_loss }) => {
            set_cache(shared, &config, Loss::accepted(accept_loss), &mut watch)
        }
        Ok(ControlRequest::SetFlash { config, bytes, accept_loss }) => {
            set_flash(shared, &config, bytes, Loss::accepted(accept_loss), &mut watch)
        }
        Ok(ControlRequest::Grow) => match shared.volume.grow() {
            Ok(_) => Ok(()),
            Err(error) => Err(self::told(shared, &error)),
        },
        Ok(ControlRequest::Steer {
            sequential_bypass_bytes,
            hits_to_disk,
            flash_writes_per_day,
            dirty_percent_max,
            dirty_age_seconds,
            switch_policy,
        }) => match DailyWrites::read(&flash_writes_per_day) {
            Ok(flash_writes_per_day) => {
                shared.volume.steer(SteerOptions {
                    sequential_bypass_bytes,
                    hits_to_disk,
                    flash_writes_per_day,
                    dirty_percent_max,
                    dirty_age_seconds,
                    switch_policy,
                });
                Ok(())
            }
            Err(error) => Err(ControlReply::Error(error.to_string())),
        },
        Ok(ControlRequest::Detach { accept_loss }) => {
            came_to_its_end(shared, shared.volume.detach_watched(Loss::accepted(accept_loss), &mut watch))
        }
    };
    let reply = match done {
        Ok(()) => ControlReply::Status(Box::new(VolumeStatus {
            requests: shared.counts.report(),
            ..shared.volume.status()
        })),
        Err(reply) => reply,
    };
    say(&stream, &reply)
}
