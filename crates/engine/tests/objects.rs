//! Objects: pages that die as a whole. Random lives with power failures are the test kit's (`raw`).

mod support;

use entresol_core::{PageId, Placement, PolicyKind};
use entresol_device::{
    Device, DeviceError, Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Profile, Scale,
};
use entresol_engine::{
    Deletes, DiskLayer, FlashTier, Home, Layer, Names, OpenReport, PageCache, PageSet, Source, TierError,
    TierOptions, flash_bytes, inspect,
};
use entresol_format::label::LABEL_AREA_BYTES;
use entresol_format::{BLOCK_BYTES, PageFormat};
use entresol_objects::{Locator, ObjectId};
use entresol_runtime::rng::Rng;
use entresol_runtime::{sleep, spawn};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const PAGE: usize = support::PAGE;
/// Pages of a file.
const FILE_PAGES: u64 = 100;
const OBJECTS: u32 = 6;

/// A disk of files, one for each name.
struct Files(Arc<MemoryDevice>);

impl Files {
    fn place_of(&self, page: PageId, names: &dyn Names) -> Option<u64> {
        let file = u64::from(names.locator(ObjectId(page.object()))?[0]);
        Some(LABEL_AREA_BYTES + (file * FILE_PAGES + u64::from(page.number())) * PAGE as u64)
    }
}

impl Home for Files {
    fn label(&self) -> &dyn Device {
        &*self.0
    }
    fn capacity_pages(&self) -> u64 {
        FILE_PAGES * 8
    }
    fn has_room(&self, page: PageId, names: &dyn Names) -> bool {
        self.place_of(page, names).is_some()
    }
    fn place(&self, page: PageId, _: &dyn Names) -> String {
        format!("page {} of its file", page.number())
    }
    fn read(&self, first: PageId, buffer: &mut [u8], names: &dyn Names) -> Result<(), DeviceError> {
        self.place_of(first, names).map_or(Ok(()), |offset| self.0.read(offset, buffer))
    }
    fn write(&self, pages: &[(PageId, &[u8])], names: &dyn Names) -> Result<(), DeviceError> {
        pages.iter().try_for_each(|(page, data)| {
            self.place_of(*page, names).map_or(Ok(()), |offset| self.0.write(offset, data))
        })
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.0.sync()
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.0.drop_cached()
    }
}

struct Rig {
    flash: Arc<MemoryDevice>,
    disk: Arc<MemoryDevice>,
    options: TierOptions,
}

impl Rig {
    fn new(policy: PolicyKind) -> Self {
        let keeps_slots = policy.placement() == Placement::Slots;
        let usual = support::small(policy, 64);
        let (page_format, objects) = (PageFormat::Raw, OBJECTS);
        let options = TierOptions { page_format, objects, keeps_slots, takes_changes: keeps_slots, ..usual };
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let disk = LABEL_AREA_BYTES + 8 * FILE_PAGES * PAGE as u64;
        Self { flash, disk: Arc::new(MemoryDevice::new("disk", disk)), options }
    }

    fn create(&self) -> Arc<FlashTier> {
        let home = Arc::new(Files(self.disk.clone()));
        FlashTier::create_at(self.flash.clone(), home, self.options.clone()).unwrap()
    }

    fn open(&self) -> Result<Arc<FlashTier>, TierError> {
        self.open_with_report().map(|(tier, _)| tier)
    }

    fn open_with_report(&self) -> Result<(Arc<FlashTier>, OpenReport), TierError> {
        let home = Arc::new(Files(self.disk.clone()));
        FlashTier::open_at(self.flash.clone(), home, self.options.clone())
    }

    /// Where the table lies on flash, in bytes.
    fn table(&self) -> Range<u64> {
        let (blocks, offset) =
            (self.options.layout().objects_blocks(), self.options.layout().objects_offset());
        offset..offset + blocks * BLOCK_BYTES as u64
    }

    /// The same on copies of its devices.
    fn copy(&self) -> Self {
        let copy = |device: &MemoryDevice| Arc::new(device.fork("copy"));
        Self { flash: copy(&self.flash), disk: copy(&self.disk), options: self.options.clone() }
    }

