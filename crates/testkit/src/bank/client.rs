//! One client of the bank.

use super::oracle::{Deed, Key, Oracle, Row};
use super::{OPENING, Tables};
use entresol_runtime::rng::Rng;
use entresol_runtime::sleep;
use entresol_store::{Direction, Lock, Store, StoreError, Txn};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Client {
    pub store: Store,
    pub tables: Tables,
    pub oracle: Arc<Mutex<Oracle>>,
    pub rng: Rng,
    pub id: u32,
    pub accounts: u32,
    pub long: u64,
}

/// Maximum number of items that a long transaction changes.
const LONG: u64 = 40;
/// Maximum number of consecutive retries of a transaction while no other client commits either. With hundreds
/// of clients on the smallest log, about a dozen transactions have room in the log at a time. One client may
/// therefore be the last of hundreds, but some client always makes progress.
const TRIES: u32 = 2000;
/// Upper bound of the random pause before a transaction is run again. It doubles up to eight times while no
/// client commits: a checkpoint that makes room in the log may take that long.
const PAUSE: u64 = 50_000;

/// Why a transaction stopped before its commit.
enum Stop {
    /// A deadlock, or no room in the log: the transaction must be run again.
    Again,
    /// No room on the disk. There may never be room again.
    Full,
    /// An error of the store.
    Wrong(String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Deadlock | StoreError::LogFull { .. } => Stop::Again,
            StoreError::DiskFull { .. } => Stop::Full,
            error => Stop::Wrong(error.to_string()),
        }
    }
}

impl From<String> for Stop {
    fn from(sentence: String) -> Self {
        Stop::Wrong(sentence)
    }
}

