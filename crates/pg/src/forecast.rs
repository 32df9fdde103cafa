//! How long a replay in place of a lost flash will take, by the last redo: `DATA/entresol/redo`.
//!
//! The file has four numbers: bytes of the log, pages that the redo handed down, microseconds, and 1 if it
//! replaced a lost flash. A forecast depends on it, and nothing else, so it is not synced.

use crate::locator::Folders;
use crate::types::{EntRedoTook, EntReplay};
use std::fs;
use std::path::PathBuf;

fn file(folders: &Folders) -> PathBuf {
    folders.binding().join("redo")
}

/// Notes how long a redo took, unless one that replaced a flash is known: that one tells more.
pub(crate) fn note(folders: &Folders, took: &EntRedoTook) {
    if !took.replaced && known(folders).is_some_and(|known| known.replaced) {
        return;
    }
    let EntRedoTook { bytes, pages, micros, replaced } = took;
    _ = fs::write(file(folders), format!("{bytes} {pages} {micros} {}\n", u8::from(*replaced)));
}

/// How long the last redo took, by what was noted.
pub(crate) fn known(folders: &Folders) -> Option<EntRedoTook> {
    let text = fs::read_to_string(file(folders)).ok()?;
    let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [bytes, pages, micros, replaced] = numbers[..] else { return None };
    Some(EntRedoTook { bytes, pages, micros, replaced: replaced != 0 })
}

/// Seconds of a replay in place of the flash: as the pages of one that has replaced a flash, or else as the
/// bytes of a redo with it, which reads and writes less of the disk.
pub(crate) fn seconds(took: EntRedoTook, ahead: &EntReplay) -> Option<f64> {
    let scaled = |now: u64, then: u64| {
        (now > 0 && then > 0).then(|| now as f64 / then as f64 * took.micros as f64 / 1e6)
    };
    let by_pages = scaled(ahead.pages, took.pages).filter(|_| took.replaced);
    by_pages.or_else(|| scaled(ahead.bytes, took.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redo_that_has_replaced_a_flash_tells_how_long_the_next_one_takes() {
        let folder = tempfile::tempdir().unwrap();
        let folders = Folders { data: folder.path().to_owned(), version: "PG".to_owned() };
        fs::create_dir(folders.binding()).unwrap();
        assert_eq!(known(&folders), None);
        let took = |bytes, replaced| EntRedoTook { bytes, pages: 7, micros: 5, replaced };
        for (noted, expected) in [
            (took(1, false), took(1, false)),
            (took(2, true), took(2, true)),
            (took(3, false), took(2, true)),
            (took(4, true), took(4, true)),
        ] {
            note(&folders, &noted);
            assert_eq!(known(&folders), Some(expected));
        }
        fs::write(file(&folders), "1 2 3\n").unwrap();
        assert_eq!(known(&folders), None, "of an older version");
    }

    #[test]
    fn pages_count_and_bytes_if_pages_are_not_known() {
        let took = |replaced| EntRedoTook { bytes: 1000, pages: 100, micros: 2_000_000, replaced };
        let ahead = |pages| EntReplay { bytes: 500, pages };
        for (took, ahead, expected) in [
            (EntRedoTook::default(), ahead(300), None),
            (took(false), ahead(300), Some(1.0)),
            (took(true), ahead(300), Some(6.0)),
            (took(true), ahead(0), Some(1.0)),
        ] {
            assert_eq!(seconds(took, &ahead), expected, "{took:?} {ahead:?}");
        }
    }
}
