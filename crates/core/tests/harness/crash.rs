//! The state of the devices after a crash, and its recovery.

use super::Choices;
use super::world::flushes::{Summary, SummaryCell};
use super::world::{Cell, Content, World};
use entresol_core::{Forgotten, Placement, PolicyKind, Position};
use std::collections::BTreeMap;

/// How recovery chooses the front (see `restore.rs`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// From the front that was recorded before slots were overwritten.
    Recorded,
    /// By reading the slots that writes may have destroyed.
    Verified,
    /// As if all slots were intact. A test shows that this would lose pages.
    Trusted,
}

/// The findings of recovery.
pub struct Recovered {
    pub front: u64,
    pub rear: u64,
    /// Entries of the ring, in ascending position.
    pub entries: Vec<Content>,
    /// Summaries of groups in the ring that name stale pages, in ascending position.
    pub records: Vec<Summary>,
    /// All summaries.
    pub summaries: Vec<SummaryCell>,
    /// The flash slots as the crash left them.
    pub flash: Vec<Option<Content>>,
    /// The disk, by page number.
    pub disk: Vec<u64>,
}

impl Recovered {
    /// The newest version on flash, by page number.
    pub fn newest(&self) -> BTreeMap<u32, Content> {
        let records = self.all_records();
        let is_stale = |c: &&Content| records.iter().any(|r| World::is_stale(r, c.page, c.position));
        let entries = self.entries.iter().filter(|content| !is_stale(content));
        entries.map(|content| (content.page, *content)).collect()
    }

    pub fn all_records(&self) -> Vec<Forgotten> {
        self.records.iter().flat_map(|summary| summary.records.clone()).collect()
    }
}

/// The content of a slot after a crash during its write.
fn torn(choices: &mut Choices, cell: &Cell, atomic: Option<usize>) -> Option<Content> {
    match atomic.unwrap_or_else(|| choices.below(3)) {
        0 => cell.content,
        1 => None,
        _ => cell.writing,
    }
}

/// The flash after a crash: each page that was being written is old, new or neither. A group written in one
/// I/O counts only as a whole, so a part of it is as if torn.
fn flash_after(world: &World, choices: &mut Choices) -> (Vec<Option<Content>>, Vec<SummaryCell>) {
    let by_group = world.config.policy.by_group();
    let group_pages = world.config.group_pages as usize;
    let mut flash = Vec::with_capacity(world.flash.len());
    let mut summaries = Vec::with_capacity(world.summaries.len());
    for (group, summary) in world.flash.chunks(group_pages).zip(&world.summaries) {
        // 0: nothing of it was written; 2: all of it; 1: some.
        let whole = by_group.then(|| choices.below(3));
        for cell in group {
            let after = match (cell.writing, whole) {
                (None, _) => cell.content,
                (Some(_), Some(1)) => torn(choices, cell, None).filter(|c| Some(*c) == cell.content),
                (Some(_), outcome) => torn(choices, cell, outcome),
            };
            flash.push(after);
        }
        summaries.push(summary_after(summary, whole, choices));
    }
    (flash, summaries)
}

/// A summary after a crash: the old one, or the one that was being written with the group.
fn summary_after(cell: &SummaryCell, whole: Option<usize>, choices: &mut Choices) -> SummaryCell {
    let writing =
        cell.writing.as_ref().filter(|new| !(new.records.is_empty() && cell.durable.records.is_empty()));
    let durable = match (writing, whole) {
        (Some(new), Some(2)) => new,
        (Some(new), None) if choices.once_in(2) => new,
        _ => &cell.durable,
    };
    SummaryCell { durable: durable.clone(), writing: None }
}

