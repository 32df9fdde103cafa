//! Power fails, and then sectors of one device become unreadable, or change silently. Redundant data is read
//! from its other copy. A damaged page on disk is rebuilt from its image in the log, or named. A log that is
//! damaged in its middle is refused. No data is ever lost silently, with these undetectable exceptions
//! (docs/TESTING.md): a damaged last flush of the log looks like a torn one, and a disk may keep an older
//! version of a page after it acknowledged a newer one.
//!
//! The start of the log's last flush is found by a separate reader in this module, so the judge shares no
//! code with the tested code.

use super::damaged::flip;
use crate::life::Life;
use crate::machine::{Devices, Machine, Media};
use crate::moments::{Left, Moments};
use crate::torture::cache::Cache;
use crate::torture::damage::make_unreadable;
use crate::torture::fault::FaultKind;
use crate::torture::judge::Opening;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_core::PageId;
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_engine::disk_offset;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Moments at which power fails.
const MOMENTS: u64 = 2;
/// One of this many operations is a moment.
const MOMENT_ONE_OF: u64 = 16;
/// Number of damages tried after each moment, one at a time.
const DAMAGES: usize = 8;
/// Offset of the log's first record.
const LOG_START: u64 = 8192;

/// Stores whose media fail while the machine is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SickMedia {
    /// The system under test.
    pub system: Subject,
    /// The content and the clients of the stores.
    pub bank: Bank,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of transactions of each client before power fails.
    pub transactions: u64,
}

/// The allowed effects of a fault.
struct Harm {
    kind: FaultKind,
    device: &'static str,
    what: String,
    /// The restart may be refused with a text that names one of these; empty: it must succeed.
    may_name: &'static [&'static str],
}

impl SickMedia {
    /// Runs the chapter, up to the first violation.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let seed = self.seed ^ 0x51c4;
        let moments =
            Moments { system: self.system, seed, transactions: self.transactions.min(24), most: MOMENTS };
        let look = move |devices: &Devices, at: u64, is_wanted: &mut dyn FnMut() -> bool| {
            let qualifies = (at + seed).is_multiple_of(MOMENT_ONE_OF);
            (qualifies && is_wanted()).then(|| devices.after_crash(seed ^ at << 20))
        };
        let wrong = |kind, message| Found { kind, message: format!("{:?}: {message}", self.bank) };
        let left = moments.of(&self.bank, look).map_err(|why| wrong(FaultKind::Crash, why))?;
        tally.lives += 1;
        for Left { at, media, oracle } in left {
            let mut rng = Rng::new(seed ^ at << 16);
            for _ in 0..DAMAGES {
                let media = media.fork();
                let Some(harm) = self.harm(&mut rng, &media) else { continue };
                tally.count_on(harm.kind, harm.device);
                let machine = Machine::new(media, FaultPlan::none(), self.bank.flash_groups());
                let life = Life { seed: rng.next_u64(), verify: true, transactions: 2 };
                let known = Arc::new(Mutex::new(oracle.clone()));
                match life.live(&self.bank, self.system, &machine, &known) {
                    Ok(Some(_)) => tally.restarts += 1,
                    Ok(None) => {
                        return Err(wrong(harm.kind, "power failed though no crash was planned".to_owned()));
                    }
                    Err(why) if harm.may_name.iter().any(|name| why.contains(name)) => {
                        tally.faults_detected += 1;
                    }
                    Err(why) => {
                        let told = format!("power failed at operation {at}, then {}: {why}", harm.what);
                        return Err(wrong(harm.kind, told));
                    }
                }
            }
        }
        Ok(())
    }

    fn harm(&self, rng: &mut Rng, media: &Media) -> Option<Harm> {
        match (rng.below(3), self.system.tier_options(self.bank.flash_groups())) {
            (0, _) => harm_log(rng, &media.log),
            (1, Some(options)) => {
                let cache = Cache::Tier(options);
                let (device, what, rules) = make_unreadable(rng, &cache, media, 1);
                let may_name: &[&str] = match (device, rules.opening, rules.damage || rules.disk_damage) {
                    (_, Opening::Must, false) => &[],
                    ("disk", ..) => &["cannot be read"],
                    _ => &["opening the layer: ", "is damaged"],
                };
                Some(Harm { kind: FaultKind::Unreadable, device, what, may_name })
            }
            _ => harm_disk(rng, &media.disk),
        }
    }
}

/// Damages a page or a label of the disk.
fn harm_disk(rng: &mut Rng, disk: &MemoryDevice) -> Option<Harm> {
    let page_bytes = crate::subject::PAGE_BYTES;
    let offset = |page| disk_offset(PageId(page), page_bytes);
    let pages = (disk.geometry().capacity_bytes - offset(0)) / u64::from(page_bytes);
    let used: Vec<u64> =
        (0..pages).filter(|page| read(disk, offset(*page), 512).iter().any(|byte| *byte != 0)).collect();
    let page = *used.get(rng.below(used.len().max(1) as u64) as usize)?;
    let at = offset(page) + rng.below(u64::from(page_bytes) / 512) * 512;
    let harm = |kind, what, may_name| Some(Harm { kind, device: "disk", what, may_name });
    match rng.below(4) {
        0 => {
            let label = rng.below(2) * (32 << 10);
            disk.mark_unreadable(label, 512);
            harm(FaultKind::Unreadable, format!("the label at {label} cannot be read"), &[])
        }
        1 => {
            disk.mark_unreadable(at, 512);
            harm(
                FaultKind::Unreadable,
                format!("offset {at}, of page {page}, cannot be read"),
                &["cannot be read"],
            )
        }
        2 => {
            let bit = at * 8 + rng.below(512 * 8);
            flip(disk, bit);
            harm(
                FaultKind::BitFlip,
                format!("bit {bit}, of page {page}, flipped"),
                &["disk offset", "is damaged"],
            )
        }
        _ => {
            let other = *used.get(rng.below(used.len() as u64) as usize)?;
            let bytes = read(disk, offset(page), page_bytes as usize);
            disk.write(offset(other), &bytes).expect("pages lie on the disk");
            let what = format!("page {page} was written in the place of page {other}, too");
            harm(FaultKind::DuplicatedWrite, what, &["disk offset", "is damaged"])
        }
    }
}

