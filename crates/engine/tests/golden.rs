//! Images of each format version as they were written by the release that introduced it: this release must
//! read them, or refuse them, as recorded. `tests/golden/v1.image` and `v2.image` hold a flash and a disk
//! after a power failure in the middle of writing; the damages are applied here. A cache of version 1 is
//! opened only to be detached, so what is compared is what such an open finds. `v2-failed.image` and
//! `v2-lost.image` are of the fields that version 2 got later, before its release: a cache of raw pages with
//! its devices' costs, whose flash has failed, and a disk that lacks pages since; and a disk of which a page
//! is lost. The images from before have zeros there.
//!
//! `ENTRESOL_BLESS=1 cargo test -p entresol-engine --test golden` makes what is not there (from a fixed
//! seed), and records what is found.

mod support;

use entresol_core::{Costs, PageId, PolicyKind};
use entresol_device::{Fault, FaultPlan, FaultyDevice, Injection, MemoryDevice, Survival};
use entresol_engine::{
    DiskLayer, FlashTier, Layer, PageCache, ReadRoute, TierOptions, check, detach, flash_bytes, inspect,
};
use entresol_format::block::BLOCK_BYTES;
use entresol_format::superblock::Superblock;
use entresol_format::{FORMAT_VERSION, PageFormat, page};
use std::fmt::Write;
use std::sync::Arc;
use support::{PAGE, bytes_of, device_of, disk_bytes, simulate, victim};

const PAGES: u64 = 48;
const SECTOR: usize = 512;

fn path(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn options(version: u32) -> TierOptions {
    TierOptions { version, group_pages: 2, segment_entries: 16, ..support::small(PolicyKind::FaceGsc, 40) }
}

/// A page that is mostly zeros, so that the image stays small.
fn page_at(id: PageId, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    page::header_mut(&mut bytes).lsn.set(version);
    bytes[40..48].copy_from_slice(&(id.0 << 16 | version).to_le_bytes());
    bytes
}

/// Length, then the sectors that are not zero, each after its number; all numbers eight bytes.
fn pack(out: &mut Vec<u8>, bytes: &[u8]) {
    let sectors: Vec<_> =
        bytes.chunks(SECTOR).enumerate().filter(|(_, s)| s.iter().any(|b| *b != 0)).collect();
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend((sectors.len() as u64).to_le_bytes());
    for (number, sector) in sectors {
        out.extend((number as u64).to_le_bytes());
        // Zeros at the end of a sector are left out.
        let used = sector.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        out.extend((used as u64).to_le_bytes());
        out.extend(&sector[..used]);
    }
}

fn unpack(packed: &mut &[u8]) -> Vec<u8> {
    let number = |packed: &mut &[u8]| {
        let (head, rest) = packed.split_at(8);
        *packed = rest;
        u64::from_le_bytes(head.try_into().unwrap()) as usize
    };
    let mut bytes = vec![0; number(packed)];
    for _ in 0..number(packed) {
        let start = number(packed) * SECTOR;
        let used = number(packed);
        bytes[start..start + used].copy_from_slice(&packed[..used]);
        *packed = &packed[used..];
    }
    bytes
}

/// The devices' costs in `v2-failed.image`.
const COSTS: [u32; 6] = [11, 22, 33, 44, 55, 66];

fn raw_options() -> TierOptions {
    let costs = Costs::of_times_ns(COSTS);
    let small = support::small(PolicyKind::FaceGsc, 40);
    TierOptions { page_format: PageFormat::Raw, group_pages: 2, segment_entries: 16, costs, ..small }
}

/// Pages of `v2-failed.image`: the first bytes of each are its number and its version.
fn raw_page(id: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A blank flash and a blank disk, with the faults that they are to have.
fn devices(options: &TierOptions) -> (Arc<FaultPlan>, Arc<FaultyDevice>, Arc<FaultyDevice>) {
    let plan = Arc::new(FaultPlan::none());
    let medium =
        |name: &str, bytes| Arc::new(FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone()));
    let (flash, disk) = (medium("flash", flash_bytes(options)), medium("disk", disk_bytes(PAGES)));
    (plan, flash, disk)
}

fn generate_failed() -> Vec<u8> {
    let options = raw_options();
    let (flash, disk) = simulate(1, || {
        let (plan, flash, disk) = devices(&options);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options).unwrap();
        let write = |page, version| tier.write_pages(PageId(page), &raw_page(page, version)).unwrap();
        for version in 1..4 {
            (0..PAGES / 2).for_each(|page| write(page * 2, version));
            tier.flush().unwrap();
        }
        let (at, device) = (plan.operations() + 1, Some("flash".to_owned()));
        plan.inject(Injection { at, device, fault: Fault::Death, forever: true });
        (PAGES - 8..PAGES).for_each(|page| write(page, 4));
        tier.flush().unwrap();
        let [flash, disk] = [flash, disk].map(|device| bytes_of(&device.after_crash(&Survival::None)));
        (flash, disk)
    });
    let mut packed = Vec::new();
    pack(&mut packed, &flash);
    pack(&mut packed, &disk);
    packed
}

