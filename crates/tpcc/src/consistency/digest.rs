//! A digest of a whole database: equal databases have equal digests.

use crate::database::Database;
use crate::error::TpccError;
use entresol_store::{Direction, Lock};

/// Longer and greater than any key.
const BEYOND_KEYS: [u8; 64] = [u8::MAX; 64];

/// Hash of every row of every table, in key order. Not cryptographic; the same on every machine.
pub fn digest(database: &Database) -> Result<u64, TpccError> {
    let mut hash = Hash(0x6a09_e667_f3bc_c908);
    let mut txn = database.store().begin();
    for (name, table) in database.tables().all() {
        hash.add(name.as_bytes());
        txn.scan(table, &[], &BEYOND_KEYS, Direction::Forward, Lock::None, &mut |key, row| {
            hash.add(key);
            hash.add(row);
            true
        })?;
    }
    txn.commit()?;
    Ok(hash.0)
}

struct Hash(u64);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}
