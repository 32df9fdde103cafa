//! A partition filled by a simple driver: the subject of the benches and instruction counts.
#![allow(dead_code)] // each user needs a part

use entresol_core::{
    Admission, Config, Fate, FrameId, Job, Lookup, Lsn, PageId, Partition, PolicyKind, region_bytes,
};
use zerocopy::IntoBytes;

/// Deterministic noise (splitmix64).
pub struct Noise(pub u64);

impl Noise {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z >> 32) * bound as u64) >> 32) as u32
    }
}

/// Pages spread over a few relations, as a database has them.
pub fn page(number: u32) -> PageId {
    PageId::new(16_384 + number % 7, number / 7)
}

/// The region of a partition that was filled twice.
pub struct Filled {
    pub region: Vec<u64>,
    /// Pages that exist; half of them fit.
    pub pages: u32,
}

/// Does all outstanding jobs, each at once.
pub fn settle(partition: &mut Partition<'_>) {
    while let Some(job) = partition.next_job() {
        match job {
            Job::Write { ticket, pages, .. } => partition.written(ticket, &pages),
            Job::Clean(page) => partition.cleaned(&page),
            Job::PullVictims(_) => {}
            Job::Dequeue { ticket, pages, .. } => {
                for page in pages.iter().filter(|page| page.fate == Fate::SecondChance) {
                    let log = partition.log_mut().expect("only a log gives second chances");
                    if let Admission::Stage { frame, .. } = log.restage(ticket, page, Lsn(1)) {
                        partition.staged(frame);
                    }
                }
                partition.dequeued(ticket);
            }
        }
    }
}

impl Filled {
    pub fn new(policy: PolicyKind, slots: u32) -> Self {
        let config = Config::new(policy, slots);
        let mut region = vec![0u64; region_bytes(&config) / 8];
        let mut partition = Partition::format(region.as_mut_bytes(), &config).expect("a usual configuration");
        let pages = 2 * config.slots;
        let mut noise = Noise(1);
        let (mut entered, mut batch) = (0, 0);
        while entered < 2 * config.slots {
            let page = page(noise.below(pages));
            let dirty = noise.below(2) == 0;
            let from_disk = policy.populates() && partition.peek(page) == Lookup::Absent;
            let admission = match partition.slots_mut() {
                Some(slots) if from_disk => slots.arrived(page),
                _ => partition.evict(page, Lsn(1), dirty, dirty),
            };
            if let Admission::Stage { frame, .. } = admission {
                partition.staged(frame);
                entered += 1;
            }
            batch += 1;
            if batch == 64 {
                settle(&mut partition);
                batch = 0;
            }
        }
        settle(&mut partition);
        Self { region, pages }
    }

    pub fn attach(&mut self) -> Partition<'_> {
        Partition::attach(self.region.as_mut_bytes()).expect("a partition")
    }

    /// `count` random pages: all on flash if `present`, none of them otherwise.
    pub fn sample(&mut self, count: usize, present: bool) -> Vec<PageId> {
        let (pages, mut noise) = (self.pages, Noise(2));
        let partition = self.attach();
        let mut sample = Vec::with_capacity(count);
        while sample.len() < count {
            let page = page(noise.below(pages));
            if matches!(partition.peek(page), Lookup::Flash { .. }) == present {
                sample.push(page);
            }
        }
        sample
    }
}

/// Evicts a page into staging, without the copy.
#[inline(always)]
pub fn evict(partition: &mut Partition<'_>, page: PageId) -> Option<FrameId> {
    match partition.evict(page, Lsn(1), true, true) {
        Admission::Stage { frame, .. } => {
            partition.staged(frame);
            Some(frame)
        }
        _ => None,
    }
}
