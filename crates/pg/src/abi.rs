//! The C functions of `doors/postgres/entresol.h`, which documents them. Each one makes values of pointers,
//! calls the module that does the work, and returns a code.
#![allow(unsafe_code)] // pointers from C; each function says what it relies on

use crate::front::Interrupted;
use crate::memory::{ALIGNMENT, Shared, front_bytes};
use crate::settings::{PAGE_BYTES, Settings};
use crate::types::{
    BACKEND_KINDS, EntBackend, EntBenefit, EntFork, EntIo, EntLatency, EntOptions, EntOwn, EntPlace,
    EntRelation, EntStat, code, latency,
};
use crate::{counts, failure, front, locate, manifest, report, settings, stage};
use entresol_core::{PageId, Position};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

pub use crate::abi_worker::*;

/// `n` as a number of blocks: to the end of the fork.
const TO_THE_END: u32 = u32::MAX;

/// The settings in `options`.
///
/// # Safety
/// Strings end with 0.
pub(crate) unsafe fn settings_of(options: &EntOptions) -> Result<Settings, String> {
    Settings::new(options, |text| match text.is_null() {
        true => c"",
        // SAFETY: the caller promises it.
        false => unsafe { CStr::from_ptr(text) },
    })
}

/// # Safety
/// As of [`Shared::new`], but for the alignment.
pub(crate) unsafe fn memory_of(
    memory: *mut c_void,
    bytes: usize,
    settings: &Settings,
    is_worker: bool,
) -> Result<Shared, String> {
    let counts = (settings.tier.objects, settings.processes);
    let base = NonNull::new(memory.cast::<u8>()).ok_or("there is no shared memory")?;
    let skipped = base.align_offset(ALIGNMENT);
    if bytes < skipped.saturating_add(front_bytes(counts.0, counts.1)) {
        return Err(format!("{bytes} bytes of shared memory are too few"));
    }
    // SAFETY: there are more bytes than are skipped, and the caller promises the rest.
    Ok(unsafe { Shared::new(base.add(skipped), bytes - skipped, counts, is_worker) })
}

pub(crate) fn refused<T>(result: Result<T, String>, then: impl FnOnce(T) -> i32) -> i32 {
    match result {
        Ok(value) => then(value),
        Err(why) => {
            failure::say(&why);
            code::REFUSED
        }
    }
}

/// # Safety
/// `options` points to options whose strings end with 0; `bytes` to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_plan(options: *mut EntOptions, bytes: *mut usize) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (options, bytes) = unsafe { (&mut *options, &mut *bytes) };
        // SAFETY: as above.
        let planned = unsafe { settings_of(options) }
            .and_then(|settings| Ok((settings.flash_bytes, settings.memory_bytes(options.max_bytes)?)));
        refused(planned, |(flash_bytes, memory_bytes)| {
            (options.flash_bytes, *bytes) = (flash_bytes, memory_bytes);
            code::DONE
        })
    })
}

/// Whether `text` may be the option `writes_per_day`.
///
/// # Safety
/// `text` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_check_writes_per_day(text: *const c_char) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let text = unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| "it is not UTF-8".to_owned());
        refused(text.and_then(settings::daily_writes), |_| code::DONE)
    })
}

/// # Safety
/// As [`ent_plan`]; `memory` has `bytes` bytes that all processes of the server share, that stay mapped as
/// long as the process lives, and that no other code uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_attach(
    options: *const EntOptions,
    memory: *mut c_void,
    bytes: usize,
    kind: u32,
    place: u32,
    interrupted: Option<Interrupted>,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let both = unsafe { settings_of(&*options) }.and_then(|settings| {
            // SAFETY: as above.
            let memory = unsafe { memory_of(memory, bytes, &settings, false) }?;
            Ok((settings, memory))
        });
        refused(both, |(settings, memory)| front::attach(settings, memory, (kind, place), interrupted))
    })
}

/// Gives the place of this process up.
#[unsafe(no_mangle)]
pub extern "C" fn ent_detach() {
    failure::guarded(front::detach);
}

/// Whether this process is attached.
#[unsafe(no_mangle)]
pub extern "C" fn ent_is_attached() -> bool {
    failure::guarded(front::is_attached)
}

/// # Safety
/// `same` and `here` point to a number and a truth value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_residency(
    fork: EntFork,
    block: u32,
    n: u32,
    reads: bool,
    same: *mut u32,
    here: *mut bool,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (same, here) = unsafe { (&mut *same, &mut *here) };
        let (code, found) = front::residency(&fork, block, n, reads, here);
        *same = found;
        code
    })
}

