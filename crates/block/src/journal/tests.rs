//! The journal against a list: random records, flushes and kills, with the last write torn anywhere.

use super::*;
use entresol_device::MemoryDevice;
use entresol_runtime::rng::Rng;

const RING: u64 = 64 << 10;
const BOOT: Uuid = Uuid([7; 16]);

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
        let mut expected: Vec<(Kind, u64, u64, Vec<u8>)> = Vec::new();
        let mut life = Journal::open(device.clone(), BOOT).unwrap().begin().unwrap();
        for _ in 0..30 {
            // The next program.
            let journal = Journal::open(device.clone(), BOOT).unwrap();
            match journal.left(life).unwrap() {
                Left::Nothing => assert!(expected.is_empty(), "seed {seed}"),
                Left::Records(records) => {
                    let found = data_of(&journal, &records);
                    let same = found.iter().zip(&expected).take_while(|(a, b)| a == b).count();
                    let told = format!("{} found, {} expected, {same} alike", found.len(), expected.len());
                    assert!(found == expected, "seed {seed}: {told}");
                }
                other => panic!("{other:?}, seed {seed}"),
            }
            life = journal.begin().unwrap();
            expected.clear();
            for step in 0..rng.below(80) {
                let length = (1 + rng.below(20)) * 512;
                let (kind, offset) =
                    (if rng.below(4) == 0 { Kind::Elsewhere } else { Kind::Data }, rng.below(1 << 30) * 512);
                let data = vec![step as u8; if kind == Kind::Data { length as usize } else { 0 }];
                if !journal.append(kind, offset, length, &data).unwrap() {
                    let mark = journal.mark();
                    journal.release(mark, None).unwrap();
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
                    journal.release(mark, None).unwrap();
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
                    0 => journal.put(at + HEAD_BYTES as u64, [&data, &[]]).unwrap(),
                    _ => journal.put(at, [&block, &[]]).unwrap(),
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
fn a_journal_that_the_label_does_not_name_is_not_carried_out() {
    let device = device();
    let life = Journal::open(device.clone(), BOOT).unwrap().begin().unwrap();
    let journal = Journal::open(device.clone(), BOOT).unwrap();
    assert!(journal.append(Kind::Elsewhere, 0, 512, &[]).unwrap());
    let journal = Journal::open(device.clone(), BOOT).unwrap();
    assert_eq!(journal.left(Uuid([8; 16])).unwrap(), Left::Missing(1));
    assert_eq!(journal.left(Uuid::NIL).unwrap(), Left::Stale(1));
    assert!(matches!(journal.left(life).unwrap(), Left::Records(records) if records.len() == 1));
    // The machine was started again: the file is older than its last state, or may be.
    let later = Journal::open(device.clone(), Uuid([9; 16])).unwrap();
    assert_eq!(later.left(life).unwrap(), Left::Missing(0));
    assert_eq!(later.left(Uuid::NIL).unwrap(), Left::Nothing);
    // Another volume's is refused, and stays; a label that names the life before misses nothing.
    let label = Identity([1, 2, 3, 4]);
    let parts = Parts { label, ..Parts::default() };
    let of = |parts| Journal::open(device.clone(), Origin { boot: BOOT, parts, names: None }).unwrap();
    let moved = NotOurs::Moved { writes: 1, parts: "label".to_owned() };
    assert!(matches!(of(parts).left(life), Err(LeftError::NotOurs(why)) if why == moved));
    let another = NotOurs::Another { writes: 1, parts: "label".to_owned() };
    assert!(matches!(of(parts).left(Uuid([8; 16])), Err(LeftError::NotOurs(why)) if why == another));
    of(Parts::default()).begin().unwrap();
    assert_eq!(of(Parts::default()).left(life).unwrap(), Left::Nothing);
}
