//! Devices from different moments are combined. Disk, log and flash are each current, one session old, older,
//! of a branch (a copy from one session ago that was opened, too), another store's, blank, or have one
//! damaged redundant copy. Devices of one moment open with all rows of that moment. Disk and log of different
//! moments are refused with a sentence. A flash that does not fit is refused, or is not needed: then all rows
//! of disk and log are there.

use super::SENTENCE;
use crate::life::{Life, prepare};
use crate::machine::{Machine, Media};
use crate::torture::fault::FaultKind;
use crate::torture::report::{DEVICES, Tally};
use crate::torture::run::Found;
use crate::workload::Workload;
use crate::{Bank, Subject};
use entresol_device::{Device, FaultPlan, MemoryDevice};
use entresol_format::{BLOCK_BYTES, label, superblock};
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

type Oracle = <Bank as Workload>::Oracle;

/// Number of combinations of a run.
const COMBINATIONS: usize = 12;
/// Bytes between the two blocks of the log's master record.
const MASTER_STRIDE: u64 = 4096;

/// The state of a device in a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeviceState {
    Current,
    OneSessionOld,
    Older,
    /// One session old, then opened once on its own.
    Branch,
    Anothers,
    Blank,
    /// One copy of a redundant structure is damaged: a label, a block of the master record, or a superblock.
    OneCopyDamaged,
}

impl DeviceState {
    pub const ALL: [Self; 7] = [
        Self::Current,
        Self::OneSessionOld,
        Self::Older,
        Self::Branch,
        Self::Anothers,
        Self::Blank,
        Self::OneCopyDamaged,
    ];

    /// The index of its moment.
    fn moment(self) -> Option<usize> {
        match self {
            Self::Current | Self::OneCopyDamaged => Some(0),
            Self::OneSessionOld => Some(1),
            Self::Older => Some(2),
            Self::Branch => Some(3),
            Self::Anothers => Some(4),
            Self::Blank => None,
        }
    }
}

/// Stores whose devices are exchanged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchanged {
    pub system: Subject,
    pub bank: Bank,
    pub seed: u64,
    /// Maximum number of transactions of each client in a session.
    pub transactions: u64,
}

/// The store at several moments (now, one session ago, two sessions ago, in a branch of one session ago), and
/// another store.
pub(crate) struct Shelf {
    exchanged: Exchanged,
    moments: Vec<(Media, Oracle)>,
}

impl Exchanged {
    /// Runs the chapter, up to the first violation.
    pub fn run(&self, tally: &mut Tally) -> Result<(), Found> {
        let shelf = self.shelf().map_err(|message| Found { kind: FaultKind::Create, message })?;
        tally.lives += 4;
        let mut rng = Rng::new(self.seed ^ 0xe8c4);
        for _ in 0..COMBINATIONS {
            // Half of the devices are current.
            let mut draw = || {
                let all = DeviceState::ALL.len();
                DeviceState::ALL[(rng.below(2 * all as u64) as usize).saturating_sub(all)]
            };
            let states = [draw(), draw(), draw()];
            let opened = shelf.open(states, rng.next_u64()).map_err(|why| {
                let message = format!("{:?}: disk, log and flash are {states:?}: {why}", self.bank);
                Found { kind: FaultKind::Exchanged, message }
            })?;
            // Counted for the first device that is not current.
            match states.iter().position(|state| *state != DeviceState::Current) {
                Some(odd) => tally.count_on(FaultKind::Exchanged, DEVICES[odd]),
                None => tally.count(FaultKind::Exchanged),
            }
            tally.restarts += u64::from(opened.is_ok());
            tally.faults_detected += u64::from(opened.is_err());
        }
        Ok(())
    }

