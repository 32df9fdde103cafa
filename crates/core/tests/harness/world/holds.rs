//! Pages that are held: they do not leave the flash.

use super::*;

/// A page that is held.
pub struct Held {
    page: u32,
    /// The rear when the hold began. Versions from here on do not leave.
    from: u64,
    /// There is such a version.
    is_there: bool,
}

fn position(found: Lookup) -> Option<u64> {
    match found {
        Lookup::Staged { position, .. } => Some(position.0),
        Lookup::Flash { generation: Generation::Exact(position), .. } => Some(position.0),
        _ => None,
    }
}

impl World {
    /// Holds a page, or lets one go.
    pub fn hold_step(&mut self, choices: &mut Choices) {
        if choices.once_in(2) && !self.held.is_empty() {
            let held = self.held.swap_remove(choices.below(self.held.len()));
            log(&mut partition!(self)).let_go(id(held.page));
            self.model.let_go(id(held.page));
            return;
        }
        let page = choices.below(self.pages_used) as u32;
        if self.held.iter().any(|held| held.page == page) {
            // A page has one writer at a time.
            return;
        }
        let mut partition = partition!(self);
        let from = partition.window().1.0;
        let is_held = log(&mut partition).hold(id(page));
        self.model.hold(id(page), is_held);
        if is_held {
            self.held.push(Held { page, from, is_there: false });
            // Its new version enters, as that of a page that is written.
            self.use_page(page, choices);
            if self.dram.contains_key(&page) {
                self.evict_page(page, false);
            }
        }
    }

    /// What has entered since its hold began is there, unless pages are forgotten.
    pub(super) fn verify_held(&mut self) {
        let partition = partition!(self);
        for held in &mut self.held {
            let found = position(partition.peek(id(held.page)));
            held.is_there |= found.is_some_and(|position| position >= held.from);
            let has_left = held.is_there && found.is_none() && !self.forgets_and_flushes;
            assert!(!has_left, "page {} has left while it was held", held.page);
            self.stayed +=
                u64::from(found.is_some_and(|position| position > held.from + u64::from(self.config.slots)));
        }
    }

    /// The machine has crashed: the writes for which pages were held have ended.
    pub(super) fn holds_end(&mut self) {
        self.held.clear();
    }
}
