//! Slots that survive a crash: what an open finds, what damage it bears, and what it refuses.

mod kept;
mod support;

use entresol_core::{BATCHES_MAX, DurableBatches, OlderSlot, PageId, PolicyKind, SlotId, SlotView};
use entresol_device::{Device, MemoryDevice};
use entresol_engine::{DiskLayer, DurableGroup, FlashTier, Layer, Mode, TierError, TierOptions};
use entresol_format::batch::{self, Changes, Head, Placed};
use entresol_format::{BLOCK_BYTES, checksum, page, segment};
use kept::{
    Devices, PAGES, after_a_crash, block_of, crashed, create, flip, free_slots, kept, on_flash, summaries,
    write_all,
};
use std::time::Duration;
use support::{PAGE, build, simulate, small, version, victim};

#[test]
fn dirty_pages_are_found_after_a_crash() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots()) {
        simulate(1, move || {
            let options = kept(policy);
            let (flash, disk) = crashed(&options, 5);
            let (tier, report) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
            assert!(report.warm && report.notices.is_empty(), "{report:?}");
            assert!(report.dirty > PAGES / 2, "{}: {report:?}", policy.name());
            assert!(on_flash(&tier, 5) > PAGES / 2, "{}", policy.name());
            // The disk alone has older versions: it is refused, and after a detach it has all of them.
            assert!(matches!(DiskLayer::open(disk.clone(), PAGE as u32), Err(TierError::Refused(_))));
            tier.close().unwrap();
            let written = entresol_engine::detach(flash, disk.clone()).unwrap().pages_written;
            assert!(written > 0, "{}", policy.name());
            let layer = DiskLayer::open(disk, PAGE as u32).unwrap();
            let mut buffer = vec![0; PAGE];
            for page in (0..PAGES).map(PageId) {
                layer.fetch(page, &mut buffer).unwrap();
                assert_eq!(version(page, &buffer), 5, "{}: page {page}", policy.name());
            }
        });
    }
}

#[test]
fn one_damaged_block_of_each_kind_changes_nothing() {
    simulate(2, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let (flash, disk) = crashed(&options, 9);
        let is_written = |number: &u64| block_of(layout.batch_offset(*number), &*flash)[0] != 0;
        let written: Vec<u64> = (0..layout.batch_places()).filter(is_written).collect();
        assert!(written.len() > 30, "{} batches", written.len());
        // Without an older copy a segment that is damaged is one that was never written: the ring is long.
        let of_batches = written.iter().map(|place| layout.batch_offset(*place));
        let of_segments = (0..layout.segments_of_slots()).map(|at| layout.slots_segment_offset(at, at % 2));
        let mut used = 0;
        for offset in of_batches.chain(of_segments) {
            let (flash, disk) = after_a_crash(&(flash.clone(), disk.clone()));
            flip(offset, &*flash);
            let (tier, report) = FlashTier::open(flash, disk, options.clone()).unwrap();
            assert!(on_flash(&tier, 9) > PAGES / 2);
            used += report.segments_read;
        }
        assert!(used > 0, "segments were written");
    });
}

#[test]
fn two_damaged_summaries_are_refused_with_what_to_do() {
    simulate(3, || {
        let options = kept(PolicyKind::ReuseSlots);
        let layout = options.layout();
        let (flash, disk) = crashed(&options, 1);
        [0, 1].into_iter().for_each(|number| flip(layout.batch_offset(number), &*flash));
        let Err(TierError::Refused(why)) = FlashTier::open(flash, disk, options) else {
            panic!("the cache is opened without two summaries")
        };
        let told = ["the summary of batch 0", "nor what another one repeats", "restore the database"];
        assert!(told.iter().all(|part| why.contains(part)), "{why}");
    });
}

