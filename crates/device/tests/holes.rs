//! Blocks for a file that has none.

use entresol_device::{FileDevice, FileOptions};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::os::unix::fs::FileExt;

const MIB: u64 = 1 << 20;

/// Where the first hole of the file is: at its end, if there is none.
fn first_hole(file: &File) -> u64 {
    seek(file, SeekFrom::Hole(0)).unwrap()
}

#[test]
fn holes_get_blocks_and_data_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let file = File::create_new(&path).unwrap();
    file.set_len(5 * MIB).unwrap();
    file.write_all_at(&[7; 8192], MIB).unwrap();
    file.write_all_at(&[8; 4096], 5 * MIB - 4096).unwrap();
    file.sync_all().unwrap();
    if first_hole(&file) == 5 * MIB {
        return println!("skipped: the file system of {} knows no holes", path.display());
    }
    let mut told = Vec::new();
    let device = FileDevice::open(&path, FileOptions::existing()).unwrap();
    let written = device.write_holes(&mut |done, total| told.push((done, total))).unwrap();
    drop(device);
    assert!(written > 4 * MIB && written < 5 * MIB, "{written}");
    assert!(told.iter().all(|(_, total)| *total == written) && told.last() == Some(&(written, written)));
    assert_eq!(first_hole(&file), 5 * MIB);
    let mut bytes = vec![1; 5 << 20];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let is_right = |(at, byte): (usize, &u8)| match at as u64 {
        at if (MIB..MIB + 8192).contains(&at) => *byte == 7,
        at if at >= 5 * MIB - 4096 => *byte == 8,
        _ => *byte == 0,
    };
    assert!(bytes.iter().enumerate().all(is_right));
    let device = FileDevice::open(&path, FileOptions::existing()).unwrap();
    assert_eq!(device.write_holes(&mut |_, _| ()).unwrap(), 0, "there are none now");
}
