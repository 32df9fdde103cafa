//! The clients of the cache: pages are fetched, changed and evicted.

use super::*;

impl World {
    /// A client reads the page, and perhaps changes it.
    pub(super) fn use_page(&mut self, page: u32, choices: &mut Choices) {
        if self.filling.iter().any(|f| f.content.page == page) {
            return; // latched until its copy is complete
        }
        if self.dead.is_dying(page) {
            return; // latched until it is on disk
        }
        if !self.dram.contains_key(&page) {
            if self.dram.len() >= self.dram_max {
                self.evict_one(choices);
            }
            if self.dram.len() >= self.dram_max {
                return;
            }
            let found = partition!(self).fetch(id(page));
            self.model.fetch(id(page), &found);
            self.flash_hits += u64::from(matches!(found, Lookup::Flash { .. }));
            let fdirty = self.is_unsynced(page);
            let dirty = self.assert_served(page, found) || fdirty;
            self.dram.insert(page, Frame { version: self.current[page as usize], dirty, fdirty });
            match found {
                Lookup::Absent => {
                    partition!(self).missed(id(page));
                    self.arrived(page);
                }
                // A driver need not take the page.
                _ if self.config.policy.exclusive() && choices.once_in(8) => {}
                _ => self.taken(page),
            }
        }
        if choices.once_in(2) {
            let frame = self.dram.get_mut(&page).expect("just fetched");
            *frame = Frame { version: self.next_version, dirty: true, fdirty: true };
            self.current[page as usize] = self.next_version;
            self.next_version += 1;
        }
    }

    /// The version on disk is not durable there. Then a log must keep it as it keeps a dirty page: a crash
    /// may leave it on flash and take it from the disk.
    fn is_unsynced(&self, page: u32) -> bool {
        self.config.policy.placement() == Placement::Log && self.dead.unsynced.contains_key(&page)
    }

    /// The page has been read from disk.
    pub(super) fn arrived(&mut self, page: u32) {
        self.walk_may_miss(page);
        // A log takes nothing that comes from disk.
        let Some(got) = partition!(self).slots_mut().map(|slots| slots.arrived(id(page))) else { return };
        self.model.arrived(id(page), got);
        if let Admission::Stage { frame, position } = got {
            self.arrivals += 1;
            let version = self.current[page as usize];
            let content = Content { page, version, position: position.0, dirty: false };
            self.staging[frame.0 as usize] = None;
            self.filling.push(Filling { content, frame: frame.0, dequeue: None });
        }
    }

    /// The page has been read into DRAM.
    pub(super) fn taken(&mut self, page: u32) {
        let Some(got) = partition!(self).slots_mut().map(|slots| slots.taken(id(page))) else { return };
        self.model.taken(id(page), got);
        if let Taken::Moved { dirty } = got {
            self.moves += 1;
            let frame = self.dram.get_mut(&page).expect("just fetched");
            assert!(dirty || !frame.dirty || self.disk[page as usize] == frame.version);
            frame.fdirty = frame.dirty;
        }
    }

    /// Asserts that the partition's answer leads to the newest version. Returns whether it is dirty.
    pub(super) fn assert_served(&self, page: u32, found: Lookup) -> bool {
        let expected = self.current[page as usize];
        let (content, dirty) = match found {
            Lookup::Absent => {
                assert_eq!(
                    self.disk[page as usize], expected,
                    "page {page} is absent, and the disk is not current"
                );
                return false;
            }
            Lookup::Staged { frame, position, dirty } => {
                let content = self.staging[frame.0 as usize].expect("a staged page");
                assert_eq!(content.position, position.0);
                (content, dirty)
            }
            Lookup::Flash { slot, generation, dirty } => {
                let cell = self.flash[slot.0 as usize];
                assert!(cell.writing.is_none(), "slot {} is served while it is written", slot.0);
                let content = cell.content.expect("a page on flash");
                assert!(generation.matches(Position(cell.stamp)), "{generation:?} against {content:?}");
                (content, dirty)
            }
        };
        assert_eq!((content.page, content.version), (page, expected), "{found:?}");
        assert!(
            dirty || self.disk[page as usize] >= expected,
            "page {page} is newer than disk, but not dirty"
        );
        dirty
    }

    pub(super) fn evict_one(&mut self, choices: &mut Choices) {
        let at = choices.below(self.dram.len().max(1));
        if let Some(page) = self.dram.keys().nth(at).copied() {
            self.evict_page(page, false);
        }
    }

    /// Evicts a page; `keep` writes it without giving up its frame. False if the tier is full.
    pub(super) fn evict_page(&mut self, page: u32, keep: bool) -> bool {
        if self.filling.iter().any(|f| f.content.page == page) {
            return false;
        }
        let Frame { version, dirty, fdirty } = self.dram[&page];
        let mut frame = Frame { version, dirty, fdirty: false };
        let got = if self.mode == Mode::Around && fdirty {
            let got = slots(&mut partition!(self)).bypass(id(page));
            self.model.bypassed(id(page), got);
            got
        } else {
            if self.mode == Mode::Through && dirty {
                self.write_to_disk(page, version);
                frame.dirty = false;
            }
            self.walk_may_miss(page);
            let got = match self.takes_changes && fdirty {
                true => log(&mut partition!(self)).evict_changed(id(page), Lsn(version), frame.dirty),
                false => partition!(self).evict(id(page), Lsn(version), frame.dirty, fdirty),
            };
            self.model.evict(id(page), frame.dirty, fdirty, got);
            got
        };
        match got {
            Admission::Full => return false,
            Admission::AlreadyThere => {}
            Admission::Bypass { .. } => {
                self.bypasses += 1;
                if frame.dirty {
                    self.write_to_disk(page, version);
                    frame.dirty = false;
                }
            }
            Admission::Stage { frame: place, position } => {
                frame.dirty = partition!(self).is_staged_dirty(place);
                if frame.dirty {
                    self.handed_down(page, version, fdirty);
                }
                let content = Content { page, version, position: position.0, dirty: frame.dirty };
                self.staging[place.0 as usize] = None;
                self.filling.push(Filling { content, frame: place.0, dequeue: None });
            }
        }
        if keep {
            self.dram.insert(page, frame);
        } else {
            self.dram.remove(&page);
        }
        true
    }

    /// The driver itself writes a changed page to disk. No other write of the page may be under way.
    pub(super) fn write_to_disk(&mut self, page: u32, version: u64) {
        assert!(!self.disk_writes.contains_key(&page), "page {page} is on its way to disk already");
        assert!(version >= self.disk[page as usize], "the disk copy of page {page} would go back");
        self.disk[page as usize] = version;
        self.dead.unsynced.remove(&page);
        self.durable[page as usize] = self.durable[page as usize].max(version);
    }

    pub(super) fn finish_filling(&mut self, choices: &mut Choices) {
        if self.filling.is_empty() {
            return;
        }
        let filling = self.filling.swap_remove(choices.below(self.filling.len()));
        self.staging[filling.frame as usize] = Some(filling.content);
        partition!(self).staged_with(entresol_core::FrameId(filling.frame), proof(&filling.content));
        self.model.staged(filling.frame);
    }
}
