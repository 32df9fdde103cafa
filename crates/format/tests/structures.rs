//! Every structure is read back as written. Damaged, foreign or impossible blocks are refused without a
//! panic.

use entresol_core::{
    Config, Costs, Directory, DurableBatches, Forgotten, Lsn, Mode, PageId, Placement, PolicyKind, Position,
    SlotId, SlotView,
};
use entresol_format::label::{Label, Session};
use entresol_format::losses::Losses;
use entresol_format::segment::{self, ENTRY_BYTES};
use entresol_format::summary::{self, Entry, Summary};
use entresol_format::superblock::Superblock;
use entresol_format::{
    BLOCK_BYTES, BlockFault, Layout, LogPosition, PageFormat, StoredBase, Uuid, block, page,
};
use entresol_runtime::rng::Rng;

fn superblock() -> Superblock {
    Superblock {
        version: 2,
        sequence: 77,
        cache: Uuid::from_random(1, 2),
        disk: Uuid::from_random(3, 4),
        epoch: 5,
        epoch_nonce: 0x0123_4567_89ab_cdef,
        previous_nonce: 0xfedc_ba98_7654_3210,
        page_bytes: 8192,
        page_format: PageFormat::Raw,
        slots: 6400,
        group_pages: 64,
        staging_groups: 4,
        segment_entries: 640,
        objects: 0,
        policy: PolicyKind::FaceGsc,
        mode: Mode::WriteThrough,
        clean: true,
        directory: true,
        begun: true,
        released: true,
        front: Position(64),
        rear: Position(3000),
        durable: Position(2944),
        unsure_from: Position(70),
        unsure_to: Position(80),
        session_rear: Position(640),
        segment_first: 0,
        segment_next: 4,
        losses: Losses::default(),
        marks: [0x1234, 0x5678],
        costs: Costs::of_times_ns([35_000, 16_000, 160_000, 17_000, 385_000, 400_000]),
        renewal: 6,
        log: LogPosition { timeline: 2, lsn: 0x5680, digest: 0x2122_2324_2526_2728 },
        mark_digests: [0x3132_3334_3536_3738, 0x4142_4344_4546_4748],
        keeps_slots: false,
        batches: 0x2152_5354_5556_5758,
        keeps_bases: true,
        checkpoint: 0x2162_6364_6566_6768,
        horizon: 0x2162_6364_6566_6700,
        based_from: Position(0x0172_7374_7576),
    }
}

fn label() -> Label {
    Label {
        sequence: 9,
        disk: Uuid::from_random(3, 4),
        cache: Uuid::NIL,
        epoch: 6,
        epoch_nonce: 0x1357_9bdf_0246_8ace,
        page_bytes: 4096,
        dirty_possible: true,
        log: Uuid::from_random(5, 6),
        session: Session { number: 7, nonce: 0x0f0f_f0f0_3c3c_c3c3 },
        failed_epoch: 5,
        failed_nonce: 0x2468_ace0_1357_9bdf,
        renewal: 7,
        lost: true,
    }
}

fn blocks() -> Vec<(&'static str, Vec<u8>)> {
    let mut out = Vec::new();
    let mut bytes = vec![0xee; BLOCK_BYTES];
    superblock().encode(&mut bytes);
    out.push(("superblock", bytes.clone()));
    label().encode(&mut bytes);
    out.push(("label", bytes.clone()));
    summary_block(&mut bytes);
    out.push(("summary", bytes.clone()));
    let cache = Uuid::from_random(1, 2);
    let (stale, stale_incomplete) = (5, true);
    let (since, durable) =
        (7, DurableBatches { from: 4, below: 12, under_way: [9, 12, 12, 12, 12, 12, 12, 12] });
    let head = segment::Head {
        segment: 3,
        cache,
        entries: 640,
        checksum: 17,
        stale,
        stale_incomplete,
        since,
        durable,
    };
    head.encode(&mut bytes);
    out.push(("segment", bytes));
    out
}

fn entry(at: usize) -> Option<Entry> {
    let at = at as u64;
    (at % 5 != 2).then_some(Entry {
        page: PageId::new(7, at as u32),
        lsn: Lsn(at * 1000),
        checksum: at as u32 ^ 0xdead,
        dirty: at.is_multiple_of(2),
        base: at.is_multiple_of(4).then_some(StoredBase::of(at << 20)),
    })
}

