//! The flat region that a table lives in, and its attachment. All links are indices, so a region may be
//! mapped at any address, moved, or shared between processes.
//!
//! | section | entries | bytes each |
//! |---|---|---|
//! | header | 1 | `size_of::<Header>()` |
//! | objects | objects | 64 |
//! | hash buckets | an object's half | 4 |
//! | log buffers | 8 | 4096 |

use crate::blocks::Block;
use crate::config::{ConfigError, ObjectsConfig};
use crate::entry::{Entry, NIL};
use crate::log::LogHead;
use crate::table::{Objects, TableHead};
use entresol_format::Uuid;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "ENTROBJ", then the version of the region's layout.
const MAGIC: u64 = u64::from_le_bytes(*b"ENTROBJ1");
/// Log blocks that the region has room for: changes that are not written yet.
pub const LOG_BUFFERS: usize = 8;

/// The configuration, and the scalars of the parts.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: u64,
    cache: Uuid,
    objects_max: u32,
    log_blocks: u32,
    table: TableHead,
    log: LogHead,
}

const fn buckets(config: &ObjectsConfig) -> usize {
    config.objects_max.div_ceil(2) as usize
}

/// Bytes of the region of a table with this configuration.
pub const fn region_bytes(config: &ObjectsConfig) -> usize {
    let bytes = size_of::<Header>()
        + config.objects_max as usize * size_of::<Entry>()
        + buckets(config) * size_of::<u32>()
        + LOG_BUFFERS * size_of::<Block>();
    bytes.next_multiple_of(8)
}

/// The proof that a region holds a table, and of which configuration: made once, and then carried by the
/// process that attaches to that region again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    config: ObjectsConfig,
    /// Length of the region.
    bytes: usize,
}

impl Shape {
    /// Proves that `region` holds a table.
    ///
    /// # Errors
    /// [`ConfigError`]: it does not, or not one of this version.
    pub fn of(region: &[u8]) -> Result<Self, ConfigError> {
        aligned(region)?;
        let found = region.len();
        let short = ConfigError::RegionSize { expected: size_of::<Header>(), found };
        let (head, _) = Header::ref_from_prefix(region).map_err(|_| short)?;
        if head.magic != MAGIC {
            return Err(ConfigError::Magic { expected: MAGIC, found: head.magic });
        }
        let Header { cache, objects_max, log_blocks, .. } = *head;
        let config = ObjectsConfig { cache, objects_max, log_blocks };
        config.validate()?;
        sized(region, &config)?;
        Ok(Self { config, bytes: found })
    }

    /// The configuration of the table.
    pub const fn config(&self) -> ObjectsConfig {
        self.config
    }
}

fn aligned(region: &[u8]) -> Result<(), ConfigError> {
    if region.as_ptr().addr().is_multiple_of(align_of::<Header>()) {
        return Ok(());
    }
    Err(ConfigError::Alignment { expected: align_of::<Header>() })
}

fn sized(region: &[u8], config: &ObjectsConfig) -> Result<(), ConfigError> {
    let (expected, found) = (region_bytes(config), region.len());
    if found == expected {
        return Ok(());
    }
    Err(ConfigError::RegionSize { expected, found })
}

impl<'r> Objects<'r> {
    /// Makes an empty table in `region`, which is aligned to 8 bytes and [`region_bytes`] long. Its first
    /// snapshot is pending.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration is impossible, or the region does not fit it.
    pub fn format(region: &'r mut [u8], config: &ObjectsConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        sized(region, config)?;
        aligned(region)?;
        region.fill(0);
        let (head, _) =
            Header::mut_from_prefix(region).expect("the region is longer than its header and aligned");
        head.magic = MAGIC;
        (head.cache, head.objects_max, head.log_blocks) =
            (config.cache, config.objects_max, config.log_blocks);
        head.table.format();
        head.log.format();
        let objects = Self::attach_to(region, &Shape { config: *config, bytes: region_bytes(config) });
        objects.buckets.fill(NIL);
        Ok(objects)
    }

    /// Attaches to a table made by [`Objects::format`], by whatever process, at whatever address.
    ///
    /// # Errors
    /// [`ConfigError`]: the region does not hold a table, or not one of this version.
    pub fn attach(region: &'r mut [u8]) -> Result<Self, ConfigError> {
        let shape = Shape::of(region)?;
        Ok(Self::attach_to(region, &shape))
    }

    /// Attaches to the region of which `shape` was taken. The region's configuration is not read again.
    ///
    /// # Panics
    /// If the region has another length or alignment.
    pub fn attach_to(region: &'r mut [u8], shape: &Shape) -> Self {
        let found = region.len();
        assert!(found == shape.bytes, "a region of {} bytes has {found} now", shape.bytes);
        let config = shape.config;
        let long_enough = "the region is as long as its sections and aligned";
        let (head, rest) = Header::mut_from_prefix(region).expect(long_enough);
        let (entries, rest) =
            <[Entry]>::mut_from_prefix_with_elems(rest, config.objects_max as usize).expect(long_enough);
        let (buckets, rest) = <[u32]>::mut_from_prefix_with_elems(rest, buckets(&config)).expect(long_enough);
        let (buffers, _) = <[Block; LOG_BUFFERS]>::mut_from_prefix(rest).expect(long_enough);
        let Header { table, log, .. } = head;
        Self { config, table, log, entries, buckets, buffers }
    }
}