/// The judge's own view of a log.
struct Log {
    area: u64,
    sector: u64,
    /// The redo point. Records before it are not read here.
    begin: u64,
    /// The start of the last flush.
    last_flush: u64,
    end: u64,
}

impl Log {
    fn place(&self, lsn: u64) -> u64 {
        LOG_START + lsn % self.area
    }

    /// Reads the records of a sound log from the redo point on.
    fn of(device: &MemoryDevice) -> Option<Log> {
        let report = entresol_store::examine_log(device).ok()?;
        let blocks = [0, 4096].map(|offset| read(device, offset, 512));
        let newest = blocks.iter().max_by_key(|block| word(block, 16))?;
        let sector = u64::from(word(newest, 52) as u32);
        let (begin, end) = (report.redo_point.0, report.end.0);
        let mut log = Log { area: report.area, sector, begin, last_flush: begin, end };
        let mut lsn = begin;
        while lsn < end {
            // A record's header may wrap.
            let head: Vec<u8> =
                (0..40).step_by(8).flat_map(|part| byte_run(device, &log, lsn + part)).collect();
            let length = u64::from(word(&head, 0) as u32);
            if length == 0 || word(&head, 8) != lsn {
                lsn = (lsn + 1).next_multiple_of(sector);
                continue;
            }
            let code = word(&head, 32) >> 40;
            if let Some(distance) = code.checked_sub(1) {
                log.last_flush = log.last_flush.max(lsn - distance * 8);
            }
            lsn = (lsn + length).next_multiple_of(8);
        }
        Some(log)
    }
}

fn byte_run(device: &MemoryDevice, log: &Log, lsn: u64) -> [u8; 8] {
    let at = log.place(lsn);
    let sector = read(device, at / 512 * 512, 512);
    let within = (at % 512) as usize;
    sector[within..within + 8].try_into().expect("eight bytes that begin at a multiple of eight")
}

/// Damages a sector of the log, or a block of its master record.
fn harm_log(rng: &mut Rng, device: &MemoryDevice) -> Option<Harm> {
    let log = Log::of(device)?;
    let harm = |kind, what, may_name| Some(Harm { kind, device: "log", what, may_name });
    let refused: &[&str] =
        &["log from LSN", "log at LSN", "log device", "log record", "the log has lost its end"];
    if rng.below(4) == 0 {
        let block = rng.below(2) * 4096;
        device.mark_unreadable(block, 512);
        return harm(FaultKind::Unreadable, format!("the master record at {block} cannot be read"), &[]);
    }
    // Damage in the last flush looks like a torn flush. The range after the end contains nothing.
    let first = log.begin / 512 * 512;
    let sectors = log.last_flush.checked_sub(first)? / 512;
    let behind = rng.below(4) == 0;
    let lsn = match behind {
        true => log.end.next_multiple_of(log.sector) + rng.below(64) * log.sector,
        false if sectors > 0 => first + rng.below(sectors) * 512,
        false => return None,
    };
    let (at, may_name) = (log.place(lsn) / 512 * 512, if behind { &[][..] } else { refused });
    match rng.below(4) {
        0 | 1 => {
            device.mark_unreadable(at, 512);
            harm(FaultKind::Unreadable, format!("the log at LSN {lsn} cannot be read"), may_name)
        }
        2 => {
            let bit = at * 8 + rng.below(512 * 8);
            flip(device, bit);
            harm(FaultKind::BitFlip, format!("bit {bit} of the log, LSN {lsn}, flipped"), may_name)
        }
        _ => {
            // As if this sector had never been written.
            device.write(at, &[0; 512]).expect("the log lies on its device");
            harm(FaultKind::LostWrite, format!("what was written at LSN {lsn} is lost"), may_name)
        }
    }
}

fn read(device: &MemoryDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read(offset, &mut bytes).expect("the range is on the device, and can be read");
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_media_cost_nothing_that_is_not_named() {
        let mut tally = Tally::default();
        for (seed, system) in
            (0..3).flat_map(|seed| Subject::all().into_iter().map(move |system| (seed, system)))
        {
            let sectors = [(512, 512), (4096, 4096), (512, 4096)][seed as usize];
            let bank = Bank { clients: 1 + seed as u32, sectors, ..Bank::default() };
            let media = SickMedia { system, bank, seed, transactions: 24 };
            let found = media.run(&mut tally).err();
            assert!(found.is_none(), "{system}, seed {seed}: {}", found.expect("there is one").message);
        }
        let by_device = tally.by_device();
        assert!(by_device[&FaultKind::Unreadable].iter().all(|states| *states > 0), "{by_device:?}");
        assert!(tally.faults_detected > 0, "{by_device:?}");
    }
}
