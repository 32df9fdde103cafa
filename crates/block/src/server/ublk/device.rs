//! Making, finding and taking over the driver's device.
//!
//! A device carries a number that its server chooses (`ublksrv_flags`). Ours says which volume it is of, so a
//! server finds the device of the one that was killed, and does not touch those of other programs. No file is
//! needed for that, and none is written.

use super::super::Shared;
use crate::{SECTOR_BYTES, Volume};
use libublk::ctrl::UblkCtrl;
use libublk::io::UblkDev;
use libublk::{UblkError, UblkFlags, sys};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most requests of a device under way.
const QUEUE_DEPTH: u32 = 64;
/// Most bytes of a read or a write. Each of the requests has a buffer of this size.
const BUFFER_BYTES: u32 = 512 << 10;
/// Most bytes of a trim, and of zeros that are written.
const RANGE_BYTES_MAX: u32 = 256 << 20;
/// The driver's control device.
const CONTROL: &str = "/dev/ublk-control";
/// Where the kernel lists the devices.
const DEVICES: &str = "/sys/class/ublk-char";
/// The driver's behaviour when a server dies: it keeps requests for the next one, those under way, too.
const RECOVERY: u64 = (sys::UBLK_F_USER_RECOVERY | sys::UBLK_F_USER_RECOVERY_REISSUE) as u64;

/// Why the driver cannot be used, if it is so.
pub(super) fn check() -> Result<(), String> {
    match OpenOptions::new().read(true).write(true).open(CONTROL) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(format!("{CONTROL} does not exist; load the driver: modprobe ublk_drv (Linux 6.1 or newer)"))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(format!("{CONTROL} may not be opened ({error}); run the server as root"))
        }
        Err(error) => Err(format!("{CONTROL} cannot be opened ({error})")),
    }
}

/// A call of the library, in a sentence.
pub(super) fn sentence(what: &str, error: &UblkError) -> String {
    let of_system = |number: i32| std::io::Error::from_raw_os_error(-number).to_string();
    let why = match error {
        UblkError::UringIOError(number) | UblkError::OtherError(number) => of_system(*number),
        UblkError::IOError(error) if error.kind() == ErrorKind::PermissionDenied => {
            format!("{error}; io_uring may be forbidden: sysctl kernel.io_uring_disabled")
        }
        error => error.to_string(),
    };
    format!("{what}: {why}")
}

/// The result of a control command: the library takes "busy" for a success.
pub(super) fn done(what: &str, result: Result<i32, UblkError>) -> Result<(), String> {
    match result {
        Ok(number) if number < 0 => Err(sentence(what, &UblkError::OtherError(number))),
        Ok(_) => Ok(()),
        Err(error) => Err(sentence(what, &error)),
    }
}

/// The number that the device of the volume with this label carries: FNV-1a of the label's path.
pub(super) fn mark(label: &Path) -> u64 {
    let path = label.canonicalize().unwrap_or_else(|_| label.to_owned());
    let bytes = b"entresol volume ".iter().chain(path.as_os_str().as_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The parameters of the volume for the kernel.
pub(super) fn parameters(volume: &Volume, read_only: bool, buffer_bytes: u32) -> sys::ublk_params {
    let page_shift = volume.page_bytes().trailing_zeros() as u8;
    let sectors = |bytes: u32| bytes / SECTOR_BYTES as u32;
    sys::ublk_params {
        types: sys::UBLK_PARAM_TYPE_BASIC | sys::UBLK_PARAM_TYPE_DISCARD,
        basic: sys::ublk_param_basic {
            attrs: sys::UBLK_ATTR_VOLATILE_CACHE
                | sys::UBLK_ATTR_FUA
                | if read_only { sys::UBLK_ATTR_READ_ONLY } else { 0 },
            logical_bs_shift: SECTOR_BYTES.trailing_zeros() as u8,
            physical_bs_shift: 12,
            io_min_shift: page_shift,
            io_opt_shift: page_shift,
            max_sectors: sectors(buffer_bytes),
            dev_sectors: volume.bytes() / SECTOR_BYTES,
            ..Default::default()
        },
        discard: sys::ublk_param_discard {
            discard_granularity: volume.page_bytes() as u32,
            max_discard_sectors: sectors(RANGE_BYTES_MAX),
            max_write_zeroes_sectors: sectors(RANGE_BYTES_MAX),
            max_discard_segments: 1,
            ..Default::default()
        },
        ..Default::default()
    }
}

/// A control for device `id`, which it neither makes nor deletes.
fn control(id: i32, mark: u64, flags: UblkFlags) -> Result<UblkCtrl, UblkError> {
    let name = Some("entresol".to_owned());
    UblkCtrl::new(name, id, 1, QUEUE_DEPTH, BUFFER_BYTES, RECOVERY, mark, flags)
}

/// The device of this mark, if there is one.
fn find(mark: u64) -> Result<Option<UblkCtrl>, String> {
    let Ok(entries) = std::fs::read_dir(DEVICES) else { return Ok(None) };
    let ids = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("ublkc")?.parse::<i32>().ok()
    });
    for id in ids {
        // One that has gone meanwhile, or that says nothing to us, is not ours.
        let Ok(control) = control(id, mark, UblkFlags::UBLK_DEV_F_RECOVER_DEV) else { continue };
        let info = control.dev_info();
        if info.ublksrv_flags == mark && info.owner_uid == rustix::process::geteuid().as_raw() {
            return Ok(Some(control));
        }
    }
    Ok(None)
}

