//! The disk or the log becomes full. Requests that need more room get an error, all acknowledged changes
//! stay, and the store opens again after every power failure.

use super::StoreRun;
use crate::life::{Life, finished, prepare, simulation};
use crate::machine::{Devices, Machine};
use crate::moments::Moments;
use crate::torture::fault::FaultKind;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_device::FaultPlan;
use entresol_runtime::rng::Rng;
use entresol_runtime::spawn;
use entresol_store::{Parts, Store, StoreError};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of power failures for each kind of scarcity.
const MOMENTS: u64 = 2;
/// One of this many operations is a moment.
const MOMENT_ONE_OF: u64 = 16;
/// The disk grows in steps of this many pages, until the bank fits.
const PAGES_STEP: u64 = 16;
/// Bytes before the first page of a disk.
const LABEL_BYTES: u64 = 64 << 10;
/// Number of tables. They fill the log more than once.
const TABLES: u32 = 2400;
/// Frames of the pool, and bytes of the disk, for a crowd of clients. With these sizes the crowd waits only
/// for room in the log.
const CROWD_FRAMES: usize = 1024;
const CROWD_DISK_BYTES: u64 = 32 << 20;
/// Bytes of a disk with room for the tables.
const TABLES_DISK_BYTES: u64 = 16 << 20;

/// A store with too little room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scarce {
    /// The system under test.
    pub system: Subject,
    /// The content and the clients of the store.
    pub bank: Bank,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of transactions of each client.
    pub transactions: u64,
}

impl StoreRun {
    pub(super) fn scarce(&self) -> Scarce {
        let Self { system, bank, seed, transactions, .. } = *self;
        Scarce { system, bank, seed, transactions }
    }
}

