//! The oracle: the legal versions of each page after a crash, kept outside of the engine.
//!
//! Versions of a page are counted from 1; version 0 is a page that was never written. A version is *promised*
//! by a checkpoint, by a clean shutdown, or because a restart found it.
//!
//! Invariants: a promised version is never followed by an older one. Only evicted versions can be found. Of
//! the versions evicted before a restart, only the one that it found can be found later.
//!
//! The last rule has one exception, where pages are written to disk before flash:
//! 1. A restart may find a page on flash although a newer version is already on disk.
//! 2. The database's log has that newer version, too, and restores it.
//! 3. So it is harmless if the version on disk is found later, when the flash is gone or has dropped its
//!    copy.
//!
//! A log on flash may have that copy back after a crash, until a checkpoint has recorded its front. So with
//! such caches a version that a restart finds on disk is not promised before that checkpoint.

use entresol_core::PageId;

/// Evicted versions are remembered exactly only up to this many versions above the promised one.
const REMEMBERED: u64 = 127;

/// The oracle's knowledge of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Page {
    /// The version that survives every crash.
    promised: u64,
    /// The version that the layer reported durable ([`entresol_engine::Upstream::durable`]).
    told: u64,
    /// Bit `n`: version `promised + n` was evicted, or is being evicted. Bit [`REMEMBERED`]: so was a later
    /// one.
    evicted: u128,
    /// The same for versions evicted before a restart that found `promised` or an older version.
    before: u128,
    /// The newest version whose eviction has returned: a fetch must return it.
    returned: u64,
    /// The newest version that was made.
    newest: u64,
}

impl Page {
    fn bit(&self, version: u64) -> u128 {
        1 << (version - self.promised).min(REMEMBERED)
    }

    fn promise(&mut self, version: u64) -> bool {
        let by = version.saturating_sub(self.promised);
        if by == 0 {
            return false;
        }
        let shifted = |versions: u128| match versions >> REMEMBERED {
            0 => versions.checked_shr(by.min(REMEMBERED + 1) as u32).unwrap_or(0),
            // All versions above the remembered range may have been evicted.
            _ => u128::MAX,
        };
        (self.evicted, self.before) = (shifted(self.evicted), shifted(self.before));
        self.promised = version;
        true
    }
}

/// See the module's header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Oracle {
    pages: Vec<Page>,
    promises: u64,
}

impl Oracle {
    /// `pages` pages, all durable at `version`.
    pub(super) fn new(pages: u64, version: u64) -> Self {
        let page =
            Page { promised: version, told: 0, evicted: 1, before: 0, returned: version, newest: version };
        Self { pages: vec![page; pages as usize], promises: 0 }
    }

    fn page(&self, page: PageId) -> &Page {
        &self.pages[page.0 as usize]
    }

    fn page_mut(&mut self, page: PageId) -> &mut Page {
        &mut self.pages[page.0 as usize]
    }

    /// All pages.
    pub(super) fn ids(&self) -> impl Iterator<Item = PageId> + use<> {
        (0..self.pages.len() as u64).map(PageId)
    }

    /// A counter. It grows whenever a formerly legal state becomes illegal.
    pub(super) fn promises(&self) -> u64 {
        self.promises
    }

    /// Makes a new version.
    pub(super) fn change(&mut self, page: PageId) -> u64 {
        let page = self.page_mut(page);
        page.newest += 1;
        page.newest
    }

    /// The version that a fetch must return.
    pub(super) fn expected(&self, page: PageId) -> u64 {
        self.page(page).returned
    }

    /// `version` is about to be evicted.
    pub(super) fn hand(&mut self, page: PageId, version: u64) {
        let page = self.page_mut(page);
        if version >= page.promised {
            page.evicted |= page.bit(version);
        }
    }

    /// `version` was evicted.
    pub(super) fn evicted(&mut self, page: PageId, version: u64) {
        let page = self.page_mut(page);
        page.returned = page.returned.max(version);
    }

