//! What a flash device does to its content without a word: bits flip, writes are lost, go elsewhere, or happen twice.
//!
//! Invariant: one write is affected at a time, a whole one as the engine makes them (a superblock, a segment, a group, a
//! page, a summary), wherever it lies.

use super::fault::FaultKind;
use crate::machine::Media;
use entresol_core::{Config, Placement, SlotId};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::TierOptions;
use entresol_format::superblock::{COPIES, COPY_STRIDE};
use entresol_format::{BLOCK_BYTES, Layout};
use entresol_runtime::rng::Rng;

/// What a write covers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    offset: u64,
    length: u64,
}

/// The silent kinds.
pub(super) const SILENT: [FaultKind; 4] =
    [FaultKind::BitFlip, FaultKind::LostWrite, FaultKind::MisdirectedWrite, FaultKind::DuplicatedWrite];

/// A place that the engine writes to, of one of the kinds there are, and another of the same kind.
fn units(rng: &mut Rng, options: &TierOptions) -> (Unit, Unit) {
    let config = Config {
        policy: options.policy,
        slots: options.slots,
        group_pages: options.group_pages,
        staging_groups: options.staging_groups,
        dirty_permille_max: options.dirty_permille_max,
        history: options.history,
        ..Config::new(options.policy, options.slots)
    };
    let layout = Layout::new(&config, options.page_bytes, options.segment_entries);
    let block = BLOCK_BYTES as u64;
    let page = |rng: &mut Rng| Unit {
        offset: layout.slot_offset(SlotId(rng.below(options.slots.into()) as u32)),
        length: options.page_bytes.into(),
    };
    if options.policy.placement() == Placement::Slots {
        return (page(rng), page(rng));
    }
    match rng.below(8) {
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
        2 | 3 => (page(rng), page(rng)),
        4 => {
            let mut summary =
                || Unit { offset: layout.summary_offset(rng.below(layout.groups())), length: block };
            (summary(), summary())
        }
        _ => {
            let mut group = || Unit {
                offset: layout.group_offset(rng.below(layout.groups())),
                length: layout.group_bytes(),
            };
            (group(), group())
        }
    }
}

fn read(device: &MemoryDevice, unit: Unit) -> Vec<u8> {
    let mut bytes = vec![0; unit.length as usize];
    device.read(unit.offset, &mut bytes).expect("the cache fits on its device");
    bytes
}

fn write(device: &MemoryDevice, unit: Unit, bytes: &[u8]) {
    device.write(unit.offset, bytes).expect("the cache fits on its device");
}

/// Does it to the flash of `media`; `before` is an earlier state of it. Says what was done; `None`: nothing has changed.
pub(super) fn damage(
    rng: &mut Rng,
    options: &TierOptions,
    media: &Media,
    before: &MemoryDevice,
    kind: FaultKind,
) -> Option<String> {
    let flash = &media.flash;
    let (unit, other) = units(rng, options);
    let Unit { offset, length } = unit;
    let (now, then) = (read(flash, unit), read(before, unit));
    let changed = match kind {
        FaultKind::BitFlip => {
            let mut bytes = now.clone();
            let bit = rng.below(length * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            write(flash, unit, &bytes);
            return Some(format!("bit {bit} of {length} bytes at flash offset {offset} flipped"));
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
