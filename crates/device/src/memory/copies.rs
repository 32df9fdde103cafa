//! A page encoded as copies of pieces of an image's pages, at any place in the page: for a log with page
//! images of a database, which shares these pieces with the database.
//!
//! Pieces are found by anchors: places chosen by their content alone (a rolling hash of the last 64 bytes).
//! So the same string has its anchors at the same places in image and page, even if it has moved (as in rsync
//! and LBFS). From an anchor a piece is extended in both directions, across a few bytes that differ.
//!
//! Encoding: a series of tokens. Each is a little-endian `u16` number of literal bytes, these bytes, a `u16`
//! number of copied bytes and, unless that is 0, a `u40` offset in the image. A copy is within one page of
//! the image.
//!
//! Invariant: `apply(encode(page)) == page`. A match found by the index is compared before it is used.

use super::base::BaseImage;
use super::delta::{PAGE_BYTES, Page};
use arrayvec::ArrayVec;
use std::sync::Arc;

/// Bytes that choose an anchor.
const WINDOW: usize = 64;
/// One place in this many, as a power of two, is an anchor.
const ANCHOR_BITS: u32 = 9;
/// Least number of equal bytes in a row that get a token.
const RUN: usize = 16;
/// Bytes without such a run that end a piece.
const GAP: usize = 96;
/// An encoding of this size or more saves too little.
const CODE_BYTES_MAX: usize = PAGE_BYTES * 7 / 8;
/// Most pieces of one page.
const PIECES_MAX: usize = 32;
const OFFSET_BYTES: usize = 5;
const NOWHERE: u64 = u64::MAX;

/// An encoded page.
pub(super) type Code = ArrayVec<u8, CODE_BYTES_MAX>;

/// The value of each byte in the rolling hash: splitmix64 of the byte.
static GEAR: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let z = (byte as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[byte] = z ^ z >> 31;
        byte += 1;
    }
    table
};

/// Calls `each` with the hash at every anchor of `bytes` and the end of its window.
fn anchors(bytes: &[u8], mut each: impl FnMut(u64, usize)) {
    let mut hash = 0u64;
    for (at, byte) in bytes.iter().enumerate() {
        // A byte has no effect on the hash after 64 shifts.
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if hash >> (64 - ANCHOR_BITS) == 0 && at + 1 >= WINDOW {
            each(hash, at + 1);
        }
    }
}

/// Finds pieces of an image by their content. See the module's header.
pub struct CopyIndex {
    image: Arc<BaseImage>,
    /// By hash, one anchor for each place: the offset in the image of the end of its window, or [`NOWHERE`].
    places: Box<[u64]>,
}

impl std::fmt::Debug for CopyIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyIndex").field("places", &self.places.len()).finish_non_exhaustive()
    }
}

impl CopyIndex {
    /// Indexes all of `image`, in a few seconds for each GiB. Takes about a fiftieth of the image's memory.
    pub fn of(image: Arc<BaseImage>) -> Self {
        let expected = (image.resident_bytes() >> ANCHOR_BITS) as usize;
        let mut places = vec![NOWHERE; expected.next_power_of_two().max(64)].into_boxed_slice();
        for number in 0..image.capacity_bytes() / PAGE_BYTES as u64 {
            if let Some(page) = image.page(number) {
                anchors(page, |hash, at| {
                    places[place(hash, places.len())] = number * PAGE_BYTES as u64 + at as u64;
                });
            }
        }
        Self { image, places }
    }

    /// `page` encoded as copies, or `None` if that saves little.
    pub(super) fn encode(&self, page: &Page) -> Option<Code> {
        // The bytes of the page that are equal to bytes of the image, and their places there.
        let mut pieces = ArrayVec::<Piece<'_>, PIECES_MAX>::new();
        anchors(page, |hash, at| {
            let end = pieces.last().map_or(0, |piece| piece.end);
            if at <= end || pieces.is_full() {
                return;
            }
            let offset = self.places[place(hash, self.places.len())];
            if offset == NOWHERE {
                return;
            }
            let (number, within) = (offset / PAGE_BYTES as u64, (offset % PAGE_BYTES as u64) as usize);
            // By its offset, an anchor at the end of a page is at the beginning of the next page.
            let (number, within) = if within == 0 { (number - 1, PAGE_BYTES) } else { (number, within) };
            if let Some(source) = self.image.page(number) {
                pieces.extend(Piece::around(page, at, end, source, within, number));
            }
        });
        let mut code = Code::new();
        let mut written = 0;
        for piece in &pieces {
            let mut from = piece.start;
            while let Some((start, end)) = piece.next_run(page, from) {
                let offset = piece.number * PAGE_BYTES as u64 + (start + piece.within - piece.at) as u64;
                put(&mut code, &page[written..start], end - start, offset)?;
                (written, from) = (end, end);
            }
        }
        put(&mut code, &page[written..], 0, 0)?;
        Some(code)
    }