impl Client {
    /// Runs this number of transactions.
    pub(super) fn run(mut self, transactions: u64) -> Result<(), String> {
        let (mut done, mut tries, mut commits) = (0, 0, 0);
        while done < transactions {
            let mut txn = self.store.begin();
            match self.perform(&mut txn) {
                // About every seventh transaction aborts by choice.
                Ok(deed) if self.rng.below(if deed.writes.len() > 8 { 2 } else { 7 }) == 0 => {
                    txn.abort().map_err(|error| error.to_string())?
                }
                Ok(deed) => {
                    self.oracle.lock().begin(self.id, deed);
                    txn.commit().map_err(|error| format!("committing: {error}"))?;
                    self.oracle.lock().acknowledge(self.id);
                }
                Err(Stop::Again) => {
                    let now = self.store.metrics().commits;
                    tries = if now == commits { tries + 1 } else { 1 };
                    commits = now;
                    if tries > TRIES {
                        return Err(format!(
                            "nobody's transactions succeed: {TRIES} deadlocks and full logs in a row"
                        ));
                    }
                    txn.abort().map_err(|error| format!("aborting: {error}"))?;
                    let pause = PAUSE << (tries - 1).min(8);
                    sleep(Duration::from_nanos(1 + self.rng.below(pause)));
                    continue;
                }
                Err(Stop::Full) => txn.abort().map_err(|error| format!("aborting: {error}"))?,
                Err(Stop::Wrong(sentence)) => return Err(sentence),
            }
            (done, tries) = (done + 1, 0);
            match self.rng.below(40) {
                0 => self.checkpoint()?,
                1 => self.audit()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes a checkpoint. A log that is full because of a long transaction is no error.
    fn checkpoint(&self) -> Result<(), String> {
        match self.store.checkpoint() {
            Ok(_) | Err(StoreError::LogFull { .. }) => Ok(()),
            Err(error) => Err(format!("checkpoint: {error}")),
        }
    }

    /// Makes a transfer and changes some items, without the commit.
    fn perform(&mut self, txn: &mut Txn) -> Result<Deed, Stop> {
        let mut deed = Deed::default();
        let amount = self.rng.below(100) as i64;
        let (source, target) = (self.choose(), self.choose());
        self.pay(txn, &mut deed, source, -amount)?;
        self.pay(txn, &mut deed, target, amount)?;
        let items = if self.long > 0 && self.rng.below(self.long) == 0 { LONG } else { 4 };
        for _ in 0..self.rng.below(items) {
            self.change_item(txn, &mut deed)?;
        }
        let marker = self.oracle.lock().next_marker(self.id);
        let row = self.row(0);
        txn.insert(self.tables.markers, &marker.bytes(), &row.bytes(marker))?;
        deed.writes.push((marker, Some(row)));
        Ok(deed)
    }

    /// Low numbers are more frequent, so some pages are hot.
    fn choose(&mut self) -> u32 {
        let bound = u64::from(self.accounts);
        self.rng.below(bound).min(self.rng.below(bound)) as u32
    }

    fn row(&mut self, balance: i64) -> Row {
        Row { balance, stamp: self.rng.next_u64() }
    }

    /// Reads the row under a lock. A row must be found if it exists according to the oracle or was written by
    /// this transaction.
    fn read(&self, txn: &mut Txn, deed: &Deed, key: Key, lock: Lock) -> Result<Option<Row>, Stop> {
        let mut found = Vec::new();
        let there = txn.get(self.tables.of(key), &key.bytes(), lock, &mut found)?;
        let own = deed.writes.iter().rev().find(|(written, _)| *written == key);
        let expected = match own {
            Some((_, row)) => *row,
            None => self.oracle.lock().rows.get(&key).copied(),
        };
        if there.then_some(found) != expected.map(|row| row.bytes(key)) {
            return Err(Stop::Wrong(format!("{key:?} does not hold what was last committed: {expected:?}")));
        }
        Ok(expected)
    }

    fn pay(&mut self, txn: &mut Txn, deed: &mut Deed, account: u32, amount: i64) -> Result<(), Stop> {
        let key = Key::Account(account);
        // An occasional shared lock first causes deadlocks.
        let lock = if self.rng.below(4) == 0 { Lock::Shared } else { Lock::Exclusive };
        let found = self.read(txn, deed, key, lock)?.ok_or_else(|| format!("{key:?} does not exist"))?;
        let row = self.row(found.balance + amount);
        if !txn.update(self.tables.accounts, &key.bytes(), &row.bytes(key))? {
            return Err(Stop::Wrong(format!("{key:?} has gone while it was locked")));
        }
        deed.writes.push((key, Some(row)));
        Ok(())
    }

    fn change_item(&mut self, txn: &mut Txn, deed: &mut Deed) -> Result<(), Stop> {
        let key = Key::Item(self.choose());
        let (table, name) = (self.tables.items, key.bytes());
        let exists = self.read(txn, deed, key, Lock::Exclusive)?.is_some();
        let row = self.row(0);
        let (done, left) = match (exists, self.rng.below(2)) {
            (false, _) => {
                txn.insert(table, &name, &row.bytes(key))?;
                (true, Some(row))
            }
            (true, 0) => (txn.update(table, &name, &row.bytes(key))?, Some(row)),
            (true, _) => (txn.delete(table, &name)?, None),
        };
        if !done {
            return Err(Stop::Wrong(format!("{key:?} has gone while it was locked")));
        }
        deed.writes.push((key, left));
        Ok(())
    }

    /// Reads all accounts under shared locks. No transfer may be half visible.
    fn audit(&mut self) -> Result<(), String> {
        let direction = if self.rng.below(2) == 0 { Direction::Forward } else { Direction::Backward };
        let mut txn = self.store.begin();
        let (mut sum, mut count) = (0, 0);
        let result = txn.scan(self.tables.accounts, &[], &[0xff], direction, Lock::Shared, &mut |_, row| {
            sum += Row::balance_of(row);
            count += 1;
            true
        });
        txn.abort().map_err(|error| error.to_string())?;
        let expected = (self.accounts, i64::from(self.accounts) * OPENING);
        match result {
            Ok(()) if (count, sum) == expected => Ok(()),
            Ok(()) => {
                Err(format!("an audit found {:?} accounts and money, expected {expected:?}", (count, sum)))
            }
            Err(StoreError::Deadlock) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
