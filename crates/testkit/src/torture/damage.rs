//! Silent faults of a flash device: bit flips, and lost, misdirected and duplicated writes.
//!
//! Invariant: one write is affected at a time. It is a whole write of the engine (a superblock, a segment, a
//! group, a page, a summary), at any place.

use super::cache::Cache;
use super::fault::FaultKind;
use super::judge::Rules;
use crate::machine::Media;
use entresol_core::{PageId, Placement, Position, SlotId};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{TierOptions, disk_offset};
use entresol_format::label;
use entresol_format::summary::Summary;
use entresol_format::superblock::{COPIES, COPY_STRIDE, Superblock};
use entresol_format::{BLOCK_BYTES, page};
use entresol_runtime::rng::Rng;

/// The range of a write, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteRange {
    offset: u64,
    length: u64,
}

/// The silent kinds. A lost write is the hardest to detect.
pub(super) const SILENT: [FaultKind; 5] = [
    FaultKind::BitFlip,
    FaultKind::LostWrite,
    FaultKind::LostWrite,
    FaultKind::MisdirectedWrite,
    FaultKind::DuplicatedWrite,
];

/// The slots of the flash that contain a written page, with its content.
fn pages_on(flash: &dyn Device, cache: &Cache) -> Vec<(WriteRange, u64)> {
    let range =
        |slot| WriteRange { offset: cache.slot_offset(SlotId(slot)), length: cache.page_bytes().into() };
    let named =
        (0..cache.slots()).map(|slot| (range(slot), page::header(&read(flash, range(slot))).page.get()));
    named.filter(|(range, _)| read(flash, *range).iter().any(|byte| *byte != 0)).collect()
}

/// The newest superblock on flash. `None`: there is none that can be read.
pub(crate) fn newest_superblock(flash: &dyn Device) -> Option<Superblock> {
    let mut block = vec![0; BLOCK_BYTES];
    let copies = (0..COPIES).filter_map(|copy| {
        flash.read(copy * COPY_STRIDE, &mut block).ok()?;
        Superblock::decode(&block).ok()
    });
    copies.max_by_key(|superblock| superblock.sequence)
}

/// A slot with a page, and another one. In half of the cases the other contains a version of the same page.
fn pages(rng: &mut Rng, cache: &Cache, flash: &dyn Device) -> Option<(WriteRange, WriteRange)> {
    let all = pages_on(flash, cache);
    let choose = |rng: &mut Rng, from: &[(WriteRange, u64)]| {
        (!from.is_empty()).then(|| from[rng.below(from.len() as u64) as usize])
    };
    let (first, id) = choose(rng, &all)?;
    let same: Vec<_> = all.iter().copied().filter(|(range, page)| *page == id && *range != first).collect();
    let other = if rng.below(2) == 0 { choose(rng, &same) } else { None };
    Some((first, other.or_else(|| choose(rng, &all))?.0))
}

/// Two blocks that prove pages.
fn two_proofs(rng: &mut Rng, cache: &Cache) -> Option<(WriteRange, WriteRange)> {
    let all = cache.proofs_offsets();
    let mut one = || {
        let offset = *all.get(rng.below(all.len().max(1) as u64) as usize)?;
        Some(WriteRange { offset, length: BLOCK_BYTES as u64 })
    };
    Some((one()?, one()?))
}

/// A range that the engine writes to, of one of the kinds, and another of the same kind.
fn ranges(rng: &mut Rng, cache: &Cache, flash: &MemoryDevice) -> Option<(WriteRange, WriteRange)> {
    let log = |options: &&TierOptions| options.policy.placement() == Placement::Log;
    let Some(options) = cache.tier().filter(log) else {
        if cache.keeps_slots() {
            return of_kept_slots(rng, cache, flash);
        }
        let proofs = if rng.below(3) == 0 { two_proofs(rng, cache) } else { None };
        return proofs.or_else(|| pages(rng, cache, flash));
    };
    let layout = options.layout();
    let block = BLOCK_BYTES as u64;
    // The last written groups are the most vulnerable ones.
    let (first, rear) = newest_superblock(flash).map_or((0, 0), |superblock| {
        let group = |position: Position| position.0 / u64::from(options.group_pages);
        (group(superblock.session_rear), group(superblock.durable))
    });
    let group = |rng: &mut Rng| match rng.below(4) {
        0 => (rear + rng.below(3)) % layout.groups(),
        // A crash may have left something here.
        1 => (first + rng.below(2)) % layout.groups(),
        _ => rng.below(layout.groups()),
    };
    Some(match rng.below(8) {
        0 => {
            let mut copy = || WriteRange { offset: rng.below(COPIES) * COPY_STRIDE, length: block };
            (copy(), copy())
        }
        1 => {
            let mut segment = || WriteRange {
                offset: layout.segment_offset(rng.below(layout.segment_places())),
                length: layout.segment_bytes(),
            };
            (segment(), segment())
        }
        2 | 3 => return pages(rng, cache, flash),
        4 => {
            let mut summary = || {
                let copy = rng.below(layout.summary_copies());
                WriteRange { offset: layout.summary_offset(group(rng), copy), length: block }
            };
            (summary(), summary())
        }
        _ => {
            let mut group =
                || WriteRange { offset: layout.group_offset(group(rng)), length: layout.group_bytes() };
            (group(), group())
        }
    })
}

