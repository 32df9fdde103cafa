//! One run: the lives of a script in turn, and every crash state of them, with and without further faults.

use super::Effort;
use super::damage::SILENT;
use super::fault::FaultKind;
use super::judge::{Recovered, Rules, recover_on};
use super::life::{Start, live};
use super::point::Point;
use super::report::Tally;
use super::script::{JUMP, Op, SLOW, Script};
use super::trial::{Trial, foreign_flash};
use crate::machine::Machine;
use entresol_device::{FaultPlan, MemoryDevice};
use entresol_runtime::rng::Rng;

/// Maximum depth of crashes in recoveries.
const DEPTH_MAX: u32 = 2;
/// One of this many recoveries is cut off at each of its operations. The second number is for recoveries in
/// recoveries.
const CUT_OFF: [u64; DEPTH_MAX as usize] = [32, 48];
/// At one of this many moments the program is killed, too. Power fails in the recovery after that.
const KILLED: u64 = 16;
/// Maximum number of states examined at one moment of a recovery.
const IN_RECOVERY_MAX: usize = 12;
/// Approximate limit of the states of recoveries that a run examines: many caches reveal more than one.
const IN_RECOVERIES_MAX: u64 = 8192;
/// One recovery takes at most this part of the states that remain.
const IN_RECOVERY_PART: u64 = 4;

/// A violation.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub kind: FaultKind,
    pub message: String,
}

/// A run in progress.
struct Run<'a> {
    script: &'a Script,
    effort: Effort,
    rng: Rng,
    tally: Tally,
    /// Number of states of recoveries that were examined.
    in_recoveries: u64,
    slow: bool,
    jumped: bool,
    /// The fault of this life, and its device.
    trouble: Option<(FaultKind, &'static str)>,
    /// No device has failed so far, so flash and disk must agree at any moment.
    sound: bool,
}

/// Carries a script out, up to the first violation.
pub(super) fn run(script: &Script, effort: Effort) -> (Tally, Option<Found>) {
    let mut run = Run {
        script,
        effort,
        rng: Rng::new(script.seed ^ 0x5eed),
        tally: Tally::default(),
        in_recoveries: 0,
        slow: script.shape.latency_max == SLOW,
        jumped: false,
        trouble: None,
        sound: true,
    };
    let found = run.lives().err();
    (run.tally, found)
}

