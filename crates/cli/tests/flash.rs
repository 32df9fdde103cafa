//! `entresol check`, `entresol inspect` and `entresol detach` on a flash cache in files: sound, damaged,
//! foreign, missing, in use.

mod support;

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{DiskLayer, FlashTier, Layer, TierOptions, Victim, flash_bytes};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use support::{entresol, text};

const PAGES: u64 = 500;

fn options() -> TierOptions {
    TierOptions::new(PolicyKind::FaceGsc, 2048)
}

/// A cache with [`PAGES`] dirty pages, closed cleanly: the paths of flash and disk.
fn cache(folder: &Path) -> (PathBuf, PathBuf) {
    let (flash, disk) = (folder.join("flash.img"), folder.join("disk.img"));
    let open = |path: &Path, bytes| -> Arc<dyn Device> {
        Arc::new(FileDevice::open(path, FileOptions::create(bytes)).expect("a temporary file"))
    };
    let tier = FlashTier::create(open(&flash, flash_bytes(&options())), open(&disk, 64 << 20), options());
    let tier = tier.expect("files made for it");
    for page in 1..=PAGES {
        let victim = Victim { page: PageId(page), lsn: Lsn(page), dirty: true, fdirty: true };
        tier.evict(victim, &vec![page as u8; 4096]).expect("there is room");
    }
    tier.close().expect("nothing fails");
    (flash, disk)
}

fn on_files(command: &str, paths: &[&Path]) -> Output {
    let paths = paths.iter().map(|path| path.as_os_str());
    entresol(&std::iter::once(OsStr::new(command)).chain(paths).collect::<Vec<_>>())
}

/// The exit status, stdout, and stderr's one sentence.
fn outcome(output: &Output) -> (Option<i32>, String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(err.lines().count() <= 1 && !err.contains("panicked"), "{err}");
    (output.status.code(), out, err)
}

fn content(paths: &[&Path]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// Makes one byte of the page that is full of `byte` another one.
fn damage(flash: &Path, byte: u8) {
    // A page of 4096 equal bytes can only be one of ours.
    let is_it = |page: &[u8]| page[2048..].iter().all(|found| *found == byte);
    let at = content(&[flash])[0].chunks(4096).position(is_it).expect("the page is on flash");
    let file = OpenOptions::new().write(true).open(flash).expect("a file");
    file.write_all_at(&[!byte], at as u64 * 4096 + 3000).expect("a writable file");
}

#[test]
fn a_sound_cache_passes_and_is_described() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flash, disk) = cache(folder.path());
    let (status, out, err) = outcome(&on_files("check", &[&flash, &disk]));
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains(&format!("{PAGES} pages on flash")), "{out}");
    let (status, out, err) = outcome(&on_files("inspect", &[&flash]));
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.contains("face-gsc") && out.contains(&PAGES.to_string()) && out.contains("cleanly"), "{out}");
}

#[test]
fn looking_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flash, disk) = cache(folder.path());
    let before = content(&[&flash, &disk]);
    outcome(&on_files("check", &[&flash, &disk]));
    outcome(&on_files("inspect", &[&flash]));
    assert!(before == content(&[&flash, &disk]), "check or inspect wrote to a device");
}

#[test]
fn a_damaged_page_fails_the_check() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flash, disk) = cache(folder.path());
    damage(&flash, 77);
    let (status, out, err) = outcome(&on_files("check", &[&flash, &disk]));
    assert_eq!(status, Some(1), "{out}{err}");
    assert!(err.starts_with("entresol: ") && err.contains("flash.img"), "{err}");
    assert!(out.contains("fault: "), "{out}");
}

#[test]
fn what_is_no_cache_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let zeros = folder.path().join("zeros");
    std::fs::write(&zeros, vec![0; 1 << 20]).expect("a writable folder");
    let (status, _, err) = outcome(&on_files("check", &[&zeros]));
    assert!(status == Some(1) && err.starts_with("entresol: "), "{err}");
    let (status, _, err) = outcome(&on_files("inspect", &[&zeros]));
    assert!(status == Some(2) && err.contains("zeros"), "{err}");
    assert!(err.contains("(sce) used it last, whose directory lies in memory"), "{err}");
    for command in ["check", "inspect"] {
        let (status, out, err) = outcome(&on_files(command, &[&folder.path().join("missing")]));
        assert_eq!((status, out.as_str()), (Some(2), ""));
        assert!(err.contains("missing") && err.contains("check the path"), "{err}");
        let (status, _, err) = outcome(&on_files(command, &[folder.path()]));
        assert!(status == Some(2) && err.contains("neither a regular file"), "{err}");
    }
}

#[test]
fn the_wrong_disk_fails_the_check() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = tempfile::tempdir().expect("a temporary folder");
    let (flash, _) = cache(folder.path());
    let (_, disk) = cache(other.path());
    let (status, out, err) = outcome(&on_files("check", &[&flash, &disk]));
    assert!(status == Some(1) && err.starts_with("entresol: "), "{out}{err}");
}

