//! The entry of an object: 64 bytes.
//!
//! Invariants: the cuts of a live object ascend in page number and in rear, so none implies another; the
//! newest rear is less than 2^32 above the oldest one. So the entry has the upper half of the newest rear
//! only once, and the lower halves of all of them.

use arrayvec::ArrayVec;
use entresol_core::Position;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that name an object: a relation's tablespace, database, relation and fork, or a volume.
pub const LOCATOR_BYTES: usize = 24;
/// Most cuts that are kept for an object.
pub const CUTS_MAX: usize = 4;
/// No object: the end of a list.
pub(crate) const NIL: u32 = (1 << 28) - 1;

/// The name of an object, given by the database. Plain bytes; shorter names end with zeros.
pub type Locator = [u8; LOCATOR_BYTES];

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No object.
    Free,
    /// An object whose pages are all dead. Its number may not be given to another one.
    Retired,
    /// An object with this number of cuts.
    Live(usize),
}

impl State {
    /// From its code. `None`: there is no such state.
    pub fn of(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Free),
            1 => Some(Self::Retired),
            2..=6 => Some(Self::Live(code as usize - 2)),
            _ => None,
        }
    }

    /// Its code, below 16.
    pub fn code(self) -> u32 {
        match self {
            Self::Free => 0,
            Self::Retired => 1,
            Self::Live(cuts) => cuts as u32 + 2,
        }
    }
}

/// Pages from a number on that entered below a position are dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The first page that is dead.
    pub number: u32,
    /// Pages at this position, and later ones, live.
    pub rear: Position,
}

impl Cut {
    /// Whether all pages that `other` makes dead are dead by this cut, too.
    fn implies(self, other: Self) -> bool {
        self.number <= other.number && self.rear >= other.rear
    }
}

/// The cuts of an object, in ascending order.
pub(crate) type Cuts = ArrayVec<Cut, CUTS_MAX>;

/// The effect of a further cut on the cuts of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    /// The object has these from now on.
    Cuts(Cuts),
    /// Nothing: its pages are dead or gone already.
    Implied,
    /// There is no room for it.
    TooMany,
}

/// Adds `cut` to `cuts`, without those that the durable `front` has passed.
pub(crate) fn merge(cuts: &Cuts, cut: Cut, front: Position) -> Merged {
    let mut kept: Cuts = cuts.iter().copied().filter(|kept| kept.rear > front).collect();
    if cut.rear <= front || kept.iter().any(|kept| kept.implies(cut)) {
        return Merged::Implied;
    }
    kept.retain(|kept| !cut.implies(*kept));
    let at = kept.iter().filter(|kept| kept.rear < cut.rear).count();
    if kept.try_insert(at, cut).is_err() || !can_be_stored(&kept) {
        return Merged::TooMany;
    }
    Merged::Cuts(kept)
}

fn can_be_stored(cuts: &Cuts) -> bool {
    match (cuts.first(), cuts.last()) {
        (Some(first), Some(last)) => last.rear.0 - first.rear.0 <= u64::from(u32::MAX),
        _ => true,
    }
}

/// The entry of an object in the region.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Entry {
    pub locator: Locator,
    /// The next entry of the list that this one is in (28 bits), and the state.
    link: u32,
    /// Upper half of the newest cut's rear, or of the rear of a retired object.
    pub high: u32,
    /// Of the cuts.
    pub numbers: [u32; CUTS_MAX],
    /// Lower halves of the cuts' rears. The first one is that of a retired object.
    pub rears: [u32; CUTS_MAX],
}

