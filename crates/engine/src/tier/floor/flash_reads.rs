//! Reads of pages that are to leave the flash. A flash that gives nothing back is asked again for a while, if
//! its owner has no log: it may be a cable that was out.

use super::Floor;
use super::flash::Flash;
use crate::access::RunState;
use crate::error::flash_error;
use crate::to_disk::ReadsPages;
use crate::{TierError, points, unreadable};
use entresol_device::Io;
use entresol_format::page::PageFault;
use entresol_runtime::{Time, now, sleep};
use std::sync::Arc;
use std::time::Duration;

/// How long a flash that cannot be read is asked again, and how often.
const UNREADABLE_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// See the module's header.
pub(crate) struct FlashReads {
    flash: Arc<Flash>,
    state: Arc<RunState>,
    has_no_log_above: bool,
}

impl FlashReads {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            flash: floor.flash.clone(),
            state: floor.access.state.clone(),
            has_no_log_above: floor.turns.is_some(),
        }
    }

    /// When a page that cannot be read now counts as damaged.
    pub(crate) fn patience(&self) -> Time {
        now() + if self.has_no_log_above { UNREADABLE_MAX } else { Duration::ZERO }
    }

    /// Reads from flash; what cannot be read is a damaged page.
    pub(crate) fn read(&self, batch: &mut [Io<'_>]) -> Result<(), TierError> {
        let mut read = || unreadable::read_batch(&**self.flash, batch);
        let until = now() + UNREADABLE_MAX;
        loop {
            match read() {
                Err(error) if self.has_no_log_above && error.is_unreadable() && now() < until => {
                    points::FLASH_READ_AGAIN.reach();
                    if self.state.is_stopped() {
                        return Err(flash_error(error));
                    }
                    sleep(PAUSE);
                }
                read => return read.map_err(flash_error),
            }
        }
    }

    /// Reads a dirty page once more before it is called lost; one that cannot be read, until `until`.
    pub(crate) fn read_again_until(
        &self,
        (offset, bytes): (u64, &mut [u8]),
        until: Time,
        prove: impl Fn(&[u8]) -> Result<(), PageFault>,
    ) -> Result<Result<(), PageFault>, TierError> {
        loop {
            self.read(&mut [Io::Read { offset, buffer: bytes }])?;
            let proved = prove(bytes);
            let may_return = proved.is_err() && unreadable::has_pattern(bytes);
            if !may_return || now() >= until || self.state.is_stopped() {
                return Ok(proved);
            }
            sleep(PAUSE);
        }
    }
}

/// With patience.
impl ReadsPages for FlashReads {
    fn read_pages(&self, batch: &mut [Io<'_>]) -> Result<(), TierError> {
        self.read(batch)
    }

    fn read_again(
        &self,
        page: (u64, &mut [u8]),
        prove: impl Fn(&[u8]) -> Result<(), PageFault>,
    ) -> Result<Result<(), PageFault>, TierError> {
        self.read_again_until(page, self.patience(), prove)
    }
}
