//! Flash SSDs: dies with one controller, programs and garbage collection that block reads, a queue limit.
//!
//! The model is this detailed because a drive's pure random and sequential rates do not predict its rates
//! under a mix of reads and writes (MISSION, "What FaCE's result stands on"). The parts of the model, and the
//! source of each figure of FaCE's table 1:
//!
//! * **Controller and bus**: one command takes `command_ns`, each 4 KiB `transfer_ns`. They bound random
//!   reads and sequential reads.
//! * **Dies**: logical page `l` is on die `l mod dies`. A read occupies its die for `read_ns`; a program of
//!   `program_pages` pages for `program_ns`. Both are served in order of arrival, so a read waits for
//!   programs and garbage collection that are ahead of it. The time of programs on all dies bounds sequential
//!   writes.
//! * **Write buffer** of `buffer_pages`: a write is acknowledged when it is in the buffer, and stays in it
//!   until its program ends. Pages are gathered for each die until a multi-plane program is full.
//! * **Garbage collection** (`entresol_ftl::PageMap`): greedy, per die. The spare share sets the write
//!   amplification of pure random writes over the whole device, and thereby their rate. Copies are not done
//!   page by page between other work: they are a debt of the die, which it works off in *episodes* of at
//!   least `gc_episode_ns` without interruption.
//! * **Queue**: while a few dies are in such an episode, the reads that wait for them fill the 32 places of
//!   the command queue and block requests for idle dies. Neither pure reads nor pure writes show this convoy.
//!   The episode's length sets its strength; it is the parameter to calibrate.
//! * **Mapping cache** (see `mapcache`): accesses spread over a region larger than `map_cache_bytes` pay
//!   extra reads, and a read that waits for two dies meets an episode twice as often.
//!
//! **Scaled down.** A region of tens of megabytes stands for gigabytes ([`crate::Scale`]). Blocks shrink
//! until a die has at least 32 (64 where possible), erase time shrinks with them, and the mapping cache's
//! reach with the scale. Small blocks and few of them amplify writes a little differently. So copying time is
//! corrected by the ratio of the nominal amplification to the one measured while the device is
//! preconditioned.
//!
//! **State at the start**: full, written in random order and overwritten at random five times (steady state).
//!
//! Invariant: every programmed page (of the host, of copying, of the map) is charged to die time exactly
//! once.

use super::Timing;
use super::mapcache::{Lookup, MapCache};
use entresol_ftl::{Collected, FreeOrder, Ftl, Lpn, PageMap};
use entresol_runtime::rng::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Mapping unit, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Entries of a translation page at full scale: 4 bytes each.
const MAP_ENTRIES: u64 = 1024;

/// Random overwrites of the whole device before its use: greedy collection with little spare space reaches
/// its steady state slowly.
const PRECONDITION_PASSES: u32 = 5;

/// Parameters of an SSD. Times in nanoseconds; pages are 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdParameters {
    /// Commands that the drive accepts at once (NCQ: 32).
    pub queue_depth: usize,
    /// Units that work independently.
    pub dies: u32,
    /// Pages of one multi-plane program.
    pub program_pages: u32,
    /// Controller time of a command.
    pub command_ns: u64,
    /// Bus time of a page.
    pub transfer_ns: u64,
    /// Die time of a read, of one page or of the pages of one program.
    pub read_ns: u64,
    /// Die time of a program of `program_pages`.
    pub program_ns: u64,
    /// Die time of an erase.
    pub erase_ns: u64,
    /// Pages of an erase block (all planes).
    pub block_pages: u32,
    /// Physical space on top of the logical, as a share of the logical.
    pub spare_share: f64,
    /// The write amplification that `spare_share` gives for random writes over the whole device with large
    /// blocks: `a / (a + W(-a e^-a))` for `a = 1 + spare_share`, W the Lambert function (Desnoyers, SYSTOR
    /// 2012).
    pub write_amplification: f64,
    /// Least duration of garbage collection of a die without interruption, while its debt is that long.
    pub gc_episode_ns: u64,
    /// Longest time that a read waits for a program or garbage collection in progress, in drives that can
    /// suspend these. `u64::MAX`: no suspension.
    pub suspend_ns: u64,
    /// Write buffer in pages.
    pub buffer_pages: u32,
    /// Logical space that the cached part of the mapping table covers, in bytes at full scale.
    pub map_cache_bytes: u64,
    /// The buffer survives a power failure, so a sync does not wait.
    pub power_loss_protected: bool,
    /// Fixed part of a sync.
    pub sync_ns: u64,
}

