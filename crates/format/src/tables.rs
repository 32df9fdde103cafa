//! The fields of every structure as the types have them, for the test that keeps docs/FORMAT.md true.

use crate::block::BlockHeader;
use crate::label::RawLabel;
use crate::page::PageHeader;
use crate::{segment, slots, summary, superblock::RawSuperblock};
use std::mem::offset_of;
use zerocopy::FromZeros;

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
    /// In order.
    pub fields: Vec<Field>,
}

macro_rules! table {
    ($heading:literal, $type:ty, $($field:ident)+) => {{
        let zero = <$type>::new_zeroed();
        let fields = vec![$(Field {
            offset: offset_of!($type, $field),
            bytes: size_of_val(&zero.$field),
            name: stringify!($field),
        }),+];
        let end = fields.last().map_or(0, |field| field.offset + field.bytes);
        assert_eq!(end, size_of::<$type>(), "a field of {} is missing", $heading);
        Table { heading: $heading, fields }
    }};
}

/// All structures.
pub fn tables() -> Vec<Table> {
    vec![
        table!("Block header", BlockHeader, magic version length sequence checksum reserved),
        table!("Superblock", RawSuperblock,
            header cache disk epoch page_bytes slots group_pages staging_groups segment_entries policy mode flags front
            rear durable unsure_from unsure_to session_rear segment_first segment_next losses epoch_nonce previous_nonce zero),
        table!("Disk label", RawLabel, header disk cache epoch page_bytes flags log session epoch_nonce session_nonce zero),
        table!("Group summary", summary::RawSummary, header cache epoch durable front entries invalidations),
        table!("Summary entry", summary::RawEntry, page lsn checksum flags),
        table!("Directory segment", segment::RawHeader, header cache entries checksum zero),
        table!("Segment entry", segment::RawEntry, page flags),
        table!("Slot entry", slots::RawSlot, page position rank cache flags),
        table!("Page header", PageHeader, checksum kind flags page lsn generation),
    ]
}
