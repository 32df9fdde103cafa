//! A crash at every operation of one life. Restarts follow each crash, and some of them crash, too.
//!
//! The life runs once. At each operation the crash state is copied, together with the oracle at that moment.
//! Other threads restart from the copies. So the cost is linear in the number of crashes, not quadratic. A
//! test compares the copies with the states of real crashes.
//!
//! Invariant: the course of the crash at operation `n` depends only on the seed and on `n`, not on other
//! crashes or on threads. So each crash can be replayed alone.

use crate::life::{Life, Lived, prepare};
use crate::machine::{Devices, FrozenMedia, Machine, Media};
use crate::report::{Failure, Report};
use crate::subject::Subject;
use crate::workload::Workload;
use entresol_device::{Device, Fault, FaultPlan, Injection};
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of crash states that wait for a thread.
const BACKLOG: usize = 8;

/// Maximum number of lives after the first crash.
const LIVES_MAX: u64 = 5;

/// A campaign's settings.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The system under test.
    pub system: Subject,
    /// Seed of all random choices.
    pub seed: u64,
    /// Transactions of each client in the first life.
    pub transactions: u64,
    /// A crash at one of this many operations; 1: at each.
    pub stride: u64,
    /// Only the crash at this operation.
    pub only: Option<u64>,
    /// One of this many crashes is followed by a crash of the next life, and so on; 0: none.
    pub again: u64,
    /// Whether lives after a crash always run transactions. Such a life is cut off at any time during the
    /// transactions or at the end of the restart.
    pub busy: bool,
    /// The device of this name acknowledges syncs without doing them. For tests of the tests.
    pub liar: Option<&'static str>,
    /// Requests to the device of this name take much longer than to other devices.
    pub slow: Option<&'static str>,
    /// The first life begins after one that worked as long and was shut down quickly: with dirty pages on
    /// flash, if the system keeps them there.
    pub materialised: bool,
    /// Number of threads that restart.
    pub threads: usize,
}

/// The state after a power failure.
struct CrashState<O> {
    at: u64,
    media: Media,
    oracle: O,
}

