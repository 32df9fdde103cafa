//! A change of the policy: a new partition takes over the pages of an old one, where they are.

use crate::config::Config;
use crate::contents::Decisions;
use crate::partition::Partition;

impl Partition<'_> {
    /// Goes on where `old` ends, under this partition's policy, with its pages where they are: as a close and
    /// an open would. What `old` has learned of its pages, and their order in slots, is lost. This partition
    /// has just been formatted, in the same placement and with slots and groups of the same size.
    ///
    /// # Panics
    /// If it was not, or if pages of `old` are staged or under way.
    pub fn take_over(&mut self, old: &Partition<'_>) {
        let (ours, theirs) = (self.config(), old.config());
        let sizes = |config: &Config| (config.slots, config.group_pages);
        assert_eq!(sizes(&ours), sizes(&theirs), "slots and group of the old partition");
        assert!(old.staging_is_empty(), "the old partition has {} staged pages", old.occupancy().staged);
        *self.contents_mut().decisions = Decisions(old.decision_hash());
        match (self, old) {
            (Partition::Log(log), Partition::Log(old)) => log.take_over(old),
            (Partition::Slots(slots), Partition::Slots(old)) => slots.take_over(old),
            (_, old) => panic!("pages of {} are placed otherwise", old.config().policy.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::shadow::{Counts, settle, write_all};
    use crate::{Admission, Config, Lookup, Lsn, PageId, Partition, PolicyKind, region_bytes};
    use PolicyKind::{Face, FaceGsc, Lc, Lru, Reuse, ReuseSlots, S3Fifo};
    use zerocopy::IntoBytes;

    const PAGES: u64 = 6000;

    /// Evicts pages, each fetched before, of which every third is dirty.
    fn work(partition: &mut Partition<'_>, state: &mut u64, evictions: u32) {
        for _ in 0..evictions {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (one, two) = (*state >> 33, *state >> 20 & 0xfff);
            let page = PageId(one % PAGES * two / 0x1000);
            let is_there = partition.fetch(page) != Lookup::Absent;
            if !is_there && partition.config().policy.learns_from_misses() {
                partition.missed(page);
            }
            let fdirty = two.is_multiple_of(3);
            loop {
                let dirty = fdirty || matches!(partition.peek(page), Lookup::Flash { dirty: true, .. });
                match partition.evict(page, Lsn(1), dirty, fdirty) {
                    Admission::Full => settle(partition, &mut Counts::default()),
                    Admission::Stage { frame, .. } => break partition.staged(frame),
                    Admission::AlreadyThere | Admission::Bypass { .. } => break,
                }
            }
        }
    }

    #[test]
    fn a_partition_takes_over_the_pages_of_another_policy() {
        let pairs = [(FaceGsc, Reuse), (Reuse, FaceGsc), (Face, FaceGsc), (Lc, S3Fifo), (S3Fifo, ReuseSlots)];
        for (from, to) in pairs.into_iter().chain([(ReuseSlots, Lc), (Lc, Lru)]) {
            let config = |policy| Config::with_group(policy, 2048, 16);
            let region = |policy| vec![0u64; region_bytes(&config(policy)) / 8];
            let (mut before, mut after) = (region(from), region(to));
            let mut old = Partition::format(before.as_mut_bytes(), &config(from)).expect("valid");
            let mut state = 1;
            for turn in 0..5 {
                work(&mut old, &mut state, 1777 * (turn + 1));
                settle(&mut old, &mut Counts::default());
                old.close_group();
                write_all(&mut old, &mut Counts::default());
                let mut new = Partition::format(after.as_mut_bytes(), &config(to)).expect("valid");
                new.take_over(&old);
                new.check().unwrap_or_else(|violation| panic!("{from:?} to {to:?}: {violation}"));
                assert_eq!(new.decision_hash(), old.decision_hash());
                assert!(old.occupancy().dirty > 0, "{from:?} has dirty pages");
                for page in (0..PAGES).map(PageId) {
                    assert_eq!(new.peek(page), old.peek(page), "{from:?} to {to:?}: {page:?}");
                }
                work(&mut new, &mut state, 5000);
                new.check().unwrap_or_else(|violation| panic!("{from:?} to {to:?}, later: {violation}"));
            }
        }
    }
}
