//! The engine's sentences in the words of this door. The engine serves databases, too: its advice names them,
//! their logs and LSNs. A volume has none of these.

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

/// A sentence of the engine.
pub(crate) fn of_volumes(text: &str) -> String {
    PHRASES.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// An error of the engine.
pub(crate) fn of(error: &TierError) -> String {
    match error {
        TierError::Poisoned { reason, dirty_pages, .. } => format!(
            "the flash cache has failed and stopped: {}; {dirty_pages} pages newer than disk are on it; repair the flash \
             device and start the server again",
            of_volumes(reason)
        ),
        error => of_volumes(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::{Lsn, PageId};
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
        let error = TierError::Poisoned { reason: "x".to_owned(), dirty_pages: 3, oldest_lsn: Lsn(7) };
        assert!(!of(&error).contains("LSN"), "{}", of(&error));
        let error = TierError::Damaged { page: PageId(3), place: "p".to_owned(), fault: "f".to_owned() };
        assert!(of(&error).contains("restore the volume from a backup"), "{}", of(&error));
    }
}
