//! The write buffer: database pages in DRAM on their way to the chip, with counts of their reads and writes
//! (thesis §3.1).
//!
//! Invariant: a page is in at most once; the page at the cold end is evicted first. With
//! [`Order::LeastRecentlyWritten`] only writes make a page warm, so that pages that are written again and
//! again stay.

use super::HostPage;
use crate::id::NONE;

/// What makes a page warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// LRW: writes.
    LeastRecentlyWritten,
    /// LRU: reads, too.
    LeastRecentlyUsed,
}

/// An evicted page, and its use meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffered {
    pub page: HostPage,
    pub reads: u16,
    pub writes: u16,
    /// It came from a read-frequent block.
    pub returned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    buffered: Buffered,
    warmer: u32,
    colder: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    order: Order,
    capacity: u32,
    /// Entry of each page of the disk.
    index: Vec<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    warmest: u32,
    coldest: u32,
    len: u32,
}

impl WriteBuffer {
    pub fn new(order: Order, capacity: u32, disk_pages: u32) -> Self {
        Self {
            order,
            capacity,
            index: vec![NONE; disk_pages as usize],
            entries: Vec::new(),
            free: Vec::new(),
            warmest: NONE,
            coldest: NONE,
            len: 0,
        }
    }

    pub fn contains(&self, page: HostPage) -> bool {
        self.index[page.0 as usize] != NONE
    }

    /// More pages than there is room for: some are to be popped.
    pub fn is_over_full(&self) -> bool {
        self.len > self.capacity
    }

    /// Counts a read; whether the page is here.
    pub fn read(&mut self, page: HostPage) -> bool {
        let index = self.index[page.0 as usize];
        if index != NONE {
            let buffered = &mut self.entries[index as usize].buffered;
            buffered.reads = buffered.reads.saturating_add(1);
            if self.order == Order::LeastRecentlyUsed {
                self.warm(index);
            }
        }
        index != NONE
    }

    /// Counts a write; whether the page is here.
    pub fn write(&mut self, page: HostPage) -> bool {
        let index = self.index[page.0 as usize];
        if index != NONE {
            let buffered = &mut self.entries[index as usize].buffered;
            buffered.writes = buffered.writes.saturating_add(1);
            self.warm(index);
        }
        index != NONE
    }

    /// A page enters at the warm end.
    pub fn insert(&mut self, buffered: Buffered) {
        debug_assert!(!self.contains(buffered.page), "{buffered:?} is in the write buffer already");
        let entry = Entry { buffered, warmer: NONE, colder: NONE };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.index[buffered.page.0 as usize] = index;
        self.link(index);
        self.len += 1;
    }

    /// Evicts the page at the cold end.
    pub fn pop(&mut self) -> Option<Buffered> {
        let index = self.coldest;
        if index == NONE {
            return None;
        }
        self.unlink(index);
        self.free.push(index);
        self.len -= 1;
        let buffered = self.entries[index as usize].buffered;
        self.index[buffered.page.0 as usize] = NONE;
        Some(buffered)
    }

    fn warm(&mut self, index: u32) {
        self.unlink(index);
        self.link(index);
    }

    fn link(&mut self, index: u32) {
        let colder = std::mem::replace(&mut self.warmest, index);
        self.entries[index as usize].colder = colder;
        self.entries[index as usize].warmer = NONE;
        match colder {
            NONE => self.coldest = index,
            colder => self.entries[colder as usize].warmer = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { warmer, colder, .. } = self.entries[index as usize];
        match warmer {
            NONE => self.warmest = colder,
            warmer => self.entries[warmer as usize].colder = colder,
        }
        match colder {
            NONE => self.coldest = warmer,
            colder => self.entries[colder as usize].warmer = warmer,
        }
    }

    /// The pages in it, coldest first.
    pub fn pages(&self) -> impl Iterator<Item = HostPage> + '_ {
        let next = |index: u32| (index != NONE).then(|| &self.entries[index as usize]);
        std::iter::successors(next(self.coldest), move |entry| next(entry.warmer))
            .map(|entry| entry.buffered.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(page: u32, reads: u16) -> Buffered {
        Buffered { page: HostPage(page), reads, writes: 0, returned: false }
    }

    #[test]
    fn reads_count_and_only_writes_warm() {
        for (order, expected) in
            [(Order::LeastRecentlyWritten, [2, 3, 1]), (Order::LeastRecentlyUsed, [3, 2, 1])]
        {
            let mut buffer = WriteBuffer::new(order, 2, 10);
            (1..4).for_each(|page| buffer.insert(entered(page, 1)));
            assert!(buffer.is_over_full());
            assert!(buffer.read(HostPage(2)) && buffer.write(HostPage(1)) && !buffer.read(HostPage(9)));
            assert_eq!(buffer.pages().map(|page| page.0).collect::<Vec<_>>(), expected);
            let popped: Vec<_> = std::iter::from_fn(|| buffer.pop()).collect();
            assert_eq!(popped.iter().map(|b| b.page.0).collect::<Vec<_>>(), expected);
            let counts = |page| popped.iter().find(|b| b.page.0 == page).map(|b| (b.reads, b.writes));
            assert_eq!((counts(1), counts(2)), (Some((1, 1)), Some((2, 0))));
            assert!(!buffer.contains(HostPage(1)) && buffer.pop().is_none());
        }
    }
}