/// A checkpoint says which batches there are: if the newest summaries are gone, that is not taken for writes
/// that power has cut off.
#[test]
fn newest_summaries_that_are_lost_are_missed() {
    simulate(6, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let (flash, disk) = crashed(&options, 2);
        let is_written = |number: &u64| block_of(layout.batch_offset(*number), &*flash)[0] != 0;
        let last = (0..layout.batch_places()).filter(is_written).max().unwrap();
        assert!(last > 10 && last + 1 < layout.batch_places(), "{last}");
        let blank = vec![0; BLOCK_BYTES];
        (last - 3..=last).for_each(|number| flash.write(layout.batch_offset(number), &blank).unwrap());
        let refused = FlashTier::open(flash, disk, options).map(drop).unwrap_err().to_string();
        assert!(refused.contains("the summary of batch"), "{refused}");
    });
}

/// The ring of summaries is overwritten many times, while segments are written, and power fails now and then.
#[test]
fn many_batches_go_round_the_ring() {
    simulate(4, || {
        let options = kept(PolicyKind::Lru);
        let (mut tier, mut devices) = create(&options);
        for number in 1..=40 {
            write_all(&tier, number);
            if number % 8 == 0 {
                devices = after_a_crash(&devices);
                drop(tier);
                let (flash, disk) = devices.clone();
                tier = FlashTier::open(flash, disk, options.clone()).unwrap().0;
                assert!(on_flash(&tier, number) > PAGES / 2);
            }
        }
        let report = entresol_engine::check(&*devices.0, Some(devices.1.clone())).unwrap();
        assert!(report.is_sound() && report.pages > PAGES / 2, "{report}");
    });
}

/// A page of a torn batch came from a slot that an earlier batch had freed. That a later batch uses it, too,
/// does not make the torn one durable.
#[test]
fn a_slot_that_another_batch_has_freed_is_no_evidence() {
    simulate(7, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let (flash, disk) = crashed(&options, 2);
        let summaries = summaries(&options, &*flash);
        let free = free_slots(&options, &summaries);
        let last = summaries.last().expect("there are batches").head;
        let from = OlderSlot { slot: free[0], leaves: true };
        let placed = |page, slot, from| {
            let page = PageId(page);
            let placed = Placed { page, slot, from, checksum: 1, generation: 1, dirty: true };
            Changes { pages: [placed].into_iter().collect(), ..Changes::default() }
        };
        for (number, changes) in
            [(last.number + 1, placed(1, free[1], Some(from))), (last.number + 2, placed(2, free[0], None))]
        {
            let mut block = vec![0; BLOCK_BYTES];
            let head = Head { number, durable: last.number + 1, ..last };
            batch::encode(&mut block, &head, &changes, None);
            flash.write(layout.batch_offset(number), &block).unwrap();
        }
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        assert_eq!(report.torn, 2, "{report:?}");
        assert!(on_flash(&tier, 2) > PAGES / 2);
    });
}

/// What a power failure leaves of a second version of all pages, in batches that no checkpoint decides.
fn undecided(options: &TierOptions) -> Devices {
    let (tier, devices) = create(options);
    write_all(&tier, 1);
    for page in (0..PAGES).map(PageId) {
        tier.evict(victim(page, 2, true, true), &build(page, 2)).unwrap();
    }
    entresol_runtime::sleep(Duration::from_secs(1));
    after_a_crash(&devices)
}

/// Power fails while an open writes all segments anew. From then on the damage of a batch that shows in those
/// that were written is damage.
#[test]
fn what_shows_in_segments_of_an_open_that_was_cut_off_is_not_taken_for_cut_off() {
    simulate(12, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let (flash, disk) = undecided(&options);
        let (before, _) = after_a_crash(&(flash.clone(), disk.clone()));
        let (tier, report) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
        assert!(report.pages_verified > 0, "nothing was undecided: {report:?}");
        let (flash, disk) = after_a_crash(&(flash, disk));
        drop(tier);
        // The others were not written yet.
        let mut bytes = vec![0; layout.segment_bytes() as usize];
        for number in 1..layout.segments_of_slots() {
            for offset in [0, 1].map(|copy| layout.slots_segment_offset(number, copy)) {
                before.read(offset, &mut bytes).unwrap();
                flash.write(offset, &bytes).unwrap();
            }
        }
        let mut buffer = vec![0; PAGE];
        let mut damaged = 0;
        for slot in (0..options.slots).map(SlotId) {
            let (flash, disk) = after_a_crash(&(flash.clone(), disk.clone()));
            flip(layout.slot_offset(slot), &*flash);
            let (tier, _) = FlashTier::open(flash, disk, options.clone()).unwrap();
            for page in (0..PAGES).map(PageId) {
                match tier.fetch(page, &mut buffer) {
                    Ok(_) => assert_eq!(version(page, &buffer), 2, "slot {slot:?}, page {page}"),
                    Err(error) => {
                        assert!(matches!(error, TierError::Damaged { .. }), "{error}");
                        damaged += 1;
                    }
                }
            }
        }
        assert!(damaged > PAGES / 2, "{damaged}");
    });
}

