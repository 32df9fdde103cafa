//! One damaged page on the flash of a volume in write-back: it costs itself, and names itself.

use entresol_block::{CacheOptions, Loss, SteerOptions, Volume};
use entresol_core::{Mode, PolicyKind};
use entresol_device::{Device, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{TierError, TierOptions, Uuid, flash_bytes};
use entresol_format::PageFormat;
use entresol_format::fingerprint::LABEL_FILE_BYTES;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_runtime::sleep;
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;
const PAGES: u64 = 400;
/// Pages that are written and flushed, the one that is damaged, and what is written.
const DIRTY: u64 = 200;
const BAD: u64 = 100;

fn options() -> TierOptions {
    TierOptions {
        page_format: PageFormat::Raw,
        group_pages: 8,
        staging_groups: 4,
        segment_entries: 64,
        slots: 256,
        mode: Mode::WriteBack,
        ..TierOptions::new(PolicyKind::FaceGsc, 256)
    }
}

fn simulate(seed: u64, main: impl FnOnce() + Send) {
    Simulation::new(SimConfig { seed, random_order: true, ..SimConfig::default() }).run(main).unwrap();
}

fn filled(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE as usize / 16)
}

struct Parts {
    disk: Arc<MemoryDevice>,
    label: Arc<MemoryDevice>,
    flash: Arc<MemoryDevice>,
    journal: Arc<MemoryDevice>,
}

impl Parts {
    fn new() -> Self {
        let device = |name: &str, bytes| Arc::new(MemoryDevice::new(name, bytes));
        let (disk, label) = (device("disk", PAGES * PAGE), device("label", LABEL_FILE_BYTES));
        let (flash, journal) = (device("flash", flash_bytes(&options())), device("journal", 1 << 20));
        // An older version of everything.
        (0..PAGES).for_each(|page| disk.write(page * PAGE, &filled(page, 1)).unwrap());
        Self { disk, label, flash, journal }
    }

    /// A volume with pages `0 .. DIRTY` at version 2, and one of them damaged on flash.
    fn damaged(&self) -> Volume {
        let (disk, label, flash) = (self.disk.clone(), self.label.clone(), self.flash.clone());
        let mut volume = Volume::create(disk, label, flash, options()).unwrap();
        volume.keep_journal(self.journal.clone(), Uuid::NIL).unwrap();
        volume.steer(SteerOptions { dirty_age_seconds: 0, ..SteerOptions::default() });
        (0..DIRTY).for_each(|page| volume.write(page * PAGE, &filled(page, 2), false).unwrap());
        volume.flush().unwrap();
        sleep(Duration::from_secs(2));
        self.damage();
        volume
    }

    fn damage(&self) {
        let mut image = vec![0; self.flash.geometry().capacity_bytes as usize];
        self.flash.read(0, &mut image).unwrap();
        let is_it = |found: &[u8]| found[8..] == filled(BAD, 2)[8..] && found[16] == BAD as u8;
        let at = image.chunks(PAGE as usize).position(is_it).expect("it is on flash") * PAGE as usize;
        image[at + 7] ^= 1;
        self.flash.write(at as u64, &image[at..at + 512]).unwrap();
    }

    fn open(&self) -> (Volume, Vec<String>) {
        let (disk, label, flash) = (self.disk.clone(), self.label.clone(), self.flash.clone());
        let journal = (self.journal.clone() as Arc<dyn Device>, Uuid::NIL);
        Volume::open_with_journal(disk, label, flash, options(), journal).unwrap()
    }
}

fn read(volume: &Volume, page: u64) -> Option<Vec<u8>> {
    let mut found = vec![0; PAGE as usize];
    volume.read(page * PAGE, &mut found).ok().map(|()| found)
}

/// Requests that fail, of those for the pages `0 .. DIRTY`; the others give version 2.
fn failed(volume: &Volume) -> Vec<u64> {
    (0..DIRTY)
        .filter(|page| match read(volume, *page) {
            None => true,
            Some(found) => {
                assert_eq!(found, filled(*page, 2), "page {page}");
                false
            }
        })
        .collect()
}