fn disk_after(world: &World, choices: &mut Choices) -> Vec<u64> {
    let mut disk = world.disk.clone();
    for (page, unsynced) in &world.dead.unsynced {
        let kept = choices.below(unsynced.writes.len() + 1);
        disk[*page as usize] = if kept == 0 { unsynced.before } else { unsynced.writes[kept - 1].1 };
    }
    for (page, version) in &world.disk_writes {
        match choices.below(3) {
            0 => {}
            1 => disk[*page as usize] = 0, // torn: no version is older
            _ => disk[*page as usize] = *version,
        }
    }
    disk
}

/// Recovery as `restore.rs` prescribes it.
pub fn recover(world: &World, choices: &mut Choices, rule: Front) -> Recovered {
    let disk = disk_after(world, choices);
    let (flash, summaries) = flash_after(world, choices);
    if world.config.policy.placement() == Placement::Slots {
        return Recovered {
            front: 0,
            rear: 0,
            entries: Vec::new(),
            records: Vec::new(),
            summaries: world.summaries.clone(),
            flash: vec![None; world.flash.len()],
            disk,
        };
    }
    let slots = world.config.slots as u64;
    let group = world.config.group_pages as u64;
    let rear = flash.iter().flatten().map(|c| c.position + 1).max().unwrap_or(0).max(world.restored_rear);
    let recording = summaries.iter().map(|cell| &cell.durable).filter(|summary| !summary.records.is_empty());
    let rear = recording.clone().map(|summary| summary.first + group).max().unwrap_or(0).max(rear);
    let rear = rear.next_multiple_of(group);
    let mut front = rear.saturating_sub(slots).max(world.restored_front);
    // Writes in flight may have destroyed slots after the rear. A slot that was being written had been
    // released, and all before it too.
    let exposed = front..(front + world.config.staging_pages() as u64).min(rear);
    let damaged = |position: &u64| {
        let written = world.directory.contains_key(position);
        let found = flash[(position % slots) as usize];
        written && found.is_none_or(|content| content.position != *position)
    };
    match rule {
        Front::Recorded => front = front.max(world.recorded_front).min(rear),
        Front::Verified => {
            let last = exposed.rev().find(damaged);
            front = last.map_or(front, |last| (last + 1).next_multiple_of(group));
        }
        Front::Trusted => {}
    }
    let entry =
        |position: u64| flash[(position % slots) as usize].filter(|content| content.position == position);
    let entries = (front..rear).filter_map(entry).collect();
    let mut records: Vec<_> = recording.filter(|summary| summary.first >= front).cloned().collect();
    records.sort_by_key(|summary| summary.first);
    Recovered { front, rear, entries, records, summaries, flash, disk }
}

/// Asserts that a crash of the machine now would not lose a page or restore an older version.
pub fn assert_nothing_is_lost(world: &World, seed: u64) {
    if world.config.policy.placement() == Placement::Slots {
        return; // its flash does not survive: the database's log redoes changes since the last checkpoint
    }
    // A record of the front is needed where pages are forgotten or kept out (`restore.rs`).
    let rules = [Front::Recorded, Front::Verified];
    for rule in rules.into_iter().take(if world.needs_recorded_front() { 1 } else { 2 }) {
        assert_all_recovered(world, &recover(world, &mut Choices::from_seed(seed), rule));
    }
}

fn assert_all_recovered(world: &World, recovered: &Recovered) {
    let newest = recovered.newest();
    for (page, durable) in world.durable.iter().enumerate() {
        let disk = recovered.disk[page];
        let served = match newest.get(&(page as u32)) {
            Some(content) => {
                assert!(
                    content.version >= disk || world.dead.may_be_undone(page as u32, disk),
                    "page {page}: flash {content:?} would hide the disk's newer {disk}"
                );
                content.version
            }
            None => disk,
        };
        assert!(
            served >= *durable,
            "page {page}: version {durable} was durable, {served} would be recovered"
        );
    }
}

/// Positions of a restored partition.
pub fn positions(recovered: &Recovered) -> (Position, Position) {
    (Position(recovered.front), Position(recovered.rear))
}

/// Policies whose directory survives.
pub fn survivors() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().filter(|policy| policy.placement() == Placement::Log)
}