    /// The newest versions of all pages.
    pub(super) fn snapshot(&self) -> Vec<u64> {
        self.pages.iter().map(|page| page.newest).collect()
    }

    /// A checkpoint that began at `snapshot` is complete.
    pub(super) fn promise(&mut self, snapshot: &[u64]) {
        for (page, version) in self.pages.iter_mut().zip(snapshot) {
            self.promises += u64::from(page.promise(*version));
        }
    }

    /// From now on, every evicted version survives every crash.
    pub(super) fn promise_returned(&mut self) {
        let returned: Vec<u64> = self.pages.iter().map(|page| page.returned).collect();
        self.promise(&returned);
    }

    /// The layer reports that `version` survives a crash.
    pub(super) fn tell(&mut self, page: PageId, version: u64) {
        let page = self.page_mut(page);
        if version > page.told.max(page.promised) {
            page.told = version;
            self.promises += 1;
        }
    }

    /// Whether `found` is legal after a crash. With `believe_layer`, versions that the layer reported durable
    /// must have survived, too.
    pub(super) fn admits(&self, page: PageId, found: u64, believe_layer: bool) -> bool {
        let page = self.page(page);
        let least = if believe_layer { page.promised.max(page.told) } else { page.promised };
        found >= least && page.evicted & page.bit(found) != 0
    }

    /// Whether `found` may have been on disk since before a restart that did not find it.
    pub(super) fn may_be_on_disk(&self, page: PageId, found: u64) -> bool {
        let page = self.page(page);
        found > page.promised && page.before & page.bit(found) != 0
    }

    /// Whether a write of the page to disk may have been in progress since it was last promised. If so, the
    /// database's log has a full image of the page, and a torn copy on disk is no loss.
    pub(super) fn may_be_torn(&self, page: PageId) -> bool {
        let page = self.page(page);
        page.evicted & !1 != 0
    }

    /// A restart has found `version`. From now on it is promised. Returns the version that the database's log
    /// restores.
    pub(super) fn found(&mut self, page: PageId, version: u64) -> u64 {
        let page = self.page_mut(page);
        page.promise(version);
        let before = page.before | page.evicted;
        *page =
            Page { promised: version, told: 0, evicted: 1, before, returned: version, newest: page.newest };
        page.newest
    }

    /// As [`Oracle::found`], on a disk that may be ahead of a log on flash. Versions that were legal before
    /// remain legal, but no newer ones.
    pub(super) fn found_ahead(&mut self, page: PageId, version: u64) -> u64 {
        let known = self.page_mut(page);
        if version <= known.promised {
            return self.found(page, version);
        }
        let bit = known.bit(version);
        known.before |= known.evicted;
        known.evicted &= bit | (bit - 1);
        known.told = if known.told > version { 0 } else { known.told };
        known.returned = version;
        known.newest
    }

    /// A restart has found a torn copy on disk, which is repaired from the log.
    pub(super) fn found_torn(&mut self, page: PageId) -> u64 {
        let page = self.page_mut(page);
        page.told = 0;
        page.newest
    }

