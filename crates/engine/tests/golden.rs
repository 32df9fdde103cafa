//! Images of format version 1 as they were written by the release that introduced it: this release must open
//! them, or refuse them, as recorded. `tests/golden/v1.image` holds a flash and a disk after a power failure
//! in the middle of writing; the damages are applied here.
//!
//! `ENTRESOL_BLESS=1 cargo test -p entresol-engine --test golden` makes the image anew (from a fixed seed)
//! and records what is found: for a new format version only, under a new name.

mod support;

use entresol_core::{PageId, PolicyKind};
use entresol_device::{FaultPlan, FaultyDevice, MemoryDevice, Survival};
use entresol_engine::{FlashTier, Layer, TierOptions, check, flash_bytes, inspect};
use entresol_format::page;
use std::fmt::Write;
use std::sync::Arc;
use support::{PAGE, bytes_of, device_of, disk_bytes, simulate, victim};

const PAGES: u64 = 48;
const SECTOR: usize = 512;

fn path(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn options() -> TierOptions {
    TierOptions { group_pages: 2, segment_entries: 16, ..support::small(PolicyKind::FaceGsc, 40) }
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

fn generate() -> Vec<u8> {
    let (flash, disk) = simulate(1, || {
        let options = options();
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
fn describe(flash: &[u8], disk: &[u8]) -> String {
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
        let (tier, report) = match FlashTier::open(flash, disk, options()) {
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

fn compare(name: &str, flash: &[u8], disk: &[u8]) {
    let found = describe(flash, disk);
    let path = path(&format!("v1.{name}.expected"));
    if std::env::var_os("ENTRESOL_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{name}");
}

#[test]
fn images_of_version_one_open_or_are_refused_as_recorded() {
    if std::env::var_os("ENTRESOL_BLESS").is_some() {
        std::fs::write(path("v1.image"), generate()).unwrap();
    }
    let packed = std::fs::read(path("v1.image")).unwrap();
    assert!(packed.len() < 100_000, "the image has {} bytes", packed.len());
    let mut rest = &packed[..];
    let (flash, disk) = (unpack(&mut rest), unpack(&mut rest));
    assert!(rest.is_empty());
    compare("intact", &flash, &disk);

    let mut pages = flash.clone();
    let (clean, dirty) = (newest(&flash, 1), newest(&flash, 30));
    pages[clean + 100] ^= 1;
    pages[dirty + 100] ^= 1;
    compare("pages", &pages, &disk);

    let mut superblocks = flash.clone();
    for copy in 0..3 {
        superblocks[(copy * 16) << 10] ^= 1;
    }
    compare("superblocks", &superblocks, &disk);
    superblocks[48 << 10] ^= 1;
    compare("no-superblock", &superblocks, &disk);

    let mut directory = flash.clone();
    for at in (0..flash.len() / PAGE).map(|at| at * PAGE) {
        if flash[at..].starts_with(b"ENTRSEGM") {
            directory[at + 50] ^= 1;
        }
    }
    compare("segments", &directory, &disk);

    let mut labels = disk.clone();
    labels[70] ^= 1;
    compare("label", &flash, &labels);
    labels[(32 << 10) + 70] ^= 1;
    compare("no-label", &flash, &labels);

    let mut newer = flash.clone();
    newer[8] = 2;
    compare("version-two", &newer, &disk);
}