/// Refuses a device that the kernel knows in another shape than the volume has.
fn check_shape(control: &UblkCtrl, shared: &Shared) -> Result<(), String> {
    let (path, mut there) = (control.get_bdev_path(), sys::ublk_params::default());
    done(&format!("{path}: asking for its size"), control.get_params(&mut there))?;
    let wanted = parameters(&shared.volume, shared.options.read_only, BUFFER_BYTES);
    let is_read_only = |of: &sys::ublk_params| of.basic.attrs & sys::UBLK_ATTR_READ_ONLY != 0;
    let shape = |of: &sys::ublk_params| {
        let access = if is_read_only(of) { "read only" } else { "to be written" };
        format!("of {} bytes, {access}", of.basic.dev_sectors * SECTOR_BYTES)
    };
    if there.basic.dev_sectors == wanted.basic.dev_sectors && is_read_only(&there) == is_read_only(&wanted) {
        return Ok(());
    }
    Err(format!(
        "{path} was made for this volume {}, and the volume is now {}; start the server as before, unmount the \
         device, and stop the server: that deletes it",
        shape(&there),
        shape(&wanted)
    ))
}

/// The volume's device, and whether it is another server's that was killed or stopped: made, or taken over.
pub(super) fn open(shared: &Shared, label: &Path) -> Result<(UblkCtrl, bool), String> {
    check()?;
    let mark = mark(label);
    if let Some(control) = find(mark)? {
        let path = control.get_bdev_path();
        if u32::from(control.dev_info().state) == sys::UBLK_S_DEV_DEAD {
            // It was never started, or was stopped before it could be deleted.
            done(&format!("{path}: deleting it"), control.del_dev())?;
        } else {
            check_shape(&control, shared)?;
            // It waits until the server from before is gone.
            done(&format!("{path}: taking it over"), control.start_user_recover())?;
            return Ok((control, true));
        }
    }
    // The driver chooses the device's number: if the library is refused one, it deletes the device that has
    // it.
    let control = control(-1, mark, UblkFlags::UBLK_DEV_F_ADD_DEV)
        .map_err(|error| sentence("making a device", &error))?;
    // Whether it is deleted is decided here, not by the library.
    control.disown();
    if control.dev_info().flags & RECOVERY != RECOVERY {
        let _ = control.del_dev();
        return Err("the driver cannot keep requests for the next server; it needs Linux 6.1 or newer".into());
    }
    Ok((control, false))
}

/// The device's node for the queue's thread.
pub(super) fn node(control: &UblkCtrl, shared: &Shared) -> Result<UblkDev, String> {
    let set = |device: &mut UblkDev| {
        let buffer_bytes = device.dev_info.max_io_buf_bytes;
        device.tgt.dev_size = shared.volume.bytes();
        device.tgt.params = parameters(&shared.volume, shared.options.read_only, buffer_bytes);
        // Room for what wakes the thread.
        device.tgt.cq_depth = 2 * device.dev_info.queue_depth;
        Ok(())
    };
    let path = control.get_cdev_path();
    UblkDev::new("entresol".to_owned(), set, control).map_err(|error| sentence(&path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_that_of_its_label() {
        let [a, b] = ["/a/data.label", "/b/data.label"].map(|path| mark(Path::new(path)));
        assert_ne!(a, b);
        // A device that a server of this version has made is found by the next one.
        assert_eq!(a, 0x76f3_2ef6_a24f_7da6);
    }

    #[test]
    fn errors_are_sentences() {
        assert!(done("x", Ok(0)).is_ok());
        let busy = done("/dev/ublkb0: taking it over", Ok(-16)).expect_err("busy");
        assert!(busy.starts_with("/dev/ublkb0: taking it over: Device or resource busy"), "{busy}");
        let refused = done("making a device", Err(UblkError::UringIOError(-1))).expect_err("refused");
        assert!(refused.starts_with("making a device: Operation not permitted"), "{refused}");
    }
}