    /// The legal versions of a page, in words.
    pub(super) fn describe(&self, page: PageId) -> String {
        let Page { promised, told, evicted, newest, .. } = self.page(page);
        let legal: Vec<String> = (0..=REMEMBERED)
            .filter(|bit| evicted >> bit & 1 == 1)
            .map(|bit| (promised + bit).to_string())
            .collect();
        let told = if *told > *promised { format!(", {told} was told to be durable") } else { String::new() };
        format!("{promised} is promised{told}, evicted were {}, newest is {newest}", legal.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(1);

    /// Version 2 was evicted, 3 was only made, 4 is being evicted.
    fn oracle() -> Oracle {
        let mut oracle = Oracle::new(2, 1);
        assert_eq!(oracle.change(PAGE), 2);
        oracle.hand(PAGE, 2);
        oracle.evicted(PAGE, 2);
        oracle.change(PAGE);
        oracle.change(PAGE);
        oracle.hand(PAGE, 4);
        oracle
    }

    fn legal(oracle: &Oracle) -> Vec<u64> {
        (0..9).filter(|version| oracle.admits(PAGE, *version, true)).collect()
    }

    #[test]
    fn only_evicted_versions_are_legal() {
        let oracle = oracle();
        assert_eq!(legal(&oracle), [1, 2, 4]);
        assert_eq!((oracle.expected(PAGE), oracle.page(PAGE).newest), (2, 4));
        assert!(oracle.may_be_torn(PAGE) && !oracle.may_be_torn(PageId(0)));
    }

    #[test]
    fn what_was_promised_is_never_older_again() {
        let mut oracle = oracle();
        oracle.promise(&[1, 2]);
        assert_eq!(legal(&oracle), [2, 4]);
        oracle.tell(PAGE, 4);
        assert_eq!(legal(&oracle), [4]);
        assert!(oracle.admits(PAGE, 2, false), "but a layer that was lied to may be wrong");
        assert_eq!(oracle.promises(), 2);
        oracle.evicted(PAGE, 4);
        oracle.promise_returned();
        assert!(!oracle.admits(PAGE, 2, false), "nobody else has it now");
        assert_eq!(oracle.found(PAGE, 4), 4);
        assert_eq!(legal(&oracle), [4]);
    }

    #[test]
    fn what_a_restart_has_not_found_may_be_on_disk_until_something_newer_is_promised() {
        let mut oracle = oracle();
        let newest = oracle.found(PAGE, 2);
        assert_eq!(legal(&oracle), [2]);
        let on_disk = |oracle: &Oracle| -> Vec<u64> {
            (0..9).filter(|version| oracle.may_be_on_disk(PAGE, *version)).collect()
        };
        assert_eq!((newest, on_disk(&oracle)), (4, vec![4]));
        let version = oracle.change(PAGE);
        oracle.hand(PAGE, version);
        assert_eq!((legal(&oracle), on_disk(&oracle)), (vec![2, 5], vec![4]));
        oracle.promise(&[1, 5]);
        assert_eq!((legal(&oracle), on_disk(&oracle)), (vec![5], vec![]));
    }

    /// Version 4 is on disk, and flash has dropped version 2. A crash may bring 2 back, until a checkpoint.
    #[test]
    fn what_a_restart_finds_on_a_disk_that_is_ahead_is_no_promise() {
        let mut oracle = oracle();
        let version = oracle.change(PAGE);
        oracle.hand(PAGE, version);
        assert_eq!((legal(&oracle), version), (vec![1, 2, 4, 5], 5));
        assert_eq!(oracle.found_ahead(PAGE, 4), 5);
        assert_eq!(oracle.expected(PAGE), 4, "while nothing crashes");
        assert_eq!(legal(&oracle), [1, 2, 4], "5 was not there");
        assert!(oracle.may_be_on_disk(PAGE, 5));
        oracle.tell(PAGE, 2);
        assert_eq!(legal(&oracle), [2, 4]);
        assert_eq!(oracle.found_ahead(PAGE, 4), 5);
        assert_eq!(legal(&oracle), [2, 4], "what was told to be durable stays so");
        oracle.promise(&[1, 4]);
        assert_eq!(legal(&oracle), [4]);
        assert_eq!(oracle.found_ahead(PAGE, 4), 5);
        assert_eq!(legal(&oracle), [4]);
    }

    #[test]
    fn very_old_versions_are_not_forgotten_in_the_wrong_direction() {
        let mut oracle = Oracle::new(2, 1);
        for _ in 0..300 {
            let version = oracle.change(PAGE);
            oracle.hand(PAGE, version);
        }
        assert!(oracle.admits(PAGE, 301, true) && !oracle.admits(PAGE, 0, true));
        oracle.promise(&[1, 290]);
        assert!(oracle.admits(PAGE, 300, true) && !oracle.admits(PAGE, 289, true));
    }
}
