//! Pages that are dead by the table of objects: their object was retired, or they were cut off it. Their
//! copies may still be in the directory.
//!
//! Slots keep no positions, so there the table says only which objects are retired. Pages that are cut off
//! are deleted at once, and those of a retired object before its number is given to another one.

use entresol_core::{Generation, Lookup, PageId, Partition};
use entresol_objects::{ObjectId, Objects};

/// Whether what was found is dead by the table.
pub(super) fn is_dead(
    partition: &Partition<'_>,
    objects: &Objects<'_>,
    page: PageId,
    found: &Lookup,
) -> bool {
    match found {
        Lookup::Absent => false,
        _ if partition.log().is_none() => is_retired(objects, page),
        Lookup::Staged { position, .. } => objects.is_dead(page, *position),
        Lookup::Flash { generation: Generation::Exact(position), .. } => objects.is_dead(page, *position),
        Lookup::Flash { .. } => unreachable!("a log has whole positions"),
    }
}

/// Whether the page is of no live object.
pub(super) fn is_retired(objects: &Objects<'_>, page: PageId) -> bool {
    objects.locator(ObjectId(page.object())).is_none()
}

/// The page that `look_up` gives, unless its object is retired or it was cut off.
pub(super) fn living(
    partition: &mut Partition<'_>,
    objects: Option<&mut Objects<'_>>,
    page: PageId,
    look_up: impl FnOnce(&mut Partition<'_>) -> Lookup,
) -> Lookup {
    let found = look_up(partition);
    match objects {
        Some(objects) if is_dead(partition, objects, page, &found) => Lookup::Absent,
        _ => found,
    }
}

/// Drops the dead pages of the group that is dequeued next, so that they are not read.
pub(crate) fn drop_dead_of_next_dequeue(partition: &mut Partition<'_>, objects: &Objects<'_>) {
    let Some(log) = partition.log_mut() else { return };
    let entries = log.next_dequeue();
    log.drop_dead(entries, |page, position| objects.is_dead(page, position));
}
