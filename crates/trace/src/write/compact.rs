//! Writing Entresol's own format (docs/TRACES.md).

use crate::compact::{
    BlockHeader, HAS_TIMES, Header, ITEMS_MAX, Kind, MAGIC, RAW_BYTES_MAX, VERSION, put_varint, zigzag,
};
use crate::{Op, RelationId, Trace};
use std::io::{self, Write};
use zerocopy::IntoBytes;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 1000;

/// Writes a trace.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let relations = trace.relations.as_ref();
    let mut header = Header {
        magic: MAGIC,
        version: VERSION.into(),
        flags: (if trace.has_times() { HAS_TIMES } else { 0 }).into(),
        page_bytes: trace.page_bytes.into(),
        requests: (trace.requests.len() as u64).into(),
        pages: (trace.pages.len() as u64).into(),
        relations: (relations.map_or(0, |relations| relations.len()) as u32).into(),
        crc: 0.into(),
    };
    header.crc = header.expected_crc().into();
    out.write_all(header.as_bytes())?;

    let mut block = Block { out, raw: Vec::new(), items: 0, kind: Kind::Names };
    let names = relations.map_or(&[][..], |relations| relations.names());
    for name in std::iter::once(&trace.name).chain(names) {
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        put_varint(&mut block.raw, name.len() as u64);
        block.raw.extend(name.as_bytes());
        block.added()?;
    }
    block.finish(Kind::Pages)?;
    let mut last = 0;
    for (dense, &page) in trace.pages.iter().enumerate() {
        put_varint(&mut block.raw, zigzag(last, page));
        last = page;
        if let Some(relations) = relations {
            let RelationId(relation) = relations.of(dense as u32);
            put_varint(&mut block.raw, u64::from(relation));
        }
        block.added()?;
    }
    let mut last_us = 0;
    for (index, requests) in trace.requests.chunks(ITEMS_MAX).enumerate() {
        block.finish(Kind::Requests)?;
        for request in requests {
            let op = match request.op() {
                Op::Read => 0,
                Op::Write => 1,
                Op::Dirty => 2,
            };
            let bits = u64::from(request.page()) << 3 | u64::from(request.continues()) << 2 | op;
            put_varint(&mut block.raw, bits);
            block.items += 1;
        }
        if trace.has_times() {
            block.finish(Kind::Times)?;
            for &time_us in &trace.times_us[index * ITEMS_MAX..][..requests.len()] {
                put_varint(&mut block.raw, time_us - last_us);
                last_us = time_us;
                block.items += 1;
            }
        }
    }
    block.finish(Kind::Requests)
}

struct Block<'o, W> {
    out: &'o mut W,
    kind: Kind,
    raw: Vec<u8>,
    items: usize,
}

impl<W: Write> Block<'_, W> {
    /// Counts an item, and writes the block when it is full.
    fn added(&mut self) -> io::Result<()> {
        self.items += 1;
        let full = self.items == ITEMS_MAX || self.raw.len() > RAW_BYTES_MAX - 2 * NAME_BYTES_MAX;
        if full { self.finish(self.kind) } else { Ok(()) }
    }

    /// Writes what there is, and begins a block of kind `next`.
    fn finish(&mut self, next: Kind) -> io::Result<()> {
        if self.items > 0 {
            let packed = zstd::bulk::compress(&self.raw, super::ZSTD_LEVEL)?;
            let mut header = BlockHeader {
                kind: (self.kind as u32).into(),
                items: (self.items as u32).into(),
                raw_bytes: (self.raw.len() as u32).into(),
                packed_bytes: (packed.len() as u32).into(),
                crc: 0.into(),
            };
            header.crc = header.expected_crc(&packed).into();
            self.out.write_all(header.as_bytes())?;
            self.out.write_all(&packed)?;
        }
        self.raw.clear();
        self.items = 0;
        self.kind = next;
        Ok(())
    }
}