impl Scarce {
    /// One of the three scenarios, in three of 24 runs: each takes as long as all other chapters together.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        match self.seed % 24 {
            0 => self.small_disk(tally),
            1 => self.crowd(tally),
            2 => self.tables(tally),
            _ => Ok(()),
        }
    }

    /// A disk only slightly larger than the loaded data.
    pub fn small_disk(&self, tally: &mut Tally) -> Result<(), Found> {
        let wrong =
            |message| Found { kind: FaultKind::DiskFull, message: format!("{:?}: {message}", self.bank) };
        let mut pages = PAGES_STEP;
        let bank = loop {
            let disk_bytes = LABEL_BYTES + pages * u64::from(crate::subject::PAGE_BYTES);
            let bank = Bank { disk_bytes, ..self.bank };
            match prepare(&bank, self.system, self.seed) {
                Ok(_) => break bank,
                Err(why) if why.contains("the disk is full") && disk_bytes < self.bank.disk_bytes => {
                    pages += PAGES_STEP;
                }
                Err(why) => return Err(wrong(format!("loading a disk of {pages} pages: {why}"))),
            }
        };
        self.crash(&bank, self.transactions.max(40), (FaultKind::DiskFull, "disk"), tally)
    }

    /// Many clients on the smallest log.
    pub fn crowd(&self, tally: &mut Tally) -> Result<(), Found> {
        let mut rng = Rng::new(self.seed ^ 0xc20d);
        let clients = 64 + rng.below(320) as u32;
        let bank = Bank {
            clients,
            // Enough accounts that clients have their own pages.
            accounts: 16 * clients,
            frames: CROWD_FRAMES,
            disk_bytes: CROWD_DISK_BYTES,
            checkpoint_interval: None,
            ..self.bank
        };
        self.crash(&bank, 2, (FaultKind::LogFull, "log"), tally)
    }

    /// A life that is cut off, and a complete life after it.
    fn crash(
        &self,
        bank: &Bank,
        transactions: u64,
        (kind, device): (FaultKind, &'static str),
        tally: &mut Tally,
    ) -> Result<(), Found> {
        let wrong = |message| Found { kind, message: format!("{bank:?}: {message}") };
        let seed = self.seed ^ 0x5ca2ce;
        let moments = Moments { system: self.system, seed, transactions, most: MOMENTS };
        let look = move |devices: &Devices, at: u64, is_wanted: &mut dyn FnMut() -> bool| {
            let qualifies = (at + seed).is_multiple_of(MOMENT_ONE_OF);
            (qualifies && is_wanted()).then(|| devices.after_crash(seed ^ at << 20))
        };
        for left in moments.of(bank, look).map_err(wrong)? {
            let machine = Machine::new(left.media, FaultPlan::none(), bank.flash_groups());
            let life = Life { seed: seed ^ left.at, verify: true, transactions: 2 };
            tally.count_on(kind, device);
            life.live(bank, self.system, &machine, &Arc::new(Mutex::new(left.oracle)))
                .and_then(|lived| lived.ok_or_else(|| "power failed though no crash was planned".to_owned()))
                .map_err(|why| wrong(format!("power failed at operation {}: {why}", left.at)))?;
            tally.restarts += 1;
        }
        tally.lives += 1;
        Ok(())
    }

    /// More tables than fit into the log, created by several clients at once. Then power fails.
    pub fn tables(&self, tally: &mut Tally) -> Result<(), Found> {
        let kind = FaultKind::LogFull;
        let wrong = |message| Found { kind, message: format!("{:?}, making tables: {message}", self.bank) };
        let bank = Bank { disk_bytes: TABLES_DISK_BYTES, ..self.bank };
        let (media, _) = prepare(&bank, self.system, self.seed).map_err(wrong)?;
        let groups = bank.flash_groups();
        let machine = Machine::new(media, FaultPlan::none(), groups);
        let (options, clients) = (self.bank.options(), 1 + self.bank.clients % 4);
        let open = |machine: &Machine| -> Result<Store, String> {
            let layer = self.system.open(machine).map_err(|error| format!("opening the layer: {error}"))?;
            let parts = Parts { layer, log: machine.log() };
            Ok(Store::open(parts, options.clone()).map_err(|error| format!("restarting: {error}"))?.0)
        };
        let work = || -> Result<BTreeSet<String>, String> {
            let store = open(&machine)?;
            let made = Arc::new(Mutex::new((BTreeSet::new(), None)));
            let makers: Vec<_> = (0..clients)
                .map(|client| {
                    let (store, made) = (store.clone(), made.clone());
                    spawn("maker of tables", move || {
                        for number in (client..TABLES).step_by(clients as usize) {
                            let name = format!("table {number}");
                            match store.create_table(&name) {
                                Ok(_) => drop(made.lock().0.insert(name)),
                                Err(StoreError::LogFull { .. } | StoreError::DiskFull { .. }) => {}
                                Err(error) => drop(made.lock().1.get_or_insert(error.to_string())),
                            }
                        }
                    })
                })
                .collect();
            makers.into_iter().for_each(|maker| maker.join());
            let (made, error) = std::mem::take(&mut *made.lock());
            error.map_or(Ok(made), Err)
        };
        let made =
            finished(simulation(self.seed).run(work)).and_then(|made| made.transpose()).map_err(wrong)?;
        let Some(made) = made else {
            return Err(wrong("power failed though no crash was planned".to_owned()));
        };
        let machine = Machine::new(machine.after_crash(self.seed), FaultPlan::none(), groups);
        tally.count_on(kind, "log");
        let look = || -> Result<(), String> {
            let store = open(&machine)?;
            let found: BTreeSet<String> = store
                .tables()
                .map_err(|error| error.to_string())?
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            match made.iter().find(|name| !found.contains(*name)) {
                Some(name) => Err(format!("{name:?} was made, and is not there after a restart")),
                None => store.shutdown().map_err(|error| format!("shutting down: {error}")),
            }
        };
        finished(simulation(!self.seed).run(look)).and_then(|done| done.transpose()).map_err(wrong)?;
        if (made.len() as u32) < TABLES / 2 {
            return Err(wrong(format!("only {} of {TABLES} tables could be made", made.len())));
        }
        tally.restarts += 1;
        tally.lives += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PolicyKind;

    #[test]
    fn scarce_room_costs_nothing_that_was_acknowledged() {
        let systems = [Subject::DISK_ONLY, Subject::cached(PolicyKind::FaceGsc)];
        for (seed, system) in systems.into_iter().enumerate() {
            let scarce = Scarce { system, bank: Bank::default(), seed: seed as u64, transactions: 8 };
            let tally = &mut Tally::default();
            let found = scarce
                .small_disk(tally)
                .and_then(|()| scarce.crowd(tally))
                .and_then(|()| scarce.tables(tally));
            assert!(found.is_ok(), "{system}: {}", found.expect_err("something is wrong").message);
            assert_eq!(tally.by_device()[&FaultKind::LogFull][1], MOMENTS + 1);
        }
    }
}
