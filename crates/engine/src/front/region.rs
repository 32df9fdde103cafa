//! The memory of the directory: the core's partition, and behind it the table of objects, if there is one.
//! One latch guards both, so a look-up and the question whether its page is dead are one step.

use crate::{TierError, TierOptions};
use entresol_core::{Partition, region_bytes};
use entresol_format::Uuid;
use entresol_objects::{Objects, ObjectsConfig};
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

impl Region {
    /// An empty directory, and an empty table of objects of `cache`.
    pub(crate) fn new(options: &TierOptions, cache: Uuid) -> Result<Self, TierError> {
        let config = |error: &dyn std::fmt::Display| TierError::Config(error.to_string());
        let partition = region_bytes(&options.config()).div_ceil(8);
        let objects = objects_config(options, cache);
        let table = objects.map_or(0, |objects| entresol_objects::region_bytes(&objects).div_ceil(8));
        let mut region = Self { words: vec![0; partition + table], partition };
        let (partition, table) = region.split();
        Partition::format(partition, &options.config()).map_err(|error| config(&error))?;
        if let Some(objects) = objects {
            Objects::format(table, &objects).map_err(|error| config(&error))?;
        }
        Ok(region)
    }

    /// The bytes of the partition, and of the table of objects, which may be none.
    pub(crate) fn split(&mut self) -> (&mut [u8], &mut [u8]) {
        let (partition, table) = self.words.split_at_mut(self.partition);
        (partition.as_mut_bytes(), table.as_mut_bytes())
    }

    /// The partition.
    ///
    /// # Panics
    /// If the region is not that of a partition any more.
    pub(crate) fn partition(&mut self) -> Partition<'_> {
        Partition::attach(self.split().0).expect("the region was formatted as a partition")
    }
}