/// # Safety
/// `newer` points to a boolean.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_is_newer(fork: EntFork, block: u32, newer: *mut bool) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let newer = unsafe { &mut *newer };
        front::is_newer(&fork, block, newer)
    })
}

/// # Safety
/// `lsn` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_durable_lsn(fork: EntFork, block: u32, lsn: *mut u64) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let lsn = unsafe { &mut *lsn };
        front::durable_lsn(&fork, block, lsn)
    })
}

/// # Safety
/// `known` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_redo_begins(redo: u64, is_own: bool, known: *mut u64) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| front::redo_begins(is_own.then_some(redo), unsafe { &mut *known }))
}

/// Redo changes a block.
#[unsafe(no_mangle)]
pub extern "C" fn ent_redo_changes(fork: EntFork, block: u32) -> i32 {
    failure::guarded(|| front::redo_changes(&fork, block))
}

/// The server is about to write blocks of a fork past the cache.
#[unsafe(no_mangle)]
pub extern "C" fn ent_overwrites(fork: EntFork) -> i32 {
    failure::guarded(|| front::overwrites(&fork))
}

/// How far the log is durable.
#[unsafe(no_mangle)]
pub extern "C" fn ent_log_at(timeline: u32, lsn: u64) {
    failure::guarded(|| front::log_at(timeline, lsn));
}

/// # Safety
/// `pages` has `n` pointers to pages of 8192 bytes; `done` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_read(
    fork: EntFork,
    block: u32,
    pages: *const *mut c_void,
    n: u32,
    done: *mut u32,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (pages, done) = unsafe { (slice::from_raw_parts(pages, n as usize), &mut *done) };
        // SAFETY: as above; each page is lent for one step of the iteration only.
        let pages =
            pages.iter().map(|page| unsafe { slice::from_raw_parts_mut(page.cast::<u8>(), PAGE_BYTES) });
        front::read(&fork, block, pages, done)
    })
}

/// # Safety
/// `own` points to an `EntOwn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_own(own: *mut EntOwn) {
    // SAFETY: the caller promises it.
    unsafe { *own = counts::own_counts() }
}

/// # Safety
/// `place` points to an `EntPlace`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_locate(
    fork: EntFork,
    block: u32,
    n: u32,
    reads: bool,
    place: *mut EntPlace,
) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| locate::locate(&fork, block, n, reads, unsafe { &mut *place }))
}

/// What was read of a block where it was located is not the block.
#[unsafe(no_mangle)]
pub extern "C" fn ent_reject(fork: EntFork, block: u32) -> i32 {
    failure::guarded(|| locate::reject(&fork, block))
}

/// The flash device's descriptor in this process; -1: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn ent_descriptor() -> i32 {
    failure::guarded(|| front::descriptor().unwrap_or(-1))
}

/// # Safety
/// `page` points to a page of 8192 bytes that no other code uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_prove(
    object: u32,
    block: u32,
    stamp: u64,
    checksums: bool,
    page: *mut c_void,
) -> bool {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let bytes = unsafe { slice::from_raw_parts_mut(page.cast::<u8>(), PAGE_BYTES) };
        settings::page_format(checksums).prove_and_unseal(bytes, PageId::new(object, block), Position(stamp))
    })
}

/// # Safety
/// `page` points to a page of 8192 bytes. Hint bits in it may change meanwhile in a cluster without
/// checksums: they are copied as they are found, and nothing depends on them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_stage(
    fork: EntFork,
    block: u32,
    page: *const c_void,
    lsn: u64,
    flags: u32,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let page = unsafe { slice::from_raw_parts(page.cast::<u8>(), PAGE_BYTES) };
        stage::stage(&fork, block, page, lsn, flags)
    })
}

/// Forgets `n` blocks; with `UINT32_MAX` all to the end of the fork.
#[unsafe(no_mangle)]
pub extern "C" fn ent_forget(fork: EntFork, block: u32, n: u32) -> i32 {
    failure::guarded(|| front::forget(&fork, block, (n != TO_THE_END).then_some(n)))
}

/// Forgets all forks of a relation; the number of the fork is not looked at.
#[unsafe(no_mangle)]
pub extern "C" fn ent_forget_relation(relation: EntFork) -> i32 {
    failure::guarded(|| front::forget_relation(relation))
}

