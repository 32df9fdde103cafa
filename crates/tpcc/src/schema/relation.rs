//! A table with its key and row types.
//!
//! Invariant: a stored key or row of a relation has exactly the bytes of its type. Any other size is reported
//! as damage, with the table's name and the sizes.

use crate::error::TpccError;
use entresol_store::{Direction, Lock, Store, StoreError, Table, Txn};
use std::fmt::Debug;
use std::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A type that can be stored as a key or a row: fixed size, no padding, any alignment.
pub trait Record:
    FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy + Debug + 'static
{
}
impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy + Debug + 'static> Record for T {}

/// A table of the store with rows of type `R` and keys of type `K`, in the order of the keys' bytes.
pub struct Relation<K, R> {
    table: Table,
    name: &'static str,
    marker: PhantomData<fn(K) -> R>,
}

impl<K, R> Clone for Relation<K, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, R> Copy for Relation<K, R> {}

impl<K: Record, R: Record> Relation<K, R> {
    /// Creates the table.
    pub(crate) fn create(store: &Store, name: &'static str) -> Result<Self, TpccError> {
        Ok(Self { table: store.create_table(name)?, name, marker: PhantomData })
    }

    /// Finds the table.
    pub(crate) fn open(store: &Store, name: &'static str) -> Result<Self, TpccError> {
        let table = store.table(name)?.ok_or(TpccError::NotLoaded { table: name })?;
        Ok(Self { table, name, marker: PhantomData })
    }

    /// The table's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The store's table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// Reads the row of `key` into `buffer`, where it can be read or changed and then passed to
    /// [`Relation::update`]. `None` if there is none.
    pub fn get<'b>(
        &self,
        txn: &mut Txn,
        key: &K,
        lock: Lock,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<&'b mut R>, TpccError> {
        if !txn.get(self.table, key.as_bytes(), lock, buffer)? {
            return Ok(None);
        }
        let found = buffer.len();
        match R::mut_from_bytes(buffer) {
            Ok(row) => Ok(Some(row)),
            Err(_) => Err(self.damaged("row", size_of::<R>(), found)),
        }
    }

    /// As [`Relation::get`], but a missing row is an error that names the key.
    pub fn require<'b>(
        &self,
        txn: &mut Txn,
        key: &K,
        lock: Lock,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b mut R, TpccError> {
        self.get(txn, key, lock, buffer)?.ok_or_else(|| self.missing(key))
    }

    /// Adds a row. If the key exists, that is an error that names it.
    pub fn insert(&self, txn: &mut Txn, key: &K, row: &R) -> Result<(), TpccError> {
        match txn.insert(self.table, key.as_bytes(), row.as_bytes()) {
            Err(StoreError::DuplicateKey) => {
                Err(TpccError::DuplicateRow { table: self.name, key: format!("{key:?}") })
            }
            result => Ok(result?),
        }
    }

    /// Replaces the row of `key`, which must exist.
    pub fn update(&self, txn: &mut Txn, key: &K, row: &R) -> Result<(), TpccError> {
        if txn.update(self.table, key.as_bytes(), row.as_bytes())? { Ok(()) } else { Err(self.missing(key)) }
    }

    /// Removes the row of `key`; false if there is none.
    pub fn delete(&self, txn: &mut Txn, key: &K) -> Result<bool, TpccError> {
        Ok(txn.delete(self.table, key.as_bytes())?)
    }

    /// Calls `visit` for the rows with `from <= key < to` in the direction's order, until it returns false.
    pub fn scan(
        &self,
        txn: &mut Txn,
        from: &K,
        to: &K,
        direction: Direction,
        lock: Lock,
        mut visit: impl FnMut(&K, &R) -> bool,
    ) -> Result<(), TpccError> {
        let mut damage = None;
        txn.scan(self.table, from.as_bytes(), to.as_bytes(), direction, lock, &mut |key, row| match (
            K::ref_from_bytes(key),
            R::ref_from_bytes(row),
        ) {
            (Ok(key), Ok(row)) => visit(key, row),
            (Err(_), _) => {
                damage = Some(self.damaged("key", size_of::<K>(), key.len()));
                false
            }
            (_, Err(_)) => {
                damage = Some(self.damaged("row", size_of::<R>(), row.len()));
                false
            }
        })?;
        damage.map_or(Ok(()), Err)
    }

    fn missing(&self, key: &K) -> TpccError {
        TpccError::MissingRow { table: self.name, key: format!("{key:?}") }
    }

    fn damaged(&self, what: &'static str, expected: usize, found: usize) -> TpccError {
        TpccError::DamagedRow { table: self.name, what, expected, found }
    }
}