/// The kind of look-up of a page of a request in the map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MapAccess {
    /// Of a translation page that the request has not used yet.
    Charged,
    /// Of a translation page that exists only because of the scale.
    Free,
    /// Of the translation page of the page before.
    Same,
}

#[derive(Default)]
struct DieTime {
    /// End of the work that has reached the die.
    free_at: u64,
    /// Programs whose pages enter the buffer later than now, because it is full: (start, duration). Reads may
    /// still be served before them.
    ahead: VecDeque<(u64, u64)>,
    /// End of the work, including `ahead`.
    booked_until: u64,
    /// Time of copies that are recorded and not yet worked off.
    gc_owed_ns: u64,
    /// Time of erases of blocks without pages to copy, not yet worked off.
    erase_owed_ns: u64,
    /// Pages gathered for the next program.
    gathered: u32,
}

pub(crate) struct Ssd {
    parameters: SsdParameters,
    program_pages: u32,
    program_ns: u64,
    erase_ns: u64,
    copy_ns: f64,
    times: Vec<DieTime>,
    /// Logical page `l` is page `l / dies` of die `l mod dies`.
    dies: Vec<PageMap>,
    bus_free: u64,
    /// Programs under way: (end, pages).
    programs: BinaryHeap<Reverse<(u64, u32)>>,
    buffered: u32,
    map: MapCache,
    map_entries: u64,
    /// End of the last read and of the last write.
    read_end: u64,
    write_end: u64,
    programmed_pages: u64,
    erases: u64,
}

impl DieTime {
    /// Moves the booked programs that have reached the die by `now` to its work.
    fn advance(&mut self, now: u64) {
        while let Some(&(from, duration)) = self.ahead.front()
            && from <= now
        {
            self.free_at = self.free_at.max(from) + duration;
            self.ahead.pop_front();
        }
    }

    /// Adds work that reaches the die now. Returns its end.
    fn work(&mut self, now: u64, duration: u64) -> u64 {
        self.advance(now);
        self.free_at = self.free_at.max(now) + duration;
        self.booked_until = self.booked_until.max(self.free_at);
        self.free_at
    }

    /// Books a program that reaches the die at `from`, not before now. Returns its end as expected now.
    fn book(&mut self, from: u64, duration: u64) -> u64 {
        self.booked_until = self.booked_until.max(from) + duration;
        self.ahead.push_back((from, duration));
        self.booked_until
    }
}

impl Ssd {
    /// A drive of `capacity_bytes` in steady state. Each byte stands for `scale` bytes of the real one.
    pub fn new(parameters: SsdParameters, capacity_bytes: u64, scale: f64) -> Self {
        let SsdParameters { dies, block_pages: block_pages_real, program_pages, .. } = parameters;
        let pages = capacity_bytes.div_ceil(PAGE_BYTES).max(1);
        let die_pages =
            u32::try_from(pages.div_ceil(u64::from(dies))).expect("a die has fewer than 2^32 pages");
        let block_pages = prev_power_of_two(die_pages / 64).clamp(4, block_pages_real);
        let unit = program_pages.min(block_pages);
        let program_ns = parameters.program_ns * u64::from(unit) / u64::from(program_pages);
        let erase_ns = parameters.erase_ns * u64::from(block_pages) / u64::from(block_pages_real);
        let map_entries = ((MAP_ENTRIES as f64 / scale) as u64).max(1);
        let map_pages = pages.div_ceil(map_entries) as usize;
        let map_cached = (parameters.map_cache_bytes as f64 / scale) as u64 / (PAGE_BYTES * map_entries);
        let mut ssd = Self {
            parameters: SsdParameters {
                // Large enough that pages waiting for a full program cannot fill it.
                buffer_pages: parameters.buffer_pages.max(2 * dies * unit),
                ..parameters
            },
            program_pages: unit,
            program_ns,
            erase_ns,
            copy_ns: 0.0,
            times: (0..dies).map(|_| DieTime::default()).collect(),
            dies: (0..dies)
                .map(|_| PageMap::new(die_pages, block_pages, parameters.spare_share, FreeOrder::LastFreed))
                .collect(),
            bus_free: 0,
            programs: BinaryHeap::with_capacity(1024),
            buffered: 0,
            map: MapCache::new(map_pages, map_cached as usize),
            map_entries,
            read_end: u64::MAX,
            write_end: u64::MAX,
            programmed_pages: 0,
            erases: 0,
        };
        let correction = ssd.precondition(die_pages);
        ssd.copy_ns = (program_ns + parameters.read_ns) as f64 / f64::from(unit) * correction;
        ssd
    }

