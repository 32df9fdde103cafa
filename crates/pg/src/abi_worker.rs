//! As [`crate::abi`]: the functions of the worker, and of a change of the cache.
#![allow(unsafe_code)] // pointers from C; each function says what it relies on

use crate::abi::{memory_of, refused, settings_of};
use crate::horizon::Record;
use crate::locator::Folders;
use crate::moving::Moving;
use crate::types::{
    EntCheckpoint, EntCluster, EntEvent, EntLogKept, EntLogWanted, EntNow, EntOptions, EntRedo, EntRedoTook,
    EntReplay, code,
};
use crate::{change, failure, forecast, front, lost, settings, worker};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// # Safety
/// As [`crate::abi::ent_attach`]; `cluster` points to an `EntCluster`. The memory was mapped by the present
/// postmaster, after the last crash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_worker_open(
    options: *const EntOptions,
    memory: *mut c_void,
    bytes: usize,
    cluster: *const EntCluster,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (settings, cluster) = unsafe { (settings_of(&*options), &*cluster) };
        let both = settings.and_then(|settings| {
            // SAFETY: as above.
            let memory = unsafe { memory_of(memory, bytes, &settings, true) }?;
            Ok((settings, memory))
        });
        refused(both, |(settings, memory)| worker::open(&settings, memory, cluster))
    })
}

/// # Safety
/// `event` points to an `EntEvent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_worker_wait(patience_ms: u32, event: *mut EntEvent) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        worker::wait(Duration::from_millis(patience_ms.into()), unsafe { &mut *event })
    })
}

/// Redo is over.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_redone() {
    failure::guarded(worker::redone);
}

/// So many victims were pushed into the cache.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_pulled(pages: c_int) {
    failure::guarded(|| worker::pulled(usize::try_from(pages).unwrap_or(0)));
}

/// # Safety
/// `text` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_worker_limit(text: *const c_char) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let text = unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| "it is not UTF-8".to_owned());
        refused(text.and_then(settings::daily_writes), worker::limit_writes)
    })
}

/// # Safety
/// As [`crate::abi::ent_plan`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_worker_prepare(options: *const EntOptions) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| refused(unsafe { settings_of(&*options) }, change::prepare))
}

/// Whether the change is prepared.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_is_prepared() -> i32 {
    failure::guarded(change::is_prepared)
}

/// The change is not made.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_give_up() {
    failure::guarded(change::give_up);
}

/// No process enters the cache any more.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_close_gate() {
    failure::guarded(change::close_gate);
}

/// Whether no process uses the cache.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_is_alone() -> bool {
    failure::guarded(change::is_alone)
}

/// Makes the change that was prepared.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_change(done: u64, redo: u64) -> i32 {
    failure::guarded(|| change::finish([done, redo]))
}

/// Processes enter again.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_open_gate(is_another: bool) {
    failure::guarded(|| change::open_gate(is_another));
}

/// The last two checkpoints.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_mark(done: u64, redo: u64) -> i32 {
    failure::guarded(|| change::mark([done, redo]))
}

/// The files were written while there was no cache.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_files_were_written() {
    failure::guarded(change::files_were_written);
}

/// Whether clean pages stay out until checkpoints are complete.
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_awaits_checkpoints() -> bool {
    failure::guarded(change::awaits_checkpoints)
}

/// # Safety
/// As [`crate::abi::ent_attach`]; `now` points to an `EntNow`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_now(
    options: *const EntOptions,
    memory: *mut c_void,
    bytes: usize,
    now: *mut EntNow,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let memory = unsafe { settings_of(&*options) }
            // SAFETY: as above.
            .and_then(|settings| unsafe { memory_of(memory, bytes, &settings, false) });
        refused(memory, |memory| {
            // SAFETY: as above.
            unsafe { *now = memory.board().now.read() };
            code::DONE
        })
    })
}

/// Whether the cache is another one by now than this process has attached.
#[unsafe(no_mangle)]
pub extern "C" fn ent_is_stale() -> bool {
    failure::guarded(front::is_stale)
}

/// Whether the cache that this process has attached is being changed.
#[unsafe(no_mangle)]
pub extern "C" fn ent_is_changing() -> bool {
    failure::guarded(front::is_changing)
}

/// Whether the cache that this process has attached is never newer than the files.
#[unsafe(no_mangle)]
pub extern "C" fn ent_is_through() -> bool {
    failure::guarded(front::is_through)
}