/// As [`ranges`], of slots that survive a crash.
fn of_kept_slots(rng: &mut Rng, cache: &Cache, flash: &MemoryDevice) -> Option<(WriteRange, WriteRange)> {
    let layout = cache.tier()?.layout();
    let block = BLOCK_BYTES as u64;
    let mut places: Vec<WriteRange> = Vec::new();
    match rng.below(6) {
        0 => places.extend((0..COPIES).map(|copy| WriteRange { offset: copy * COPY_STRIDE, length: block })),
        1 => places.extend((0..layout.segments_of_slots()).flat_map(|segment| {
            let length = layout.segment_bytes();
            [0, 1].map(|copy| WriteRange { offset: layout.slots_segment_offset(segment, copy), length })
        })),
        2 | 3 => {
            let of_batch = |number| WriteRange { offset: layout.batch_offset(number), length: block };
            let is_written = |range: &WriteRange| read(flash, *range).iter().any(|byte| *byte != 0);
            places.extend((0..layout.batch_places()).map(of_batch).filter(is_written));
        }
        _ => return pages(rng, cache, flash),
    }
    let mut place = || places.get(rng.below(places.len().max(1) as u64) as usize).copied();
    Some((place()?, place()?))
}

/// A group that was written again in its place, at the same position, because a crash had left it incomplete.
fn rewritten(
    rng: &mut Rng,
    options: &TierOptions,
    flash: &MemoryDevice,
    before: &MemoryDevice,
) -> Option<WriteRange> {
    if options.policy.placement() == Placement::Slots {
        return None;
    }
    let layout = options.layout();
    let block = |flash, group| {
        read(
            flash,
            WriteRange {
                offset: layout.summary_offset(group, layout.summary_copies() - 1),
                length: BLOCK_BYTES as u64,
            },
        )
    };
    let head = |block: &[u8]| Summary::decode(block, options.group_pages).ok().map(|summary| summary.head);
    let again = |group: &u64| {
        let (now, then) = (block(flash, *group), block(before, *group));
        let (Some(now), Some(then)) = (head(&now), head(&then)) else { return false };
        (now.cache, now.group) == (then.cache, then.group) && now.epoch > then.epoch
    };
    let found: Vec<u64> = (0..layout.groups()).filter(again).collect();
    let group = *found.get(rng.below(found.len().max(1) as u64) as usize)?;
    Some(WriteRange { offset: layout.group_offset(group), length: layout.group_bytes() })
}

/// A bit in a nonzero byte of `bytes`, if one is found: a change of it loses content.
fn telling_bit(rng: &mut Rng, bytes: &[u8]) -> u64 {
    let mut tries = (0..200).map(|_| rng.below(bytes.len() as u64));
    let found = tries.find(|at| bytes[*at as usize] != 0);
    found.unwrap_or(0) * 8 + rng.below(8)
}

fn flip(bytes: &mut [u8], bit: u64) {
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}

fn read(device: &dyn Device, range: WriteRange) -> Vec<u8> {
    let mut bytes = vec![0; range.length as usize];
    device.read(range.offset, &mut bytes).expect("the cache fits on its device");
    bytes
}

fn write(device: &MemoryDevice, range: WriteRange, bytes: &[u8]) {
    device.write(range.offset, bytes).expect("the cache fits on its device");
}

