//! Flash SSDs: dies behind one controller, programs and garbage collection that block reads, a queue limit.
//!
//! Why so much: a drive's pure random and sequential rates do not predict what it does under a mix of reads and writes
//! (MISSION, "What FaCE's result stands on"). What is modelled, and where each figure of FaCE's table 1 comes from:
//!
//! * **Controller and bus**: one command takes `command_ns`, each 4 KiB `transfer_ns`. They bound random reads and
//!   sequential reads.
//! * **Dies**: logical page `l` lies on die `l mod dies`. A read occupies its die for `read_ns`; a program of
//!   `program_pages` pages for `program_ns`; both first come, first served, so a read behind a program or behind garbage
//!   collection waits for it. All dies programming bound sequential writes.
//! * **Write buffer** of `buffer_pages`: a write is acknowledged when it is in the buffer; it leaves it when its program
//!   ends. Pages gather per die until a multi-plane program is full.
//! * **Garbage collection** (see `ftl`): greedy, per die, with a spare share that sets the write amplification of pure
//!   random writes over the whole device, and thereby their rate. Copying is not done page by page in between: a die
//!   owes it, and works it off in *episodes* of at least `gc_episode_ns` that nothing interrupts.
//! * **Queue**: while a few dies are in such an episode, the reads that wait for them fill the 32 places of the command
//!   queue and keep requests for idle dies out: the convoy that neither pure reads nor pure writes show. The episode's
//!   length sets its strength; it is the parameter to calibrate.
//! * **Mapping cache** (see `mapcache`): accesses spread over a region larger than `map_cache_bytes` pay extra reads, and
//!   a read that waits for two dies meets an episode twice as often.
//!
//! **Scaled down.** A region of tens of megabytes stands for gigabytes ([`crate::Scale`]): blocks shrink until a die has
//! at least 32 (64 where possible), erase time shrinks with them, and the mapping cache's reach with the scale. Small
//! blocks and few of them amplify writes a little differently; copying time is corrected by the ratio of the nominal
//! amplification to the one measured while the device is preconditioned.
//!
//! **State at the start**: full, written in random order and overwritten at random twice (steady state).
//!
//! Invariant: every page programmed (by the host, by copying, by the map) is paid for in die time exactly once.

use super::Timing;
use super::ftl::{Collected, Die};
use super::mapcache::{Lookup, MapCache};
use entresol_runtime::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Mapping unit, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Entries of a translation page at full scale: 4 bytes each.
const MAP_ENTRIES: f64 = 1024.0;

/// Parameters of an SSD. Times in nanoseconds; pages are 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SsdParameters {
    /// Commands the drive takes at once (NCQ: 32).
    pub queue_depth: usize,
    /// Units that work independently.
    pub dies: u32,
    /// Pages of one multi-plane program.
    pub program_pages: u32,
    /// Controller time of a command.
    pub command_ns: u64,
    /// Bus time of a page.
    pub transfer_ns: u64,
    /// Die time of reading a page.
    pub read_ns: u64,
    /// Die time of a program of `program_pages`.
    pub program_ns: u64,
    /// Die time of an erase.
    pub erase_ns: u64,
    /// Pages of an erase block (all planes).
    pub block_pages: u32,
    /// Physical space on top of the logical, as a share of the logical.
    pub spare_share: f64,
    /// What `spare_share` leads to for random writes over the whole device with large blocks: `a / (a + W(-a e^-a))`
    /// for `a = 1 + spare_share`, W the Lambert function (Desnoyers, SYSTOR 2012).
    pub write_amplification: f64,
    /// Garbage collection of a die runs at least this long at a stretch, while it owes that much.
    pub gc_episode_ns: u64,
    /// Longest time that a read waits for a program or garbage collection in progress: drives that can suspend them.
    /// `u64::MAX`: no suspension.
    pub suspend_ns: u64,
    /// Write buffer in pages.
    pub buffer_pages: u32,
    /// Logical space that the cached part of the mapping table covers, in bytes at full scale.
    pub map_cache_bytes: u64,
    /// The buffer survives a power failure: a sync waits for nothing.
    pub power_loss_protected: bool,
    /// Fixed part of a sync.
    pub sync_ns: u64,
}