impl Campaign {
    /// A crash at every operation; a third of them is followed by another crash.
    pub fn new(system: Subject, seed: u64, transactions: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8));
        Self {
            system,
            seed,
            transactions,
            stride: 1,
            only: None,
            again: 3,
            busy: false,
            liar: None,
            slow: None,
            materialised: false,
            threads,
        }
    }

    /// The media at the beginning of the first life.
    fn prepared<W: Workload>(&self, workload: &W) -> Result<(Media, W::Oracle), String> {
        let (media, oracle) = prepare(workload, self.system, self.seed)?;
        if !self.materialised {
            return Ok((media, oracle));
        }
        let machine = Machine::new(media, FaultPlan::none(), workload.flash_groups());
        let oracle = Arc::new(Mutex::new(oracle));
        // Of a seed that ends quickly.
        let life = Life { seed: self.seed | 1, verify: false, transactions: self.transactions };
        life.live(workload, self.system, &machine, &oracle)?
            .ok_or_else(|| "power failed though no crash was planned".to_owned())?;
        let known = oracle.lock().clone();
        Ok((machine.after_crash(self.seed), known))
    }

    /// Runs the campaign.
    pub fn run<W: Workload>(&self, workload: &W) -> Report {
        self.run_and_restart(workload, workload)
    }

    /// Runs the campaign. The lives after the first crash are those of `restarted`, which differs only in
    /// settings of the store. With fewer frames than before the crash, redo evicts pages.
    pub fn run_and_restart<W: Workload>(&self, workload: &W, restarted: &W) -> Report {
        match self.prepared(workload) {
            Ok((media, oracle)) => self.crash_everywhere((workload, restarted), &media.freeze(), oracle),
            Err(message) => {
                Report { failures: vec![self.failure(workload, 0, message)], ..Report::default() }
            }
        }
    }

    fn failure<W: Workload>(&self, workload: &W, at: u64, message: String) -> Failure {
        Failure { workload: workload.name(), system: self.system, seed: self.seed, at, message }
    }

    fn is_chosen(&self, at: u64) -> bool {
        match self.only {
            Some(only) => at == only,
            None => (at + self.seed).is_multiple_of(self.stride),
        }
    }

    /// Random numbers for all choices about the crash at `at`.
    fn rng(&self, at: u64) -> Rng {
        Rng::new(Rng::new(self.seed ^ at << 20).next_u64())
    }

    fn plan(&self) -> FaultPlan {
        let plan = FaultPlan::none();
        if let Some(liar) = self.liar {
            let device = Some(liar.to_owned());
            plan.inject(Injection { at: 0, device, fault: Fault::SyncLies, forever: true });
        }
        plan
    }

    fn first_life(&self) -> Life {
        // No redo repeats what a directory has lost.
        Life { seed: self.seed, verify: self.materialised, transactions: self.transactions }
    }

    fn crash_everywhere<W: Workload>(
        &self,
        (workload, restarted): (&W, &W),
        start: &FrozenMedia,
        oracle: W::Oracle,
    ) -> Report {
        let (sender, receiver) = sync_channel(BACKLOG);
        let receiver = Mutex::new(receiver);
        let mut report = Report::default();
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.threads.max(1)).map(|_| scope.spawn(|| self.worker(restarted, &receiver))).collect();
            match self.observed_life(workload, start, oracle, sender) {
                Ok(lived) => {
                    report.operations = lived.operations;
                    report.checkpoints = lived.metrics.checkpoints;
                    report.materialised = lived.restart.materialised;
                    let tier = lived.metrics.tier;
                    (report.flash_hits, report.disk_writes) = (tier.flash_hits, tier.disk_writes);
                    report.second_chances = tier.second_chances;
                }
                Err(message) => report.failures.push(self.failure(workload, 0, message)),
            }
            for worker in workers {
                report.add(worker.join().expect("what a world panics with is caught in it"));
            }
        });
        report.failures.sort_by_key(|failure| failure.at);
        report
    }

    /// Runs the first life without a crash. `sender` gets the crash state of each chosen operation.
    fn observed_life<W: Workload>(
        &self,
        workload: &W,
        start: &FrozenMedia,
        oracle: W::Oracle,
        sender: SyncSender<CrashState<W::Oracle>>,
    ) -> Result<Lived, String> {
        let mut machine = Machine::new(start.thaw(), self.plan(), workload.flash_groups()).slowed(self.slow);
        let oracle = Arc::new(Mutex::new(oracle));
        // Tasks that are never woken keep the machine alive, so the channel must be closed here.
        let sender = Arc::new(Mutex::new(Some(sender)));
        let (campaign, known, states) = (self.clone(), oracle.clone(), sender.clone());
        machine.observe(move |devices: &Devices, at| {
            if !campaign.is_chosen(at) {
                return;
            }
            let media = devices.after_crash(campaign.rng(at).next_u64());
            let state = CrashState { at, media, oracle: known.lock().clone() };
            if let Some(sender) = &*states.lock() {
                sender.send(state).expect("the workers wait until the sender is gone");
            }
        });
        let lived = self.first_life().live(workload, self.system, &machine, &oracle);
        sender.lock().take();
        lived?.ok_or_else(|| "power failed though no crash was planned".to_owned())
    }

    fn worker<W: Workload>(&self, workload: &W, states: &Mutex<Receiver<CrashState<W::Oracle>>>) -> Report {
        let mut report = Report::default();
        loop {
            let state = states.lock().recv();
            let Ok(state) = state else { return report };
            let at = state.at;
            report.crashes += 1;
            if let Err(message) = self.survive(workload, state, &mut report) {
                report.failures.push(self.failure(workload, at, message));
            }
        }
    }

    /// Checks the crash state, the content after a restart from it, and the content after further crashes.
    fn survive<W: Workload>(
        &self,
        workload: &W,
        state: CrashState<W::Oracle>,
        report: &mut Report,
    ) -> Result<(), String> {
        let CrashState { at, mut media, oracle } = state;
        let mut rng = self.rng(at);
        rng.next_u64();
        let oracle = Arc::new(Mutex::new(oracle));
        let groups = workload.flash_groups();
        self.check(&media, "after the crash", false)?;
        for life in 1..=LIVES_MAX {
            let seed = rng.next_u64();
            let transactions = if rng.below(4) == 0 || self.busy { 2 } else { 0 };
            let life_of = Life { seed, verify: true, transactions };
            let machine = Machine::new(media.fork(), FaultPlan::none(), groups).slowed(self.slow);
            let copy = Arc::new(Mutex::new(oracle.lock().clone()));
            let lived = life_of
                .live(workload, self.system, &machine, &copy)
                .and_then(|lived| lived.ok_or_else(|| "power failed though no crash was planned".to_owned()))
                .map_err(|message| format!("life {life} after the crash: {message}"))?;
            report.restarts += 1;
            report.losers += lived.restart.losers;
            report.warm += u64::from(lived.restart.pages_from_flash > 0);
            self.check(&machine.after_crash(0), "after a restart and a shutdown", false)?;
            if self.again == 0 || rng.below(self.again) != 0 || life == LIVES_MAX {
                break;
            }
            // The same life is run again and cut off.
            let end = match rng.below(if self.busy { 2 } else { 4 }) {
                0 => lived.operations,
                _ => lived.restart_operations,
            };
            let late = self.busy && rng.below(2) == 0;
            let cut = 1 + if late { end - 1 - rng.below(end.min(8)) } else { rng.below(end) };
            let machine = Machine::new(media, FaultPlan::crash_at(cut), groups).slowed(self.slow);
            let told =
                |message| format!("life {life} after the crash, to be cut off at operation {cut}: {message}");
            if life_of.live(workload, self.system, &machine, &oracle).map_err(told)?.is_some() {
                return Err(told(format!("it ended after {} operations", machine.plan.operations())));
            }
            report.crashes_again += 1;
            report.crashes_in_restart += u64::from(cut <= lived.restart_operations);
            media = machine.after_crash(rng.next_u64());
            self.check(&media, &format!("after life {life} was cut off at operation {cut}"), true)?;
        }
        Ok(())
    }

    /// Checks the invariants of flash and disk, and that flash and disk agree about which version is newer.
    /// After a crash during a restart they need not agree: redo decides about the pages that it was
    /// rebuilding.
    fn check(&self, media: &Media, when: &str, restart_cut_off: bool) -> Result<(), String> {
        // There is no flash, or no needed page is on it.
        if [Subject::DISK_ONLY, Subject::FRAGMENTS].contains(&self.system) {
            return Ok(());
        }
        let disk: Arc<dyn Device> = Arc::new(media.disk.fork("disk"));
        let report = entresol_engine::check(&media.flash, Some(disk))
            .map_err(|error| format!("checking the flash {when}: {error}"))?;
        if report.is_sound() && (report.older_than_disk == 0 || restart_cut_off) {
            return Ok(());
        }
        let what = entresol_engine::inspect(&media.flash)
            .map_or_else(|error| error.to_string(), |it| it.to_string());
        Err(format!("the flash is not sound {when}: {report}on flash is\n{what}"))
    }

    /// The crash state of operation `at`, made by running the first life up to it. This is slow, and serves
    /// to test the copies.
    pub fn crash_at<W: Workload>(&self, workload: &W, at: u64) -> Result<(Media, W::Oracle), String> {
        let (media, oracle) = self.prepared(workload)?;
        let oracle = Arc::new(Mutex::new(oracle));
        let plan = self.plan();
        plan.inject(Injection { at, device: None, fault: Fault::Crash, forever: false });
        let machine = Machine::new(media.freeze().thaw(), plan, workload.flash_groups()).slowed(self.slow);
        match self.first_life().live(workload, self.system, &machine, &oracle)? {
            Some(lived) => Err(format!("the life ended after {} operations", lived.operations)),
            None => {
                let known = oracle.lock().clone();
                Ok((machine.after_crash(self.rng(at).next_u64()), known))
            }
        }
    }

    /// The copies at the chosen operations, in order.
    pub fn copies<W: Workload>(&self, workload: &W) -> Result<Vec<(u64, Media, W::Oracle)>, String> {
        let (media, oracle) = self.prepared(workload)?;
        let (sender, receiver) = sync_channel(BACKLOG);
        std::thread::scope(|scope| {
            let copies = scope.spawn(|| {
                receiver.into_iter().map(|CrashState { at, media, oracle }| (at, media, oracle)).collect()
            });
            self.observed_life(workload, &media.freeze(), oracle, sender)?;
            Ok(copies.join().expect("collecting does not panic"))
        })
    }
}
