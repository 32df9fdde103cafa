//! PostgreSQL captures: 9-byte little-endian records `{u32 microseconds, u8 op, u32 page}`: 0 = buffer fix
//! (R), 1 = mark dirty (D), 2 = read below the buffer (M), 3 = write below the buffer (F).
//!
//! `FILE.pages` (compressed or not) next to it gives the meaning of each page number: 9-byte records `{u32
//! relfilenode, u8 fork, u32 block}`. With it, pages are known by relation and block, so that neighbours are
//! neighbours. Times wrap after 71 minutes and are unwrapped.

use super::labels::{Labels, with_suffix};
use crate::builder::Built;
use crate::input::{Input, Records};
use crate::{Op, Place, ReadOptions, Stream, TraceBuilder, TraceError};
use entresol_core::PageId;
use std::path::{Path, PathBuf};

/// Size of a record, of both files.
const RECORD: usize = 9;
/// PostgreSQL's usual page.
const PAGE_BYTES: u32 = 8192;
/// Endings of forks' files.
const FORKS: [&str; 4] = ["", "_fsm", "_vm", "_init"];

/// A record's three fields.
fn parts(record: &[u8; RECORD]) -> (u32, u8, u32) {
    let [a, b, c, d, op, e, f, g, h] = *record;
    (u32::from_le_bytes([a, b, c, d]), op, u32::from_le_bytes([e, f, g, h]))
}

/// How much of `head` looks like such records: a share.
pub(super) fn likeness(head: &[u8]) -> f64 {
    let (records, _) = head.as_chunks::<RECORD>();
    let mut last_us = 0;
    let fits = |record: &[u8; RECORD]| {
        let (time_us, op, _) = parts(record);
        let goes_on = time_us >= last_us;
        last_us = time_us;
        op <= 3 && goes_on
    };
    super::recognise::share(records, fits)
}

/// Reads one stream of a capture.
pub(super) fn read(
    input: &mut Input<'_>,
    path: Option<&Path>,
    labels: &Labels,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    let mut builder = super::builder(input, options, PAGE_BYTES)?;
    let name = input.name().to_owned();
    let side = match path {
        Some(path) => side_table(path, &mut builder)?,
        None => None,
    };
    let wanted = match options.stream {
        Stream::Above => [Some(Op::Read), Some(Op::Dirty), None, None],
        Stream::Below => [None, None, Some(Op::Read), Some(Op::Write)],
    };
    let (mut wraps, mut last_us) = (0_u64, 0_u32);
    builder.start_at(0);
    Records::<RECORD>::new(input).each(|record, offset| {
        let (time_us, op, number) = parts(record);
        let damaged =
            |reason: String| TraceError::Damaged { name: name.clone(), place: Place::Byte(offset), reason };
        // Only a fall by more than half the range is a wrap; a small one is two processors' disorder.
        if time_us < last_us && last_us - time_us > u32::MAX / 2 {
            wraps += 1;
        }
        last_us = time_us;
        let Some(op) = wanted.get(usize::from(op)) else {
            return Err(damaged(format!("the operation is {op}, not 0 (R), 1 (D), 2 (M) or 3 (F)")));
        };
        let Some(op) = *op else { return Ok(()) };
        let page = match &side {
            None => PageId::new(0, number),
            Some(pages) => *pages.get(number as usize).ok_or_else(|| {
                damaged(format!("page {number} is not in the table of pages, which has {}", pages.len()))
            })?,
        };
        let time_us = wraps << 32 | u64::from(time_us);
        builder.page(page, op, Some(time_us)).map_err(|misfit| misfit.at(&name, Place::Byte(offset)))
    })?;
    Ok(builder.finish_any(|label| labels.name(label)))
}

/// Where the table of a capture's pages is looked for.
pub(super) fn tables_of(trace: &Path) -> Vec<PathBuf> {
    [".pages", ".pages.zst", ".pages.gz"].iter().map(|end| with_suffix(trace, end)).collect()
}

/// The meaning of the capture's page numbers, if a table next to it has it.
fn side_table(trace: &Path, builder: &mut TraceBuilder) -> Result<Option<Vec<PageId>>, TraceError> {
    let Some(path) = tables_of(trace).into_iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let mut input = Input::open(&path, None)?;
    let name = input.name().to_owned();
    let mut pages = Vec::new();
    // Neighbours in the table are mostly of one relation.
    let mut known: Option<((u32, u8), u32)> = None;
    Records::<RECORD>::new(&mut input).each(|record, offset| {
        let (relation, fork, block) = parts(record);
        let damaged =
            |reason: String| TraceError::Damaged { name: name.clone(), place: Place::Byte(offset), reason };
        let object = match known {
            Some((last, object)) if last == (relation, fork) => object,
            _ => {
                let Some(ending) = FORKS.get(usize::from(fork)) else {
                    return Err(damaged(format!("the fork is {fork}, not 0 to 3")));
                };
                let object = builder.object(&format!("{relation}{ending}"));
                object.map_err(|misfit| misfit.at(&name, Place::Byte(offset)))?
            }
        };
        known = Some(((relation, fork), object));
        pages.push(PageId::new(object, block));
        Ok(())
    })?;
    Ok(Some(pages))
}