    /// The bytes of page `number` of a file.
    fn on_disk(&self, file: u64, number: u64) -> u8 {
        let mut bytes = vec![0; PAGE];
        let offset = LABEL_AREA_BYTES + (file * FILE_PAGES + number) * PAGE as u64;
        self.disk.read(offset, &mut bytes).unwrap();
        bytes[0]
    }
}

fn name(file: u8) -> Locator {
    let mut name = Locator::default();
    name[0] = file;
    name
}

fn write(tier: &FlashTier, page: PageId, content: u8) {
    tier.evict(support::victim(page, 0, true, true), &[content; PAGE]).unwrap();
}

/// Where a page comes from, and its first byte.
fn read(tier: &FlashTier, page: PageId) -> (Source, u8) {
    let mut buffer = vec![0; PAGE];
    let fetched = tier.fetch(page, &mut buffer).unwrap();
    (fetched.source, buffer[0])
}

#[test]
fn a_cache_that_fills_a_device_has_room_for_its_objects() {
    const CAPACITY: u64 = 64 << 20;
    let wanted = TierOptions { objects: 50_000, ..TierOptions::new(PolicyKind::FaceGsc, 0) };
    let fitted = wanted.fitted(CAPACITY);
    assert_eq!(fitted.objects, 50_000);
    let larger = TierOptions { slots: fitted.slots + fitted.group_pages, ..fitted.clone() };
    assert!(flash_bytes(&fitted) <= CAPACITY && flash_bytes(&larger) > CAPACITY, "{fitted:?}");
}

#[test]
fn only_a_cache_that_survives_with_room_for_objects_has_objects() {
    support::simulate(1, || {
        let options = support::small(PolicyKind::FaceGsc, 64);
        let flash = Arc::new(MemoryDevice::new("flash", flash_bytes(&options)));
        let disk = Arc::new(MemoryDevice::new("disk", support::disk_bytes(10)));
        DiskLayer::create(disk.clone(), PAGE as u32).unwrap().close().unwrap();
        let tier = FlashTier::create(flash, disk, options.clone()).unwrap();
        assert!(tier.objects().is_none());
        let told = tier.define(&name(1)).unwrap_err().to_string();
        assert!(told.contains("no table of objects"), "{told}");
        let lru = TierOptions { objects: 3, ..support::small(PolicyKind::Lru, 64) };
        let told = lru.validate().unwrap_err().to_string();
        assert!(told.contains("choose slots that survive it, or face"), "{told}");
    });
}

/// Policies whose slots survive a crash.
fn in_slots() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().filter(|policy| policy.may_keep_slots())
}

#[test]
fn a_full_table_says_so_and_pages_without_an_object_are_refused() {
    for policy in in_slots().chain([PolicyKind::FaceGsc]) {
        support::simulate(1, || a_full_table_says_so(policy));
    }
}

fn a_full_table_says_so(policy: PolicyKind) {
    {
        let rig = Rig::new(policy);
        let tier = rig.create();
        for file in 0..OBJECTS as u8 {
            assert!(tier.define(&name(file)).unwrap().is_some());
        }
        assert_eq!(tier.define(&name(99)).unwrap(), None);
        let usage = tier.objects().unwrap();
        assert_eq!((usage.live, usage.full), (OBJECTS, 1));
        let retired = tier.object(&name(0)).unwrap().unwrap();
        assert!(tier.retire(retired).unwrap());
        assert!(!tier.retire(retired).unwrap());
        let page = support::victim(retired.page(0), 0, true, true);
        assert!(tier.evict(page, &[1; PAGE]).is_err());
        // Its number is free when the front has passed its pages.
        assert_eq!(tier.define(&name(99)).unwrap(), None);
        let other = tier.object(&name(1)).unwrap().unwrap();
        (0..200).for_each(|at| write(&tier, other.page(at % 90), at as u8));
        tier.checkpoint().unwrap();
        (0..4).for_each(|_| tier.checkpoint().unwrap());
        assert_eq!(tier.define(&name(99)).unwrap(), Some(retired));
        assert_eq!(tier.retire_matching(|name| name[0] > 1).unwrap(), OBJECTS - 1);
    }
}

#[test]
fn dead_pages_are_missed_and_dropped_unread_and_stay_dead() {
    for policy in [PolicyKind::Face, PolicyKind::FaceGr, PolicyKind::FaceGsc].into_iter().chain(in_slots()) {
        support::simulate(1, || stay_dead(policy));
    }
}

