//! The tasks of a tier: their names, and what each does until the tier stops.

use super::floor::writeback::WritebackTask;
use super::leaver::Leaver;
use super::parts::Parts;
use super::ring::Ring;
use super::room::Room;
use super::serve::Server;

/// What a task does.
pub(super) type Work = fn(&Parts);

/// The tasks of this tier.
pub(super) fn of(parts: &Parts) -> Vec<(String, Work)> {
    let options = &parts.floor.access.options;
    let mut tasks: Vec<(String, Work)> = Vec::new();
    let mut add = |name: &str, work: Work| tasks.push((name.to_owned(), work));
    for at in 0..options.write_workers {
        add(&format!("flash writer {at}"), |parts| parts.room.write_staged(&parts.writers));
    }
    for at in 0..options.background_workers {
        add(&format!("flash background {at}"), |parts| parts.room.background().task());
    }
    if let Some(ring) = parts.room.ring() {
        add("flash directory", |parts| in_ring(parts, |ring| ring.segments.task()));
        if ring.confirmer.is_some() {
            let confirm: Work =
                |parts| in_ring(parts, |ring| ring.confirmer.iter().for_each(|confirmer| confirmer.task()));
            add("flash confirmer", confirm);
        }
    }
    if let Room::Slots(slots) = &parts.room
        && slots.confirmer.is_some()
    {
        add("flash confirmer", |parts| {
            if let Room::Slots(slots) = &parts.room {
                slots.confirmer.iter().for_each(|confirmer| confirmer.task());
            }
        });
    }
    if parts.room.slot_segments().is_some() {
        add("flash directory", |parts| {
            parts.room.slot_segments().iter().for_each(|segments| segments.task())
        });
    }
    if parts.leaver.is_some() {
        add("flash failures", |parts| parts.leaver.iter().for_each(Leaver::task));
    }
    if parts.writeback.is_some() {
        add("flash writeback", |parts| parts.writeback.iter().for_each(WritebackTask::task));
    }
    if parts.server.is_some() {
        add("flash fronts", |parts| parts.server.iter().for_each(Server::watch_task));
        add("flash flushes", |parts| parts.server.iter().for_each(Server::flush_task));
        add("flash checkpoints", |parts| parts.server.iter().for_each(Server::checkpoint_task));
        add("flash orders", |parts| parts.server.iter().for_each(Server::order_task));
    }
    tasks
}

fn in_ring(parts: &Parts, work: fn(&Ring)) {
    parts.room.ring().into_iter().for_each(work);
}