/// Two dirty pages have rotted on flash, and the ring goes round: they are lost. One is written again.
fn generate_lost() -> Vec<u8> {
    let options = raw_options();
    let (flash, disk) = simulate(1, || {
        let (_, flash, disk) = devices(&options);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options).unwrap();
        let write = |page, version| tier.write_pages(PageId(page), &raw_page(page, version)).unwrap();
        (0..4).for_each(|page| write(page, 1));
        tier.flush().unwrap();
        for lost in [1, 2] {
            let bytes = bytes_of(&*flash);
            let place = bytes.chunks(PAGE).position(|page| page == raw_page(lost, 1));
            flash.flip_bit((place.expect("it is on flash") * PAGE + 100) as u64 * 8);
        }
        (4..PAGES).for_each(|page| write(page, 1));
        write(2, 5);
        tier.flush().unwrap();
        assert_eq!(tier.missing().map(|missing| missing.lost.len()), Some(1), "page 1 is lost");
        let [flash, disk] = [flash, disk].map(|device| bytes_of(&device.after_crash(&Survival::None)));
        (flash, disk)
    });
    let mut packed = Vec::new();
    pack(&mut packed, &flash);
    pack(&mut packed, &disk);
    packed
}

/// What is read of each page of a disk that lacks pages of a flash that has failed, with that flash or
/// another one.
fn describe_failed(flash: Arc<MemoryDevice>, disk: &[u8]) -> String {
    simulate(2, || {
        let (tier, report) = FlashTier::open(flash, device_of(disk), raw_options()).unwrap();
        let mut text = String::new();
        report.notices.iter().for_each(|notice| writeln!(text, "notice: {notice}").unwrap());
        let mut buffer = vec![0; PAGE];
        for number in 0..PAGES {
            match tier.read_pages(PageId(number), &mut buffer, ReadRoute::StaysOut) {
                Ok(_) => {
                    let version = u64::from_le_bytes(buffer[8..16].try_into().unwrap());
                    assert!(version == 0 || buffer == raw_page(number, version), "page {number}");
                    writeln!(text, "{number}: version {version}").unwrap();
                }
                Err(error) => writeln!(text, "{number}: {error}").unwrap(),
            }
        }
        text
    })
}

fn generate(version: u32) -> Vec<u8> {
    let (flash, disk) = simulate(1, || {
        let options = options(version);
        let (_, flash, disk) = devices(&options);
        let tier = FlashTier::create(flash.clone(), disk.clone(), options).unwrap();
        let evict = |page: u64, version, dirty| {
            let id = PageId(page);
            tier.evict(victim(id, version, dirty, true), &page_at(id, version)).unwrap();
        };
        let mut buffer = vec![0; PAGE];
        for version in 1..4 {
            (0..PAGES).for_each(|page| evict(page, version, true));
            tier.fetch(PageId(PAGES - 3), &mut buffer).unwrap();
            tier.checkpoint().unwrap();
        }
        // Clean copies of what is on disk.
        for page in 0..4 {
            tier.fetch(PageId(page), &mut buffer).unwrap();
            tier.evict(victim(PageId(page), 3, false, false), &buffer).unwrap();
        }
        tier.checkpoint().unwrap();
        (40..43).for_each(|page| evict(page, 4, true));
        entresol_runtime::sleep(std::time::Duration::from_millis(1));
        let survival = Survival::Seed(6);
        (bytes_of(&flash.after_crash(&survival)), bytes_of(&disk.after_crash(&survival)))
    });
    let mut packed = Vec::new();
    pack(&mut packed, &flash);
    pack(&mut packed, &disk);
    packed
}

