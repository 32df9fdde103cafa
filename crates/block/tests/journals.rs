//! The journal of a volume whose server was killed: a copy of the volume does not take it, what is no journal
//! is not touched, and one that is gone is told.

use entresol_block::{
    JournalState, Loss, Volume, VolumeConfig, VolumeStatus, accept_journal, create_volume, detach_volume,
    empty_volume, go_without_journal, inspect_volume, open_volume, remove_ended_journal, remove_journal,
};
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
const PAGES: usize = 100;

struct Made {
    folder: tempfile::TempDir,
    config: VolumeConfig,
}

fn page(volume: &Volume, page: usize) -> u8 {
    let mut found = [0; PAGE];
    volume.read((page * PAGE) as u64, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == found[0]));
    found[0]
}

/// What a report says when no program has the volume open any more: tasks of one that was dropped end soon.
fn inspected(config: &VolumeConfig) -> VolumeStatus {
    loop {
        let status = inspect_volume(config).unwrap();
        if status.under_way.is_none() {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn close(volume: Volume) {
    volume.close().unwrap();
}

impl Made {
    /// A volume in this mode. All pages are 1, durably.
    fn in_mode(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("disk"), vec![0; 24 << 20]).unwrap();
        std::fs::write(at("flash"), vec![0; 12 << 20]).unwrap();
        let config = VolumeConfig {
            name: "data".to_owned(),
            disk: at("disk"),
            flash: at("flash"),
            label: at("label"),
            socket: at("socket"),
            direct_io: false,
            journal: at("journal"),
            journal_bytes: 16 << 20,
            ..VolumeConfig::usual(mode)
        };
        let config = create_volume(&config, false).unwrap();
        let made = Self { folder, config };
        let (volume, _) = open_volume(&made.config).unwrap();
        (0..PAGES).for_each(|page| volume.write((page * PAGE) as u64, &[1; PAGE], false).unwrap());
        volume.flush().unwrap();
        drop(volume);
        made
    }

    /// All pages are 1, durably; those below 10 are 2, acknowledged, and the program was killed.
    fn killed() -> Self {
        let made = Self::in_mode("write-back");
        let (volume, _) = open_volume(&made.config).unwrap();
        (0..10).for_each(|page| volume.write((page * PAGE) as u64, &[2; PAGE], false).unwrap());
        drop(volume);
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration of a copy of these parts; the others are the original's.
    fn copy(&self, parts: &[&str]) -> VolumeConfig {
        let copied = |name: &str, path: &Path| match parts.contains(&name) {
            false => path.to_owned(),
            true => {
                let to = self.path(&format!("{name}.copy"));
                std::fs::copy(path, &to).unwrap();
                to
            }
        };
        let config = self.config.clone();
        VolumeConfig {
            disk: copied("disk", &config.disk),
            flash: copied("flash", &config.flash),
            label: copied("label", &config.label),
            ..config
        }
    }

    /// As the killed program has acknowledged it.
    fn has_everything(&self) {
        let (volume, told) = open_volume(&self.config).unwrap();
        assert!(told.concat().contains("10 writes"), "{told:?}");
        (0..PAGES).for_each(|at| assert_eq!(page(&volume, at), if at < 10 { 2 } else { 1 }, "page {at}"));
        assert!(!volume.journal_missing());
        close(volume);
    }
}

fn refused(config: &VolumeConfig) -> String {
    open_volume(config).err().expect("refused").to_string()
}

#[test]
fn a_copy_does_not_take_the_journal_of_the_original() {
    for parts in [&["disk", "flash", "label"][..], &["disk"], &["flash"], &["label"]] {
        let made = Made::killed();
        let copy = made.copy(parts);
        for told in [refused(&copy), detach_volume(&copy, Loss::Refused).unwrap_err().to_string()] {
            for word in ["10 acknowledged writes", "journal accept", "journal without"].iter().chain(parts) {
                assert!(told.contains(word), "{word}: {told}");
            }
        }
        made.has_everything();
    }
}

/// The copy goes on without the journal, with one of its own; the original has everything.
#[test]
fn a_copy_goes_on_without_the_journal() {
    let made = Made::killed();
    let copy = made.copy(&["disk", "flash", "label"]);
    assert!(go_without_journal(&copy).unwrap());
    let told = refused(&copy);
    assert!(told.contains("does not name it") && told.contains("path of its own"), "{told}");
    let copy = VolumeConfig { journal: made.path("its own"), ..copy };
    let (volume, told) = open_volume(&copy).unwrap();
    assert_eq!((page(&volume, 0), page(&volume, 50)), (1, 1), "{told:?}");
    close(volume);
    let told = go_without_journal(&made.config).unwrap_err().to_string();
    assert!(told.contains("10 writes"), "it is there: {told}");
    made.has_everything();
}

/// The owner says that it is the volume: its files were moved to another device, for instance.
#[test]
fn a_volume_that_was_moved_is_accepted_by_hand() {
    let made = Made::killed();
    let moved = made.copy(&["disk", "flash", "label"]);
    refused(&moved);
    assert_eq!(accept_journal(&moved).unwrap(), 10);
    let (volume, told) = open_volume(&moved).unwrap();
    assert_eq!((page(&volume, 0), page(&volume, 50)), (2, 1), "{told:?}");
    close(volume);
    remove_ended_journal(&moved);
    assert!(!made.path("journal").exists());
    assert!(accept_journal(&moved).is_err(), "the label names none");
}

/// Another volume, whose configuration names the same journal.
#[test]
fn another_volume_does_not_take_the_journal() {
    let (made, other) = (Made::killed(), Made::in_mode("write-back"));
    let config = VolumeConfig { journal: made.config.journal.clone(), ..other.config.clone() };
    assert!(
        refused(&config).contains("10 acknowledged writes of a volume with another disk, flash, label"),
        "{}",
        refused(&config)
    );
    made.has_everything();
}

/// A label from a backup does not name the journal: its writes are not carried out, and not lost unnoticed.
#[test]
fn a_restored_label_is_told_of_the_journal() {
    let made = Made::in_mode("write-through");
    let backup = std::fs::read(made.path("label")).unwrap();
    let config =
        VolumeConfig { mode: "write-back".to_owned(), policy: "face-gsc".to_owned(), ..made.config.clone() };
    let (_, config) = empty_volume(&made.config, &config, Loss::Refused).unwrap();
    let (volume, _) = open_volume(&config).unwrap();
    volume.write(0, &[2; PAGE], false).unwrap();
    drop(volume);
    std::fs::remove_file(made.path("label")).unwrap();
    std::fs::write(made.path("label"), backup).unwrap();
    let told = refused(&config);
    assert!(told.contains("1 acknowledged writes") && told.contains("restored from a backup"), "{told}");
}

#[test]
fn a_journal_that_is_gone_is_told() {
    let made = Made::killed();
    std::fs::remove_file(made.path("journal")).unwrap();
    let status = inspected(&made.config);
    assert!(status.journal_missing && status.start_notices.len() == 1);
    let (volume, told) = open_volume(&made.config).unwrap();
    let told = told.concat();
    assert!(told.contains("not started since") && told.contains("may be missing"), "{told}");
    let status = volume.status();
    assert!(volume.journal_missing() && status.journal_missing);
    assert_eq!(status.start_notices.concat(), told);
    assert_eq!(page(&volume, 0), 1, "what was flushed");
    close(volume);
    // After a clean end there is nothing to miss, with or without the file.
    assert!(!inspected(&made.config).journal_missing);
    remove_ended_journal(&made.config);
    let (volume, told) = open_volume(&made.config).unwrap();
    assert!(!volume.journal_missing() && told.is_empty(), "{told:?}");
    // Nor is it after a kill in a mode whose acknowledged writes are on the disk.
    drop(volume);
    let through = Made::in_mode("write-through");
    std::fs::remove_file(through.path("journal")).unwrap();
    let (volume, told) = open_volume(&through.config).unwrap();
    assert!(!volume.journal_missing(), "{told:?}");
}

/// The configuration names no journal any more, or it was detached: this is told, too.
#[test]
fn a_journal_that_is_not_looked_for_is_told() {
    let without = |config: &VolumeConfig| VolumeConfig { journal: PathBuf::new(), ..config.clone() };
    let made = Made::killed();
    let (volume, told) = open_volume(&without(&made.config)).unwrap();
    assert!(volume.journal_missing() && told.concat().contains("may be missing"), "{told:?}");
    drop(volume);
    let made = Made::killed();
    let told = detach_volume(&without(&made.config), Loss::Refused).unwrap().notices.concat();
    assert!(told.contains("may be missing"), "{told}");
}

#[test]
fn a_journal_that_waits_is_told_and_carried_out_by_a_detach() {
    let made = Made::killed();
    assert_eq!(inspected(&made.config).journal_writes, 10);
    let told = detach_volume(&made.config, Loss::Refused).unwrap().notices.concat();
    assert!(told.contains("10 writes"), "{told}");
    let disk = std::fs::read(made.path("disk")).unwrap();
    assert_eq!((disk[0], disk[50 * PAGE]), (2, 1));
    assert!(!made.path("journal").exists());
}

/// Its journal has ended with the cache, and is not missed.
#[test]
fn a_volume_that_was_detached_while_it_served_misses_no_journal() {
    let made = Made::in_mode("write-back");
    let (volume, _) = open_volume(&made.config).unwrap();
    (0..10).for_each(|page| volume.write((page * PAGE) as u64, &[2; PAGE], false).unwrap());
    volume.detach(Loss::Refused).unwrap();
    close(volume);
    for cache in [false, true] {
        let (volume, told) = open_volume(&VolumeConfig { cache, ..made.config.clone() }).unwrap();
        assert!(told.iter().all(|told| !told.contains("journal")), "{told:?}");
        assert_eq!(page(&volume, 5), 2);
        close(volume);
    }
}

#[test]
fn a_file_that_is_no_journal_is_not_touched() {
    let made = Made::in_mode("write-back");
    let (volume, _) = open_volume(&made.config).unwrap();
    close(volume);
    let blank = vec![0; 20 << 20];
    let text = b"something of the owner's".repeat(1 << 20);
    for (name, content) in [("small", &b"x"[..]), ("zeros", &blank), ("text", &text)] {
        let path = made.path(name);
        std::fs::write(&path, content).unwrap();
        let config = VolumeConfig { journal: path.clone(), ..made.config.clone() };
        assert!(refused(&config).contains("is no journal"), "{name}: {}", refused(&config));
        assert!(remove_journal(&path, true).is_err(), "{name}");
        // A detach has nothing to carry out, and removes nothing.
        detach_volume(&config, Loss::Refused).unwrap();
        assert!(std::fs::read(&path).unwrap() == content, "{name}");
    }
}

/// A making of the journal that was cut off does not stop the next start.
#[test]
fn a_journal_that_is_not_whole_is_made_again() {
    let made = Made::in_mode("write-back");
    let (volume, _) = open_volume(&made.config).unwrap();
    close(volume);
    let whole = std::fs::read(made.path("journal")).unwrap();
    for length in [0, 512, 4096, whole.len() / 2] {
        std::fs::write(made.path("journal"), &whole[..length]).unwrap();
        let (volume, told) = open_volume(&made.config).unwrap();
        assert!(told.is_empty(), "{length}: {told:?}");
        close(volume);
        assert_eq!(std::fs::metadata(made.path("journal")).unwrap().len(), whole.len() as u64);
    }
    // With writes in it, it is not.
    let made = Made::killed();
    let whole = std::fs::read(made.path("journal")).unwrap();
    std::fs::write(made.path("journal"), &whole[..whole.len() / 2]).unwrap();
    assert!(refused(&made.config).contains("cut off"), "{}", refused(&made.config));
}

/// The version before this one.
#[test]
fn a_journal_of_another_version_is_refused() {
    let made = Made::killed();
    let mut bytes = std::fs::read(made.path("journal")).unwrap();
    (bytes[7], bytes[4096 + 7]) = (b'2', b'2');
    std::fs::write(made.path("journal"), &bytes).unwrap();
    assert!(refused(&made.config).contains("another version"), "{}", refused(&made.config));
    assert!(std::fs::read(made.path("journal")).unwrap() == bytes);
    assert!(remove_journal(&made.path("journal"), false).is_err());
    assert_eq!(remove_journal(&made.path("journal"), true).unwrap().state, JournalState::AnotherVersion);
}

#[test]
fn a_journal_is_removed_when_no_volume_needs_it() {
    let made = Made::killed();
    let journal = made.path("journal");
    let told = |path: &Path| remove_journal(path, false).unwrap_err().to_string();
    assert!(told(&journal).contains("10 acknowledged writes"), "{}", told(&journal));
    std::fs::rename(made.path("label"), made.path("hidden")).unwrap();
    assert!(
        told(&journal).contains("cannot be read"),
        "its file system may not be mounted: {}",
        told(&journal)
    );
    std::fs::rename(made.path("hidden"), made.path("label")).unwrap();
    let (volume, _) = open_volume(&made.config).unwrap();
    assert!(told(&journal).contains("has it open"), "{}", told(&journal));
    assert!(remove_journal(&journal, true).is_err(), "a server is using it");
    close(volume);
    assert_eq!(remove_journal(&journal, false).unwrap().state, JournalState::Empty);
    // The volume was opened without it since.
    let made = Made::killed();
    drop(open_volume(&VolumeConfig { journal: PathBuf::new(), ..made.config.clone() }).unwrap());
    assert_eq!(remove_journal(&made.path("journal"), false).unwrap().state, JournalState::Stale);
    // The volume is gone.
    let made = Made::killed();
    std::fs::remove_file(made.path("label")).unwrap();
    assert_eq!(remove_journal(&made.path("journal"), true).unwrap().state, JournalState::Unknown);
}
