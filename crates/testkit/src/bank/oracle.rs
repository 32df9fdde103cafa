//! The bank's oracle: the results acknowledged to clients, kept outside of the store.
//!
//! Invariant: `rows` are the result of all acknowledged transactions, in the order in which their locks were
//! released. A deed in flight has logged its commit or is about to log it, and holds its locks. So no two
//! deeds in flight have a row in common, and no other transaction has changed their rows since.

use std::collections::BTreeMap;

/// Names a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An account.
    Account(u32),
    /// An item.
    Item(u32),
    /// The marker of a client's transaction.
    Marker {
        /// The client.
        client: u32,
        /// The transaction's number, counted from 0.
        number: u32,
    },
}

impl Key {
    pub(crate) fn number(self) -> u32 {
        match self {
            Key::Account(number) | Key::Item(number) | Key::Marker { number, .. } => number,
        }
    }

    /// The key in its table, of four or eight bytes.
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Key::Account(number) | Key::Item(number) => number.to_be_bytes().to_vec(),
            Key::Marker { client, number } => [client.to_be_bytes(), number.to_be_bytes()].concat(),
        }
    }
}

/// A row's content. The key and this content determine all bytes of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Balance of an account; 0 otherwise.
    pub balance: i64,
    /// Unique for each write.
    pub stamp: u64,
}

/// Maximum length of a row's filling, in bytes.
const FILLING_MAX: u64 = 900;

impl Row {
    /// The row's bytes. The length changes with each write, so leaves split and become empty.
    pub(crate) fn bytes(&self, key: Key) -> Vec<u8> {
        let mut bytes = [self.balance.to_le_bytes(), self.stamp.to_le_bytes()].concat();
        if !matches!(key, Key::Marker { .. }) {
            let scattered = self.stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let length = (scattered * FILLING_MAX) >> 32;
            let filling = (0..length).map(|at| (scattered >> (at % 4 * 8)) as u8 ^ at as u8);
            bytes.extend(filling);
        }
        bytes
    }

    /// The balance in a row's bytes.
    pub(crate) fn balance_of(bytes: &[u8]) -> i64 {
        bytes.first_chunk().map_or(i64::MIN, |balance| i64::from_le_bytes(*balance))
    }
}

/// The writes of one transaction, if it commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// The writes in order, among them the marker; `None`: deleted.
    pub writes: Vec<(Key, Option<Row>)>,
}

/// See the module's header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oracle {
    /// Rows of acknowledged transactions.
    pub rows: BTreeMap<Key, Row>,
    /// The deed that each client is committing.
    pub in_flight: Vec<Option<Deed>>,
    /// Number of transactions that each client has committed.
    pub commits: Vec<u32>,
    /// Number of commits in flight at a crash that had happened.
    pub found_committed: u64,
    /// Number of commits in flight at a crash that had not happened.
    pub found_undone: u64,
}

impl Oracle {
    pub(crate) fn new(clients: u32) -> Self {
        let clients = clients as usize;
        Self { in_flight: vec![None; clients], commits: vec![0; clients], ..Self::default() }
    }

    /// The marker of the client's next transaction.
    pub(crate) fn next_marker(&self, client: u32) -> Key {
        Key::Marker { client, number: self.commits[client as usize] }
    }

    /// The client is about to commit.
    pub(crate) fn begin(&mut self, client: u32, deed: Deed) {
        self.in_flight[client as usize] = Some(deed);
    }

    /// The client's commit has been acknowledged, or is known to have happened.
    pub(crate) fn acknowledge(&mut self, client: u32) {
        let deed = self.in_flight[client as usize].take().expect("the client was committing");
        self.commits[client as usize] += 1;
        for (key, row) in deed.writes {
            match row {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
    }

    /// Resolves the commits in flight after a restart: a commit has happened if `is_there` finds its marker.
    pub(crate) fn resolve(&mut self, is_there: impl Fn(Key) -> bool) {
        for client in 0..self.in_flight.len() as u32 {
            if self.in_flight[client as usize].is_none() {
                continue;
            }
            if is_there(self.next_marker(client)) {
                self.acknowledge(client);
                self.found_committed += 1;
            } else {
                self.in_flight[client as usize] = None;
                self.found_undone += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_in_flight_counts_as_a_whole_or_not_at_all() {
        let row = Row { balance: 5, stamp: 9 };
        let marker = Key::Marker { client: 0, number: 0 };
        let deed = Deed { writes: vec![(Key::Account(1), Some(row)), (marker, Some(row))] };
        let mut before = Oracle::new(1);
        before.begin(0, deed);
        let mut happened = before.clone();
        happened.resolve(|key| key == marker);
        assert_eq!(happened.rows.len(), 2);
        assert_eq!((happened.commits[0], happened.found_committed), (1, 1));
        let mut undone = before;
        undone.resolve(|_| false);
        assert!(undone.rows.is_empty());
        assert_eq!((undone.commits[0], undone.found_undone), (0, 1));
    }

    #[test]
    fn every_write_of_a_row_has_other_bytes() {
        let key = Key::Item(3);
        let rows: Vec<_> = (0..200).map(|stamp| Row { balance: 0, stamp }.bytes(key)).collect();
        assert!(rows.iter().any(|row| row.len() < 100) && rows.iter().any(|row| row.len() > 800));
        assert!((1..rows.len()).all(|at| rows[at] != rows[at - 1]));
    }
}
