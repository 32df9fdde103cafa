//! Three device images as one byte string, without the zeros: the input of the targets that take whole
//! devices.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | choice: which policy, which mode, and whether checksums are put right (see [`Images::choice`]) |
//! | then, any number of times: 1 | device: 0 disk, 1 log, 2 flash (modulo 3) |
//! | 4 | offset in bytes, little-endian (modulo the device's size) |
//! | 2 | length, little-endian |
//! | length | bytes |
//!
//! Every byte string is a valid input. A truncated extent is shortened; an extent that does not fit is
//! ignored.

use crate::Media;

/// Runs of zeros shorter than this are kept.
const GAP: usize = 10;

/// Three encoded device images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// The choice byte.
    pub choice: u8,
    /// The extents: device, offset, bytes.
    pub extents: Vec<(usize, usize, Vec<u8>)>,
}

impl Images {
    /// Decodes an input.
    pub fn decode(input: &[u8]) -> Self {
        let Some((choice, mut rest)) = input.split_first() else { return Self::default() };
        let mut extents = Vec::new();
        while let Some((head, tail)) = rest.split_at_checked(7) {
            let offset = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let length = usize::from(u16::from_le_bytes([head[5], head[6]])).min(tail.len());
            let (bytes, after) = tail.split_at(length);
            extents.push((usize::from(head[0] % 3), offset, bytes.to_vec()));
            rest = after;
        }
        Self { choice: *choice, extents }
    }

    /// Encodes the input again.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.choice];
        for (device, offset, bytes) in &self.extents {
            for (at, part) in bytes.chunks(usize::from(u16::MAX)).enumerate() {
                out.push(*device as u8);
                out.extend_from_slice(&((offset + at * usize::from(u16::MAX)) as u32).to_le_bytes());
                out.extend_from_slice(&(part.len() as u16).to_le_bytes());
                out.extend_from_slice(part);
            }
        }
        out
    }

    /// The images of `media`.
    pub fn of(media: &Media, choice: u8) -> Self {
        let mut extents = Vec::new();
        for (device, bytes) in media.bytes().iter().enumerate() {
            let mut at = 0;
            while let Some(start) = bytes[at..].iter().position(|byte| *byte != 0).map(|skip| at + skip) {
                let mut end = start + 1;
                while let Some(next) = bytes[end..].iter().take(GAP).position(|byte| *byte != 0) {
                    end += next + 1;
                }
                extents.push((device, start, bytes[start..end].to_vec()));
                at = end;
            }
        }
        Self { choice, extents }
    }

    /// Builds images of these sizes in bytes: disk, log, flash.
    pub fn lay_out(&self, sizes: [usize; 3]) -> [Vec<u8>; 3] {
        let mut images = sizes.map(|size| vec![0; size]);
        for (device, offset, bytes) in &self.extents {
            let image = &mut images[*device];
            if image.is_empty() {
                continue;
            }
            let start = offset % image.len();
            let length = bytes.len().min(image.len() - start);
            image[start..start + length].copy_from_slice(&bytes[..length]);
        }
        images
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_device::Device;

    #[test]
    fn images_come_back_from_their_encoding() {
        let media = Media::blank(1 << 20, 1 << 16, 1 << 16);
        media.disk.write(512, &[7; 512]).unwrap();
        media.log.write(4096, &[[1; 256], [0; 256]].concat()).unwrap();
        let images = Images::of(&media, 5);
        let sizes = [1 << 20, 1 << 16, 1 << 16];
        assert_eq!(images.lay_out(sizes), media.bytes());
        let again = Images::decode(&images.encode());
        assert_eq!((again.choice, again.lay_out(sizes)), (5, media.bytes()));
        assert!(images.encode().len() < 1000, "zeros are left out");
        let cut = &images.encode()[..600];
        Images::decode(cut).lay_out(sizes);
    }
}
