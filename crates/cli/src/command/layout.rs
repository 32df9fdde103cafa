//! `entresol inspect layout`: the DRAM of a flash slot, from the types themselves.

use crate::failure::Failure;
use crate::output;
use entresol_core::{
    BATCH_PAGES_MAX, BlockKind, Cache, Config, FRAGMENT_BYTES, FragmentConfig, Mode, Placement, PolicyKind,
    Section, bytes_per_slot, fragment_region_bytes, fragment_sections, region_bytes, sections,
};
use entresol_engine::{FragmentOptions, TierOptions};
use entresol_format::segment::COPIES_OF_SLOTS;
use entresol_format::{BLOCK_BYTES, PageFormat};
use entresol_lab::report::{Column, Table, terminal, whole};
use std::fmt::Write;

/// Most bytes of DRAM for each flash slot (docs/DESIGN.md §3).
fn budget(policy: PolicyKind) -> usize {
    match (policy, policy.placement()) {
        // Ghosts included.
        (PolicyKind::Reuse, _) => 26,
        (PolicyKind::ReuseSlots, _) => 30,
        (PolicyKind::S3Fifo, _) => 30,
        (_, Placement::Log) => 16,
        (_, Placement::Slots) => 28,
    }
}

/// Most bytes of DRAM for each fragment of SCE on flash (docs/DESIGN.md §3, SCE §3.3).
const FRAGMENT_BUDGET: f64 = 76.0;
/// Most bytes of DRAM for each fragment of SCE on flash, with what proves its pages: twice the paper's.
const ENGINE_BUDGET: f64 = 152.0;
/// Pages of a large flash: 2 TiB.
const LARGE_FLASH_PAGES: u32 = 1 << 29;
/// Most bytes of DRAM for each slot of raw pages that survives a crash.
const KEPT_BUDGET: usize = 34;
/// SCE's figures are for a volume of so many times the flash, whose map has an entry for each fragment.
const VOLUME_TO_FLASH: u32 = 4;

/// SCE's cache of `slots` pages of 4 KiB.
fn fragments(slots: u32) -> FragmentConfig {
    FragmentConfig::sized(slots.saturating_mul(VOLUME_TO_FLASH), slots, 4096)
}

/// Bytes of DRAM for each further slot of `policy` with such pages, counted from the types. `None`: the
/// engine refuses them in every mode.
fn bytes_of(policy: PolicyKind, page_format: PageFormat) -> Option<usize> {
    let has_proofs = page_format.keeps_proofs(policy.placement());
    let is_raw = page_format == PageFormat::Raw;
    let keeps_slots =
        |mode| has_proofs && (is_raw || mode == Mode::WriteBack) && policy.may_keep_slots_in(mode);
    let options = |mode, slots| TierOptions {
        mode,
        page_format,
        keeps_slots: keeps_slots(mode),
        page_bytes: page_format.page_bytes().unwrap_or(4096) as u32,
        ..TierOptions::new(policy, slots)
    };
    let slots = 1 << 20;
    let possible = Mode::ALL.into_iter().any(|mode| options(mode, slots).validate().is_ok());
    let proofs = if has_proofs { size_of::<u32>() } else { 0 };
    possible.then(|| bytes_per_slot(policy) + proofs)
}

/// A row for each policy, and for SCE with these fragments.
fn policies(slots: u32, sce: &FragmentConfig) -> Table {
    let columns = vec![
        Column::words("policy"),
        Column::numbers("bytes a slot"),
        Column::numbers("allowed"),
        Column::numbers("raw pages"),
        Column::numbers("PostgreSQL's"),
        Column::numbers("region, bytes"),
        Column::numbers("% of the flash"),
    ];
    let none = || "–".to_owned();
    let row = |name: &str, [slot, allowed, raw, postgres]: [String; 4], bytes: usize| {
        let percent = format!("{:.2}", bytes as f64 / (f64::from(slots) * 4096.0) * 100.0);
        vec![name.to_owned(), slot, allowed, raw, postgres, whole(bytes as f64), percent]
    };
    let of_policy = |policy: PolicyKind| {
        let (slot, allowed) = (bytes_per_slot(policy).to_string(), budget(policy).to_string());
        let [raw, postgres] = [PageFormat::Raw, PageFormat::Postgres]
            .map(|format| bytes_of(policy, format).map_or_else(none, |bytes| bytes.to_string()));
        row(policy.name(), [slot, allowed, raw, postgres], region_bytes(&Config::new(policy, slots)))
    };
    let mut rows = PolicyKind::ALL.map(of_policy).to_vec();
    let pages = f64::from(sce.fragment_pages);
    let slot = (FRAGMENT_BYTES.0 + VOLUME_TO_FLASH as usize * FRAGMENT_BYTES.1) as f64 / pages;
    let allowed = format!("{:.2}", FRAGMENT_BUDGET / pages);
    let bytes = [format!("{slot:.2}"), allowed, none(), none()];
    rows.push(row(Cache::Fragments.name(), bytes, fragment_region_bytes(sce)));
    Table { columns, rows }
}

