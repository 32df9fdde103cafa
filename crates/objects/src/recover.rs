//! Recovery: a table from the blocks on flash.
//!
//! 1. The newest whole snapshot is the base, in whichever copy. A torn one is as if never written.
//! 2. The log is read from the snapshot's first block on, each block from a copy that has it. It ends at the
//!    first place without the whole next block in either copy.
//! 3. A block anywhere in the log areas may claim that later changes were durable, or that there was a newer
//!    snapshot. Then both copies of something are lost, and the table is refused.
//!
//! The table then counts as never recorded: a snapshot is pending (invariant 7 of the crate). It is written
//! to the area of the older one. So the caller first makes both copies of the newer one whole
//! ([`Recovered::repair`]).

use crate::blocks::{
    Block, LOG_MAGIC, OBJECTS_IN_BLOCK, RECORDS_IN_BLOCK, RawLog, RawObject, RawRecord, RawSnapshot,
    SNAPSHOT_MAGIC,
};
use crate::config::{COPIES, ObjectsConfig};
use crate::copies::{Damaged, Part, SnapshotRepair, TableCopy};
use crate::entry::{Cut, Cuts, Entry, Merged, State, merge};
use crate::fault::{RecordFault, RecoverError, SnapshotFault};
use crate::log::{Record, Sequence};
use crate::snapshot::SnapshotArea;
use crate::table::{ObjectId, Objects};
use entresol_core::{PageId, Position};
use entresol_format::block::{self, BLOCK_BYTES, BlockFault, Uuid};
use entresol_format::checksum;
use zerocopy::FromBytes;

/// No counter on flash is larger. A program that makes a million changes a second reaches it after 146,000
/// years.
const COUNT_MAX: u64 = 1 << 62;

/// A whole snapshot.
#[derive(Clone, Copy)]
struct Snapshot<'a> {
    number: u64,
    head: &'a RawSnapshot,
    body: &'a [u8],
}

impl<'a> Snapshot<'a> {
    /// Proves that `area` holds a whole snapshot of `cache`.
    fn open(area: SnapshotArea, bytes: &'a [u8], cache: Uuid) -> Result<Self, SnapshotFault> {
        let Some((head, rest)) = bytes.split_at_checked(BLOCK_BYTES) else {
            return Err(short(bytes.len(), BLOCK_BYTES).into());
        };
        let number = block::open(head, SNAPSHOT_MAGIC)?.sequence.get();
        let head = RawSnapshot::ref_from_bytes(head).expect("a header is a block");
        if head.cache != cache {
            return Err(SnapshotFault::Cache { expected: cache, found: head.cache });
        }
        if SnapshotArea::of(number) != area || number == 0 || number > COUNT_MAX {
            return Err(BlockFault::Field { field: "sequence", found: number }.into());
        }
        let bytes = (head.objects.get() as usize).div_ceil(OBJECTS_IN_BLOCK) * BLOCK_BYTES;
        let body = rest.get(..bytes).ok_or(short(rest.len(), bytes))?;
        let (expected, found) = (head.checksum.get(), checksum::of(body));
        if expected != found {
            return Err(BlockFault::Checksum { expected, found }.into());
        }
        Ok(Self { number, head, body })
    }
}

fn short(found: usize, expected: usize) -> BlockFault {
    let length = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
    BlockFault::Length { expected: length(expected), found: length(found) }
}

/// The log areas, by copy.
type Logs<'a> = [&'a [Block]; COPIES];

/// The block at `place` of a copy of the log, which says nothing impossible. `None`: there is no whole block
/// of this cache.
fn open_log<'a>(
    logs: &Logs<'a>,
    copy: usize,
    place: u32,
    config: &ObjectsConfig,
) -> Result<Option<&'a RawLog>, RecoverError> {
    let block = &logs[copy][place as usize];
    if block::open(block, LOG_MAGIC).is_err() {
        return Ok(None);
    }
    let raw: &RawLog = zerocopy::transmute_ref!(block);
    if raw.cache != config.cache {
        return Ok(None);
    }
    let number = raw.header.sequence.get();
    let fields = [
        (
            "sequence",
            number,
            number <= COUNT_MAX && number % u64::from(config.log_blocks) == u64::from(place),
        ),
        ("first", raw.first.get(), (1..=COUNT_MAX).contains(&raw.first.get())),
        ("front", raw.front.get(), raw.front.get() <= Position::MAX.0),
        ("count", raw.count.get().into(), (1..=RECORDS_IN_BLOCK).contains(&(raw.count.get() as usize))),
    ];
    match fields.into_iter().find(|(_, _, possible)| !possible) {
        Some((field, found, _)) => {
            Err(RecoverError::Log { place, copy, fault: BlockFault::Field { field, found } })
        }
        None => Ok(Some(raw)),
    }
}