const HEAD: summary::Head = summary::Head {
    log: LogPosition { timeline: 3, lsn: 0x0102_0304_0506, digest: 0x1112_1314_1516_1718 },
    version: 2,
    group: 41,
    cache: Uuid([7; 16]),
    epoch: 3,
    durable: Position(2560),
    front: Position(1280),
    ends: 1 << 9 | 1 << 40,
    written: 64,
    flushed: 10,
    revision: 3,
};

fn summary_block(bytes: &mut [u8]) {
    summary::encode(bytes, &HEAD, (0..64).map(entry), &RECORDS);
}

const RECORDS: [Forgotten; 2] = [
    Forgotten { first: PageId(8), last: PageId(8), below: Position(2000), after: 0 },
    Forgotten { first: PageId(9), last: PageId(u64::MAX), below: Position(2624), after: 0 },
];

fn accepts(kind: &str, bytes: &[u8]) -> Result<(), BlockFault> {
    match kind {
        "superblock" => Superblock::decode(bytes).map(drop),
        "label" => Label::decode(bytes).map(drop),
        "summary" => Summary::decode(bytes, 64).map(drop),
        _ => segment::Head::decode(bytes).map(drop),
    }
}

#[test]
fn everything_comes_back_as_written() {
    let blocks = blocks();
    assert_eq!(Superblock::decode(&blocks[0].1), Ok(superblock()));
    assert_eq!(Label::decode(&blocks[1].1), Ok(label()));
    let summary = Summary::decode(&blocks[2].1, 64).unwrap();
    assert_eq!(summary.head, HEAD);
    assert!(summary.entries().eq((0..64).map(entry)));
    assert!(summary.stale().eq(RECORDS));
    assert!(HEAD.unsure_parts().eq([10..41, 41..64]));
    let head = segment::Head::decode(&blocks[3].1).unwrap();
    assert_eq!((head.segment, head.entries, head.checksum), (3, 640, 17));
    let views = (0..50u64).map(|at| {
        let (valid, dirty) = (at.is_multiple_of(3), at.is_multiple_of(7));
        (at % 11 != 0).then_some(SlotView { page: PageId(at << 33 | at), valid, dirty, proof: at as u32 })
    });
    let mut bytes = vec![0xee; 50 * ENTRY_BYTES];
    for (view, bytes) in views.clone().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
        segment::encode_entry(bytes, view);
    }
    assert!(segment::decode_entries(&bytes, ENTRY_BYTES).eq(views.clone()));
    assert!(segment::decode_bases(&bytes, ENTRY_BYTES).all(|base| base.is_none()));
    let base = |at: usize| at.is_multiple_of(7).then_some(1000 + at as u64);
    for (at, bytes) in bytes.chunks_exact_mut(ENTRY_BYTES).enumerate() {
        base(at).into_iter().for_each(|base| segment::add_base(bytes, base));
    }
    let bases = (0..50).map(|at| base(at).map(StoredBase::of));
    assert!(segment::decode_bases(&bytes, ENTRY_BYTES).eq(bases));
    // Position 0 is empty: there is no page with that base.
    assert!(segment::decode_entries(&bytes, ENTRY_BYTES).eq(views));
}

#[test]
fn a_full_summary_of_the_largest_group_fits() {
    let mut bytes = vec![0; BLOCK_BYTES];
    let record =
        |page| Forgotten { first: PageId(page), last: PageId(page + 1), below: Position(1), after: 0 };
    let stale: Vec<Forgotten> = (0..summary::stale_max(128) as u64).map(record).collect();
    assert!(stale.len() > 30);
    let head = summary::Head { written: 128, ..HEAD };
    summary::encode(&mut bytes, &head, (0..128).map(entry), &stale);
    let summary = Summary::decode(&bytes, 128).unwrap();
    assert!(summary.entries().eq((0..128).map(entry)));
    assert!(summary.stale().eq(stale));
    assert!(Summary::decode(&bytes, 64).is_err(), "the group size is part of the shape");
}

