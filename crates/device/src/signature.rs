//! Recognises the content of a device from its first and last bytes, so that a wrong path does not lead to
//! the formatting of a device in use.
//!
//! Invariant: this module never writes. It reports [`Contents::Blank`] only if the first MiB and the last 64
//! KiB of the device are readable and all zeros. Offsets and magics are those of the programs' own format
//! documents.

use crate::{Device, DeviceError};
use std::ops::Range;

/// Bytes at the start of a device that are zeros if it is blank.
pub const BLANK_HEAD_BYTES: u64 = 1 << 20;
/// Bytes at the end of a device that are zeros if it is blank.
pub const BLANK_TAIL_BYTES: u64 = 64 << 10;
/// Bytes at the start of our devices that hold only labels, superblocks and marks.
const RESERVED_BYTES: u64 = 64 << 10;
/// Bytes read at once where something cannot be read. Then its sectors are read one by one.
const PIECE: usize = 4096;

/// The findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// All zeros, where signatures are stored.
    Blank,
    /// A known format, as a noun phrase: "an ext4 file system".
    Known(String),
    /// Unknown content: a byte at this offset is not zero, or cannot be read.
    Unknown {
        /// In bytes.
        offset: u64,
    },
}

impl Contents {
    /// The content that would be lost if the device were overwritten, as a noun phrase; `None` if it is
    /// blank.
    pub fn value(self) -> Option<String> {
        match self {
            Contents::Blank => None,
            Contents::Known(name) => Some(name),
            Contents::Unknown { offset } => Some(format!("something unknown (at offset {offset})")),
        }
    }

    /// The sentence that refuses to overwrite a device with the content `value`. `role`: "disk", "log
    /// device".
    pub fn refusal(role: &str, value: &str) -> String {
        format!(
            "the {role} is not blank, it holds {value}: nothing was written; is it the right device? If its content is not \
             wanted any more, overwrite its first {} KiB and its last {} KiB with zeros, or ask for it to be overwritten \
             (`--overwrite`, or the option `overwrite`)",
            BLANK_HEAD_BYTES >> 10,
            BLANK_TAIL_BYTES >> 10
        )
    }
}

/// A magic from the start of the device.
struct Magic {
    offset: u64,
    bytes: &'static [u8],
    name: &'static str,
    /// For a magic of two or three bytes, which may also occur by chance or in a damaged block: whether other
    /// fields have possible values.
    proof: Option<fn(&Part) -> bool>,
}

const fn magic(offset: u64, bytes: &'static [u8], name: &'static str) -> Magic {
    Magic { offset, bytes, name, proof: None }
}

const fn proved(magic: Magic, proof: fn(&Part) -> bool) -> Magic {
    Magic { proof: Some(proof), ..magic }
}

/// ext2 and later: block size 1024 << 0 ..= 6, revision 0 or 1.
fn is_ext(head: &Part) -> bool {
    let in_range = |offset, most| head.number(offset).is_some_and(|number| number <= most);
    in_range(1024 + 24, 6) && in_range(1024 + 76, 1)
}

/// The signature of a boot sector.
fn is_boot_sector(head: &Part) -> bool {
    head.has(510, b"\x55\xaa")
}

/// The status of each of the four partitions: bootable or not.
fn is_partition_table(head: &Part) -> bool {
    (0..4).all(|at| head.has(446 + 16 * at, &[0]) || head.has(446 + 16 * at, &[0x80]))
}

/// Our own magics (crates/format, crates/store).
const OURS: &[Magic] = &[
    magic(0, b"ENTRSUPR", "a flash cache of Entresol"),
    magic(16 << 10, b"ENTRSUPR", "a flash cache of Entresol"),
    magic(32 << 10, b"ENTRSUPR", "a flash cache of Entresol"),
    magic(48 << 10, b"ENTRSUPR", "a flash cache of Entresol"),
    magic(4096, b"ENTRFRAG", "a cache of fragments of Entresol"),
    magic((1 << 20) - 4096, b"ENTRFRAG", "a cache of fragments of Entresol"),
    magic(0, b"ENTRDISK", "the disk of a database of Entresol"),
    magic(32 << 10, b"ENTRDISK", "the disk of a database of Entresol"),
    magic(0, b"ENTRSLOG", "the log of a database of Entresol"),
    magic(4096, b"ENTRSLOG", "the log of a database of Entresol"),
];