    /// The page that was encoded as `code`.
    pub(super) fn apply(&self, mut code: &[u8], page: &mut [u8]) {
        let mut at = 0;
        while at < page.len() {
            let literal = take_u16(&mut code);
            let bytes = take(&mut code, literal);
            page[at..at + literal].copy_from_slice(bytes);
            at += literal;
            let copied = take_u16(&mut code);
            if copied == 0 {
                continue;
            }
            let mut offset = [0; 8];
            offset[..OFFSET_BYTES].copy_from_slice(take(&mut code, OFFSET_BYTES));
            let offset = u64::from_le_bytes(offset);
            let (number, within) = (offset / PAGE_BYTES as u64, (offset % PAGE_BYTES as u64) as usize);
            let source = self.image.page(number).expect("an image does not change: the page was there");
            page[at..at + copied].copy_from_slice(&source[within..within + copied]);
            at += copied;
        }
    }
}

fn place(hash: u64, places: usize) -> usize {
    // The upper bits are those that select the anchors.
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (places - 1)
}

/// Appends a token; `None` if there is no room for it.
fn put(code: &mut Code, literal: &[u8], copied: usize, offset: u64) -> Option<()> {
    code.try_extend_from_slice(&(literal.len() as u16).to_le_bytes()).ok()?;
    code.try_extend_from_slice(literal).ok()?;
    code.try_extend_from_slice(&(copied as u16).to_le_bytes()).ok()?;
    if copied > 0 {
        code.try_extend_from_slice(&offset.to_le_bytes()[..OFFSET_BYTES]).ok()?;
    }
    Some(())
}

fn take<'c>(code: &mut &'c [u8], length: usize) -> &'c [u8] {
    let (head, rest) = code.split_at(length);
    *code = rest;
    head
}

fn take_u16(code: &mut &[u8]) -> usize {
    let bytes = take(code, 2);
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// A part of a page that is, except for a few bytes, a part of one page of the image: `page[at + n]`
/// corresponds to `source[within + n]`.
struct Piece<'i> {
    start: usize,
    end: usize,
    at: usize,
    source: &'i Page,
    within: usize,
    number: u64,
}

impl<'i> Piece<'i> {
    /// Extends the piece from an anchor in both directions, but not below `from`. `None` if there is no
    /// piece.
    fn around(
        page: &Page,
        at: usize,
        from: usize,
        source: &'i Page,
        within: usize,
        number: u64,
    ) -> Option<Self> {
        let ahead = page[at..].iter().zip(&source[within..]);
        let back = page[from..at].iter().rev().zip(source[..within].iter().rev());
        let (back, ahead) = (reach(back), reach(ahead));
        (back + ahead > 0).then_some(Self { start: at - back, end: at + ahead, at, source, within, number })
    }

    /// The next run of equal bytes, at or after `from`, that is worth a copy.
    fn next_run(&self, page: &Page, from: usize) -> Option<(usize, usize)> {
        let same = |at: usize| page[at] == self.source[at + self.within - self.at];
        let mut start = from;
        while start + RUN <= self.end {
            let length = (start..self.end).take_while(|at| same(*at)).count();
            if length >= RUN {
                return Some((start, start + length));
            }
            start += length + 1;
        }
        None
    }
}