#[derive(Default)]
struct DieTime {
    free_at: u64,
    /// Copying done in the books but not yet in time.
    gc_owed_ns: u64,
    /// Erases of blocks with nothing to copy, not yet in time.
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
    dies: Vec<Die>,
    bus_free: u64,
    /// Programs under way: (end, pages).
    programs: BinaryHeap<Reverse<(u64, u32)>>,
    buffered: u32,
    map: MapCache,
    map_entries: u64,
    programmed_pages: u64,
    erases: u64,
}

impl Ssd {
    /// A drive of `capacity_bytes` in steady state, of which each byte stands for `scale` bytes of the real one.
    pub fn new(parameters: SsdParameters, capacity_bytes: u64, scale: f64) -> Self {
        let SsdParameters { dies, block_pages: block_pages_real, program_pages, .. } = parameters;
        let pages = capacity_bytes.div_ceil(PAGE_BYTES).max(1);
        let die_pages =
            u32::try_from(pages.div_ceil(u64::from(dies))).expect("a die has fewer than 2^32 pages");
        let block_pages = prev_power_of_two(die_pages / 64).clamp(4, block_pages_real);
        let unit = program_pages.min(block_pages);
        let program_ns = parameters.program_ns * u64::from(unit) / u64::from(program_pages);
        let erase_ns = parameters.erase_ns * u64::from(block_pages) / u64::from(block_pages_real);
        let map_entries = ((MAP_ENTRIES / scale) as u64).max(1);
        let map_pages = pages.div_ceil(map_entries) as usize;
        let map_cached = (parameters.map_cache_bytes as f64 / scale) as u64 / (PAGE_BYTES * map_entries);
        let mut ssd = Self {
            parameters: SsdParameters {
                // Enough that pages waiting for a full program cannot fill it.
                buffer_pages: parameters.buffer_pages.max(2 * dies * unit),
                ..parameters
            },
            program_pages: unit,
            program_ns,
            erase_ns,
            copy_ns: 0.0,
            times: (0..dies).map(|_| DieTime::default()).collect(),
            dies: (0..dies).map(|_| Die::new(die_pages, block_pages, parameters.spare_share)).collect(),
            bus_free: 0,
            programs: BinaryHeap::with_capacity(1024),
            buffered: 0,
            map: MapCache::new(map_pages, map_cached as usize),
            map_entries,
            programmed_pages: 0,
            erases: 0,
        };
        let correction = ssd.precondition(die_pages);
        ssd.copy_ns = (program_ns as f64 / f64::from(unit) + parameters.read_ns as f64) * correction;
        ssd
    }

    /// Brings all dies into the steady state of random writes. Returns nominal over measured copies per write.
    fn precondition(&mut self, die_pages: u32) -> f64 {
        let mut rng = Rng::new(0x0055_D0FF);
        let mut copied = 0u64;
        for die in &mut self.dies {
            let mut order: Vec<u32> = (0..die_pages).collect();
            for index in (1..order.len()).rev() {
                order.swap(index, rng.below(index as u64 + 1) as usize);
            }
            order.iter().for_each(|&page| {
                die.write(page);
            });
            for pass in 0..2 {
                for _ in 0..die_pages {
                    let collected = die.write(rng.below(u64::from(die_pages)) as u32);
                    copied += if pass == 1 { u64::from(collected.copied) } else { 0 };
                }
            }
        }
        let measured = copied as f64 / (f64::from(die_pages) * self.dies.len() as f64);
        if measured > 0.1 { (self.parameters.write_amplification - 1.0) / measured } else { 1.0 }
    }