/// Applies a fault to the flash of `media`; `before` is an earlier state of the flash. Returns a description;
/// `None`: nothing has changed.
pub(super) fn damage(
    rng: &mut Rng,
    cache: &Cache,
    media: &Media,
    before: &MemoryDevice,
    kind: FaultKind,
) -> Option<String> {
    let flash = &media.flash;
    let (mut range, other) = ranges(rng, cache, flash)?;
    // The remains of an older life in the same place are the hardest lost write to detect.
    if kind == FaultKind::LostWrite && rng.below(2) == 0 {
        range = cache.tier().and_then(|options| rewritten(rng, options, flash, before)).unwrap_or(range);
    }
    let WriteRange { offset, length } = range;
    let (now, then) = (read(flash, range), read(before, range));
    let changed = match kind {
        FaultKind::BitFlip => {
            let mut bytes = now.clone();
            let bit = telling_bit(rng, &now);
            flip(&mut bytes, bit);
            // Of a group, now and then, both summaries, too.
            let is_group = cache.tier().is_some_and(|options| length == options.layout().group_bytes());
            let twice = is_group && rng.below(3) == 0;
            if twice {
                let both = [0, now.len() - BLOCK_BYTES];
                let copies = cache.tier().map_or(1, |options| options.layout().summary_copies());
                for summary in &both[2 - copies as usize..] {
                    let bit = *summary as u64 * 8 + telling_bit(rng, &now[*summary..*summary + BLOCK_BYTES]);
                    flip(&mut bytes, bit);
                }
            }
            write(flash, range, &bytes);
            let also = if twice { ", and one of each of its summaries" } else { "" };
            return Some(format!("bit {bit} of {length} bytes at flash offset {offset} flipped{also}"));
        }
        FaultKind::LostWrite => {
            write(flash, range, &then);
            now != then
        }
        FaultKind::MisdirectedWrite | FaultKind::DuplicatedWrite => {
            let there = read(flash, other);
            write(flash, other, &now);
            if kind == FaultKind::MisdirectedWrite && other != range {
                write(flash, range, &then);
            }
            other != range && there != now
        }
        other => unreachable!("{other} is not silent"),
    };
    changed.then(|| format!("{kind}: {length} bytes at flash offset {offset}; other place: {}", other.offset))
}

/// A bit, counted from the start of the flash, in a slot that contains a page.
pub(super) fn bit_of_a_page(rng: &mut Rng, cache: &Cache, flash: &dyn Device) -> Option<u64> {
    let (range, _) = pages(rng, cache, flash)?;
    Some(range.offset * 8 + telling_bit(rng, &read(flash, range)))
}

/// As [`bit_of_a_page`], but of the last two groups on flash, which are after the range that the flash itself
/// records as durable.
pub(super) fn bit_of_a_new_page(rng: &mut Rng, cache: &Cache, flash: &dyn Device) -> Option<u64> {
    let group = u64::from(cache.tier()?.group_pages);
    let rear = entresol_engine::inspect(flash).ok()?.directory?.rear.0;
    let position = rear.checked_sub(1 + rng.below(2 * group))?;
    let slot = SlotId((position % u64::from(cache.slots())) as u32);
    let range = WriteRange { offset: cache.slot_offset(slot), length: cache.page_bytes().into() };
    Some(range.offset * 8 + telling_bit(rng, &read(flash, range)))
}

/// Flips a bit of a page on disk, or writes another page in its place, too. Returns a description.
pub(super) fn damage_disk(
    rng: &mut Rng,
    page_bytes: u32,
    pages: u64,
    disk: &MemoryDevice,
    kind: FaultKind,
) -> String {
    let range =
        |page| WriteRange { offset: disk_offset(PageId(page), page_bytes), length: page_bytes.into() };
    let page = rng.below(pages);
    let mut bytes = read(disk, range(page));
    if kind == FaultKind::BitFlip {
        let bit = telling_bit(rng, &bytes);
        flip(&mut bytes, bit);
        write(disk, range(page), &bytes);
        return format!("bit {bit} of page {page} on disk flipped");
    }
    let other = rng.below(pages);
    bytes = read(disk, range(other));
    write(disk, range(page), &bytes);
    format!("page {other} was written in the place of page {page} on disk, too")
}

/// The content of all page slots on flash at one time, and of the blocks that prove their pages.
pub(super) struct Moment(Vec<(WriteRange, Vec<u8>)>);

