//! Power fails while a store is created and loaded. The remains open, with each table empty or complete, or
//! are refused. A new store can be created in their place.

use super::StoreRun;
use crate::life::Life;
use crate::machine::{Devices, Machine, Media};
use crate::torture::fault::FaultKind;
use crate::torture::judge::undisturbed;
use crate::torture::report::Tally;
use crate::torture::run::Found;
use crate::workload::Workload;
use entresol_device::FaultPlan;
use entresol_engine::TierError;
use entresol_runtime::rng::Rng;
use entresol_store::{Direction, Lock, Options, Parts, Store, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;

/// Number of states examined.
const STATES: u64 = 6;

impl StoreRun {
    pub(super) fn birth(&self, tally: &mut Tally) -> Result<(), Found> {
        let wrong = |message| Found { kind: FaultKind::Create, message };
        let (operations, _) = self.born(None).map_err(wrong)?;
        let mut rng = Rng::new(self.seed ^ 0xb127);
        for nth in 0..STATES {
            // The first operations create the cache and the store; the load takes all the others.
            let at = 1 + rng.below(if nth % 2 == 0 { operations.min(60) } else { operations });
            let (_, media) = self.born(Some(at)).map_err(wrong)?;
            tally.count(FaultKind::Create);
            self.again(media, rng.next_u64()).map_err(|why| {
                wrong(format!("{:?}, power failed at operation {at} of its making: {why}", self.bank))
            })?;
            tally.restarts += 1;
        }
        tally.lives += 1;
        Ok(())
    }

    fn machine(&self, media: Option<Media>) -> Machine {
        let groups = self.bank.flash_groups();
        let blank = || {
            let (disk, log) = self.bank.device_bytes();
            Media::blank(disk, log, self.system.flash_bytes(groups)).with_sectors(self.bank.sectors)
        };
        Machine::new(media.unwrap_or_else(blank), FaultPlan::none(), groups)
    }

    /// Creates and loads a store. Returns the number of operations of that, and the media after a power
    /// failure at operation `at`, or at the end.
    fn born(&self, at: Option<u64>) -> Result<(u64, Media), String> {
        let mut machine = self.machine(None);
        let left = Arc::new(Mutex::new(None));
        if let Some(at) = at {
            let (left, seed) = (left.clone(), self.seed ^ at);
            machine.observe(move |devices: &Devices, now| {
                let mut left = left.lock();
                if now >= at && left.is_none() {
                    *left = Some(devices.after_crash(seed));
                }
            });
        }
        undisturbed(self.seed, || -> Result<(), String> {
            let layer = self.system.create(&machine).map_err(|error| error.to_string())?;
            let parts = Parts { layer, log: machine.log() };
            let store = Store::create(parts, self.bank.options()).map_err(|error| error.to_string())?;
            self.bank.load(&store)?;
            store.shutdown().map_err(|error| error.to_string())
        })??;
        let left = left.lock().take();
        Ok((machine.plan.operations(), left.unwrap_or_else(|| machine.after_crash(self.seed))))
    }

    /// Opens the remains. Power fails once more; a new store is created in their place and used.
    fn again(&self, media: Media, seed: u64) -> Result<(), String> {
        let machine = self.machine(Some(media));
        let opened = undisturbed(seed, || self.open(&machine))??;
        // A checkpoint of a dropped store may still be in progress, and holds the devices until its end. So
        // the next store gets other devices.
        let machine = self.machine(Some(machine.after_crash(seed)));
        let oracle = undisturbed(seed, || self.make_anew(&machine, opened))??;
        let machine = self.machine(Some(machine.after_crash(seed)));
        let life = Life { seed, verify: true, transactions: 2 };
        let lived = life.live(&self.bank, self.system, &machine, &Arc::new(Mutex::new(oracle)))?;
        lived.map(|_| ()).ok_or_else(|| "power failed though no crash was planned".to_owned())
    }

    /// Opens the remains of a store that may not have been created completely. Returns whether its layer was.
    fn open(&self, machine: &Machine) -> Result<bool, String> {
        let layer = match self.system.open(machine) {
            Ok(layer) => layer,
            Err(TierError::Refused(_)) => return Ok(false),
            Err(error) => return Err(format!("opening the layer: {error}")),
        };
        match Store::open(Parts { layer, log: machine.log() }, self.bank.options()) {
            Ok((store, _)) => self.expect_empty_or_whole(&store)?,
            Err(StoreError::Config(_)) => {}
            Err(error) => return Err(format!("opening the store: {error}")),
        }
        Ok(true)
    }

    /// Creates a store in the place of another one, and loads it. The layer is created, too, unless it was
    /// `opened` before.
    fn make_anew(
        &self,
        machine: &Machine,
        opened: bool,
    ) -> Result<<crate::Bank as Workload>::Oracle, String> {
        let layer = match opened {
            true => self.system.open(machine).map_err(|error| format!("opening the layer again: {error}"))?,
            false => {
                self.system.create(machine).map_err(|error| format!("making the layer anew: {error}"))?
            }
        };
        let parts = Parts { layer, log: machine.log() };
        // The log has records of the earlier store, and no master record if the creation of that store was
        // cut off.
        let options = Options { overwrite: true, ..self.bank.options() };
        let store =
            Store::create(parts, options).map_err(|error| format!("making the store anew: {error}"))?;
        let oracle = self.bank.load(&store)?;
        store.shutdown().map_err(|error| error.to_string())?;
        Ok(oracle)
    }

    fn expect_empty_or_whole(&self, store: &Store) -> Result<(), String> {
        store.verify().map_err(|error| format!("verifying the trees: {error}"))?;
        let whole =
            [("accounts", self.bank.accounts), ("items", self.bank.accounts.div_ceil(2)), ("markers", 0)];
        for (name, rows) in whole {
            let Some(table) = store.table(name).map_err(|error| error.to_string())? else { continue };
            let mut found = 0;
            store
                .begin()
                .scan(table, &[], &[0xff; 16], Direction::Forward, Lock::None, &mut |_, _| {
                    found += 1;
                    true
                })
                .map_err(|error| format!("reading table {name}: {error}"))?;
            if found != 0 && found != rows {
                return Err(format!("table {name} was loaded by half: {found} of {rows} rows"));
            }
        }
        Ok(())
    }
}