/// Forgets a database, in one tablespace, or in all with 0.
#[unsafe(no_mangle)]
pub extern "C" fn ent_forget_database(database: u32, tablespace: u32) -> i32 {
    failure::guarded(|| front::forget_database(database, tablespace))
}

/// Brings all dirty pages of a database to disk.
#[unsafe(no_mangle)]
pub extern "C" fn ent_destage_database(database: u32) -> i32 {
    failure::guarded(|| front::destage(Some(database)))
}

/// Brings all dirty pages to disk.
#[unsafe(no_mangle)]
pub extern "C" fn ent_destage_all() -> i32 {
    failure::guarded(|| front::destage(None))
}

/// Makes a fork's staged pages durable.
#[unsafe(no_mangle)]
pub extern "C" fn ent_flush(fork: EntFork) -> i32 {
    failure::guarded(|| front::flush(&fork))
}

/// Makes all that was staged and forgotten durable.
#[unsafe(no_mangle)]
pub extern "C" fn ent_checkpoint(done: u64, redo: u64) -> i32 {
    failure::guarded(|| front::checkpoint(done, redo))
}

/// # Safety
/// `stat` points to an `EntStat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_stat(stat: *mut EntStat) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| report::stat(unsafe { &mut *stat }))
}

/// # Safety
/// `rows` has room for `room` rows; `n` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_relations(rows: *mut EntRelation, room: u32, n: *mut u32) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it; any bytes are a row.
        let (rows, n) = unsafe { (slice::from_raw_parts_mut(rows, room as usize), &mut *n) };
        report::relations(rows, n)
    })
}

/// # Safety
/// `removed` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_evict(relation: EntFork, removed: *mut u64) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| front::evict(relation, unsafe { &mut *removed }))
}

/// # Safety
/// `rows` has room for all rows of [`latency`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_latencies(rows: *mut EntLatency) -> i32 {
    // SAFETY: the caller promises it; any bytes are a row.
    failure::guarded(|| report::latencies(unsafe { &mut *rows.cast::<[EntLatency; latency::ROWS]>() }))
}

/// # Safety
/// `rows` has room for a row of each kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_backends(rows: *mut EntBackend) -> i32 {
    // SAFETY: the caller promises it; any bytes are a row.
    failure::guarded(|| report::backends(unsafe { &mut *rows.cast::<[EntBackend; BACKEND_KINDS]>() }))
}

/// # Safety
/// `rows` has room for a row of each kind, and one more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_io(rows: *mut EntIo) -> i32 {
    // SAFETY: the caller promises it; any bytes are a row.
    failure::guarded(|| report::io(unsafe { &mut *rows.cast::<[EntIo; BACKEND_KINDS + 1]>() }))
}

/// # Safety
/// `benefit` points to an `EntBenefit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_benefit(benefit: *mut EntBenefit) -> i32 {
    // SAFETY: the caller promises it; any bytes are one.
    failure::guarded(|| report::benefit(unsafe { &mut *benefit }))
}

/// Reads blocks that the server is about to read from disk, if that is to be timed.
#[unsafe(no_mangle)]
pub extern "C" fn ent_time_disk(direct: bool) {
    failure::guarded(|| counts::time_disk(direct));
}

/// # Safety
/// `path` ends with 0; `pages` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_dump_manifest(path: *const c_char, pages: *mut u64) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (path, pages) = unsafe { (CStr::from_ptr(path), &mut *pages) };
        manifest::dump(Path::new(OsStr::from_bytes(path.to_bytes())), pages)
    })
}

/// This process has measured something.
#[unsafe(no_mangle)]
pub extern "C" fn ent_took(row: u32, us: u64) -> i32 {
    failure::guarded(|| report::took(row, Duration::from_micros(us)))
}

/// All counters begin at zero again.
#[unsafe(no_mangle)]
pub extern "C" fn ent_stat_reset() -> i32 {
    failure::guarded(report::reset)
}

/// # Safety
/// `buffer` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_error(buffer: *mut c_char, bytes: usize) -> usize {
    failure::guarded(|| {
        let sentence = failure::sentence();
        if bytes > 0 {
            let kept = sentence.floor_char_boundary(bytes - 1);
            // SAFETY: the caller promises it; one byte more than is copied is there.
            let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes) };
            buffer[..kept].copy_from_slice(&sentence.as_bytes()[..kept]);
            buffer[kept] = 0;
        }
        sentence.len()
    })
}