fn stay_dead(policy: PolicyKind) {
    let rig = Rig::new(policy);
    let tier = rig.create();
    let [kept, cut, retired] = [0, 1, 2].map(|file| tier.define(&name(file)).unwrap().unwrap());
    for at in 0..12 {
        [kept, cut, retired].iter().for_each(|object| write(&tier, object.page(at), 10 + at as u8));
    }
    tier.flush().unwrap();
    tier.cut(cut, 4).unwrap();
    tier.retire(retired).unwrap();
    let check = |tier: &FlashTier| {
        for at in 0..12 {
            let lives = |object: ObjectId| read(tier, object.page(at)).0 != Source::Disk;
            assert_eq!((lives(kept), lives(cut), lives(retired)), (true, at < 4, false), "page {at}");
        }
    };
    check(&tier);
    // What is extended again lives, and what was cut off before does not come back with it.
    write(&tier, cut.page(7), 77);
    assert_eq!(read(&tier, cut.page(7)).1, 77);
    tier.flush().unwrap();
    drop(tier);
    let tier = rig.open().unwrap();
    assert_eq!(tier.object(&name(2)).unwrap(), None);
    assert_eq!(read(&tier, cut.page(7)).1, 77);
    assert_eq!(read(&tier, cut.page(8)).0, Source::Disk);
    assert_eq!(read(&tier, kept.page(8)).1, 18);
    // All dead: their groups leave without being read.
    tier.retire_matching(|_| true).unwrap();
    let before = tier.metrics();
    let other = tier.define(&name(5)).unwrap().unwrap();
    (0..28).for_each(|at| write(&tier, other.page(at), 1));
    tier.checkpoint().unwrap();
    let after = tier.metrics();
    // In slots the cleaner copies some of the new ones.
    if policy.placement() == Placement::Log {
        assert_eq!((after.dequeue_reads, after.disk_writes), (before.dequeue_reads, before.disk_writes));
    }
    tier.close().unwrap();
}

#[test]
fn a_detach_leaves_dead_pages_where_they_are() {
    support::simulate(1, || {
        let rig = Rig::new(PolicyKind::FaceGsc);
        let tier = rig.create();
        let [kept, cut] = [0, 1].map(|file| tier.define(&name(file)).unwrap().unwrap());
        for at in 0..10 {
            write(&tier, kept.page(at), 1);
            write(&tier, cut.page(at), 2);
        }
        tier.checkpoint().unwrap();
        tier.cut(cut, 3).unwrap();
        tier.detach().unwrap();
        for at in 0..10 {
            let expected = if at < 3 { 2 } else { 0 };
            assert_eq!((rig.on_disk(0, at), rig.on_disk(1, at)), (1, expected), "page {at}");
        }
    });
}

#[test]
fn a_fifth_cut_costs_by_the_pages_and_is_as_good() {
    support::simulate(1, || {
        let rig = Rig::new(PolicyKind::FaceGsc);
        let tier = rig.create();
        let object = tier.define(&name(0)).unwrap().unwrap();
        for round in 0..6 {
            (0..6).for_each(|at| write(&tier, object.page(at), 10 * round + at as u8));
            tier.cut(object, u32::from(round)).unwrap();
            let cached = (0..6).filter(|at| read(&tier, object.page(*at)).0 != Source::Disk).count();
            assert_eq!(cached, usize::from(round), "after cut {round}");
        }
        assert!(tier.objects().unwrap().too_many > 0);
        tier.flush().unwrap();
        drop(tier);
        let tier = rig.open().unwrap();
        assert_eq!((0..6).filter(|at| read(&tier, object.page(*at)).0 != Source::Disk).count(), 5);
    });
}