/// The first match names the device. Partition tables are last, because file systems keep room for them.
const OTHERS: &[Magic] = &[
    // Layers below file systems.
    magic(0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    magic(512, b"LABELONE", "a physical volume of LVM"),
    magic(0, b"LABELONE", "a physical volume of LVM"),
    magic(4096, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
    magic(0, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
    magic(
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a cache or a disk of bcache",
    ),
    magic(32, b"\x61\x16\x04\x07", "the metadata of dm-cache"),
    magic(0, b"dmvdo001", "a volume of VDO"),
    // File systems.
    proved(magic(1024 + 56, b"\x53\xef", "an ext2, ext3 or ext4 file system"), is_ext),
    magic(0, b"XFSB", "an XFS file system"),
    magic((64 << 10) + 64, b"_BHRfS_M", "a Btrfs file system"),
    magic(1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    magic(3, b"NTFS    ", "an NTFS file system"),
    magic(3, b"EXFAT   ", "an exFAT file system"),
    proved(magic(54, b"FAT", "a FAT file system"), is_boot_sector),
    magic(82, b"FAT32", "a FAT file system"),
    magic((32 << 10) + 1, b"CD001", "an ISO 9660 file system"),
    magic(4096 - 10, b"SWAPSPACE2", "swap space"),
    // Uberblocks follow at 128 KiB, 1 KiB apart or more.
    magic(128 << 10, b"\x0c\xb1\xba\x00\x00\x00\x00\x00", "a member of a ZFS pool"),
    magic(132 << 10, b"\x0c\xb1\xba\x00\x00\x00\x00\x00", "a member of a ZFS pool"),
    magic(128 << 10, b"\x00\x00\x00\x00\x00\xba\xb1\x0c", "a member of a ZFS pool"),
    // Partitions, with sectors of 512 and of 4096 bytes.
    magic(512, b"EFI PART", "a GPT partition table"),
    magic(4096, b"EFI PART", "a GPT partition table"),
    proved(magic(510, b"\x55\xaa", "a partition table (MBR) or a boot sector"), is_partition_table),
];

/// Magics counted from the end of the device.
const MAGICS_AT_END: &[Magic] = &[
    magic(512, b"EFI PART", "the backup of a GPT partition table"),
    magic(4096, b"EFI PART", "the backup of a GPT partition table"),
    magic(8 << 10, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
    magic(64 << 10, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
];

/// A part of the device, as far as it can be read.
struct Part {
    offset: u64,
    bytes: Vec<u8>,
    /// Offsets on the device of the sectors that cannot be read; in `bytes` they are zeros.
    unreadable: Vec<u64>,
}

impl Part {
    fn read(device: &dyn Device, offset: u64, end: u64) -> Result<Part, DeviceError> {
        let sector = u64::from(device.geometry().sector_bytes.max(1));
        let offset = offset / sector * sector;
        let length = end.saturating_sub(offset) / sector * sector;
        let mut part = Part { offset, bytes: vec![0; length as usize], unreadable: Vec::new() };
        let piece = PIECE.next_multiple_of(sector as usize);
        match device.read(offset, &mut part.bytes) {
            Err(error) if error.is_unreadable() => {}
            read => return read.map(|()| part),
        }
        for at in (0..part.bytes.len()).step_by(piece) {
            let end = part.bytes.len().min(at + piece);
            // A magic may be in the next sector.
            if !part.read_again(device, at..end)? {
                for at in (at..end).step_by(sector as usize) {
                    if !part.read_again(device, at..at + sector as usize)? {
                        part.unreadable.push(offset + at as u64);
                    }
                }
            }
        }
        Ok(part)
    }

    /// Whether the device can read these of the bytes; if not, they are zeros.
    fn read_again(&mut self, device: &dyn Device, bytes: Range<usize>) -> Result<bool, DeviceError> {
        let offset = self.offset + bytes.start as u64;
        let bytes = &mut self.bytes[bytes];
        match device.read(offset, bytes) {
            Err(error) if error.is_unreadable() => {
                bytes.fill(0);
                Ok(false)
            }
            read => read.map(|()| true),
        }
    }

    fn has(&self, offset: u64, magic: &[u8]) -> bool {
        let at = offset.checked_sub(self.offset).map(|at| at as usize);
        at.and_then(|at| self.bytes.get(at..at + magic.len())).is_some_and(|found| found == magic)
    }

    /// The little-endian number at `offset`.
    fn number(&self, offset: u64) -> Option<u32> {
        let at = offset.checked_sub(self.offset)? as usize;
        Some(u32::from_le_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }

    fn first_of(&self, magics: &'static [Magic]) -> Option<&'static Magic> {
        magics.iter().find(|magic| self.has(magic.offset, magic.bytes))
    }

    fn is_blank_but_for(&self, first: &FirstBlock) -> bool {
        let at = first.offset as usize;
        let Some(block) = self.bytes.get(at..at + FIRST_BLOCK_BYTES) else { return false };
        let within = first.offset..first.offset + FIRST_BLOCK_BYTES as u64;
        let has_magic = block.starts_with(&first.magic) || self.unreadable.contains(&first.offset);
        let is_torn = !self.unreadable.is_empty() && block.iter().all(|byte| *byte == 0);
        let is_ours = self.unreadable.iter().all(|at| within.contains(at)) && (has_magic || is_torn);
        let around = [&self.bytes[..at], &self.bytes[at + FIRST_BLOCK_BYTES..]];
        is_ours && around.iter().all(|bytes| bytes.iter().all(|byte| *byte == 0))
    }

    /// The offset of the first byte that is not zero or cannot be read.
    fn used(&self) -> Option<u64> {
        let used = self.bytes.iter().position(|byte| *byte != 0).map(|at| self.offset + at as u64);
        used.into_iter().chain(self.unreadable.first().copied()).min()
    }
}

/// The first block that one of our programs writes to a blank device: alone, and durable before all others.
#[derive(Clone, Copy, Debug)]
pub struct FirstBlock {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its magic.
    pub magic: [u8; 8],
}

/// Bytes of such a block.
const FIRST_BLOCK_BYTES: usize = 4096;

/// Whether `device` is blank except for one of the blocks `first`, which cannot be read or begins with its
/// magic. This is the state when power fails while one of our programs begins to use a blank device.
///
/// # Errors
/// As [`signature`].
pub fn is_cut_off(device: &dyn Device, first: &[FirstBlock]) -> Result<bool, DeviceError> {
    let capacity = device.geometry().capacity_bytes;
    let head = Part::read(device, 0, BLANK_HEAD_BYTES.min(capacity))?;
    let tail = Part::read(device, capacity.saturating_sub(BLANK_TAIL_BYTES), capacity)?;
    Ok(tail.used().is_none() && first.iter().any(|first| head.is_blank_but_for(first)))
}

/// The magic of another program in the area that our devices reserve for labels, superblocks and marks. A
/// copy of our structures may still exist: a program that begins to use a device does not erase all of it.
fn over_ours(head: &Part) -> Option<&'static Magic> {
    let is_ours_alone = |magic: &&Magic| magic.offset + magic.bytes.len() as u64 <= RESERVED_BYTES;
    let is_there =
        |magic: &&Magic| head.has(magic.offset, magic.bytes) && magic.proof.is_none_or(|proof| proof(head));
    OTHERS.iter().filter(is_ours_alone).find(is_there)
}

/// The content that another program has written over one of our devices, as a noun phrase. Then a remaining
/// copy of our structures proves nothing.
///
/// # Errors
/// As [`signature`].
pub fn put_over(device: &dyn Device) -> Result<Option<&'static str>, DeviceError> {
    let head = Part::read(device, 0, RESERVED_BYTES.min(device.geometry().capacity_bytes))?;
    Ok(over_ours(&head).map(|magic| magic.name))
}

/// Recognises the content of `device`.
///
/// # Errors
/// If the device as a whole cannot be read. Single unreadable sectors count as unknown content.
pub fn signature(device: &dyn Device) -> Result<Contents, DeviceError> {
    let capacity = device.geometry().capacity_bytes;
    let head = Part::read(device, 0, BLANK_HEAD_BYTES.min(capacity))?;
    let tail = Part::read(device, capacity.saturating_sub(BLANK_TAIL_BYTES), capacity)?;
    // Content written over our devices is first, then our own, since its pages may contain any bytes.
    let known = over_ours(&head).or_else(|| head.first_of(OURS)).or_else(|| head.first_of(OTHERS));
    let at_end = || {
        let offset = |magic: &Magic| capacity.checked_sub(magic.offset);
        MAGICS_AT_END.iter().find(|magic| offset(magic).is_some_and(|offset| tail.has(offset, magic.bytes)))
    };
    Ok(match (known.or_else(at_end), head.used().or(tail.used())) {
        (Some(magic), _) => Contents::Known(magic.name.to_owned()),
        (None, Some(offset)) => Contents::Unknown { offset },
        (None, None) => Contents::Blank,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    const CAPACITY: u64 = 4 << 20;

    fn holding(offset: u64, bytes: &[u8]) -> Contents {
        let device = MemoryDevice::new("device", CAPACITY);
        let start = offset / 512 * 512;
        let mut sectors = vec![0; ((offset - start) as usize + bytes.len()).next_multiple_of(512)];
        sectors[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
        device.write(start, &sectors).unwrap();
        signature(&device).unwrap()
    }

    #[test]
    fn every_magic_is_named_wherever_it_lies() {
        for magic in OURS.iter().chain(OTHERS) {
            assert_eq!(holding(magic.offset, magic.bytes), Contents::Known(magic.name.to_owned()));
        }
        for magic in MAGICS_AT_END {
            let found = holding(CAPACITY - magic.offset, magic.bytes);
            assert_eq!(found, Contents::Known(magic.name.to_owned()));
        }
    }

    #[test]
    fn what_was_put_over_a_device_of_ours_names_it() {
        let device = MemoryDevice::new("device", CAPACITY);
        let put = |offset, bytes: &[u8]| {
            let mut sector = [0; 512];
            sector[..bytes.len()].copy_from_slice(bytes);
            device.write(offset, &sector).unwrap();
        };
        put(32 << 10, b"ENTRDISK");
        put(128 << 10, b"\x0c\xb1\xba\x00\x00\x00\x00\x00");
        // A page of ours may contain any bytes.
        assert_eq!(put_over(&device).unwrap(), None);
        assert_eq!(signature(&device).unwrap().value().unwrap(), "the disk of a database of Entresol");
        // Two bytes alone may occur by chance.
        let mut ext = [0xff; 512];
        ext[56..58].copy_from_slice(b"\x53\xef");
        put(1024, &ext);
        assert_eq!(put_over(&device).unwrap(), None);
        ext[24..28].copy_from_slice(&[2, 0, 0, 0]);
        ext[76..80].copy_from_slice(&[1, 0, 0, 0]);
        put(1024, &ext);
        assert_eq!(put_over(&device).unwrap(), Some("an ext2, ext3 or ext4 file system"));
        put(1024, &[]);
        put(0, b"XFSB");
        assert_eq!(put_over(&device).unwrap(), Some("an XFS file system"));
        assert_eq!(signature(&device).unwrap().value().unwrap(), "an XFS file system");
    }

    #[test]
    fn a_file_system_with_a_boot_sector_is_no_partition_table() {
        let mut sector = vec![0; 512];
        sector[3..11].copy_from_slice(b"NTFS    ");
        sector[510..].copy_from_slice(b"\x55\xaa");
        assert_eq!(holding(0, &sector), Contents::Known("an NTFS file system".to_owned()));
    }

    #[test]
    fn only_a_block_of_ours_on_a_blank_device_is_the_beginning_of_a_use() {
        let first = FirstBlock { offset: 16 << 10, magic: *b"ENTRSUPR" };
        let holds = |blocks: &[(u64, &[u8])], unreadable: &[u64]| {
            let device = MemoryDevice::new("device", CAPACITY);
            for (offset, bytes) in blocks {
                let mut sector = [0; 512];
                sector[..bytes.len()].copy_from_slice(bytes);
                device.write(*offset, &sector).unwrap();
            }
            unreadable.iter().for_each(|offset| device.mark_unreadable(*offset, 512));
            is_cut_off(&device, &[first]).unwrap()
        };
        assert!(holds(&[(16384, b"ENTRSUPR damaged")], &[]));
        assert!(holds(&[], &[16384]) && holds(&[], &[16384 + 1024]));
        assert!(!holds(&[(16384, b"something")], &[]) && !holds(&[], &[]));
        assert!(!holds(&[], &[0]), "it may have been a partition table");
        for elsewhere in [0, 512, 20480, BLANK_HEAD_BYTES - 512, CAPACITY - 512] {
            assert!(!holds(&[(elsewhere, b"something")], &[16384]), "with something at {elsewhere}");
            assert!(!holds(&[(16384, b"ENTRSUPR")], &[elsewhere]), "without what is at {elsewhere}");
        }
    }

    #[test]
    fn a_magic_beside_a_sector_that_cannot_be_read_is_seen() {
        for (offset, magic, unreadable) in [(0, &b"XFSB"[..], 512), (512, b"LABELONE", 0)] {
            let device = MemoryDevice::new("device", CAPACITY);
            let mut sector = [0; 512];
            sector[..magic.len()].copy_from_slice(magic);
            device.write(offset, &sector).unwrap();
            device.mark_unreadable(unreadable, 512);
            let found = signature(&device).unwrap();
            assert!(matches!(found, Contents::Known(_)), "{found:?}");
            assert!(put_over(&device).unwrap().is_some());
        }
    }

    #[test]
    fn what_is_not_known_is_not_blank() {
        assert_eq!(signature(&MemoryDevice::new("device", CAPACITY)).unwrap(), Contents::Blank);
        assert_eq!(signature(&MemoryDevice::new("device", 4096)).unwrap(), Contents::Blank);
        assert_eq!(holding(700_001, &[1]), Contents::Unknown { offset: 700_001 });
        assert_eq!(holding(CAPACITY - 3, &[7]), Contents::Unknown { offset: CAPACITY - 3 });
        assert_eq!(
            holding(2 << 20, &[1]),
            Contents::Blank,
            "in the middle, where a blank one is not looked at"
        );
    }
}
