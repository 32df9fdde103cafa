//! What a client knows of its pages, and what it may find.

use super::cache::Cache;
use super::files::Files;
use super::opened::Opened;
use super::outages::LATE;
use super::{PAGES, RawLives};
use entresol_core::PageId;
use entresol_device::FaultPlan;
use entresol_engine::{Source, TierError};
use entresol_format::PageFormat;
use entresol_runtime::Time;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const SECTOR_BYTES: usize = 512;

/// A page's bytes, which tell page and version.
pub(super) fn bytes(cache: Cache, page: u64, version: u64) -> Vec<u8> {
    let format = cache.page_format;
    let one = [page.to_le_bytes(), version.to_le_bytes()].concat();
    let Some(length) = format.page_bytes() else { return one.repeat(4096 / one.len()) };
    let mut bytes = one.repeat(length / one.len());
    // Every eighth version is of a page that PostgreSQL has not initialized.
    if !version.is_multiple_of(8) {
        format.unseal(&mut bytes, PageId(cache.number(page)));
    }
    bytes
}

/// The version that a sector says it is of.
fn number_in(sector: &[u8]) -> u64 {
    // Past the fields that PostgreSQL changes.
    let at = HEAD_BYTES + 8;
    let mut number = [0; 8];
    number.copy_from_slice(&sector[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The version in `found`, all of which must be of one version of the page; 0: what was on the disk before.
fn version(cache: Cache, page: u64, found: &[u8]) -> u64 {
    let number = number_in(found);
    let (head, body) = found.split_at(HEAD_BYTES);
    let mut one = [0; 16];
    one[..8].copy_from_slice(&page.to_le_bytes());
    one[8..].copy_from_slice(&number.to_le_bytes());
    let is_repeated = body.starts_with(&one) && body[one.len()..] == body[..body.len() - one.len()];
    if is_repeated && head == head_of(cache, page, number) { number } else { 0 }
}

/// The bytes of a page in which fields of PostgreSQL's may be.
const HEAD_BYTES: usize = 32;
/// Heads by page format, number in its object, page and version.
type Heads = HashMap<(PageFormat, u64, u64, u64), [u8; HEAD_BYTES]>;
/// Heads that a thread remembers.
const HEADS_MAX: usize = 1 << 14;

/// The first of [`bytes`]. They may hold a checksum of the page, which takes long to make, and most pages
/// of a crash state were in the one before: they are remembered.
fn head_of(cache: Cache, page: u64, version: u64) -> [u8; HEAD_BYTES] {
    thread_local! {
        static HEADS: RefCell<Heads> = RefCell::default();
    }
    let make = || {
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&bytes(cache, page, version)[..HEAD_BYTES]);
        head
    };
    HEADS.with_borrow_mut(|heads| {
        if heads.len() >= HEADS_MAX {
            heads.clear();
        }
        *heads.entry((cache.page_format, cache.number(page), page, version)).or_insert_with(make)
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0) && bytes[1..] == bytes[..bytes.len() - 1]
}

/// Whether each sector of `found` is of a version that may be there.
pub(super) fn is_torn_of(cache: Cache, page: u64, found: &[u8], known: Known) -> bool {
    // A trim is not whole pages: the disk may have made zeros of some sectors when power failed.
    let is_trimmed = known.trimmed > 0 && known.trimmed >= known.least;
    if known.newest == known.least && !is_trimmed {
        return false;
    }
    known.least == 0
        || found.chunks_exact(SECTOR_BYTES).enumerate().all(|(at, sector)| {
            let may_be_zero =
                [known.zeros, known.trimmed].iter().any(|of| (known.least..=known.newest).contains(of));
            if may_be_zero && is_zero(sector) {
                return true;
            }
            let number = number_in(sector);
            let whole = bytes(cache, page, number);
            sector == &whole[at * SECTOR_BYTES..][..SECTOR_BYTES]
                && (known.least..=known.newest).contains(&number)
        })
}

/// What a client knows of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The newest version written.
    pub newest: u64,
    /// At least this one must be there.
    pub least: u64,
    /// The newest version whose write was acknowledged since power failed last.
    pub acknowledged: u64,
    /// It was written past the flash once.
    pub straight: bool,
    /// It was forgotten since it was written.
    pub forgotten: bool,
    /// It was forgotten, and written after that; both may be lost, or only what was written.
    pub since_forgotten: bool,
    /// This was flushed, too.
    pub forget_durable: bool,
    /// Its place on disk is another page's.
    pub of_others: bool,
    /// The newest version of it that was zeros; 0: none was.
    pub zeros: u64,
    /// The newest version of it when it was trimmed last, and the disk may have made zeros of it; 0: never.
    pub trimmed: u64,
    /// Whether it was zeros when it was read first after that; `None`: it was not read since. It stays so.
    pub answer: Option<bool>,
    /// The last write of it has failed: it may be there, or an earlier one.
    pub unsure: bool,
}

/// What a client of the cache knows. Each has pages of its own.
#[derive(Clone)]
pub(super) struct Oracle {
    pub cache: Cache,
    pub client: u64,
    pub clients: u64,
    /// Changed pages are written to disk with no durable copy on flash.
    pub straight_to_disk: bool,
    /// The cache was emptied after a power failure: where that tore a write to disk, also one of what the
    /// disk had already, no whole copy is left.
    pub is_emptied: bool,
    /// What only the flash has may be unreadable in this life.
    pub may_lose: bool,
    /// As `may_lose`, in all later lives, too.
    pub has_lost: bool,
    /// As `may_lose`, after a power failure in the open that is under way.
    loses_in_open: bool,
    /// Tells when a device has failed for a while whose errors the client may notice.
    pub outages: Option<Arc<FaultPlan>>,
    /// What only the flash has may be unreadable for a while, in this life.
    pub may_be_unreadable: bool,
    /// When the client's last flush that succeeded has begun, in this life.
    flushed: Time,
    pub pages: BTreeMap<u64, Known>,
    pub next: u64,
    pub lives: RawLives,
}

/// An oracle that its client's task shares with what comes after it. Never held over a request.
pub(super) type Shared = Arc<Mutex<Oracle>>;

impl Oracle {
    pub fn new(cache: Cache, client: u64, clients: u64) -> Self {
        // PostgreSQL's new pages are not taken, and some policies keep pages out.
        let is_on_flash = cache.is_log() || cache.keeps_slots();
        let straight_to_disk = !is_on_flash || cache.learns() || cache.page_format != PageFormat::Raw;
        let (pages, lives) = (BTreeMap::new(), RawLives::default());
        Self {
            cache,
            client,
            clients,
            straight_to_disk,
            is_emptied: false,
            may_lose: false,
            has_lost: false,
            loses_in_open: false,
            outages: None,
            may_be_unreadable: false,
            flushed: Time::default(),
            pages,
            next: 0,
            lives,
        }
    }

    /// One of the client's pages, and those after it.
    pub fn some(&self, page: u64, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (first, clients) = (page / self.clients * self.clients + self.client, self.clients);
        (0..count).map(move |at| first + at * clients).filter(|page| *page < PAGES)
    }

    pub fn buffer(&self) -> Vec<u8> {
        vec![0; self.cache.page_bytes()]
    }

    /// Whether what came from `source` may be a forgotten page: read from disk, now or when it entered.
    pub fn comes_from_disk(&self, source: Source) -> bool {
        let enters_alone = !self.cache.keeps_slots() || self.cache.populates();
        source == Source::Disk || !self.cache.is_log() && enters_alone
    }

    pub fn version(&self, page: u64, found: &[u8]) -> u64 {
        let known = self.of(page);
        let is_zero = is_zero(found);
        match () {
            // The oldest that it may be.
            () if is_zero && known.trimmed > 0 && known.trimmed >= known.least => known.trimmed,
            () if is_zero && known.zeros > 0 => known.zeros,
            () => version(self.cache, page, found),
        }
    }

    /// `version` of `page`, which is to be written, is zeros.
    pub fn is_zero(&mut self, page: u64, version: u64) {
        let known = self.pages.entry(page).or_default();
        // They are made on the disk, past the flash.
        (known.zeros, known.straight) = (version, true);
    }

    /// These pages are to be trimmed, and all of them are this client's.
    pub fn are_trimmed(&mut self, pages: std::ops::Range<u64>) {
        for (_, known) in self.pages.range_mut(pages).filter(|_| self.clients == 1) {
            (known.trimmed, known.answer) = (known.newest, None);
        }
    }

    /// `found` was read. Of a page that was trimmed, and not written since, that is the answer from now on,
    /// be it from flash or from disk. False: it has been another one.
    pub fn is_answer(&mut self, page: u64, found: &[u8]) -> bool {
        let is_zero = is_zero(found);
        match self.pages.get_mut(&page) {
            Some(known) if known.trimmed > 0 && known.trimmed == known.newest && !known.unsure => {
                *known.answer.get_or_insert(is_zero) == is_zero
            }
            _ => true,
        }
    }

    /// Whether these pages are to be written past the flash: now and then, whole pages of the cache more
    /// often.
    pub fn may_go_straight(&mut self, pages: std::ops::Range<u64>, whole: bool) -> bool {
        let is_straight = entresol_runtime::random().is_multiple_of(if whole { 2 } else { 6 });
        for page in pages.filter(|_| is_straight) {
            self.pages.entry(page).or_default().straight = true;
        }
        is_straight
    }

    /// The write of `version` of `page` was acknowledged.
    pub fn is_acknowledged(&mut self, page: u64, version: u64) {
        let known = self.pages.entry(page).or_default();
        (known.acknowledged, known.unsure) = (version, false);
    }

    /// A write of `page` has failed, or a read, which has begun at `since`. False: that may not be.
    pub fn may_fail(&mut self, page: u64, error: &TierError, is_write: bool, since: Time) -> bool {
        let is_lost = self.may_lose && matches!(error, TierError::Lost { .. } | TierError::Damaged { .. });
        let may_fail = is_lost || self.has_met_outage(since);
        if is_write && may_fail {
            self.pages.entry(page).or_default().unsure = true;
        }
        self.lives.lost += u64::from(is_lost);
        self.lives.refused += u64::from(may_fail && !is_lost);
        may_fail
    }

    /// Whether a device has failed since then that the client may notice, or not long before: a disk that has
    /// refused something is asked again after a pause.
    pub fn has_met_outage(&self, since: Time) -> bool {
        let struck = self.outages.as_ref().and_then(|plan| plan.outage_struck());
        struck.is_some_and(|at| at + LATE >= since)
    }

    /// Since when a failure of a device may fail a flush, or a write that is durable: a failed sync is told
    /// by the next one.
    pub fn flushed(&self) -> Time {
        self.flushed
    }

    /// A flush, or a checkpoint, has failed. False: that may not be.
    pub fn flush_may_fail(&mut self) -> bool {
        let may_fail = self.has_met_outage(self.flushed);
        self.lives.refused += u64::from(may_fail);
        may_fail
    }

    /// The flash may fail in the open that follows, which carries out what a killed program has acknowledged:
    /// pages of which it cannot write a part are lost.
    pub fn may_lose_in_open(&mut self) {
        self.loses_in_open = true;
    }

    /// The next life begins. An open that was cut off may have lost pages.
    pub fn begins_life(&mut self) {
        (self.outages, self.may_be_unreadable, self.flushed) = (None, false, Time::default());
        self.has_lost |= std::mem::take(&mut self.loses_in_open);
    }

    /// That open is over, and has told of such pages, or of a flash that failed before and cannot be read
    /// now: as without it, what was on its way there when it failed counts as lost with it.
    pub fn has_opened(&mut self, opened: &Opened) {
        self.loses_in_open = false;
        self.may_lose |= opened.has_lost || opened.is_blind;
        self.has_lost |= opened.has_lost || opened.is_blind;
    }

    /// The program was killed, and the next one serves: what was acknowledged is there.
    pub fn is_served_after_kill(&mut self) {
        for known in self.pages.values_mut() {
            known.least = known.least.max(known.acknowledged);
        }
    }

    /// Syncs have failed, and the disk has dropped what was written: as after a power failure, but the
    /// program was killed.
    pub fn syncs_have_failed(&mut self) {
        self.pages.values_mut().for_each(|known| known.acknowledged = 0);
    }

    /// Power has failed: only what is durable is promised.
    pub fn power_has_failed(&mut self) {
        self.pages.values_mut().for_each(|known| (known.acknowledged, known.answer) = (0, None));
    }

    /// At the next open, with a flash that can be read.
    pub fn after_power(&self) -> Self {
        Self { may_lose: self.has_lost || self.loses_in_open, outages: None, ..self.clone() }
    }

    /// `version` of `page` was written durably.
    pub fn is_durable(&mut self, page: u64, version: u64) {
        let known = self.pages.entry(page).or_default();
        known.least = known.least.max(version);
    }

    /// Whether a power failure may tear `page`: it is written to disk with no durable copy on flash.
    pub fn is_straight(&self, page: u64) -> bool {
        // The disk's last bytes are no whole page of the cache.
        let pages = self.cache.door.unwrap_or(1);
        self.straight_to_disk || self.of(page).straight || page / pages * pages + pages > PAGES
    }

    pub fn of(&self, page: u64) -> Known {
        self.pages.get(&page).copied().unwrap_or_default()
    }

    /// Whether `found`, which came from `source`, may be served.
    pub fn check(&self, page: u64, found: &[u8], source: Source) -> Result<(), String> {
        let (known, version) = (self.of(page), self.version(page, found));
        let is_wrong = match known.forgotten {
            // Its place on disk has what a destage brought there, or what was there before.
            true => {
                // Disk may have a version that was written there, and whose older copy on flash a power
                // failure brought back.
                let is_later = version > known.newest && !self.straight_to_disk;
                let is_changed = known.of_others && source == Source::Disk && !Files::is_of_others(found);
                known.forget_durable && !self.comes_from_disk(source) || is_later || is_changed
            }
            false => version < known.least || version > known.newest,
        };
        match is_wrong {
            true => Err(format!("page {page} at version {version} from {source:?}, {known:?}")),
            false => Ok(()),
        }
    }

    /// Everything that was done before `begun` is durable now.
    pub fn durable(&mut self, before: &BTreeMap<u64, Known>, begun: Time) {
        self.flushed = begun;
        for (page, then) in before {
            let Some(known) = self.pages.get_mut(page) else { continue };
            // Of a write that has failed nothing is promised.
            let least = if then.unsure { then.least } else { then.newest };
            (known.least, known.forget_durable) = (least, then.forgotten);
            known.since_forgotten &= then.forgotten;
        }
        self.lives.flushes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::CACHES;
    use super::*;

    #[test]
    fn a_trimmed_page_has_one_answer() {
        let mut oracle = Oracle::new(CACHES[0], 0, 1);
        oracle.pages.insert(3, Known { newest: 9, ..Known::default() });
        assert!(oracle.is_answer(3, &[0; 16]) && oracle.is_answer(3, &[1; 16]), "nobody has trimmed it");
        oracle.are_trimmed(3..4);
        assert!(oracle.is_answer(3, &[0; 16]) && !oracle.is_answer(3, &[1; 16]));
        oracle.are_trimmed(3..4);
        assert!(oracle.is_answer(3, &[1; 16]) && !oracle.is_answer(3, &[0; 16]));
        oracle.power_has_failed();
        assert!(oracle.is_answer(3, &[0; 16]), "nothing of it was durable");
    }

    #[test]
    fn a_trim_that_was_cut_off_leaves_zeros_in_some_sectors() {
        let cache = CACHES.into_iter().find(|cache| cache.page_format == PageFormat::Raw).unwrap();
        let durable = Known { newest: 9, least: 9, ..Known::default() };
        let trimmed = Known { trimmed: 9, ..durable };
        let mut found = bytes(cache, 3, 9);
        found[2 * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
        assert!(is_torn_of(cache, 3, &found, trimmed));
        assert!(!is_torn_of(cache, 3, &found, durable), "nobody has trimmed it");
        assert!(!is_torn_of(cache, 3, &found, Known { trimmed: 8, ..durable }), "it was written since");
        found[..SECTOR_BYTES].copy_from_slice(&bytes(cache, 3, 8)[..SECTOR_BYTES]);
        assert!(!is_torn_of(cache, 3, &found, trimmed), "an older version");
    }
}
