//! Relations' forks: the names of the cache's objects, and the paths of their files.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | database |
//! | 4..8 | tablespace |
//! | 8..12 | relation |
//! | 12..16 | fork |
//! | 16..24 | zero |
//!
//! All are unsigned, little-endian. The database is first: the beginning of the name names all of it. (Paths:
//! `common/relpath.c` and `storage/smgr/md.c` of PostgreSQL 17.)

use crate::types::EntFork;
use entresol_objects::{LOCATOR_BYTES, Locator};
use std::path::{Path, PathBuf};

/// Blocks of a file; a longer fork has several.
pub(crate) const SEGMENT_BLOCKS: u32 = 131_072;

/// Bytes at the beginning of a locator that name the database.
pub(crate) const DATABASE_BYTES: usize = 4;

/// `pg_default`: the folder `base`.
const DEFAULT_TABLESPACE: u32 = 1663;
/// `pg_global`: the folder `global`.
const GLOBAL_TABLESPACE: u32 = 1664;

/// The name of a fork's object.
pub(crate) fn locator_of(fork: &EntFork) -> Locator {
    let mut locator = [0; LOCATOR_BYTES];
    let words = [fork.database, fork.tablespace, fork.relation, fork.fork];
    for (bytes, word) in locator.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    locator
}

/// The fork that an object is called by.
pub(crate) fn fork_of(locator: &Locator) -> EntFork {
    let word = |at: usize| u32::from_le_bytes(locator.as_chunks::<4>().0[at]);
    EntFork { database: word(0), tablespace: word(1), relation: word(2), fork: word(3) }
}

/// Where the files of a cluster are.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// The cluster's folder.
    pub data: PathBuf,
    /// Folder of this PostgreSQL version in tablespaces.
    pub version: String,
}

impl Folders {
    /// The folder of a tablespace with the databases' folders in it. It is there as long as the tablespace.
    pub fn tablespace(&self, tablespace: u32) -> PathBuf {
        match tablespace {
            DEFAULT_TABLESPACE => self.data.join("base"),
            GLOBAL_TABLESPACE => self.data.join("global"),
            _ => self.data.join("pg_tblspc").join(tablespace.to_string()).join(&self.version),
        }
    }

    /// The file of a fork's block.
    pub fn file(&self, fork: &EntFork, block: u32) -> PathBuf {
        let suffix = match fork.fork {
            0 => "",
            1 => "_fsm",
            2 => "_vm",
            _ => "_init",
        };
        let segment = block / SEGMENT_BLOCKS;
        let mut name = format!("{}{suffix}", fork.relation);
        if segment > 0 {
            name = format!("{name}.{segment}");
        }
        let folder = self.tablespace(fork.tablespace);
        match fork.tablespace {
            GLOBAL_TABLESPACE => folder.join(name),
            _ => folder.join(fork.database.to_string()).join(name),
        }
    }

    /// The folder with the write-ahead log.
    pub fn wal(&self) -> PathBuf {
        Path::new(&self.data).join("pg_wal")
    }

    /// The folder with what binds the cluster to its flash.
    pub fn binding(&self) -> PathBuf {
        Path::new(&self.data).join("entresol")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locator_is_read_back() {
        let fork = EntFork { tablespace: 1663, database: 0x0102_0304, relation: u32::MAX, fork: 2 };
        assert_eq!(fork_of(&locator_of(&fork)), fork);
        assert_eq!(locator_of(&fork)[..DATABASE_BYTES], [4, 3, 2, 1]);
    }

    #[test]
    fn files_are_where_postgresql_has_them() {
        let folders = Folders { data: "/d".into(), version: "PG_17_202406281".into() };
        let fork = |tablespace, fork| EntFork { tablespace, database: 5, relation: 16384, fork };
        let file = |fork: EntFork, block| folders.file(&fork, block).display().to_string();
        assert_eq!(file(fork(1663, 0), 0), "/d/base/5/16384");
        assert_eq!(file(fork(1663, 1), SEGMENT_BLOCKS - 1), "/d/base/5/16384_fsm");
        assert_eq!(file(fork(1663, 0), 2 * SEGMENT_BLOCKS + 7), "/d/base/5/16384.2");
        assert_eq!(file(EntFork { database: 0, ..fork(1664, 2) }, 0), "/d/global/16384_vm");
        assert_eq!(file(fork(16400, 2), SEGMENT_BLOCKS), "/d/pg_tblspc/16400/PG_17_202406281/5/16384_vm.1");
    }
}
