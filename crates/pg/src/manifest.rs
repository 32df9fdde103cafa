//! A manifest: a file that names the pages in the cache, those of most use first, so that another flash, a
//! standby or a restored backup is filled before its pages are needed.
//!
//! It is text. The first line is [`HEAD`]; each other line names adjacent blocks of a fork:
//!
//! ```text
//! database,tablespace,relation,fork,first block,blocks
//! ```
//!
//! All are decimal numbers; the fork is that of [`EntFork`]. The pages are in [`PARTS`] parts, one after the
//! other: first those that were read since they entered, then the others, each from the newest to the oldest.
//! In a part they are in the order of the files. A reader that has no more room stops.

use crate::failure;
use crate::front::call;
use crate::locator::fork_of;
use crate::types::{EntFork, code};
use entresol_core::PageId;
use entresol_engine::TierError;
use entresol_objects::{Locator, ObjectId};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The first line.
const HEAD: &str = "entresol manifest 1";
/// Parts of different use.
const PARTS: usize = 16;

/// Writes a manifest of the pages that are in the cache now to `path`, which it replaces; `pages` gets their
/// number.
pub(crate) fn dump(path: &Path, pages: &mut u64) -> i32 {
    *pages = 0;
    call(|process| {
        let mut met: Vec<(bool, PageId)> = Vec::new();
        process.front.survey_use(|page, is_used| met.push((is_used, page)))?;
        let names = names(|first, some| process.front.names(first, some))?;
        let parts = parts(met);
        let written = write(path, &parts, &names).map_err(|error| format!("\"{}\": {error}", path.display()));
        match written {
            Ok(written) => *pages = written,
            Err(why) => {
                failure::say(&why);
                return Ok(code::REFUSED);
            }
        }
        Ok(code::DONE)
    })
}

/// The names of all objects.
fn names(
    some: impl Fn(ObjectId, &mut Vec<(ObjectId, Locator)>) -> Result<Option<ObjectId>, TierError>,
) -> Result<HashMap<u32, EntFork>, TierError> {
    let (mut names, mut found, mut next) = (HashMap::new(), Vec::new(), Some(ObjectId(0)));
    while let Some(first) = next {
        next = some(first, &mut found)?;
        names.extend(found.iter().map(|(object, locator)| (object.0, fork_of(locator))));
    }
    Ok(names)
}

/// Pages as a survey met them, the newest last, in parts: see the module's header. A page that was met twice
/// is in one part.
fn parts(met: Vec<(bool, PageId)>) -> Vec<Vec<PageId>> {
    let (used, others): (Vec<_>, Vec<_>) = met.into_iter().rev().partition(|(is_used, _)| *is_used);
    let mut seen = std::collections::HashSet::new();
    let by_use = used.into_iter().chain(others).map(|(_, page)| page);
    let by_use: Vec<PageId> = by_use.filter(|page| seen.insert(page.0)).collect();
    let in_part = by_use.len().div_ceil(PARTS).max(1);
    by_use
        .chunks(in_part)
        .map(|part| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part
        })
        .collect()
}

fn write(path: &Path, parts: &[Vec<PageId>], names: &HashMap<u32, EntFork>) -> io::Result<u64> {
    let beside = PathBuf::from(format!("{}.new", path.display()));
    let mut file = BufWriter::new(File::create(&beside)?);
    writeln!(file, "{HEAD}")?;
    let mut pages = 0;
    for part in parts {
        for run in part.chunk_by(|one, next| one.object() == next.object() && one.0 + 1 == next.0) {
            // It was dropped meanwhile.
            let Some(fork) = names.get(&run[0].object()) else { continue };
            let EntFork { tablespace, database, relation, fork } = fork;
            writeln!(file, "{database},{tablespace},{relation},{fork},{},{}", run[0].number(), run.len())?;
            pages += run.len() as u64;
        }
    }
    file.into_inner()?.sync_all()?;
    fs::rename(&beside, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(relation: u32) -> EntFork {
        EntFork { tablespace: 1663, database: 5, relation, fork: 0 }
    }

    #[test]
    fn pages_of_most_use_come_first_and_adjacent_ones_are_a_line() {
        let page = |object: u32, block: u32| PageId::new(object, block);
        let mut met: Vec<_> = (0..64).map(|block| (false, page(1, block))).collect();
        met.extend((0..16).map(|block| (true, page(2, 2 * block))));
        // Met again, where it has moved to; and one of a relation that was dropped.
        met.extend([(true, page(1, 5)), (true, page(3, 0))]);
        let parts = parts(met);
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 64 + 16 + 1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        fs::write(&path, "an older one").unwrap();
        let names = HashMap::from([(1, fork(100)), (2, fork(200))]);
        assert_eq!(write(&path, &parts, &names).unwrap(), 64 + 16);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..4], [HEAD, "5,1663,100,0,5,1", "5,1663,200,0,24,1", "5,1663,200,0,26,1"]);
        // 81 pages in parts of six, of which three have used ones.
        assert!(lines.contains(&"5,1663,100,0,58,6") && lines.last() == Some(&"5,1663,100,0,0,3"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
