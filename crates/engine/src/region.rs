//! The memory of the directory: the core's partition, and behind it the table of objects, if there is one.
//! One latch guards both, so a look-up and the question whether its page is dead are one step.
//!
//! The memory is this process's own, or an area of the segment that many share. There a process may die in
//! the middle of a step: then the latch is given up, and no task gets it any more.

use crate::{TierError, TierOptions};
use entresol_core::{Partition, region_bytes};
use entresol_format::Uuid;
use entresol_objects::{Objects, ObjectsConfig};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::{Gone, Guarded, Holder};
use zerocopy::IntoBytes;

/// See the module's header.
pub(crate) struct Region {
    words: Vec<u64>,
    /// Words of the partition.
    partition: usize,
}

/// What the table of objects of `cache` is to be; `None`: it has none.
pub(crate) fn objects_config(options: &TierOptions, cache: Uuid) -> Option<ObjectsConfig> {
    let config =
        ObjectsConfig { cache, objects_max: options.objects, log_blocks: options.object_log_blocks() };
    (options.objects > 0).then_some(config)
}

/// Words of the partition, and of the table of objects.
pub(crate) fn words_of(options: &TierOptions) -> (usize, usize) {
    let table = objects_config(options, Uuid::NIL)
        .map_or(0, |objects| entresol_objects::region_bytes(&objects).div_ceil(size_of::<u64>()));
    (region_bytes(&options.config()).div_ceil(size_of::<u64>()), table)
}

impl Region {
    /// An empty directory, and an empty table of objects of `cache`.
    pub(crate) fn new(options: &TierOptions, cache: Uuid) -> Result<Self, TierError> {
        let config = |error: &dyn std::fmt::Display| TierError::Config(error.to_string());
        let (partition, table) = words_of(options);
        let mut region = Self { words: vec![0; partition + table], partition };
        let (partition, table) = region.split();
        let mut partition =
            Partition::format(partition, &options.config()).map_err(|error| config(&error))?;
        partition.set_costs(&options.costs);
        if let Some(objects) = objects_config(options, cache) {
            Objects::format(table, &objects).map_err(|error| config(&error))?;
        }
        Ok(region)
    }

    /// The bytes of the partition, and of the table of objects, which may be none.
    pub(crate) fn split(&mut self) -> (&mut [u8], &mut [u8]) {
        split(&mut self.words, self.partition)
    }

    /// The partition.
    ///
    /// # Panics
    /// If the region is not that of a partition any more.
    pub(crate) fn partition(&mut self) -> Partition<'_> {
        Partition::attach(self.split().0).expect("the region was formatted as a partition")
    }
}

#[inline]
fn split(words: &mut [u64], partition: usize) -> (&mut [u8], &mut [u8]) {
    let (partition, table) = words.split_at_mut(partition);
    (partition.as_mut_bytes(), table.as_mut_bytes())
}

/// A region in a segment.
pub(crate) struct MappedRegion {
    pub area: Guarded,
    pub me: Holder,
    /// Words of the partition.
    pub partition: usize,
}

/// A region with its latch.
pub(crate) enum RegionMemory {
    Private(TinyMutex<Region>),
    Mapped(MappedRegion),
}

impl RegionMemory {
    pub(crate) fn private(region: Region) -> Self {
        RegionMemory::Private(TinyMutex::new(Rank::CachePartition, region))
    }

    /// Runs `step` on the bytes of the partition and of the table of objects, with the latch.
    #[inline]
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut [u8], &mut [u8]) -> R) -> Result<R, Gone> {
        match self {
            RegionMemory::Private(region) => {
                let mut region = region.lock();
                let (partition, table) = region.split();
                Ok(step(partition, table))
            }
            RegionMemory::Mapped(region) => {
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
        match self {
            RegionMemory::Private(region) => Some(step(region.try_lock()?.split().0)),
            RegionMemory::Mapped(region) => {
                let mut words = region.area.try_lock_area(0, region.me).ok()??;
                Some(step(split(&mut words, region.partition).0))
            }
        }
    }
}
