//! `entresol detach FLASH DISK`.

use super::storage;
use crate::args::LossArgs;
use crate::failure::Failure;
use crate::output;
use anyhow::Context;
use entresol_engine::TierError;
use std::path::Path;

/// Brings every page that only the flash cache has to its disk, and releases the disk from it.
pub fn run(flash: &Path, disk: &Path, loss: &LossArgs) -> Result<(), Failure> {
    let (flash_shown, disk_shown) = (flash.display(), disk.display());
    let device = storage::open("flash cache", flash)?;
    let below = storage::open("disk", disk)?;
    storage::refuse_volume("detach", flash, &*device, &*below)?;
    let detached = match loss.accept_loss {
        false => entresol_engine::detach(device, below),
        true => entresol_engine::detach_with_loss(device, below),
    };
    if let Err(losing @ TierError::Losing(_)) = &detached {
        return Err(Failure::Check(format!("detaching {flash_shown} from {disk_shown}: {losing}")));
    }
    let report = detached.with_context(|| format!("detaching {flash_shown} from {disk_shown}"))?;
    let mut text: String = report.notices.iter().map(|notice| format!("notice: {notice}\n")).collect();
    let pages = match report.pages_written {
        0 => "no page was newer than disk".to_owned(),
        1 => format!("1 page was written to {disk_shown}"),
        pages => format!("{pages} pages were written to {disk_shown}"),
    };
    text.push_str(&format!(
        "detached cache {}: {pages}, which has everything now; the flash device {flash_shown} may be taken away\n",
        report.cache
    ));
    output::print(&text)
}