    /// Brings all dies into the steady state of random writes. Returns the ratio of nominal to measured
    /// copies per write.
    fn precondition(&mut self, die_pages: u32) -> f64 {
        let mut rng = Rng::new(0x0055_D0FF);
        let mut copied = 0u64;
        for die in &mut self.dies {
            let mut order: Vec<u32> = (0..die_pages).collect();
            for index in (1..order.len()).rev() {
                order.swap(index, rng.below(index as u64 + 1) as usize);
            }
            order.iter().for_each(|&page| {
                die.write(Lpn(page));
            });
            for pass in 0..PRECONDITION_PASSES {
                for _ in 0..die_pages {
                    let collected = die.write(Lpn(rng.below(u64::from(die_pages)) as u32));
                    copied += if pass == PRECONDITION_PASSES - 1 { u64::from(collected.copied) } else { 0 };
                }
            }
        }
        let measured = copied as f64 / (f64::from(die_pages) * self.dies.len() as f64);
        if measured > 0.1 { (self.parameters.write_amplification - 1.0) / measured } else { 1.0 }
    }

    /// Occupies the controller and the bus for a command of `pages`.
    fn transfer(&mut self, start: u64, pages: u64) -> u64 {
        self.bus_free =
            self.bus_free.max(start) + self.parameters.command_ns + pages * self.parameters.transfer_ns;
        self.bus_free
    }

    /// Reads a page of a die for a command issued at `issued`; the read itself cannot begin before `ready`.
    fn read_die(&mut self, die: usize, issued: u64, ready: u64) -> u64 {
        let SsdParameters { read_ns, suspend_ns, .. } = self.parameters;
        let time = &mut self.times[die];
        let wait_max = issued.saturating_add(suspend_ns).saturating_add(read_ns);
        time.work(issued, read_ns).min(wait_max).max(ready + read_ns)
    }

    /// Looks the page up in the mapping table. Returns the time of the answer.
    fn look_up(&mut self, page: u64, issued: u64, access: MapAccess, is_write: bool) -> u64 {
        let translation = (page / self.map_entries) as u32;
        match access {
            MapAccess::Same => return issued,
            MapAccess::Free => {
                self.map.access(translation, false);
                return issued;
            }
            MapAccess::Charged => {}
        }
        match self.map.access(translation, is_write) {
            Lookup::Hit => issued,
            Lookup::Miss { evicted } => {
                let dies = self.times.len();
                if let Some(evicted) = evicted {
                    // Written back together with others: its share of a program.
                    let share = self.program_ns / u64::from(self.program_pages);
                    self.times[evicted as usize % dies].work(issued, share);
                    self.programmed_pages += 1;
                }
                self.read_die(translation as usize % dies, issued, issued)
            }
        }
    }

    /// The pages of a range, each with its kind of look-up. Scaled down, a translation page has fewer
    /// entries, so that random accesses miss as often as on the real region. Sequential accesses then use
    /// more translation pages than on the real region, and only every real one is charged.
    fn pages(
        &self,
        offset: u64,
        length: u64,
        follows: bool,
    ) -> impl Iterator<Item = (u64, MapAccess)> + use<> {
        let first = offset / PAGE_BYTES;
        let end = (offset + length).div_ceil(PAGE_BYTES);
        let entries = self.map_entries;
        (first..end).map(move |page| {
            let access = if page % MAP_ENTRIES == 0 || (page == first && !follows) {
                MapAccess::Charged
            } else if page % entries == 0 {
                MapAccess::Free
            } else {
                MapAccess::Same
            };
            (page, access)
        })
    }

