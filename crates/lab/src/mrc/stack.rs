//! LRU stack distances in one pass (Mattson et al., 1970; with a Fenwick tree over time as Bennett and
//! Kruskal, 1975, and Olken, 1981, proposed): the distance of a reference is the number of different pages
//! since the page's last one, itself included; an LRU level of `n` pages hits if and only if the distance is
//! at most `n`.
//!
//! Times are places in a window four times as long as there are pages. A place is marked if it is the last
//! reference of its page. When the window is used up, the marked places are moved together and the tree is
//! built anew: in constant time for each reference on the average.
//!
//! References come piece by piece. Invariant: as many places are marked as pages have been referenced.

use entresol_trace::Request;

/// No reference yet.
const NEVER: u32 = u32::MAX;

/// How many references had which distance.
pub struct StackDistances {
    /// `counts[d]`: references at distance `d + 1`.
    counts: Vec<u64>,
    /// First references.
    first: u64,
    /// Place of each page's last reference.
    last: Vec<u32>,
    page_at: Vec<u32>,
    marks: Fenwick,
    now: u32,
    marked: u32,
}

/// Marks over places, with sums of prefixes.
struct Fenwick(Vec<u32>);

impl Fenwick {
    /// Marks at the first `marked` of `places`.
    fn packed(places: usize, marked: usize) -> Self {
        let node = |at: usize| {
            let span = at & at.wrapping_neg();
            (marked.min(at) - marked.min(at - span)) as u32
        };
        Self((0..=places).map(|at| if at == 0 { 0 } else { node(at) }).collect())
    }

    #[inline]
    fn add(&mut self, place: u32, by: u32) {
        let mut at = place as usize + 1;
        while at < self.0.len() {
            self.0[at] = self.0[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Marks at `place` and before.
    #[inline]
    fn up_to(&self, place: u32) -> u32 {
        let mut at = place as usize + 1;
        let mut sum = 0u32;
        while at > 0 {
            sum = sum.wrapping_add(self.0[at]);
            at &= at - 1;
        }
        sum
    }
}

impl StackDistances {
    /// No reference yet, to pages `0 .. pages`.
    pub fn new(pages: usize) -> Self {
        let window = (4 * pages).max(1024);
        Self {
            counts: vec![0; pages],
            first: 0,
            last: vec![NEVER; pages],
            page_at: vec![0u32; window],
            marks: Fenwick::packed(window, 0),
            now: 0,
            marked: 0,
        }
    }

    /// The references among `requests` follow.
    pub fn add(&mut self, requests: &[Request]) {
        let Self { counts, first, last, page_at, marks, .. } = self;
        let (mut now, mut marked) = (self.now, self.marked);
        let window = page_at.len();
        for request in requests.iter().filter(|request| request.is_reference()) {
            let page = request.page();
            if now as usize == window {
                now = pack(last, page_at);
                *marks = Fenwick::packed(window, now as usize);
            }
            let before = std::mem::replace(&mut last[page as usize], now);
            page_at[now as usize] = page;
            if before == NEVER {
                *first += 1;
                marked += 1;
                marks.add(now, 1);
            } else if before + 1 == now {
                // Referenced twice in a row: its mark moves by one place.
                counts[0] += 1;
                marks.add(before, 1u32.wrapping_neg());
                marks.add(now, 1);
            } else {
                let distance = marked - marks.up_to(before);
                counts[distance as usize] += 1;
                marks.add(before, 1u32.wrapping_neg());
                marks.add(now, 1);
            }
            now += 1;
        }
        (self.now, self.marked) = (now, marked);
    }

    /// References that miss an LRU level of each of `sizes` pages.
    pub fn misses(&self, sizes: &[u32]) -> Vec<u64> {
        let mut hits_below = Vec::with_capacity(self.counts.len() + 1);
        let mut sum = 0;
        hits_below.push(0);
        for count in &self.counts {
            sum += count;
            hits_below.push(sum);
        }
        let all = sum + self.first;
        let hits = |size: &u32| hits_below[(*size as usize).min(self.counts.len())];
        sizes.iter().map(|size| all - hits(size)).collect()
    }
}

/// Moves the last references together at the beginning of the window, in their order; returns how many there
/// are.
fn pack(last: &mut [u32], page_at: &mut [u32]) -> u32 {
    let mut to = 0;
    for from in 0..page_at.len() {
        let page = page_at[from];
        if last[page as usize] == from as u32 {
            last[page as usize] = to;
            page_at[to as usize] = page;
            to += 1;
        }
    }
    to
}
