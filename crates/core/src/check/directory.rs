//! Invariants of the directory.

use crate::directory::PageDirectory;
use crate::slot::{DIRTY, NIL, Slot, VALID};
use crate::staging::Staging;
use crate::violation::{Violation, same};

/// Checks the index and the counts. `age` orders the pages in slots, among themselves and before those in
/// staging: it is below the position of a staged page, plus 1.
pub(super) fn check(
    directory: &PageDirectory<'_>,
    staging: &Staging<'_>,
    age: impl Fn(u32) -> u64,
) -> Result<(), Violation> {
    links(directory, staging)?;
    same(|| "changes of the index under way", 0, directory.index.changes())?;
    for mut at in directory.index.chains() {
        while at != NIL {
            entry(directory, staging, &age, at)?;
            at = directory.entry(at).next();
        }
    }
    counts(directory)?;
    bases(directory, staging)
}

/// Every chain of the index has existing entries only, each in the bucket of its page, and ends.
fn links(directory: &PageDirectory<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    let mut linked = 0;
    for (bucket, mut at) in directory.index.chains().enumerate() {
        while at != NIL {
            let Some(entry) = directory.index.get(at) else {
                let what = || format!("an entry in the chain of bucket {bucket}");
                return same(what, "below the last", "beyond");
            };
            linked += 1;
            same(|| "chains of the index end", true, linked <= directory.entries() as usize)?;
            let home = directory.index.bucket_of(entry.page()) as usize;
            same(|| format!("bucket of entry {at}, page {}", entry.page()), home, bucket)?;
            at = entry.next();
        }
    }
    let staged = staging.frames.iter().filter(|frame| frame.holds_page()).count();
    same(|| "entries in the index", directory.counts.valid as usize + staged, linked)
}

/// An entry in the index is a valid slot or a staged page, and newer than the later entries of its page in
/// the chain.
fn entry(
    directory: &PageDirectory<'_>,
    staging: &Staging<'_>,
    age: impl Fn(u32) -> u64,
    at: u32,
) -> Result<(), Violation> {
    let entry = directory.entry(at);
    match directory.frame_of(at) {
        None => same(|| format!("valid flag of slot {at} in the index"), true, entry.has(VALID))?,
        Some(frame) => {
            let holds_page = staging.frame(frame).holds_page();
            same(|| format!("staging frame {frame} in the index holds a page"), true, holds_page)?;
        }
    }
    let Some(older) = directory.find_older(at) else { return Ok(()) };
    let age = |at: u32| match directory.frame_of(at) {
        Some(frame) => staging.frame(frame).position.0.saturating_add(1),
        None => age(at),
    };
    let what = || format!("entry {at} newer than {older} of page {}", entry.page());
    same(what, true, age(at) > age(older))
}

fn bases(directory: &PageDirectory<'_>, staging: &Staging<'_>) -> Result<(), Violation> {
    if !directory.bases.are_kept() {
        return Ok(());
    }
    let entries = 0..directory.entries();
    let (found, held) = directory.bases.recount(entries.filter(|at| directory.has_base(staging, *at)));
    for (base, (found, held)) in found.iter().zip(held).enumerate() {
        same(|| format!("dirty pages of base {base}, modulo 256"), *found, held)?;
    }
    Ok(())
}

fn counts(directory: &PageDirectory<'_>) -> Result<(), Violation> {
    let count = |wanted: fn(&Slot<'_>) -> bool| directory.of_slots().iter().filter(wanted).count() as u32;
    same(|| "valid slots", count(|s| s.has(VALID)), directory.counts.valid)?;
    same(|| "dirty slots", count(|s| s.has(VALID) && s.has(DIRTY)), directory.counts.dirty)
}
