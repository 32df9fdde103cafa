//! The DRAM layer of a simulation: the frames with the pages of a trace, and the order of their eviction.
//!
//! Made for speed: pages are dense numbers and all state is in two arrays sized once, one by page and one
//! by frame, so that a reference costs one look-up and, for LRU, the relinking of a node. No hashing, no
//! allocation after [`Pool::new`]. All data of a frame are together: the cache lines of the next
//! victim have just been used for its neighbour.
//!
//! Invariants: `frame_of[p] == f` if and only if `entries[f].page == p`, for resident pages; a frame is
//! either free, or holds a page and is in the replacement order.

mod clock;
mod fifo;
mod lru;

pub use clock::Clock;
pub use fifo::Fifo;
pub use lru::Lru;

/// No frame: the page is not in DRAM.
const ABSENT: u32 = u32::MAX;

/// A frame of the pool, `0 .. frames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame(pub u32);

/// Newer than the disk copy.
pub const DIRTY: u8 = 1;
/// Newer than the flash copy.
pub const FDIRTY: u8 = 2;

/// What is known of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry<N> {
    /// The page in it, or the last that was.
    page: u32,
    /// [`DIRTY`] and [`FDIRTY`].
    flags: u8,
    /// The order's.
    note: N,
}

/// The order in which frames are emptied. It keeps a note for each frame among the pool's entries, which it
/// is handed; the entry behind the last frame's is its own.
pub trait Order {
    /// Its name on the command line.
    const NAME: &'static str;
    /// What it notes of a frame.
    type Note: Copy + Default;
    /// An empty order for the frames of `entries`.
    fn new(entries: &mut [Entry<Self::Note>]) -> Self;
    /// The page in `frame` was referenced.
    fn hit(&mut self, entries: &mut [Entry<Self::Note>], frame: u32);
    /// A page enters `frame`, which is not in the order.
    fn enter(&mut self, entries: &mut [Entry<Self::Note>], frame: u32);
    /// Takes the frame to be emptied next out of the order; `None` if no frame is in it.
    fn victim(&mut self, entries: &mut [Entry<Self::Note>]) -> Option<u32>;
    /// Makes `frame`, which [`Order::victim`] just gave, the next one again.
    fn put_back(&mut self, entries: &mut [Entry<Self::Note>], frame: u32);
}

/// At most this share of the frames is free because a layer pulled their pages, as in the store.
const RESERVE_SHARE: u32 = 8;

/// A page that is evicted from DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Dense number of the page.
    pub page: u32,
    /// [`DIRTY`] and [`FDIRTY`].
    pub flags: u8,
}

impl Victim {
    /// Newer than the disk copy.
    pub const fn dirty(self) -> bool {
        self.flags & DIRTY != 0
    }
    /// Newer than the flash copy.
    pub const fn fdirty(self) -> bool {
        self.flags & FDIRTY != 0
    }
}

/// A buffer pool without the bytes.
pub struct Pool<O: Order> {
    frame_of: Vec<u32>,
    entries: Vec<Entry<O::Note>>,
    free: Vec<u32>,
    order: O,
}

impl<O: Order> Pool<O> {
    /// An empty pool of `frames` frames for pages `0 .. pages`.
    pub fn new(pages: usize, frames: u32) -> Self {
        let mut entries = vec![Entry::default(); frames as usize + 1];
        Self {
            frame_of: vec![ABSENT; pages],
            free: (0..frames).rev().collect(),
            order: O::new(&mut entries),
            entries,
        }
    }

    /// Frames there are.
    pub fn frames(&self) -> u32 {
        (self.entries.len() - 1) as u32
    }

    /// Frames that hold no page.
    pub fn free_frames(&self) -> usize {
        self.free.len()
    }

    /// The frame of `page`, counting as a reference.
    #[inline(always)]
    pub fn reference(&mut self, page: u32) -> Option<Frame> {
        let frame = self.frame_of[page as usize];
        if frame == ABSENT {
            return None;
        }
        self.order.hit(&mut self.entries, frame);
        Some(Frame(frame))
    }

    /// The frame of `page`, if it is in DRAM.
    #[inline]
    pub fn peek(&self, page: u32) -> Option<Frame> {
        let frame = self.frame_of[page as usize];
        (frame != ABSENT).then_some(Frame(frame))
    }

    /// Touches in memory what is known of `pages` and of their frames, so that several are fetched at once
    /// instead of one after the other. Returns a number that depends on all of it, lest the compiler leaves
    /// it out.
    #[inline(always)]
    pub fn warm(&self, pages: impl Iterator<Item = u32> + Clone) -> u32 {
        let sum = pages.clone().fold(0, |sum, page| sum ^ self.frame_of[page as usize]);
        if size_of::<O::Note>() == 0 {
            // Hits leave entries alone.
            return sum;
        }
        // Of a page that is not there, the entry behind the last frame's.
        let entry =
            |page: u32| &self.entries[(self.frame_of[page as usize] as usize).min(self.entries.len() - 1)];
        pages.fold(sum, |sum, page| sum ^ entry(page).page)
    }

    /// The page in `frame` was changed.
    #[inline(always)]
    pub fn soil(&mut self, frame: Frame) {
        self.entries[frame.0 as usize].flags = DIRTY | FDIRTY;
    }

    /// The layer below has this version of a page that is in DRAM.
    pub fn handed_down(&mut self, page: u32) {
        if let Some(Frame(frame)) = self.peek(page) {
            self.entries[frame as usize].flags &= !FDIRTY;
        }
    }

    /// `page` was written to disk from flash: a frame that holds it unchanged is no longer newer than disk.
    pub fn destaged(&mut self, page: u32) {
        if let Some(Frame(frame)) = self.peek(page) {
            let flags = &mut self.entries[frame as usize].flags;
            if *flags & FDIRTY == 0 {
                *flags = 0;
            }
        }
    }

