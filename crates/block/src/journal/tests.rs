//! The journal against a list: random records, flushes and kills, with the last write torn anywhere.

use super::*;
use entresol_device::MemoryDevice;
use entresol_runtime::rng::Rng;

const RING: u64 = 64 << 10;
const CACHE: Uuid = Uuid([7; 16]);

fn device() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new("journal", RING_AT + RING))
}

fn data_of(journal: &Journal, records: &[Record]) -> Vec<(Kind, u64, u64, Vec<u8>)> {
    let one = |record: &Record| {
        let mut data = vec![0; record.data_bytes() as usize];
        journal.data(record, &mut data).unwrap();
        (record.kind, record.offset, record.length, data)
    };
    records.iter().map(one).collect()
}

#[test]
fn what_was_acknowledged_and_not_released_is_found_in_order() {
    for seed in 0..60 {
        let (mut rng, device) = (Rng::new(seed), device());
        let mut epoch = 3;
        let mut expected: Vec<(Kind, u64, u64, Vec<u8>)> = Vec::new();
        Journal::open(device.clone()).unwrap().begin(CACHE, epoch).unwrap();
        for _ in 0..30 {
            // The next program. Some of its opens fail.
            let journal = Journal::open(device.clone()).unwrap();
            for _ in 0..=rng.below(3) {
                journal.open_begins().unwrap();
                epoch += rng.below(2);
            }
            epoch = epoch.max(journal.state.lock().head.epoch + 1);
            match journal.left(CACHE, epoch, None).unwrap() {
                Left::Nothing => assert!(expected.is_empty(), "seed {seed}"),
                Left::Records(records) => {
                    let found = data_of(&journal, &records);
                    let same = found.iter().zip(&expected).take_while(|(a, b)| a == b).count();
                    let told = format!("{} found, {} expected, {same} alike", found.len(), expected.len());
                    assert!(found == expected, "seed {seed}: {told}");
                }
                Left::Foreign(count) => panic!("{count} foreign ones, seed {seed}"),
            }
            journal.begin(CACHE, epoch).unwrap();
            expected.clear();
            for step in 0..rng.below(80) {
                let length = (1 + rng.below(20)) * 512;
                let (kind, offset) =
                    (if rng.below(4) == 0 { Kind::Elsewhere } else { Kind::Data }, rng.below(1 << 30) * 512);
                let data = vec![step as u8; if kind == Kind::Data { length as usize } else { 0 }];
                if !journal.append(kind, offset, length, &data).unwrap() {
                    let mark = journal.mark();
                    journal.release(mark).unwrap();
                    expected.clear();
                    assert!(journal.append(kind, offset, length, &data).unwrap());
                }
                expected.push((kind, offset, length, data));
                if rng.below(10) == 0 {
                    let mark = journal.mark();
                    let kept = rng.below(3) as usize;
                    let one = || journal.append(Kind::Elsewhere, 512, 512, &[]).unwrap();
                    let later =
                        (0..kept).take_while(|_| one()).map(|_| (Kind::Elsewhere, 512, 512, Vec::new()));
                    let later: Vec<_> = later.collect();
                    journal.release(mark).unwrap();
                    expected = later;
                }
            }
            // A record whose write was cut off: a part of it is there.
            if rng.below(2) == 0 {
                let Mark { number, at } = journal.mark();
                let record = Record { number, kind: Kind::Data, offset: 0, length: 2048, at };
                let (data, mut block) = (rng.next_u64().to_le_bytes().repeat(256), vec![0; HEAD_BYTES]);
                record.encode(&data, &mut block);
                match rng.below(2) {
                    0 => journal.put(at + HEAD_BYTES as u64, &data).unwrap(),
                    _ => journal.put(at, &block).unwrap(),
                }
                // Nothing that was acknowledged may be there.
                let over = at + HEAD_BYTES as u64 + 2048 - journal.state.lock().head.first.at;
                if over > RING {
                    expected.clear();
                    break;
                }
            }
        }
    }
}

#[test]
fn a_journal_of_another_epoch_or_cache_is_foreign() {
    let device = device();
    Journal::open(device.clone()).unwrap().begin(CACHE, 5).unwrap();
    let journal = Journal::open(device.clone()).unwrap();
    assert!(journal.append(Kind::Elsewhere, 0, 512, &[]).unwrap());
    let journal = Journal::open(device).unwrap();
    journal.open_begins().unwrap();
    assert_eq!(journal.left(Uuid([8; 16]), 6, None).unwrap(), Left::Foreign(1));
    assert_eq!(journal.left(CACHE, 5, None).unwrap(), Left::Foreign(1));
    assert_eq!(journal.left(CACHE, 7, None).unwrap(), Left::Foreign(1));
    assert!(matches!(journal.left(CACHE, 6, None).unwrap(), Left::Records(records) if records.len() == 1));
    journal.open_begins().unwrap();
    assert!(matches!(journal.left(CACHE, 7, None).unwrap(), Left::Records(_)));
    // The flash failed in the epoch of the journal, or in another one.
    assert_eq!(journal.left(CACHE, 8, Some(6)).unwrap(), Left::Foreign(1));
    assert!(matches!(journal.left(CACHE, 8, Some(5)).unwrap(), Left::Records(_)));
}
