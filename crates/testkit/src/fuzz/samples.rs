//! The corpus: images of a small store after a shutdown and after crashes, and the structures in them. `cargo
//! run -p entresol-testkit --example corpus` writes it to `fuzz/corpus`. Run it again after a change of a
//! format.

use super::images::Images;
use super::recover::{RESEAL, SYSTEMS};
use crate::{Bank, Campaign};
use entresol_device::Device;
use entresol_format::layout::Layout;
use entresol_format::superblock::{COPIES, COPY_STRIDE};
use entresol_format::{BLOCK_BYTES, segment, summary};

/// For whole images: pages with a few rows each.
const SMALL: Bank = Bank { clients: 2, accounts: 6, ..Bank::USUAL };
/// For structures: enough pages that groups are overwritten.
const LARGE: Bank = Bank { clients: 2, accounts: 300, ..Bank::USUAL };

/// Maximum size of an image that is kept.
const IMAGES_BYTES_MAX: usize = 28 << 10;

/// Target, name and bytes of each file.
///
/// # Panics
/// If the store reports an error.
pub fn samples() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut samples = Vec::new();
    samples.extend(super::trace::samples().into_iter().map(|(name, bytes)| ("trace", name, bytes)));
    samples.extend(super::nbd::samples().into_iter().map(|(name, bytes)| ("nbd", name, bytes)));
    for (number, system) in SYSTEMS.into_iter().enumerate() {
        let campaign = Campaign { stride: 3, threads: 1, ..Campaign::new(system, 7, 4) };
        let states = campaign.copies(&SMALL).expect("a sound store lives to its end");
        let choice = number as u8 | if number % 2 == 0 { RESEAL } else { 0 };
        let images = states.iter().map(|(at, media, _)| (at, Images::of(media, choice)));
        // In the middle of the life, as late as the size allows.
        if let Some((at, images)) =
            images.filter(|(_, images)| images.encode().len() < IMAGES_BYTES_MAX).last()
        {
            samples.push(("recover", format!("{system}-{at}"), images.encode()));
            // The notes in these logs are of pages on disk and of pages on flash.
            if matches!(system.name(), "disk-only" | "face-gsc") {
                let log = Images {
                    extents: images.extents.into_iter().filter(|it| it.0 == 1).collect(),
                    choice: 1,
                };
                samples.push(("wal", format!("{system}-{at}"), log.encode()));
            }
        }
        let Some(options) = system.tier_options(0) else { continue };
        let campaign = Campaign { stride: 100, threads: 1, ..Campaign::new(system, 7, 20) };
        let states = campaign.copies(&LARGE).expect("a sound store lives to its end");
        if let Some((_, media, _)) = states.last() {
            structures(&media.flash, &options.layout(), options.group_pages, system.name(), &mut samples);
            samples.push(("label", system.name().to_owned(), trimmed(read(&media.disk, 0, BLOCK_BYTES))));
        }
    }
    samples
}

fn read(device: &dyn Device, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read(offset, &mut bytes).expect("a structure lies on its device, and memory does not fail");
    bytes
}

/// Without the zeros at the end: the targets add them.
fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

/// The structures on a flash device: all superblocks, which are written in turn, and two summaries.
fn structures(
    flash: &dyn Device,
    layout: &Layout,
    group_pages: u32,
    name: &str,
    samples: &mut Vec<(&'static str, String, Vec<u8>)>,
) {
    for copy in 0..COPIES {
        let block = read(flash, copy * COPY_STRIDE, BLOCK_BYTES);
        samples.push(("superblock", format!("{name}-{copy}"), trimmed(block)));
    }
    if layout.segment_places() == 0 {
        return;
    }
    for group in 0..2 {
        let block = read(flash, layout.summary_offset(group, layout.summary_copies() - 1), BLOCK_BYTES);
        if block.starts_with(&summary::MAGIC) {
            let mut input = vec![group_pages as u8];
            input.extend(trimmed(block));
            samples.push(("summary", format!("{name}-{group}"), input));
        }
    }
    let bytes = read(flash, layout.segment_offset(0), layout.segment_bytes() as usize);
    if bytes.starts_with(&segment::MAGIC) {
        samples.push(("segment", name.to_owned(), trimmed(bytes)));
    }
    samples.push(("page", name.to_owned(), trimmed(read(flash, layout.pages_offset(0), BLOCK_BYTES))));
}
