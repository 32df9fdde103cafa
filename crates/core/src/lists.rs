//! Doubly linked lists of slots, linked by index: the one mechanism of all policies that order slots. A list
//! is a circle through its head. The nodes of the heads follow those of the slots. A node is [`node_words`]
//! words: two 28-bit links with half of the low byte of the generation in the upper bits of each, and the
//! policy's note.
//!
//! Invariants: a node is in at most one list; the links of neighbours in a list agree; the cursor is at a
//! slot that is in a list, or is [`NIL`].

use crate::sections::{Carver, Plain, SectionPlan};
use crate::slot::NIL;
use zerocopy::IntoBytes;

/// Words of a node's links.
const LINK_WORDS: usize = 2;

/// Words of a node with a note of type `N`.
pub(crate) const fn node_words<N: Plain>() -> usize {
    const { assert!(size_of::<N>().is_multiple_of(4) && align_of::<N>() <= 4) }
    LINK_WORDS + size_of::<N>() / 4
}

/// The lists of a policy. Log placement keeps none.
pub(crate) struct SlotLists<'r> {
    /// Slots on flash. The nodes from here on are the heads of lists.
    slots: u32,
    /// Words of a node.
    node_words: usize,
    nodes: &'r mut [u32],
    /// The slot at which the policy's cleaner or hand continues. [`NIL`]: at the beginning.
    pub cursor: &'r mut u32,
}

