//! Compares a page on flash with its copy on disk: which of both is newer, and whether a clean one is
//! the same.

use super::report::CheckReport;
use crate::TierError;
use crate::disk::DiskPages;
use entresol_core::PageId;
use entresol_format::superblock::Superblock;

/// A page that is whole on flash.
pub(super) struct OnFlash<'a> {
    /// Its id.
    pub id: PageId,
    /// It is newer than the disk's.
    pub dirty: bool,
    /// Its bytes, as they are on flash.
    pub bytes: &'a [u8],
}

/// Reports how the page and its copy on disk disagree. `disk_page` is overwritten.
pub(super) fn compare_with_disk(
    superblock: &Superblock,
    disk: &DiskPages,
    page: &OnFlash<'_>,
    disk_page: &mut [u8],
    report: &mut CheckReport,
) -> Result<(), TierError> {
    let OnFlash { id, dirty, bytes } = *page;
    report.disk_pages += 1;
    let page_format = superblock.page_format;
    if !page_format.names_itself() {
        disk.read(id, disk_page)?;
        let mut bytes = bytes.to_vec();
        page_format.unseal(&mut bytes, id);
        if page_format.takes(disk_page) {
            page_format.unseal(disk_page, id);
        }
        if !dirty && disk_page != bytes {
            report.fault(format!("page {id} counts as clean, but is another one on disk"));
        }
        return Ok(());
    }
    let on_flash = page_format.lsn(bytes).0;
    match disk.read(id, disk_page) {
        Err(error @ TierError::Device { .. }) => return Err(error),
        // The newer version on flash repairs it.
        Err(_) if dirty => {}
        Err(error) => report.fault(format!("page {id} is clean on flash, but {error}")),
        Ok(()) => {
            let on_disk = page_format.lsn(disk_page).0;
            if dirty && on_disk > on_flash && !superblock.clean {
                report.older_than_disk += 1;
            } else if on_disk > on_flash || (!dirty && on_disk != on_flash) {
                let state = if dirty { "newer than disk" } else { "the same as on disk" };
                report.fault(format!(
                    "page {id} on flash counts as {state}, but its LSN is {on_flash} there and {on_disk} on disk"
                ));
            }
        }
    }
    Ok(())
}
