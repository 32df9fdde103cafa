//! Writes that no sync has made durable yet.
//!
//! Invariant: pieces stand in the order in which they were written, so that carrying them out in order gives what a read
//! must see. A write is one piece, or several where a discard took sectors out of it. A copy shares their bytes.

use entresol_runtime::rng::Rng;
use std::ops::Range;
use std::sync::Arc;

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

/// Adjacent sectors of one write.
#[derive(Clone, Debug)]
struct Piece {
    /// In bytes.
    offset: u64,
    bytes: Arc<[u8]>,
    /// The part of `bytes` that counts; whole sectors.
    part: Range<usize>,
    /// The write it belongs to, counted since the last sync.
    write: u32,
}

impl Piece {
    fn data(&self) -> &[u8] {
        &self.bytes[self.part.clone()]
    }

    fn end(&self) -> u64 {
        self.offset + self.part.len() as u64
    }

    /// Without what lies in `offset .. end`: nothing, one piece or two.
    fn without(self, offset: u64, end: u64) -> impl Iterator<Item = Piece> {
        let keep = |from: u64, to: u64| {
            let (from, to) = (from.max(self.offset), to.min(self.end()));
            (from < to).then(|| {
                let start = self.part.start + (from - self.offset) as usize;
                Piece { offset: from, part: start..start + (to - from) as usize, ..self.clone() }
            })
        };
        [keep(0, offset), keep(end, u64::MAX)].into_iter().flatten()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    pieces: Vec<Piece>,
    writes: u32,
}

impl Pending {
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.pieces.push(Piece { offset, bytes: data.into(), part: 0..data.len(), write: self.writes });
        self.writes += 1;
    }

    /// Lays the pending writes over what was read from the durable image.
    pub fn overlay(&self, offset: u64, buffer: &mut [u8]) {
        let end = offset + buffer.len() as u64;
        for piece in &self.pieces {
            let (from, to) = (piece.offset.max(offset), piece.end().min(end));
            if from < to {
                let source = &piece.data()[(from - piece.offset) as usize..(to - piece.offset) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
            }
        }
    }

    /// Forgets what was written to the range.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        if self.pieces.iter().any(|piece| piece.offset < end && offset < piece.end()) {
            let pieces = std::mem::take(&mut self.pieces);
            self.pieces = pieces.into_iter().flat_map(|piece| piece.without(offset, end)).collect();
        }
    }

    /// Calls `each` with the offset and content of every pending write in order, and forgets them.
    pub fn drain(&mut self, mut each: impl FnMut(u64, &[u8])) {
        self.pieces.iter().for_each(|piece| each(piece.offset, piece.data()));
        self.clear();
    }

    pub fn clear(&mut self) {
        self.pieces.clear();
        self.writes = 0;
    }

    /// Number of writes, and of their sectors.
    pub fn len(&self) -> (usize, usize) {
        let bytes: usize = self.pieces.iter().map(|piece| piece.part.len()).sum();
        (self.writes as usize, bytes / SECTOR_BYTES)
    }

    /// Calls `each` with the offset and content of what survives a crash, older versions first.
    pub fn survivors(&self, survival: &Survival, mut each: impl FnMut(u64, &[u8])) {
        let mut rng = Rng::new(if let Survival::Seed(seed) = survival { *seed } else { 0 });
        let mut index = 0;
        for piece in &self.pieces {
            let data = piece.data();
            // Adjacent survivors at once.
            let mut run: Option<usize> = None;
            for start in (0..data.len()).step_by(SECTOR_BYTES) {
                let survives = match survival {
                    Survival::None => false,
                    Survival::All => true,
                    Survival::Seed(_) => rng.next_u64() & 1 == 1,
                    Survival::Writes(chosen) => chosen.get(piece.write as usize).copied().unwrap_or(false),
                    Survival::Sectors(chosen) => chosen.get(index).copied().unwrap_or(false),
                };
                index += 1;
                if survives {
                    run.get_or_insert(start);
                } else if let Some(from) = run.take() {
                    each(piece.offset + from as u64, &data[from..start]);
                }
            }
            if let Some(from) = run {
                each(piece.offset + from as u64, &data[from..]);
            }
        }
    }
}