/// A table as it was on flash, before the caller has said where the ring begins and ends.
pub struct Recovered<'r> {
    objects: Objects<'r>,
    repair: Option<SnapshotRepair>,
    damaged: Vec<Damaged>,
}

/// Blocks of the log that one copy lacks: the copy, the place, and the last change that is recorded there.
type Lacking = Vec<(usize, u32, u64)>;

/// What blocks of the log say of others.
#[derive(Clone, Copy, Default)]
struct Claimed {
    /// This snapshot was durable, and the changes up to this one.
    snapshot: u64,
    durable: u64,
}

impl<'r> Recovered<'r> {
    /// As [`Objects::is_dead`].
    pub fn is_dead(&self, page: PageId, position: Position) -> bool {
        self.objects.is_dead(page, position)
    }

    /// As [`Objects::locator`].
    pub fn locator(&self, object: ObjectId) -> Option<&crate::Locator> {
        self.objects.locator(object)
    }

    /// As [`Objects::lookup`].
    pub fn lookup(&self, locator: &crate::Locator) -> Option<ObjectId> {
        self.objects.lookup(locator)
    }

    /// The blocks that the caller copies, and syncs, before it writes a snapshot. `None`: nothing.
    pub fn repair(&self) -> Option<SnapshotRepair> {
        self.repair
    }

    /// What only one copy has of all that was needed.
    pub fn damaged(&self) -> &[Damaged] {
        &self.damaged
    }

    /// The newest change that was found.
    pub fn last(&self) -> Sequence {
        self.objects.last()
    }

    /// The durable front when the newest block that was found was written.
    pub fn front(&self) -> Position {
        self.objects.front()
    }

    /// The table, in a ring whose durable front is `front` and whose next position is `rear`. A snapshot is
    /// pending; it must be durable before a page gets a position.
    ///
    /// A ring may lose its newest positions in a crash and give them to other pages:
    ///
    /// 1. An object is cut at rear 1000. The cut is durable.
    /// 2. Power fails. The ring finds its pages up to position 899 only.
    /// 3. The object is extended again. A page beyond the cut enters at position 950, below the cut's rear.
    ///
    /// So a cut beyond `rear` is lowered to it: no page below the cut's old rear, and not below `rear`,
    /// exists.
    ///
    /// # Panics
    /// If `front` is beyond `rear`, or `rear` is no possible position.
    pub fn resume(self, front: Position, rear: Position) -> Objects<'r> {
        assert!(front <= rear && rear <= Position::MAX, "a ring from {front:?} to {rear:?}");
        let mut objects = self.objects;
        objects.front_passed(front);
        for number in 0..objects.table.defined {
            let entry = objects.entry_mut(number);
            let State::Live(count) = entry.state() else { continue };
            let lowered = entry.cuts(count).iter().fold(Cuts::new(), |cuts, cut| {
                let cut = Cut { rear: cut.rear.min(rear), ..*cut };
                match merge(&cuts, cut, Position(0)) {
                    Merged::Cuts(cuts) => cuts,
                    Merged::Implied => cuts,
                    Merged::TooMany => unreachable!("lower rears are not farther apart"),
                }
            });
            entry.set_cuts(&lowered);
        }
        objects
    }
}

impl<'r> Objects<'r> {
    /// Makes the table in `region` that the two copies of its areas on flash say together.
    ///
    /// # Errors
    /// [`RecoverError`]: they hold none, or durable changes are lost.
    pub fn recover(
        region: &'r mut [u8],
        config: &ObjectsConfig,
        copies: &[TableCopy<'_>; COPIES],
    ) -> Result<Recovered<'r>, RecoverError> {
        let mut objects = Self::format(region, config)?;
        let logs = copies.map(|copy| copy.log.as_chunks::<BLOCK_BYTES>().0);
        let expected = u64::from(config.log_blocks) * BLOCK_BYTES as u64;
        if let Some(copy) = copies.iter().find(|copy| copy.log.len() as u64 != expected) {
            return Err(RecoverError::LogBytes { expected, found: copy.log.len() as u64 });
        }
        let (base, repair) = newest(copies, config.cache)?;
        objects.load(&base)?;
        let lacking = objects.replay(&logs, base.head.log_from.get())?;
        let claimed = objects.check_claims(&logs, base.number)?;
        objects.rebuild()?;
        let blocks = lacking.into_iter().map(|(copy, place, last)| Damaged {
            copy,
            part: Part::LogBlock(place),
            was_durable: last <= claimed.durable,
        });
        let snapshot = repair.map(|SnapshotRepair { area, to, .. }| Damaged {
            copy: to,
            part: Part::Snapshot(area),
            was_durable: base.number <= claimed.snapshot,
        });
        let damaged = snapshot.into_iter().chain(blocks).collect();
        // The area of the next snapshot may have a newer one whose write was lost in part, and which could
        // not be read now. The next one has a higher number than that.
        objects.log.snapshot = base.number + 2;
        // Content of one copy only may be lost before the next open.
        objects.log.durable = if repair.is_none() { base.head.last.get() } else { 0 };
        Ok(Recovered { objects, repair, damaged })
    }

