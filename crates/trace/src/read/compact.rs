//! Reading Entresol's own format (docs/TRACES.md). Nothing is believed that a checksum does not cover.

pub(super) use crate::compact::MAGIC;
use crate::compact::{
    BlockHeader, HAS_TIMES, Header, ITEMS_MAX, Kind, RAW_BYTES_MAX, VERSION, take_varint, unzigzag,
};
use crate::input::Input;
use crate::numbering::Numbering;
use crate::{Op, Place, ReadOptions, Relations, Request, Trace, TraceError};
use entresol_core::PageId;
use zerocopy::{FromZeros, IntoBytes};

/// Reads a trace.
pub(super) fn read(input: &mut Input<'_>, options: &ReadOptions) -> Result<Trace, TraceError> {
    let mut reader = Reader { name: input.name().to_owned(), input, offset: 0 };
    let header = reader.header()?;
    let page_bytes = header.page_bytes.get();
    if options.page_bytes.is_some_and(|asked| asked != page_bytes) {
        return Err(TraceError::Option(format!(
            "{} has pages of {page_bytes} bytes, which cannot be split anew; leave the page size out",
            reader.name
        )));
    }
    let mut trace = Trace { page_bytes, ..Trace::default() };
    let names = reader.names(&header, &mut trace)?;
    reader.pages(&header, &mut trace, names)?;
    reader.requests(&header, &mut trace)?;
    reader.end()?;
    Ok(trace)
}

struct Reader<'i, 'a> {
    input: &'i mut Input<'a>,
    name: String,
    offset: u64,
}

impl Reader<'_, '_> {
    fn damaged(&self, reason: impl Into<String>) -> TraceError {
        let place = Place::Byte(self.offset);
        TraceError::Damaged { name: self.name.clone(), place, reason: reason.into() }
    }

    fn exact(&mut self, into: &mut [u8]) -> Result<(), TraceError> {
        let read = self.input.fill(into, self.offset)?;
        self.offset += read as u64;
        match read == into.len() {
            true => Ok(()),
            false => {
                let reason = format!("{} bytes are missing after byte {}", into.len() - read, self.offset);
                Err(TraceError::CutOff { name: self.name.clone(), reason })
            }
        }
    }

    fn header(&mut self) -> Result<Header, TraceError> {
        let mut header = Header::new_zeroed();
        self.exact(header.as_mut_bytes())?;
        self.offset = 0;
        if header.magic != MAGIC {
            return Err(self.damaged("the file does not begin as a trace of entresol's"));
        }
        if header.version.get() != VERSION {
            return Err(self.damaged(format!(
                "the trace has version {} and this program reads version {VERSION}; convert it with the program that wrote it",
                header.version
            )));
        }
        if header.crc.get() != header.expected_crc() {
            return Err(self.damaged("the header's checksum is wrong"));
        }
        if !header.page_bytes.get().is_power_of_two() || header.pages.get() >= u64::from(u32::MAX) {
            return Err(self.damaged(format!("{} pages of {} bytes", header.pages, header.page_bytes)));
        }
        if header.requests.get() == 0 {
            return Err(TraceError::Empty { name: self.name.clone(), detail: String::new() });
        }
        if header.relations.get() > 1 << 16 {
            return Err(self.damaged(format!("{} relations", header.relations)));
        }
        self.offset = size_of::<Header>() as u64;
        Ok(header)
    }

    /// The next block, which must be of this kind and have at least one and at most `items_max` items.
    fn block(&mut self, kind: Kind, items_max: u64) -> Result<(usize, Vec<u8>), TraceError> {
        let start = self.offset;
        let mut header = BlockHeader::new_zeroed();
        self.exact(header.as_mut_bytes())?;
        let (items, raw, packed) = (header.items.get(), header.raw_bytes.get(), header.packed_bytes.get());
        let mut bytes = Vec::new();
        // A compressed block may be a little longer than its content, never much.
        let possible = raw as usize <= RAW_BYTES_MAX && packed as usize <= RAW_BYTES_MAX + 1024;
        if possible {
            bytes.resize(packed as usize, 0);
            self.exact(&mut bytes)?;
        }
        self.offset = start;
        if !possible || header.crc.get() != header.expected_crc(&bytes) {
            return Err(self.damaged("the block's checksum is wrong"));
        }
        if header.kind.get() != kind as u32 {
            return Err(self.damaged(format!("expected a block of {kind:?}, found kind {}", header.kind)));
        }
        if items == 0 || u64::from(items) > items_max.min(ITEMS_MAX as u64) {
            return Err(self.damaged(format!("{items} {kind:?} in a block where {items_max} are left")));
        }
        let content = zstd::bulk::decompress(&bytes, raw as usize)
            .map_err(|error| self.damaged(format!("the block cannot be decompressed ({error})")))?;
        if content.len() != raw as usize {
            return Err(self.damaged(format!("expected {raw} decompressed bytes, found {}", content.len())));
        }
        self.offset = start + size_of::<BlockHeader>() as u64 + u64::from(packed);
        Ok((items as usize, content))
    }