/// The newest batches are undecided until an open has proved their pages. From then on their damage is
/// damage.
#[test]
fn what_an_open_has_served_is_not_taken_for_cut_off() {
    simulate(8, || {
        let options = kept(PolicyKind::Lc);
        let (flash, disk) = undecided(&options);
        // Two blocks tell of the newest one, so the open need not write all segments anew.
        let layout = options.layout();
        let last = summaries(&options, &*flash).pop().expect("there are batches");
        let head = Head { number: last.head.number + 1, ..last.head };
        let mut block = vec![0; BLOCK_BYTES];
        batch::encode(&mut block, &head, &Changes::default(), Some((last.head.number, &last.changes)));
        flash.write(layout.batch_offset(head.number), &block).unwrap();
        let (tier, report) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
        assert!(report.pages_verified > 0, "nothing was undecided: {report:?}");
        let mut buffer = vec![0; PAGE];
        let served: Vec<u64> = (0..PAGES)
            .map(PageId)
            .map(|page| {
                tier.fetch(page, &mut buffer).unwrap();
                version(page, &buffer)
            })
            .collect();
        let (flash, disk) = after_a_crash(&(flash, disk));
        drop(tier);
        for slot in (0..options.slots).map(SlotId) {
            let (flash, disk) = after_a_crash(&(flash.clone(), disk.clone()));
            flip(layout.slot_offset(slot), &*flash);
            let (tier, _) = FlashTier::open(flash, disk, options.clone()).unwrap();
            for page in (0..PAGES).map(PageId) {
                match tier.fetch(page, &mut buffer) {
                    Ok(_) => assert!(version(page, &buffer) >= served[page.0 as usize]),
                    Err(error) => assert!(matches!(error, TierError::Damaged { .. }), "{error}"),
                }
            }
        }
    });
}

/// What a power failure leaves just after an open that has written all segments anew, since one block alone
/// told of the newest batch.
fn with_new_segments(options: &TierOptions) -> Devices {
    let (flash, disk) = crashed(options, 2);
    let last = summaries(options, &*flash).pop().expect("there are batches").head;
    flip(options.layout().batch_offset(last.number), &*flash);
    let (tier, _) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
    let left = after_a_crash(&(flash, disk));
    drop(tier);
    left
}

