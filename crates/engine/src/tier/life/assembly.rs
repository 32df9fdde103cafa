//! Puts a tier together, when its open has found everything.

use crate::access::{self, Access, Opened};
use crate::disk::{DiskPages, Home};
use crate::region::Region;
use crate::tier::floor::Ground;
use crate::tier::floor::flash::Flash;
use crate::tier::parts::Parts;
use crate::tier::room::FoundPages;
use crate::tier::slots::directory::SlotDirectory;
use crate::{Sharing, TierError, TierOptions};
use entresol_core::Position;
use entresol_device::Device;
use entresol_format::superblock::Superblock;
use std::sync::Arc;

/// What a tier is opened with.
pub(crate) struct Base<'a> {
    pub flash: Arc<dyn Device>,
    pub home: Arc<dyn Home>,
    pub options: TierOptions,
    /// For fronts in other processes.
    pub sharing: Option<&'a Sharing>,
}

/// Puts a tier together from what is on flash (`superblock`, as last written) and the directory in `region`.
/// The tier is not served to other processes yet.
pub(crate) fn assemble(
    base: Base<'_>,
    superblock: Superblock,
    region: Region,
    found: FoundPages,
) -> Result<Parts, TierError> {
    let Base { flash, home, options, sharing } = base;
    let (first, listed) = match &found {
        FoundPages::Ring(_) => (Position(0), None),
        FoundPages::Slots(slots) => (slots.first, slots.directory.as_ref().map(SlotDirectory::listed)),
    };
    let (page_bytes, page_format, layout) = (options.page_bytes, options.page_format, options.layout());
    let access = Access::new(options, flash.clone(), superblock.stamps(), region, first.0, listed);
    let (access, served, unpublished) = match sharing {
        None => (access, None, None),
        Some(sharing) => {
            let opened = Opened { cache: superblock.cache, epoch: superblock.epoch };
            let (access, served, unpublished) = access::serve(&access, sharing, opened)?;
            (access, Some(served), Some(unpublished))
        }
    };
    let access = Arc::new(access);
    let disk = DiskPages::at_home(home, access.objects.clone(), page_bytes, page_format);
    let flash = Flash::new(flash, layout, access.board.clone());
    let ground = Ground { access, flash, disk, superblock, served };
    Ok(Parts::new(ground, found, unpublished))
}
