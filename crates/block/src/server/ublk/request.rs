//! The requests of the kernel's driver, as commands of the volume, and their results.

use crate::{SECTOR_BYTES, VolumeError};
use entresol_nbd::Command;
use libublk::sys;
use rustix::io::Errno;

/// The volume's command for an I/O descriptor of the driver. `None`: the door does not offer such a request.
pub(super) fn command(op_flags: u32, start_sector: u64, sectors: u32) -> Option<Command> {
    if op_flags & 0xff == sys::UBLK_IO_OP_FLUSH {
        // Its first sector may be any number: the kernel does not set it.
        return Some(Command::Flush);
    }
    let offset = start_sector.checked_mul(SECTOR_BYTES)?;
    let length = sectors.checked_mul(SECTOR_BYTES as u32)?;
    let fua = op_flags & sys::UBLK_IO_F_FUA != 0;
    let no_hole = op_flags & sys::UBLK_IO_F_NOUNMAP != 0;
    Some(match op_flags & 0xff {
        sys::UBLK_IO_OP_READ => Command::Read { offset, length, whole: true },
        sys::UBLK_IO_OP_WRITE => Command::Write { offset, length, fua },
        sys::UBLK_IO_OP_DISCARD => Command::Trim { offset, length, fua },
        sys::UBLK_IO_OP_WRITE_ZEROES => Command::WriteZeroes { offset, length, fua, no_hole, fast: false },
        _ => return None,
    })
}

/// Bytes of the request's buffer that the command reads or writes.
pub(super) fn data_bytes(command: Command) -> usize {
    match command {
        Command::Read { length, .. } | Command::Write { length, .. } => length as usize,
        _ => 0,
    }
}

/// Whether a read-only volume carries it out.
pub(super) fn only_reads(command: Command) -> bool {
    matches!(command, Command::Read { .. } | Command::Flush)
}

/// The driver's result of a request that was not carried out.
pub(super) fn refused(why: Errno) -> i32 {
    -why.raw_os_error()
}

/// The driver's result: the number of bytes that were read or written, or a negative error number.
pub(super) fn result(command: Command, done: &Result<(), VolumeError>) -> i32 {
    match done {
        Ok(()) => data_bytes(command) as i32,
        Err(error) if error.is_of_the_request() => refused(Errno::INVAL),
        Err(error) if error.is_no_space() => refused(Errno::NOSPC),
        Err(_) => refused(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_device::DeviceError;

    #[test]
    fn each_operation_becomes_its_command() {
        let fua = sys::UBLK_IO_F_FUA;
        assert_eq!(
            command(sys::UBLK_IO_OP_READ, 3, 8),
            Some(Command::Read { offset: 1536, length: 4096, whole: true })
        );
        assert_eq!(
            command(sys::UBLK_IO_OP_WRITE, 0, 1),
            Some(Command::Write { offset: 0, length: 512, fua: false })
        );
        assert_eq!(
            command(sys::UBLK_IO_OP_WRITE | fua | sys::UBLK_IO_F_META, 1 << 32, 16),
            Some(Command::Write { offset: 1 << 41, length: 8192, fua: true })
        );
        // The kernel's flushes have no place.
        assert_eq!(command(sys::UBLK_IO_OP_FLUSH, u64::MAX, 0), Some(Command::Flush));
        assert_eq!(
            command(sys::UBLK_IO_OP_DISCARD, 8, 1 << 21),
            Some(Command::Trim { offset: 4096, length: 1 << 30, fua: false })
        );
        assert_eq!(
            command(sys::UBLK_IO_OP_WRITE_ZEROES | sys::UBLK_IO_F_NOUNMAP, 8, 8),
            Some(Command::WriteZeroes { offset: 4096, length: 4096, fua: false, no_hole: true, fast: false })
        );
    }

    #[test]
    fn what_the_door_does_not_offer_is_no_command() {
        for operation in [sys::UBLK_IO_OP_WRITE_SAME, sys::UBLK_IO_OP_ZONE_APPEND, 99] {
            assert_eq!(command(operation, 0, 8), None);
        }
        // Lengths and offsets that do not fit.
        assert_eq!(command(sys::UBLK_IO_OP_DISCARD, 0, 1 << 23), None);
        assert_eq!(command(sys::UBLK_IO_OP_READ, 1 << 60, 1), None);
    }

    #[test]
    fn results_are_bytes_or_errors() {
        let read = Command::Read { offset: 0, length: 4096, whole: true };
        assert_eq!(result(read, &Ok(())), 4096);
        assert_eq!(result(Command::Flush, &Ok(())), 0);
        let outside = VolumeError::Range { offset: 1, length: 2, bytes: 3 };
        assert_eq!(result(read, &Err(outside)), -22);
        let gone = DeviceError::Dead { device: "disk".to_owned(), reason: "gone".to_owned() };
        let failed = VolumeError::Disk(gone);
        assert_eq!(result(read, &Err(failed)), -5);
        let full = DeviceError::NoSpace {
            device: "disk".to_owned(),
            operation: "write",
            offset: 0,
            length: 4096,
            reason: "full".to_owned(),
        };
        assert_eq!(result(read, &Err(VolumeError::Disk(full))), -28);
    }

    #[test]
    fn a_read_only_volume_is_read_and_flushed() {
        assert!(only_reads(Command::Read { offset: 0, length: 512, whole: true }));
        assert!(only_reads(Command::Flush));
        assert!(!only_reads(Command::Write { offset: 0, length: 512, fua: false }));
        assert!(!only_reads(Command::Trim { offset: 0, length: 512, fua: false }));
    }
}
