//! Computes checksums again, so that damaged bytes reach the code after the checksum test.

use entresol_format::block;
use entresol_format::page::{self, PAGE_HEADER_BYTES};
use entresol_format::stale::STALE_BYTES;
use entresol_format::{BLOCK_BYTES, checksum, segment};

/// Seals a block with the magic and the sequence that it contains.
pub(super) fn seal_block(bytes: &mut [u8]) {
    let (mut magic, mut sequence) = ([0; 8], [0; 8]);
    magic.copy_from_slice(&bytes[..8]);
    sequence.copy_from_slice(&bytes[16..24]);
    block::seal(bytes, magic, u64::from_le_bytes(sequence));
}

/// Seals every structure and every page of a flash or disk image.
pub(super) fn seal_image(image: &mut [u8], structures_only_below: usize) {
    let mut at = 0;
    while at + BLOCK_BYTES <= image.len() {
        let (block, rest) = image[at..].split_at_mut(BLOCK_BYTES);
        if block.starts_with(&segment::MAGIC) {
            seal_segment(block, rest);
        } else if block.starts_with(b"ENTR") {
            seal_block(block);
        } else if at >= structures_only_below && block[..PAGE_HEADER_BYTES].iter().any(|byte| *byte != 0) {
            let (id, generation) = (page::header(block).page.get(), page::header(block).generation.get());
            page::seal(block, entresol_core::PageId(id), entresol_core::Position(generation));
        }
        at += BLOCK_BYTES;
    }
}

/// Seals a segment's header, with the checksum of the entries after it.
fn seal_segment(block: &mut [u8], rest: &[u8]) {
    const ENTRIES_AT: usize = 48;
    const CHECKSUM_AT: usize = 52;
    const STALE_AT: usize = 56;
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&block[at..at + 4]);
        u32::from_le_bytes(bytes) as usize
    };
    let length = number(ENTRIES_AT) * segment::ENTRY_BYTES + number(STALE_AT) * STALE_BYTES;
    if let Some(payload) = rest.get(..length) {
        let sum = checksum::of(payload);
        block[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    }
    seal_block(block);
}

/// Seals the master records of a log image, and every record at the position of its LSN. The formats are in
/// `entresol-store`, `wal/master.rs` and `wal/record.rs`.
pub(super) fn seal_log(image: &mut [u8]) {
    const RECORDS_AT: usize = 8192;
    const HEADER: usize = 40;
    let mut newest = (0, 0, 0u32, 0);
    for at in [0, 4096] {
        let Some(master) = image.get_mut(at..at + 128).filter(|master| master.starts_with(b"ENTRSLOG"))
        else {
            continue;
        };
        let sum = checksum::append(checksum::of(&master[8..12]), &master[16..]);
        master[12..16].copy_from_slice(&sum.to_le_bytes());
        newest = newest.max((word(master, 16), word(master, 32), word(master, 44) as u32, word(master, 56)));
    }
    let (_, area, id, shift) = newest;
    let mut at = RECORDS_AT;
    while let Some(record) = image.get_mut(at..).filter(|rest| rest.len() >= HEADER && area > 0) {
        let (length, lsn) = (word(record, 0) as u32 as usize, word(record, 8));
        if lsn.wrapping_add(shift) % area != (at - RECORDS_AT) as u64
            || !(HEADER..=record.len()).contains(&length)
        {
            at += 8;
            continue;
        }
        let sum = checksum::append(id, &record[HEADER..length]);
        let sum = checksum::append(sum, &record[8..HEADER]);
        record[4..8].copy_from_slice(&sum.to_le_bytes());
        at += length.next_multiple_of(8);
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
