//! Writes that no sync has made durable yet, sector by sector.
//!
//! Invariant: versions stand in the order in which they were written; `newest` points to the last version of each sector.

use entresol_runtime::rng::Rng;
use std::collections::BTreeMap;

/// Smallest unit that survives a crash whole, in bytes.
pub(super) const SECTOR_BYTES: usize = 512;

/// Which unsynced writes a crash leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None of them.
    None,
    /// All of them.
    All,
    /// Each sector of each write or not, as the seed decides: torn writes, in any order.
    Seed(u64),
    /// Exactly those writes, whole, for which this holds `true`, in order of submission; further ones do not.
    Writes(Vec<bool>),
    /// Exactly those sectors of writes for which this holds `true`, in order of submission; further ones do not.
    Sectors(Vec<bool>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// (sector, write it belongs to).
    versions: Vec<(u64, u32)>,
    data: Vec<[u8; SECTOR_BYTES]>,
    newest: BTreeMap<u64, usize>,
    writes: u32,
}

impl Pending {
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (index, bytes) in data.as_chunks::<SECTOR_BYTES>().0.iter().enumerate() {
            let sector = offset / SECTOR_BYTES as u64 + index as u64;
            self.newest.insert(sector, self.versions.len());
            self.versions.push((sector, self.writes));
            self.data.push(*bytes);
        }
        self.writes += 1;
    }

    /// Lays the pending sectors over what was read from the durable image.
    pub fn overlay(&self, offset: u64, buffer: &mut [u8]) {
        if self.newest.is_empty() {
            return;
        }
        let first = offset / SECTOR_BYTES as u64;
        let end = first + (buffer.len() / SECTOR_BYTES) as u64;
        for (sector, &version) in self.newest.range(first..end) {
            let at = (sector - first) as usize * SECTOR_BYTES;
            buffer[at..at + SECTOR_BYTES].copy_from_slice(&self.data[version]);
        }
    }

    /// Forgets what was written to the range.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let (first, end) = (offset / SECTOR_BYTES as u64, (offset + length) / SECTOR_BYTES as u64);
        if self.newest.range(first..end).next().is_none() {
            return;
        }
        let mut kept = Pending { writes: self.writes, ..Pending::default() };
        for (&(sector, write), data) in self.versions.iter().zip(&self.data) {
            if !(first..end).contains(&sector) {
                kept.newest.insert(sector, kept.versions.len());
                kept.versions.push((sector, write));
                kept.data.push(*data);
            }
        }
        *self = kept;
    }

    /// Calls `each` with the offset and newest content of every pending sector, and forgets them.
    pub fn drain(&mut self, mut each: impl FnMut(u64, &[u8])) {
        for (&sector, &version) in &self.newest {
            each(sector * SECTOR_BYTES as u64, &self.data[version]);
        }
        self.clear();
    }

    pub fn clear(&mut self) {
        self.versions.clear();
        self.data.clear();
        self.newest.clear();
        self.writes = 0;
    }

    /// Number of writes, and of their sectors.
    pub fn len(&self) -> (usize, usize) {
        (self.writes as usize, self.versions.len())
    }

    /// Calls `each` with the offset and content of what survives a crash, older versions first.
    pub fn survivors(&self, survival: &Survival, mut each: impl FnMut(u64, &[u8])) {
        let mut rng = Rng::new(if let Survival::Seed(seed) = survival { *seed } else { 0 });
        for (index, (&(sector, write), data)) in self.versions.iter().zip(&self.data).enumerate() {
            let survives = match survival {
                Survival::None => false,
                Survival::All => true,
                Survival::Seed(_) => rng.next_u64() & 1 == 1,
                Survival::Writes(chosen) => chosen.get(write as usize).copied().unwrap_or(false),
                Survival::Sectors(chosen) => chosen.get(index).copied().unwrap_or(false),
            };
            if survives {
                each(sector * SECTOR_BYTES as u64, data);
            }
        }
    }
}