    /// Loads the objects of a snapshot, without lists.
    fn load(&mut self, base: &Snapshot<'_>) -> Result<(), RecoverError> {
        let area = SnapshotArea::of(base.number);
        let impossible =
            |field, found| RecoverError::Snapshot { area, fault: BlockFault::Field { field, found } };
        let (expected, found) = (self.config.log_blocks, base.head.log_blocks.get());
        if expected != found {
            return Err(RecoverError::LogBlocks { area, expected, found });
        }
        let (expected, found) = (self.config.objects_max, base.head.objects.get());
        if found > expected {
            return Err(RecoverError::TooManyObjects { area, expected, found });
        }
        let head = base.head;
        let counters = [
            ("last", head.last.get(), COUNT_MAX),
            ("log_from", head.log_from.get(), COUNT_MAX),
            ("front", head.front.get(), Position::MAX.0),
        ];
        if let Some((field, found, _)) = counters.into_iter().find(|(_, found, most)| found > most) {
            return Err(impossible(field, found));
        }
        let (stored, _) = <[RawObject]>::ref_from_prefix_with_elems(base.body, found as usize)
            .expect("the body has room for the objects");
        for (entry, raw) in self.entries.iter_mut().zip(stored) {
            *entry = Entry::restore(raw).ok_or(impossible("state", raw.state.get().into()))?;
        }
        self.table.defined = found;
        self.table.front = head.front.get();
        self.log.next = head.last.get() + 1;
        self.log.log_from = head.log_from.get();
        Ok(())
    }

    /// Repeats the changes of the log from block `from` on. Returns the blocks that one copy lacks.
    fn replay(&mut self, logs: &Logs<'_>, from: u64) -> Result<Lacking, RecoverError> {
        let places = u64::from(self.config.log_blocks);
        let mut lacking = Lacking::new();
        for number in from..from + places {
            let place = (number % places) as u32;
            let copies = self.log_block(logs, number, place)?;
            let Some(raw) = copies.iter().flatten().next() else { break };
            self.table.front = self.table.front.max(raw.front.get());
            for raw in &raw.records[..raw.count.get() as usize] {
                let sequence = self.log.next;
                self.repeat(raw).map_err(|fault| RecoverError::Record { place, sequence, fault })?;
                self.log.next += 1;
            }
            let copy = copies.iter().position(Option::is_none);
            lacking.extend(copy.map(|copy| (copy, place, self.log.next - 1)));
        }
        Ok(lacking)
    }