/// Refused with exit status 2 and a sentence with these words, and nothing is written.
fn detach_is_refused(flash: &Path, disk: &Path, words: &str) {
    let before = content(&[flash, disk]);
    let (status, out, err) = outcome(&on_files("detach", &[flash, disk]));
    assert_eq!((status, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.starts_with("entresol: ") && err.contains(words), "{err}");
    assert!(before == content(&[flash, disk]), "what was refused has changed something");
}

#[test]
fn after_a_detach_the_disk_alone_has_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flash, disk) = cache(folder.path());
    let alone = || {
        let device = FileDevice::open(&disk, FileOptions::existing()).expect("a file");
        DiskLayer::open(Arc::new(device), 4096)
    };
    let refusal = alone().err().expect("the disk needs its cache").to_string();
    assert!(refusal.contains("entresol detach FLASH DISK"), "{refusal}");
    let (status, out, err) = outcome(&on_files("detach", &[&flash, &disk]));
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains(&format!("{PAGES} pages were written to ")), "{out}");
    assert!(out.contains("may be taken away"), "{out}");
    detach_is_refused(&flash, &disk, "the disk was detached from cache");
    std::fs::remove_file(&flash).expect("a file");
    let layer = alone().expect("the disk serves alone");
    let mut page = vec![0; 4096];
    for number in 1..=PAGES {
        layer.fetch(PageId(number), &mut page).expect("the page is on disk");
        assert!(page[2048..].iter().all(|byte| *byte == number as u8), "page {number}");
    }
}

#[test]
fn what_does_not_belong_together_is_not_detached() {
    let (folder, other) =
        (tempfile::tempdir().expect("a temporary folder"), tempfile::tempdir().expect("a temporary folder"));
    let (flash, disk) = cache(folder.path());
    let (other_flash, other_disk) = cache(other.path());
    detach_is_refused(&flash, &other_disk, "this disk is");
    detach_is_refused(&other_flash, &disk, "this disk is");
    let zeros = folder.path().join("zeros");
    std::fs::write(&zeros, vec![0; 1 << 20]).expect("a writable folder");
    detach_is_refused(&zeros, &disk, "holds no cache");
    detach_is_refused(&flash, &zeros, "no label");
    let (status, _, err) = outcome(&on_files("detach", &[&folder.path().join("missing"), &disk]));
    assert!(status == Some(2) && err.contains("missing") && err.contains("check the path"), "{err}");
    // A copy of the flash from before the disk went on with it.
    let stale = folder.path().join("stale");
    std::fs::copy(&flash, &stale).expect("a writable folder");
    for _ in 0..2 {
        let open = |path: &Path| Arc::new(FileDevice::open(path, FileOptions::existing()).expect("a file"));
        let (tier, _) =
            FlashTier::open(open(&flash), open(&disk), options()).expect("it belongs to the disk");
        tier.close().expect("nothing fails");
    }
    detach_is_refused(&stale, &disk, "the disk was written without it");
}

#[test]
fn a_cache_in_use_or_damaged_is_not_detached() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flash, disk) = cache(folder.path());
    let user = FileDevice::open(&flash, FileOptions::existing()).expect("a file");
    detach_is_refused(&flash, &disk, "close it first");
    drop(user);
    damage(&flash, 77);
    let (status, out, err) = outcome(&on_files("detach", &[&flash, &disk]));
    assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains("1 page is lost") && err.contains("page 0:77") && err.contains("--accept-loss"),
        "{err}"
    );
    // The two still belong together.
    let (status, out, err) = outcome(&on_files("check", &[&flash, &disk]));
    assert!(status == Some(1) && !out.contains("do not belong together"), "{out}{err}");
    let accepted = Command::new(env!("CARGO_BIN_EXE_entresol"))
        .args(["detach", "--accept-loss"])
        .args([&flash, &disk])
        .output()
        .expect("the command was built");
    assert_eq!(accepted.status.code(), Some(0), "{}", String::from_utf8_lossy(&accepted.stderr));
    // All others are there, and of that one no older version: a database would take it for the newest.
    let device = FileDevice::open(&disk, FileOptions::existing()).expect("a file");
    let layer = DiskLayer::open(Arc::new(device), 4096).expect("the disk serves alone");
    let mut page = vec![0; 4096];
    for number in 1..=PAGES {
        match layer.fetch(PageId(number), &mut page) {
            Ok(_) => assert!(page[2048..].iter().all(|byte| *byte == number as u8), "page {number}"),
            Err(error) => assert!(number == 77 && error.to_string().contains("is damaged"), "{error}"),
        }
    }
    assert!(layer.fetch(PageId(77), &mut page).is_err());
}