/// A segment was written after a batch was durable, while an older one was under way. It shows that the page
/// has left its older slot: damage of its newer one is told, and no older version is served.
#[test]
fn what_shows_in_a_segment_is_not_taken_for_cut_off() {
    simulate(9, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let (flash, disk) = with_new_segments(&options);
        let last = summaries(&options, &*flash).pop().expect("there are batches").head;
        let length = layout.segment_bytes() as usize;
        let segment = |number: u64| {
            let mut bytes = vec![0; length];
            flash.read(layout.slots_segment_offset(number, 0), &mut bytes).unwrap();
            bytes
        };
        let used = options.segment_entries as usize * layout.segment_entry_bytes();
        let slots: Vec<(Option<SlotView>, u8)> = (0..layout.segments_of_slots())
            .flat_map(|number| {
                let bytes = segment(number);
                let entries = &bytes[BLOCK_BYTES..BLOCK_BYTES + used];
                segment::decode_slots(entries, layout.segment_entry_bytes()).collect::<Vec<_>>()
            })
            .collect();
        let older = slots.iter().position(|(view, _)| view.is_some_and(|view| view.dirty)).unwrap();
        let newer = slots.iter().position(|(view, _)| view.is_none()).unwrap();
        let view = slots[older].0.unwrap();
        let mut next = 0;
        for number in 0..layout.segments_of_slots() {
            let mut bytes = segment(number);
            let (block, payload) = bytes.split_at_mut(BLOCK_BYTES);
            let entries = &mut payload[..used];
            let first = number as usize * options.segment_entries as usize;
            for (at, entry) in (first..).zip(entries.chunks_exact_mut(layout.segment_entry_bytes())) {
                match at {
                    _ if at == older => segment::encode_slot(entry, None, 0),
                    _ if at == newer => segment::encode_slot(entry, Some(view), 1),
                    _ => {}
                }
            }
            let head = segment::Head::decode(block).unwrap();
            next = head.since;
            let mut under_way = [next + 2; BATCHES_MAX];
            under_way[0] = next;
            let durable = DurableBatches { from: next, below: next + 2, under_way };
            segment::Head { checksum: checksum::of(entries), durable, ..head }.encode(block);
            flash.write(layout.slots_segment_offset(number, 0), &bytes).unwrap();
        }
        let slot = |at: usize| SlotId(at as u32);
        let from = Some(OlderSlot { slot: slot(older), leaves: false });
        let SlotView { page, proof, dirty, .. } = view;
        let placed = Placed { page, slot: slot(newer), from, checksum: proof, generation: 1, dirty };
        let changes = Changes { pages: [placed].into_iter().collect(), ..Changes::default() };
        let mut block = vec![0; BLOCK_BYTES];
        batch::encode(&mut block, &Head { number: next + 1, durable: next, ..last }, &changes, None);
        flash.write(layout.batch_offset(next + 1), &block).unwrap();
        flip(layout.slot_offset(slot(newer)), &*flash);
        let (tier, report) = FlashTier::open(flash, disk, options).unwrap();
        // The older one, which was under way.
        assert_eq!(report.torn, 1, "{report:?}");
        let mut buffer = vec![0; PAGE];
        for other in (0..PAGES).map(PageId).filter(|other| *other != page) {
            tier.fetch(other, &mut buffer).unwrap();
            assert_eq!(version(other, &buffer), 2, "page {other}");
        }
        let error = tier.fetch(page, &mut buffer).unwrap_err();
        assert!(matches!(error, TierError::Damaged { .. }), "{error}");
    });
}

/// The newest summary is lost, and a segment was written after its batch: no other one repeats it, and the
/// page that it moved would be found nowhere.
#[test]
fn a_lost_summary_that_a_segment_has_counted_is_missed() {
    simulate(11, || {
        let options = kept(PolicyKind::Lru);
        let layout = options.layout();
        let (flash, disk) = with_new_segments(&options);
        let offset = layout.slots_segment_offset(1, 0);
        let mut block = block_of(offset, &*flash);
        let head = segment::Head::decode(&block).unwrap();
        let next = head.since;
        let durable = DurableBatches { from: next, below: next + 1, under_way: [next + 1; BATCHES_MAX] };
        segment::Head { since: next + 1, durable, ..head }.encode(&mut block);
        flash.write(offset, &block).unwrap();
        let refused = FlashTier::open(flash, disk, options).map(drop).unwrap_err().to_string();
        assert!(refused.contains(&format!("the summary of batch {next} ")), "{refused}");
    });
}

/// A batch that is not found stays lost at all later opens: the owner's log may have a note that names it.
#[test]
fn what_was_not_found_stays_lost() {
    simulate(10, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let (mut flash, mut disk) = crashed(&options, 2);
        let last = summaries(&options, &*flash).pop().expect("there are batches").head;
        let group = DurableGroup { epoch: last.epoch, number: last.number + 1 };
        let placed =
            Placed { page: PageId(1), slot: SlotId(0), from: None, checksum: 1, generation: 1, dirty: true };
        let changes = Changes { pages: [placed].into_iter().collect(), ..Changes::default() };
        let mut block = vec![0; BLOCK_BYTES];
        let head = Head { number: group.number, durable: group.number, ..last };
        batch::encode(&mut block, &head, &changes, None);
        flash.write(layout.batch_offset(group.number), &block).unwrap();
        for open in 0..4 {
            let (tier, report) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
            assert_eq!(report.torn, u64::from(open == 0), "{report:?}");
            let survivors = tier.survivors().expect("pages survive");
            assert!(!survivors.have(group), "open {open}: {survivors:?}");
            assert!(survivors.have(DurableGroup { number: last.number, ..group }), "{survivors:?}");
            (flash, disk) = after_a_crash(&(flash, disk));
        }
    });
}