    /// Takes the coldest page out; its frame is free afterwards. `None` if the pool is empty.
    #[inline]
    pub fn take_coldest(&mut self) -> Option<Victim> {
        let frame = self.order.victim(&mut self.entries)?;
        let Entry { page, flags, .. } = self.entries[frame as usize];
        self.frame_of[page as usize] = ABSENT;
        self.free.push(frame);
        Some(Victim { page, flags })
    }

    /// Pages that may be pulled now, of `wanted`.
    pub fn room_to_pull(&self, wanted: u32) -> u32 {
        wanted.min((self.frames() / RESERVE_SHARE).saturating_sub(self.free_frames() as u32))
    }

    /// Undoes the [`Pool::take_coldest`] that gave `victim`.
    ///
    /// # Panics
    /// If anything was done since.
    pub fn put_back(&mut self, victim: Victim) {
        let frame = self.free.pop().expect("its frame is the newest free one");
        assert_eq!(self.entries[frame as usize].page, victim.page, "nothing was done since it was taken");
        self.frame_of[victim.page as usize] = frame;
        self.order.put_back(&mut self.entries, frame);
    }

    /// Puts `page`, which is not in DRAM, into a free frame, with `flags`.
    ///
    /// # Panics
    /// If no frame is free.
    #[inline]
    pub fn enter(&mut self, page: u32, flags: u8) -> Frame {
        let frame = self.free.pop().expect("a page enters only after room was made");
        debug_assert_eq!(self.frame_of[page as usize], ABSENT);
        self.frame_of[page as usize] = frame;
        let entry = &mut self.entries[frame as usize];
        (entry.page, entry.flags) = (page, flags);
        self.order.enter(&mut self.entries, frame);
        Frame(frame)
    }

    /// A page is referenced and takes the place of the coldest if it is not there and no frame is free.
    /// Returns whether it was there. For single-level problems, without a layer below.
    #[inline(always)]
    pub fn access(&mut self, page: u32) -> bool {
        if self.reference(page).is_some() {
            return true;
        }
        if self.free.is_empty() {
            self.take_coldest();
        }
        self.enter(page, 0);
        false
    }

    /// Pages in DRAM with their flags, in the order of frames.
    pub fn resident(&self) -> impl Iterator<Item = Victim> {
        let entry = |frame: u32| (frame, &self.entries[frame as usize]);
        let held =
            |(frame, entry): &(u32, &Entry<O::Note>)| self.frame_of.get(entry.page as usize) == Some(frame);
        let victim = |(_, entry): (u32, &Entry<O::Note>)| Victim { page: entry.page, flags: entry.flags };
        (0..self.frames()).map(entry).filter(held).map(victim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;
    use std::collections::VecDeque;

    /// Replays random references and compares each with a model of a few lines; returns the misses.
    fn agrees<O: Order>(mut model: impl FnMut(u32) -> bool, frames: u32) -> u32 {
        let (mut pool, mut rng, mut misses) = (Pool::<O>::new(50, frames), Rng::new(3), 0);
        for step in 0..20_000 {
            // Squared, so that some pages are hotter than others.
            let page = (rng.below(50) * rng.below(50) / 50) as u32;
            let hit = pool.access(page);
            assert_eq!(hit, model(page), "{} {frames} frames, step {step}, page {page}", O::NAME);
            misses += u32::from(!hit);
            if step % 7 == 0 && O::NAME != Clock::NAME {
                // What is put back is as if it had never been taken. (CLOCK's hand has moved.)
                let victim = pool.take_coldest().expect("not empty");
                pool.put_back(victim);
            }
        }
        misses
    }

    /// A list of (page, referenced), the next to go in front.
    fn model(frames: u32, moves: bool, second_chance: bool) -> impl FnMut(u32) -> bool {
        let mut list: VecDeque<(u32, bool)> = VecDeque::new();
        move |page| {
            if let Some(at) = list.iter().position(|(p, _)| *p == page) {
                list[at].1 = true;
                if moves {
                    let entry = list.remove(at).expect("it was found there");
                    list.push_back(entry);
                }
                return true;
            }
            while list.len() == frames as usize {
                let (page, referenced) = list.pop_front().expect("the list is full");
                if second_chance && referenced {
                    list.push_back((page, false));
                }
            }
            list.push_back((page, false));
            false
        }
    }

    #[test]
    fn orders_are_as_their_naive_models() {
        for frames in [1, 2, 7, 31] {
            let lru = agrees::<Lru>(model(frames, true, false), frames);
            let fifo = agrees::<Fifo>(model(frames, false, false), frames);
            let clock = agrees::<Clock>(model(frames, false, true), frames);
            assert!(frames < 7 || (lru < fifo && clock < fifo), "{frames}: {lru} {fifo} {clock}");
        }
    }

    #[test]
    fn dirt_goes_with_its_page_and_a_destage_cleans_what_was_not_changed_since() {
        let mut pool = Pool::<Lru>::new(4, 3);
        for page in 0..3 {
            pool.enter(page, if page == 1 { DIRTY } else { 0 });
        }
        let frame = pool.reference(0).expect("there");
        pool.soil(frame);
        pool.destaged(0);
        pool.destaged(1);
        pool.destaged(3);
        let gone: Vec<_> = std::iter::from_fn(|| pool.take_coldest()).collect();
        let pages: Vec<_> = gone.iter().map(|d| (d.page, d.dirty(), d.fdirty())).collect();
        assert_eq!(pages, [(1, false, false), (2, false, false), (0, true, true)]);
        assert_eq!((pool.free_frames(), pool.resident().count()), (3, 0));
    }
}
