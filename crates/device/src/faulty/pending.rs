//! Writes that no sync has made durable yet.
//!
//! Invariant: pieces are kept in the order of the writes, so that applying them in order gives the content
//! for a read. A write is one piece, or several if a discard removed sectors of it. A copy shares the bytes.

use entresol_runtime::rng::Rng;
use std::ops::Range;
use std::sync::Arc;

/// Smallest unit that survives a crash whole, in bytes.
pub(super) const SECTOR_BYTES: usize = 512;

/// The unsynced writes that survive a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None of them.
    None,
    /// All of them.
    All,
    /// Each sector of each write survives or not, as the seed decides: torn writes, in any order.
    Seed(u64),
    /// As [`Survival::Seed`], and some sectors become unreadable, as drives report sectors torn by a power
    /// cut. If the medium writes larger units than sectors, partly written units may become unreadable as a
    /// whole.
    Torn(u64),
    /// Exactly the writes, whole, for which this holds `true`, in order of submission. Further writes are
    /// lost.
    Writes(Vec<bool>),
    /// Exactly the sectors of writes for which this holds `true`, in order of submission. Further sectors are
    /// lost.
    Sectors(Vec<bool>),
}

/// Adjacent sectors of one write.
#[derive(Clone, Debug)]
struct Piece {
    /// In bytes.
    offset: u64,
    bytes: Arc<[u8]>,
    /// The part of `bytes` that is in use; whole sectors.
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

    /// The blocks of the medium that this piece covers in part.
    fn parts_of_blocks(&self, block: u64) -> impl Iterator<Item = Range<u64>> {
        let first = self.offset / block * block;
        let last = (self.end() - 1) / block * block;
        let in_part = move |start: &u64| *start < self.offset || self.end() < start + block;
        let ends = [Some(first), (last != first).then_some(last)];
        ends.into_iter().flatten().filter(in_part).map(move |start| start..start + block)
    }

    /// The piece without `offset .. end`: nothing, one piece or two.
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

    /// Copies the pending writes over the content read from the durable image.
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

    /// Forgets writes to the range.
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

    /// Whether a sector was written.
    pub fn covers(&self, offset: u64) -> bool {
        self.pieces.iter().any(|piece| piece.offset <= offset && offset < piece.end())
    }

    /// Takes over the pieces of `later`, which were written after all pieces of `self`.
    pub fn absorb(&mut self, later: &mut Pending) {
        for piece in later.pieces.drain(..) {
            self.pieces.push(Piece { write: self.writes + piece.write, ..piece });
        }
        self.writes += later.writes;
        later.clear();
    }

    pub fn clear(&mut self) {
        self.pieces.clear();
        self.writes = 0;
    }

    /// Number of writes, and of their sectors of `sector` bytes.
    pub fn len(&self, sector: usize) -> (usize, usize) {
        let bytes: usize = self.pieces.iter().map(|piece| piece.part.len()).sum();
        (self.writes as usize, bytes / sector)
    }

    /// Calls `each` with each survivor of a crash, older versions first.
    pub fn survivors(&self, survival: &Survival, sectors: Sectors, mut each: impl FnMut(Survivor<'_>)) {
        let mut rng = Rng::new(match survival {
            Survival::Seed(seed) | Survival::Torn(seed) => *seed,
            _ => 0,
        });
        let unit = sectors.sector as usize;
        let mut index = 0;
        for piece in &self.pieces {
            let data = piece.data();
            // Adjacent survivors are reported together.
            let mut run: Option<usize> = None;
            for start in (0..data.len()).step_by(unit) {
                let survives = match survival {
                    Survival::None => false,
                    Survival::All => true,
                    Survival::Seed(_) => rng.next_u64() & 1 == 1,
                    Survival::Torn(_) => match rng.below(8) {
                        0 => {
                            if let Some(from) = run.take() {
                                each(Survivor::New(piece.offset + from as u64, &data[from..start]));
                            }
                            let offset = piece.offset + start as u64;
                            each(Survivor::Unreadable(offset..offset + unit as u64));
                            false
                        }
                        fate => fate < 5,
                    },
                    Survival::Writes(chosen) => chosen.get(piece.write as usize).copied().unwrap_or(false),
                    Survival::Sectors(chosen) => chosen.get(index).copied().unwrap_or(false),
                };
                index += 1;
                if survives {
                    run.get_or_insert(start);
                } else if let Some(from) = run.take() {
                    each(Survivor::New(piece.offset + from as u64, &data[from..start]));
                }
            }
            if let Some(from) = run {
                each(Survivor::New(piece.offset + from as u64, &data[from..]));
            }
            if matches!(survival, Survival::Torn(_)) {
                for block in piece.parts_of_blocks(sectors.physical.into()) {
                    if rng.below(8) == 0 {
                        each(Survivor::Unreadable(block));
                    }
                }
            }
        }
    }
}

/// The remains of an unsynced write after a crash.
pub(super) enum Survivor<'a> {
    /// These bytes at this offset.
    New(u64, &'a [u8]),
    /// This range cannot be read.
    Unreadable(Range<u64>),
}

/// The units that a device writes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sectors {
    /// Written atomically.
    pub sector: u32,
    /// Written without effect on neighbours.
    pub physical: u32,
}