#[test]
fn a_table_that_cannot_be_read_is_refused_and_another_size_too() {
    support::simulate(1, || {
        let rig = Rig::new(PolicyKind::FaceGsc);
        let tier = rig.create();
        let object = tier.define(&name(0)).unwrap().unwrap();
        write(&tier, object.page(1), 1);
        tier.close().unwrap();
        let other = TierOptions { objects: OBJECTS + 1, ..rig.options.clone() };
        let other = Rig { flash: rig.flash.clone(), disk: rig.disk.clone(), options: other };
        let told = other.open().err().unwrap().to_string();
        assert!(told.contains("number of objects"), "{told}");
        let report = inspect(&*rig.flash).unwrap();
        assert_eq!(report.superblock.objects, OBJECTS);
        // Both copies.
        let table = rig.table();
        rig.flash.write(table.start, &vec![0x5a; (table.end - table.start) as usize]).unwrap();
        let told = rig.open().err().unwrap().to_string();
        assert!(told.contains("table of objects"), "{told}");
    });
}

/// What a durable change of the table says stays true, whichever block of the table is damaged or unreadable
/// when the cache is opened: also the newest one of the log.
#[test]
fn one_damaged_block_of_the_table_loses_nothing() {
    for last in 0..3 {
        support::simulate(1, || damaged_blocks(last, false));
        support::simulate(1, || damaged_blocks(last, true));
    }
}

/// With another change of the table last; of a cache that was closed, or killed.
fn damaged_blocks(last: u8, is_closed: bool) {
    let rig = Rig::new(PolicyKind::FaceGsc);
    let tier = rig.create();
    let [kept, cut, retired] = [0, 1, 2].map(|file| tier.define(&name(file)).unwrap().unwrap());
    for at in 0..8 {
        [kept, cut, retired].iter().for_each(|object| write(&tier, object.page(at), 10 + at as u8));
    }
    tier.flush().unwrap();
    let change = |which: u8| {
        match which {
            0 => tier.cut(cut, 4).unwrap(),
            1 => assert!(tier.retire(retired).unwrap()),
            _ => write(&tier, tier.define(&name(3)).unwrap().unwrap().page(0), 33),
        }
        tier.flush().unwrap();
    };
    (1..=3).for_each(|which| change((last + which) % 3));
    if is_closed {
        tier.close().unwrap();
    }
    drop(tier);
    let (mut unreadable, mut damaged) = (0, 0);
    for at in rig.table().step_by(BLOCK_BYTES) {
        let rig = rig.copy();
        let cannot_be_read = at / BLOCK_BYTES as u64 % 2 == 1;
        if cannot_be_read {
            rig.flash.mark_unreadable(at, BLOCK_BYTES as u64);
        } else {
            rig.flash.write(at, &[0x5a; BLOCK_BYTES]).unwrap();
        }
        let opened = rig.open_with_report();
        let (tier, report) = opened.unwrap_or_else(|error| panic!("the block at {at} is damaged: {error}"));
        let told = |what: &str| u32::from(report.notices.iter().any(|notice| notice.contains(what)));
        unreadable += told("cannot be read");
        damaged += told("is damaged");
        assert!(cannot_be_read || told("cannot be read") == 0, "{:?}", report.notices);
        let new = tier.object(&name(3)).unwrap().expect("it was defined durably");
        assert_eq!(tier.object(&name(2)).unwrap(), None, "it was retired durably ({at})");
        assert_eq!(read(&tier, new.page(0)).1, 33, "its page was flushed ({at})");
        for number in 0..8 {
            let lives = |object: ObjectId| read(&tier, object.page(number)).0 != Source::Disk;
            assert_eq!((lives(kept), lives(cut)), (true, number < 4), "page {number} ({at})");
        }
    }
    // Of a cache that was killed, the newest block may be torn: it tells of the last change alone.
    assert!(unreadable >= 60 && damaged >= if is_closed { 4 } else { 2 }, "{unreadable}, {damaged} notices");
}

#[test]
fn pages_of_named_objects_are_on_disk_when_their_owner_wants_them_there() {
    support::simulate(1, || {
        let rig = Rig::new(PolicyKind::FaceGsc);
        let tier = rig.create();
        let objects: Vec<ObjectId> = (1..4).map(|file| tier.define(&name(file)).unwrap().unwrap()).collect();
        for object in &objects {
            (0..8).for_each(|number| write(&tier, object.page(number), 7));
        }
        assert!(tier.retire(objects[0]).unwrap());
        let of = |file: u8| PageSet::Named { name: name(file), length: 1 };
        assert_eq!(tier.destage(&of(1)).unwrap(), 0, "what is retired is wanted nowhere");
        assert_eq!(tier.destage(&of(2)).unwrap(), 8);
        for (file, expected) in [(1, 0), (2, 7), (3, 0)] {
            (0..8).for_each(|number| assert_eq!(rig.on_disk(file, number), expected, "file {file}"));
        }
        assert_eq!(tier.destage(&PageSet::ALL).unwrap(), 8, "the third file's");
        (0..8).for_each(|number| assert_eq!(rig.on_disk(3, number), 7));
        assert_eq!(tier.destage(&PageSet::ALL).unwrap(), 0, "all are clean");
        assert_eq!(read(&tier, objects[2].page(1)), (Source::Flash, 7), "and still there");
        tier.close().unwrap();
    });
}

