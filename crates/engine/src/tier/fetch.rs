//! What a fetch does that the front cannot: it reads the disk, and deals with damage.

use super::back::Back;
use crate::api::{Fetched, Source, Victim};
use crate::front::{Found, Offered, Read, ReadTicket};
use crate::{TierError, points};
use entresol_core::{PageId, mutant};

impl Back {
    pub(crate) fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.disk.check_length(buffer)?;
        match self.look_up(page, buffer)? {
            Found::Here(fetched) => Ok(fetched),
            Found::OnDisk(ticket) => self.fetch_from_disk(page, ticket, buffer),
            Found::Damaged { place, fault, dirty, .. }
                if dirty && !mutant!("damaged-dirty-page-read-from-disk") =>
            {
                points::FETCH_DAMAGED_DIRTY.reach();
                Err(TierError::Damaged { page, place, fault })
            }
            Found::Damaged { ticket, copy, .. } => {
                points::FETCH_DAMAGED_CLEAN.reach();
                self.front.tallies().damaged_clean.add(1);
                self.fetch_past_damage(page, Read { ticket, past: Some(copy) }, buffer)
            }
        }
    }

    fn fetch_from_disk(
        &self,
        page: PageId,
        ticket: ReadTicket,
        buffer: &mut [u8],
    ) -> Result<Fetched, TierError> {
        self.disk.read(page, buffer)?;
        self.front.tallies().disk_reads.add(1);
        self.front.populate(page, ticket, buffer)?;
        self.look_at_budget();
        Ok(Fetched { source: Source::Disk, dirty: false, fdirty: false })
    }

    /// The clean copy on flash cannot be read: the disk serves. In write-through mode it may even be newer:
    /// when power fails between the write of a page to disk and that of its group, the copy before comes back
    /// as clean. So that it never follows what is served now, should it become readable again, the page
    /// enters the flash anew, durably.
    fn fetch_past_damage(&self, page: PageId, read: Read, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        let fetched = self.fetch_from_disk(page, read.ticket, buffer)?;
        if self.is_log() {
            let lsn = self.front.options.page_format.lsn(buffer);
            let victim = Victim { page, lsn, dirty: false, fdirty: true };
            if self.front.take_read(victim, read, buffer)? == Offered::Taken {
                self.drain()?;
            }
        }
        Ok(fetched)
    }
}
