//! Recovery of one crash state, and the check of its pages.
//!
//! Invariant: under any fault, a page is served in a version that the oracle admits, or not at all. It may be
//! missing only where the rules of the case allow it.

use super::cache::{Cache, Opened};
use super::content::version;
use super::database::Stop;
use super::oracle::Oracle;
use super::point::{Point, observe};
use super::script::Shape;
use crate::life::simulation;
use crate::machine::{Machine, Media};
use entresol_core::PageId;
use entresol_device::{Device, FaultPlan};
use entresol_engine::{Fetched, Layer, Source, TierError, check};
use entresol_runtime::sim::Outcome;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How the open of a cache must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The cache opens.
    Must,
    /// The cache opens, or is refused with a sentence.
    May,
    /// The cache was not created completely: it opens, or can be created again.
    Birth,
}

/// The effects that a case allows.
#[derive(Debug)]
pub(super) struct Rules {
    pub opening: Opening,
    /// Versions that the layer reported durable must be found, too.
    pub believe_layer: bool,
    /// A page may be reported as damaged on flash, by its number.
    pub damage: bool,
    /// A page may be reported as damaged on disk, by its number.
    pub disk_damage: bool,
    /// A torn copy on disk is repaired from the log: pages are written in place that flash does not have.
    pub torn: bool,
    /// Pages are written to disk before flash has them, so disk may be ahead of flash.
    pub disk_ahead: bool,
    /// With `disk_ahead`, a copy that flash has dropped may be back after a crash. So a version read from
    /// disk is no promise.
    pub copies_return: bool,
    /// Flash and disk break no invariant, before and after the recovery.
    pub sound: bool,
    /// A silent fault may strike while pages are judged. From then on these rules hold, too.
    pub meanwhile: Option<(Arc<FaultPlan>, Box<Rules>)>,
    /// Number of detected damages.
    pub noticed: AtomicU64,
}

impl Rules {
    /// After a power failure, with sound devices.
    pub(super) fn crash(cache: &Cache) -> Self {
        Self {
            opening: Opening::Must,
            believe_layer: true,
            damage: false,
            disk_damage: false,
            torn: !cache.keeps_dirty() || cache.keeps_out(),
            disk_ahead: !cache.keeps_dirty(),
            copies_return: cache.is_log() && !cache.keeps_dirty(),
            sound: true,
            meanwhile: None,
            noticed: AtomicU64::new(0),
        }
    }

    /// Before the cache was created completely.
    pub(super) fn birth(cache: &Cache) -> Self {
        Self { opening: Opening::Birth, sound: false, ..Self::crash(cache) }
    }

    /// After a silent loss or change on flash. If no page on flash is needed, nothing is lost; otherwise the
    /// loss is reported.
    pub(super) fn silent(cache: &Cache) -> Self {
        let needed = cache.keeps_dirty();
        Self {
            opening: if needed { Opening::May } else { Opening::Must },
            believe_layer: false,
            damage: needed,
            sound: false,
            ..Self::crash(cache)
        }
    }

    /// After a device reported a fault. A tier that switched itself off has written pages in place; a torn
    /// one is repaired from the log.
    pub(super) fn failed(cache: &Cache) -> Self {
        Self { torn: true, sound: false, ..Self::crash(cache) }
    }

    /// After a silent change of a page on disk: it is detected when the page is read.
    pub(super) fn silent_disk(cache: &Cache) -> Self {
        Self { disk_damage: true, sound: false, ..Self::crash(cache) }
    }

    /// With another flash device than the right one, or none. It is refused where the right one is needed,
    /// and has no effect elsewhere.
    pub(super) fn exchanged(cache: &Cache) -> Self {
        let opening = if cache.keeps_dirty() { Opening::May } else { Opening::Must };
        Self { opening, sound: false, ..Self::crash(cache) }
    }

    /// Fetches a page. Returns the version found and its source. `None`: there is a torn copy on disk, and
    /// the log repairs it; or the page is damaged, and the damage was reported.
    pub(super) fn fetch(
        &self,
        layer: &dyn Layer,
        oracle: &Oracle,
        page: PageId,
        buffer: &mut [u8],
    ) -> Result<Option<(u64, Source)>, Stop> {
        let fetched = layer.fetch(page, buffer);
        let verdict = self.judge(&fetched, oracle, page, buffer);
        match (&verdict, &self.meanwhile) {
            // The same answer is judged again, without another fetch: a wrong answer remains wrong.
            (Err(Stop::Wrong(_)), Some((plan, rules))) if plan.struck() > 0 => {
                rules.judge(&fetched, oracle, page, buffer)
            }
            _ => verdict,
        }
    }

