//! Pages that are dead by the table of objects: their object was retired, or they were cut off it. Their
//! copies may still be in the directory.

use entresol_core::{Generation, Lookup, PageId, Partition};
use entresol_objects::Objects;

/// Whether what was found is dead by the table.
pub(super) fn is_dead(objects: &Objects<'_>, page: PageId, found: &Lookup) -> bool {
    match found {
        Lookup::Absent => false,
        Lookup::Staged { position, .. } => objects.is_dead(page, *position),
        Lookup::Flash { generation: Generation::Exact(position), .. } => objects.is_dead(page, *position),
        Lookup::Flash { .. } => unreachable!("a cache with objects has log placement"),
    }
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
        Some(objects) if is_dead(objects, page, &found) => Lookup::Absent,
        _ => found,
    }
}

/// Drops the dead pages of the group that is dequeued next, so that they are not read.
pub(crate) fn drop_dead_of_next_dequeue(partition: &mut Partition<'_>, objects: &Objects<'_>) {
    let Some(log) = partition.log_mut() else { return };
    let entries = log.next_dequeue();
    log.drop_dead(entries, |page, position| objects.is_dead(page, position));
}
