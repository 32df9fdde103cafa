//! Reads of a device into one buffer, in parts from anywhere.

use crate::{Device, DeviceError, Io};
use arrayvec::ArrayVec;

/// A part of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPart {
    /// Where it is on the device, in bytes.
    pub offset: u64,
    /// Its length in bytes. It is read into the buffer after the earlier parts.
    pub length: usize,
}

impl ReadPart {
    /// Those for pieces of `length` bytes at these offsets, `N` of them at most: adjacent pieces are one
    /// part.
    pub fn of_pieces<const N: usize>(offsets: impl Iterator<Item = u64>, length: usize) -> ArrayVec<Self, N> {
        let mut parts: ArrayVec<Self, N> = ArrayVec::new();
        for offset in offsets {
            match parts.last_mut() {
                Some(last) if last.offset + last.length as u64 == offset => last.length += length,
                _ => parts.push(Self { offset, length }),
            }
        }
        parts
    }

    /// Reads the parts, `N` at most, in one batch.
    ///
    /// # Errors
    /// The device's.
    pub fn read<const N: usize>(
        parts: &ArrayVec<Self, N>,
        device: &dyn Device,
        buffer: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut ios: ArrayVec<Io<'_>, N> = ArrayVec::new();
        let mut rest = buffer;
        for Self { offset, length } in parts {
            let (buffer, later) = rest.split_at_mut(*length);
            ios.push(Io::Read { offset: *offset, buffer });
            rest = later;
        }
        device.run(&mut ios)
    }
}