/// Were the new version on disk alone, and the cut lost in a crash, the older version would come back, and be
/// served.
#[test]
fn a_changed_page_enters_while_a_cut_is_not_durable() {
    support::simulate(1, || {
        let mut rig = Rig::new(PolicyKind::Reuse);
        rig.options.page_format = PageFormat::Native;
        let tier = rig.create();
        let object = tier.define(&name(1)).unwrap().unwrap();
        let write = |number, lsn| {
            let page = object.page(number);
            tier.evict(support::victim(page, lsn, true, true), &support::build(page, lsn)).unwrap();
        };
        write(0, 2);
        tier.flush().unwrap();
        // From now on each page is kept out that may be.
        tier.set_write_worth(2000);
        write(1, 2);
        assert_eq!(tier.metrics().bypassed, 1);
        tier.cut(object, 0).unwrap();
        write(0, 3);
        assert!(tier.is_on_flash(object.page(0)), "the cut may be lost");
        tier.flush().unwrap();
        write(2, 3);
        assert_eq!(tier.metrics().bypassed, 2, "the cut is durable");
        tier.close().unwrap();
    });
}

/// A write of the objects' log fails once, while a task waits to write what follows. What a task was told to
/// be durable is so.
#[test]
fn nothing_follows_a_write_of_the_log_that_failed() {
    for seed in 0..100 {
        support::simulate(seed, || a_log_write_fails(seed));
    }
}

fn a_log_write_fails(seed: u64) {
    let mut rig = Rig::new(PolicyKind::FaceGsc);
    rig.options.page_format = PageFormat::Native;
    let plan = Arc::new(FaultPlan::none());
    let memory = MemoryDevice::new("flash", flash_bytes(&rig.options));
    let faulty = Arc::new(FaultyDevice::new("flash", memory, plan.clone()));
    let flash = Arc::new(Profile::named("nvme").unwrap().build(faulty.clone(), Scale::FULL));
    let home = Arc::new(Files(rig.disk.clone()));
    let tier = FlashTier::create_at(flash, home.clone(), rig.options.clone()).unwrap();
    // The cache cannot go on without a page that only it has.
    let page = tier.define(&name(9)).unwrap().unwrap().page(0);
    tier.evict(support::victim(page, 2, true, true), &support::build(page, 2)).unwrap();
    tier.flush().unwrap();
    // Both copies.
    for at in 1..=2 {
        let (at, device) = (plan.operations() + at, Some("flash".to_owned()));
        plan.inject(Injection { at, device, fault: Fault::WriteError, forever: false });
    }
    let mut rng = Rng::new(seed);
    let durable: Arc<[AtomicBool; 3]> = Arc::default();
    let tasks = [0, 1, 2].map(|nth| {
        let (tier, durable) = (tier.clone(), durable.clone());
        let later = Duration::from_nanos(rng.below(30_000));
        spawn("task", move || {
            sleep(later);
            let defined = tier.define(&name(nth)).and_then(|_| tier.flush());
            durable[usize::from(nth)].store(defined.is_ok(), SeqCst);
        })
    });
    tasks.into_iter().for_each(|task| task.join());
    assert_eq!(plan.struck(), 2);
    drop(tier);
    let (tier, _) = FlashTier::open_at(faulty, home, rig.options.clone()).unwrap();
    for (file, durable) in (0..).zip(&*durable) {
        let is_known = tier.object(&name(file)).unwrap().is_some();
        assert!(is_known || !durable.load(SeqCst), "seed {seed}: file {file} is not defined any more");
    }
    tier.close().unwrap();
}
