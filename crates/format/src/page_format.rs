//! Whose pages a cache holds, and what proves a page that is read back from flash. Nothing unproved is
//! served.
//!
//! | format | for | proof |
//! |---|---|---|
//! | native | the store | the header inside the page ([`crate::page`]) |
//! | raw | any bytes of an owner | a checksum of page, page id and stamp, kept outside of the page |
//! | postgres | PostgreSQL's pages | such a checksum, in two fields of the page ([`crate::postgres`]) |
//!
//! A raw page has no room for a header. Its checksum is in the slot's entry in memory, in the summary of its
//! group and in the directory segment. It is keyed with page id and stamp, so that equal bytes of another
//! page or of another version have another checksum. With slot placement it is keyed with the id alone, since
//! the directory in memory does not keep whole positions. PostgreSQL's pages, which have no room for more
//! than a checksum, have it outside as well then.

use crate::checksum;
use crate::page::{self, PageFault};
use crate::postgres;
use entresol_core::{Lsn, PageId, Placement, Position};
use zerocopy::IntoBytes;

/// See the module's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PageFormat {
    /// Pages with our header.
    #[default]
    Native = 0,
    /// Any bytes of an owner, without our header.
    Raw = 1,
    /// Pages of a PostgreSQL cluster without checksums.
    Postgres = 2,
    /// Pages of a PostgreSQL cluster with checksums.
    PostgresChecksums = 3,
}

impl PageFormat {
    /// All of them.
    pub const ALL: [PageFormat; 4] =
        [PageFormat::Native, PageFormat::Raw, PageFormat::Postgres, PageFormat::PostgresChecksums];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            PageFormat::Native => "native",
            PageFormat::Raw => "raw",
            PageFormat::Postgres => "postgres",
            PageFormat::PostgresChecksums => "postgres-checksums",
        }
    }

    /// The format with this code on flash.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|format| *format as u32 == code)
    }

    /// Whether checksums are kept outside of the pages.
    pub const fn keeps_proofs(self, placement: Placement) -> bool {
        match (self, placement) {
            (PageFormat::Native, _) => false,
            (PageFormat::Raw, _) | (_, Placement::Slots) => true,
            (PageFormat::Postgres | PageFormat::PostgresChecksums, Placement::Log) => false,
        }
    }

    /// Whether a page on flash says which page and version it is, if its group's summary is lost.
    pub const fn names_itself(self) -> bool {
        matches!(self, PageFormat::Native)
    }

    /// Whether no owner keeps the order of work on a page, or has a log that repairs differences between disk
    /// and flash after a power failure.
    pub const fn has_no_owner_with_a_log(self) -> bool {
        matches!(self, PageFormat::Raw)
    }

    /// The bytes that pages of this format have, if not any.
    pub const fn page_bytes(self) -> Option<usize> {
        match self {
            PageFormat::Native | PageFormat::Raw => None,
            PageFormat::Postgres | PageFormat::PostgresChecksums => Some(postgres::PAGE_BYTES),
        }
    }

    /// Whether a page with this content can be proved. If not, it belongs on disk only.
    pub fn takes(self, bytes: &[u8]) -> bool {
        match self {
            PageFormat::Native | PageFormat::Raw => true,
            PageFormat::Postgres | PageFormat::PostgresChecksums => postgres::is_possible(bytes),
        }
    }

    /// Completes the copy of a page that is written to flash. Returns its checksum.
    pub fn seal(self, bytes: &mut [u8], id: PageId, stamp: Position) -> u32 {
        match self {
            PageFormat::Native => {
                page::seal(bytes, id, stamp);
                page::header(bytes).checksum.get()
            }
            PageFormat::Raw => raw_checksum(bytes, id, stamp),
            PageFormat::Postgres | PageFormat::PostgresChecksums => postgres::seal(bytes, id, stamp),
        }
    }

    /// Restores the owner's bytes of a proved page, for the owner or the disk.
    pub fn unseal(self, bytes: &mut [u8], id: PageId) {
        match self {
            PageFormat::Native | PageFormat::Raw => {}
            PageFormat::Postgres => postgres::restore(bytes, id, false),
            PageFormat::PostgresChecksums => postgres::restore(bytes, id, true),
        }
    }

    /// Completes the copy of its owner's page that is written to disk.
    pub fn seal_for_disk(self, bytes: &mut [u8], id: PageId) {
        match self {
            PageFormat::Native => page::seal(bytes, id, Position(0)),
            PageFormat::Raw | PageFormat::Postgres => {}
            // A new page has none.
            PageFormat::PostgresChecksums if !postgres::is_possible(bytes) => {}
            PageFormat::PostgresChecksums => postgres::set_checksum(bytes, id, true),
        }
    }

    /// As [`PageFormat::verify`], with the checksum that the page itself has; of formats whose pages have
    /// one.
    ///
    /// # Errors
    /// The fault.
    pub fn verify_alone(self, bytes: &[u8], id: PageId, stamp: Position) -> Result<(), PageFault> {
        let proof = match self {
            PageFormat::Native => page::header(bytes).checksum.get(),
            PageFormat::Raw => unreachable!("a raw page has no checksum"),
            PageFormat::Postgres | PageFormat::PostgresChecksums => postgres::proof(bytes),
        };
        self.verify(bytes, id, stamp, proof)
    }

    /// Proves that `bytes` are page `id` in the version of `stamp`, whose checksum is `proof`.
    ///
    /// # Errors
    /// The fault.
    pub fn verify(self, bytes: &[u8], id: PageId, stamp: Position, proof: u32) -> Result<(), PageFault> {
        match self {
            PageFormat::Native => {
                page::verify(bytes, id, Some(stamp))?;
                let found = page::header(bytes).checksum.get();
                if found != proof {
                    return Err(PageFault::Checksum { expected: proof, found });
                }
            }
            PageFormat::Raw => {
                let found = raw_checksum(bytes, id, stamp);
                if found != proof {
                    return Err(PageFault::Checksum { expected: proof, found });
                }
            }
            PageFormat::Postgres | PageFormat::PostgresChecksums => {
                let found = postgres::sum_of(bytes, id, stamp);
                if let Some(expected) = [proof, postgres::proof(bytes)].into_iter().find(|sum| *sum != found)
                {
                    return Err(PageFault::Checksum { expected, found });
                }
            }
        }
        Ok(())
    }

    /// Whether `bytes`, which were read from flash, are page `id` in the version of `stamp`; of formats whose
    /// pages have their checksum. If so, they are then the owner's again.
    pub fn prove_and_unseal(self, bytes: &mut [u8], id: PageId, stamp: Position) -> bool {
        let is_proved = self.verify_alone(bytes, id, stamp).is_ok();
        if is_proved {
            self.unseal(bytes, id);
        }
        is_proved
    }

    /// LSN of the newest change in the page; 0 for pages without.
    pub fn lsn(self, bytes: &[u8]) -> Lsn {
        match self {
            PageFormat::Native => page::lsn(bytes),
            PageFormat::Raw => Lsn(0),
            PageFormat::Postgres | PageFormat::PostgresChecksums => postgres::lsn(bytes),
        }
    }
}

/// CRC32C of page id and stamp, then of the page.
fn raw_checksum(bytes: &[u8], id: PageId, stamp: Position) -> u32 {
    let key = [id.0.to_le(), stamp.0.to_le()];
    checksum::append(checksum::of(key.as_bytes()), bytes)
}