#[test]
fn a_running_volume_goes_on_without_the_page_that_is_lost() {
    let smaller = TierOptions { slots: 192, ..options() };
    let another_policy =
        CacheOptions::from(TierOptions { policy: PolicyKind::Lru, mode: Mode::WriteThrough, ..smaller });
    type Empties = fn(&Volume, CacheOptions, Loss) -> Result<(), TierError>;
    let ways: [Empties; 3] = [
        |volume, _, loss| volume.drain(loss),
        |volume, _, loss| volume.detach(loss),
        |volume, new, loss| volume.set_cache(new, loss),
    ];
    for (seed, empties) in ways.into_iter().enumerate() {
        simulate(seed as u64, || {
            let parts = Parts::new();
            let volume = parts.damaged();
            for _ in 0..2 {
                let refused = empties(&volume, another_policy.clone(), Loss::Refused);
                match &refused {
                    Err(TierError::Losing(lost)) => assert_eq!(lost.lost.len(), 1),
                    other => panic!("{other:?}"),
                }
                assert_eq!(failed(&volume), [BAD]);
                let on_disk = |page: &u64| {
                    let mut found = vec![0; PAGE as usize];
                    parts.disk.read(page * PAGE, &mut found).unwrap();
                    found == filled(*page, 2)
                };
                assert_eq!((0..DIRTY).filter(on_disk).count() as u64, DIRTY - 1);
            }
            empties(&volume, another_policy.clone(), Loss::Accepted).unwrap();
            assert_eq!(read(&volume, BAD), Some(filled(BAD, 1)), "the disk's version counts");
            volume.write(BAD * PAGE, &filled(BAD, 2), true).unwrap();
            assert_eq!(failed(&volume), [0; 0]);
            volume.close().unwrap();
        });
    }
}

#[test]
fn status_names_a_lost_page_until_it_is_written_or_trimmed() {
    for (trims, passes) in [(false, false), (true, true), (true, false)] {
        simulate(9, || {
            let parts = Parts::new();
            let volume = parts.damaged();
            volume.pass_trims(passes);
            let go_round = || {
                for page in DIRTY..PAGES {
                    volume.write(page * PAGE, &filled(page, 2), false).unwrap();
                }
                volume.flush().unwrap();
            };
            go_round();
            go_round();
            let status = volume.status();
            assert_eq!((status.missing_pages, status.notice), (0, None));
            assert_eq!(
                status.lost.iter().map(|lost| (lost.offset, lost.bytes)).collect::<Vec<_>>(),
                [(BAD * PAGE, PAGE)]
            );
            // A part of it does not make it good.
            assert!(volume.write(BAD * PAGE, &[7; 512], false).is_err());
            assert_eq!(failed(&volume), [BAD]);
            match trims {
                false => volume.write(BAD * PAGE, &filled(BAD, 2), true).unwrap(),
                true => {
                    volume.trim((BAD - 1) * PAGE, 3 * PAGE).unwrap();
                    assert_eq!(read(&volume, BAD), Some(vec![0; PAGE as usize]));
                }
            }
            assert!(volume.status().lost.is_empty());
            (0..3).for_each(|_| go_round());
            let expected = if trims { vec![0; PAGE as usize] } else { filled(BAD, 2) };
            assert_eq!(read(&volume, BAD), Some(expected));
            volume.close().unwrap();
        });
    }
}

/// A server was killed when it had acknowledged a write of a part of the page, and the rest of it cannot be
/// read any more: the volume is served, and the page is named.
#[test]
fn a_journal_with_a_part_of_a_lost_page_is_carried_out() {
    simulate(10, || {
        let parts = Parts::new();
        let volume = parts.damaged();
        drop(volume);
        // As it was before, for the moment.
        parts.damage();
        let (volume, _) = parts.open();
        volume.write(BAD * PAGE + 512, &[7; 512], false).unwrap();
        volume.write(0, &[8; 4096], false).unwrap();
        drop(volume);
        parts.damage();
        let (volume, notices) = parts.open();
        assert!(notices.concat().contains(&format!("4096 bytes at {}", BAD * PAGE)), "{notices:?}");
        assert_eq!((read(&volume, BAD), read(&volume, 0)), (None, Some(vec![8; 4096])));
        volume.close().unwrap();
        // It can be read again, in the version of before the acknowledged write.
        parts.damage();
        let (volume, _) = parts.open();
        assert_eq!((read(&volume, BAD), volume.status().lost_bytes), (None, PAGE));
        volume.write(BAD * PAGE, &filled(BAD, 3), true).unwrap();
        assert_eq!(read(&volume, BAD), Some(filled(BAD, 3)));
        volume.close().unwrap();
    });
}