impl Run<'_> {
    fn lives(&mut self) -> Result<(), Found> {
        let wrong = |message| Found { kind: FaultKind::Create, message };
        let mut start = Start::new(self.script).map_err(wrong)?;
        let foreign = match self.effort.images {
            0 => MemoryDevice::new("flash", 0),
            _ => foreign_flash(self.script).map_err(wrong)?,
        };
        for (number, life) in self.script.lives.iter().enumerate() {
            self.jumped |= life.clients.iter().flatten().any(|op| *op == Op::Pause(JUMP));
            let before = start.media.flash.fork("flash");
            let kind = life.trouble.map_or(FaultKind::Crash, |trouble| FaultKind::of(trouble.fault));
            self.trouble = life.trouble.map(|trouble| (kind, trouble.device));
            let in_life = |message: String| format!("life {}: {message}", number + 1);
            let lived = live(self.script, life, start, self.effort.one_of)
                .map_err(|message| Found { kind, message: in_life(message) })?;
            self.tally.lives += 1;
            self.tally.faults_struck += u64::from(lived.struck.is_some());
            self.tally.faults_detected += u64::from(lived.struck.is_some() && lived.noticed);
            let struck = lived.struck.is_some();
            let explored =
                self.explore(&lived.points, 0).and_then(|()| self.try_some(&lived.points, &before, &foreign));
            explored.map_err(|found| Found { message: in_life(found.message), ..found })?;
            self.sound &= !struck;
            if lived.struck.is_some_and(FaultKind::is_silent) {
                // Lost data may be found missing at any later time.
                return Ok(());
            }
            start = match life.crashes && !lived.points.is_empty() {
                false => lived.end,
                true => {
                    let at = self.rng.below(lived.points.len() as u64) as usize;
                    let point = &lived.points[at];
                    let chance = point.any_chance(&mut self.rng);
                    Start { media: point.media(&chance), oracle: point.oracle.clone(), born: point.born }
                }
            };
        }
        Ok(())
    }

    /// Records a state; an error if the state is illegal. `device`: the device at fault, if any.
    fn note(
        &mut self,
        kind: FaultKind,
        device: Option<&'static str>,
        result: Result<Recovered, String>,
    ) -> Result<Recovered, Found> {
        match device {
            Some(device) => self.tally.count_on(kind, device),
            None => self.tally.count(kind),
        }
        self.tally.states_slow += u64::from(self.slow);
        self.tally.states_jumped += u64::from(self.jumped);
        let recovered = result.map_err(|message| Found { kind, message })?;
        self.tally.restarts += u64::from(recovered.pages > 0);
        self.tally.recovered_pages += recovered.pages;
        Ok(recovered)
    }

    /// The stride between the examined moments of a recovery.
    fn one_of(&self, points: usize, depth: u32) -> usize {
        if depth == 0 {
            return 1;
        }
        let left = IN_RECOVERIES_MAX.saturating_sub(self.in_recoveries) / IN_RECOVERY_PART;
        points.div_ceil((left as usize / IN_RECOVERY_MAX).max(1)).max(1)
    }

    /// Examines all crash states of the points.
    fn explore(&mut self, points: &[Point], depth: u32) -> Result<(), Found> {
        let shape = &self.script.shape;
        let one_of = self.one_of(points.len(), depth);
        let first = if one_of > 1 { self.rng.below(one_of as u64) as usize } else { 0 };
        for point in points.iter().skip(first).step_by(one_of) {
            self.sound &= point.trouble.is_none();
            let silent = point.trouble.is_some_and(FaultKind::is_silent);
            let (born, trouble, sound) = (point.born, point.trouble, self.sound);
            let rules = move || match trouble {
                _ if !born => Rules::birth(&shape.cache),
                Some(_) if silent => Rules::silent(&shape.cache),
                None if sound => Rules::crash(&shape.cache),
                _ => Rules::failed(&shape.cache),
            };
            let mut chances = point.chances(&mut self.rng);
            let chances_max =
                if depth > 0 { self.effort.states.min(IN_RECOVERY_MAX) } else { self.effort.states };
            while chances.len() > chances_max {
                chances.swap_remove(self.rng.below(chances.len() as u64) as usize);
            }
            self.in_recoveries += if depth > 0 { chances.len() as u64 } else { 0 };
            for chance in chances {
                let kind = match (depth, point.trouble) {
                    (0, Some(kind)) => kind,
                    (0, None) if !point.born => FaultKind::Create,
                    (0, None) if chance.unreadable => FaultKind::TornUnreadable,
                    (0, None) if chance.torn => FaultKind::TornWrite,
                    (0, None) => FaultKind::Crash,
                    (1, _) => FaultKind::CrashInRecovery,
                    _ => FaultKind::CrashInRecoveryAgain,
                };
                let cut_off = CUT_OFF.get(depth as usize).is_some_and(|one_of| self.rng.below(*one_of) == 0);
                let watch = cut_off && !silent && point.born && self.in_recoveries < IN_RECOVERIES_MAX;
                let machine = Machine::new(point.media(&chance), FaultPlan::none(), 0);
                let told = format!("power failed at operation {} ({chance:?})", point.at);
                // A structure may be unreadable before the recovery.
                let rules = Rules { sound: rules().sound && !chance.unreadable, ..rules() };
                self.look(point, machine, &rules, (kind, told), depth, watch)?;
            }
            let killed = depth == 0 && Rng::new(self.script.seed ^ point.at).below(KILLED) == 0;
            let watch = !silent && point.born && self.in_recoveries < IN_RECOVERIES_MAX;
            if killed && watch && point.has_unsynced() {
                let told = format!("the program was killed at operation {}", point.at);
                self.look(point, point.after_kill(), &rules(), (FaultKind::Kill, told), depth, true)?;
            }
        }
        Ok(())
    }

    /// Examines the crash state of a moment, described by `left`. If `watch` is set, then also examines each
    /// moment of the recovery from it.
    fn look(
        &mut self,
        point: &Point,
        machine: Machine,
        rules: &Rules,
        (kind, left): (FaultKind, String),
        depth: u32,
        watch: bool,
    ) -> Result<(), Found> {
        let seed = self.rng.next_u64();
        let result = recover_on(&self.script.shape, machine, &point.oracle, rules, seed, watch);
        let device = self.trouble.filter(|(fault, _)| *fault == kind).map(|(_, device)| device);
        let recovered = self.note(kind, device, result.map_err(|why| format!("{left}: {why}")))?;
        // Sectors that were unreadable before may still be unreadable during the recovery.
        let sound = self.sound;
        self.sound &= rules.sound;
        let explored = self.explore(&recovered.points, depth + 1).map_err(|found| Found {
            message: format!("{left}; in the recovery from that {}", found.message),
            ..found
        });
        self.sound = sound;
        explored
    }

    /// Tries a few of the crash states with other flash and with damage.
    fn try_some(
        &mut self,
        points: &[Point],
        before: &MemoryDevice,
        foreign: &MemoryDevice,
    ) -> Result<(), Found> {
        let sane: Vec<&Point> = points.iter().filter(|point| point.born && point.trouble.is_none()).collect();
        for _ in 0..self.effort.images.min(sane.len()) {
            let point = sane[self.rng.below(sane.len() as u64) as usize];
            let chance = point.any_chance(&mut self.rng);
            let rng = Rng::new(self.rng.next_u64());
            let (script, media, sound) = (self.script, point.media(&chance), self.sound);
            let damage_only = self.effort.damage_only;
            let trial = Trial { script, media, oracle: &point.oracle, before, sound, damage_only, rng };
            let mut found = None;
            trial.run(foreign, &mut |(kind, device), result| {
                let told = |why| format!("power failed at operation {} ({chance:?}): {why}", point.at);
                match self.note(kind, device, result.map_err(told)) {
                    Ok(recovered) => {
                        let harmless = SILENT.contains(&kind) && !recovered.noticed;
                        self.tally.faults_detected += u64::from(!harmless);
                        true
                    }
                    Err(wrong) => {
                        found = Some(wrong);
                        false
                    }
                }
            });
            if let Some(found) = found {
                return Err(found);
            }
        }
        Ok(())
    }
}
