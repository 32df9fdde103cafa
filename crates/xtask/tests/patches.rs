//! The patches of `doors/postgres` fit the sources that `SHA256SUMS` of their folder names.
//!
//! Sources are 22 MB each, and not part of the repository: those that are not here are left out, and the test
//! says so.

use entresol_xtask::postgres::source;
use entresol_xtask::postgres::version::{MAJORS, tried};
use std::fs;
use tempfile::TempDir;

#[test]
fn patches_apply_to_each_version_that_was_tried() {
    for major in MAJORS {
        for wanted in tried(major).expect("checksums and names") {
            let Some(file) = source::present(&wanted) else {
                println!("left out: {} is neither beside the repository nor downloaded", wanted.name());
                continue;
            };
            source::check(&file, &wanted).expect("the source is the one that was tried");

            let folder = TempDir::new().expect("a folder");
            let changed = source::patched_files(major).expect("patches that can be read");
            assert!(changed.iter().any(|name| name == "src/backend/storage/buffer/bufmgr.c"), "{changed:?}");
            source::unpack(&wanted, &file, &changed, folder.path()).expect("all files are in the source");
            let before = fs::read_to_string(folder.path().join(&changed[0])).expect("a file");
            source::patch(major, folder.path()).expect("every hunk is there");
            let after = fs::read_to_string(folder.path().join(&changed[0])).expect("a file");
            assert_ne!(before, after, "{}", changed[0]);
            assert!(folder.path().join("src/include/storage/flashcache.h").is_file());

            // Patched twice: the lines are not there any more.
            assert!(source::patch(major, folder.path()).is_err());
        }
    }
}

#[test]
fn another_file_is_refused_with_the_one_to_bring() {
    let wanted = &tried(MAJORS[0]).expect("checksums and names")[0];
    let folder = TempDir::new().expect("a folder");
    let other = folder.path().join(wanted.name());
    fs::write(&other, "something else").expect("a file");
    for file in [other, folder.path().join("absent"), folder.path().to_owned()] {
        let said = source::check(&file, wanted).expect_err("it is not the source").to_string();
        assert!(said.contains(&wanted.sha256) && said.contains(&wanted.name()), "{said}");
    }
}
