//! The memory of the directory: the core's partition, and behind it the table of objects, if there is one.
//! One latch guards both, so a look-up and the question whether its page is dead are one step.
//!
//! Beside them are the words that hits read without the latch: the partition's index, and of each object the
//! position from which its pages live ([`crate::access::Directory`]).
//!
//! The memory is this process's own, or parts of the segment that many share. There a process may die in
//! the middle of a step: then the latch is given up, and no task gets it any more.

use crate::{TierError, TierOptions};
use entresol_core::{Partition, Shape, index_words, own_bytes};
use entresol_format::Uuid;
use entresol_objects::{Objects, ObjectsConfig};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::{Gone, Guarded, Holder, Shared};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use zerocopy::IntoBytes;

/// Words that may be read without the latch: of this process, or in a segment.
pub(crate) enum Words<T: 'static> {
    Private(Arc<[T]>),
    Mapped(Shared<[T]>),
}

impl<T> Deref for Words<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Words::Private(words) => words,
            Words::Mapped(words) => words,
        }
    }
}

/// The memory that the latch guards.
struct Guard {
    words: Vec<u64>,
    /// Words of the partition.
    partition: usize,
}

/// See the module's header.
pub(crate) struct Region {
    guarded: Guard,
    index: Arc<[AtomicU32]>,
    lives: Arc<[AtomicU64]>,
}

/// What the table of objects of `cache` is to be; `None`: it has none.
pub(crate) fn objects_config(options: &TierOptions, cache: Uuid) -> Option<ObjectsConfig> {
    let config =
        ObjectsConfig { cache, objects_max: options.objects, log_blocks: options.object_log_blocks() };
    (options.objects > 0).then_some(config)
}

/// Words of 64 bits that the latch guards: of the partition, and of the table of objects.
pub(crate) fn words_of(options: &TierOptions) -> (usize, usize) {
    let table = objects_config(options, Uuid::NIL)
        .map_or(0, |objects| entresol_objects::region_bytes(&objects).div_ceil(size_of::<u64>()));
    (own_bytes(&options.config()) / size_of::<u64>(), table)
}

/// Words of the index, and of what lives.
pub(crate) fn unlatched_words_of(options: &TierOptions) -> (usize, usize) {
    let lives = if options.objects > 0 { options.objects as usize + 1 } else { 0 };
    (index_words(&options.config()), lives)
}

impl Region {
    /// An empty directory, and an empty table of objects of `cache`.
    pub(crate) fn new(options: &TierOptions, cache: Uuid) -> Result<Self, TierError> {
        let config = |error: &dyn std::fmt::Display| TierError::Config(error.to_string());
        let ((partition, table), (index, lives)) = (words_of(options), unlatched_words_of(options));
        let mut region = Self {
            guarded: Guard { words: vec![0; partition + table], partition },
            index: (0..index).map(|_| AtomicU32::new(0)).collect(),
            lives: (0..lives).map(|_| AtomicU64::new(0)).collect(),
        };
        let (own, table) = split(&mut region.guarded.words, partition);
        let mut partition =
            Partition::format_parts(own, &region.index, &options.config()).map_err(|error| config(&error))?;
        partition.set_costs(&options.costs);
        if let Some(objects) = objects_config(options, cache) {
            Objects::format(table, &objects).map_err(|error| config(&error))?;
        }
        Ok(region)
    }

    /// The partition, and the bytes of the table of objects, which may be none.
    ///
    /// # Panics
    /// If the region is not that of a partition any more.
    pub(crate) fn split(&mut self) -> (Partition<'_>, &mut [u8]) {
        let (own, table) = split(&mut self.guarded.words, self.guarded.partition);
        let shape = Shape::of_parts(own, &self.index).expect("the region was formatted as a partition");
        (Partition::attach_parts(own, &self.index, &shape), table)
    }

    /// The partition.
    ///
    /// # Panics
    /// If the region is not that of a partition any more.
    pub(crate) fn partition(&mut self) -> Partition<'_> {
        self.split().0
    }
}

#[inline]
fn split(words: &mut [u64], partition: usize) -> (&mut [u8], &mut [u8]) {
    let (partition, table) = words.split_at_mut(partition);
    (partition.as_mut_bytes(), table.as_mut_bytes())
}

/// What the latch guards, in a segment.
pub(crate) struct MappedRegion {
    pub area: Guarded,
    pub me: Holder,
    /// Words of the partition.
    pub partition: usize,
}

/// A latch, and what it guards.
enum Latched {
    Private(TinyMutex<Guard>),
    Mapped(MappedRegion),
}

/// A region with its latch.
pub(crate) struct RegionMemory {
    latched: Latched,
    pub index: Words<AtomicU32>,
    /// With a table of objects: the front that it knows, then a word for each object. See
    /// [`crate::access::Directory`].
    pub lives: Words<AtomicU64>,
}

impl RegionMemory {
    pub(crate) fn private(region: Region) -> Self {
        let Region { guarded, index, lives } = region;
        let latched = Latched::Private(TinyMutex::new(Rank::CachePartition, guarded));
        Self { latched, index: Words::Private(index), lives: Words::Private(lives) }
    }

    pub(crate) fn mapped(
        region: MappedRegion,
        index: Shared<[AtomicU32]>,
        lives: Shared<[AtomicU64]>,
    ) -> Self {
        let latched = Latched::Mapped(region);
        Self { latched, index: Words::Mapped(index), lives: Words::Mapped(lives) }
    }

    /// Runs `step` on the bytes of the partition's own part and of the table of objects, with the latch.
    #[inline]
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut [u8], &mut [u8]) -> R) -> Result<R, Gone> {
        match &self.latched {
            Latched::Private(region) => {
                let mut region = region.lock();
                let Guard { words, partition } = &mut *region;
                let (partition, table) = split(words, *partition);
                Ok(step(partition, table))
            }
            Latched::Mapped(region) => {
                let mut words = region.area.lock(region.me)?;
                let (partition, table) = split(&mut words, region.partition);
                let result = step(partition, table);
                #[cfg(feature = "hooks")]
                crate::hooks::pass("latch");
                Ok(result)
            }
        }
    }

    /// As [`RegionMemory::with`], of the partition alone. Never waits. `None`: the latch is held or gone.
    pub(crate) fn try_with<R>(&self, step: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        match &self.latched {
            Latched::Private(region) => {
                let mut region = region.try_lock()?;
                let Guard { words, partition } = &mut *region;
                Some(step(split(words, *partition).0))
            }
            Latched::Mapped(region) => {
                let mut words = region.area.try_lock_area(0, region.me).ok()??;
                Some(step(split(&mut words, region.partition).0))
            }
        }
    }

    /// Copies this region into `to`, which is not published yet.
    pub(crate) fn copy_to(&self, to: &Self) -> Result<(), Gone> {
        // By way of a copy: one latch of a region is held at a time.
        let mut copy = Vec::new();
        let mut index = Vec::with_capacity(self.index.len());
        let length = self.with(|partition, table| partition.len() + table.len())?;
        copy.resize(length, 0);
        self.with(|partition, table| {
            let (to_partition, to_table) = copy.split_at_mut(partition.len());
            to_partition.copy_from_slice(partition);
            to_table.copy_from_slice(table);
            index.extend(self.index.iter().map(|word| word.load(Relaxed)));
        })?;
        to.with(|partition, table| {
            let (of_partition, of_table) = copy.split_at(partition.len());
            partition.copy_from_slice(of_partition);
            table.copy_from_slice(of_table);
            to.index.iter().zip(index).for_each(|(to, word)| to.store(word, Relaxed));
        })
    }
}
