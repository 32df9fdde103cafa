//! Clients that run the transactions, and their statistics.
//!
//! Invariant: a client's inputs depend only on the run's seed and the client's number. In the simulated
//! runtime, the whole run is a function of the seeds.

mod acknowledge;
mod client;
mod config;
mod deck;
mod statistics;
mod verify;

pub use acknowledge::{Acknowledge, Acknowledged, Effect};
pub use config::{Home, Mix, Pace, RunConfig};
pub use statistics::{KindStatistics, Statistics};
pub use verify::{Loss, Verification, verify_acknowledged};

use crate::database::Database;
use crate::error::TpccError;
use crate::random::Constants;
use crate::schema::HistoryKey;
use client::Client;
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_runtime::{JoinHandle, Time};
use entresol_store::{Direction, Lock};
use statistics::Recorder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use zerocopy::big_endian::{U32, U64};

/// Maximum length of a single wait, so that a stopped run ends soon.
const STEP: Duration = Duration::from_secs(1);

/// The shared state of the clients of a run.
struct Shared {
    database: Database,
    config: RunConfig,
    constants: Constants,
    started: Time,
    stopping: AtomicBool,
    /// The first error of any client.
    failure: TinyMutex<Option<TpccError>>,
    recorders: Vec<TinyMutex<Recorder>>,
    session: U32,
    payments: AtomicU64,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn fail(&self, error: TpccError) {
        self.failure.lock().get_or_insert(error);
        self.stop();
    }

    fn next_payment(&self) -> HistoryKey {
        let sequence = self.payments.fetch_add(1, Ordering::Relaxed) + 1;
        HistoryKey { session: self.session, sequence: U64::new(sequence) }
    }
}

/// Clients in progress. A drop stops them without waiting.
pub struct Run {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle>,
}

/// Starts the clients. Only one run at a time may use a database.
pub fn start(database: &Database, config: &RunConfig) -> Result<Run, TpccError> {
    let shared = Arc::new(Shared {
        database: database.clone(),
        config: config.clone(),
        constants: Constants::for_run(config.seed, database.load_constants()),
        started: entresol_runtime::now(),
        stopping: AtomicBool::new(false),
        failure: TinyMutex::new(Rank::Measurement, None),
        recorders: (0..config.clients).map(|_| TinyMutex::new(Rank::Measurement, Recorder::new())).collect(),
        session: next_session(database)?,
        payments: AtomicU64::new(0),
    });
    let clients = (0..config.clients)
        .map(|number| {
            let shared = shared.clone();
            entresol_runtime::spawn(&format!("tpcc-client-{number}"), move || {
                Client::new(&shared, number).run()
            })
        })
        .collect();
    Ok(Run { shared, clients })
}

/// Runs the clients for `duration` of runtime time and returns their statistics. Clients with a fixed number
/// of transactions ([`RunConfig::transactions_per_client`]) may end earlier; `None` waits for them.
pub fn run(
    database: &Database,
    config: &RunConfig,
    duration: Option<Duration>,
) -> Result<Statistics, TpccError> {
    let run = start(database, config)?;
    if let Some(duration) = duration {
        run.sleep(duration);
        run.stop();
    }
    run.finish()
}

/// The number of the next run: one more than the newest in HISTORY.
fn next_session(database: &Database) -> Result<U32, TpccError> {
    let key = |session, sequence| HistoryKey { session: U32::new(session), sequence: U64::new(sequence) };
    let mut newest = 0;
    let mut txn = database.store().begin();
    database.tables().history.scan(
        &mut txn,
        &key(0, 0),
        &key(u32::MAX, u64::MAX),
        Direction::Backward,
        Lock::None,
        |key, _| {
            newest = key.session.get();
            false
        },
    )?;
    txn.commit()?;
    Ok(U32::new(newest + 1))
}

impl Run {
    /// The statistics since the start. Cheap enough for every second. The difference of two is a window
    /// ([`Statistics::since`]), for example without a warm-up.
    pub fn snapshot(&self) -> Statistics {
        let mut sum = Statistics::new(self.shared.started, entresol_runtime::now());
        for recorder in &self.shared.recorders {
            sum.add(&recorder.lock());
        }
        sum
    }

    /// The start time.
    pub fn started(&self) -> Time {
        self.shared.started
    }

    /// Whether a client has failed, so that all are stopping.
    pub fn has_failed(&self) -> bool {
        self.shared.failure.lock().is_some()
    }

    /// Waits for `duration` of runtime time, or until a client has failed.
    pub fn sleep(&self, duration: Duration) {
        let deadline = entresol_runtime::now() + duration;
        while !self.has_failed() {
            let left = deadline.since(entresol_runtime::now());
            if left.is_zero() {
                return;
            }
            entresol_runtime::sleep(left.min(STEP));
        }
    }

    /// Requests the clients to end after their current transaction.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Waits until all clients have ended. Returns their statistics, or the first error.
    pub fn finish(mut self) -> Result<Statistics, TpccError> {
        for client in std::mem::take(&mut self.clients) {
            client.join();
        }
        if let Some(error) = self.shared.failure.lock().take() {
            return Err(error);
        }
        Ok(self.snapshot())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
