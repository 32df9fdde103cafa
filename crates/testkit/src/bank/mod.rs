//! The bank workload. Clients move money between accounts, insert, change and delete items, and commit or
//! abort. Now and then they make a checkpoint or read all accounts.
//!
//! Three tables:
//! - `accounts`: fixed rows, whose balances always have the same sum.
//! - `items`: rows that are inserted and deleted.
//! - `markers`: one row for each committed transaction. It tells whether a commit in flight has happened.

mod check;
mod client;
mod oracle;

pub use oracle::{Deed, Key, Oracle, Row};

use crate::subject::PAGE_BYTES;
use crate::workload::Workload;
use entresol_runtime::rng::Rng;
use entresol_runtime::spawn;
use entresol_store::{Options, Replacement, Store, Table};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The bank's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// Number of clients. Each runs one transaction at a time.
    pub clients: u32,
    /// Number of accounts, and of possible items.
    pub accounts: u32,
    /// Whether the log has images of whole pages. With images the store replaces by clock, otherwise by LRU.
    /// Without images, torn writes in place cannot be repaired. A write-back cache in log placement needs no
    /// images.
    pub full_page_writes: bool,
    /// One of this many transactions is long: it changes dozens of items, and more often aborts than commits.
    /// 0: none.
    pub long: u64,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Time between the store's own checkpoints. Clients make checkpoints, too.
    pub checkpoint_interval: Option<Duration>,
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// For all devices: bytes of a sector, and bytes that the medium writes at once.
    pub sectors: (u32, u32),
}

impl Bank {
    /// Six clients on a database of about four times the DRAM.
    pub const USUAL: Bank = Bank {
        clients: 6,
        accounts: 600,
        full_page_writes: true,
        long: 0,
        frames: 64,
        checkpoint_interval: None,
        disk_bytes: 8 << 20,
        sectors: (512, 512),
    };
}

impl Default for Bank {
    fn default() -> Self {
        Self::USUAL
    }
}

const OPENING: i64 = 1000;

/// The bank's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    accounts: Table,
    items: Table,
    markers: Table,
}

impl Tables {
    fn find(store: &Store) -> Result<Self, String> {
        let table = |name: &str| match store.table(name) {
            Ok(Some(table)) => Ok(table),
            Ok(None) => Err(format!("table {name:?} is gone")),
            Err(error) => Err(error.to_string()),
        };
        Ok(Self { accounts: table("accounts")?, items: table("items")?, markers: table("markers")? })
    }

    fn of(&self, key: Key) -> Table {
        match key {
            Key::Account(_) => self.accounts,
            Key::Item(_) => self.items,
            Key::Marker { .. } => self.markers,
        }
    }
}

impl Workload for Bank {
    type Oracle = Oracle;

    fn name(&self) -> &'static str {
        if self.full_page_writes { "bank" } else { "bank-no-images" }
    }

    fn options(&self) -> Options {
        Options {
            page_bytes: PAGE_BYTES,
            frames: self.frames,
            checkpoint_interval: self.checkpoint_interval,
            replacement: if self.full_page_writes { Replacement::Clock } else { Replacement::Lru },
            full_page_writes: self.full_page_writes,
            ..Options::default()
        }
    }

    /// The smallest log that the store accepts, so the log wraps.
    fn device_bytes(&self) -> (u64, u64) {
        (self.disk_bytes, (1 << 20) + 8192)
    }

    fn sectors(&self) -> (u32, u32) {
        self.sectors
    }

    fn flash_groups(&self) -> u32 {
        0
    }

    fn load(&self, store: &Store) -> Result<Oracle, String> {
        let mut oracle = Oracle::new(self.clients);
        for name in ["accounts", "items", "markers"] {
            store.create_table(name).map_err(|error| error.to_string())?;
        }
        let tables = Tables::find(store)?;
        let accounts = (0..self.accounts).map(|number| (Key::Account(number), OPENING));
        let items = (0..self.accounts).step_by(2).map(|number| (Key::Item(number), 0));
        for (key, balance) in accounts.chain(items) {
            oracle.rows.insert(key, Row { balance, stamp: u64::from(key.number()) });
        }
        for table in [tables.accounts, tables.items] {
            let mut rows = oracle.rows.iter().filter(|(key, _)| tables.of(**key) == table);
            let mut next = |key: &mut Vec<u8>, value: &mut Vec<u8>| match rows.next() {
                None => false,
                Some((name, row)) => {
                    key.extend_from_slice(&name.bytes());
                    value.extend_from_slice(&row.bytes(*name));
                    true
                }
            };
            store.bulk_load(table, 0.9, &mut next).map_err(|error| error.to_string())?;
        }
        Ok(oracle)
    }

    fn work(
        &self,
        store: &Store,
        oracle: &Arc<Mutex<Oracle>>,
        seed: u64,
        transactions: u64,
    ) -> Result<(), String> {
        let tables = Tables::find(store)?;
        let mut seeds = Rng::new(seed ^ 0xba2c);
        let failure = Arc::new(Mutex::new(None));
        let clients: Vec<_> = (0..self.clients)
            .map(|id| {
                let client = client::Client {
                    store: store.clone(),
                    tables,
                    oracle: oracle.clone(),
                    rng: Rng::new(seeds.next_u64()),
                    id,
                    accounts: self.accounts,
                    long: self.long,
                };
                let failure = failure.clone();
                spawn(&format!("bank client {id}"), move || {
                    if let Err(error) = client.run(transactions) {
                        failure.lock().get_or_insert(format!("bank client {id}: {error}"));
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join());
        let failure = failure.lock().take();
        failure.map_or(Ok(()), Err)
    }

    fn verify(&self, store: &Store, oracle: &mut Oracle) -> Result<(), String> {
        check::verify(store, Tables::find(store)?, oracle, i64::from(self.accounts) * OPENING)
    }
}
