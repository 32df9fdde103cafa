//! The patches of `doors/postgres` fit the source whose checksum is beside them.
//!
//! Without the source, the test says so and passes: it is 22 MB, and not part of the repository.

use entresol_xtask::postgres::source;
use std::fs;
use tempfile::TempDir;

#[test]
fn patches_apply_exactly() {
    let wanted = source::wanted().expect("a checksum and a name");
    let Some(file) = source::present(&wanted) else {
        println!("skipped: {} is neither beside the repository nor downloaded", wanted.name);
        return;
    };
    source::check(&file, &wanted).expect("the source is the one that the patches are for");

    let folder = TempDir::new().expect("a folder");
    let changed = source::patched_files().expect("patches that can be read");
    assert!(changed.iter().any(|name| name == "src/backend/storage/buffer/bufmgr.c"), "{changed:?}");
    source::unpack(&file, &changed, folder.path()).expect("all changed files are in the source");
    let before = fs::read_to_string(folder.path().join(&changed[0])).expect("a file");
    source::patch(folder.path()).expect("every hunk is at its place");
    let after = fs::read_to_string(folder.path().join(&changed[0])).expect("a file");
    assert_ne!(before, after, "{}", changed[0]);
    assert!(folder.path().join("src/include/storage/flashcache.h").is_file());

    // Patched twice: the hunks are not where they were.
    assert!(source::patch(folder.path()).is_err());
}

#[test]
fn another_file_is_refused_with_the_one_to_bring() {
    let wanted = source::wanted().expect("a checksum and a name");
    let folder = TempDir::new().expect("a folder");
    let other = folder.path().join(&wanted.name);
    fs::write(&other, "something else").expect("a file");
    for file in [other, folder.path().join("absent"), folder.path().to_owned()] {
        let said = source::check(&file, &wanted).expect_err("it is not the source").to_string();
        assert!(said.contains(&wanted.sha256) && said.contains(&wanted.name), "{said}");
    }
}
