//! Dirty pages of which nothing says how much of the owner's log they need: both summaries of their group are
//! damaged, and they were found by their own headers.
//!
//! Such a page may have been copied to disk before the log was cut. It must not be written there again: were
//! that write torn, and the flash lost, the log would have no image of the page. So the disk is asked: a page
//! that it has is clean. One that it lacks needs the log from the horizon on at most, as every dirty page
//! does, and its first change from there on has an image.

use super::Restored;
use crate::TierOptions;
use crate::buffer::AlignedBuffer;
use crate::disk::{DiskPages, Home};
use entresol_core::{Generation, Lookup, Lsn, PageId, Position};
use entresol_format::page;
use std::sync::Arc;

/// A page that is recorded as dirty, without a base.
pub(crate) struct UnsurePage {
    pub position: Position,
    pub page: PageId,
    /// The log sequence number in its header.
    pub lsn: Lsn,
}

impl Restored {
    /// Unsure pages that the disk has durably are clean from now on. Others stay dirty, those that cannot be
    /// read on disk, too. Returns how many are clean.
    pub(crate) fn ask_disk_for_unsure(&mut self, home: &Arc<dyn Home>, options: &TierOptions) -> u64 {
        let mut partition = self.region.partition();
        let is_newest = |unsure: &UnsurePage, found: Lookup| {
            let at = Generation::Exact(unsure.position);
            matches!(found, Lookup::Flash { generation, dirty: true, .. } if generation == at)
        };
        self.unsure.retain(|unsure| is_newest(unsure, partition.peek(unsure.page)));
        if self.unsure.is_empty() {
            return 0;
        }
        let disk =
            DiskPages::at_home(home.clone(), self.names.clone(), options.page_bytes, options.page_format);
        // A program that was killed may have left writes that are not durable.
        if disk.sync().is_err() {
            return 0;
        }
        let mut clean = 0;
        let mut buffer = AlignedBuffer::new(options.page_bytes as usize);
        for UnsurePage { position, page, lsn } in self.unsure.drain(..) {
            let is_there = disk.read(page, &mut buffer).is_ok() && page::lsn(&buffer) >= lsn;
            if let Some(log) = partition.log_mut().filter(|_| is_there) {
                log.restored_clean_at(position);
                clean += 1;
            }
        }
        clean
    }
}