/// Everything that opening the pair tells, as text.
fn describe(version: u32, flash: &[u8], disk: &[u8]) -> String {
    simulate(2, || {
        let mut text = String::new();
        let (flash, disk) = (device_of(flash), device_of(disk));
        match inspect(&*flash) {
            // How much is read to find out is not part of the format.
            Ok(report) => {
                let report = report.to_string();
                let lines = report.lines().filter(|line| !line.starts_with("read to find out"));
                lines.for_each(|line| writeln!(text, "{line}").unwrap());
            }
            Err(error) => writeln!(text, "inspect: {error}\n").unwrap(),
        }
        writeln!(text, "{}", check(&*flash, Some(disk.clone())).unwrap()).unwrap();
        let (tier, report) = match FlashTier::open(flash, disk, options(version)) {
            Ok(opened) => opened,
            Err(error) => {
                writeln!(text, "open: {error}").unwrap();
                return text;
            }
        };
        writeln!(
            text,
            "open: {} pages, {} newer than disk, {} torn",
            report.entries, report.dirty, report.torn
        )
        .unwrap();
        report.notices.iter().for_each(|notice| writeln!(text, "notice: {notice}").unwrap());
        let mut buffer = vec![0; PAGE];
        for number in 0..PAGES {
            let id = PageId(number);
            match tier.fetch(id, &mut buffer) {
                Ok(_) => {
                    let version = page::lsn(&buffer).0;
                    assert_eq!(buffer[40..48], (number << 16 | version).to_le_bytes());
                    writeln!(text, "{id}: version {version}").unwrap();
                }
                Err(error) => writeln!(text, "{id}: {error}").unwrap(),
            }
        }
        text
    })
}

/// The place of the page that `wanted` picks, by the newest generation.
fn newest(flash: &[u8], id: u64) -> usize {
    let blocks = (0..flash.len() / PAGE).map(|at| at * PAGE);
    let found = blocks.filter(|at| page::verify(&flash[*at..*at + PAGE], PageId(id), None).is_ok());
    found.max_by_key(|at| page::header(&flash[*at..]).generation.get()).expect("the page is on flash")
}

fn compare(version: u32, name: &str, flash: &[u8], disk: &[u8]) {
    let found = describe(version, flash, disk);
    expect(&format!("v{version}.{name}"), &found);
}