/// What the engine has in memory in addition to SCE's directory, and the sum for a large flash.
fn proofs(slots: u32, sce: &FragmentConfig) -> String {
    let engine = |pages: u32, fragments: u32| {
        FragmentOptions::of_pages(pages, 4096, PageFormat::Raw).with_fragments(sce.fragment_pages, fragments)
    };
    let each = |bytes: u64, fragments: u32| bytes as f64 / f64::from(fragments);
    let small = engine(slots, sce.slots);
    let large = FragmentConfig::sized(u32::MAX / 2, LARGE_FLASH_PAGES, 4096);
    let proofs = engine(LARGE_FLASH_PAGES, large.slots).proof_bytes();
    let directory = u64::from(large.slots)
        * (FRAGMENT_BYTES.0 as u64 + u64::from(VOLUME_TO_FLASH) * FRAGMENT_BYTES.1 as u64);
    format!(
        "\nThe engine has {} bytes more, {:.1} for each fragment on flash: what proves the version of the pages that it \
         reads, of {} of {} fragments. The others' are on flash. With {} fragments of 256 pages (2 TiB) it has {:.1} for \
         each, {:.1} with the directory (allowed: {ENGINE_BUDGET:.0}), {:.0} MiB in all, whatever share of the pages is on \
         flash, at each door.\n",
        whole(small.proof_bytes() as f64),
        each(small.proof_bytes(), small.slots),
        whole(small.proofs_kept().into()),
        whole(small.slots.into()),
        whole(large.slots.into()),
        each(proofs, large.slots),
        each(proofs + directory, large.slots),
        (proofs + directory) as f64 / f64::from(1 << 20)
    )
}

/// What slots that survive a crash cost in memory and in writes.
fn kept_slots(slots: u32) -> String {
    let keep = PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots());
    let bytes = |policy: PolicyKind| {
        let bytes = bytes_of(policy, PageFormat::Raw).unwrap_or_default();
        format!("{} {bytes}", policy.name())
    };
    let bytes = keep.map(bytes).collect::<Vec<_>>().join(", ");
    let usual = TierOptions::new(PolicyKind::Lc, slots);
    let options = TierOptions { page_format: PageFormat::Raw, keeps_slots: true, ..usual };
    let layout = options.layout();
    let page_bytes = u64::from(options.page_bytes);
    // All segments are written once while half of the ring of summaries is.
    let segments = layout.segments_of_slots() * COPIES_OF_SLOTS * layout.segment_bytes();
    let pages = layout.batch_places() / 2 * BATCH_PAGES_MAX as u64;
    let percent = |bytes: u64, of: u64| format!("{:.2} %", bytes as f64 / of as f64 * 100.0);
    format!(
        "\nSlots that survive a crash, with raw pages, in write-back: {bytes} bytes a slot (allowed: {KEPT_BUDGET}), and half a byte for the age of dirty pages, where these are copied to disk by \
         and by. Written to flash in addition to pages: a summary for each batch, {} of full batches of {BATCH_PAGES_MAX} pages (allowed: \
         2 %), and one block for a flush of n pages: {} for 1, {} for 8; segments of the directory, {} of full batches.\n",
        percent(BLOCK_BYTES as u64, BATCH_PAGES_MAX as u64 * page_bytes),
        percent(BLOCK_BYTES as u64, page_bytes),
        percent(BLOCK_BYTES as u64, 8 * page_bytes),
        percent(segments, pages * page_bytes),
    )
}