    /// Runs the sessions.
    pub fn shelf(&self) -> Result<Shelf, String> {
        let groups = self.bank.flash_groups();
        let mut rng = Rng::new(self.seed ^ 0x5e55);
        let (media, oracle) = prepare(&self.bank, self.system, self.seed)?;
        let mut session = |media: &Media, oracle: &Oracle, ends: bool| {
            let most = self.transactions * u64::from(self.bank.clients) * 20;
            let plan = if ends { FaultPlan::crash_at(40 + rng.below(most)) } else { FaultPlan::none() };
            let machine = Machine::new(media.fork(), plan, groups);
            let known = Arc::new(Mutex::new(oracle.clone()));
            let seed = rng.next_u64();
            // Each session makes at least one change.
            let transactions = self.transactions.max(4);
            Life { seed, verify: true, transactions }.live(&self.bank, self.system, &machine, &known)?;
            let media = machine.after_crash(seed);
            let oracle = known.lock().clone();
            Ok::<_, String>((media, oracle))
        };
        let older = session(&media, &oracle, false)?;
        let yesterday = session(&older.0, &older.1, self.seed.is_multiple_of(2))?;
        let now = session(&yesterday.0, &yesterday.1, self.seed & 2 == 0)?;
        let branch = session(&yesterday.0, &yesterday.1, self.seed & 4 == 0)?;
        let (media, oracle) = prepare(&self.bank, self.system, self.seed ^ 0x07e4)?;
        let another = session(&media, &oracle, false)?;
        Ok(Shelf { exchanged: *self, moments: vec![now, yesterday, older, branch, another] })
    }
}

impl Shelf {
    fn device(&self, state: DeviceState, place: usize, rng: &mut Rng) -> MemoryDevice {
        let of = |media: &Media| [&media.disk, &media.log, &media.flash][place].fork("device");
        let (media, _) = &self.moments[state.moment().unwrap_or(0)];
        let device = of(media);
        match state {
            DeviceState::Blank => MemoryDevice::new("blank", device.geometry().capacity_bytes),
            DeviceState::OneCopyDamaged if device.geometry().capacity_bytes > 0 => {
                let (copies, stride) = [
                    (label::COPIES, label::COPY_STRIDE),
                    (2, MASTER_STRIDE),
                    (superblock::COPIES, superblock::COPY_STRIDE),
                ][place];
                let at = rng.below(copies) * stride;
                if rng.below(2) == 0 {
                    device.mark_unreadable(at, BLOCK_BYTES as u64);
                } else {
                    let noise: Vec<u8> = (0..BLOCK_BYTES).map(|_| rng.next_u64() as u8).collect();
                    device.write(at, &noise).expect("every device has room for its first blocks");
                }
                device
            }
            _ => device,
        }
    }

    /// Opens a combination of disk, log and flash. Returns nothing, or why it is refused. An error: it was
    /// opened but must be refused, was refused but must open, or was opened with a wrong content.
    pub fn open(&self, states: [DeviceState; 3], seed: u64) -> Result<Result<(), String>, String> {
        let Exchanged { system, bank, .. } = self.exchanged;
        let mut rng = Rng::new(seed);
        let mut device = |place: usize| self.device(states[place], place, &mut rng);
        let media = Media { disk: device(0), log: device(1), flash: device(2) };
        let has_flash = media.flash.geometry().capacity_bytes > 0;
        let [disk, log, flash] = states.map(DeviceState::moment);
        let is_of_one = disk.filter(|_| disk == log && (disk == flash || !has_flash));
        let machine = Machine::new(media, FaultPlan::none(), bank.flash_groups());
        // If disk and log belong together, the open must succeed; otherwise it must be refused. A session
        // that was cut off before its start has changed neither.
        let session = |moment: usize| sessions(&self.moments[moment].0);
        let fits = match (disk, log) {
            (Some(disk), Some(log)) if disk == log => Some(log),
            (Some(disk), Some(log)) => {
                let (of_disk, of_log) = (session(disk), session(log));
                (of_disk.id == of_log.id && of_log.of_log.contains(&of_disk.of_disk)).then_some(log)
            }
            _ => None,
        };
        let oracle = self.moments[fits.unwrap_or(0)].1.clone();
        let life = Life { seed, verify: true, transactions: 2 };
        match life.live(&bank, system, &machine, &Arc::new(Mutex::new(oracle))) {
            Ok(None) => Err("power failed though no crash was planned".to_owned()),
            Ok(Some(_)) if fits.is_some() => Ok(Ok(())),
            Ok(Some(_)) => {
                let known: Vec<_> = (0..self.moments.len()).map(session).collect();
                Err(format!(
                    "disk and log of different moments are opened; disks, their sessions and those of logs: {known:?}"
                ))
            }
            Err(why) => match refusal(&why) {
                Some(why) if is_of_one.is_none() => Ok(Err(why.to_owned())),
                Some(_) => Err(format!("devices of one moment are refused: {why}")),
                None => Err(why),
            },
        }
    }
}

