//! A volume whose parts are not what they were is refused with a sentence, and nothing of it is written.

use entresol_block::{VolumeConfig, create_volume, open_volume};
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
const DISK_BYTES: usize = 24 << 20;
const FLASH_BYTES: usize = 12 << 20;
const PARTS: [&str; 4] = ["disk", "flash", "label", "journal"];

struct Made {
    folder: tempfile::TempDir,
    config: VolumeConfig,
}

impl Made {
    /// A write-back volume whose program ended with pages newer than disk on flash.
    fn new() -> Self {
        Self::of("write-back", 0)
    }

    /// A volume whose program ended without a close. Its pages have numbers from `first` on.
    fn of(mode: &str, first: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("disk"), (0..DISK_BYTES).map(|at| (at / 512 % 251) as u8).collect::<Vec<_>>())
            .unwrap();
        std::fs::write(at("flash"), vec![0; FLASH_BYTES]).unwrap();
        let config = VolumeConfig {
            name: "data".to_owned(),
            disk: at("disk"),
            flash: at("flash"),
            label: at("label"),
            socket: at("socket"),
            direct_io: false,
            journal: at("journal"),
            journal_bytes: 16 << 20,
            // Warm after an open.
            policy: "face-gsc".to_owned(),
            ..VolumeConfig::usual(mode)
        };
        let config = create_volume(&config, false).unwrap();
        let (volume, _) = open_volume(&config).unwrap();
        for page in 0..200 {
            volume.write(page * 7 * PAGE as u64, &[(page as u8).wrapping_add(first); PAGE], false).unwrap();
        }
        volume.flush().unwrap();
        drop(volume);
        Self { folder, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_default()
    }

    /// It is refused with a sentence that has these words, and none of these parts was written.
    fn refuses(&self, config: &VolumeConfig, unwritten: &[&str], words: &[&str]) {
        let before: Vec<_> = unwritten.iter().map(|name| self.read(name)).collect();
        let Err(refused) = open_volume(config) else { panic!("opened; expected {words:?}") };
        let told = refused.to_string();
        assert!(words.iter().all(|word| told.contains(word)), "{told:?} has not all of {words:?}");
        for (name, before) in unwritten.iter().zip(&before) {
            assert!(self.read(name) == *before, "{name} was written: {told}");
        }
    }

    /// As [`Made::refuses`], while a part has this content.
    fn refuses_with(&self, name: &str, content: &[u8], unwritten: &[&str], words: &[&str]) {
        let before = self.read(name);
        std::fs::write(self.path(name), content).unwrap();
        self.refuses(&self.config, unwritten, words);
        std::fs::write(self.path(name), before).unwrap();
    }
}

/// The flash of a golden image (`crates/engine/tests/golden.rs`).
fn golden_flash(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden").join(name);
    let packed = std::fs::read(path).unwrap();
    let mut rest = &packed[..];
    let number = |rest: &mut &[u8]| {
        let (head, tail) = rest.split_at(8);
        *rest = tail;
        u64::from_le_bytes(head.try_into().unwrap()) as usize
    };
    let mut bytes = vec![0; number(&mut rest)];
    for _ in 0..number(&mut rest) {
        let (start, used) = (number(&mut rest) * 512, number(&mut rest));
        bytes[start..start + used].copy_from_slice(&rest[..used]);
        rest = &rest[used..];
    }
    bytes
}

#[test]
fn labels_and_disks_that_are_not_what_they_were() {
    let (made, other) = (Made::new(), Made::new());
    let (disk, label) = (made.read("disk"), made.read("label"));
    std::fs::rename(made.path("label"), made.path("hidden")).unwrap();
    made.refuses(&made.config, &PARTS, &["label", "No such file"]);
    std::fs::rename(made.path("hidden"), made.path("label")).unwrap();
    made.refuses_with("label", &vec![0; label.len()], &PARTS, &["blank", "backup"]);
    let damaged: Vec<u8> = label.iter().map(|byte| byte ^ 0x5a).collect();
    made.refuses_with("label", &damaged, &PARTS, &["label", "backup"]);
    made.refuses_with("label", &label[..label.len() / 2 / 512 * 512], &PARTS, &["label", "truncated"]);
    made.refuses_with("disk", &disk[..disk.len() - PAGE], &PARTS, &["it has shrunk", "restore its size"]);
    let mut written = disk.clone();
    written[..512].fill(0xee);
    made.refuses_with("disk", &written, &PARTS, &["another program"]);
    made.refuses_with("label", &other.read("label"), &PARTS, &["of disk", "this disk is"]);
    assert!(open_volume(&made.config).is_ok(), "as it was, it opens");
}

#[test]
fn flash_devices_that_are_not_what_they_were() {
    let (made, other) = (Made::new(), Made::new());
    made.refuses_with("flash", &vec![0; FLASH_BYTES], &PARTS, &["flash", "blank"]);
    made.refuses_with("flash", &other.read("flash"), &PARTS, &["of disk", "this disk is"]);
    let mut version_one = golden_flash("v1.image");
    version_one.resize(FLASH_BYTES, 0);
    made.refuses_with("flash", &version_one, &PARTS, &["of disk", "this disk is"]);
    let link = made.path("link");
    std::os::unix::fs::symlink(made.path("disk"), &link).unwrap();
    for flash in [made.path("disk"), link] {
        made.refuses(&VolumeConfig { flash, ..made.config.clone() }, &PARTS, &["flash", "is the disk"]);
    }
    assert!(open_volume(&made.config).is_ok(), "as it was, it opens");
}

/// In write-through the disk has everything: with the flash or the label of another volume, no page of that
/// one is served.
#[test]
fn parts_of_another_volume_in_write_through() {
    for part in ["flash", "label"] {
        let (made, other) = (Made::of("write-through", 0), Made::of("write-through", 100));
        std::fs::write(made.path(part), other.read(part)).unwrap();
        let (volume, report) = open_volume(&made.config).unwrap();
        let mut found = [0; PAGE];
        for page in 0..200 {
            volume.read(page * 7 * PAGE as u64, &mut found).unwrap();
            assert_eq!(found, [page as u8; PAGE], "page {page} with the other's {part}: {report:?}");
        }
    }
}
