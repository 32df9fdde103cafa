//! What a flash device does to its content without a word: bits flip, writes are lost, go elsewhere, or
//! happen twice.
//!
//! Invariant: one write is affected at a time, a whole one as the engine makes them (a superblock, a segment,
//! a group, a page, a summary), wherever it lies.

use super::cache::{Cache, layout_of};
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

/// What a write covers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    offset: u64,
    length: u64,
}

/// The silent kinds; a lost write is the hardest to miss.
pub(super) const SILENT: [FaultKind; 5] = [
    FaultKind::BitFlip,
    FaultKind::LostWrite,
    FaultKind::LostWrite,
    FaultKind::MisdirectedWrite,
    FaultKind::DuplicatedWrite,
];

/// The slots of the flash that hold something that was written as a page, with what it is.
fn pages_on(flash: &dyn Device, cache: &Cache) -> Vec<(Unit, u64)> {
    let unit = |slot| Unit { offset: cache.slot_offset(SlotId(slot)), length: cache.page_bytes().into() };
    let named =
        (0..cache.slots()).map(|slot| (unit(slot), page::header(&read(flash, unit(slot))).page.get()));
    named.filter(|(unit, _)| read(flash, *unit).iter().any(|byte| *byte != 0)).collect()
}

/// The newest superblock that can be read.
pub(super) fn newest_superblock(flash: &dyn Device) -> Option<Superblock> {
    let copy = |copy: u64| Unit { offset: copy * COPY_STRIDE, length: BLOCK_BYTES as u64 };
    let whole = (0..COPIES).filter_map(|nth| Superblock::decode(&read(flash, copy(nth))).ok());
    whole.max_by_key(|superblock| superblock.sequence)
}

/// A slot with a page, and another: half of the time one that holds a version of the same page.
fn pages(rng: &mut Rng, cache: &Cache, flash: &dyn Device) -> Option<(Unit, Unit)> {
    let all = pages_on(flash, cache);
    let choose = |rng: &mut Rng, from: &[(Unit, u64)]| {
        (!from.is_empty()).then(|| from[rng.below(from.len() as u64) as usize])
    };
    let (first, id) = choose(rng, &all)?;
    let same: Vec<_> = all.iter().copied().filter(|(unit, page)| *page == id && *unit != first).collect();
    let other = if rng.below(2) == 0 { choose(rng, &same) } else { None };
    Some((first, other.or_else(|| choose(rng, &all))?.0))
}

/// A place that the engine writes to, of one of the kinds there are, and another of the same kind.
fn units(rng: &mut Rng, cache: &Cache, flash: &MemoryDevice) -> Option<(Unit, Unit)> {
    let log = |options: &&TierOptions| options.policy.placement() == Placement::Log;
    let Some(options) = cache.tier().filter(log) else { return pages(rng, cache, flash) };
    let layout = layout_of(options);
    let block = BLOCK_BYTES as u64;
    // Where the last groups were written there is more to go wrong than elsewhere.
    let (first, rear) = newest_superblock(flash).map_or((0, 0), |superblock| {
        let group = |position: Position| position.0 / u64::from(options.group_pages);
        (group(superblock.session_rear), group(superblock.durable))
    });
    let group = |rng: &mut Rng| match rng.below(4) {
        0 => (rear + rng.below(3)) % layout.groups(),
        // Here a crash may have left something.
        1 => (first + rng.below(2)) % layout.groups(),
        _ => rng.below(layout.groups()),
    };
    Some(match rng.below(8) {
        0 => {
            let mut copy = || Unit { offset: rng.below(COPIES) * COPY_STRIDE, length: block };
            (copy(), copy())
        }
        1 => {
            let mut segment = || Unit {
                offset: layout.segment_offset(rng.below(layout.segment_places())),
                length: layout.segment_bytes(),
            };
            (segment(), segment())
        }
        2 | 3 => return pages(rng, cache, flash),
        4 => {
            let mut summary = || Unit { offset: layout.summary_offset(group(rng)), length: block };
            (summary(), summary())
        }
        _ => {
            let mut group = || Unit { offset: layout.group_offset(group(rng)), length: layout.group_bytes() };
            (group(), group())
        }
    })
}