/// Of batches nothing is left but their pages. Newer versions come to the same slots, and one of these writes
/// is lost: the older version does not pass for it.
#[test]
fn a_page_of_a_batch_that_was_never_known_does_not_pass_for_a_newer_version() {
    simulate(13, || {
        let options = kept(PolicyKind::Lc);
        let layout = options.layout();
        let write = |(flash, disk): &Devices, number: u64, decides: bool| {
            let (tier, _) = FlashTier::open(flash.clone(), disk.clone(), options.clone()).unwrap();
            for page in (0..PAGES).map(PageId) {
                tier.evict(victim(page, number, true, true), &build(page, number)).unwrap();
            }
            if decides {
                tier.checkpoint().unwrap();
            }
            entresol_runtime::sleep(Duration::from_secs(1));
            after_a_crash(&(flash.clone(), disk.clone()))
        };
        let known = crashed(&options, 1);
        let of_known = summaries(&options, &*known.0);
        let first = of_known.len() as u64;
        let torn = write(&known, 2, false);
        let end = summaries(&options, &*torn.0).len() as u64;
        assert!(first < end && end < layout.batch_places());
        let blank = vec![0; BLOCK_BYTES];
        (first..end).for_each(|number| torn.0.write(layout.batch_offset(number), &blank).unwrap());
        let (before, _) = after_a_crash(&torn);
        let (flash, disk) = write(&torn, 3, true);
        let in_slot = |device: &MemoryDevice, slot: SlotId| {
            let mut bytes = vec![0; PAGE];
            device.read(layout.slot_offset(slot), &mut bytes).unwrap();
            bytes
        };
        let mut lost = 0;
        // A batch that is not known has written to these alone.
        for slot in free_slots(&options, &of_known) {
            let (older, newer) = (in_slot(&before, slot), in_slot(&flash, slot));
            if older == newer {
                continue;
            }
            lost += u64::from(page::header(&older).page == page::header(&newer).page);
            let (flash, disk) = after_a_crash(&(flash.clone(), disk.clone()));
            flash.write(layout.slot_offset(slot), &older).unwrap();
            let (tier, _) = FlashTier::open(flash, disk, options.clone()).unwrap();
            let mut buffer = vec![0; PAGE];
            for page in (0..PAGES).map(PageId) {
                match tier.fetch(page, &mut buffer) {
                    Ok(_) => assert_eq!(version(page, &buffer), 3, "{slot:?}, page {page}"),
                    Err(error) => assert!(matches!(error, TierError::Damaged { .. }), "{error}"),
                }
            }
        }
        assert!(lost > 0, "all newer versions came to slots of other pages");
    });
}

#[test]
fn what_cannot_be_is_refused() {
    let options = kept(PolicyKind::Lc);
    let cases = [
        (TierOptions { mode: Mode::WriteThrough, ..options.clone() }, "write-back"),
        (TierOptions { keeps_slots: true, ..small(PolicyKind::FaceGsc, 96) }, "face-gsc"),
        (TierOptions { keeps_slots: true, ..small(PolicyKind::Loc, 96) }, "choose one of these: lc"),
    ];
    for (options, told) in cases {
        let refused = options.validate().unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    simulate(5, move || {
        let (tier, (flash, disk)) = create(&options);
        tier.close().unwrap();
        let other = TierOptions { keeps_slots: false, ..options.clone() };
        let refused = FlashTier::open(flash, disk, other).map(drop).unwrap_err().to_string();
        assert!(refused.contains("survive a crash"), "{refused}");
    });
}
