//! What cannot be replaced is refused, and nothing is changed by it, neither in the folder of the cluster nor
//! on the flash.

use super::super::kill;
use super::super::standby::wait_until_primary;
use super::{Lost, PATIENCE, SIGNAL, expect};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Of the write-ahead log, as initdb makes it.
const SEGMENT_BYTES: usize = 16 << 20;
/// By this file an owner asks for a recovery from an archive.
const RECOVERY: &str = "recovery.signal";
/// A recovery that may end before the end of the log.
const TARGETS: [&str; 2] = [
    "-c restore_command=false -c recovery_target_lsn=0/FFFFFFFF",
    "-c restore_command=false -c recovery_target=immediate",
];

/// A checkpoint, as the file of the horizon names it.
struct Horizon {
    record: u64,
    redo: u64,
}

impl Lost<'_> {
    /// What is refused.
    pub(super) fn refusals(&self) -> Result<()> {
        self.await_promise()?;
        let acknowledged = kill::processed(self.load("3")?)?;
        self.server.kill()?;
        let with_flash = self.state()?;
        let kept = self.flash().with_extension("kept");
        fs::rename(self.flash(), &kept)?;
        let said = self.server.refuses_to_start()?;
        expect(&said, "cannot be used by this cluster")?;
        expect(&said, "flash_lost.signal")?;
        self.signal()?;
        self.targets().context("lost: a target, without the flash")?;
        // A segment between the horizon and now.
        let segment = self.segment_of(self.horizon()?.redo)?;
        let aside = self.server.data().with_file_name("segment");
        fs::rename(&segment, &aside)?;
        expect(&self.server.refuses_to_start()?, "WAL cannot replace the flash cache")?;
        fs::rename(&aside, &segment)?;
        fs::rename(&kept, self.flash())?;
        self.targets().context("lost: a target, with the flash and the signal")?;
        // The flash is still the cluster's.
        fs::remove_file(self.server.data().join(SIGNAL))?;
        self.is_as_before(&with_flash)?;
        self.room().context("lost: with its flash, after refusals")?;
        kill::check(&self.server, acknowledged)?;
        println!(
            "lost: refused without the signal, for targets, and with a missing segment; then everything is there"
        );
        self.damaged_record()
    }

    /// The server warns if its file system has no room for the log that it is to keep.
    fn room(&self) -> Result<()> {
        const WARNING: &str = "and WAL may grow by";
        let start = |options: &str| -> Result<usize> {
            let before = self.server.said();
            self.server.start_with(options)?;
            self.await_promise()?;
            Ok(before)
        };
        let before = start("-c entresol.wal_keep_size=1000TB")?;
        let until = Instant::now() + PATIENCE;
        while !self.server.said_since(before)?.contains(WARNING) {
            if Instant::now() > until {
                bail!("it does not warn, though there is no room");
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.server.stop_at_once()?;
        let before = start("")?;
        match self.server.said_since(before)?.contains(WARNING) {
            true => bail!("it warns, though there is room"),
            false => Ok(()),
        }
    }

    /// A recovery to a target is refused, and changes nothing.
    fn targets(&self) -> Result<()> {
        let recovery = self.server.data().join(RECOVERY);
        fs::write(&recovery, "")?;
        self.server.own(&recovery)?;
        let before = self.state()?;
        for target in TARGETS {
            let said = self.server.refuses_to_start_with(target)?;
            expect(&said, "WAL cannot replace the flash cache").context(target)?;
            expect(&said, "is to end at a target").context(target)?;
            self.is_as_before(&before).context(target)?;
        }
        fs::remove_file(recovery)?;
        Ok(())
    }

    /// A record between the horizon and the last checkpoint is damaged: the end of a replay is not there.
    /// Then an archive has the segment.
    fn damaged_record(&self) -> Result<()> {
        self.await_promise()?;
        let acknowledged = kill::processed(self.load("2")?)?;
        self.server.stop()?;
        fs::remove_file(self.flash())?;
        self.signal()?;
        let damage = self.damage()?;
        let said = self.server.refuses_to_start()?;
        expect(&said, "before the checkpoint at")?;
        // The flash was given up: that counts, with the signal or without.
        fs::remove_file(self.server.data().join(SIGNAL))?;
        self.targets().context("lost: a target, after a replay that was cut off")?;
        damage.is_archived()?;
        let recovery = self.server.data().join(RECOVERY);
        fs::write(&recovery, "")?;
        self.server.own(&recovery)?;
        let before = self.server.said();
        self.server.start_with(&damage.restore_command()).context("lost: with the segment in an archive")?;
        self.is_complete_after(before, || Ok(()))?;
        wait_until_primary(&self.server)?;
        damage.is_consistent_after_it(&self.server.said_since(before)?)?;
        kill::check(&self.server, acknowledged).context("lost: with the segment in an archive")?;
        println!("lost: a damaged record was noticed, and an archive had it");
        Ok(())
    }

    /// Damages a page of the log after the horizon's record, and before the last checkpoint.
    pub(super) fn damage(&self) -> Result<Damage> {
        let at = self.horizon()?.record + (16 << 10);
        let segment = self.segment_of(at)?;
        let whole = fs::read(&segment)?;
        let mut damaged = whole.clone();
        let from = (at as usize % SEGMENT_BYTES) / 8192 * 8192;
        damaged[from..from + 8192].fill(0);
        fs::write(&segment, &damaged)?;
        let archive = self.server.data().with_file_name("archive");
        fs::create_dir_all(&archive)?;
        self.server.own(&archive)?;
        Ok(Damage { at: at / 8192 * 8192, segment, whole, archive })
    }

    /// The horizon that is promised.
    fn horizon(&self) -> Result<Horizon> {
        let text = fs::read_to_string(self.server.data().join("entresol/horizon"))?;
        let promised = text.lines().find_map(|line| line.strip_prefix("promised ")).context("no promise")?;
        let line = text.lines().find(|line| line.starts_with(&format!("checkpoint {promised} ")));
        let mut words = line.context("no horizon")?.split(' ').skip(2);
        let mut next = || lsn_of(words.next().unwrap_or_default());
        Ok(Horizon { record: next()?, redo: next()? })
    }

    /// Its REDO pointer.
    pub(super) fn horizon_redo(&self) -> Result<u64> {
        Ok(self.horizon()?.redo)
    }

    /// The segment with this LSN, of the first timeline.
    fn segment_of(&self, lsn: u64) -> Result<PathBuf> {
        let name = format!("{:08X}{:08X}{:08X}", 1, lsn >> 32, (lsn & 0xffff_ffff) as usize / SEGMENT_BYTES);
        let path = self.server.data().join("pg_wal").join(name);
        if !path.exists() {
            bail!("{} is not there", path.display());
        }
        Ok(path)
    }

    /// All files of the stopped cluster and its flash, with what they hold. Not the options of the last
    /// start, nor histories of timelines, which a start takes from an archive before it decides.
    pub(super) fn state(&self) -> Result<State> {
        let mut state = State::new();
        add(self.server.data(), &mut state)?;
        let is_left_out = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "postmaster.opts" || name.contains(".history")
        };
        state.retain(|path, _| !is_left_out(path));
        if self.flash().exists() {
            state.insert(self.flash(), of_file(&self.flash())?);
        }
        Ok(state)
    }

    pub(super) fn is_as_before(&self, before: &State) -> Result<()> {
        let now = self.state()?;
        let differs = |path: &&PathBuf| before.get(*path) != now.get(*path);
        match before.keys().chain(now.keys()).find(differs) {
            None => Ok(()),
            Some(path) => bail!("{} was changed, made or removed by what was refused", path.display()),
        }
    }
}

