//! libCacheSim's oracleGeneral, 24-byte little-endian records `{u32 time, u64 id, u32 size, i64 next}`, and
//! oracleGeneralOpNS, 27-byte ones `{u32 time, u64 id, u32 size, u8 op, u16 namespace, i64 next}`. Times are
//! seconds; `next` is the number of the request that names the same id next (-1 or the largest: none).
//!
//! An id is an object's name (in many published traces a hash of one), not an address: an object counts as
//! one page whatever its size, as in libCacheSim with sizes ignored. Records without operation are reads.

use crate::builder::Built;
use crate::input::{Input, Records};
use crate::{Op, Place, ReadOptions, TraceBuilder, TraceError};
use entresol_core::PageId;

/// The fields that matter here.
struct Record {
    time_s: u32,
    id: u64,
    size: u32,
    op: u8,
    next: i64,
}

/// libCacheSim's operations that do not change an object: none, get, gets, read, and "invalid", for unknown.
const READS: [u8; 5] = [0, 1, 2, 12, 255];
/// Records whose entries are touched in memory ahead of them, while those before are carried out.
const BATCH: usize = 16;
/// Delete: no reference.
const DELETE: u8 = 9;
/// The last that is known.
const LAST: u8 = 14;

impl Record {
    fn new<const BYTES: usize>(bytes: &[u8; BYTES]) -> Self {
        const { assert!(BYTES == 24 || BYTES == 27, "the two sizes of records") };
        let four = |at: usize| {
            u32::from_le_bytes(*bytes[at..].first_chunk().expect("a record has at least 24 bytes"))
        };
        let eight = |at: usize| {
            u64::from_le_bytes(*bytes[at..].first_chunk().expect("a record has at least 24 bytes"))
        };
        Self {
            time_s: four(0),
            id: eight(4),
            size: four(12),
            op: if BYTES == 27 { bytes[16] } else { 0 },
            next: eight(BYTES - 8).cast_signed(),
        }
    }

    fn knows_op(&self) -> bool {
        self.op <= LAST || self.op == 255
    }
}

/// How much of `head` looks like such records: a share.
pub(super) fn likeness<const BYTES: usize>(head: &[u8]) -> f64 {
    let (records, _) = head.as_chunks::<BYTES>();
    let mut last_s = 0;
    let mut index = 0_i64;
    let fits = |bytes: &[u8; BYTES]| {
        let record = Record::new(bytes);
        let goes_on = record.time_s >= last_s;
        last_s = record.time_s;
        index += 1;
        // Counted from 0 or from 1; no trace has 2^40 requests.
        let next =
            record.next == -1 || record.next == i64::MAX || (index - 1..1 << 40).contains(&record.next);
        goes_on && next && record.knows_op() && record.size < 1 << 31
    };
    super::recognise::share(records, fits)
}

/// Reads a trace of records of `BYTES` bytes.
pub(super) fn read<const BYTES: usize>(
    input: &mut Input<'_>,
    options: &ReadOptions,
) -> Result<Built, TraceError> {
    let mut builder = super::builder(input, options, super::BLOCK_PAGE_BYTES)?;
    let name = input.name().to_owned();
    let add = |builder: &mut TraceBuilder, record: Record, place: Place| {
        if !record.knows_op() {
            let reason = format!("the operation is {}, not 0 to {LAST} or 255", record.op);
            return Err(TraceError::Damaged { name: name.clone(), place, reason });
        }
        if record.op == DELETE {
            return Ok(());
        }
        let op = if READS.contains(&record.op) { Op::Read } else { Op::Write };
        let time_us = u64::from(record.time_s) * 1_000_000;
        builder.page(PageId(record.id), op, Some(time_us)).map_err(|misfit| misfit.at(&name, place))
    };
    Records::<BYTES>::new(input).batches(|records, mut offset| {
        let batch_at = |at: usize| &records[at.min(records.len())..(at + BATCH).min(records.len())];
        let warm = |builder: &TraceBuilder, at: usize| {
            builder.warm(batch_at(at).iter().map(|bytes| PageId(Record::new(bytes).id)));
        };
        warm(&builder, 0);
        for at in (0..records.len()).step_by(BATCH) {
            warm(&builder, at + BATCH);
            for bytes in batch_at(at) {
                add(&mut builder, Record::new(bytes), Place::Byte(offset))?;
                offset += BYTES as u64;
            }
        }
        Ok(())
    })?;
    Ok(builder.finish_any(str::to_owned))
}
