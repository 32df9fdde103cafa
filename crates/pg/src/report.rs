//! Reports of a process on the cache: counters of all processes, by relation, by kind of process, and
//! durations.

use crate::benefit;
use crate::front::{Process, call};
use crate::locator::fork_of;
use crate::memory::{BackendTally, ObjectTally, Tally};
use crate::settings::PAGE_BYTES;
use crate::types::{
    BACKEND_KINDS, EntBackend, EntBenefit, EntIo, EntLatency, EntRelation, EntStat, code, latency,
};
use entresol_engine::{Deletes, Durations, TierMetrics};
use entresol_objects::ObjectId;
use std::time::Duration;

/// The pages of each fork in the cache, into `rows`; `n` gets their number. Rows without room are omitted.
pub(crate) fn relations(rows: &mut [EntRelation], n: &mut u32) -> i32 {
    *n = 0;
    call(|process| {
        let (mut some, mut next) = (Vec::new(), Some(ObjectId(0)));
        // By number: the pages in the cache, and dirty ones.
        let mut pages: Vec<(u64, u64)> = vec![(0, 0); process.memory.objects() as usize];
        process.front.survey(|page, dirty| {
            if let Some(counts) = pages.get_mut(page.object() as usize) {
                *counts = (counts.0 + 1, counts.1 + u64::from(dirty));
            }
        })?;
        while let Some(first) = next {
            next = process.front.names(first, &mut some)?;
            for (object, locator) in &some {
                let Some(row) = rows.get_mut(*n as usize) else { return Ok(code::DONE) };
                let (cached, dirty) = pages.get(object.0 as usize).copied().unwrap_or_default();
                let tally = process.memory.tally(*object, locator);
                let of = |count: fn(&ObjectTally) -> &Tally| tally.map_or(0, |tally| count(tally).get());
                *row = EntRelation {
                    fork: fork_of(locator),
                    cached,
                    dirty,
                    hits: of(|tally| &tally.hits),
                    misses: of(|tally| &tally.misses),
                    staged_dirty: of(|tally| &tally.staged_dirty),
                    staged_clean: of(|tally| &tally.staged_clean),
                };
                *n += 1;
            }
        }
        Ok(code::DONE)
    })
}

/// What took how long, since the last reset.
pub(crate) fn latencies(rows: &mut [EntLatency; latency::ROWS]) -> i32 {
    call(|process| {
        let all = process.durations(&process.front.metrics());
        for (at, (row, durations)) in rows.iter_mut().zip(all).enumerate() {
            let durations = durations.since(&process.board.baseline.durations(at));
            let quantile = |part| if durations.count() > 0 { durations.quantile(part) } else { 0 };
            *row = EntLatency {
                count: durations.count(),
                total_us: durations.total_us,
                p50_us: quantile(0.5),
                p95_us: quantile(0.95),
                p99_us: quantile(0.99),
            };
        }
        Ok(code::DONE)
    })
}

/// This process has measured something: a row of [`latency`].
pub(crate) fn took(row: u32, time: Duration) -> i32 {
    call(|process| {
        process.board.took.get(row as usize).inspect(|tally| tally.add(time));
        process.took(row, time);
        Ok(code::DONE)
    })
}

/// What processes of each kind did.
pub(crate) fn backends(rows: &mut [EntBackend; BACKEND_KINDS]) -> i32 {
    call(|process| {
        for (row, tally) in rows.iter_mut().zip(&process.board.backends) {
            *row = tally.read();
        }
        Ok(code::DONE)
    })
}

