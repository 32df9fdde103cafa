//! What may legally be found after a crash, page by page, kept outside of the engine.
//!
//! Versions of a page are counted from 1; version 0 is a page that was never written. Invariants: a version
//! that was promised (by a checkpoint, by a clean shutdown, or because a restart found it) is never followed
//! by an older one; only versions that were evicted can be found, and of those that were so before a
//! restart only what it found. With one exception: where pages are written to disk before flash has them, a
//! restart may find a page on flash though a newer version is on disk already. The database's log has that
//! one, too, and makes it anew, so it does no harm should it show when the flash is gone, or has dropped its
//! copy. A log on flash may have that copy back after a crash, before a checkpoint has recorded its front:
//! with such caches what a restart finds on disk is not promised before that.

use entresol_core::PageId;

/// Versions evicted are remembered exactly as far as so many versions above the promised one.
const REMEMBERED: u64 = 127;

/// What is known of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Page {
    /// Survives every crash.
    promised: u64,
    /// The layer said that this one is durable ([`entresol_engine::Upstream::durable`]).
    told: u64,
    /// Bit `n`: version `promised + n` was evicted, or is being; bit [`REMEMBERED`]: so was a later one.
    evicted: u128,
    /// The same, of those that were evicted before a restart found `promised` or an older one.
    before: u128,
    /// The newest one whose hand-over has returned: what a fetch must give.
    returned: u64,
    /// The newest one that was made.
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
            // Later ones than could be remembered may be any of those that can be now.
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

    /// Grows whenever an older state than before has become illegal.
    pub(super) fn promises(&self) -> u64 {
        self.promises
    }

    /// Makes a new version.
    pub(super) fn change(&mut self, page: PageId) -> u64 {
        let page = self.page_mut(page);
        page.newest += 1;
        page.newest
    }

    /// The version that a fetch must give.
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

    /// Whatever was evicted survives every crash from now on.
    pub(super) fn promise_returned(&mut self) {
        let returned: Vec<u64> = self.pages.iter().map(|page| page.returned).collect();
        self.promise(&returned);
    }

    /// The layer says that `version` will survive a crash.
    pub(super) fn tell(&mut self, page: PageId, version: u64) {
        let page = self.page_mut(page);
        if version > page.told.max(page.promised) {
            page.told = version;
            self.promises += 1;
        }
    }

    /// Whether `found` is legal after a crash. With `believe_layer` what the layer said is durable must be
    /// there, too.
    pub(super) fn admits(&self, page: PageId, found: u64, believe_layer: bool) -> bool {
        let page = self.page(page);
        let least = if believe_layer { page.promised.max(page.told) } else { page.promised };
        found >= least && page.evicted & page.bit(found) != 0
    }

    /// Whether `found` may be on disk since before a restart that has not found it.
    pub(super) fn may_be_on_disk(&self, page: PageId, found: u64) -> bool {
        let page = self.page(page);
        found > page.promised && page.before & page.bit(found) != 0
    }

    /// Whether a write of the page to disk may have been under way since it was last promised: then the log
    /// of the database has a full image of it, and a torn copy on disk is no loss.
    pub(super) fn may_be_torn(&self, page: PageId) -> bool {
        let page = self.page(page);
        page.evicted & !1 != 0
    }

    /// A restart has found `version`. From now on it is promised. Returns what the database's log makes of
    /// it.
    pub(super) fn found(&mut self, page: PageId, version: u64) -> u64 {
        let page = self.page_mut(page);
        page.promise(version);
        let before = page.before | page.evicted;
        *page =
            Page { promised: version, told: 0, evicted: 1, before, returned: version, newest: page.newest };
        page.newest
    }

    /// As [`Oracle::found`], on a disk that may be ahead of a log on flash: what was legal before may come
    /// back, but nothing newer.
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

    /// A restart has found a torn copy on disk: it is repaired from the log.
    pub(super) fn found_torn(&mut self, page: PageId) -> u64 {
        let page = self.page_mut(page);
        page.told = 0;
        page.newest
    }

    /// What may be found of a page, in words.
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

    /// Version 2 evicted, 3 only made, 4 being evicted.
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

    /// Version 4 is on disk, flash has dropped version 2: a crash may bring 2 back, until a checkpoint.
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
