//! Images of each format version as they were written by the release that introduced it: this release must
//! read them, or refuse them, as recorded. `tests/golden/v1.image` and `v2.image` hold a flash and a disk
//! after a power failure in the middle of writing; the damages are applied here. A cache of version 1 is
//! opened only to be detached, so what is compared is what such an open finds.
//!
//! `ENTRESOL_BLESS=1 cargo test -p entresol-engine --test golden` makes the image anew (from a fixed seed)
//! and records what is found: for a new format version only, under a new name.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{DiskLayer, FlashTier, Layer, TierOptions, check, detach, flash_bytes, inspect};
use entresol_format::{FORMAT_VERSION, page};
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

fn generate(version: u32) -> Vec<u8> {
    let (flash, disk) = simulate(1, || {
        let options = options(version);
        let plan = Arc::new(FaultPlan::none());
        let medium =
            |name: &str, bytes| FaultyDevice::new(name, MemoryDevice::new(name, bytes), plan.clone());
        let flash = Arc::new(medium("flash", flash_bytes(&options)));
        let disk = Arc::new(medium("disk", disk_bytes(PAGES)));
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
    let path = path(&format!("v{version}.{name}.expected"));
    if blesses(version) {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{name}");
}

/// Only the newest version is made anew.
fn blesses(version: u32) -> bool {
    version == FORMAT_VERSION && std::env::var_os("ENTRESOL_BLESS").is_some()
}

/// Flash and disk of an image.
fn image(version: u32) -> (Vec<u8>, Vec<u8>) {
    let path = path(&format!("v{version}.image"));
    if blesses(version) {
        std::fs::write(&path, generate(version)).unwrap();
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
        let (flash, disk) = image(version);
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
fn a_cache_of_version_one_is_refused_until_it_is_detached() {
    let (mut flash, disk) = image(1);
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
