//! Doubly linked lists of slots, by index: the one mechanism of all policies that order slots. Lists are circles through
//! their heads, which are nodes behind the slots'. A node is [`node_words`] words: two 28-bit links with half of the low
//! byte of the generation in the upper bits of each, and the [`Policy::Note`].
//!
//! Invariant: a node is in at most one list; the links of a list's neighbours agree.

use crate::policy::{Placement, Policy};
use crate::region::Partition;
use crate::slot::NIL;
use zerocopy::{FromBytes, IntoBytes};

/// Words of a node's links.
const LINK_WORDS: usize = 2;

/// Words of a node of policy `P`.
pub(crate) const fn node_words<P: Policy>() -> usize {
    const { assert!(size_of::<P::Note>().is_multiple_of(4) && align_of::<P::Note>() <= 4) }
    match P::FACTS.placement {
        Placement::Log => 0,
        Placement::Slots => LINK_WORDS + size_of::<P::Note>() / 4,
    }
}

impl Partition<'_> {
    /// The node of the head of `list`.
    pub(crate) fn list_node(&self, list: u32) -> u32 {
        self.head.slots + list
    }

    /// Makes all `lists` lists empty.
    pub(crate) fn init_lists(&mut self, lists: u32) {
        for list in 0..lists {
            self.init_list(self.list_node(list));
        }
    }

    fn init_list(&mut self, node: u32) {
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

    /// What policy `P`, the partition's, notes of `slot`.
    pub(crate) fn note<P: Policy>(&self, slot: u32) -> P::Note {
        let at = slot as usize * node_words::<P>() + LINK_WORDS;
        let words = &self.nodes[at..][..node_words::<P>() - LINK_WORDS];
        P::Note::read_from_bytes(words.as_bytes()).expect("a node has room for the note")
    }

    /// Changes what policy `P`, the partition's, notes of `slot`.
    pub(crate) fn set_note<P: Policy>(&mut self, slot: u32, note: P::Note) {
        let at = slot as usize * node_words::<P>() + LINK_WORDS;
        let words = &mut self.nodes[at..][..node_words::<P>() - LINK_WORDS];
        note.write_to(words.as_mut_bytes()).expect("a node has room for the note");
    }

    /// Appends `slot` to `list`.
    pub(crate) fn push_back(&mut self, list: u32, slot: u32) {
        let node = self.list_node(list);
        let last = self.prev_of(node);
        self.set_prev(slot, last);
        self.set_next(slot, node);
        self.set_next(last, slot);
        self.set_prev(node, slot);
    }

    /// Takes `slot` out of the list it is in.
    pub(crate) fn take_out(&mut self, slot: u32) {
        let (prev, next) = (self.prev_of(slot), self.next_of(slot));
        if self.head.clean_cursor == slot {
            self.head.clean_cursor = if next < self.head.slots { next } else { NIL };
        }
        self.set_next(prev, next);
        self.set_prev(next, prev);
    }

    /// Moves `slot` to the end of `list`.
    pub(crate) fn move_to_back(&mut self, list: u32, slot: u32) {
        self.take_out(slot);
        self.push_back(list, slot);
    }

    /// Brings the nodes that moving `slots` will change into the processor's cache: the nodes and their neighbours, and the
    /// ends of the lists that `list_of` expects them to go to. They lie anywhere in memory; read one after the other while
    /// the lists are changed, each would be waited for.
    pub(crate) fn touch_nodes(&self, slots: &[u32], list_of: impl Fn(&Self, u32) -> u32) {
        let own = slots.iter().fold(0, |sum, slot| sum ^ self.word(*slot, 0));
        let others = slots.iter().fold(0, |sum, slot| {
            let tail = self.prev_of(self.list_node(list_of(self, *slot)));
            sum ^ self.word(self.prev_of(*slot), 1) ^ self.word(self.next_of(*slot), 0) ^ self.word(tail, 1)
        });
        // Otherwise the compiler leaves the reading out.
        std::hint::black_box(own ^ others);
    }

    /// Appends all of list `from` to list `to`.
    pub(crate) fn splice(&mut self, from: u32, to: u32) {
        let (from, to) = (self.list_node(from), self.list_node(to));
        let (first, last) = (self.next_of(from), self.prev_of(from));
        if first == from {
            return;
        }
        let tail = self.prev_of(to);
        self.set_next(tail, first);
        self.set_prev(first, tail);
        self.set_next(last, to);
        self.set_prev(to, last);
        self.init_list(from);
    }

    /// The first slot of `list`, if it has any.
    pub(crate) fn first_of(&self, list: u32) -> Option<u32> {
        let first = self.next_of(self.list_node(list));
        (first < self.head.slots).then_some(first)
    }

    /// The first slot of `list` for which `wanted` holds.
    pub(crate) fn first_where(&self, list: u32, wanted: impl Fn(&Self, u32) -> bool) -> Option<u32> {
        let node = self.list_node(list);
        let mut at = self.next_of(node);
        while at != node {
            if wanted(self, at) {
                return Some(at);
            }
            at = self.next_of(at);
        }
        None
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
