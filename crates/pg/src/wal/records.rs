//! Where records of the write-ahead log end: as much of its structure as that takes
//! (PostgreSQL's `access/xlogrecord.h`, `access/xlog_internal.h`, `xlogreader.c`).
//!
//! The log consists of pages of 8 KiB, each with a header. A record begins at a multiple of 8, with its
//! length (4 bytes). A record that does not fit continues after the header of the next page.
//!
//! The header of a page: magic (2 bytes), flags (2), timeline (4), address (8), remaining bytes of the record
//! that continues on this page (4), padding (4). The first header of a segment has 16 bytes more.

use super::segments::Segments;
use std::io;

/// Bytes of a page of the log.
const PAGE: u64 = 8192;
/// Bytes of its header, and of the first one in a segment.
const SHORT: u64 = 24;
const LONG: u64 = 40;
/// Bytes of a record's header.
const RECORD: u32 = 24;
/// Flag of a page: a record continues on it.
const GOES_ON: u16 = 0x0001;
/// Flag of a page: a crash cut off the record that should continue on it. That record is void.
const CUT_OFF: u16 = 0x0008;
/// The record that fills a segment up: resource manager 0, information 0x40.
pub(super) const SWITCH: (u8, u8) = (0, 0x40);

/// The end of the record before `lsn`: a place directly after the header of a page stands for the page.
pub(super) fn boundary(lsn: u64, segment_bytes: u64) -> u64 {
    let page = lsn - lsn % PAGE;
    if lsn == page + header_bytes(page, segment_bytes) { page } else { lsn }
}

fn header_bytes(page: u64, segment_bytes: u64) -> u64 {
    if page.is_multiple_of(segment_bytes) { LONG } else { SHORT }
}

/// A page's flags, and the remaining bytes of the record that continues on it.
struct Header {
    flags: u16,
    rest: u32,
}

/// Reads pages; the one that was read last is kept.
struct Pages<'a> {
    segments: &'a mut Segments,
    timeline: u32,
    /// Nothing from here on is read.
    limit: u64,
    page: u64,
    bytes: Vec<u8>,
}

/// Bytes read at once.
const CHUNK: u64 = 128 << 10;

impl Pages<'_> {
    /// `N` bytes at `at`. `None`: the limit is before their end.
    fn get<const N: usize>(&mut self, at: u64) -> io::Result<Option<[u8; N]>> {
        if at + N as u64 > self.limit {
            return Ok(None);
        }
        let end = self.page + self.bytes.len() as u64;
        if at < self.page || at + N as u64 > end {
            let first = at - at % PAGE;
            let length = (CHUNK - first % CHUNK).min(self.limit - first);
            self.bytes.resize(length as usize, 0);
            self.segments.read(self.timeline, first, &mut self.bytes)?;
            self.page = first;
        }
        let within = (at - self.page) as usize;
        Ok(self.bytes.get(within..within + N).and_then(|bytes| bytes.try_into().ok()))
    }

    fn header(&mut self, page: u64) -> io::Result<Option<Header>> {
        let Some(bytes) = self.get::<20>(page)? else { return Ok(None) };
        let address = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        if address != page {
            return Err(damaged(page, "the page has another address"));
        }
        let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
        Ok(Some(Header { flags, rest: u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")) }))
    }

    /// Bytes `from` to before `to` of a record's header, which may continue on the next page.
    fn in_record(&mut self, begins: u64, from: u64, to: u64) -> io::Result<Option<Vec<u8>>> {
        let mut found = Vec::with_capacity((to - from) as usize);
        for offset in from..to {
            let mut at = begins + offset;
            let page_end = begins - begins % PAGE + PAGE;
            if at >= page_end {
                at += header_bytes(page_end, self.segments.segment_bytes);
            }
            let Some([byte]) = self.get::<1>(at)? else { return Ok(None) };
            found.push(byte);
        }
        Ok(Some(found))
    }

    /// The end of the record after `from`, the end of another one. `None`: it is not complete before the
    /// limit.
    fn next_end(&mut self, from: u64) -> io::Result<Option<u64>> {
        let segment_bytes = self.segments.segment_bytes;
        let mut begins = from;
        'record: loop {
            if begins.is_multiple_of(PAGE) {
                let Some(_) = self.header(begins)? else { return Ok(None) };
                begins += header_bytes(begins, segment_bytes);
            }
            let Some(length) = self.get::<4>(begins)? else { return Ok(None) };
            let length = u32::from_le_bytes(length);
            if length < RECORD {
                return Err(damaged(begins, &format!("a record of {length} bytes")));
            }
            let (mut at, mut left) = (begins, u64::from(length));
            while left > PAGE - at % PAGE {
                left -= PAGE - at % PAGE;
                at += PAGE - at % PAGE;
                let Some(header) = self.header(at)? else { return Ok(None) };
                if header.flags & CUT_OFF != 0 {
                    begins = at;
                    continue 'record;
                }
                if header.flags & GOES_ON == 0 || u64::from(header.rest) != left {
                    return Err(damaged(at, "a record is not continued where it should be"));
                }
                at += header_bytes(at, segment_bytes);
            }
            let mut end = (at + left).next_multiple_of(8);
            if end > self.limit {
                return Ok(None);
            }
            let Some(kind) = self.in_record(begins, 16, 18)? else { return Ok(None) };
            if (kind[1], kind[0] & 0xf0) == SWITCH {
                end = end.next_multiple_of(segment_bytes);
            }
            return Ok((end <= self.limit).then_some(end));
        }
    }
}

fn damaged(at: u64, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} at {}", super::show(at)))
}

/// The end of the last record that is complete before `limit`, from `from` on, the end of another one.
pub(super) fn last_end(segments: &mut Segments, timeline: u32, from: u64, limit: u64) -> io::Result<u64> {
    let mut pages = Pages { segments, timeline, limit, page: 0, bytes: Vec::new() };
    let mut end = from;
    while let Some(next) = pages.next_end(end)? {
        end = next;
    }
    Ok(end)
}