    /// Block `number` of the log, from the copies that have it.
    fn log_block<'a>(
        &self,
        logs: &Logs<'a>,
        number: u64,
        place: u32,
    ) -> Result<[Option<&'a RawLog>; COPIES], RecoverError> {
        let is_it = |raw: &&RawLog| raw.header.sequence.get() == number && raw.first.get() == self.log.next;
        let mut copies = [None; COPIES];
        for (copy, found) in copies.iter_mut().enumerate() {
            *found = open_log(logs, copy, place, &self.config)?.filter(is_it);
        }
        Ok(copies)
    }

    /// Repeats a change, without lists.
    fn repeat(&mut self, raw: &RawRecord) -> Result<(), RecordFault> {
        let record = Record::decode(raw).ok_or(RecordFault::Kind { found: raw.kind.get() })?;
        match record {
            Record::Define { object, locator } => {
                let front = self.front();
                let is_next = object == self.table.defined && object < self.config.objects_max;
                self.table.defined += u32::from(is_next);
                let entry = self.known(object).ok_or(RecordFault::NotFree { object })?;
                let is_free = match entry.state() {
                    State::Free => true,
                    State::Retired => entry.retired_rear() <= front,
                    State::Live(_) => false,
                };
                if !is_free {
                    return Err(RecordFault::NotFree { object });
                }
                entry.define(&locator);
            }
            Record::Retire { object, rear } => {
                possible(rear)?;
                let (entry, _) = self.known_live(object)?;
                entry.retire(rear);
            }
            Record::Cut { object, number, rear } => {
                possible(rear)?;
                let front = self.front();
                let (entry, count) = self.known_live(object)?;
                match merge(&entry.cuts(count), Cut { number, rear }, front) {
                    Merged::Cuts(cuts) => entry.set_cuts(&cuts),
                    // The front has passed it since.
                    Merged::Implied => {}
                    Merged::TooMany => return Err(RecordFault::TooManyCuts { object }),
                }
            }
        }
        Ok(())
    }

    fn known(&mut self, object: u32) -> Option<&mut Entry> {
        (object < self.table.defined).then(|| self.entry_mut(object))
    }

    fn known_live(&mut self, object: u32) -> Result<(&mut Entry, usize), RecordFault> {
        let entry = self.known(object).ok_or(RecordFault::NotLive { object })?;
        match entry.state() {
            State::Live(count) => Ok((entry, count)),
            State::Free | State::Retired => Err(RecordFault::NotLive { object }),
        }
    }

    /// Refuses a log that knows of later durable changes. The next block gets a number above all that may be
    /// there, readable or not: each place was written at most once since the snapshot.
    fn check_claims(&mut self, logs: &Logs<'_>, base: u64) -> Result<Claimed, RecoverError> {
        let mut claimed = Claimed::default();
        let found = self.log.next - 1;
        let mut next = self.log.log_from + u64::from(self.config.log_blocks);
        let places = (0..logs.len()).flat_map(|copy| (0..self.config.log_blocks).map(move |at| (copy, at)));
        for (copy, place) in places {
            let Some(raw) = open_log(logs, copy, place, &self.config)? else { continue };
            next = next.max(raw.header.sequence.get() + 1);
            claimed.snapshot = claimed.snapshot.max(raw.snapshot.get());
            claimed.durable = claimed.durable.max(raw.durable.get());
            let expected = raw.snapshot.get();
            if expected > base {
                return Err(RecoverError::LostSnapshot { place, expected, found: base });
            }
            let expected = raw.durable.get();
            if expected > found {
                return Err(RecoverError::Lost { place, expected, found });
            }
        }
        (self.log.open, self.log.handed, self.log.acked) = (next, next, next);
        Ok(claimed)
    }

    /// Makes the lists. The first free numbers are the lowest ones.
    fn rebuild(&mut self) -> Result<(), RecoverError> {
        let mut retired = Vec::new();
        for number in (0..self.table.defined).rev() {
            match self.entry(number).state() {
                State::Free => self.link_free(number),
                State::Retired => retired.push((self.entry(number).retired_rear(), number)),
                State::Live(_) => {
                    let locator = self.entry(number).locator;
                    if let Some(ObjectId(first)) = self.lookup(&locator) {
                        return Err(RecoverError::SameLocator { first, second: number });
                    }
                    self.link_live(number);
                }
            }
        }
        retired.sort_unstable();
        for (_, number) in retired {
            self.link_retired(number);
        }
        Ok(())
    }
}

/// The newest whole snapshot, and what makes it whole in both copies.
fn newest<'a>(
    copies: &[TableCopy<'a>; COPIES],
    cache: Uuid,
) -> Result<(Snapshot<'a>, Option<SnapshotRepair>), RecoverError> {
    let areas = [SnapshotArea::Even, SnapshotArea::Odd];
    let found = areas.map(|area| copies.map(|copy| Snapshot::open(area, copy.areas[area as usize], cache)));
    let Some(newest) = found.iter().flatten().flatten().max_by_key(|snapshot| snapshot.number) else {
        let [even, odd] = found.map(|area| Box::new(area.map(|copy| copy.err().expect("none is whole"))));
        return Err(RecoverError::NoSnapshot { even, odd });
    };
    let area = SnapshotArea::of(newest.number);
    // Of two opens that were cut off, each may have written one of this number, to another copy.
    let is_it = found[area as usize]
        .map(|copy| copy.is_ok_and(|copy| copy.head.header.checksum == newest.head.header.checksum));
    let repair = match is_it {
        [true, false] => Some(SnapshotRepair { area, from: 0, to: 1 }),
        [false, true] => Some(SnapshotRepair { area, from: 1, to: 0 }),
        _ => None,
    };
    Ok((*newest, repair))
}

fn possible(rear: Position) -> Result<(), RecordFault> {
    if rear > Position::MAX { Err(RecordFault::Position { found: rear.0 }) } else { Ok(()) }
}
