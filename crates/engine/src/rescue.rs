//! Pages of which the flash has failed, and the disk lacks the newest version.

use entresol_core::PageId;

/// Reads such pages, from memory or from what is left of the flash.
pub(crate) trait Rescue: Send + Sync {
    /// Reads `page` into `buffer`, proved.
    ///
    /// # Errors
    /// Why it cannot be read, for a message.
    fn rescue(&self, page: PageId, buffer: &mut [u8]) -> Result<(), String>;
}