    fn number(&self, content: &mut &[u8]) -> Result<u64, TraceError> {
        take_varint(content).ok_or_else(|| self.damaged("the block before ends within a number"))
    }

    fn emptied(&self, content: &[u8]) -> Result<(), TraceError> {
        match content.is_empty() {
            true => Ok(()),
            false => Err(self.damaged(format!("the block before has {} bytes too many", content.len()))),
        }
    }

    /// Reads the trace's name, and returns those of its relations.
    fn names(&mut self, header: &Header, trace: &mut Trace) -> Result<Vec<String>, TraceError> {
        let expected = u64::from(header.relations.get()) + 1;
        let (mut names, mut left) = (Vec::new(), expected);
        while left > 0 {
            let (items, content) = self.block(Kind::Names, left)?;
            let mut content = &content[..];
            for _ in 0..items {
                let length = self.number(&mut content)?;
                let name = usize::try_from(length).ok().and_then(|length| content.split_off(..length));
                let name = name.ok_or_else(|| self.damaged("the block before ends within a name"))?;
                let name = std::str::from_utf8(name).map_err(|_| self.damaged("a name is no text"))?;
                names.push(name.to_owned());
            }
            self.emptied(content)?;
            left -= items as u64;
        }
        trace.name = names.remove(0);
        Ok(names)
    }

    fn pages(&mut self, header: &Header, trace: &mut Trace, names: Vec<String>) -> Result<(), TraceError> {
        let mut of_page = Vec::new();
        let mut seen = Numbering::default();
        let mut last = 0;
        let mut left = header.pages.get();
        while left > 0 {
            let (items, content) = self.block(Kind::Pages, left)?;
            let mut content = &content[..];
            for _ in 0..items {
                last = unzigzag(last, self.number(&mut content)?);
                // The header has at most as many pages as can be numbered.
                if seen.number(PageId(last)).is_none_or(|(_, new)| !new) {
                    return Err(self.damaged(format!("page {last:#x} occurs twice in the list of pages")));
                }
                if !names.is_empty() {
                    let relation = self.number(&mut content)?;
                    if relation >= names.len() as u64 {
                        return Err(self.damaged(format!("relation {relation} of {}", names.len())));
                    }
                    of_page.push(relation as u16);
                }
            }
            self.emptied(content)?;
            left -= items as u64;
        }
        trace.pages = seen.into_pages();
        trace.relations = (!names.is_empty()).then(|| Relations::new(of_page, names));
        Ok(())
    }

    fn requests(&mut self, header: &Header, trace: &mut Trace) -> Result<(), TraceError> {
        let has_times = header.flags.get() & HAS_TIMES != 0;
        let (mut left, mut time_us, mut seen) = (header.requests.get(), 0_u64, 0_u64);
        while left > 0 {
            let (items, content) = self.block(Kind::Requests, left)?;
            let mut content = &content[..];
            for _ in 0..items {
                let bits = self.number(&mut content)?;
                let op = [Op::Read, Op::Write, Op::Dirty].get((bits & 3) as usize);
                // Pages are numbered in the order of their first appearance.
                let page = bits >> 3;
                let (Some(op), true) = (op, page <= seen && page < header.pages.get()) else {
                    return Err(
                        self.damaged(format!("operation {} on page {page} is not possible", bits & 3))
                    );
                };
                seen = seen.max(page + 1);
                let request = Request::new(page as u32, *op);
                trace.requests.push(if bits & 4 == 0 { request } else { request.continued() });
            }
            self.emptied(content)?;
            if has_times {
                let (times, content) = self.block(Kind::Times, items as u64)?;
                let mut content = &content[..];
                if times != items {
                    return Err(self.damaged(format!("{times} times for {items} requests")));
                }
                for _ in 0..items {
                    time_us = time_us.saturating_add(self.number(&mut content)?);
                    trace.times_us.push(time_us);
                }
                self.emptied(content)?;
            }
            left -= items as u64;
        }
        match seen == header.pages.get() {
            true => Ok(()),
            false => Err(self.damaged(format!("only {seen} of {} pages are referenced", header.pages))),
        }
    }

    fn end(&mut self) -> Result<(), TraceError> {
        match self.input.fill(&mut [0], self.offset)? {
            0 => Ok(()),
            _ => Err(self.damaged("there are bytes after the end of the trace")),
        }
    }
}