/// # Safety
/// As [`crate::abi::ent_plan`]; `from` and `to` end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_moving(
    options: *const EntOptions,
    from: *const c_char,
    to: *const c_char,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let path = |text| Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()));
        // SAFETY: as above.
        let written = unsafe { settings_of(&*options) }.and_then(|settings| {
            let moving = Moving::of(&settings.folders);
            if from == to || path(from) == path(to) {
                moving.ends()
            } else {
                moving.begins(path(from), path(to))
            }
        });
        refused(written, |()| code::DONE)
    })
}

/// # Safety
/// As [`crate::abi::ent_plan`]; `to` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_is_moving(options: *const EntOptions, to: *const c_char) -> bool {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let to = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(to) }.to_bytes()));
        // SAFETY: as above.
        unsafe { settings_of(&*options) }
            .is_ok_and(|settings| Moving::of(&settings.folders).from(to).is_some())
    })
}

/// Ends the cache as `how` says: see [`crate::types::close`].
#[unsafe(no_mangle)]
pub extern "C" fn ent_worker_close(how: u32, redo: u64) -> i32 {
    failure::guarded(|| worker::close(how, redo))
}

/// # Safety
/// `wanted` points to an `EntLogWanted`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_worker_keep_log(wanted: *const EntLogWanted) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| worker::keep_log(unsafe { &*wanted }))
}

/// # Safety
/// `kept` points to an `EntLogKept`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_worker_log_is_kept(kept: *mut EntLogKept) -> i32 {
    // SAFETY: the caller promises it.
    failure::guarded(|| worker::log_is_kept(unsafe { &mut *kept }))
}

/// # Safety
/// `text` ends with 0, as the paths in [`EntOptions`].
unsafe fn folders_of(data: *const c_char) -> Folders {
    // SAFETY: the caller promises it.
    let data = OsStr::from_bytes(unsafe { CStr::from_ptr(data) }.to_bytes());
    Folders { data: data.into(), version: String::new() }
}

/// # Safety
/// `data` ends with 0; `newest` and `redo` point to an `EntCheckpoint` and an `EntRedo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_lost_begin(
    data: *const c_char,
    newest: *const EntCheckpoint,
    has_target: bool,
    segment_bytes: u32,
    redo: *mut EntRedo,
) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (folders, newest, redo) = unsafe { (folders_of(data), *newest, &mut *redo) };
        let record = Record { lsn: newest.record, timeline: newest.timeline };
        let begun = lost::begin(&folders, (record, newest.redo), has_target, segment_bytes.into());
        refused(begun, |begun| match begun {
            None => code::NOTHING,
            Some(lost::Redo { from, upto }) => {
                let Record { lsn, timeline } = from.record;
                let from = EntCheckpoint { record: lsn, redo: from.redo_point.0, timeline };
                *redo = EntRedo { from, upto: upto.lsn, upto_timeline: upto.timeline };
                code::DONE
            }
        })
    })
}

/// # Safety
/// `data` ends with 0; `horizon` points to an `EntCheckpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_lost_promise(data: *const c_char, horizon: *mut EntCheckpoint) -> i32 {
    failure::guarded(|| {
        // SAFETY: the caller promises it.
        let (folders, horizon) = unsafe { (folders_of(data), &mut *horizon) };
        refused(lost::promise(&folders), |from| {
            let Record { lsn, timeline } = from.record;
            *horizon = EntCheckpoint { record: lsn, redo: from.redo_point.0, timeline };
            code::DONE
        })
    })
}

/// # Safety
/// `data` ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_lost_end(data: *const c_char) -> i32 {
    // SAFETY: the caller promises it.
    let folders = unsafe { folders_of(data) };
    failure::guarded(|| {
        refused(lost::end(&folders), |was_lost| if was_lost { code::DONE } else { code::NOTHING })
    })
}

/// # Safety
/// `data` ends with 0; `took` points to an `EntRedoTook`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_redo_took(data: *const c_char, took: *const EntRedoTook) {
    // SAFETY: the caller promises it.
    let (folders, took) = unsafe { (folders_of(data), &*took) };
    failure::guarded(|| forecast::note(&folders, took));
}

/// # Safety
/// `data` ends with 0; `ahead` points to an `EntReplay`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ent_replay_seconds(data: *const c_char, ahead: *const EntReplay) -> f64 {
    // SAFETY: the caller promises it.
    let (folders, ahead) = unsafe { (folders_of(data), &*ahead) };
    failure::guarded(|| forecast::seconds(forecast::known(&folders)?, ahead)).unwrap_or(-1.0)
}