    /// Frees a place in the write buffer. Returns the time at which the page can enter.
    fn make_room(&mut self, mut at: u64) -> u64 {
        while let Some(&Reverse((end, pages))) = self.programs.peek()
            && (end <= at || self.buffered >= self.parameters.buffer_pages)
        {
            at = at.max(end);
            self.buffered -= pages;
            self.programs.pop();
        }
        at
    }

    fn write_page(&mut self, page: u64, at: u64) {
        let die = page as usize % self.dies.len();
        let local = (page / self.dies.len() as u64) as u32;
        let Collected { copied, erased_after_copy, erased_empty } = self.dies[die].write(Lpn(local));
        self.programmed_pages += 1 + u64::from(copied);
        self.erases += u64::from(erased_after_copy + erased_empty);
        let time = &mut self.times[die];
        time.gc_owed_ns +=
            (f64::from(copied) * self.copy_ns) as u64 + u64::from(erased_after_copy) * self.erase_ns;
        time.erase_owed_ns += u64::from(erased_empty) * self.erase_ns;
        time.gathered += 1;
        self.buffered += 1;
        if time.gathered == self.program_pages {
            self.program(die, at);
        }
    }

    /// Starts the program of the pages gathered for a die, after the garbage collection that is due.
    fn program(&mut self, die: usize, at: u64) {
        let episode = self.parameters.gc_episode_ns;
        let time = &mut self.times[die];
        let mut duration = self.program_ns + std::mem::take(&mut time.erase_owed_ns);
        if time.gc_owed_ns >= episode {
            // Never much less than the new debt, so that the debt stays bounded however short the episode is.
            let worked_off = episode.max(time.gc_owed_ns / 4);
            time.gc_owed_ns -= worked_off;
            duration += worked_off;
        }
        let end = time.book(at, duration);
        self.programs.push(Reverse((end, time.gathered)));
        time.gathered = 0;
    }
}

impl Timing for Ssd {
    fn read(&mut self, start: u64, offset: u64, length: u64) -> u64 {
        let dies = self.dies.len() as u64;
        let mut completion = self.transfer(start, length.div_ceil(PAGE_BYTES));
        let issued = completion;
        let mut looked_up = issued;
        let follows = std::mem::replace(&mut self.read_end, offset + length) == offset;
        for (page, access) in self.pages(offset, length, follows) {
            looked_up = looked_up.max(self.look_up(page, issued, access, false));
            completion = completion.max(looked_up);
            let die = (page % dies) as usize;
            if self.dies[die].is_mapped(Lpn((page / dies) as u32)) {
                completion = completion.max(self.read_die(die, issued, looked_up));
            }
        }
        completion
    }

    fn write(&mut self, start: u64, offset: u64, length: u64) -> u64 {
        let issued = self.transfer(start, length.div_ceil(PAGE_BYTES));
        let mut at = issued;
        let follows = std::mem::replace(&mut self.write_end, offset + length) == offset;
        for (page, access) in self.pages(offset, length, follows) {
            at = self.make_room(at);
            // The buffer accepts the page meanwhile: the look-up takes die time, but no time of the host.
            self.look_up(page, issued, access, true);
            self.write_page(page, at);
        }
        at
    }

    fn sync(&mut self, start: u64) -> u64 {
        let mut completion = start;
        if !self.parameters.power_loss_protected {
            for die in 0..self.times.len() {
                let gathered = self.times[die].gathered;
                if gathered > 0 {
                    self.dies[die].pad(self.program_pages - gathered);
                    self.programmed_pages += u64::from(self.program_pages - gathered);
                    self.program(die, start);
                }
            }
            completion = self.programs.iter().map(|Reverse((end, _))| *end).max().unwrap_or(start).max(start);
        }
        completion + self.parameters.sync_ns
    }

    fn discard(&mut self, offset: u64, length: u64) {
        let dies = self.dies.len() as u64;
        for page in offset.div_ceil(PAGE_BYTES)..(offset + length) / PAGE_BYTES {
            self.dies[(page % dies) as usize].discard(Lpn((page / dies) as u32));
        }
    }

    fn wear(&self) -> (u64, u64) {
        (self.programmed_pages * PAGE_BYTES, self.erases)
    }
}

fn prev_power_of_two(n: u32) -> u32 {
    if n == 0 { 1 } else { 1 << n.ilog2() }
}
