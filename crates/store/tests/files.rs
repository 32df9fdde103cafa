//! A store on files: what was committed is there again, with and without a flash cache; what cannot be opened
//! is refused.

use entresol_core::PolicyKind;
use entresol_store::{Files, Lock, OpenFiles, Options};
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("entresol-files-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn disk_only(folder: &Path) -> Files {
    Files::new(folder.join("disk"), 16 * MIB, folder.join("log"), 8 * MIB)
}

fn options(page_bytes: u32) -> Options {
    Options { frames: 64, page_bytes, ..Options::default() }
}

/// Writes, shuts down or not, and reads back.
fn write_and_read(files: &Files, page_bytes: u32, shut_down: bool) {
    let rows = 2_000u32;
    let value = |row: u32| [row.to_le_bytes(); 40].concat();
    {
        let OpenFiles { store, .. } = files.create(options(page_bytes)).unwrap();
        let table = store.create_table("rows").unwrap();
        let mut txn = store.begin();
        for row in 0..rows {
            txn.insert(table, &row.to_be_bytes(), &value(row)).unwrap();
        }
        txn.commit().unwrap();
        if shut_down {
            store.shutdown().unwrap();
        }
    }
    let OpenFiles { store, restart, .. } = files.open(options(page_bytes)).unwrap();
    // All rows were inserted after the checkpoint of the create.
    assert_eq!(restart.log_bytes > 160 * u64::from(rows), !shut_down, "{restart:?}");
    let table = store.table("rows").unwrap().expect("the table is there");
    let mut txn = store.begin();
    let mut found = Vec::new();
    for row in 0..rows {
        assert!(txn.get(table, &row.to_be_bytes(), Lock::None, &mut found).unwrap(), "row {row}");
        assert_eq!(found, value(row));
    }
    txn.commit().unwrap();
    assert_eq!(store.metrics().tier.slots > 0, !format!("{files:?}").contains("flash: None"));
    store.shutdown().unwrap();
}

#[test]
fn rows_are_there_again() {
    for shut_down in [true, false] {
        let folder = Folder::new(&format!("disk-{shut_down}"));
        write_and_read(&disk_only(&folder.0), 4096, shut_down);
        for (policy, page_bytes) in
            [(PolicyKind::FaceGsc, 4096), (PolicyKind::Lc, 4096), (PolicyKind::Face, 16384)]
        {
            let folder = Folder::new(&format!("{}-{shut_down}", policy.name()));
            let files = disk_only(&folder.0).with_flash(folder.0.join("flash"), 32 * MIB, policy);
            write_and_read(&files, page_bytes, shut_down);
        }
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = Folder::new("none");
    let Err(error) = disk_only(&folder.0).open(options(4096)) else { panic!("there is no store") };
    assert!(error.to_string().contains("label"), "{error}");
    let nowhere = Files::new("/nonexistent/disk", 16 * MIB, folder.0.join("log"), 8 * MIB);
    let Err(error) = nowhere.create(options(4096)) else { panic!("there is no such folder") };
    assert!(error.to_string().contains("/nonexistent/disk"), "{error}");
}

/// The flash cache is opened before the log. A refusal of the log must come before both.
#[test]
fn a_log_that_does_not_belong_to_the_disk_is_refused_before_anything_is_written() {
    let folder = Folder::new("mistyped");
    let path = |name: &str| folder.0.join(name);
    let files = disk_only(&folder.0);
    write_and_read(&files, 4096, true);
    write_and_read(&Files::new(path("other disk"), 16 * MIB, path("other log"), 8 * MIB), 4096, true);
    let names = ["disk", "other log", "flash"];
    std::fs::write(path("flash"), vec![0; 32 * MIB as usize]).unwrap();
    let contents = || names.map(|name| std::fs::read(path(name)).unwrap());
    let before = contents();
    let wrong = Files::new(path("disk"), 16 * MIB, path("other log"), 8 * MIB);
    let Err(error) = wrong.with_flash(path("flash"), 32 * MIB, PolicyKind::FaceGsc).open(options(4096))
    else {
        panic!("a log of another disk was accepted")
    };
    assert!(error.to_string().contains("give the log that belongs to this disk"), "{error}");
    assert!(contents() == before, "something was written, though the open was refused: {error}");
    files.open(options(4096)).unwrap();
}

/// The flash cache is made before the store. A refusal of the store must come before both.
#[test]
fn a_refused_create_leaves_the_database_as_it_is() {
    let folder = Folder::new("refused");
    let files = disk_only(&folder.0);
    write_and_read(&files, 4096, true);
    let contents = || ["disk", "log"].map(|name| std::fs::read(folder.0.join(name)).unwrap());
    let before = contents();
    let refused = |files: &Files, options, sentence: &str| {
        let Err(error) = files.create(options) else { panic!("the database was overwritten") };
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(contents() == before, "something was written, though the create was refused: {error}");
    };
    refused(&files, options(4096), "holds a database");
    let cached = disk_only(&folder.0).with_flash(folder.0.join("flash"), 32 * MIB, PolicyKind::FaceGsc);
    refused(&cached, options(4096), "holds a database");
    let others_log = Files::new(folder.0.join("new disk"), 16 * MIB, folder.0.join("log"), 8 * MIB);
    refused(&others_log, options(4096), "of another database");
    assert!(std::fs::read(folder.0.join("new disk")).unwrap().iter().all(|byte| *byte == 0));
    // A file that is too short is not grown.
    for name in ["disk", "log", "flash"] {
        let letter = folder.0.join("letter");
        std::fs::write(&letter, "Dear reader").unwrap();
        let path = |of: &str| if of == name { letter.clone() } else { folder.0.join(format!("other {of}")) };
        let files = Files::new(path("disk"), 16 * MIB, path("log"), 8 * MIB);
        refused(&files.with_flash(path("flash"), 32 * MIB, PolicyKind::FaceGsc), options(4096), "11 bytes");
        assert_eq!(std::fs::read(&letter).unwrap(), b"Dear reader");
    }
    // What is wrong with the options is said first, too.
    let over = |options| Options { overwrite: true, ..options };
    refused(&cached, over(Options { frames: 1, ..options(4096) }), "frames");
    let OpenFiles { store, .. } = files.open(options(4096)).unwrap();
    assert!(store.table("rows").unwrap().is_some());
}

/// The owner has lowered the size of the log. The database is whole, and nobody is told otherwise.
#[test]
fn a_log_that_is_opened_smaller_is_named() {
    let folder = Folder::new("smaller-log");
    write_and_read(&disk_only(&folder.0), 4096, true);
    let smaller = Files::new(folder.0.join("disk"), 16 * MIB, folder.0.join("log"), 4 * MIB);
    let Err(error) = smaller.open(options(4096)) else { panic!("opened with half of its log") };
    let told = error.to_string();
    let bytes = (8 * MIB).to_string();
    assert!(told.contains("the log takes") && told.contains(&bytes), "{told}");
    assert!(!told.contains("damaged") && !told.contains("backup"), "{told}");
    disk_only(&folder.0).open(options(4096)).unwrap().store.shutdown().unwrap();
}