/// I/O of the flash: by each kind of process, and at last by the cache's own threads.
pub(crate) fn io(rows: &mut [EntIo; BACKEND_KINDS + 1]) -> i32 {
    call(|process| {
        let engine = process.front.metrics();
        let (mut stat, baseline) = (process.counters(&engine), &process.board.baseline);
        baseline.since(&mut stat);
        let durations = process.durations(&engine);
        let took = |row: u32| {
            let row = row as usize;
            let since = durations[row].since(&baseline.durations(row));
            (since.count(), since.total_us)
        };
        let ((_, write_us), (syncs, sync_us)) = (took(latency::FLASH_WRITE), took(latency::FLASH_SYNC));
        let [of_processes @ .., of_threads] = rows;
        for (row, tally) in of_processes.iter_mut().zip(&process.board.backends) {
            *row = tally.read_io();
        }
        *of_threads = EntIo {
            reads: stat.dequeue_reads,
            writes: stat.flash_writes,
            write_us,
            evictions: stat.destaged,
            reuses: stat.second_chances,
            syncs,
            sync_us,
            ..EntIo::default()
        };
        Ok(code::DONE)
    })
}

/// What the cache has saved in the last hour.
pub(crate) fn benefit(benefit: &mut EntBenefit) -> i32 {
    call(|process| {
        *benefit = benefit::report(process.board, &process.front.metrics());
        Ok(code::DONE)
    })
}

/// All counters begin at zero again.
pub(crate) fn reset() -> i32 {
    call(|process| {
        let engine = process.front.metrics();
        process.board.baseline.set(process.counters(&engine), &process.durations(&engine));
        process.board.backends.iter().for_each(BackendTally::reset);
        let (mut some, mut next) = (Vec::new(), Some(ObjectId(0)));
        while let Some(first) = next {
            next = process.front.names(first, &mut some)?;
            let tallies = some.iter().filter_map(|(object, name)| process.memory.tally(*object, name));
            tallies.for_each(ObjectTally::reset);
        }
        Ok(code::DONE)
    })
}

/// All counters.
pub(crate) fn stat(stat: &mut EntStat) -> i32 {
    call(|process| {
        *stat = process.counters(&process.front.metrics());
        process.board.baseline.since(stat);
        Ok(code::DONE)
    })
}

impl Process {
    /// All durations, by the numbers of [`latency`].
    fn durations(&self, engine: &TierMetrics) -> [Durations; latency::ROWS] {
        let [read, stage] = [latency::READ, latency::STAGE].map(|row| self.board.took[row as usize].read());
        let TierMetrics { write_durations, background_durations, checkpoint_durations, .. } = *engine;
        [read, stage, write_durations, background_durations, checkpoint_durations, engine.sync_durations]
    }

    /// All counters since the cache was opened.
    fn counters(&self, engine: &TierMetrics) -> EntStat {
        let Process { front, board, .. } = self;
        let objects = front.objects().unwrap_or_default();
        EntStat {
            staging_hits: engine.staging_hits,
            flash_hits: engine.flash_hits,
            async_hits: board.async_hits.get(),
            async_rejected: board.async_rejected.get(),
            misses: board.misses.get(),
            staged_dirty: board.staged_dirty.get(),
            staged_clean: board.staged_clean.get().saturating_sub(engine.already_on_flash),
            already_cached: engine.already_on_flash,
            refused_clean: board.refused_clean.get(),
            disk_only: board.disk_only.get(),
            written_through: board.written_through.get(),
            kept_out: board.kept_out.get(),
            over_budget: board.over_budget.get(),
            pulled: board.pulled.get(),
            destaged: engine.disk_writes,
            flash_writes: engine.flash_writes,
            second_chances: engine.second_chances,
            dequeue_reads: engine.dequeue_reads,
            damaged_clean: engine.damaged_clean,
            forgets: board.forgets.get(),
            cuts: board.cuts.get(),
            retired: board.retired.get(),
            flushes: board.flushes.get(),
            checkpoints: board.checkpoints.get(),
            destages_asked: board.destages.get(),
            no_file: board.no_file.get(),
            past_end: board.past_end.get(),
            space_waits: board.space_waits.get(),
            file_syncs: board.file_syncs.get(),
            flash_write_bytes: engine.flash_writes * PAGE_BYTES as u64,
            slots: engine.slots,
            slots_valid: engine.slots_valid,
            slots_dirty: engine.slots_dirty,
            slots_superseded: engine.slots_superseded,
            objects: objects.live.into(),
            objects_retired: objects.retired.into(),
            objects_refused: objects.full,
        }
    }
}