/// The same, but the flash dies in the open that carries the write out. When it is back, it has the version
/// of before the write, which is not served: flushes have succeeded since.
#[test]
fn a_flash_that_dies_while_the_journal_is_carried_out_does_not_bring_back_what_was_before() {
    let lost_in = |at: u64| {
        let mut has_lost = false;
        simulate(12, || {
            let parts = Parts::new();
            drop(parts.damaged());
            parts.damage();
            let (volume, _) = parts.open();
            // Groups are written before the page is read.
            (0..64).for_each(|page| volume.write(page * PAGE, &filled(page, 3), false).unwrap());
            volume.write(BAD * PAGE + 512, &[7; 512], false).unwrap();
            drop(volume);
            let plan = Arc::new(FaultPlan::none());
            plan.inject(Injection { at, device: Some("flash".into()), fault: Fault::Death, forever: false });
            let flash = Arc::new(FaultyDevice::new("flash", parts.flash.fork("flash"), plan));
            let journal = (parts.journal.clone() as Arc<dyn Device>, Uuid::NIL);
            let opened = Volume::open_with_journal(
                parts.disk.clone(),
                parts.label.clone(),
                flash.clone(),
                options(),
                journal,
            );
            // It died before it was known what is on it.
            let Ok((volume, notices)) = opened else { return };
            has_lost = notices.concat().contains(&format!("4096 bytes at {}", BAD * PAGE));
            volume.flush().unwrap();
            let found = read(&volume, BAD);
            drop(volume);
            // Power fails, and the flash can be read again, in the version of before.
            let parts = Parts { flash: Arc::new(flash.after_crash(&Survival::All)), ..parts };
            parts.journal.write(0, &[0; 8192]).unwrap();
            let (volume, _) = parts.open();
            match has_lost {
                true => {
                    assert_eq!((found, read(&volume, BAD)), (None, None), "at {at}");
                    volume.write(BAD * PAGE, &filled(BAD, 3), true).unwrap();
                    assert_eq!(read(&volume, BAD), Some(filled(BAD, 3)));
                }
                false => assert_eq!(read(&volume, BAD).unwrap()[512..1024], [7; 512], "at {at}"),
            }
            volume.close().unwrap();
            let (volume, _) = parts.open();
            assert!(read(&volume, BAD).is_some());
            volume.close().unwrap();
        });
        has_lost
    };
    let lost: Vec<u64> = (1..160).filter(|at| lost_in(*at)).collect();
    assert!(lost.len() > 1, "it dies when the page is read, and before: {lost:?}");
}

/// A server was killed right after a flush, the machine goes on, and the newest summary on flash is damaged.
/// What was flushed is missed; without the journal, an older version would be served.
#[test]
fn a_flush_that_is_damaged_after_a_kill_is_missed() {
    simulate(11, || {
        let parts = Parts::new();
        let volume = parts.damaged();
        let image = || {
            let mut image = vec![0; parts.flash.geometry().capacity_bytes as usize];
            parts.flash.read(0, &mut image).unwrap();
            image
        };
        volume.write(5 * PAGE, &filled(5, 7), false).unwrap();
        volume.flush().unwrap();
        let before = image();
        volume.write(5 * PAGE, &filled(5, 8), true).unwrap();
        drop(volume);
        let after = image();
        let is_newest = |at: &usize| {
            let block = |of: &[u8]| of[at * PAGE as usize..][..PAGE as usize].to_vec();
            block(&after).starts_with(b"ENTRGRUP") && block(&before) != block(&after)
        };
        let at =
            (0..after.len() / PAGE as usize).find(is_newest).expect("a summary was written") * PAGE as usize;
        let mut sector = after[at..at + 512].to_vec();
        sector[40] ^= 1;
        parts.flash.write(at as u64, &sector).unwrap();
        let (disk, label, flash) = (parts.disk.clone(), parts.label.clone(), parts.flash.clone());
        let journal = (parts.journal.clone() as Arc<dyn Device>, Uuid::NIL);
        let refused = Volume::open_with_journal(disk, label, flash, options(), journal);
        let why = refused.err().expect("what was flushed is missed").to_string();
        assert!(why.contains("was flushed to group") && why.contains("journal"), "{why}");
        // As it says.
        parts.journal.write(0, &[0; 8192]).unwrap();
        let (volume, notices) = parts.open();
        assert!(notices.concat().contains("the newest writes to flash are not whole"), "{notices:?}");
        assert_eq!(read(&volume, 5), Some(filled(5, 7)));
        volume.close().unwrap();
    });
}
