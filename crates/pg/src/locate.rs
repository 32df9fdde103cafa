//! Where blocks are, for a server that reads the flash by itself, and asks for proof of what it has read.

use crate::front::{Process, call};
use crate::locator::locator_of;
use crate::types::{EntFork, EntPlace, code, place};
use entresol_core::PageId;
use entresol_engine::{Place, TierError};

/// Where block `block` is, and for how many blocks from it on, at most `n`, that is so. `reads`: the server
/// reads them there next, and they are counted. Blocks at hand are counted when they are read.
pub(crate) fn locate(fork: &EntFork, block: u32, n: u32, reads: bool, found: &mut EntPlace) -> i32 {
    *found = EntPlace { at: place::DISK, blocks: n, ..EntPlace::default() };
    call(|process| {
        let mut tally = None;
        if let Some((object, of_object)) = process.object(&locator_of(fork))? {
            tally = of_object;
            *found = process.place(object.page(block), n, reads)?;
        }
        match found.at {
            place::DISK if reads => process.count_misses(fork, block, found.blocks, tally),
            place::FLASH if reads => process.count_async_hits(found.blocks, tally),
            _ => {}
        }
        Ok(code::DONE)
    })
}

/// What the server has read of `block` where it was located is not the block.
pub(crate) fn reject(fork: &EntFork, block: u32) -> i32 {
    call(|process| {
        process.board.async_rejected.add(1);
        let object = process.object(&locator_of(fork))?;
        process.rejected.set(object.map(|(object, _)| object.page(block)));
        Ok(code::DONE)
    })
}

impl Process {
    /// Where `first` is, and how many pages with it. A page that was rejected is at hand, once.
    fn place(&self, first: PageId, n: u32, reads: bool) -> Result<EntPlace, TierError> {
        if reads && self.rejected.take() == Some(first) {
            return Ok(EntPlace { at: place::AT_HAND, blocks: 1, ..EntPlace::default() });
        }
        let (found, blocks) = self.front.locate(first, n, reads)?;
        let nowhere = EntPlace { blocks, ..EntPlace::default() };
        Ok(match (found, self.flash) {
            (Place::OnDisk, _) => EntPlace { at: place::DISK, ..nowhere },
            (Place::Flash { offset, stamp }, Some((descriptor, is_direct))) => EntPlace {
                at: place::FLASH,
                blocks,
                descriptor,
                object: first.object(),
                offset,
                stamp,
                is_direct,
            },
            (Place::Staged, _) | (Place::Flash { .. }, None) => EntPlace { at: place::AT_HAND, ..nowhere },
        })
    }
}