/// The length up to which two strings agree: the end of the last run before [`GAP`] bytes without a run.
fn reach<'b>(pairs: impl Iterator<Item = (&'b u8, &'b u8)>) -> usize {
    let (mut reached, mut run) = (0, 0);
    for (at, (one, other)) in pairs.enumerate() {
        run = if one == other { run + 1 } else { 0 };
        if run >= RUN {
            reached = at + 1;
        } else if at - reached >= GAP {
            break;
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, MemoryDevice};
    use entresol_runtime::rng::Rng;

    const PAGES: usize = 40;

    fn noise(rng: &mut Rng, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| rng.next_u64() as u8).collect()
    }

    fn index(content: &[u8]) -> CopyIndex {
        let device = MemoryDevice::new("image", content.len() as u64);
        device.write(0, content).expect("memory does not fail");
        CopyIndex::of(device.freeze())
    }

    fn round_trip(index: &CopyIndex, page: &Page) -> Option<usize> {
        let code = index.encode(page)?;
        let mut copy = [0xee; PAGE_BYTES];
        index.apply(&code, &mut copy);
        assert!(copy == *page, "the page came back changed");
        Some(code.len())
    }

    #[test]
    fn a_log_of_page_images_takes_little_and_comes_back() {
        let mut rng = Rng::new(5);
        let content = noise(&mut rng, PAGES * PAGE_BYTES);
        let index = index(&content);
        // Images in any order, each after a head and with a few bytes changed.
        let mut log = Vec::new();
        for _ in 0..200 {
            let head = rng.below(60) as usize;
            log.extend(noise(&mut rng, head));
            let at = rng.below(PAGES as u64) as usize * PAGE_BYTES;
            let mut image = content[at..at + PAGE_BYTES].to_vec();
            for _ in 0..rng.below(4) {
                image[rng.below(PAGE_BYTES as u64) as usize] ^= 1;
            }
            log.extend(image);
        }
        let (mut code, mut pages) = (0, 0);
        for page in log.as_chunks::<PAGE_BYTES>().0 {
            code += round_trip(&index, page).unwrap_or(PAGE_BYTES);
            pages += 1;
        }
        assert!(code * 6 < pages * PAGE_BYTES, "{code} bytes for {pages} pages");
    }

    #[test]
    fn a_device_with_copies_is_one_that_takes_less_memory() {
        let mut rng = Rng::new(8);
        let content = noise(&mut rng, PAGES * PAGE_BYTES);
        let index = Arc::new(index(&content));
        let device = MemoryDevice::new("log", 1 << 20).with_copies(index);
        let mut model = vec![0; 1 << 20];
        // A log that grows by whole sectors, rewrites its last ones, and wraps twice.
        let (mut end, mut left) = (0, Vec::new());
        while end < 2 << 20 {
            while left.len() < 5000 {
                let from = rng.below(((PAGES - 1) * PAGE_BYTES) as u64) as usize;
                left.extend_from_slice(&content[from..from + PAGE_BYTES]);
            }
            let length = (1 + rng.below(9) as usize) * 512;
            let at = end % (1 << 20);
            let length = length.min((1 << 20) - at);
            device.write(at as u64, &left[..length]).expect("memory does not fail");
            model[at..at + length].copy_from_slice(&left[..length]);
            let done = length - 512 * usize::from(length > 512 && rng.below(2) == 0);
            left.drain(..done);
            end += done;
        }
        let mut all = vec![0; 1 << 20];
        device.read(0, &mut all).expect("memory does not fail");
        assert!(all == model, "what was written last is read");
        assert!(device.fork("other").resident_bytes() < (1 << 20) / 3, "{}", device.resident_bytes());
    }

    #[test]
    fn what_the_image_does_not_have_is_left_alone() {
        let mut rng = Rng::new(6);
        let index = index(&noise(&mut rng, PAGES * PAGE_BYTES));
        let other: Page = noise(&mut rng, PAGE_BYTES).try_into().expect("a page");
        assert_eq!(round_trip(&index, &other), None);
    }

    #[test]
    fn any_mixture_comes_back() {
        let mut rng = Rng::new(7);
        // Few different bytes, repetitions and zeros: many anchors, and anchors of unequal pieces.
        let mut content: Vec<u8> = (0..PAGES * PAGE_BYTES).map(|at| (at / 7 % 5) as u8).collect();
        for page in content.chunks_mut(PAGE_BYTES).step_by(2) {
            page.iter_mut().for_each(|byte| *byte = rng.below(3) as u8);
        }
        let index = index(&content);
        let mut encoded = 0;
        for _ in 0..500 {
            let mut page = Vec::new();
            while page.len() < PAGE_BYTES {
                let from = rng.below((content.len() - 700) as u64) as usize;
                page.extend_from_slice(&content[from..from + 1 + rng.below(700) as usize]);
                let literal = rng.below(9) as usize;
                page.extend(noise(&mut rng, literal));
            }
            page.truncate(PAGE_BYTES);
            encoded += usize::from(round_trip(&index, &page.try_into().expect("a page")).is_some());
        }
        assert!(encoded > 0);
    }
}