    /// Judges the answer to a fetch of `page`; `bytes` is the served page.
    fn judge(
        &self,
        fetched: &Result<Fetched, TierError>,
        oracle: &Oracle,
        page: PageId,
        bytes: &[u8],
    ) -> Result<Option<(u64, Source)>, Stop> {
        match fetched {
            Ok(fetched) => {
                let found = version(page, bytes).map_err(Stop::Wrong)?;
                let ahead = self.disk_ahead && fetched.source == Source::Disk;
                match oracle.admits(page, found, self.believe_layer)
                    || ahead && oracle.may_be_on_disk(page, found)
                {
                    true => Ok(Some((found, fetched.source))),
                    false => Err(Stop::Wrong(format!(
                        "page {page} was found at version {found} ({:?}): {}",
                        fetched.source,
                        oracle.describe(page)
                    ))),
                }
            }
            Err(TierError::Damaged { page: named, .. }) if *named != page => {
                Err(Stop::Wrong(format!("page {named} was reported damaged to who fetched page {page}")))
            }
            // Only the device knows the reason.
            Err(error @ TierError::Unreadable { .. })
                if !(self.disk_damage || self.torn && oracle.may_be_torn(page)) =>
            {
                Err(Stop::Refused(error.clone()))
            }
            Err(TierError::Damaged { place, .. } | TierError::Unreadable { place, .. })
                if place.starts_with("disk") =>
            {
                if self.disk_damage {
                    self.noticed.fetch_add(1, Relaxed);
                    return Ok(None);
                }
                if oracle.admits(page, 0, self.believe_layer) {
                    return Ok(Some((0, Source::Disk)));
                }
                match self.torn && oracle.may_be_torn(page) {
                    true => Ok(None),
                    false => Err(Stop::Wrong(format!(
                        "page {page} is damaged on disk: {}; the layer's word counts: {}",
                        oracle.describe(page),
                        self.believe_layer
                    ))),
                }
            }
            Err(TierError::Damaged { .. }) if self.damage => {
                self.noticed.fetch_add(1, Relaxed);
                Ok(None)
            }
            Err(error) => Err(Stop::Refused(error.clone())),
        }
    }
}

/// The result of a recovery.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// Pages compared with the oracle.
    pub pages: u64,
    /// Damage was detected, or the flash was refused.
    pub noticed: bool,
    /// Moments at which the recovery could have been cut off.
    pub points: Vec<Point>,
}

/// Runs `body` in a simulation with this seed. An error describes a panic, or tasks that wait forever.
/// `None`: power failed.
pub(super) fn simulate<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> Result<Option<T>, String> {
    match simulation(seed).run(body) {
        Outcome::Finished(result) => Ok(Some(result)),
        Outcome::Halted => Ok(None),
        Outcome::Deadlock { parked } => Err(format!("nothing goes on: {parked:?} wait for ever")),
        Outcome::Panicked(message) => Err(message),
    }
}

/// As [`simulate`], without a power failure.
pub(super) fn undisturbed<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> Result<T, String> {
    simulate(seed, body)?.ok_or_else(|| "the simulation was halted though no crash was planned".to_owned())
}

/// Opens the cache on these devices as `opening` demands. Returns it with the notices of the open.
pub(super) fn open(machine: &Machine, cache: &Cache, opening: Opening) -> Result<Opened, TierError> {
    match cache.open(machine) {
        // If sectors are unreadable, the owner of the cache must allow that it is created again.
        Err(TierError::Refused(_)) if opening == Opening::Birth => cache.overwriting().create(machine),
        result => result,
    }
}

/// Recovers from `media` and compares each page with `oracle`.
pub(super) fn recover(
    shape: &Shape,
    media: Media,
    oracle: &Oracle,
    rules: &Rules,
    seed: u64,
) -> Result<Recovered, String> {
    recover_on(shape, Machine::new(media, FaultPlan::none(), 0), oracle, rules, seed, false)
}

