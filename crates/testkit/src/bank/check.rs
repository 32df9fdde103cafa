//! Compares all rows of the store with the oracle.

use super::Tables;
use super::oracle::{Key, Oracle, Row};
use entresol_store::{Direction, Lock, Store, Table};
use std::collections::BTreeMap;

/// Maximum number of differences that are listed.
const LISTED: usize = 5;

pub(super) fn verify(store: &Store, tables: Tables, oracle: &mut Oracle, money: i64) -> Result<(), String> {
    let mut found = BTreeMap::new();
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes));
    rows(store, tables.accounts, |key| Key::Account(number(key)), &mut found)?;
    rows(store, tables.items, |key| Key::Item(number(key)), &mut found)?;
    let marker = |key: &[u8]| Key::Marker { client: number(key), number: number(&key[key.len() / 2..]) };
    rows(store, tables.markers, marker, &mut found)?;

    let in_flight = oracle.in_flight.clone();
    oracle.resolve(|marker| found.contains_key(&marker));
    let differences = differences(oracle, &found);
    if !differences.is_empty() {
        return Err(format!(
            "{} rows differ from what was committed: {}; in flight were {in_flight:?}",
            differences.len(),
            differences[..differences.len().min(LISTED)].join("; ")
        ));
    }
    let sum: i64 = found
        .iter()
        .filter(|(key, _)| matches!(key, Key::Account(_)))
        .map(|(_, row)| Row::balance_of(row))
        .sum();
    if sum == money { Ok(()) } else { Err(format!("the accounts hold {sum}, expected {money}")) }
}

fn rows(
    store: &Store,
    table: Table,
    key: impl Fn(&[u8]) -> Key,
    found: &mut BTreeMap<Key, Vec<u8>>,
) -> Result<(), String> {
    let mut twice = None;
    store
        .begin()
        .scan(table, &[], &[0xff; 16], Direction::Forward, Lock::None, &mut |bytes, value| {
            if found.insert(key(bytes), value.to_vec()).is_some() {
                twice = Some(key(bytes));
            }
            true
        })
        .map_err(|error| format!("reading all rows after the restart: {error}"))?;
    twice.map_or(Ok(()), |key| Err(format!("{key:?} is there twice")))
}

fn differences(oracle: &Oracle, found: &BTreeMap<Key, Vec<u8>>) -> Vec<String> {
    let mut differences = Vec::new();
    for (key, row) in &oracle.rows {
        match found.get(key) {
            None => differences.push(format!("{key:?} is lost, {row:?} expected")),
            Some(bytes) if *bytes != row.bytes(*key) => {
                let (balance, stamp) = (Row::balance_of(bytes), bytes.get(8..16));
                differences
                    .push(format!("{key:?}: balance {balance}, stamp {stamp:02x?} found, {row:?} expected"));
            }
            Some(_) => {}
        }
    }
    for key in found.keys().filter(|key| !oracle.rows.contains_key(key)) {
        differences.push(format!("{key:?} is there, though no committed transaction left it"));
    }
    differences
}
