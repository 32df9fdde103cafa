//! Recovery from arbitrary bytes: a table that keeps its invariants, or an error. Never a panic, and no more
//! memory than the configuration says.

use entresol_core::Position;
use entresol_format::Uuid;
use entresol_format::block::{self, BLOCK_BYTES};
use entresol_objects::{Objects, ObjectsConfig, Pending, RecoverError, Recovered, TableCopy, region_bytes};
use proptest::prelude::*;
use zerocopy::IntoBytes;

type Block = [u8; BLOCK_BYTES];

fn config() -> ObjectsConfig {
    ObjectsConfig { cache: Uuid::from_random(3, 4), objects_max: 100, log_blocks: 4 }
}

fn region() -> Vec<u64> {
    vec![0; region_bytes(&config()) / 8]
}

/// A copy of the areas of a table with objects in all states, and changes in the log.
#[derive(Clone)]
struct Image {
    areas: [Vec<u8>; 2],
    log: Vec<u8>,
}

impl Image {
    fn new() -> Self {
        let config = config();
        let mut region = region();
        let mut table = Objects::format(region.as_mut_bytes(), &config).unwrap();
        let area = vec![0; config.snapshot_blocks() as usize * BLOCK_BYTES];
        let mut image =
            Self { areas: [area.clone(), area], log: vec![0; config.log_blocks as usize * BLOCK_BYTES] };
        for round in 0..3_u8 {
            image.snapshot(&mut table);
            for change in 0..90_u8 {
                let object = table.define(&[change ^ round; 24]).unwrap();
                let rear = Position(1000 * u64::from(round) + u64::from(change));
                for cut in 0..u64::from(change % 5) {
                    let _ = table.cut(object, cut as u32 + 5, Position(rear.0 + 10 * cut));
                }
                if change % 3 == 0 {
                    table.retire(object, rear);
                }
                if change % 30 == 0 {
                    image.log(&mut table);
                }
            }
            image.log(&mut table);
            table.front_passed(Position(1000 * u64::from(round) + 100));
        }
        image
    }

    fn snapshot(&mut self, table: &mut Objects<'_>) {
        let area = &mut self.areas[0];
        let mut bytes = area.clone();
        let write = table.snapshot(&mut bytes).unwrap();
        write.seal(&mut bytes);
        self.areas[write.area as usize][..bytes.len()].copy_from_slice(&bytes);
        table.snapshot_written(write.token);
    }

    fn log(&mut self, table: &mut Objects<'_>) {
        let mut block = [0; BLOCK_BYTES];
        while let Some(write) = table.next_log_block(&mut block) {
            self.log[write.place as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
            table.log_written(write.token);
        }
    }

    fn as_copy(&self) -> TableCopy<'_> {
        let [even, odd] = &self.areas;
        TableCopy { areas: [even, odd], log: &self.log }
    }

    /// From this copy and `other`.
    fn recover<'r>(&self, other: &Self, region: &'r mut [u64]) -> Result<Recovered<'r>, RecoverError> {
        Objects::recover(region.as_mut_bytes(), &config(), &[self.as_copy(), other.as_copy()])
    }

    fn block(&mut self, number: usize) -> &mut Block {
        let all = self.areas.iter_mut().flat_map(|area| area.as_chunks_mut().0);
        let mut all: Vec<_> = all.chain(self.log.as_chunks_mut().0).collect();
        let number = number % all.len();
        all.swap_remove(number)
    }

    /// Makes the checksums right again.
    fn reseal(&mut self) {
        for area in &mut self.areas {
            let (head, body) = area.split_at_mut(BLOCK_BYTES);
            let objects = u32::from_le_bytes(head[76..80].try_into().unwrap()) as usize;
            if let Some(body) = body.get(..objects.div_ceil(64) * BLOCK_BYTES) {
                head[80..84].copy_from_slice(&entresol_format::checksum::of(body).to_le_bytes());
            }
            reseal(head);
        }
        self.log.as_chunks_mut::<BLOCK_BYTES>().0.iter_mut().for_each(|block| reseal(block));
    }
}

fn reseal(block: &mut [u8]) {
    let magic = block[..8].try_into().unwrap();
    let sequence = u64::from_le_bytes(block[16..24].try_into().unwrap());
    block::seal(block, magic, sequence);
}

/// Uses whatever was recovered from two copies.
fn exercise(image: &Image, other: &Image) -> bool {
    let mut region = region();
    let Ok(recovered) = image.recover(other, &mut region) else { return false };
    let front = recovered.front();
    let mut table = recovered.resume(front, Position((front.0 + 1500).min(Position::MAX.0)));
    table.check();
    assert_eq!(table.pending(), Pending::Snapshot);
    let mut bytes = vec![0; config().snapshot_blocks() as usize * BLOCK_BYTES];
    let write = table.snapshot(&mut bytes).unwrap();
    table.snapshot_written(write.token);
    for change in 0..200_u8 {
        let Ok(object) = table.define(&[change; 24]) else { continue };
        let _ = table.cut(object, change.into(), Position((front.0 + 7).min(Position::MAX.0)));
        table.retire(object, Position::MAX);
    }
    table.front_passed(Position::MAX);
    table.check();
    true
}

#[test]
fn the_image_is_whole() {
    let mut image = Image::new();
    assert!(exercise(&image, &image));
    image.reseal();
    assert!(exercise(&image, &image), "resealing changes nothing");
}

#[test]
fn each_damaged_block_is_made_good_and_in_both_copies_noticed_or_not_needed() {
    let whole = Image::new();
    let (mut region_of_whole, mut region) = (region(), region());
    let expected = whole.recover(&whole, &mut region_of_whole).unwrap();
    let blocks = (whole.areas[0].len() * 2 + whole.log.len()) / BLOCK_BYTES;
    let mut refused = 0;
    for number in 0..blocks {
        for byte in (0..BLOCK_BYTES).step_by(97) {
            let mut image = whole.clone();
            image.block(number)[byte] ^= 0x10;
            for [first, second] in [[&image, &whole], [&whole, &image]] {
                let found = first.recover(second, &mut region).unwrap();
                assert_eq!(found.last(), expected.last());
                let all = (0..=u8::MAX).map(|name| [name; 24]);
                all.for_each(|name| assert_eq!(found.lookup(&name), expected.lookup(&name)));
            }
            match image.recover(&image, &mut region) {
                Ok(recovered) => assert!(recovered.last() <= expected.last()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_are_refused(fill in prop::collection::vec(any::<u8>(), 1..600), cut in 0_usize..40_000) {
        let config = config();
        let bytes: Vec<u8> = fill.iter().copied().cycle().take(cut).collect();
        let mut region = region();
        let copy = TableCopy { areas: [&bytes, &bytes], log: &bytes };
        let found = Objects::recover(region.as_mut_bytes(), &config, &[copy, copy]);
        prop_assert!(found.is_err());
    }

    #[test]
    fn resealed_damage_never_panics(
        changes in prop::collection::vec((0_usize..11, 16_usize..400, any::<u8>(), any::<bool>()), 1..12),
        blanks in prop::collection::vec(0_usize..11, 0..3),
        is_in_both: bool,
    ) {
        let whole = Image::new();
        let mut image = whole.clone();
        for (number, byte, value, top) in changes {
            // Often a high byte of a field, or a small value.
            image.block(number)[byte] = if top { value } else { value & 7 };
        }
        image.reseal();
        for number in blanks {
            image.block(number).fill(0);
        }
        exercise(&image, if is_in_both { &image } else { &whole });
    }
}
