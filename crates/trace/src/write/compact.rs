//! Writing Entresol's own format (docs/TRACES.md).

use crate::compact::{
    BlockHeader, HAS_TIMES, Header, ITEMS_MAX, Kind, MAGIC, RAW_BYTES_MAX, VERSION, put_varint, zigzag,
};
use crate::{Op, RelationId, Relations, Request, Trace};
use std::io::{self, Write};
use zerocopy::IntoBytes;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 1000;

/// The properties of a trace that precede its records.
#[derive(Clone, Copy)]
pub(crate) struct Head<'t> {
    pub name: &'t str,
    pub page_bytes: u32,
    pub requests: u64,
    pub has_times: bool,
    /// In dense order.
    pub pages: &'t [u64],
    pub relations: Option<&'t Relations>,
}

/// Writes a trace.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let head = Head {
        name: &trace.name,
        page_bytes: trace.page_bytes,
        requests: trace.requests.len() as u64,
        has_times: trace.has_times(),
        pages: &trace.pages,
        relations: trace.relations.as_ref(),
    };
    let mut writer = RecordWriter::begin(&head, out)?;
    for (at, request) in trace.requests.iter().enumerate() {
        writer.record(*request, trace.times_us.get(at).copied().unwrap_or(0))?;
    }
    writer.finish()
}

/// Writes a trace record by record.
pub(crate) struct RecordWriter<'o, W> {
    block: Block<'o, W>,
    has_times: bool,
    /// Of the block's requests, encoded.
    times: Vec<u8>,
    last_us: u64,
    /// Promised records that are still missing.
    left: u64,
}

impl<'o, W: Write> RecordWriter<'o, W> {
    /// Writes the head.
    pub fn begin(head: &Head<'_>, out: &'o mut W) -> io::Result<Self> {
        let mut header = Header {
            magic: MAGIC,
            version: VERSION.into(),
            flags: (if head.has_times { HAS_TIMES } else { 0 }).into(),
            page_bytes: head.page_bytes.into(),
            requests: head.requests.into(),
            pages: (head.pages.len() as u64).into(),
            relations: (head.relations.map_or(0, |relations| relations.len()) as u32).into(),
            crc: 0.into(),
        };
        header.crc = header.expected_crc().into();
        out.write_all(header.as_bytes())?;
        let mut block = Block { out, raw: Vec::new(), items: 0, kind: Kind::Names };
        block.names(head)?;
        block.pages(head)?;
        block.finish(Kind::Requests)?;
        Ok(Self { block, has_times: head.has_times, times: Vec::new(), last_us: 0, left: head.requests })
    }

    /// The next record, at `time_us` since the start of the trace, if records have times.
    #[inline]
    pub fn record(&mut self, request: Request, time_us: u64) -> io::Result<()> {
        let op = match request.op() {
            Op::Read => 0,
            Op::Write => 1,
            Op::Dirty => 2,
        };
        let bits = u64::from(request.page()) << 3 | u64::from(request.continues()) << 2 | op;
        put_varint(&mut self.block.raw, bits);
        if self.has_times {
            put_varint(&mut self.times, time_us - self.last_us);
            self.last_us = time_us;
        }
        self.block.items += 1;
        self.left -= 1;
        if self.block.items == ITEMS_MAX { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        let items = self.block.items;
        self.block.finish(Kind::Times)?;
        if self.has_times && items > 0 {
            std::mem::swap(&mut self.block.raw, &mut self.times);
            self.block.items = items;
        }
        self.block.finish(Kind::Requests)
    }

    /// Writes the rest.
    pub fn finish(mut self) -> io::Result<()> {
        debug_assert_eq!(self.left, 0, "as many records as were promised");
        self.end_block()
    }
}

struct Block<'o, W> {
    out: &'o mut W,
    kind: Kind,
    raw: Vec<u8>,
    items: usize,
}

impl<W: Write> Block<'_, W> {
    fn names(&mut self, head: &Head<'_>) -> io::Result<()> {
        let names = head.relations.map_or(&[][..], |relations| relations.names());
        for name in std::iter::once(head.name).chain(names.iter().map(String::as_str)) {
            let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
            put_varint(&mut self.raw, name.len() as u64);
            self.raw.extend(name.as_bytes());
            self.added()?;
        }
        self.finish(Kind::Pages)
    }

    fn pages(&mut self, head: &Head<'_>) -> io::Result<()> {
        let mut last = 0;
        for (dense, &page) in head.pages.iter().enumerate() {
            put_varint(&mut self.raw, zigzag(last, page));
            last = page;
            if let Some(relations) = head.relations {
                let RelationId(relation) = relations.of(dense as u32);
                put_varint(&mut self.raw, u64::from(relation));
            }
            self.added()?;
        }
        Ok(())
    }

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
