//! A B-tree as the pages that a descent touches: root, inner page where there is one, leaf.
//!
//! Entries are in key order. An index may be in partitions (one a district) to whose ends entries are
//! appended: each then fills leaves of its own, at the end of the file.

use super::relation::Relation;
use super::transactions::Steps;
use std::collections::BTreeMap;

/// Leaves below an inner page.
const FANOUT: u32 = 300;

/// An index.
#[derive(Debug)]
pub(super) struct Index {
    relation: Relation,
    per_leaf: f64,
    /// Entries of a partition when loaded.
    partition: u32,
    leaves: u32,
    inner: u32,
    /// First appended entry's number by partition → leaves of the appended.
    grown: BTreeMap<u32, Vec<u32>>,
    /// The next new page.
    end: u32,
}

/// Page 0 of a PostgreSQL index is its meta page, which is cached elsewhere.
const ROOT: u32 = 1;

impl Index {
    /// An index over `partitions` of `partition` entries each.
    pub fn new(relation: Relation, partitions: u32, partition: u32) -> Self {
        let per_leaf = relation.per_page();
        let leaves = (f64::from(partitions) * f64::from(partition) / per_leaf).ceil() as u32;
        let inner = if leaves > FANOUT { leaves.div_ceil(FANOUT) } else { 0 };
        let end = ROOT + 1 + inner + leaves;
        Self { relation, per_leaf, partition, leaves, inner, grown: BTreeMap::new(), end }
    }

    /// The place of a loaded leaf, and which one is above it.
    fn loaded(&self, partition: u32, entry: u32) -> u32 {
        let place = f64::from(partition) * f64::from(self.partition) + f64::from(entry);
        ((place / self.per_leaf) as u32).min(self.leaves - 1)
    }

    /// The page of entry `entry` of `partition`.
    pub fn leaf(&mut self, partition: u32, entry: u32) -> u32 {
        let first = ROOT + 1 + self.inner;
        let Some(appended) = entry.checked_sub(self.partition) else {
            return first + self.loaded(partition, entry);
        };
        let leaf = (f64::from(appended) / self.per_leaf) as usize;
        let grown = self.grown.entry(partition).or_default();
        while grown.len() <= leaf {
            grown.push(self.end);
            self.end += 1;
        }
        grown[leaf]
    }

    /// Descends to the leaf of an entry, and returns the leaf's page.
    pub fn descend(&mut self, steps: &mut Steps<'_>, partition: u32, entry: u32) -> u32 {
        steps.fix(self.relation, ROOT);
        if self.inner > 0 {
            let above = self.loaded(partition, entry.min(self.partition - 1)) / FANOUT;
            steps.fix(self.relation, ROOT + 1 + above);
        }
        let leaf = self.leaf(partition, entry);
        steps.fix(self.relation, leaf);
        leaf
    }

    /// Descends and inserts.
    pub fn insert(&mut self, steps: &mut Steps<'_>, partition: u32, entry: u32) {
        let leaf = self.descend(steps, partition, entry);
        steps.dirty(self.relation, leaf);
    }

    /// Walks on to the leaves up to that of another entry.
    pub fn walk(&mut self, steps: &mut Steps<'_>, partition: u32, from: u32, to: u32) {
        let (mut last, step) = (self.leaf(partition, from), (self.per_leaf / 2.0) as usize);
        for entry in (from..=to).step_by(step.max(1)).chain([to]) {
            let leaf = self.leaf(partition, entry);
            if leaf != last {
                steps.fix(self.relation, leaf);
                last = leaf;
            }
        }
    }
}