const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    pub fn state(&self) -> State {
        State::of(self.link >> 28).expect("an entry has a state that was given to it")
    }

    pub fn set_state(&mut self, state: State) {
        self.link = self.link & NIL | state.code() << 28;
    }

    pub fn next(&self) -> u32 {
        self.link & NIL
    }

    pub fn set_next(&mut self, next: u32) {
        self.link = self.link & !NIL | next;
    }

    /// The rear of a retired object.
    pub fn retired_rear(&self) -> Position {
        Position(u64::from(self.high) << 32 | u64::from(self.rears[0]))
    }

    /// Retires the object.
    pub fn retire(&mut self, rear: Position) {
        self.set_state(State::Retired);
        self.numbers = [0; CUTS_MAX];
        (self.high, self.rears) = ((rear.0 >> 32) as u32, [rear.0 as u32, 0, 0, 0]);
    }

    /// Makes it a live object without cuts.
    pub fn define(&mut self, locator: &Locator) {
        self.locator = *locator;
        self.set_cuts(&Cuts::new());
    }

    /// The rear of cut `at` of `count`.
    fn rear(&self, at: usize, count: usize) -> u64 {
        let newest = self.rears[count - 1];
        (u64::from(self.high) << 32 | u64::from(newest)) - u64::from(newest.wrapping_sub(self.rears[at]))
    }

    /// Whether a live object with `count` cuts has one by which a page is dead.
    pub fn is_cut(&self, count: usize, number: u32, position: Position) -> bool {
        (0..count).any(|at| number >= self.numbers[at] && position.0 < self.rear(at, count))
    }

    /// The cuts of a live object with `count` of them.
    pub fn cuts(&self, count: usize) -> Cuts {
        let cut = |at| Cut { number: self.numbers[at], rear: Position(self.rear(at, count)) };
        (0..count).map(cut).collect()
    }

    /// Makes it a live object with these cuts.
    pub fn set_cuts(&mut self, cuts: &Cuts) {
        self.set_state(State::Live(cuts.len()));
        self.high = cuts.last().map_or(0, |cut| (cut.rear.0 >> 32) as u32);
        (self.numbers, self.rears) = ([0; CUTS_MAX], [0; CUTS_MAX]);
        for (at, cut) in cuts.iter().enumerate() {
            (self.numbers[at], self.rears[at]) = (cut.number, cut.rear.0 as u32);
        }
    }

    /// Whether the bytes from flash are an entry that a table can hold.
    pub fn is_possible(&self) -> bool {
        let count = match self.state() {
            State::Free => return true,
            State::Retired => return self.retired_rear() <= Position::MAX,
            State::Live(count) => count,
        };
        let Some(newest) = count.checked_sub(1) else { return true };
        let newest_rear = u64::from(self.high) << 32 | u64::from(self.rears[newest]);
        let span = u64::from(self.rears[newest].wrapping_sub(self.rears[0]));
        if newest_rear > Position::MAX.0 || span > newest_rear {
            return false;
        }
        let distances = (0..count).map(|at| self.rears[newest].wrapping_sub(self.rears[at]));
        self.numbers[..count].is_sorted_by(|a, b| a < b) && distances.is_sorted_by(|a, b| a > b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn cut(number: u32, rear: u64) -> Cut {
        Cut { number, rear: Position(rear) }
    }

    fn cuts(all: &[(u32, u64)]) -> Cuts {
        all.iter().map(|(number, rear)| cut(*number, *rear)).collect()
    }

    #[test]
    fn an_implied_cut_changes_nothing_and_an_implying_one_replaces() {
        let front = Position(0);
        let one = cuts(&[(10, 100)]);
        assert_eq!(merge(&one, cut(10, 100), front), Merged::Implied);
        assert_eq!(merge(&one, cut(11, 99), front), Merged::Implied);
        assert_eq!(merge(&one, cut(9, 100), front), Merged::Cuts(cuts(&[(9, 100)])));
        assert_eq!(merge(&one, cut(10, 101), front), Merged::Cuts(cuts(&[(10, 101)])));
        assert_eq!(merge(&one, cut(11, 101), front), Merged::Cuts(cuts(&[(10, 100), (11, 101)])));
        assert_eq!(merge(&one, cut(9, 99), front), Merged::Cuts(cuts(&[(9, 99), (10, 100)])));
        assert_eq!(merge(&one, cut(5, 100), Position(100)), Merged::Implied);
    }

    #[test]
    fn a_fifth_cut_has_room_only_after_the_front_passed_one() {
        let four = cuts(&[(1, 10), (2, 20), (3, 30), (4, 40)]);
        assert_eq!(merge(&four, cut(5, 50), Position(9)), Merged::TooMany);
        let kept = cuts(&[(2, 20), (3, 30), (4, 40), (5, 50)]);
        assert_eq!(merge(&four, cut(5, 50), Position(10)), Merged::Cuts(kept));
        assert_eq!(merge(&four, cut(0, 50), Position(0)), Merged::Cuts(cuts(&[(0, 50)])));
    }

    #[test]
    fn rears_of_a_cut_that_are_too_far_apart_have_no_room() {
        let one = cuts(&[(1, 10)]);
        assert_eq!(merge(&one, cut(2, 10 + (1 << 32)), Position(0)), Merged::TooMany);
        let two = cuts(&[(1, 10), (2, 9 + (1 << 32))]);
        assert_eq!(merge(&one, cut(2, 9 + (1 << 32)), Position(0)), Merged::Cuts(two.clone()));
        let mut entry = Entry::new_zeroed();
        entry.set_cuts(&two);
        assert_eq!(entry.cuts(2), two);
        assert!(entry.is_possible());
        assert!(entry.is_cut(2, 2, Position(8 + (1 << 32))));
        assert!(!entry.is_cut(2, 2, Position(9 + (1 << 32))));
        assert!(!entry.is_cut(2, 1, Position(10)));
        assert!(entry.is_cut(2, 1, Position(9)));
    }
}
