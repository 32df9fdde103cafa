//! Where blocks are, for a server that reads the flash by itself, and asks for proof of what it has read.

use crate::front::{Process, call};
use crate::locator::locator_of;
use crate::memory::ObjectTally;
use crate::types::{EntFork, EntPlace, code, place};
use entresol_engine::Place;

/// Where block `block` is, and for how many blocks from it on, at most `n`, that is so. `reads`: the server
/// reads them there next, and they are counted.
pub(crate) fn locate(fork: &EntFork, block: u32, n: u32, reads: bool, found: &mut EntPlace) -> i32 {
    *found = EntPlace { at: place::DISK, blocks: n, ..EntPlace::default() };
    call(|process| {
        let mut tallies = None;
        if let Some((object, tally)) = process.object(&locator_of(fork))? {
            tallies = tally;
            let first = object.page(block);
            if reads && process.rejected.take() == Some(first) {
                (found.at, found.blocks) = (place::AT_HAND, 1);
                return Ok(code::DONE);
            }
            let (at, blocks) = process.front.locate(first, n, reads)?;
            (found.object, found.blocks) = (first.object(), blocks);
            match (at, process.flash) {
                (Place::OnDisk, _) => {}
                (Place::Flash { offset, stamp }, Some((descriptor, is_direct))) => {
                    let blocks = found.blocks;
                    *found =
                        EntPlace { at: place::FLASH, descriptor, offset, stamp, is_direct, blocks, ..*found };
                }
                (Place::Staged, _) | (Place::Flash { .. }, None) => found.at = place::AT_HAND,
            }
        }
        if reads {
            process.count(found, tallies);
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
    /// Counts blocks that the server reads where they were located. Those at hand are counted when they are
    /// read.
    fn count(&self, found: &EntPlace, object: Option<&ObjectTally>) {
        let blocks = found.blocks.into();
        match found.at {
            place::DISK => {
                self.board.misses.add(blocks);
                self.tally.misses.add(blocks);
                object.inspect(|tally| tally.misses.add(blocks));
            }
            place::FLASH => {
                self.board.async_hits.add(blocks);
                self.tally.hits.add(blocks);
                object.inspect(|tally| tally.hits.add(blocks));
            }
            _ => {}
        }
    }
}