#[test]
fn every_flipped_bit_is_noticed() {
    for (kind, mut bytes) in blocks() {
        accepts(kind, &bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(accepts(kind, &bytes).is_err(), "{kind}: bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn foreign_blank_short_and_unknown_blocks_are_told_apart() {
    for (kind, bytes) in blocks() {
        assert_eq!(accepts(kind, &[0; BLOCK_BYTES]), Err(BlockFault::Blank));
        for (other, _) in blocks().iter().filter(|(other, _)| *other != kind) {
            assert!(matches!(accepts(other, &bytes), Err(BlockFault::Magic { .. })), "{kind} as {other}");
        }
        assert!(matches!(accepts(kind, &bytes[..2048]), Err(BlockFault::Length { .. })), "{kind}");
        assert!(accepts(kind, &bytes[..16]).is_err());
        let mut newer = bytes.clone();
        newer[8] = 3;
        let refused = accepts(kind, &newer).unwrap_err();
        assert_eq!(refused, BlockFault::Version { expected: 2, found: 3 });
        assert!(refused.to_string().contains("use the release that wrote it"));
    }
}

#[test]
fn impossible_values_under_a_right_checksum_are_refused() {
    type Change = (&'static str, fn(&mut Superblock));
    let changes: [Change; 11] = [
        ("page size", |s| s.page_bytes = 5000),
        ("slots", |s| s.slots = 1),
        ("slots", |s| s.group_pages = 0),
        ("slots", |s| s.staging_groups = 0),
        ("segment entries", |s| s.segment_entries = 0),
        ("segment entries", |s| s.segment_entries = 63),
        ("front", |s| s.rear = Position(64 + 6401)),
        ("front", |s| s.front = Position(3008)),
        ("position", |s| s.durable = Position(2945)),
        ("position", |s| s.rear = Position(u64::MAX)),
        ("segments", |s| s.segment_next = u64::MAX),
    ];
    let mut bytes = vec![0; BLOCK_BYTES];
    for (field, change) in changes {
        let mut changed = superblock();
        change(&mut changed);
        changed.encode(&mut bytes);
        match Superblock::decode(&bytes) {
            Err(BlockFault::Field { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    for (offset, field) in [(92, "policy"), (96, "mode")] {
        superblock().encode(&mut bytes);
        bytes[offset] = 99;
        block::seal(&mut bytes, *b"ENTRSUPR", 1);
        match Superblock::decode(&bytes) {
            Err(BlockFault::Field { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn a_cache_whose_pages_do_not_name_their_slots_is_of_an_older_release() {
    let mut bytes = vec![0; BLOCK_BYTES];
    let through = Mode::WriteThrough;
    let slots = Superblock { policy: PolicyKind::Tac, mode: through, keeps_bases: false, ..superblock() };
    slots.encode(&mut bytes);
    assert_eq!(Superblock::decode(&bytes), Ok(slots));
    bytes[100] &= !8;
    block::seal(&mut bytes, *b"ENTRSUPR", slots.sequence);
    assert_eq!(Superblock::decode(&bytes), Err(BlockFault::Version { expected: 2, found: 1 }));
}

#[test]
fn a_cache_whose_table_of_objects_has_one_copy_is_of_an_older_release() {
    let mut bytes = vec![0; BLOCK_BYTES];
    let with_objects = Superblock { policy: PolicyKind::FaceGsc, objects: 7, ..superblock() };
    with_objects.encode(&mut bytes);
    assert_eq!(Superblock::decode(&bytes), Ok(with_objects));
    bytes[100] &= !32;
    block::seal(&mut bytes, *b"ENTRSUPR", with_objects.sequence);
    assert_eq!(Superblock::decode(&bytes), Err(BlockFault::Version { expected: 2, found: 1 }));
}

#[test]
fn arbitrary_content_under_a_right_checksum_never_panics() {
    let mut rng = Rng::new(5);
    let mut accepted = 0;
    for round in 0..20_000 {
        let (kind, mut bytes) = blocks().swap_remove(round % 4);
        for _ in 0..1 + rng.below(4) {
            let range = if rng.below(2) == 0 { 140 } else { 4064 };
            let at = 32 + rng.below(range) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        let magic = <[u8; 8]>::try_from(&bytes[..8]).unwrap();
        block::seal(&mut bytes, magic, rng.next_u64() >> rng.below(64));
        accepted += u32::from(accepts(kind, &bytes).is_ok());
        if let Ok(found) = Superblock::decode(&bytes) {
            let (config, directory) = (found.config(), found.directory_kind());
            let layout = Layout::new(
                &config,
                directory,
                found.page_format,
                found.page_bytes,
                found.segment_entries,
                0,
            );
            assert!(layout.device_bytes() > 0);
        }
        if let Ok(summary) = Summary::decode(&bytes, 64) {
            assert_eq!(summary.entries().len(), 64);
            assert!(summary.stale().count() <= summary::stale_max(64));
        }
    }
    assert!(accepted > 1000);
}

#[test]
fn a_page_is_proved_by_content_id_and_generation() {
    let mut bytes = vec![3; 8192];
    page::seal(&mut bytes, PageId::new(1, 2), Position(99));
    assert_eq!(page::verify(&bytes, PageId::new(1, 2), Some(Position(99))), Ok(()));
    assert_eq!(page::verify(&bytes, PageId::new(1, 2), None), Ok(()));
    let other = page::verify(&bytes, PageId::new(1, 3), None);
    assert!(matches!(other, Err(page::PageFault::Identity { .. })));
    let older = page::verify(&bytes, PageId::new(1, 2), Some(Position(98)));
    assert!(matches!(older, Err(page::PageFault::Generation { .. })));
    for at in [4, 100, 8191] {
        bytes[at] ^= 1;
        assert!(matches!(
            page::verify(&bytes, PageId::new(1, 2), None),
            Err(page::PageFault::Checksum { .. })
        ));
        bytes[at] ^= 1;
    }
}

#[test]
fn nothing_on_flash_overlaps() {
    let all = PolicyKind::ALL.into_iter().flat_map(|policy| PageFormat::ALL.map(|format| (policy, format)));
    let kept = PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots_in(Mode::WriteThrough));
    let kept = kept.map(|policy| (policy, PageFormat::Raw, Directory::SegmentsAtShutdown));
    let all = all.map(|(policy, format)| (policy, format, policy.directory())).chain(kept);
    for (policy, page_format, directory) in all {
        let config =
            Config { proofs: page_format.keeps_proofs(policy.placement()), ..Config::new(policy, 6400) };
        // Only a log has a table of objects.
        let objects = if policy.placement() == Placement::Log { 7 } else { 0 };
        let layout = Layout::new(&config, directory, page_format, 8192, 640, objects);
        let page = 8192;
        let mut areas: Vec<(u64, u64)> = (0..4).map(|copy| (copy * (16 << 10), BLOCK_BYTES as u64)).collect();
        areas
            .extend((0..layout.segment_places()).map(|k| (layout.segment_offset(k), layout.segment_bytes())));
        areas
            .extend((0..layout.directory_blocks()).map(|k| (layout.directory_offset(k), BLOCK_BYTES as u64)));
        if objects > 0 {
            areas.push((layout.objects_offset(), objects * BLOCK_BYTES as u64));
        }
        if layout.temperatures_bytes() > 0 {
            areas.extend((0..2).map(|k| (layout.temperatures_offset(k), layout.temperatures_bytes())));
            assert_eq!(layout.temperatures_offset(1), layout.temperatures_offset(3));
        }
        areas.extend((0..6400).map(|slot| (layout.slot_offset(SlotId(slot)), page)));
        if policy.placement() == Placement::Log {
            areas.extend((0..layout.groups()).flat_map(|group| {
                (0..layout.summary_copies())
                    .map(move |copy| (layout.summary_offset(group, copy), BLOCK_BYTES as u64))
            }));
            let group = layout.groups() + 3;
            assert_eq!(layout.pages_offset(group), layout.slot_offset(layout.slot(Position(group * 64))));
            assert_eq!(layout.segment_offset(1), layout.segment_offset(1 + layout.segment_places()));
        }
        areas.sort_unstable();
        for pair in areas.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
        }
        let last = areas.last().unwrap();
        assert_eq!(last.0 + last.1, layout.device_bytes());
        assert!(areas.iter().all(|(offset, _)| offset % 4096 == 0));
    }
}
