//! libCacheSim's vscsi, little-endian records. Version 1, 32 bytes: `{u32 serial, u32 bytes, u32 segments,
//! u16 command, u16 version, u64 sector, u64 µs}`. Version 2, 40 bytes: `{u16 command, u16 version, u32
//! serial, u32 bytes, u32 segments, u64 sector, u64 µs, u64 response}`. The upper byte of `version` is 1 or
//! 2; `command` is a SCSI operation code, sectors have 512 bytes.

use super::cloudphysics::operation;
use crate::builder::Built;
use crate::input::{Input, Records};
use crate::{Op, Place, ReadOptions, TraceBuilder, TraceError};

const V1: usize = 32;
const V2: usize = 40;

/// A record's fields that matter here.
struct Record {
    command: u16,
    version: u16,
    bytes: u32,
    sector: u64,
    time_us: u64,
}

impl Record {
    fn new<const BYTES: usize>(record: &[u8; BYTES]) -> Self {
        const { assert!(BYTES == V1 || BYTES == V2, "the two versions' records") };
        let two = |at: usize| u16::from_le_bytes(*record[at..].first_chunk().expect("inside a record"));
        let four = |at: usize| u32::from_le_bytes(*record[at..].first_chunk().expect("inside a record"));
        let eight = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().expect("inside a record"));
        let (command, version, bytes) = match BYTES {
            V1 => (two(12), two(14), four(4)),
            _ => (two(0), two(2), four(8)),
        };
        Self { command, version, bytes, sector: eight(16), time_us: eight(24) }
    }

    fn is_of(&self, version: u16) -> bool {
        self.version >> 8 == version
    }

    /// The command's operation; `None` for commands that touch no pages (TEST UNIT READY, SYNCHRONIZE CACHE
    /// …).
    fn op(&self) -> Option<Op> {
        operation(u8::try_from(self.command).ok())
    }
}

fn likeness_of<const BYTES: usize>(head: &[u8], version: u16) -> f64 {
    let (records, _) = head.as_chunks::<BYTES>();
    super::recognise::share(records, |record| Record::new(record).is_of(version))
}

/// How much of `head` looks like such records of either version: a share.
pub(super) fn likeness(head: &[u8]) -> f64 {
    likeness_of::<V1>(head, 1).max(likeness_of::<V2>(head, 2))
}

/// Reads a trace; its version is the one that its head looks like.
pub(super) fn read(input: &mut Input<'_>, options: &ReadOptions) -> Result<Built, TraceError> {
    let mut builder = super::builder(input, options, super::BLOCK_PAGE_BYTES)?;
    let head = input.head().0;
    match likeness_of::<V2>(head, 2) >= likeness_of::<V1>(head, 1) {
        true => read_version::<V2>(input, &mut builder, 2)?,
        false => read_version::<V1>(input, &mut builder, 1)?,
    }
    Ok(builder.finish_any(str::to_owned))
}

fn read_version<const BYTES: usize>(
    input: &mut Input<'_>,
    builder: &mut TraceBuilder,
    version: u16,
) -> Result<(), TraceError> {
    let name = input.name().to_owned();
    Records::<BYTES>::new(input).each(|bytes, offset| {
        let record = Record::new(bytes);
        let place = Place::Byte(offset);
        if !record.is_of(version) {
            let reason = format!("the record's version is {:#06x}, not {version:#04x}..", record.version);
            return Err(TraceError::Damaged { name: name.clone(), place, reason });
        }
        let Some(op) = record.op() else { return Ok(()) };
        let first = record.sector.saturating_mul(512);
        let added = builder.extent(0, first, u64::from(record.bytes), op, Some(record.time_us));
        added.map_err(|misfit| misfit.at(&name, place))
    })
}