/// Files, with a sum of their bytes.
pub(super) type State = BTreeMap<PathBuf, u64>;

fn of_file(path: &Path) -> Result<u64> {
    let mut sum = DefaultHasher::new();
    fs::read(path).with_context(|| path.display().to_string())?.hash(&mut sum);
    Ok(sum.finish())
}

/// Links are followed: tablespaces belong to it.
fn add(folder: &Path, state: &mut State) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => add(&path, state)?,
            false => _ = state.insert(path.clone(), of_file(&path)?),
        }
    }
    Ok(())
}

/// A page of the log that is zeros.
pub(super) struct Damage {
    at: u64,
    segment: PathBuf,
    whole: Vec<u8>,
    archive: PathBuf,
}

impl Damage {
    /// An archive has the segment as it was.
    fn is_archived(&self) -> Result<()> {
        let name = self.segment.file_name().context("a segment has a name")?;
        Ok(fs::write(self.archive.join(name), &self.whole)?)
    }

    fn restore_command(&self) -> String {
        format!("-c \"restore_command=cp {}/%f %p\"", self.archive.display())
    }

    /// The files have changes that the log has after the damage.
    fn is_consistent_after_it(&self, said: &str) -> Result<()> {
        let at = consistent_at(said)?;
        if at <= self.at {
            bail!("the files were taken for consistent at {at:X}, before the damage at {:X}", self.at);
        }
        Ok(())
    }
}

/// Where the server has said that its files are consistent.
pub(super) fn consistent_at(said: &str) -> Result<u64> {
    let reached = "consistent recovery state reached at ";
    let found = said.lines().find_map(|line| line.split_once(reached)).context("it was never consistent")?;
    lsn_of(found.1.trim())
}

/// An LSN as PostgreSQL writes it.
pub(super) fn lsn_of(text: &str) -> Result<u64> {
    let (high, low) = text.split_once('/').with_context(|| format!("{text:?} is no LSN"))?;
    Ok(u64::from_str_radix(high, 16)? << 32 | u64::from_str_radix(low, 16)?)
}