    /// Takes the controller and the bus for a command of `pages`.
    fn transfer(&mut self, start: u64, pages: u64) -> u64 {
        self.bus_free =
            self.bus_free.max(start) + self.parameters.command_ns + pages * self.parameters.transfer_ns;
        self.bus_free
    }

    fn read_die(&mut self, die: usize, start: u64) -> u64 {
        let read_ns = self.parameters.read_ns;
        let time = &mut self.times[die];
        let wait = time.free_at.saturating_sub(start);
        if wait > self.parameters.suspend_ns {
            time.free_at += read_ns;
            return start + self.parameters.suspend_ns + read_ns;
        }
        time.free_at = time.free_at.max(start) + read_ns;
        time.free_at
    }

    /// Looks the page up in the mapping table; returns when the answer is there.
    fn look_up(&mut self, page: u64, start: u64, is_write: bool) -> u64 {
        let translation = (page / self.map_entries) as u32;
        match self.map.access(translation, is_write) {
            Lookup::Hit => start,
            Lookup::Miss { evicted } => {
                let dies = self.times.len();
                if let Some(evicted) = evicted {
                    // Written back together with others: its share of a program.
                    let die = &mut self.times[evicted as usize % dies];
                    die.free_at = die.free_at.max(start) + self.program_ns / u64::from(self.program_pages);
                    self.programmed_pages += 1;
                }
                self.read_die(translation as usize % dies, start)
            }
        }
    }

    /// Calls `each` page of a range with whether its mapping entry must be looked up: once per translation page.
    fn pages(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, bool)> + use<> {
        let first = offset / PAGE_BYTES;
        let end = (offset + length).div_ceil(PAGE_BYTES);
        let entries = self.map_entries;
        (first..end).map(move |page| (page, page == first || page % entries == 0))
    }

    /// Frees a place in the write buffer; returns when the page can enter.
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
        let Collected { copied, erased_after_copy, erased_empty } = self.dies[die].write(local);
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
    fn program(&mut self, die: usize, at: u64) -> u64 {
        let episode = self.parameters.gc_episode_ns;
        let time = &mut self.times[die];
        let mut begin = time.free_at.max(at) + std::mem::take(&mut time.erase_owed_ns);
        if time.gc_owed_ns >= episode {
            // Never much less than what comes in, so that the debt stays bounded however short the episode.
            let worked_off = episode.max(time.gc_owed_ns / 4);
            time.gc_owed_ns -= worked_off;
            begin += worked_off;
        }
        time.free_at = begin + self.program_ns;
        self.programs.push(Reverse((time.free_at, time.gathered)));
        time.gathered = 0;
        time.free_at
    }
}

impl Timing for Ssd {
    fn read(&mut self, start: u64, offset: u64, length: u64) -> u64 {
        let dies = self.dies.len() as u64;
        let mut completion = self.transfer(start, length.div_ceil(PAGE_BYTES));
        let issued = completion;
        let mut looked_up = issued;
        for (page, is_lookup) in self.pages(offset, length) {
            if is_lookup {
                looked_up = self.look_up(page, issued, false);
                completion = completion.max(looked_up);
            }
            let die = (page % dies) as usize;
            if self.dies[die].is_mapped((page / dies) as u32) {
                completion = completion.max(self.read_die(die, looked_up));
            }
        }
        completion
    }

    fn write(&mut self, start: u64, offset: u64, length: u64) -> u64 {
        let mut at = self.transfer(start, length.div_ceil(PAGE_BYTES));
        for (page, is_lookup) in self.pages(offset, length) {
            at = self.make_room(at);
            if is_lookup {
                // The buffer takes the page meanwhile: the lookup takes die time, not the host's.
                self.look_up(page, at, true);
            }
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
            self.dies[(page % dies) as usize].discard((page / dies) as u32);
        }
    }

    fn wear(&self) -> (u64, u64) {
        (self.programmed_pages * PAGE_BYTES, self.erases)
    }
}

fn prev_power_of_two(n: u32) -> u32 {
    if n == 0 { 1 } else { 1 << n.ilog2() }
}
