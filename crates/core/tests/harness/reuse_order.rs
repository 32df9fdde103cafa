//! The naive form of `reuse-slots`.

use super::orders::place;
use super::reuse_evidence::{Evidence, Note};
use super::slots_model::{Decision, Facts, Order, Resident};
use entresol_core::{Config, Costs, PageId};
use std::collections::{BTreeMap, VecDeque};

pub struct ReuseOrder {
    slots: u64,
    evidence: Evidence,
    /// By position.
    staged: BTreeMap<u64, Note>,
    resident: BTreeMap<PageId, Note>,
    /// By slot, as the model shows them before each question.
    shown: BTreeMap<u32, (PageId, Resident)>,
    drawn: u64,
    /// Pages above and below the last dirty victim on disk, the next ones first, and its value.
    beside: Vec<VecDeque<PageId>>,
    most: u64,
}

impl ReuseOrder {
    pub fn new(config: &Config) -> Self {
        Self {
            slots: config.slots.into(),
            evidence: Evidence::new(config),
            staged: BTreeMap::new(),
            resident: BTreeMap::new(),
            shown: BTreeMap::new(),
            drawn: 0,
            beside: Vec::new(),
            most: 0,
        }
    }

    /// The idle page of least value in the slots that are drawn next.
    fn draw(&mut self) -> Option<(u64, PageId)> {
        let seed = self.drawn;
        self.drawn += 1;
        let mut candidates: Vec<(u64, PageId)> = Vec::new();
        for run in 0..32 {
            if run >= 4 && !candidates.is_empty() {
                break;
            }
            let draw = (seed << 5 | run).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let first = place(draw ^ draw >> 31, self.slots);
            let slots = (first..first + 8).map(|slot| (slot % self.slots) as u32);
            let idle = slots.filter_map(|slot| self.shown.get(&slot)).filter(|(_, r)| !r.busy);
            candidates
                .extend(idle.map(|(page, r)| (self.evidence.value(self.resident[page], r.dirty), *page)));
        }
        let least = candidates.into_iter().min_by_key(|(value, _)| *value)?;
        self.evidence.victim(least.0);
        Some(least)
    }

    /// The hands move, if it is time to.
    fn meet(&mut self) {
        if self.evidence.hands_move() {
            let shown = |slot: u64| self.shown.get(&(slot as u32));
            self.evidence.meet(|slot| shown(slot).map(|(page, r)| (self.resident[page], r.dirty)));
        }
    }
}

impl Order for ReuseOrder {
    fn cost(&mut self, costs: &Costs) {
        self.evidence.cost(costs);
    }

    fn arrives(&mut self, _page: PageId, _free: i64, _busy: &dyn Fn(PageId) -> bool) -> bool {
        false
    }

    fn show(&mut self, residents: &BTreeMap<PageId, Resident>) {
        self.shown = residents.iter().map(|(page, resident)| (resident.slot, (*page, *resident))).collect();
    }

    fn admits(&mut self, page: PageId, facts: &Facts) -> Decision {
        if facts.there {
            let is_spared =
                facts.fdirty && self.resident.contains_key(&page) && self.evidence.spares_all_writes();
            let note = match facts.staged {
                Some(position) => self.staged.get_mut(&position).expect("it is staged"),
                None => self.resident.get_mut(&page).expect("it is resident"),
            };
            self.evidence.given_up(note, facts.was_dirty && !is_spared, facts.fdirty);
            return match (is_spared, facts.fdirty) {
                (true, _) => Decision::Bypass,
                (_, true) => Decision::Enter,
                _ => Decision::There,
            };
        }
        if self.evidence.is_too_dear(page, facts.dirty) {
            return Decision::Bypass;
        }
        if self.shown.len() as u64 + self.ahead(self.slots) < self.slots {
            return Decision::Enter;
        }
        let value = self.evidence.value_of_offer(page, facts.dirty);
        let is_unlikely = self.evidence.promises_little(page, facts.dirty);
        if is_unlikely || self.evidence.is_worth_little(value) { Decision::Bypass } else { Decision::Enter }
    }

    fn kept_out(&mut self, page: PageId, dirty: bool) {
        self.evidence.keep_out(page, dirty);
        if self.drawn.is_multiple_of(8) {
            self.draw();
        } else {
            self.drawn += 1;
        }
    }

    fn hit(&mut self, _page: PageId, _resident: bool) {}

    fn fetched(&mut self, page: PageId, staged: Option<u64>, dirty: bool) {
        self.meet();
        let note = match staged {
            Some(position) => self.staged.get_mut(&position).expect("it is staged"),
            None => self.resident.get_mut(&page).expect("it is resident"),
        };
        *note = self.evidence.hit(page, *note, dirty, staged.is_none());
    }

    fn missed(&mut self, page: PageId) {
        self.meet();
        self.evidence.miss(page);
    }

    fn staged(&mut self, page: PageId, position: u64, older: Option<u64>) {
        let older = older.map(|older| self.staged[&older]).or_else(|| self.resident.get(&page).copied());
        let note = self.evidence.stage(page, older);
        self.staged.insert(position, note);
    }

    fn written(&mut self, page: PageId, position: u64) {
        let note = self.staged[&position];
        self.resident.insert(page, note);
    }

    fn entered(&mut self, _page: PageId) {}

    fn overwritten(&mut self, _page: PageId) {}

    fn leaving(&mut self, page: PageId, dirty: bool, is_newest: bool) {
        let note = self.resident.remove(&page).expect("it is resident");
        self.shown.retain(|_, (shown, _)| *shown != page);
        if is_newest {
            self.evidence.leave(page, note, dirty);
        }
    }

    fn left(&mut self, _page: PageId) {}

    fn victim(&mut self, _busy: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        let (value, page) = self.draw()?;
        if self.shown.values().any(|(shown, resident)| *shown == page && resident.dirty) {
            let at = |number| PageId::new(page.object(), number);
            let up = (1..=63).map(|by| at(page.number().wrapping_add(by))).collect();
            let down = (1..=63).map(|by| at(page.number().wrapping_sub(by))).collect();
            (self.beside, self.most) = (vec![up, down], value);
        }
        Some(page)
    }

    fn beside(&mut self, fits: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        while let Some(side) = self.beside.first_mut() {
            let page = side.pop_front();
            let leaves_soon = |page: &PageId| {
                let value = self.evidence.value(self.resident[page], true);
                value <= self.most || self.evidence.is_worth_little(value)
            };
            let fits = page.filter(|page| fits(*page) && leaves_soon(page));
            if fits.is_some() {
                return fits;
            }
            self.beside.remove(0);
        }
        None
    }
}