/// A group that has been written again in its place, at the same position: a crash had left it by half.
fn rewritten(
    rng: &mut Rng,
    options: &TierOptions,
    flash: &MemoryDevice,
    before: &MemoryDevice,
) -> Option<Unit> {
    if options.policy.placement() == Placement::Slots {
        return None;
    }
    let layout = layout_of(options);
    let block =
        |flash, group| read(flash, Unit { offset: layout.summary_offset(group), length: BLOCK_BYTES as u64 });
    let head = |block: &[u8]| Summary::decode(block, options.group_pages).ok().map(|summary| summary.head);
    let again = |group: &u64| {
        let (now, then) = (block(flash, *group), block(before, *group));
        let (Some(now), Some(then)) = (head(&now), head(&then)) else { return false };
        (now.cache, now.group) == (then.cache, then.group) && now.epoch > then.epoch
    };
    let found: Vec<u64> = (0..layout.groups()).filter(again).collect();
    let group = *found.get(rng.below(found.len().max(1) as u64) as usize)?;
    Some(Unit { offset: layout.group_offset(group), length: layout.group_bytes() })
}

/// A bit of what is not zero in `bytes`, if that can be found: there is something to lose.
fn telling_bit(rng: &mut Rng, bytes: &[u8]) -> u64 {
    let mut tries = (0..200).map(|_| rng.below(bytes.len() as u64));
    let found = tries.find(|at| bytes[*at as usize] != 0);
    found.unwrap_or(0) * 8 + rng.below(8)
}

fn flip(bytes: &mut [u8], bit: u64) {
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}

fn read(device: &dyn Device, unit: Unit) -> Vec<u8> {
    let mut bytes = vec![0; unit.length as usize];
    device.read(unit.offset, &mut bytes).expect("the cache fits on its device");
    bytes
}

fn write(device: &MemoryDevice, unit: Unit, bytes: &[u8]) {
    device.write(unit.offset, bytes).expect("the cache fits on its device");
}

/// Does it to the flash of `media`; `before` is an earlier state of it. Says what was done; `None`: nothing
/// has changed.
pub(super) fn damage(
    rng: &mut Rng,
    cache: &Cache,
    media: &Media,
    before: &MemoryDevice,
    kind: FaultKind,
) -> Option<String> {
    let flash = &media.flash;
    let (mut unit, other) = units(rng, cache, flash)?;
    // Nothing looks more like a lost write than what an older life has left in its place.
    if kind == FaultKind::LostWrite && rng.below(2) == 0 {
        unit = cache.tier().and_then(|options| rewritten(rng, options, flash, before)).unwrap_or(unit);
    }
    let Unit { offset, length } = unit;
    let (now, then) = (read(flash, unit), read(before, unit));
    let changed = match kind {
        FaultKind::BitFlip => {
            let mut bytes = now.clone();
            let bit = telling_bit(rng, &now);
            flip(&mut bytes, bit);
            // Of a group, now and then, the summary, too.
            let summary = now.len() - BLOCK_BYTES;
            let is_group = cache.tier().is_some_and(|options| length == layout_of(options).group_bytes());
            let twice = is_group && rng.below(3) == 0;
            if twice {
                let bit = summary as u64 * 8 + telling_bit(rng, &now[summary..]);
                flip(&mut bytes, bit);
            }
            write(flash, unit, &bytes);
            let also = if twice { ", and one of its summary" } else { "" };
            return Some(format!("bit {bit} of {length} bytes at flash offset {offset} flipped{also}"));
        }
        FaultKind::LostWrite => {
            write(flash, unit, &then);
            now != then
        }
        FaultKind::MisdirectedWrite | FaultKind::DuplicatedWrite => {
            let there = read(flash, other);
            write(flash, other, &now);
            if kind == FaultKind::MisdirectedWrite && other != unit {
                write(flash, unit, &then);
            }
            other != unit && there != now
        }
        other => unreachable!("{other} is not silent"),
    };
    changed.then(|| format!("{kind}: {length} bytes at flash offset {offset}; other place: {}", other.offset))
}

/// A bit, counted from the start of the flash, in a slot that holds a page.
pub(super) fn bit_of_a_page(rng: &mut Rng, cache: &Cache, flash: &dyn Device) -> Option<u64> {
    let (unit, _) = pages(rng, cache, flash)?;
    Some(unit.offset * 8 + telling_bit(rng, &read(flash, unit)))
}

/// As [`bit_of_a_page`], of the last two groups on flash, which lie beyond what the flash itself knows to
/// have been durable.
pub(super) fn bit_of_a_new_page(rng: &mut Rng, cache: &Cache, flash: &dyn Device) -> Option<u64> {
    let group = u64::from(cache.tier()?.group_pages);
    let rear = entresol_engine::inspect(flash).ok()?.directory?.rear.0;
    let position = rear.checked_sub(1 + rng.below(2 * group))?;
    let slot = SlotId((position % u64::from(cache.slots())) as u32);
    let unit = Unit { offset: cache.slot_offset(slot), length: cache.page_bytes().into() };
    Some(unit.offset * 8 + telling_bit(rng, &read(flash, unit)))
}