/// As [`recover`], on a machine. If `watch` is set, the moments of the recovery are recorded.
pub(super) fn recover_on(
    shape: &Shape,
    mut machine: Machine,
    oracle: &Oracle,
    rules: &Rules,
    seed: u64,
    watch: bool,
) -> Result<Recovered, String> {
    if rules.sound {
        shape.cache.expect_sound(&machine, "after the crash")?;
    }
    let points = watch.then(|| observe(&mut machine, Arc::new(Mutex::new(oracle.clone())), 1, None));
    let result = undisturbed(seed, || -> Result<(u64, bool), Stop> {
        let (tier, notices) = open(&machine, &shape.cache, rules.opening)?;
        if rules.sound
            && let Some(odd) = notices.iter().find(|notice| !is_usual(notice))
        {
            return Err(Stop::Wrong(format!("the cache opens with the notice {odd:?}")));
        }
        let mut buffer = vec![0; shape.cache.page_bytes() as usize];
        let mut pages = 0;
        for page in oracle.ids() {
            rules.fetch(&*tier, oracle, page, &mut buffer)?;
            pages += 1;
        }
        let noticed = !notices.is_empty() || shape.cache.is_damaged(&*tier);
        Ok((pages, noticed))
    })?;
    let points = points.map(|points| points.take()).unwrap_or_default();
    if result.is_ok() && rules.sound {
        shape.cache.expect_sound(&machine, "after the restart")?;
    }
    conclude(rules, result, points)
}

/// The result of a recovery that ended with `result` (pages compared, and whether damage was detected).
pub(super) fn conclude(
    rules: &Rules,
    result: Result<(u64, bool), Stop>,
    points: Vec<Point>,
) -> Result<Recovered, String> {
    match result {
        Ok((pages, noticed)) => {
            let noticed = noticed || rules.noticed.load(Relaxed) > 0;
            Ok(Recovered { pages, noticed, points })
        }
        Err(Stop::Wrong(sentence)) => Err(sentence),
        Err(Stop::Refused(TierError::Refused(_) | TierError::Damaged { .. }))
            if rules.opening == Opening::May =>
        {
            Ok(Recovered { pages: 0, noticed: true, points })
        }
        // A background dequeue has read the damaged page first. The tier has stopped, and its reason names
        // the page.
        Err(Stop::Refused(TierError::Poisoned { reason, .. }))
            if rules.damage && reason.contains("is damaged") =>
        {
            Ok(Recovered { pages: 0, noticed: true, points })
        }
        Err(Stop::Refused(error)) => Err(format!("the cache does not come back: {error}")),
    }
}

/// Whether the notice is also given after ordinary crashes.
fn is_usual(notice: &str) -> bool {
    notice.contains("were copied to disk first")
        || notice.contains("were written there again")
        || notice.starts_with("superblock copy")
}

/// Whether a check of these media finds a defect.
pub(super) fn is_found_out(media: &Media) -> bool {
    let disk: Arc<dyn Device> = Arc::new(media.disk.fork("disk"));
    !check(&media.flash, Some(disk)).is_ok_and(|report| report.is_sound())
}

#[cfg(test)]
mod tests {
    use super::super::content::build;
    use super::super::target::Target;
    use super::*;
    use entresol_core::{PolicyKind, Position};
    use entresol_device::{Fault, Injection, MemoryDevice};
    use entresol_engine::{
        Binding, Evicted, Mode, Session, TierMetrics, TierOptions, Upstream, Uuid, Victim,
    };
    use entresol_format::page;
    use std::sync::Weak;

    const PAGE: PageId = PageId(1);

    /// A layer that gives the same answer to every fetch.
    struct Answer(Result<Vec<u8>, TierError>);

