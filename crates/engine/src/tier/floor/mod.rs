//! The floor of a tier: the devices and the access to the cache, and what a ring and slots both need. Nothing
//! here knows which of the two stands above.
//!
//! | file | what it does |
//! |---|---|
//! | `flash` | the flash device, its syncs and its layout |
//! | `superblocks` | writes superblocks, and knows what the copies on flash record |
//! | `renewals` | renews the disk's label, for an owner with a log |
//! | `causes` | makes durable what makes forgotten pages dead |
//! | `object_log` | the table of objects on flash |
//! | `failures` | decides what follows the failure of a device, and wakes all waiters |
//! | `disk_trouble` | a disk that refuses writes |
//! | `lost` | pages whose only copy on flash cannot be read |
//! | `above` | the buffer pool above |
//! | `budget` | the owner's budget of writes to flash |
//! | `disk_writes` | writes of callers to disk, and their sync |
//! | `destager` | writes of destaged pages to disk |
//! | `entry` | offers a page to the flash, and writes it to disk if it does not enter |
//! | `turns` | the turns of the writers of a page, if there is no log above |
//! | `staged`, `flush` | wait until staging is on flash; `flush` carries out writes for that |
//! | `confirmer` | telling a flush from a torn one |
//! | `flash_reads` | reads of pages that leave a flash which may be unreadable for a while |
//! | `writers`, `background` | the loops of the tasks that carry jobs out |
//! | `checkpointer` | checkpoints, but for what placements make durable |
//! | `wanted` | flash → disk before its turn, for the owner |
//! | `horizon` | how much of the owner's log replaces a lost flash |
//! | `writeback` | the same by itself: old pages, an idle cache, too many dirty pages |
//! | `dirt` | how many pages may be dirty, and whether the label says that there are any |

pub(crate) mod above;
pub(crate) mod background;
pub(crate) mod budget;
pub(crate) mod causes;
pub(crate) mod checkpointer;
pub(crate) mod confirmer;
pub(crate) mod destager;
pub(crate) mod dirt;
pub(crate) mod disk_trouble;
pub(crate) mod disk_writes;
pub(crate) mod entry;
pub(crate) mod failures;
pub(crate) mod flash;
pub(crate) mod flash_reads;
pub(crate) mod flush;
pub(crate) mod horizon;
pub(crate) mod lost;
pub(crate) mod object_log;
pub(crate) mod renewals;
pub(crate) mod staged;
pub(crate) mod superblocks;
pub(crate) mod turns;
pub(crate) mod wanted;
pub(crate) mod writeback;
pub(crate) mod writers;

use crate::access::{Access, ServedSegment};
use crate::disk::{DiskPages, DurableNotes};
use above::Above;
use budget::WriteBudget;
use causes::Causes;
use checkpointer::{Checkpointer, MakeDurable};
use destager::Destager;
use dirt::Dirt;
use disk_trouble::DiskTrouble;
use disk_writes::DiskWrites;
use entry::Entry;
use failures::{Failing, Failures};
use flash::Flash;
use lost::LostPages;
use object_log::ObjectLog;
use renewals::Renewals;
use staged::StagedPages;
use std::sync::Arc;
use superblocks::Superblocks;
use turns::Turns;

/// See the module's header. The parts are shared with those above.
pub(crate) struct Floor {
    pub access: Arc<Access>,
    pub flash: Arc<Flash>,
    pub disk: Arc<DiskPages>,
    pub superblocks: Arc<Superblocks>,
    pub renewals: Arc<Renewals>,
    pub causes: Arc<Causes>,
    pub objects: Arc<ObjectLog>,
    pub failures: Arc<Failures>,
    pub trouble: Arc<DiskTrouble>,
    pub dirt: Arc<Dirt>,
    pub lost: Arc<LostPages>,
    pub budget: Arc<WriteBudget>,
    pub disk_writes: Arc<DiskWrites>,
    pub destager: Arc<Destager>,
    pub entry: Arc<Entry>,
    pub staged: Arc<StagedPages>,
    /// Pages written to disk, for the buffer pool's log: destaged from slots, or kept out.
    pub notes: Arc<DurableNotes>,
    /// Of a cache of raw pages: no log above orders their writes, or settles what a crash finds of them.
    pub turns: Option<Arc<Turns>>,
    pub upstream: Arc<Above>,
    /// What fronts in other processes share with this tier, if there may be any.
    pub served: Option<Arc<ServedSegment>>,
}

/// What a floor is made of.
pub(crate) struct Ground {
    pub access: Arc<Access>,
    pub flash: Flash,
    pub disk: DiskPages,
    /// As last written, to all copies.
    pub superblock: entresol_format::superblock::Superblock,
    pub served: Option<ServedSegment>,
}

impl Floor {
    pub(crate) fn new(ground: Ground) -> Self {
        let Ground { access, flash, disk, superblock, served } = ground;
        let (flash, disk) = (Arc::new(flash), Arc::new(disk));
        let (page_format, cache) = (access.options.page_format, superblock.cache);
        let has_no_log_above = page_format.has_no_owner_with_a_log();
        let can_go_on = has_no_log_above && access.options.objects == 0;
        let failing = can_go_on.then(Failing::default).map(Arc::new);
        let served = served.map(Arc::new);
        let upstream = Arc::new(Above::default());
        let notes = Arc::new(DurableNotes::default());
        let superblocks = Arc::new(Superblocks::new(&access, &flash, &disk, superblock));
        let renewals = Arc::new(Renewals::new(&disk, &superblocks));
        let causes = Arc::new(Causes::new(&access, &disk));
        let trouble = Arc::new(DiskTrouble::new(&access));
        let failures =
            Arc::new(Failures::new(&access, &disk, &causes, &trouble, failing, served.clone(), cache));
        let budget = Arc::new(WriteBudget::new(&access));
        let disk_writes = Arc::new(DiskWrites::new(&access, &disk, &causes, &trouble));
        let objects = Arc::new(ObjectLog::new(&access, &flash, &renewals, cache));
        Self {
            dirt: Arc::new(Dirt::new(&access, &disk, &causes, &failures)),
            lost: Arc::new(LostPages::new(&access, &disk, &objects, &failures)),
            objects,
            destager: Arc::new(Destager::new(&access, &disk, &trouble, &upstream)),
            entry: Arc::new(Entry::new(&access, &disk, &disk_writes, &budget, &notes, &upstream)),
            staged: Arc::new(StagedPages::new(&access, &causes)),
            turns: has_no_log_above.then(Turns::default).map(Arc::new),
            access,
            flash,
            disk,
            superblocks,
            renewals,
            causes,
            failures,
            trouble,
            budget,
            disk_writes,
            notes,
            upstream,
            served,
        }
    }

    /// Checkpoints in which `placement` makes durable what is on flash.
    pub(crate) fn checkpointer(&self, placement: impl MakeDurable + 'static) -> Arc<Checkpointer> {
        let Self { access, disk, staged, failures, .. } = self;
        Arc::new(Checkpointer::new(access, disk, staged, failures, Box::new(placement)))
    }
}