/// A session: its number and its nonce.
type Session = (u64, u64);

/// The sessions of a moment, read here without the engine.
#[derive(Debug)]
struct Sessions {
    id: [u8; 16],
    of_disk: Session,
    /// The sessions whose disks have the content of the log.
    of_log: Vec<Session>,
}

fn sessions(media: &Media) -> Sessions {
    let read = |device: &MemoryDevice, at| {
        let mut block = vec![0; BLOCK_BYTES];
        device.read(at, &mut block).expect("a moment can be read");
        block
    };
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes of a block"))
    };
    let labels = (0..label::COPIES).map(|copy| read(&media.disk, copy * label::COPY_STRIDE));
    let newest =
        labels.filter_map(|block| label::Label::decode(&block).ok()).max_by_key(|label| label.sequence);
    let masters = [0, MASTER_STRIDE].map(|at| read(&media.log, at));
    // Records are appended only when both blocks record the start of the session. Until then the session has
    // changed nothing, whether or not the disk records it.
    let of_block = |block: &Vec<u8>| {
        let before = (block[80] == 0).then(|| (word(block, 72) - 1, word(block, 128)));
        [Some((word(block, 72), word(block, 120))), before]
    };
    let label = newest.expect("a moment's disk has a label");
    Sessions {
        id: label.disk.0,
        of_disk: (label.session.number, label.session.nonce),
        of_log: masters.iter().flat_map(of_block).flatten().collect(),
    }
}

/// The sentence with which an open was refused. `None`: it was not refused, or without a reason.
fn refusal(why: &str) -> Option<&str> {
    let sentence = why.strip_prefix("opening the layer: ").or_else(|| why.strip_prefix("restarting: "))?;
    let names_one = ["disk", "log", "flash", "cache"].iter().any(|name| sentence.contains(name));
    (names_one && sentence.len() > SENTENCE).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_core::PolicyKind;

    /// Every combination of the seven states of the three devices.
    #[test]
    fn each_combination_opens_rightly_or_is_refused() {
        let systems = [
            Subject::DISK_ONLY,
            Subject::cached(PolicyKind::FaceGsc),
            Subject::write_through(PolicyKind::FaceGsc),
            Subject::cached(PolicyKind::Lc),
        ];
        let mut wrong = Vec::new();
        for (seed, system) in systems.into_iter().enumerate() {
            let bank = Bank { clients: 2, accounts: 200, ..Bank::default() };
            let shelf = Exchanged { system, bank, seed: seed as u64, transactions: 8 }.shelf().unwrap();
            let (mut opened, mut refused) = (0, 0);
            for disk in DeviceState::ALL {
                for log in DeviceState::ALL {
                    let flashes = if system == Subject::DISK_ONLY {
                        &[DeviceState::Current][..]
                    } else {
                        &DeviceState::ALL
                    };
                    for flash in flashes {
                        let states = [disk, log, *flash];
                        match shelf.open(states, seed as u64) {
                            Ok(Ok(())) => opened += 1,
                            Ok(Err(_)) => refused += 1,
                            Err(why) => wrong.push(format!("{system}, {states:?}: {why}")),
                        }
                    }
                }
            }
            println!("{system}: {opened} opened, {refused} refused");
            assert!(opened >= 7 && refused > 20, "{system}: {opened} opened, {refused} refused");
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}