    impl Layer for Answer {
        fn fetch(&self, _: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
            buffer.copy_from_slice(self.0.as_ref().map_err(Clone::clone)?);
            Ok(Fetched { source: Source::Flash, dirty: false, fdirty: false })
        }
        fn evict(&self, victim: Victim, _: &[u8]) -> Result<Evicted, TierError> {
            Ok(Evicted { dirty: victim.dirty })
        }
        fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
            self.evict(victim, data).map(Some)
        }
        fn checkpoint(&self) -> Result<(), TierError> {
            Ok(())
        }
        fn attach(&self, _: Weak<dyn Upstream>) {}
        fn capacity_pages(&self) -> u64 {
            u64::from(u32::MAX)
        }
        fn binding(&self) -> Result<Binding, TierError> {
            Ok(Binding { disk: Uuid::NIL, log: Uuid::NIL, session: Session::default() })
        }
        fn bind_log(&self, _: Uuid, _: Session) -> Result<(), TierError> {
            Ok(())
        }
        fn metrics(&self) -> TierMetrics {
            TierMetrics::default()
        }
        fn close(&self) -> Result<(), TierError> {
            Ok(())
        }
    }

    fn served(page: PageId, version: u64) -> Answer {
        let mut bytes = vec![0; 4096];
        build(page, version, &mut bytes);
        page::seal(&mut bytes, page, Position(9));
        Answer(Ok(bytes))
    }

    fn damaged(page: PageId, place: &str) -> Answer {
        Answer(Err(TierError::Damaged { page, place: place.into(), fault: "made up".into() }))
    }

    fn cache(mode: Mode) -> Cache {
        Cache::Tier(TierOptions { mode, ..TierOptions::new(PolicyKind::FaceGsc, 64) })
    }

    /// The rules of all cases, for a cache whose flash is needed and for one whose flash is not.
    fn all_rules() -> Vec<Rules> {
        let each = |mode: Mode| {
            let cache = cache(mode);
            assert_eq!(cache.target(), Target::new(PolicyKind::FaceGsc, mode));
            let of = [
                Rules::crash,
                Rules::birth,
                Rules::silent,
                Rules::failed,
                Rules::silent_disk,
                Rules::exchanged,
            ];
            of.map(|rules| rules(&cache))
        };
        [Mode::WriteBack, Mode::WriteThrough].into_iter().flat_map(each).collect()
    }

    /// Versions 1 to 4 of each page: 2 is promised, 3 was reported durable, 4 is being evicted.
    fn oracle() -> Oracle {
        let mut oracle = Oracle::new(3, 1);
        for page in (0..3).map(PageId) {
            for _ in 2..=4 {
                let version = oracle.change(page);
                oracle.hand(page, version);
            }
        }
        oracle.promise(&[2; 3]);
        oracle.tell(PAGE, 3);
        oracle
    }

    fn verdict(rules: &Rules, answer: &Answer) -> Result<Option<(u64, Source)>, Stop> {
        rules.fetch(answer, &oracle(), PAGE, &mut [0; 4096])
    }

    fn is_wrong(rules: &Rules, answer: &Answer) -> bool {
        matches!(verdict(rules, answer), Err(Stop::Wrong(_)))
    }

    /// These rules as the rules of a life in which a silent fault has struck.
    fn struck(rules: Rules, mode: Mode) -> Rules {
        let strike = Injection { at: 1, device: None, fault: Fault::LostWrite, forever: false };
        let plan = Arc::new(FaultPlan::new(1, vec![strike]));
        let device =
            entresol_device::FaultyDevice::new("flash", MemoryDevice::new("flash", 4096), plan.clone());
        device.write(0, &[1; 512]).unwrap();
        assert_eq!(plan.struck(), 1);
        Rules { meanwhile: Some((plan, Box::new(Rules::silent(&cache(mode))))), ..rules }
    }

    #[test]
    fn a_made_up_page_is_reported_whatever_went_wrong() {
        let mut mixed = served(PAGE, 3);
        let Answer(Ok(bytes)) = &mut mixed else { unreachable!("it is served") };
        let Answer(Ok(older)) = served(PAGE, 2) else { unreachable!("it is served") };
        bytes[1024..1536].copy_from_slice(&older[1024..1536]);
        let torn = Answer(Ok(bytes.clone()));
        page::seal(bytes, PAGE, Position(9));
        let wrong = [
            ("an older one than was promised", served(PAGE, 1)),
            ("one that never was", served(PAGE, 5)),
            ("another page", served(PageId(2), 3)),
            ("a damaged one", torn),
            ("one of two versions, well sealed", mixed),
            ("another page's damage", damaged(PageId(2), "flash slot 3")),
        ];
        let later =
            [Mode::WriteBack, Mode::WriteThrough].map(|mode| struck(Rules::failed(&cache(mode)), mode));
        for rules in all_rules().iter().chain(&later) {
            for (what, answer) in &wrong {
                assert!(is_wrong(rules, answer), "{what} passes {rules:?}");
            }
            assert!(matches!(verdict(rules, &served(PAGE, 4)), Ok(Some((4, _)))), "{rules:?}");
        }
    }

    /// A restart has found version 2 although 3 and 4 were evicted before. One of these may be found later
    /// only on disk, and only where pages are written to disk first.
    #[test]
    fn disk_is_ahead_of_flash_only_where_it_is_written_first() {
        let mut oracle = oracle();
        oracle.found(PAGE, 2);
        let judge = |rules: &Rules, source: Source| {
            let Answer(Ok(bytes)) = served(PAGE, 3) else { unreachable!("it is served") };
            let fetched = Ok(Fetched { source, dirty: false, fdirty: false });
            rules.judge(&fetched, &oracle, PAGE, &bytes)
        };
        for rules in [Rules::crash, Rules::failed, Rules::silent, Rules::exchanged] {
            let [back, through] = [Mode::WriteBack, Mode::WriteThrough].map(|mode| rules(&cache(mode)));
            assert!(matches!(judge(&through, Source::Disk), Ok(Some((3, _)))), "{through:?}");
            assert!(matches!(judge(&through, Source::Flash), Err(Stop::Wrong(_))), "{through:?}");
            assert!(matches!(judge(&back, Source::Disk), Err(Stop::Wrong(_))), "{back:?}");
        }
    }

    #[test]
    fn copies_return_to_a_log_that_is_not_needed_only() {
        let returns = |policy, mode| {
            let options = TierOptions { mode, ..TierOptions::new(policy, 64) };
            Rules::crash(&Cache::Tier(options)).copies_return
        };
        assert!(returns(PolicyKind::FaceGsc, Mode::WriteThrough));
        assert!(!returns(PolicyKind::FaceGsc, Mode::WriteBack), "nothing on disk is newer than on flash");
        for policy in [PolicyKind::Tac, PolicyKind::Lc, PolicyKind::Lru, PolicyKind::Flashcache] {
            assert!(
                !returns(policy, Mode::WriteThrough),
                "an invalidation is durable, or all of flash is forgotten"
            );
        }
    }

    #[test]
    fn what_the_layer_called_durable_may_be_missing_after_a_silent_fault_only() {
        let older = served(PAGE, 2);
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            let cache = cache(mode);
            assert!(is_wrong(&Rules::crash(&cache), &older) && is_wrong(&Rules::failed(&cache), &older));
            assert!(matches!(verdict(&Rules::silent(&cache), &older), Ok(Some((2, _)))));
            let unstruck = (Arc::new(FaultPlan::none()), Box::new(Rules::silent(&cache)));
            let rules = Rules { meanwhile: Some(unstruck), ..Rules::failed(&cache) };
            assert!(is_wrong(&rules, &older), "nothing has struck");
            let rules = struck(Rules::failed(&cache), mode);
            assert!(matches!(verdict(&rules, &older), Ok(Some((2, _)))));
        }
    }

    #[test]
    fn damage_is_let_pass_where_the_case_allows_it_only() {
        let (flash, disk) = (damaged(PAGE, "flash slot 3"), damaged(PAGE, "disk"));
        let [back, through] = [Mode::WriteBack, Mode::WriteThrough].map(cache);
        let refused = |rules: &Rules| matches!(verdict(rules, &flash), Err(Stop::Refused(_)));
        assert!(refused(&Rules::crash(&back)) && refused(&Rules::failed(&back)));
        assert!(refused(&Rules::silent(&through)), "flash that nobody needs");
        let rules = Rules::silent(&back);
        assert!(matches!(verdict(&rules, &flash), Ok(None)));
        assert_eq!(rules.noticed.load(Relaxed), 1);
        assert!(is_wrong(&Rules::crash(&back), &disk), "a log on flash needs no images");
        assert!(matches!(verdict(&Rules::crash(&through), &disk), Ok(None)), "torn, and in the log");
        let reuse = TierOptions { mode: Mode::WriteBack, ..TierOptions::new(PolicyKind::Reuse, 64) };
        assert!(Rules::crash(&Cache::Tier(reuse)).torn, "pages that are kept out are written in place");
        assert!(matches!(verdict(&Rules::silent_disk(&back), &disk), Ok(None)));
        let damage =
            || Err(Stop::Refused(TierError::Damaged { page: PAGE, place: "x".into(), fault: "y".into() }));
        assert!(conclude(&Rules::crash(&back), damage(), Vec::new()).is_err());
        assert!(conclude(&Rules::silent(&through), damage(), Vec::new()).is_err());
        assert!(conclude(&Rules::silent(&back), damage(), Vec::new()).is_ok_and(|found| found.noticed));
        let wrong = || Err(Stop::Wrong("made up".into()));
        assert!(all_rules().iter().all(|rules| conclude(rules, wrong(), Vec::new()).is_err()));
    }
}
