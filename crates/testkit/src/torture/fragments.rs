//! Trials for caches of fragments only. Their directory is in memory and starts empty, so there is nothing to
//! recover. All faults of their flash occur while it is in use.

use super::cache::Cache;
use super::damage::{Moment, newest_superblock};
use super::database::{Database, Stop};
use super::fault::FaultKind;
use super::judge::{Recovered, Rules, conclude, recover, undisturbed};
use super::script::{Op, Script, Shape, smallest};
use super::trial::{Note, Trial};
use crate::machine::{Machine, Media};
use entresol_core::{PageId, PolicyKind};
use entresol_device::{FaultPlan, MemoryDevice};
use entresol_engine::{FragmentOptions, Mode, TierError, TierOptions};
use entresol_format::superblock::Superblock;
use entresol_runtime::rng::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// Operations between two faults of the flash.
const WORK: u64 = 40;
const KINDS: [FaultKind; 4] =
    [FaultKind::LostWrite, FaultKind::LostWrite, FaultKind::MisdirectedWrite, FaultKind::DuplicatedWrite];

/// A flash tier in the place where another database's fragments are expected, for some seeds: with pages that
/// its disk does not have, or without such pages.
pub(super) fn tier_in_place(script: &Script) -> Option<TierOptions> {
    let mode = match script.seed % 4 {
        0 => Mode::WriteBack,
        1 => Mode::WriteThrough,
        _ => return None,
    };
    let page_bytes = script.shape.cache.page_bytes();
    smallest(PolicyKind::FaceGsc, mode, 4, 2).map(|options| TierOptions { page_bytes, ..options })
}

impl Trial<'_> {
    /// Opens the cache with other settings.
    pub(super) fn other_knobs(&mut self, options: &FragmentOptions, note: Note<'_>) -> bool {
        let FragmentOptions { slots, fragment_pages, .. } = *options;
        let options = FragmentOptions {
            slots: (slots * fragment_pages).div_ceil(2),
            fragment_pages: 1 + self.rng.below(2) as u32,
            workers: 1 + self.rng.below(3) as u32,
            proofs_kept: self.rng.below(3) as u32,
            ..*options
        };
        let shape = Shape { cache: Cache::Fragments(options), ..self.script.shape.clone() };
        if shape.cache.flash_bytes() > self.script.shape.cache.flash_bytes() {
            return true;
        }
        let rules = self.rules(Rules::crash(&shape.cache));
        let seed = self.rng.next_u64();
        let result = recover(&shape, self.media.fork(), self.oracle, &rules, seed);
        note((FaultKind::Crash, None), result.map_err(|why| format!("opened with other knobs: {why}")))
    }

    /// The flash contains pages that another database needs. The flash is refused and stays unchanged.
    pub(super) fn needed_elsewhere(
        &mut self,
        flash: &MemoryDevice,
        needed: &Superblock,
        note: Note<'_>,
    ) -> bool {
        let media = Media { flash: flash.fork("flash"), ..self.media.fork() };
        let machine = Machine::new(media, FaultPlan::none(), 0);
        let cache = &self.script.shape.cache;
        let opened = undisturbed(self.rng.next_u64(), || cache.open(&machine).map(drop));
        let left = machine.after_crash(self.rng.next_u64());
        let result = match opened {
            Err(why) => Err(why),
            Ok(Err(TierError::Refused(_))) if newest_superblock(&left.flash) == Some(*needed) => {
                Ok(Recovered { noticed: true, ..Recovered::default() })
            }
            Ok(other) => Err(format!("it is not refused and left as it was: {other:?}")),
        };
        let told = |why| format!("the flash holds pages that another database needs: {why}");
        if !note((FaultKind::ForeignFlash, Some("flash")), result.map_err(told)) {
            return false;
        }
        // The refusal has changed nothing.
        let media = Media { flash: self.media.flash.fork("flash"), ..left };
        let rules = self.rules(Rules::crash(cache));
        let seed = self.rng.next_u64();
        let result = recover(&self.script.shape, media, self.oracle, &rules, seed);
        note((FaultKind::ForeignFlash, Some("flash")), result)
    }

    /// Writes to flash are lost or misdirected while the cache is in use. Some slots contain again an earlier
    /// content, of this life or of its beginning, or the content of other slots.
    pub(super) fn lost_in_use(&mut self, note: Note<'_>) -> bool {
        let shape = &self.script.shape;
        let cache = &shape.cache;
        let kind = KINDS[self.rng.below(KINDS.len() as u64) as usize];
        let machine = Machine::new(self.media.fork(), FaultPlan::none(), 0);
        let rules = self.rules(Rules::silent(cache));
        let (seed, pages, oracle) = (self.rng.next_u64(), shape.pages, self.oracle.clone());
        let flash = machine.flash();
        let done = undisturbed(seed, || -> Result<(u64, bool), Stop> {
            let (tier, _) = cache.open(&machine)?;
            let oracle = Arc::new(Mutex::new(oracle));
            let database = Database::new(tier.clone(), oracle, cache.page_bytes(), 1, shape.frames);
            database.recover(&rules)?;
            let mut rng = Rng::new(seed);
            // The flash at the beginning of the life.
            let mut before = Moment::of(&self.media.flash, cache);
            for _ in 0..3 {
                let work = (0..WORK).map(|_| {
                    let page = PageId(rng.below(pages).min(rng.below(pages)));
                    if rng.below(4) == 0 { Op::Write(page) } else { Op::Read(page) }
                });
                let work: Vec<Op> = work.collect();
                database.run(0, &work)?;
                let now = Moment::of(&*flash, cache);
                before.bring_back(&mut rng, kind, &now, &*flash);
                let all: Vec<Op> = (0..pages).map(|page| Op::Read(PageId(page))).collect();
                database.run(0, &all)?;
                before = now;
            }
            Ok((3 * pages, cache.is_damaged(&*tier)))
        });
        let result = done.and_then(|result| conclude(&rules, result, Vec::new()));
        note((kind, Some("flash")), result.map_err(|why| format!("{kind} while the cache was in use: {why}")))
    }
}
