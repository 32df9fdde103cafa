//! The engine's sentences in the words of this door. The engine serves databases, too: its advice names them,
//! their logs and LSNs. A volume has none of these.

use entresol_core::PageId;
use entresol_engine::TierError;

/// Phrases, and their replacements for a volume. Longer phrases before those that are parts of them.
const PHRASES: [(&str, &str); 11] = [
    ("restore the database from a backup, or recover it from the log", "restore the volume from a backup"),
    ("restore the database from a backup", "restore the volume from a backup"),
    ("recover the database from a backup", "restore the volume from a backup"),
    ("; create a database on it first", ""),
    (
        "detach it there (`entresol detach FLASH DISK`; of a volume, `entresol volume detach` with its configuration)",
        "detach it there (`entresol volume detach` with its configuration)",
    ),
    (
        "`entresol detach FLASH DISK`; of a volume, `entresol volume detach` with its configuration",
        "`entresol volume detach` with its configuration",
    ),
    ("restart the database", "start the server again"),
    ("stop the database first", "stop the server first"),
    ("the database", "the volume"),
    ("database", "volume"),
    ("its LSN is not the one", "its version is not the one"),
];

/// A sentence of the engine, with bytes of a volume of such pages in the place of pages.
pub(crate) fn of_volume(text: &str, page_bytes: u64) -> String {
    let text = of_volumes(text);
    let (mut told, mut rest) = (String::new(), &*text);
    while let Some((before, found, after)) = next_pages(rest) {
        told += &rest[..before];
        told += &format!("{} bytes at {}", (found.end - found.start) * page_bytes, found.start * page_bytes);
        rest = after;
    }
    told + rest
}

/// The first pages that `text` names: where, which, and the text after them. The engine names them as "page
/// 0:7", or "pages 0:4 to 0:6".
fn next_pages(text: &str) -> Option<(usize, std::ops::Range<u64>, &str)> {
    let number = |text: &'_ str| -> Option<(u64, usize)> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        Some((text[..end].parse().ok()?, end))
    };
    let mut from = 0;
    loop {
        let at = from + text[from..].find("page")?;
        let named = [("pages 0:", true), ("page 0:", false)];
        let found = named.into_iter().find(|(word, _)| text[at..].starts_with(word));
        from = at + "page".len();
        let Some((word, are_more)) = found else { continue };
        let after = &text[at + word.len()..];
        let Some((first, end)) = number(after) else { continue };
        let after = &after[end..];
        match after
            .strip_prefix(" to 0:")
            .filter(|_| are_more)
            .and_then(|after| Some((after, number(after)?)))
        {
            Some((after, (last, end))) => return Some((at, first..last + 1, &after[end..])),
            None => return Some((at, first..first + 1, after)),
        }
    }
}

/// A sentence of the engine.
pub(crate) fn of_volumes(text: &str) -> String {
    PHRASES.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// An error of the engine.
pub(crate) fn of(error: &TierError) -> String {
    match error {
        TierError::Poisoned { reason, dirty_pages, .. } => format!(
            "the flash cache has failed and stopped: {}; {dirty_pages} pages newer than disk are on it; repair the device \
             that is named, and start the server again",
            of_volumes(reason)
        ),
        error => of_volumes(&error.to_string()),
    }
}

/// An error of the engine, with bytes of a volume of such pages in the place of pages.
pub(crate) fn of_bytes(error: &TierError, page_bytes: u64) -> String {
    const REPAIR: &str = "write them again as a whole, or restore the volume from a backup";
    let bytes = |page: &PageId| format!("the {page_bytes} bytes at {}", page.0 * page_bytes);
    match error {
        TierError::Damaged { page, place, fault } => {
            let (bytes, device) = (bytes(page), device_of(place));
            let fault = of_volumes(fault);
            format!("{device}: {bytes} are damaged ({fault}), and there is no other copy of them; {REPAIR}")
        }
        TierError::Unreadable { page, place, source } => {
            let (bytes, device) = (bytes(page), device_of(place));
            format!(
                "{device}: {bytes} cannot be read ({source}), and there is no other copy of them; {REPAIR}"
            )
        }
        TierError::Lost { page, why } => {
            let (bytes, why) = (bytes(page), of_volume(why, page_bytes));
            format!(
                "flash: {bytes} are lost: their newest version was on the flash device alone, {why}; {REPAIR}"
            )
        }
        TierError::NotTaken { page, why } => {
            format!(
                "disk: it does not take {} ({}), which stay on the flash device",
                bytes(page),
                of_volume(why, page_bytes)
            )
        }
        error => of_volume(&of(error), page_bytes),
    }
}

/// The device of a place that the engine names.
fn device_of(place: &str) -> &'static str {
    if place.starts_with("disk") { "disk" } else { "flash" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::Lsn;
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }

    /// Sentences that only databases meet, whose pages have LSNs.
    const OF_DATABASES: [&str; 3] = ["but its LSN is", "oldest change at LSN", "whose log is"];

    #[test]
    fn no_sentence_of_the_engine_speaks_of_databases_here() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src"), &mut files);
        let mut seen = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap().replace("\\\n", "\n");
            let code: String = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect::<Vec<_>>()
                .join("\n");
            // Strings: what is between quotes, with line ends as one space.
            for sentence in code.split('"').skip(1).step_by(2) {
                let sentence = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
                let told = of_volumes(&sentence);
                let is_told = ["database", "LSN", "from the log"].iter().any(|word| told.contains(word));
                seen += usize::from(sentence.contains("database"));
                let is_theirs = OF_DATABASES.iter().any(|theirs| sentence.contains(theirs));
                assert!(!is_told || is_theirs || sentence.len() < 20, "{}: {told}", file.display());
            }
        }
        assert!(seen > 10, "{seen} sentences were found");
        let error = TierError::Poisoned {
            reason: "x".to_owned(),
            dirty_pages: 3,
            oldest_lsn: Lsn(7),
            of_flash: true,
        };
        assert!(!of(&error).contains("LSN"), "{}", of(&error));
        let error = TierError::Damaged { page: PageId(3), place: "p".to_owned(), fault: "f".to_owned() };
        assert!(of(&error).contains("restore the volume from a backup"), "{}", of(&error));
    }

    #[test]
    fn pages_are_told_in_bytes() {
        let told = |text| of_volume(text, 4096);
        assert_eq!(told("page 0:7 is lost"), "4096 bytes at 28672 is lost");
        assert_eq!(
            told("5 pages are lost: pages 0:4 to 0:6, page 0:9, 1 more ranges"),
            "5 pages are lost: 12288 bytes at 16384, 4096 bytes at 36864, 1 more ranges"
        );
        assert_eq!(told("a page, pages 0:x, page 1:2"), "a page, pages 0:x, page 1:2");
        let errors = [
            TierError::Damaged { page: PageId(3), place: "flash slot 9".to_owned(), fault: "f".to_owned() },
            TierError::Lost { page: PageId(3), why: "and page 0:3 was damaged".to_owned() },
            TierError::NotTaken { page: PageId(3), why: "w".to_owned() },
        ];
        for error in errors {
            let told = of_bytes(&error, 4096);
            assert!(told.contains("4096 bytes at 12288") && !told.contains("page 0"), "{told}");
        }
    }
}