impl<'r> SlotLists<'r> {
    /// Attaches to the nodes, which were planned as `plan`. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach(
        cursor: &'r mut u32,
        plan: &SectionPlan,
        carver: &mut Carver<'r, '_>,
    ) -> Option<Self> {
        let (slots, node_words) = (carver.sizes().slots, plan.entry_bytes / size_of::<u32>());
        Some(Self { slots, node_words, nodes: carver.take(plan)?, cursor })
    }

    /// The node of the head of `list`.
    pub(crate) fn head(&self, list: u32) -> u32 {
        self.slots + list
    }

    /// Makes all `lists` lists empty.
    pub(crate) fn format(&mut self, lists: u32) {
        *self.cursor = NIL;
        for list in 0..lists {
            self.make_empty(self.head(list));
        }
    }

    fn make_empty(&mut self, node: u32) {
        self.set_prev(node, node);
        self.set_next(node, node);
    }

    fn word(&self, node: u32, at: usize) -> u32 {
        self.nodes[node as usize * self.node_words + at]
    }

    fn word_mut(&mut self, node: u32, at: usize) -> &mut u32 {
        &mut self.nodes[node as usize * self.node_words + at]
    }

    fn set_prev(&mut self, node: u32, to: u32) {
        let word = self.word_mut(node, 0);
        *word = *word & !NIL | to;
    }

    fn set_next(&mut self, node: u32, to: u32) {
        let word = self.word_mut(node, 1);
        *word = *word & !NIL | to;
    }

    pub(crate) fn prev_of(&self, node: u32) -> u32 {
        self.word(node, 0) & NIL
    }

    pub(crate) fn next_of(&self, node: u32) -> u32 {
        self.word(node, 1) & NIL
    }

    /// The note of `slot`, of the type that the nodes were planned with.
    pub(crate) fn note<N: Plain>(&self, slot: u32) -> N {
        let at = slot as usize * node_words::<N>() + LINK_WORDS;
        let words = &self.nodes[at..][..node_words::<N>() - LINK_WORDS];
        N::read_from_bytes(words.as_bytes()).expect("a node has room for the note")
    }

    /// Changes the note of `slot`, of the type that the nodes were planned with.
    pub(crate) fn set_note<N: Plain>(&mut self, slot: u32, note: N) {
        let at = slot as usize * node_words::<N>() + LINK_WORDS;
        let words = &mut self.nodes[at..][..node_words::<N>() - LINK_WORDS];
        note.write_to(words.as_mut_bytes()).expect("a node has room for the note");
    }

    /// Appends `slot` to `list`.
    pub(crate) fn push_back(&mut self, list: u32, slot: u32) {
        let node = self.head(list);
        let last = self.prev_of(node);
        self.set_prev(slot, last);
        self.set_next(slot, node);
        self.set_next(last, slot);
        self.set_prev(node, slot);
    }

    /// Removes `slot` from its list.
    pub(crate) fn take_out(&mut self, slot: u32) {
        let (prev, next) = (self.prev_of(slot), self.next_of(slot));
        if *self.cursor == slot {
            *self.cursor = self.slot(next).unwrap_or(NIL);
        }
        self.set_next(prev, next);
        self.set_prev(next, prev);
    }

    /// Moves `slot` to the end of `list`.
    pub(crate) fn move_to_back(&mut self, list: u32, slot: u32) {
        self.take_out(slot);
        self.push_back(list, slot);
    }

    /// `new`, which is in no list, takes the place of `old` in its list, with its note.
    pub(crate) fn replace(&mut self, old: u32, new: u32) {
        for at in LINK_WORDS..self.node_words {
            *self.word_mut(new, at) = self.word(old, at);
        }
        let (prev, next) = (self.prev_of(old), self.next_of(old));
        self.set_prev(new, prev);
        self.set_next(new, next);
        self.set_next(prev, new);
        self.set_prev(next, new);
        if *self.cursor == old {
            *self.cursor = new;
        }
    }

    /// Loads the nodes that a move of `slots` will change into the processor's cache: the nodes, their
    /// neighbours, and the ends of the lists that `list_of` expects. These nodes are scattered in memory.
    /// Without this, the processor would wait for each of them while the lists are changed.
    pub(crate) fn touch(&self, slots: &[u32], list_of: impl Fn(u32) -> u32) {
        let own = slots.iter().fold(0, |sum, slot| sum ^ self.word(*slot, 0));
        let others = slots.iter().fold(0, |sum, slot| {
            let tail = self.prev_of(self.head(list_of(*slot)));
            sum ^ self.word(self.prev_of(*slot), 1) ^ self.word(self.next_of(*slot), 0) ^ self.word(tail, 1)
        });
        // Prevents the compiler from removing the reads.
        std::hint::black_box(own ^ others);
    }

    /// Moves all slots of list `from` to the end of list `to`.
    pub(crate) fn splice(&mut self, from: u32, to: u32) {
        let (from, to) = (self.head(from), self.head(to));
        let (first, last) = (self.next_of(from), self.prev_of(from));
        if first == from {
            return;
        }
        let tail = self.prev_of(to);
        self.set_next(tail, first);
        self.set_prev(first, tail);
        self.set_next(last, to);
        self.set_prev(to, last);
        self.make_empty(from);
    }

    /// The slot of `node`. `None`: the node is the head of a list.
    pub(crate) fn slot(&self, node: u32) -> Option<u32> {
        (node < self.slots).then_some(node)
    }

    /// The first slot of `list`, if it has any.
    pub(crate) fn first_of(&self, list: u32) -> Option<u32> {
        self.slot(self.next_of(self.head(list)))
    }

    /// The slots of `list`, from its first.
    pub(crate) fn slots_of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.head(list);
        std::iter::from_fn(move || {
            at = self.slot(self.next_of(at))?;
            Some(at)
        })
    }

    /// The first slot of `list` for which `wanted` holds.
    pub(crate) fn first_where(&self, list: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        self.slots_of(list).find(|slot| wanted(*slot))
    }

    /// Counts the writes to `slot`.
    pub(crate) fn generation_byte(&self, slot: u32) -> u8 {
        ((self.word(slot, 0) >> 28) << 4 | self.word(slot, 1) >> 28) as u8
    }

    pub(crate) fn set_generation_byte(&mut self, slot: u32, byte: u8) {
        let (high, low) = ((byte as u32 >> 4) << 28, (byte as u32 & 15) << 28);
        let word = self.word_mut(slot, 0);
        *word = *word & NIL | high;
        let word = self.word_mut(slot, 1);
        *word = *word & NIL | low;
    }
}