/// Flips a bit of a page on disk, or lets another page's write land in its place, too. Says what was done.
pub(super) fn damage_disk(
    rng: &mut Rng,
    page_bytes: u32,
    pages: u64,
    disk: &MemoryDevice,
    kind: FaultKind,
) -> String {
    let unit = |page| Unit { offset: disk_offset(PageId(page), page_bytes), length: page_bytes.into() };
    let page = rng.below(pages);
    let mut bytes = read(disk, unit(page));
    if kind == FaultKind::BitFlip {
        let bit = telling_bit(rng, &bytes);
        flip(&mut bytes, bit);
        write(disk, unit(page), &bytes);
        return format!("bit {bit} of page {page} on disk flipped");
    }
    let other = rng.below(pages);
    bytes = read(disk, unit(other));
    write(disk, unit(page), &bytes);
    format!("page {other} was written in the place of page {page} on disk, too")
}

/// What the places for pages on flash held at some time.
pub(super) struct Moment(Vec<(Unit, Vec<u8>)>);

impl Moment {
    pub(super) fn of(flash: &dyn Device, cache: &Cache) -> Self {
        let unit = |slot| Unit { offset: cache.slot_offset(SlotId(slot)), length: cache.page_bytes().into() };
        Self((0..cache.slots()).map(unit).map(|unit| (unit, read(flash, unit))).collect())
    }

    /// Undoes some of what was written to `flash` until `now`, or carries it out elsewhere, too.
    pub(super) fn bring_back(&self, rng: &mut Rng, kind: FaultKind, now: &Moment, flash: &dyn Device) {
        let put = |unit: Unit, bytes: &[u8]| {
            flash.write(unit.offset, bytes).expect("the cache fits on its device");
        };
        for ((unit, then), (_, written)) in self.0.iter().zip(&now.0).filter(|(old, new)| old.1 != new.1) {
            if rng.below(2) == 0 {
                continue;
            }
            if kind != FaultKind::LostWrite {
                put(now.0[rng.below(now.0.len() as u64) as usize].0, written);
            }
            if kind != FaultKind::DuplicatedWrite {
                put(*unit, then);
            }
        }
    }
}

/// Makes a sector of flash or disk unreadable: which device, what it is, and what that allows.
pub(super) fn make_unreadable(
    rng: &mut Rng,
    cache: &Cache,
    media: &Media,
    pages: u64,
) -> (&'static str, String, Rules) {
    let sector = |rng: &mut Rng, unit: Unit| unit.offset + rng.below(unit.length / 512) * 512;
    let redundant = || Rules { sound: false, ..Rules::crash(cache) };
    let block = BLOCK_BYTES as u64;
    if rng.below(3) == 0 {
        if rng.below(2) == 0 {
            let copy = Unit { offset: rng.below(label::COPIES) * label::COPY_STRIDE, length: block };
            media.disk.mark_unreadable(copy.offset, 512);
            return ("disk", format!("the label at {}", copy.offset), redundant());
        }
        let (page, length) = (PageId(rng.below(pages)), u64::from(cache.page_bytes()));
        let at = sector(rng, Unit { offset: disk_offset(page, cache.page_bytes()), length });
        media.disk.mark_unreadable(at, 512);
        return ("disk", format!("page {page} on disk, offset {at}"), Rules::silent_disk(cache));
    }
    let log = cache.tier().filter(|options| options.policy.placement() == Placement::Log);
    let (unit, rules) = match (rng.below(4), log) {
        (0, _) if cache.tier().is_some() => {
            let offset = rng.below(COPIES) * COPY_STRIDE;
            (Unit { offset, length: 512 }, redundant())
        }
        (1, Some(options)) => {
            let layout = layout_of(options);
            let offset = layout.segment_offset(rng.below(layout.segment_places()));
            (Unit { offset, length: layout.segment_bytes() }, redundant())
        }
        _ => match units(rng, cache, &media.flash) {
            Some((unit, _)) => (unit, Rules::silent(cache)),
            None => (Unit { offset: 0, length: 512 }, redundant()),
        },
    };
    let at = sector(rng, unit);
    media.flash.mark_unreadable(at, 512);
    ("flash", format!("flash offset {at}, of {} bytes at {}", unit.length, unit.offset), rules)
}

/// Damages all superblocks but the one in place `spared`.
pub(super) fn damage_superblocks(rng: &mut Rng, flash: &MemoryDevice, spared: u64) {
    let zeros = rng.below(2) == 0;
    for copy in (0..COPIES).filter(|copy| *copy != spared) {
        let mut bytes = vec![0u8; BLOCK_BYTES];
        if !zeros {
            bytes.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        }
        write(flash, Unit { offset: copy * COPY_STRIDE, length: BLOCK_BYTES as u64 }, &bytes);
    }
}