fn expect(name: &str, found: &str) {
    let path = path(&format!("{name}.expected"));
    if is_to_make(&path) {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{name}");
}

/// What is there stays.
fn is_to_make(path: &str) -> bool {
    std::env::var_os("ENTRESOL_BLESS").is_some() && !std::path::Path::new(path).exists()
}

/// Flash and disk of an image.
fn image(name: &str, generate: impl FnOnce() -> Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let path = path(&format!("{name}.image"));
    if is_to_make(&path) {
        std::fs::write(&path, generate()).unwrap();
    }
    let packed = std::fs::read(&path).unwrap();
    assert!(packed.len() < 100_000, "the image has {} bytes", packed.len());
    let mut rest = &packed[..];
    let pair = (unpack(&mut rest), unpack(&mut rest));
    assert!(rest.is_empty());
    pair
}

#[test]
fn images_of_all_versions_open_or_are_refused_as_recorded() {
    for version in 1..=FORMAT_VERSION {
        let (flash, disk) = image(&format!("v{version}"), || generate(version));
        compare(version, "intact", &flash, &disk);

        let mut pages = flash.clone();
        let (clean, dirty) = (newest(&flash, 1), newest(&flash, 30));
        pages[clean + 100] ^= 1;
        pages[dirty + 100] ^= 1;
        compare(version, "pages", &pages, &disk);

        let mut superblocks = flash.clone();
        for copy in 0..3 {
            superblocks[(copy * 16) << 10] ^= 1;
        }
        compare(version, "superblocks", &superblocks, &disk);
        superblocks[48 << 10] ^= 1;
        compare(version, "no-superblock", &superblocks, &disk);

        let mut directory = flash.clone();
        for at in (0..flash.len() / PAGE).map(|at| at * PAGE) {
            if flash[at..].starts_with(b"ENTRSEGM") {
                directory[at + 50] ^= 1;
            }
        }
        compare(version, "segments", &directory, &disk);

        let mut labels = disk.clone();
        labels[70] ^= 1;
        compare(version, "label", &flash, &labels);
        labels[(32 << 10) + 70] ^= 1;
        compare(version, "no-label", &flash, &labels);

        let mut newer = flash.clone();
        newer[8] = 3;
        compare(version, "newer", &newer, &disk);
    }
}

#[test]
fn the_fields_that_version_two_got_later_are_read_as_recorded() {
    let costs = |flash: &[u8]| {
        let copies =
            (0..4).map(|copy| Superblock::decode(&flash[(copy * 16) << 10..][..BLOCK_BYTES]).unwrap());
        copies.map(|superblock| superblock.costs.times_ns()).collect::<Vec<_>>()
    };
    let (before, _) = image("v2", || generate(2));
    assert_eq!(costs(&before), [[0; 6]; 4], "unknown");
    let (flash, disk) = image("v2-failed", generate_failed);
    assert_eq!(costs(&flash), [COSTS; 4]);
    expect("v2-failed.flash", &describe_failed(device_of(&flash), &disk));
    let other = Arc::new(MemoryDevice::new("other", flash.len() as u64));
    expect("v2-failed.other", &describe_failed(other.clone(), &disk));
    assert!(bytes_of(&*other).iter().all(|byte| *byte == 0), "it is not touched");
    let mut record = disk.clone();
    for copy in 0..2 {
        record[(copy * 32 + 4) << 10..][..8].fill(0);
    }
    let refused = simulate(3, || FlashTier::open(device_of(&flash), device_of(&record), raw_options()).err());
    assert!(refused.unwrap().to_string().contains("record of the pages"));
    let (flash, disk) = image("v2-lost", generate_lost);
    expect("v2-lost.flash", &describe_failed(device_of(&flash), &disk));
}

#[test]
fn a_cache_of_version_one_is_refused_until_it_is_detached() {
    let (mut flash, disk) = image("v1", || generate(1));
    // A group takes more room than in version 1.
    flash.resize(2 << 20, 0);
    simulate(3, || {
        let (flash, disk) = (device_of(&flash), device_of(&disk));
        let refused = FlashTier::open(flash.clone(), disk.clone(), options(FORMAT_VERSION)).err().unwrap();
        let told = refused.to_string();
        assert!(told.contains("format version 1") && told.contains("detach"), "{told}");
        let intact = std::fs::read_to_string(path("v1.intact.expected")).unwrap();
        let report = detach(flash.clone(), disk.clone()).unwrap();
        assert!(report.pages_written > 20, "{report:?}");
        let tier = DiskLayer::open(disk.clone(), PAGE as u32).unwrap();
        let mut buffer = vec![0; PAGE];
        for id in (0..PAGES).map(PageId) {
            tier.fetch(id, &mut buffer).unwrap();
            let line = format!("{id}: version {}\n", page::lsn(&buffer).0);
            assert!(intact.contains(&line), "{line}");
        }
        tier.close().unwrap();
        let (tier, report) = FlashTier::open(flash, disk, options(FORMAT_VERSION)).unwrap();
        assert_eq!(report.entries, 0);
        tier.close().unwrap();
    });
}
