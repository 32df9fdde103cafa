//! The fields of every structure according to the types, for the test that compares them with docs/FORMAT.md.

use crate::block::BlockHeader;
use crate::label::RawLabel;
use crate::page::PageHeader;
use crate::{
    batch, fingerprint, missing, owners_log, redo, segment, slots, stale, summary, superblock::RawSuperblock,
};

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Byte offset in the structure.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Its name in the type.
    pub name: &'static str,
}

/// A structure: its heading in docs/FORMAT.md and its fields in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The heading.
    pub heading: &'static str,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

/// The [`Table`](crate::tables::Table) of a type, all of whose fields are named in order.
#[macro_export]
macro_rules! table {
    ($heading:literal, $type:ty, $($field:ident)+) => {{
        let zero = <$type as ::zerocopy::FromZeros>::new_zeroed();
        let fields = vec![$($crate::tables::Field {
            offset: ::std::mem::offset_of!($type, $field),
            bytes: size_of_val(&zero.$field),
            name: stringify!($field),
        }),+];
        let end = fields.last().map_or(0, |field| field.offset + field.bytes);
        assert_eq!(end, size_of::<$type>(), "a field of {} is missing", $heading);
        $crate::tables::Table { heading: $heading, fields }
    }};
}

/// All structures.
pub fn tables() -> Vec<Table> {
    vec![
        table!("Block header", BlockHeader, magic version length sequence checksum reserved),
        table!("Superblock", RawSuperblock,
            header cache disk epoch page_bytes slots group_pages staging_groups segment_entries policy mode flags front
            rear durable unsure_from unsure_to session_rear segment_first segment_next losses epoch_nonce previous_nonce page_format objects marks costs renewal log mark_digests batches checkpoint horizon based_from zero),
        table!("Disk label", RawLabel, header disk cache epoch page_bytes flags log session epoch_nonce session_nonce failed_epoch failed_nonce renewal zero),
        table!("Missing pages", missing::RawMissing, header cache epoch ranges staged checksum given_up zero),
        table!("Range of missing pages", missing::RawRange, first pages),
        table!("Fingerprint", fingerprint::RawFingerprint, header capacity seed sectors checksum zero),
        table!("Checksums of a sector", fingerprint::RawSums, before after),
        table!("Writes that could not be synced", redo::RawRedo, header flags zero),
        table!("Write that could not be synced", redo::RawRedoEntry, header number kind checksum offset length zero),
        table!("Group summary", summary::RawSummary, header cache epoch durable front entries stale ends written flushed revision),
        table!("Summary entry", summary::RawEntry, page lsn checksum flags),
        table!("Position in the owner's log", owners_log::RawLogPosition, timeline reserved lsn digest),
        table!("Record of forgotten pages", stale::RawStale, first last below),
        table!("Directory segment", segment::RawHeader, header cache entries checksum stale flags since from below under_way zero),
        table!("Segment entry", segment::RawEntry, page flags proof),
        table!("Summary of a batch", batch::RawBatch, header cache epoch durable pages emptied pages_before emptied_before repeats),
        table!("Placed page", batch::RawPlaced, page slot from checksum flags),
        table!("Slot entry", slots::RawSlot, page position rank cache flags),
        table!("Page header", PageHeader, checksum kind flags page lsn generation),
    ]
}

fn documented(text: &str, heading: &str) -> Vec<(usize, usize, String)> {
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != heading || !line.starts_with('#'));
    assert!(lines.next().is_some(), "docs/FORMAT.md has no heading {heading:?}");
    let rows = lines.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{heading}: {row}"));
        (number(cells[1]), number(cells[2]), cells[3].trim_matches('`').to_owned())
    })
    .collect()
}

/// Asserts that docs/FORMAT.md agrees with `tables`.
///
/// # Panics
/// If it does not.
pub fn assert_documented(tables: &[Table]) {
    let text = include_str!("../FORMAT.txt");
    for table in tables {
        let typed: Vec<_> = table
            .fields
            .iter()
            .map(|Field { offset, bytes, name }| (*offset, *bytes, (*name).to_owned()))
            .collect();
        assert_eq!(documented(text, table.heading), typed, "{}", table.heading);
        // Each field begins where the one before it ends.
        for pair in table.fields.windows(2) {
            assert_eq!(pair[0].offset + pair[0].bytes, pair[1].offset, "{}: {}", table.heading, pair[1].name);
        }
    }
}
