//! Reading Entresol's own format (docs/TRACES.md). Only content with a checksum is used.

use crate::builder::Built;
pub(super) use crate::compact::MAGIC;
use crate::compact::{
    BlockHeader, HAS_TIMES, Header, ITEMS_MAX, Kind, RAW_BYTES_MAX, VERSION, take_varint, unzigzag,
};
use crate::input::Input;
use crate::numbering::Numbering;
use crate::{Op, Place, ReadOptions, Relations, Request, Sample, Trace, TraceBuilder, TraceError};
use entresol_core::PageId;
use zerocopy::{FromZeros, IntoBytes};

/// Reads a trace, or samples of it.
pub(super) fn read(input: &mut Input<'_>, options: &ReadOptions) -> Result<Built, TraceError> {
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
    if options.samples.is_empty() {
        reader.pages(&header, &mut trace, names)?;
        reader.requests(&header, &mut trace)?;
        reader.end()?;
        return Ok(Built::Whole(trace));
    }
    let drawn = reader.drawn_pages(&header, &names, &options.samples)?;
    let mut builder = TraceBuilder::new(&trace.name, page_bytes).sampled(&options.samples);
    builder.start_at(0);
    reader.sample_requests(&header, &mut builder)?;
    reader.end()?;
    let Built::Samples(mut samples, records) = builder.finish_any(str::to_owned) else {
        unreachable!("samples were asked for")
    };
    for (sample, drawn) in samples.iter_mut().zip(drawn) {
        let Drawn { pages, of_page } = drawn;
        debug_assert_eq!(sample.trace.pages.len(), pages.len(), "every page is named by a request");
        sample.trace.pages = pages;
        sample.trace.relations = (!names.is_empty()).then(|| Relations::new(of_page, names.clone()));
    }
    Ok(Built::Samples(samples, records))
}

/// The pages of a sample in dense order, and their relations if there are any.
#[derive(Default)]
struct Drawn {
    pages: Vec<u64>,
    of_page: Vec<u16>,
}

/// How far requests have been read.
struct UnderWay {
    /// Remaining requests.
    left: u64,
    /// Different pages so far.
    seen: u64,
    time_us: u64,
}

impl UnderWay {
    fn new(header: &Header) -> Self {
        Self { left: header.requests.get(), seen: 0, time_us: 0 }
    }
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
        self.each_page(header, names.len(), |reader, _, page, relation| {
            // The header has at most as many pages as can be numbered.
            if seen.number(PageId(page)).is_none_or(|(_, new)| !new) {
                return Err(reader.damaged(format!("page {page:#x} occurs twice in the list of pages")));
            }
            of_page.extend(relation);
            Ok(())
        })?;
        trace.pages = seen.into_pages();
        trace.relations = (!names.is_empty()).then(|| Relations::new(of_page, names));
        Ok(())
    }

    /// The pages of each sample; a page is drawn by its dense number.
    fn drawn_pages(
        &mut self,
        header: &Header,
        names: &[String],
        samples: &[Sample],
    ) -> Result<Vec<Drawn>, TraceError> {
        let mut drawn: Vec<Drawn> = samples.iter().map(|_| Drawn::default()).collect();
        self.each_page(header, names.len(), |_, dense, page, relation| {
            for (sample, drawn) in samples.iter().zip(&mut drawn) {
                if sample.holds(dense) {
                    drawn.pages.push(page);
                    drawn.of_page.extend(relation);
                }
            }
            Ok(())
        })?;
        Ok(drawn)
    }

    /// Gives each page with its dense number and its relation, if there are `relations`, to `each`.
    fn each_page(
        &mut self,
        header: &Header,
        relations: usize,
        mut each: impl FnMut(&Self, u64, u64, Option<u16>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let (mut last, mut dense) = (0, 0);
        let mut left = header.pages.get();
        while left > 0 {
            let (items, content) = self.block(Kind::Pages, left)?;
            let mut content = &content[..];
            for _ in 0..items {
                last = unzigzag(last, self.number(&mut content)?);
                let mut relation = None;
                if relations > 0 {
                    let number = self.number(&mut content)?;
                    if number >= relations as u64 {
                        return Err(self.damaged(format!("relation {number} of {relations}")));
                    }
                    relation = Some(number as u16);
                }
                each(self, dense, last, relation)?;
                dense += 1;
            }
            self.emptied(content)?;
            left -= items as u64;
        }
        Ok(())
    }

    fn requests(&mut self, header: &Header, trace: &mut Trace) -> Result<(), TraceError> {
        let mut under_way = UnderWay::new(header);
        while under_way.left > 0 {
            self.request_block(header, &mut under_way, &mut trace.requests, &mut trace.times_us)?;
        }
        self.all_seen(header, &under_way)
    }

    /// Gives all requests to `builder`, which knows pages by their dense numbers.
    fn sample_requests(&mut self, header: &Header, builder: &mut TraceBuilder) -> Result<(), TraceError> {
        let mut under_way = UnderWay::new(header);
        let (mut requests, mut times_us) = (Vec::new(), Vec::new());
        while under_way.left > 0 {
            requests.clear();
            times_us.clear();
            self.request_block(header, &mut under_way, &mut requests, &mut times_us)?;
            for (at, request) in requests.iter().enumerate() {
                let page = PageId(request.page().into());
                let added =
                    builder.record(page, request.op(), request.continues(), times_us.get(at).copied());
                added.map_err(|misfit| misfit.at(&self.name, Place::Byte(self.offset)))?;
            }
        }
        self.all_seen(header, &under_way)
    }

    fn all_seen(&self, header: &Header, under_way: &UnderWay) -> Result<(), TraceError> {
        match under_way.seen == header.pages.get() {
            true => Ok(()),
            false => {
                let seen = under_way.seen;
                Err(self.damaged(format!("only {seen} of {} pages are referenced", header.pages)))
            }
        }
    }

    /// Appends the next block of requests, and of their times if there are any.
    fn request_block(
        &mut self,
        header: &Header,
        under_way: &mut UnderWay,
        requests: &mut Vec<Request>,
        times_us: &mut Vec<u64>,
    ) -> Result<(), TraceError> {
        let UnderWay { left, seen, time_us } = under_way;
        let (items, content) = self.block(Kind::Requests, *left)?;
        let mut content = &content[..];
        for _ in 0..items {
            let bits = self.number(&mut content)?;
            let op = [Op::Read, Op::Write, Op::Dirty].get((bits & 3) as usize);
            // Pages are numbered in the order of their first appearance.
            let page = bits >> 3;
            let (Some(op), true) = (op, page <= *seen && page < header.pages.get()) else {
                return Err(self.damaged(format!("operation {} on page {page} is not possible", bits & 3)));
            };
            *seen = (*seen).max(page + 1);
            let request = Request::new(page as u32, *op);
            requests.push(if bits & 4 == 0 { request } else { request.continued() });
        }
        self.emptied(content)?;
        if header.flags.get() & HAS_TIMES != 0 {
            let (times, content) = self.block(Kind::Times, items as u64)?;
            let mut content = &content[..];
            if times != items {
                return Err(self.damaged(format!("{times} times for {items} requests")));
            }
            for _ in 0..items {
                *time_us = time_us.saturating_add(self.number(&mut content)?);
                times_us.push(*time_us);
            }
            self.emptied(content)?;
        }
        *left -= items as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<(), TraceError> {
        match self.input.fill(&mut [0], self.offset)? {
            0 => Ok(()),
            _ => Err(self.damaged("there are bytes after the end of the trace")),
        }
    }
}