impl Moment {
    pub(super) fn of(flash: &dyn Device, cache: &Cache) -> Self {
        let range =
            |slot| WriteRange { offset: cache.slot_offset(SlotId(slot)), length: cache.page_bytes().into() };
        let proofs = cache.proofs_offsets().into_iter();
        let proofs = proofs.map(|offset| WriteRange { offset, length: BLOCK_BYTES as u64 });
        let all = (0..cache.slots()).map(range).chain(proofs);
        Self(all.map(|range| (range, read(flash, range))).collect())
    }

    /// Reverts some of the writes to `flash` between the two moments, or carries them out elsewhere, too.
    pub(super) fn bring_back(&self, rng: &mut Rng, kind: FaultKind, now: &Moment, flash: &dyn Device) {
        let put = |range: WriteRange, bytes: &[u8]| {
            flash.write(range.offset, bytes).expect("the cache fits on its device");
        };
        for ((range, then), (_, written)) in self.0.iter().zip(&now.0).filter(|(old, new)| old.1 != new.1) {
            if rng.below(2) == 0 {
                continue;
            }
            let other = now.0[rng.below(now.0.len() as u64) as usize].0;
            if kind != FaultKind::LostWrite && other.length == range.length {
                put(other, written);
            }
            if kind != FaultKind::DuplicatedWrite {
                put(*range, then);
            }
        }
    }
}

/// Makes a sector of flash or disk unreadable. Returns the device, a description, and the rules that then
/// hold.
pub(super) fn make_unreadable(
    rng: &mut Rng,
    cache: &Cache,
    media: &Media,
    pages: u64,
) -> (&'static str, String, Rules) {
    let sector = |rng: &mut Rng, range: WriteRange| range.offset + rng.below(range.length / 512) * 512;
    let redundant = || Rules { sound: false, ..Rules::crash(cache) };
    let block = BLOCK_BYTES as u64;
    if rng.below(3) == 0 {
        if rng.below(2) == 0 {
            let copy = WriteRange { offset: rng.below(label::COPIES) * label::COPY_STRIDE, length: block };
            media.disk.mark_unreadable(copy.offset, 512);
            return ("disk", format!("the label at {}", copy.offset), redundant());
        }
        let (page, length) = (PageId(rng.below(pages)), u64::from(cache.page_bytes()));
        let at = sector(rng, WriteRange { offset: disk_offset(page, cache.page_bytes()), length });
        media.disk.mark_unreadable(at, 512);
        return ("disk", format!("page {page} on disk, offset {at}"), Rules::silent_disk(cache));
    }
    let log = cache.tier().filter(|options| options.policy.placement() == Placement::Log);
    let (range, rules) = match (rng.below(4), log) {
        (0, _) if cache.tier().is_some() => {
            let offset = rng.below(COPIES) * COPY_STRIDE;
            (WriteRange { offset, length: 512 }, redundant())
        }
        (1, Some(options)) => {
            let layout = options.layout();
            let offset = layout.segment_offset(rng.below(layout.segment_places()));
            (WriteRange { offset, length: layout.segment_bytes() }, redundant())
        }
        (1, None) if cache.keeps_slots() => {
            let layout = cache.tier().expect("slots are of a tier").layout();
            let segment = rng.below(layout.segments_of_slots());
            let offset = layout.slots_segment_offset(segment, rng.below(2));
            // Power may have failed while the other copy was written.
            (WriteRange { offset, length: layout.segment_bytes() }, Rules::silent(cache))
        }
        _ => match ranges(rng, cache, &media.flash) {
            Some((range, _)) => (range, Rules::silent(cache)),
            None => (WriteRange { offset: 0, length: 512 }, redundant()),
        },
    };
    let at = sector(rng, range);
    media.flash.mark_unreadable(at, 512);
    ("flash", format!("flash offset {at}, of {} bytes at {}", range.length, range.offset), rules)
}

/// Damages all superblocks except copy `spared`.
pub(super) fn damage_superblocks(rng: &mut Rng, flash: &MemoryDevice, spared: u64) {
    let zeros = rng.below(2) == 0;
    for copy in (0..COPIES).filter(|copy| *copy != spared) {
        let mut bytes = vec![0u8; BLOCK_BYTES];
        if !zeros {
            bytes.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        }
        write(flash, WriteRange { offset: copy * COPY_STRIDE, length: BLOCK_BYTES as u64 }, &bytes);
    }
}
