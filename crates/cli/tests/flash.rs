//! `entresol check` and `entresol inspect` on a flash cache in files: sound, damaged, foreign, missing.

mod support;

use entresol_core::{Lsn, PageId, PolicyKind};
use entresol_device::{Device, FileDevice, FileOptions};
use entresol_engine::{FlashTier, Layer, TierOptions, Victim, flash_bytes};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;
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
    let read = || [&flash, &disk].map(|path| std::fs::read(path).expect("a file"));
    let before = read();
    outcome(&on_files("check", &[&flash, &disk]));
    outcome(&on_files("inspect", &[&flash]));
    assert!(before == read(), "check or inspect wrote to a device");
}

#[test]
fn a_damaged_page_fails_the_check() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flash, disk) = cache(folder.path());
    // A page of 4096 equal bytes can only be one of ours: one byte of it is changed.
    let content = std::fs::read(&flash).expect("a file");
    let at =
        content.chunks(4096).position(|page| page[2048..].iter().all(|byte| *byte == 77)).expect("page 77");
    let file = OpenOptions::new().write(true).open(&flash).expect("a file");
    file.write_all_at(&[0], at as u64 * 4096 + 3000).expect("a writable file");
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