/// Prints the layout for `slots` flash slots.
pub fn run(slots: u32) -> Result<(), Failure> {
    let mut text = format!(
        "DRAM of the flash directory, index included, for {} slots of 4 KiB\n\n",
        whole(f64::from(slots))
    );
    let (sce, width) = (fragments(slots), output::widths().table);
    text.push_str(&terminal::render_table(&policies(slots, &sce), width));
    text.push_str(
        "\nRaw pages have their checksum in the directory: 4 bytes more. PostgreSQL's have it in their header. A dash: not possible\n\
         with this policy.\n",
    );
    text.push_str(&kept_slots(slots));
    for (policy, name) in [
        (PolicyKind::FaceGsc, "face, face-gr, face-gsc"),
        (PolicyKind::Lc, "lc (its history of departed pages is apart from the slots)"),
        (PolicyKind::Tac, "tac"),
        (PolicyKind::Flashcache, "flashcache (sets of 512 slots)"),
        (PolicyKind::Lru, "exadata, loc, glb, lru, fifo, clock"),
    ] {
        write!(text, "\nThe region of {name}, section by section\n\n")
            .expect("writing to a String cannot fail");
        let sections: Vec<_> = sections(&Config::new(policy, slots)).collect();
        text.push_str(&terminal::render_table(&sections_table(&sections), width));
    }
    write!(
        text,
        "\nThe region of sce, for {} fragments of {} pages below a volume of {VOLUME_TO_FLASH} times the flash, section by \
         section\n\n",
        whole(sce.slots.into()),
        sce.fragment_pages
    )
    .expect("writing to a String cannot fail");
    text.push_str(&terminal::render_table(&sections_table(&fragment_sections(&sce)), width));
    text.push_str(&proofs(slots, &sce));
    let blocks = BlockKind::ALL.map(BlockKind::name).join(", ");
    write!(
        text,
        "\n{blocks} have no directory of slots: they are flash translation layers, whose maps are their directories \
         (`entresol reproduce rw` has their memory).\n"
    )
    .expect("writing to a String cannot fail");
    output::print(&text)
}

fn sections_table(sections: &[Section]) -> Table {
    let columns = vec![
        Column::words("section"),
        Column::numbers("entries"),
        Column::numbers("bytes each"),
        Column::numbers("bytes"),
    ];
    let used = sections.iter().filter(|section| section.entries > 0);
    let rows = used
        .map(|s| {
            let numbers = [s.entries, s.entry_bytes, s.entries * s.entry_bytes].map(|n| whole(n as f64));
            std::iter::once(s.name.to_owned()).chain(numbers).collect()
        })
        .collect();
    Table { columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_keeps_to_its_budget() {
        for policy in PolicyKind::ALL {
            assert!(bytes_per_slot(policy) <= budget(policy), "{}", policy.name());
            let raw = bytes_of(policy, PageFormat::Raw).unwrap_or_default();
            assert!(!policy.may_keep_slots() || raw <= KEPT_BUDGET, "{}", policy.name());
        }
    }

    /// Of every size of flash, page and volume, except small caches, which may have a megabyte of proofs.
    #[test]
    fn fragments_keep_to_their_budget_with_their_proofs() {
        for page_bytes in [4096, 8192, 16384, 32768] {
            for mib in [1 << 14, 1 << 16, 100_000, 1 << 21] {
                for format in [PageFormat::Native, PageFormat::Raw] {
                    let pages = u32::try_from((mib << 20) / u64::from(page_bytes)).unwrap();
                    let options = FragmentOptions::of_pages(pages, page_bytes, format);
                    let fragments = f64::from(options.slots);
                    let directory = (FRAGMENT_BYTES.0 + VOLUME_TO_FLASH as usize * FRAGMENT_BYTES.1) as f64;
                    let sum = options.proof_bytes() as f64 / fragments + directory;
                    assert!(sum <= ENGINE_BUDGET, "{mib} MiB, pages of {page_bytes}: {sum}");
                }
            }
        }
    }
}
